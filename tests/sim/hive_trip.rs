//! The law of the way to a Hive and back: what is exported for a Hive and imported again is the same
//! but for what the export says that it cannot carry. Clusters that are not installed stay, and so
//! do Secrets, jobs and whatever is being deleted.

use std::collections::{HashMap, HashSet};

use poolctl::edits::import_object;
use poolctl::manifest::{self, ReadOptions};
use poolctl::model::claim::Claim;
use poolctl::model::cluster::Cluster;
use poolctl::model::customization::Customization;
use poolctl::model::kinds::Kind;
use poolctl::model::meta::Key;
use poolctl::model::object::Object;
use poolctl::model::pool::ClusterPool;
use poolctl::model::refusal::Refusal;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::plan;
use poolctl::render::hive_objects::{HiveRendering, PoolStart, reason_to_keep};
use poolctl::render::hive_version::{HiveRelease, is_hive_version};
use poolctl::rules::{check_invariants, check_single_holders};
use serde_json::{Value, json};

use super::round_trip::export;
use super::world::{NAMESPACE, SimWorld};

/// Kinds that are not compared: the values of Secrets are written by commands, and the namespaces of
/// clusters follow from these.
const NOT_COMPARED: [Kind; 2] = [Kind::Secret, Kind::Namespace];

/// What moves of a state.
struct HiveExport {
    pools: HashMap<Key, ClusterPool>,
    clusters: HashSet<String>,
    claims: HashSet<Key>,
    customizations: HashSet<Key>,
    documents: Vec<Value>,
}

/// Exports all objects of the world for a Hive, imports them into an empty state, and compares.
pub fn check_hive_trip(world: &SimWorld) -> Result<(), String> {
    match move_to_hive_and_back(world) {
        Ok(None) => Ok(()),
        Ok(Some(loss)) => Err(format!("on the way to a Hive and back: {loss}")),
        Err(refusal) => Err(format!("what was exported for a Hive is refused: {refusal}")),
    }
}

fn move_to_hive_and_back(world: &SimWorld) -> Result<Option<String>, Refusal> {
    let tick = Tick { now: world.now()?, actor: "simulator".into(), ..Tick::default() };
    let objects = export(world.store())?;
    let hive_export = HiveExport::of(&objects);
    let imported = import(&hive_export.documents, &tick)?;
    Ok(objects.iter().find_map(|object| hive_export.find_loss(object, &imported)))
}

