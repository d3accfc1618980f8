//! What a person does who was told by `why` what to type next, and whether the cause that was named
//! is true. A command that only waits is no remedy: at rest there is nothing to wait for.

use poolctl::model::annotations::{FAKE_FAIL_EVERY, FAKE_HEALTH};
use poolctl::model::claim::Claim;
use poolctl::model::cluster::{Cluster, Phase};
use poolctl::model::pool::{ClusterPool, RECONCILE_PAUSE};
use poolctl::model::refusal::Refusal;
use poolctl::model::state::State;
use serde_json::Value;

use super::law::clusters_of;
use super::people;
use super::pools;
use super::step::{ClusterDeed, CustomizationDeed, PoolDeed};
use super::world::SimWorld;

/// A remedy that `why` names for a claim that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    ResumePool,
    RaiseMaxSize(u32),
    RaiseMaxConcurrent(u32),
    /// The clusters are claimed, and maxSize allows no more.
    ReleaseClaim,
    /// The pool is being deleted.
    LetPoolGo,
    MakePool,
    ProvideWhatIsMissing,
    /// No customization can be used.
    MendInventory,
    /// The pool's installations fail.
    CorrectPool,
    /// The installations of a cluster fail.
    MendCluster(String),
    /// A cluster could not be started.
    RetryCluster(String),
    /// An annotation holds a cluster.
    RemoveAnnotation(String, String),
}

impl Remedy {
    /// The remedy in the command that `why` names; none if the command mends nothing.
    pub fn named(next: &str) -> Option<Self> {
        let words: Vec<&str> = next.split_whitespace().collect();
        match words.as_slice() {
            ["poolctl", "pool", "resume", ..] => Some(Self::ResumePool),
            ["poolctl", "patch", "pool", ..] => named_limit(next),
            ["poolctl", "get", "claim", ..] => Some(Self::ReleaseClaim),
            ["poolctl", "get", "claim,cluster", ..] => Some(Self::LetPoolGo),
            ["poolctl", "get", "pool", ..] => Some(Self::MakePool),
            ["poolctl", "apply", ..] => Some(Self::ProvideWhatIsMissing),
            ["poolctl", "get", "customization", ..] => Some(Self::MendInventory),
            ["poolctl", "events", object, ..] if object.starts_with("pool/") => {
                Some(Self::CorrectPool)
            }
            ["poolctl", "cluster", "logs", cluster, ..] => {
                Some(Self::MendCluster((*cluster).to_owned()))
            }
            ["poolctl", "cluster", "retry", cluster, ..] => {
                Some(Self::RetryCluster((*cluster).to_owned()))
            }
            ["poolctl", "annotate", "cluster", cluster, annotation, ..] => {
                let annotation = annotation.trim_end_matches('-').to_owned();
                Some(Self::RemoveAnnotation((*cluster).to_owned(), annotation))
            }
            _ => None,
        }
    }

