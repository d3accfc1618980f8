//! Warnings about a file that is imported: what it lacks, and what will surprise an operator at the
//! first pass. They change nothing and refuse nothing.

use std::collections::{BTreeMap, HashSet};

use crate::manifest::{Manifests, Spool};
use crate::model::address::Addr;
use crate::model::ip_pool::IpPool;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::render::cluster_dns::{applied_addresses, patched_addresses};

use crate::commands::count_of;

/// What an operator should know of the file before the first pass. A large file has its leases in a
/// spool.
pub fn describe_gaps(manifests: &Manifests, spool: Option<&Spool>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut empty_secrets = count_matching(manifests, is_empty_secret);
    empty_secrets.exported += spool.map_or(0, |spool| spool.clusters.empty_secret_count);
    if empty_secrets.exported > 0 {
        warnings.push(format!(
            "the file lacks the values of {}; an export with --include-secrets has them",
            count_of(empty_secrets.exported, "secret")
        ));
    }
    if empty_secrets.of_server > 0 {
        let secrets = count_of(empty_secrets.of_server, "secret");
        warnings.push(format!("the file has {secrets} without any value"));
    }
    let unproved_objects = count_matching(manifests, is_without_proof);
    if unproved_objects.exported > 0 {
        warnings.push(format!(
            "InfraEnvs and agents whose tokens and secrets the file lacks: {}; their images admit \
             no hosts, and reports of their hosts are refused; `poolctl export FILE \
             --include-secrets` writes the tokens and secrets",
            unproved_objects.exported
        ));
    }
    if unproved_objects.of_server > 0 {
        warnings.push(format!(
            "InfraEnvs and agents of assisted-service: {}; its images and hosts do not report \
             here: make new images with `poolctl infraenv iso`, and boot the hosts from them",
            unproved_objects.of_server
        ));
    }
    if manifests.records_left_out > 0 {
        warnings.push(format!(
            "jobs and events that are skipped because poolctl does not keep their kinds: {}",
            manifests.records_left_out
        ));
    }
    // Whoever puts clusters aside has seen that each link has both ends, of which one may be here.
    if !spool.is_some_and(|spool| spool.clusters.has_any()) {
        warnings.extend(describe_broken_links(manifests));
    }
    warnings.extend(describe_unleased_addresses(manifests, spool));
    warnings
}

/// How many objects of a file match, by who has written them down.
#[derive(Default)]
struct MatchCounts {
    /// Those that a server of Kubernetes has printed.
    of_server: usize,
    /// All others: poolctl has exported them, or a person has written them.
    exported: usize,
}

fn count_matching(manifests: &Manifests, matches: fn(&Object) -> bool) -> MatchCounts {
    let mut counts = MatchCounts::default();
    for object in manifests.objects.iter().filter(|object| matches(object)) {
        if manifests.server_objects.contains(&(object.kind(), object.key())) {
            counts.of_server += 1;
        } else {
            counts.exported += 1;
        }
    }
    counts
}

/// Whether a document of a Secret has no values, as exports have them unless they are asked for
/// them.
pub fn is_empty_secret(object: &Object) -> bool {
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

/// Addresses that customizations give to clusters, and that an IPPool would lease to somebody else.
/// They are not leased here: a Hive has no leases of them, and an import adds no objects.
fn describe_unleased_addresses(manifests: &Manifests, spool: Option<&Spool>) -> Vec<String> {
    let mut ip_pools: Vec<&IpPool> = Vec::new();
    let mut leased_addresses: HashSet<Addr> = HashSet::new();
    let mut given_addresses: BTreeMap<Addr, &str> = BTreeMap::new();
    for object in &manifests.objects {
        match object {
            Object::IpPool(ip_pool) => ip_pools.push(ip_pool),
            Object::IpAddress(ip_address) => {
                leased_addresses.extend(ip_address.spec.address.parse::<Addr>().ok());
            }
            Object::Customization(customization) => {
                let mut addresses = patched_addresses(&customization.spec.install_config_patches);
                if customization.status.cluster_deployment_ref.is_some() {
                    addresses.extend(applied_addresses(customization));
                }
                let name = customization.metadata.name.as_str();
                given_addresses.extend(addresses.into_iter().map(|address| (address, name)));
            }
            _ => {}
        }
    }
    given_addresses.retain(|address, _| !leased_addresses.contains(address));
    let mut warnings = Vec::new();
    for ip_pool in ip_pools {
        let ranges = ip_pool.leasable_ranges();
        let mut clashes: Vec<(Addr, &str)> = Vec::new();
        for (address, customization) in &given_addresses {
            let namespace = &ip_pool.metadata.namespace;
            let is_leased =
                spool.is_some_and(|spool| spool.leased_addresses.contains(namespace, *address));
            if !is_leased && ranges.iter().any(|(_, range)| range.contains(*address)) {
                clashes.push((*address, *customization));
            }
        }
        if let Some((first_address, _)) = clashes.first() {
            let Key { namespace, name } = ip_pool.metadata.key();
            let words: Vec<String> = clashes
                .iter()
                .map(|(address, customization)| format!("{address} ({customization})"))
                .collect();
            warnings.push(format!(
                "IPPool `{namespace}/{name}` may lease addresses that customizations give to \
                 clusters: {}; keep each from that before the first pass: `poolctl ip reserve \
                 {name} {first_address} -n {namespace}`",
                words.join(", ")
            ));
        }
    }
    warnings
}
