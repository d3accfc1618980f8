//! Adopts clusters that another tool has installed: each becomes a cluster without a pool, a free
//! cluster of a pool, or one that a claim has. No cluster that is there is changed, and no machine
//! is touched.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use crate::commands::{Context, count_of};
use crate::edits;
use crate::manifest;
use crate::model::claim::Pending;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, Resource};
use crate::model::pool::ClusterPool;
use crate::model::pool_versions::pool_version;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::store::NeededObject;

use super::fill::insert_object;
use super::kcli::{KcliCluster, PoolPlace, read_kcli_folder};
use super::sources::{AddedObject, Intent, add_objects};

/// Where adopted clusters go.
pub enum Placement {
    /// They belong to no pool, and nobody can claim them.
    WithoutPool,
    /// Somebody uses them: each is held by a claim of its own name.
    Claimed(Key),
    /// Nobody uses them: the next claims of the pool get them.
    Idle(Key),
}

impl Placement {
    fn pool(&self) -> Option<&Key> {
        match self {
            Self::WithoutPool => None,
            Self::Claimed(pool) | Self::Idle(pool) => Some(pool),
        }
    }

    /// What the answer says of an adopted cluster.
    fn result(&self) -> String {
        match self {
            Self::WithoutPool => "adopted without a pool".into(),
            Self::Claimed(pool) => format!("adopted in pool {}, claimed", pool.name),
            Self::Idle(pool) => format!("adopted in pool {}, idle", pool.name),
        }
    }
}

/// Adopts the clusters in a folder of kcli, all that are not there yet or none.
pub fn adopt_from_kcli(
    context: &Context,
    folder: &Path,
    placement: &Placement,
    intent: Intent,
) -> anyhow::Result<()> {
    let kcli_folder = read_kcli_folder(folder)?;
    for why in &kcli_folder.left_out {
        context.warn(why);
    }
    let clusters = kcli_folder.clusters;
    if clusters.is_empty() {
        return Err(Refusal::invalid("there is no cluster to adopt").into());
    }
    let mut needs = Vec::new();
    for cluster in &clusters {
        let key = Key::new(&*cluster.name, &*cluster.name);
        needs.push(NeededObject { kind: Kind::ClusterDeployment, key });
        let secret_keys = cluster.secret_keys().into_iter();
        needs.extend(secret_keys.map(|key| NeededObject { kind: Kind::Secret, key }));
        if let Placement::Claimed(pool) = placement {
            let key = Key::new(&*pool.namespace, &*cluster.name);
            needs.push(NeededObject { kind: Kind::ClusterClaim, key });
        }
    }
    let state = add_objects(context, &needs, intent, |state, tick| {
        adopt_clusters(state, clusters, placement, tick)
    })?;
    if !state.is_unchanged() {
        context.hint(
            "poolctl leaves their machines alone: when they are deleted here, `kcli delete cluster` \
             destroys the machines",
        );
    }
    Ok(())
}