    /// What is false about the cause that was named, if anything is.
    pub fn check_cause(&self, world: &SimWorld, claim: &Claim) -> Result<(), String> {
        let checked = world.load().and_then(|state| self.is_cause_true(world, &state, claim));
        match checked {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("the cause is not true: {self:?} helps nobody")),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    fn is_cause_true(
        &self,
        world: &SimWorld,
        state: &State,
        claim: &Claim,
    ) -> Result<bool, Refusal> {
        let Some(pool) = state.pools.by_key(&claim.pool_key()) else {
            return Ok(*self == Self::MakePool);
        };
        let clusters = clusters_of(state, &pool.key());
        let is_full = pool.max_size().is_some_and(|max_size| clusters.len() >= max_size);
        Ok(match self {
            Self::ResumePool => pool.metadata.has_true_annotation(RECONCILE_PAUSE),
            Self::RaiseMaxSize(_) => is_full,
            Self::RaiseMaxConcurrent(_) => pool.spec.max_concurrent == Some(0),
            Self::ReleaseClaim => is_full && clusters.iter().any(|cluster| cluster.claim.is_some()),
            Self::LetPoolGo => pool.metadata.deletion_timestamp.is_some(),
            Self::MakePool => false,
            Self::ProvideWhatIsMissing => pools::is_image_set_missing(world)?,
            Self::MendInventory => !has_usable_customization(world, state, pool),
            Self::CorrectPool => pools::is_spoiled(pool) || has_doomed_customization(world, pool),
            Self::MendCluster(name) => match find_cluster(&clusters, name) {
                Some(cluster) => fails_for_good(world, pool, cluster)?,
                None => false,
            },
            Self::RetryCluster(name) => find_cluster(&clusters, name).is_some_and(|cluster| {
                cluster.power.has_failed() || cluster.start_failure().is_some()
            }),
            Self::RemoveAnnotation(name, _) => find_cluster(&clusters, name)
                .is_some_and(|cluster| cluster.paused || cluster.power_paused || cluster.protected),
        })
    }

    /// Mends what was named, as a person would who knows the lab.
    pub fn apply(&self, world: &mut SimWorld, claim: &Claim) -> Result<(), Refusal> {
        let pool = claim.pool.as_str();
        match self {
            Self::ResumePool => pools::do_to_pool(world, pool, PoolDeed::Resume),
            Self::RaiseMaxSize(limit) => {
                pools::edit_pool(world, pool, |pool| pool.spec.max_size = Some(*limit))
            }
            Self::RaiseMaxConcurrent(limit) => {
                pools::edit_pool(world, pool, |pool| pool.spec.max_concurrent = Some(*limit))
            }
            Self::ReleaseClaim => release_first_claim(world, pool),
            Self::LetPoolGo => let_pool_go(world, pool),
            Self::MakePool => pools::make_pool(world, pool, 1),
            Self::ProvideWhatIsMissing => pools::restore_image_set(world),
            Self::MendInventory | Self::CorrectPool => mend_pool(world, pool),
            Self::MendCluster(name) => mend_cluster(world, pool, name),
            Self::RetryCluster(name) => {
                let Some(cluster) = cluster_named(world, name)? else { return Ok(()) };
                people::annotate_cluster(world, &cluster, FAKE_HEALTH, None)?;
                people::retry_cluster(world, &cluster)
            }
            Self::RemoveAnnotation(name, annotation) => {
                let Some(cluster) = cluster_named(world, name)? else { return Ok(()) };
                people::annotate_cluster(world, &cluster, annotation, None)
            }
        }
    }
}

/// The limit that a patch raises: the JSON between the single quotes.
fn named_limit(next: &str) -> Option<Remedy> {
    let patch: Value = serde_json::from_str(next.split('\'').nth(1)?).ok()?;
    let spec = &patch["spec"];
    if let Some(limit) = read_limit(&spec["maxSize"]) {
        return Some(Remedy::RaiseMaxSize(limit));
    }
    read_limit(&spec["maxConcurrent"]).map(Remedy::RaiseMaxConcurrent)
}

fn read_limit(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn find_cluster<'a>(clusters: &[&'a Cluster], name: &str) -> Option<&'a Cluster> {
    clusters.iter().copied().find(|cluster| cluster.name == name)
}

/// A cluster with this name, which may be of any pool.
fn cluster_named(world: &SimWorld, name: &str) -> Result<Option<Cluster>, Refusal> {
    let clusters = world.store().list_all::<Cluster>()?;
    Ok(clusters.into_iter().find(|cluster| cluster.name == name))
}

fn listed_names(pool: &ClusterPool) -> Vec<String> {
    pool.spec.inventory.iter().flatten().map(|entry| entry.name.clone()).collect()
}

fn has_doomed_customization(world: &SimWorld, pool: &ClusterPool) -> bool {
    listed_names(pool).iter().any(|name| world.troubles.is_doomed(name))
}

/// Whether a listed customization is free, and the pool has no reason to leave it alone.
fn has_usable_customization(world: &SimWorld, state: &State, pool: &ClusterPool) -> bool {
    listed_names(pool).iter().any(|name| {
        let customization = state.customizations.by_key(&pools::key_of(name));
        let is_free = customization.is_some_and(|customization| {
            let is_staying = customization.metadata.deletion_timestamp.is_none();
            customization.holder.is_none() && is_staying
        });
        let entry = pool.status.inventory.get(name);
        let is_broken = entry.is_some_and(|entry| entry.status.is_broken());
        is_free && !is_broken && !world.troubles.is_doomed(name)
    })
}

