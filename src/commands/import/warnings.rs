//! What of an import an operator should know before the first pass.

use std::collections::HashSet;

use crate::manifest::Manifests;
use crate::model::annotations::REFRESH;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;

/// What an operator should know before the first pass.
pub fn worth_a_word(read: &Manifests) -> Vec<String> {
    let mut words = Vec::new();
    let empty = |one: &&Object| matches!(one, Object::Secret(one) if one.data.is_none() && one.string_data.is_none());
    let bare = read.objects.iter().filter(empty).count();
    if bare > 0 {
        words.push(format!(
            "{bare} secrets come without values; export FILE --include-secrets brings them"
        ));
    }
    words.extend(unproved(read));
    if read.left_out > 0 {
        words.push(format!(
            "{} jobs and events are of kinds not kept here; left out",
            read.left_out
        ));
    }
    let claims: HashSet<Key> = keys(read, Kind::ClusterClaim);
    let clusters: HashSet<String> =
        keys(read, Kind::ClusterDeployment).into_iter().map(|key| key.name).collect();
    for object in &read.objects {
        match object {
            Object::ClusterDeployment(one)
                if one.claim_key().is_some_and(|key| !claims.contains(&key)) =>
            {
                let claim = one.claim.as_deref().unwrap_or_default();
                words.push(format!(
                    "cluster {} is held by claim {claim}, which is not in the file",
                    one.name
                ));
            }
            Object::ClusterClaim(one)
                if one.cluster.as_ref().is_some_and(|name| !clusters.contains(name)) =>
            {
                let cluster = one.cluster.as_deref().unwrap_or_default();
                words.push(format!(
                    "claim {} has cluster {cluster}, which is not in the file",
                    one.name
                ));
            }
            _ => {}
        }
    }
    let foreign = |version: &str| {
        version.len() != 16 || !version.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let stale = |one: &&Object| matches!(one, Object::ClusterDeployment(one) if one.claim.is_none() && one.version.as_deref().is_some_and(foreign));
    let stale = read.objects.iter().filter(stale).count();
    if stale > 0 {
        words.push(format!(
            "{stale} unclaimed clusters carry the version of another program: their pools will \
             replace them, unless annotated {REFRESH}=none"
        ));
    }
    words
}

/// What admits hosts, and what they prove themselves with, is in few files.
fn unproved(read: &Manifests) -> Option<String> {
    let is_bare = |one: &&Object| match one {
        Object::InfraEnv(one) => one.status.created_time.is_some() && one.status.tokens.is_empty(),
        Object::Agent(one) => one.status.secret_hash.is_none() && !one.status.found,
        _ => false,
    };
    let many = read.objects.iter().filter(is_bare).count();
    let text = "come without tokens and secrets: images that were made admit nobody, and hosts are \
                not believed; export FILE --include-secrets brings them";
    (many > 0).then(|| format!("{many} InfraEnvs and agents {text}"))
}

fn keys(read: &Manifests, kind: Kind) -> HashSet<Key> {
    read.objects.iter().filter(|one| one.kind() == kind).map(Object::key).collect()
}
