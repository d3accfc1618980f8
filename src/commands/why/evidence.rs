//! Reads the input of the explanations in `causes`. It finds no causes itself.

use crate::causes::{self, Evidence};
use crate::model::cluster::Cluster;
use crate::model::host::BareMetalHost;
use crate::model::job::{Job, Verb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::time::Time;
use crate::store::{Filter, NeededObject, Store};

use crate::commands::infraenv::iso::is_image_stale;
use crate::commands::{Context, claim};

/// What `causes::explain` needs to know of an object. The history of a state is long, so past jobs
/// and events are read only if the explanation of this object comes to them.
pub fn gather_evidence(
    context: &Context,
    store: &Store,
    object: &Object,
) -> Result<Evidence, Refusal> {
    let key = object.key();
    let mut evidence = gather_present(context, store, object)?;
    let now = evidence.now;
    if let Some(pool) = causes::pool_explained_by_history(&evidence.state, object) {
        let limit = causes::RECENT_JOBS;
        evidence.provisions = store.last_jobs_of_pool(&pool.key(), Verb::Provision, limit)?;
        evidence.events = store.replacements_since(Time(now.0 - causes::RECENT_SPAN.0))?;
    }
    match object {
        Object::ClusterClaim(claim) if claim.is_waiting() => {
            evidence.queue_position = claim::queue_position(store, now, &key)?.to_string();
        }
        Object::Customization(customization) if customization.holder.is_none() => {
            let filter = Filter { namespace: Some(key.namespace), ..Filter::default() };
            evidence.pools = store.list(&filter)?;
        }
        Object::IpPool(pool) => evidence.waiting_ip_claims = store.count_waiting_ip_claims(pool)?,
        Object::BareMetalHost(host) => read_about_host(store, host, &mut evidence)?,
        Object::InfraEnv(infra_env) => evidence.image_is_stale = is_image_stale(store, infra_env)?,
        _ => {}
    }
    Ok(evidence)
}

/// What an explanation needs to know that does not come to the past of a pool. That is all that
/// `causes::find_pool_troubles` needs.
pub fn gather_present(
    context: &Context,
    store: &Store,
    object: &Object,
) -> Result<Evidence, Refusal> {
    let scope = Scope::Pools(pool_of(object).into_iter().collect());
    let (state, _) = context.door(store).load_for_dry_run(&scope, &needs_of(store, object)?)?;
    let now = context.world.now().max(store.read_mark()?.now);
    let namespace_option = option_to_find(context, &object.key());
    let mut evidence = Evidence { state, now, namespace_option, ..Evidence::default() };
    if let Some(cluster) = causes::explained_cluster(&evidence.state, object).cloned() {
        read_about_cluster(store, &cluster, &mut evidence)?;
        if cluster.paused {
            // Whether a restore holds it is in its document.
            store.load_cluster_body(&mut evidence.state, &cluster.name)?;
        }
    }
    Ok(evidence)
}

/// Evidence of a pool, made that of a cluster in its scope: what is read beside the scope is read
/// for the cluster.
pub fn turn_to_cluster(
    context: &Context,
    store: &Store,
    cluster: &Cluster,
    evidence: &mut Evidence,
) -> Result<(), Refusal> {
    evidence.namespace_option = option_to_find(context, &cluster.key());
    read_about_cluster(store, cluster, evidence)
}

/// The option of commands on an object. A cluster in a namespace of its own is found without it.
fn option_to_find(context: &Context, key: &Key) -> String {
    if key.namespace == key.name { String::new() } else { context.namespace_option(&key.namespace) }
}

/// Adds what explains a cluster: its last destruction that has ended, the hosts of that, and whether
/// its claim exists.
fn read_about_cluster(
    store: &Store,
    cluster: &Cluster,
    evidence: &mut Evidence,
) -> Result<(), Refusal> {
    let last_deprovision = read_last_deprovision(store, cluster)?;
    evidence.hosts = read_hosts_of(store, last_deprovision.as_ref())?;
    evidence.claim_is_gone = is_claim_gone(store, &evidence.state, cluster)?;
    evidence.last_deprovision = last_deprovision;
    Ok(())
}

/// The pool whose scope an object is explained in.
fn pool_of(object: &Object) -> Option<Key> {
    match object {
        Object::ClusterPool(pool) => Some(pool.key()),
        Object::ClusterClaim(claim) => Some(claim.pool_key()),
        Object::ClusterDeployment(cluster) => cluster.pool.as_deref().cloned(),
        Object::Customization(customization) => customization.holder.as_ref()?.pool.clone(),
        _ => None,
    }
}

/// The object itself, and what it refers to beyond that scope.
fn needs_of(store: &Store, object: &Object) -> Result<Vec<NeededObject>, Refusal> {
    let mut needs = vec![NeededObject { kind: object.kind(), key: object.key() }];
    if let Object::ClusterDeployment(cluster) = object {
        // Its claim may have been sent to another pool.
        needs.extend(cluster.claim_key().map(|key| NeededObject { kind: Kind::ClusterClaim, key }));
        for agent in store.list_agents_of_cluster(&cluster.name)? {
            needs.push(NeededObject { kind: Kind::Agent, key: agent.metadata.key() });
        }
    }
    if let Object::Agent(agent) = object {
        let cluster = agent.bound_cluster().or(agent.requested_cluster());
        needs.extend(cluster.map(|key| NeededObject { kind: Kind::ClusterDeployment, key }));
        needs.extend(agent.host_key().map(|key| NeededObject { kind: Kind::BareMetalHost, key }));
        needs.extend(agent.infra_env_key().map(|key| NeededObject { kind: Kind::InfraEnv, key }));
    }
    Ok(needs)
}

/// The last attempt to destroy a cluster that has ended, if there was one.
fn read_last_deprovision(store: &Store, cluster: &Cluster) -> Result<Option<Job>, Refusal> {
    if cluster.deleting.is_none() {
        return Ok(None);
    }
    let newest_first = store.jobs_of_object(&cluster.name)?.into_iter().rev();
    let mut ended = newest_first.filter(|job| job.ended.is_some());
    Ok(ended.find(|job| job.verb == Verb::Deprovision))
}

/// All hosts, if a job worked on any; otherwise none. Most clusters have no hosts.
fn read_hosts_of(store: &Store, job: Option<&Job>) -> Result<Vec<BareMetalHost>, Refusal> {
    if job.is_none_or(|job| job.hosts.is_empty()) { Ok(Vec::new()) } else { store.list_all() }
}

/// Whether the claim of a cluster does not exist, not even beyond the scope.
fn is_claim_gone(store: &Store, state: &State, cluster: &Cluster) -> Result<bool, Refusal> {
    let Some(claim) = cluster.claim_key() else { return Ok(false) };
    let is_loaded = state.claims.find(&claim).is_some();
    Ok(!is_loaded && store.find_pool_of(Kind::ClusterClaim, &claim)?.is_none())
}

/// Adds what explains a host: its last job, whether its cluster still exists, and the agents of its
/// machine if the cluster does not.
fn read_about_host(
    store: &Store,
    host: &BareMetalHost,
    evidence: &mut Evidence,
) -> Result<(), Refusal> {
    let key = host.key();
    evidence.last_job_on_host = store.jobs_on_host(&key.to_string())?.pop();
    evidence.consumer_exists = store.find_cluster_of_host(&key)?.is_some();
    if host.cluster().is_some() && !evidence.consumer_exists {
        evidence.agents_of_host = store.list_agents_of_host(&key)?;
    }
    Ok(())
}