/// Whether a cluster fails to install, and will until somebody mends it: every attempt is made to
/// fail, also the one that is running. One that was given up has to be replaced by its pool, unless
/// the pool may not, or what replaces it fails as well.
fn fails_for_good(
    world: &SimWorld,
    pool: &ClusterPool,
    cluster: &Cluster,
) -> Result<bool, Refusal> {
    let steering = world.store().read_steering(&cluster.name)?;
    let is_cursed = steering.annotations.contains_key(FAKE_FAIL_EVERY);
    let customization = cluster.customization.as_deref();
    let is_doomed = customization.is_some_and(|name| world.troubles.is_doomed(name));
    let fails = is_cursed || is_doomed || pools::is_spoiled(pool);
    Ok(match cluster.phase() {
        Phase::Retrying => fails,
        Phase::Installing => cluster.failed_at.is_some() && fails,
        Phase::Broken => pool.spec.max_concurrent == Some(0) || pools::is_spoiled(pool),
        Phase::Installed | Phase::Deprovisioning => false,
    })
}

/// Releases the claim of a pool that has had its cluster longest. If all are released already, what
/// is paused keeps their clusters.
fn release_first_claim(world: &mut SimWorld, pool: &str) -> Result<(), Refusal> {
    for claim in world.store().list_all::<Claim>()? {
        if claim.pool == pool && claim.cluster.is_some() && claim.deleting.is_none() {
            return people::release_claim(world, &claim.name);
        }
    }
    resume_clusters(world, pool)
}

/// Resumes all clusters of a pool that are paused.
fn resume_clusters(world: &mut SimWorld, pool: &str) -> Result<(), Refusal> {
    let pool_key = pools::key_of(pool);
    for cluster in world.store().list_all::<Cluster>()? {
        if cluster.pool.as_deref() == Some(&pool_key) && cluster.paused {
            people::do_to_cluster(world, &cluster, ClusterDeed::Resume)?;
        }
    }
    Ok(())
}

/// Releases all that keeps a deleted pool from going.
fn let_pool_go(world: &mut SimWorld, pool: &str) -> Result<(), Refusal> {
    for claim in world.store().list_all::<Claim>()? {
        if claim.pool == pool && claim.cluster.is_some() && claim.deleting.is_none() {
            people::release_claim(world, &claim.name)?;
        }
    }
    resume_clusters(world, pool)
}

/// Mends what makes the installations of a pool fail. Whoever looks why its customizations are
/// broken finds out that its own configuration is wrong, if it is.
fn mend_pool(world: &mut SimWorld, pool: &str) -> Result<(), Refusal> {
    mend_inventory(world, pool)?;
    let stored = world.store().find::<ClusterPool>(&pools::key_of(pool))?;
    if stored.is_some_and(|stored| pools::is_spoiled(&stored)) {
        return pools::do_to_pool(world, pool, PoolDeed::Correct);
    }
    Ok(())
}

/// Mends the broken customizations that a pool lists, makes those that are missing, and adds one
/// more, because all of them may be in use.
fn mend_inventory(world: &mut SimWorld, pool: &str) -> Result<(), Refusal> {
    let Some(stored) = world.store().find::<ClusterPool>(&pools::key_of(pool))? else {
        return Ok(());
    };
    if stored.spec.inventory.is_none() {
        return Ok(());
    }
    let mut names = listed_names(&stored);
    names.push(format!("spare-{}", world.next_edit()));
    for name in &names {
        // It is refused if there is such a customization.
        drop(pools::do_to_customization(world, name, CustomizationDeed::Make));
        let entry = stored.status.inventory.get(name);
        let is_broken = entry.is_some_and(|entry| entry.status.is_broken());
        if is_broken || world.troubles.is_doomed(name) {
            drop(pools::do_to_customization(world, name, CustomizationDeed::Mend));
        }
    }
    pools::edit_pool(world, pool, |pool| pools::list_customizations(pool, &names))
}

/// Mends what makes the installations of a cluster fail: the pool's configuration, the
/// customization, or the cluster itself.
fn mend_cluster(world: &mut SimWorld, pool: &str, name: &str) -> Result<(), Refusal> {
    let Some(cluster) = cluster_named(world, name)? else { return Ok(()) };
    if let Some(customization) = cluster.customization.as_deref()
        && world.troubles.is_doomed(customization)
    {
        return pools::do_to_customization(world, customization, CustomizationDeed::Mend);
    }
    let stored = world.store().find::<ClusterPool>(&pools::key_of(pool))?;
    if stored.is_some_and(|stored| pools::is_spoiled(&stored)) {
        return pools::do_to_pool(world, pool, PoolDeed::Correct);
    }
    people::do_to_cluster(world, &cluster, ClusterDeed::Delete)
}