/// Reads the documents as `import` reads a dump, and puts them into an empty state.
fn import(documents: &[Value], tick: &Tick) -> Result<State, Refusal> {
    let folder = tempfile::tempdir().map_err(|error| Refusal::invalid(error.to_string()))?;
    let file = folder.path().join("hive.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
    std::fs::write(&file, list.to_string()).map_err(|error| Refusal::invalid(error.to_string()))?;
    let reading = ReadOptions { namespace: NAMESPACE, moves_state: true, ..ReadOptions::default() };
    let mut objects = manifest::read(&[file], &reading)?.objects;
    check_single_holders(&objects)?;
    objects.sort_by_key(Object::kind);
    let mut state = State::default();
    for object in objects {
        import_object(&mut state, object, tick)?;
    }
    plan::repair_links(&mut state, tick);
    check_invariants(&state)?;
    Ok(state)
}

impl HiveExport {
    fn of(objects: &[Object]) -> Self {
        let mut pools = HashMap::new();
        let mut clusters = HashSet::new();
        let mut claims = HashSet::new();
        let mut customizations = HashSet::new();
        for object in objects.iter().filter(|object| object.deletion_time().is_none()) {
            match object {
                Object::ClusterPool(pool) => {
                    pools.insert(pool.key(), (**pool).clone());
                }
                Object::ClusterDeployment(cluster) if reason_to_keep(cluster).is_none() => {
                    clusters.insert(cluster.name.clone());
                }
                Object::ClusterClaim(claim) => {
                    claims.insert(claim.key());
                }
                Object::Customization(customization) => {
                    customizations.insert(customization.key());
                }
                _ => {}
            }
        }
        let rendering = HiveRendering {
            pools: &pools,
            clusters: &clusters,
            own_version: poolctl::model::pool_versions::pool_version,
            release: HiveRelease::NEWEST,
            pool_start: PoolStart::AtOnce,
        };
        let mut documents = Vec::new();
        for object in objects.iter().filter(|object| !NOT_COMPARED.contains(&object.kind())) {
            documents.extend(rendering.render(object));
        }
        Self { pools, clusters, claims, customizations, documents }
    }

    /// What an object that moves has lost; none if it does not move.
    fn find_loss(&self, object: &Object, imported: &State) -> Option<String> {
        match object {
            Object::ClusterPool(pool) if self.pools.contains_key(&pool.key()) => {
                find_loss_of_pool(pool, imported)
            }
            Object::ClusterDeployment(cluster) if self.clusters.contains(&cluster.name) => {
                self.find_loss_of_cluster(cluster, imported)
            }
            Object::ClusterClaim(claim) if self.claims.contains(&claim.key()) => {
                self.find_loss_of_claim(claim, imported)
            }
            Object::Customization(customization)
                if self.customizations.contains(&customization.key()) =>
            {
                self.find_loss_of_customization(customization, imported)
            }
            _ => None,
        }
    }

    fn find_loss_of_cluster(&self, cluster: &Cluster, imported: &State) -> Option<String> {
        let name = &cluster.name;
        let copy = imported.find_cluster(name).and_then(|id| imported.clusters.get(id));
        let Some(copy) = copy else { return Some(format!("cluster {name} is lost")) };
        let before = self.facts_of_cluster(cluster);
        let after = self.facts_of_cluster(copy);
        if before != after {
            return Some(format!("cluster {name} differs: {before} became {after}"));
        }
        let pool = self.pools.get(cluster.pool.as_deref()?)?;
        let own_version = poolctl::model::pool_versions::pool_version(pool);
        let was_current = cluster.version.as_deref() == Some(own_version.as_str());
        let is_current =
            copy.version.as_deref().is_some_and(|version| is_hive_version(pool, version));
        let change = if is_current { "became current" } else { "became stale" };
        (was_current != is_current).then(|| format!("cluster {name} {change}"))
    }

    /// What has to stay as it is of a cluster. What it names is only compared if that moves too.
    fn facts_of_cluster(&self, cluster: &Cluster) -> Value {
        let claim = cluster.claim_key().filter(|claim| self.claims.contains(claim));
        let pool = cluster.pool.as_deref();
        let customization = pool
            .and_then(|pool| Some(Key::new(&*pool.namespace, cluster.customization.as_deref()?)));
        let customization = customization.filter(|key| self.customizations.contains(key));
        json!({
            "pool": pool.map(Key::to_string),
            "claim": claim.map(|claim| claim.to_string()),
            "customization": customization.map(|customization| customization.to_string()),
            "name": format!("{}.{}", cluster.cluster_name, cluster.base_domain),
            "installed": cluster.is_installed(),
            "wanted": cluster.wanted_power().to_wire(),
            "preserved": cluster.preserve,
        })
    }

    fn find_loss_of_claim(&self, claim: &Claim, imported: &State) -> Option<String> {
        let key = claim.key();
        let Some(copy) = imported.claims.by_key(&key) else {
            return Some(format!("claim {key} is lost"));
        };
        let has_same_cluster = match &claim.cluster {
            Some(cluster) if !self.clusters.contains(cluster) => true,
            cluster => copy.cluster == *cluster,
        };
        let is_same =
            has_same_cluster && copy.pool == claim.pool && copy.lifetime == claim.lifetime;
        (!is_same).then(|| {
            let before = (&claim.pool, &claim.cluster, claim.lifetime);
            let after = (&copy.pool, &copy.cluster, copy.lifetime);
            format!("claim {key} differs: {before:?} became {after:?}")
        })
    }

    fn find_loss_of_customization(
        &self,
        customization: &Customization,
        imported: &State,
    ) -> Option<String> {
        let key = customization.key();
        let Some(copy) = imported.customizations.by_key(&key) else {
            return Some(format!("customization {key} is lost"));
        };
        let before = self.holder_that_moves(customization);
        let after = self.holder_that_moves(copy);
        (before != after)
            .then(|| format!("customization {key} was held by {before:?}, then by {after:?}"))
    }

    fn holder_that_moves<'a>(&self, customization: &'a Customization) -> Option<&'a str> {
        let holder = customization.holder.as_ref()?;
        self.clusters.contains(&holder.cluster).then_some(holder.cluster.as_str())
    }
}

fn find_loss_of_pool(pool: &ClusterPool, imported: &State) -> Option<String> {
    let key = pool.key();
    let Some(copy) = imported.pools.by_key(&key) else {
        return Some(format!("pool {key} is lost"));
    };
    let before = facts_of_pool(pool);
    let after = facts_of_pool(copy);
    (before != after).then(|| format!("pool {key} differs: {before} became {after}"))
}

/// What has to stay as it is of a pool.
fn facts_of_pool(pool: &ClusterPool) -> Value {
    let spec = &pool.spec;
    json!({
        "size": spec.size,
        "maxSize": spec.max_size,
        "maxConcurrent": spec.max_concurrent,
        "baseDomain": spec.base_domain,
        "imageSetRef": spec.image_set_ref,
        "inventory": spec.inventory,
        "platform": spec.platform,
        "claimLifetime": spec.claim_lifetime,
        "installAttemptsLimit": spec.install_attempts_limit,
    })
}