fn adopt_clusters(
    state: &mut State,
    clusters: Vec<KcliCluster>,
    placement: &Placement,
    tick: &Tick,
) -> Result<Vec<AddedObject>, Refusal> {
    let pool = match placement.pool() {
        Some(key) => Some(find_pool(state, key)?),
        None => None,
    };
    let mut added_objects = Vec::new();
    let mut refusals = Vec::new();
    let mut adopted_count = 0;
    for cluster in clusters {
        if is_adopted(state, &cluster) {
            let key = Key::new(&*cluster.name, &*cluster.name);
            if let Err(refusal) = check_place(state, &cluster, placement) {
                refusals.push(refusal);
                continue;
            }
            added_objects.push(AddedObject::new(Kind::ClusterDeployment, key, "unchanged"));
            continue;
        }
        match adopt_cluster(state, cluster, placement, pool.as_ref(), tick) {
            Ok(objects) => {
                adopted_count += 1;
                added_objects.extend(objects);
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    Refusal::refuse_all(refusals)?;
    if let (Placement::Idle(_), Some(pool)) = (placement, &pool) {
        check_room(state, pool, adopted_count)?;
    }
    Ok(added_objects)
}

fn find_pool(state: &State, key: &Key) -> Result<ClusterPool, Refusal> {
    let pool = state.pools.by_key(key).cloned();
    pool.ok_or_else(|| {
        Refusal::not_found(format!("there is no pool `{}`", key.name)).next("poolctl get pool")
    })
}

/// Whether the same cluster is there already.
fn is_adopted(state: &State, cluster: &KcliCluster) -> bool {
    let existing = state.find_cluster(&cluster.name).and_then(|id| state.clusters.get(id));
    existing.is_some_and(|existing| {
        existing.cluster_name == cluster.name && existing.base_domain == cluster.base_domain
    })
}

/// Refuses a cluster that is there already, but not in the pool that it is to be in.
fn check_place(state: &State, cluster: &KcliCluster, placement: &Placement) -> Result<(), Refusal> {
    let Some(pool) = placement.pool() else { return Ok(()) };
    let existing = state.find_cluster(&cluster.name).and_then(|id| state.clusters.get(id));
    let present_pool = existing.and_then(|existing| existing.pool.as_deref());
    if present_pool == Some(pool) {
        return Ok(());
    }
    let name = &cluster.name;
    let place = match present_pool {
        Some(present_pool) => format!("it is in pool {}", present_pool.name),
        None => "it belongs to no pool".to_owned(),
    };
    let sentence = format!("cluster `{name}` is there already, and does not move to another pool");
    Err(Refusal::conflict(sentence).because(place).advise(format!(
        "poolctl delete cluster {name} -n {name}, which leaves its machines alone, then import again"
    )))
}

/// Inserts a cluster with its Secrets, and with a claim if somebody uses it.
fn adopt_cluster(
    state: &mut State,
    cluster: KcliCluster,
    placement: &Placement,
    pool: Option<&ClusterPool>,
    tick: &Tick,
) -> Result<Vec<AddedObject>, Refusal> {
    let name = cluster.name.clone();
    let key = Key::new(&*name, &*name);
    check_absence(state, &cluster, placement)?;
    let claim = matches!(placement, Placement::Claimed(_)).then_some(name.as_str());
    let place = placement.pool().map(|pool| PoolPlace {
        namespace: &pool.namespace,
        pool: &pool.name,
        claim,
    });
    let mut deployment = cluster.deployment(place)?;
    if let Object::ClusterDeployment(adopted) = &mut deployment {
        adopted.created = tick.now;
        adopted.installed_at = Some(tick.now);
        // It is what the pool would make: nobody wants it replaced because it was adopted.
        adopted.version = pool.map(|pool| Rc::from(pool_version(pool)));
        adopted.claimed_at = claim.map(|_| tick.now);
    }
    insert_object(state, deployment, &HashMap::new(), tick)?;
    for secret in cluster.into_secrets() {
        insert_object(state, secret.into_object(), &HashMap::new(), tick)?;
    }
    let result = placement.result();
    let message = format!("Installed by kcli, {result}");
    let reason = EventReason::Created;
    edits::record_event(state, tick, Kind::ClusterDeployment, key.clone(), reason, &message);
    let mut added_objects = vec![AddedObject::new(Kind::ClusterDeployment, key, result)];
    if let Placement::Claimed(pool) = placement {
        let claim_key = insert_claim(state, pool, &name, tick)?;
        added_objects.push(AddedObject::new(Kind::ClusterClaim, claim_key, "created"));
    }
    Ok(added_objects)
}

/// Refuses a cluster whose name is taken, in the state or in DNS.
fn check_absence(
    state: &State,
    cluster: &KcliCluster,
    placement: &Placement,
) -> Result<(), Refusal> {
    let name = &cluster.name;
    if state.find_cluster(name).is_some() {
        let sentence = format!("there is another cluster `{name}` already");
        return Err(Refusal::conflict(sentence).next(format!("poolctl describe cluster {name}")));
    }
    let mut clusters = state.clusters.rows();
    let namesake = clusters.find(|existing| {
        existing.cluster_name == *name && existing.base_domain == cluster.base_domain
    });
    if let Some(namesake) = namesake {
        let dns_name = format!("{name}.{}", cluster.base_domain);
        let sentence = format!("{dns_name} is already the name of cluster `{}`", namesake.name);
        return Err(Refusal::conflict(sentence));
    }
    for secret in cluster.secret_keys() {
        if state.secrets.find(&secret).is_some() {
            let sentence = format!("there is a secret `{secret}` already");
            let namespace = &secret.namespace;
            let next = format!("poolctl delete secret {} -n {namespace}", secret.name);
            return Err(Refusal::conflict(sentence).advise(next));
        }
    }
    if let Placement::Claimed(pool) = placement
        && state.claims.find(&Key::new(&*pool.namespace, &**name)).is_some()
    {
        let sentence = format!("there is a claim `{name}` already, of another cluster");
        return Err(Refusal::conflict(sentence).next(format!("poolctl describe claim {name}")));
    }
    Ok(())
}

/// Inserts the claim that has a cluster, on behalf of whoever adopts it.
fn insert_claim(state: &mut State, pool: &Key, name: &str, tick: &Tick) -> Result<Key, Refusal> {
    let document = serde_json::json!({
        "metadata": {"name": name, "namespace": pool.namespace},
        "spec": {"clusterPoolName": pool.name, "namespace": name},
    });
    let mut object = manifest::check_edited_document(Kind::ClusterClaim, &document)?;
    if let Object::ClusterClaim(claim) = &mut object {
        claim.owner.clone_from(&tick.actor);
        claim.created = tick.now;
        claim.pending = Pending::Claimed;
        claim.pending_since = Some(tick.now);
    }
    let key = object.key();
    insert_object(state, object, &HashMap::new(), tick)?;
    Ok(key)
}

/// Refuses idle clusters that a pool would destroy at once, because it keeps fewer.
fn check_room(state: &State, pool: &ClusterPool, adopted_count: usize) -> Result<(), Refusal> {
    let members = state.members(&pool.key()).clusters;
    let clusters = members.into_iter().filter_map(|id| state.clusters.get(id));
    let idle_count =
        clusters.filter(|cluster| cluster.claim.is_none() && cluster.deleting.is_none()).count();
    if adopted_count == 0 || idle_count <= pool.size() {
        return Ok(());
    }
    let name = &pool.metadata.name;
    let idle_clusters = count_of(idle_count, "idle cluster");
    let sentence = format!("pool `{name}` would have {idle_clusters}, and keeps {}", pool.size());
    Err(Refusal::conflict(sentence)
        .because("it would delete the others at the next pass")
        .next(format!("poolctl pool scale {name} --size {idle_count}")))
}
