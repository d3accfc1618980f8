//! Warnings about a file that is imported: what it lacks, and what will surprise an operator at the
//! first pass. They change nothing and refuse nothing.

use std::collections::HashSet;

use crate::manifest::Manifests;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;

use crate::commands::count_of;

/// What an operator should know of the file before the first pass.
pub fn describe_gaps(manifests: &Manifests) -> Vec<String> {
    let mut warnings = Vec::new();
    let empty_secret_count = count_matching(manifests, is_empty_secret);
    if empty_secret_count > 0 {
        warnings.push(format!(
            "the file lacks the values of {}; `poolctl export FILE --include-secrets` writes them",
            count_of(empty_secret_count, "secret")
        ));
    }
    let unproved_count = count_matching(manifests, is_without_proof);
    if unproved_count > 0 {
        warnings.push(format!(
            "InfraEnvs and agents whose tokens and secrets the file lacks: {unproved_count}; their \
             images admit no hosts, and reports of their hosts are refused; `poolctl export FILE \
             --include-secrets` writes the tokens and secrets"
        ));
    }
    if manifests.records_left_out > 0 {
        warnings.push(format!(
            "jobs and events that are skipped because poolctl does not keep their kinds: {}",
            manifests.records_left_out
        ));
    }
    warnings.extend(describe_broken_links(manifests));
    warnings
}

fn count_matching(manifests: &Manifests, matches: fn(&Object) -> bool) -> usize {
    manifests.objects.iter().filter(|object| matches(object)).count()
}

/// Whether a document of a Secret has no values, as exports have them unless they are asked for
/// them.
fn is_empty_secret(object: &Object) -> bool {
    match object {
        Object::Secret(secret) => secret.data.is_none() && secret.string_data.is_none(),
        _ => false,
    }
}

/// Whether hosts cannot prove themselves to it, or it cannot prove itself. Few files have the
/// tokens and secrets that are needed for that.
fn is_without_proof(object: &Object) -> bool {
    match object {
        Object::InfraEnv(infra_env) => {
            infra_env.status.created_time.is_some() && infra_env.status.tokens.is_empty()
        }
        Object::Agent(agent) => {
            agent.status.secret_hash.is_none() && !agent.status.found_by_controller
        }
        _ => false,
    }
}

/// Claims and clusters that name each other, if the file has only one of the two.
fn describe_broken_links(manifests: &Manifests) -> Vec<String> {
    let mut claims: HashSet<Key> = HashSet::new();
    let mut clusters: HashSet<String> = HashSet::new();
    for object in &manifests.objects {
        match object.kind() {
            Kind::ClusterClaim => {
                claims.insert(object.key());
            }
            Kind::ClusterDeployment => {
                clusters.insert(object.key().name);
            }
            _ => {}
        }
    }
    let mut warnings = Vec::new();
    for object in &manifests.objects {
        match object {
            Object::ClusterDeployment(cluster)
                if cluster.claim_key().is_some_and(|key| !claims.contains(&key)) =>
            {
                let claim = cluster.claim.as_deref().unwrap_or_default();
                warnings.push(format!(
                    "cluster {} is held by claim {claim}, which is not in the file",
                    cluster.name
                ));
            }
            Object::ClusterClaim(claim)
                if claim.cluster.as_ref().is_some_and(|name| !clusters.contains(name)) =>
            {
                let cluster = claim.cluster.as_deref().unwrap_or_default();
                warnings.push(format!(
                    "claim {} has cluster {cluster}, which is not in the file",
                    claim.name
                ));
            }
            _ => {}
        }
    }
    warnings
}
