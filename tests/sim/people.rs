//! What people do to claims and clusters, and which edit each step of a history is. What a command
//! would refuse is refused here, too, and does no harm.

use poolctl::edits::{PutMode, put_object};
use poolctl::model::annotations::{FAKE_FAIL_EVERY, FAKE_HEALTH};
use poolctl::model::claim::{Claim, ClaimSpec, ClusterClaim};
use poolctl::model::cluster::{Cluster, REMOVE_FROM_POOL};
use poolctl::model::kinds::Kind;
use poolctl::model::meta::{Key, Meta};
use poolctl::model::object::Object;
use poolctl::model::pool::RECONCILE_PAUSE;
use poolctl::model::refusal::Refusal;
use poolctl::model::state::Scope;
use poolctl::model::time::Span;
use poolctl::plan::{self, PauseEnd};
use poolctl::rules;
use poolctl::store::NeededObject;

use super::pools::{self, key_of};
use super::step::{ClusterDeed, Step};
use super::world::{NAMESPACE, SimWorld};

/// Does what a step says, unless it is about time or the machine: the game does that.
pub fn act(world: &mut SimWorld, step: &Step) -> Result<(), Refusal> {
    match step {
        Step::MakePool { pool, size } => pools::make_pool(world, pool, *size),
        Step::Set { pool, field, value } => {
            pools::edit_pool(world, pool, |pool| pools::set_field(pool, *field, *value))
        }
        Step::List { pool, customizations } => {
            pools::edit_pool(world, pool, |pool| pools::list_customizations(pool, customizations))
        }
        Step::Refresh { pool, policy } => {
            pools::edit_pool(world, pool, |pool| pools::set_refresh(pool, *policy))
        }
        Step::DoToPool { pool, deed } => pools::do_to_pool(world, pool, *deed),
        Step::DoToCustomization { customization, deed } => {
            pools::do_to_customization(world, customization, *deed)
        }
        Step::RemoveImageSet => pools::remove_image_set(world),
        Step::RestoreImageSet => pools::restore_image_set(world),
        Step::DoToCluster { number, deed } => {
            let cluster = nth_cluster(world, *number)?;
            do_to_cluster(world, &cluster, *deed)
        }
        Step::SetHealth { number, health } => {
            let cluster = nth_cluster(world, *number)?;
            annotate_cluster(world, &cluster, FAKE_HEALTH, Some(health.word()))
        }
        Step::Claim { claim, pool, hours } => make_claim(world, claim, pool, *hours),
        Step::Release { claim } => release_claim(world, claim),
        Step::Extend { claim, hours } => {
            let lifetime = Span::hours(i64::from(*hours));
            edit_claim(world, claim, None, |document| document.spec.lifetime = Some(lifetime))
        }
        Step::Move { claim, pool } => edit_claim(world, claim, Some(pool.as_str()), |document| {
            document.spec.cluster_pool_name.clone_from(pool);
        }),
        Step::Doom { customization } => {
            world.troubles.doom(customization);
            Ok(())
        }
        Step::BeginTrouble(trouble) => {
            world.troubles.begin(*trouble);
            Ok(())
        }
        Step::EndTrouble(trouble) => {
            world.troubles.end(*trouble);
            Ok(())
        }
        Step::Wait { .. } | Step::Sleep { .. } | Step::Reboot | Step::MoveClock { .. } => Ok(()),
    }
}

/// Claims a cluster, as `claim` does.
fn make_claim(world: &SimWorld, name: &str, pool: &str, hours: Option<u32>) -> Result<(), Refusal> {
    let key = key_of(name);
    let pool_key = key_of(pool);
    let metadata = Meta { name: name.into(), namespace: NAMESPACE.into(), ..Meta::default() };
    let spec = ClaimSpec {
        cluster_pool_name: pool.into(),
        lifetime: hours.map(|hours| Span::hours(i64::from(hours))),
        ..ClaimSpec::default()
    };
    let document = ClusterClaim { metadata, spec, ..ClusterClaim::default() };
    let claim = Object::ClusterClaim(Box::new(Claim::from_wire(document)));
    rules::check_object(&claim)?;
    let needs = [NeededObject { kind: Kind::ClusterClaim, key: key.clone() }];
    world.change(&Scope::pool(pool_key.clone()), &needs, |state, tick| {
        let Some(pool) = state.pools.by_key(&pool_key) else {
            return Err(Refusal::not_found("there is no pool of this name"));
        };
        if pool.metadata.deletion_timestamp.is_some() {
            return Err(Refusal::conflict("the pool is being deleted"));
        }
        if state.claims.find(&key).is_some() {
            return Err(Refusal::conflict("there is a claim of this name"));
        }
        put_object(state, claim, PutMode::Apply, tick).map(drop)
    })
}

/// The scope of a claim that exists.
fn scope_of_claim(world: &SimWorld, key: &Key) -> Result<Scope, Refusal> {
    match world.store().find_pool_of(Kind::ClusterClaim, key)? {
        Some(pool) => Ok(Scope::pool(pool)),
        None => Err(Refusal::not_found("there is no claim of this name")),
    }
}

pub fn release_claim(world: &SimWorld, name: &str) -> Result<(), Refusal> {
    let key = key_of(name);
    let scope = scope_of_claim(world, &key)?;
    pools::delete(world, Kind::ClusterClaim, &key, &scope)
}

