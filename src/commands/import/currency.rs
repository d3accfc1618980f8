//! Whether clusters that a Hive has made are what their pools would make now. Hive marks them with a
//! version of its own; where that is the version of the pool, poolctl's own is put in its place, so
//! that no cluster is replaced because it moved. It changes nothing else.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use crate::manifest::Manifests;
use crate::model::cluster::Cluster;
use crate::model::condition::{ConditionType, find_condition};
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::pool_versions::pool_version;
use crate::model::refusal::Refusal;
use crate::model::text::quote_word;
use crate::render::hive_version::is_hive_version;

use crate::commands::count_of;

/// What clusters count as of which the file does not tell whether they are current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCurrency {
    /// Nothing: the import stops.
    Refused,
    Current,
    Stale,
}

/// What can be said of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Its version stays as it is.
    Kept,
    /// It is what its pool would make now.
    Current,
    /// It has a version that no known Hive computes for its pool, and the pool does not say that
    /// all its clusters are current.
    Unknown,
}

/// A pool of the file, and what it says of all its clusters.
struct PoolOfFile {
    pool: ClusterPool,
    /// poolctl's own version of it.
    version: Rc<str>,
    /// Whether a Hive says that all clusters nobody has are current.
    has_current_clusters: bool,
    /// Whether poolctl has kept it before: then versions are poolctl's already.
    was_kept_here: bool,
}

/// Gives clusters of a Hive that are current poolctl's own version of their pool. Returns how many
/// there are. Refuses if that cannot be told of some, unless `unknown` says what they count as.
pub fn translate_versions(
    manifests: &mut Manifests,
    unknown: UnknownCurrency,
    file: &Path,
) -> Result<usize, Refusal> {
    let pools = pools_of_file(manifests);
    let mut current_clusters: Vec<usize> = Vec::new();
    let mut unknown_clusters: Vec<usize> = Vec::new();
    let mut recognised_pools: HashSet<Key> = HashSet::new();
    for (position, object) in manifests.objects.iter().enumerate() {
        let Object::ClusterDeployment(cluster) = object else { continue };
        let Some(pool_of_file) = pool_of(cluster, &pools) else { continue };
        match judge_cluster(cluster, pool_of_file) {
            Verdict::Kept => {}
            Verdict::Current => {
                recognised_pools.insert(pool_of_file.pool.key());
                current_clusters.push(position);
            }
            Verdict::Unknown => unknown_clusters.push(position),
        }
    }
    // Where one version of a pool is recognised, all others of it are really older.
    unknown_clusters.retain(|position| {
        let pool_key = pool_key_of(&manifests.objects[*position]);
        pool_key.is_none_or(|key| !recognised_pools.contains(&*key))
    });
    if unknown == UnknownCurrency::Refused && !unknown_clusters.is_empty() {
        return Err(refuse_unknown(manifests, &unknown_clusters, file));
    }
    if unknown == UnknownCurrency::Current {
        current_clusters.extend(unknown_clusters);
    }
    for position in &current_clusters {
        if let Object::ClusterDeployment(cluster) = &mut manifests.objects[*position]
            && let Some(pool_of_file) = pool_of(cluster, &pools)
        {
            cluster.version = Some(Rc::clone(&pool_of_file.version));
        }
    }
    Ok(current_clusters.len())
}

/// The pools that clusters in memory belong to. Most clusters of a large file are on the disk, and a pool
/// that is copied takes memory, so no other pool is copied.
fn pools_of_file(manifests: &Manifests) -> HashMap<Key, PoolOfFile> {
    let keys: HashSet<Rc<Key>> = manifests.objects.iter().filter_map(pool_key_of).collect();
    let mut pools = HashMap::new();
    for object in &manifests.objects {
        let Object::ClusterPool(pool) = object else { continue };
        if !keys.contains(&pool.key()) {
            continue;
        }
        let condition = find_condition(&pool.status.conditions, ConditionType::AllClustersCurrent);
        let pool_of_file = PoolOfFile {
            pool: (**pool).clone(),
            version: pool_version(pool).into(),
            has_current_clusters: condition.is_some_and(|condition| condition.status == "True"),
            // Hive has neither these counters nor jobs.
            was_kept_here: pool.status.ordinal > 0
                || pool.status.provisions > 0
                || !manifests.jobs.is_empty()
                || manifests.has_spooled_jobs,
        };
        pools.insert(pool.key(), pool_of_file);
    }
    pools
}

fn pool_of<'a>(cluster: &Cluster, pools: &'a HashMap<Key, PoolOfFile>) -> Option<&'a PoolOfFile> {
    pools.get(cluster.pool.as_deref()?)
}

fn pool_key_of(object: &Object) -> Option<Rc<Key>> {
    match object {
        Object::ClusterDeployment(cluster) => cluster.pool.clone(),
        _ => None,
    }
}

fn judge_cluster(cluster: &Cluster, pool_of_file: &PoolOfFile) -> Verdict {
    let version = cluster.version.as_deref().unwrap_or_default();
    if *version == *pool_of_file.version || cluster.deleting.is_some() {
        return Verdict::Kept;
    }
    if !version.is_empty() && is_hive_version(&pool_of_file.pool, version) {
        return Verdict::Current;
    }
    // Clusters that somebody has are never replaced, so that nobody needs to know.
    if pool_of_file.was_kept_here || cluster.claim.is_some() {
        return Verdict::Kept;
    }
    if pool_of_file.has_current_clusters {
        return Verdict::Current;
    }
    // Hive itself counts a cluster without a version as none of the present version.
    if version.is_empty() { Verdict::Kept } else { Verdict::Unknown }
}

fn refuse_unknown(manifests: &Manifests, positions: &[usize], file: &Path) -> Refusal {
    let clusters = count_of(positions.len(), "unclaimed cluster");
    let mut refusal = Refusal::conflict(format!(
        "it is not known whether {clusters} of a Hive would be replaced by their pools"
    ));
    for position in positions {
        if let Object::ClusterDeployment(cluster) = &manifests.objects[*position] {
            let version = cluster.version.as_deref().unwrap_or_default();
            refusal = refusal.because(format!(
                "cluster `{}` has version {version}, which no known Hive computes for its pool, \
                 and the pool does not say that all its clusters are current",
                cluster.name
            ));
        }
    }
    let path = quote_word(&file.display().to_string());
    refusal.advise(format!(
        "poolctl import {path} --current, to keep them; or --stale, to have them replaced"
    ))
}