/// Changes the manifest of a claim, as `patch` does. `pool` is the one that it is sent to.
fn edit_claim(
    world: &SimWorld,
    name: &str,
    pool: Option<&str>,
    edit: impl FnOnce(&mut ClusterClaim),
) -> Result<(), Refusal> {
    let key = key_of(name);
    let mut scope = scope_of_claim(world, &key)?;
    if let (Scope::Pools(keys), Some(pool)) = (&mut scope, pool) {
        keys.push(key_of(pool));
        keys.sort();
        keys.dedup();
    }
    let needs = [NeededObject { kind: Kind::ClusterClaim, key: key.clone() }];
    world.change(&scope, &needs, |state, tick| {
        let Some(claim) = state.claims.by_key(&key) else {
            return Err(Refusal::not_found("there is no claim of this name"));
        };
        let mut document = claim.to_wire();
        edit(&mut document);
        let claim = Object::ClusterClaim(Box::new(Claim::from_wire(document)));
        rules::check_object(&claim)?;
        put_object(state, claim, PutMode::Replace, tick).map(drop)
    })
}

/// The cluster of a number, in the order in which they were made; beyond the last one they are
/// counted from the first again.
fn nth_cluster(world: &SimWorld, number: usize) -> Result<Cluster, Refusal> {
    let mut clusters = world.store().list_all::<Cluster>()?;
    if clusters.is_empty() {
        return Err(Refusal::not_found("there is no cluster"));
    }
    let index = number % clusters.len();
    Ok(clusters.swap_remove(index))
}

pub fn do_to_cluster(
    world: &mut SimWorld,
    cluster: &Cluster,
    deed: ClusterDeed,
) -> Result<(), Refusal> {
    match deed {
        ClusterDeed::Delete => {
            world.taken_away.insert(cluster.name.clone());
            let scope = scope_of_cluster(cluster);
            pools::delete(world, Kind::ClusterDeployment, &cluster.key(), &scope)
        }
        ClusterDeed::Evict => {
            world.taken_away.insert(cluster.name.clone());
            annotate_cluster(world, cluster, REMOVE_FROM_POOL, Some("true"))
        }
        ClusterDeed::Retry => retry_cluster(world, cluster),
        ClusterDeed::Pause => annotate_cluster(world, cluster, RECONCILE_PAUSE, Some("true")),
        ClusterDeed::Resume => annotate_cluster(world, cluster, RECONCILE_PAUSE, None),
        ClusterDeed::Curse => {
            world.cursed.insert(cluster.name.clone());
            annotate_cluster(world, cluster, FAKE_FAIL_EVERY, Some("1"))
        }
        ClusterDeed::Bless => {
            world.cursed.remove(&cluster.name);
            annotate_cluster(world, cluster, FAKE_FAIL_EVERY, None)
        }
    }
}

fn scope_of_cluster(cluster: &Cluster) -> Scope {
    match &cluster.pool {
        Some(pool) => Scope::pool((**pool).clone()),
        None => Scope::Whole,
    }
}

/// Sets an annotation of a cluster or takes it away, as `annotate` does.
pub fn annotate_cluster(
    world: &SimWorld,
    cluster: &Cluster,
    annotation: &str,
    value: Option<&str>,
) -> Result<(), Refusal> {
    let needs = [NeededObject { kind: Kind::ClusterDeployment, key: cluster.key() }];
    world.change(&scope_of_cluster(cluster), &needs, |state, tick| {
        let cluster_id = state.find_cluster(&cluster.name);
        let Some(current) = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id)) else {
            return Err(Refusal::not_found("the cluster is gone"));
        };
        let mut document = current.to_wire();
        match value {
            Some(value) => {
                document.metadata.annotations.insert(annotation.into(), value.into());
            }
            None => {
                document.metadata.annotations.remove(annotation);
            }
        }
        let edited = Object::ClusterDeployment(Box::new(Cluster::from_wire(document)));
        rules::check_object(&edited)?;
        put_object(state, edited, PutMode::Replace, tick).map(drop)
    })
}

/// Lets what failed begin again at once, as `cluster retry` does.
pub fn retry_cluster(world: &SimWorld, cluster: &Cluster) -> Result<(), Refusal> {
    let needs = [NeededObject { kind: Kind::ClusterDeployment, key: cluster.key() }];
    world.change(&scope_of_cluster(cluster), &needs, |state, tick| {
        let Some(cluster_id) = state.find_cluster(&cluster.name) else {
            return Err(Refusal::not_found("the cluster is gone"));
        };
        state.clusters.update(cluster_id, |cluster| {
            if cluster.is_installed() {
                if cluster.power.has_failed() {
                    cluster.power_since = None;
                }
                return;
            }
            if cluster.stopped {
                cluster.restarts = 0;
            }
            cluster.stopped = false;
            cluster.failed_at = None;
            cluster.failure = None;
            cluster.failure_class = None;
        });
        if !cluster.is_installed()
            && let Some(pool_id) = cluster.pool.as_deref().and_then(|key| state.pools.find(key))
        {
            plan::end_pause(state, pool_id, PauseEnd::Request, tick);
        }
        Ok(())
    })
}
