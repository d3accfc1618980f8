//! Explains one object: why it is as it is, the strongest reason first, and which command helps. It
//! reads values that a command has gathered. It never opens a state and never changes anything.

mod agent;
mod agent_waits;
mod chain;
mod checks;
mod claim;
mod cluster;
mod customization;
mod evidence;
mod held_clusters;
mod host;
mod infra_env;
mod ip_claim;
mod ip_pool;
mod pool;
mod queue;
mod replacements;
mod shortage;
mod troubles;

pub use agent_waits::{AgentGroup, WaitingAgents};
pub use chain::Chain;
pub use cluster::{is_in_trouble, is_late};
pub use evidence::Evidence;
pub use infra_env::command_to_make_image;
pub use ip_pool::find_ip_pool_trouble;
pub use pool::{describe_installing, describe_shortage};
pub use queue::{QueuePosition, UsualDurations, estimate_queue, usual_duration};
pub use replacements::{RECENT_JOBS, RECENT_SPAN};
pub use troubles::{
    explain_strongest_trouble, find_pool_troubles, may_be_in_trouble, name_strongest_trouble,
};

use agent::explain_agent;
use claim::explain_claim;
use cluster::explain_cluster;
use customization::explain_customization;
use host::explain_host;
use infra_env::explain_infra_env;
use ip_claim::explain_ip_claim;
use ip_pool::explain_ip_pool;
use pool::explain_pool;

use crate::model::cluster::Cluster;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::state::State;

/// Explains why an object is as it is.
pub fn explain(evidence: &Evidence, object: &Object) -> Chain {
    match object {
        Object::ClusterPool(pool) => explain_pool(evidence, pool),
        Object::ClusterClaim(claim) => explain_claim(evidence, claim),
        Object::ClusterDeployment(cluster) => explain_cluster(evidence, cluster),
        Object::Customization(customization) => explain_customization(evidence, customization),
        Object::BareMetalHost(host) => explain_host(evidence, host),
        Object::Agent(agent) => explain_agent(evidence, agent),
        Object::InfraEnv(infra_env) => explain_infra_env(evidence, infra_env),
        Object::IpClaim(claim) => explain_ip_claim(evidence, claim),
        Object::IpPool(ip_pool) => explain_ip_pool(evidence, ip_pool),
        passive_object => explain_passive_object(evidence, passive_object),
    }
}

/// The cluster that the explanation of an object may lead to, if any. The caller gathers its last
/// jobs as evidence.
pub fn explained_cluster<'a>(state: &'a State, object: &'a Object) -> Option<&'a Cluster> {
    if let Some(pool) = explained_pool(state, object) {
        return pool::explained_cluster(state, pool);
    }
    match object {
        Object::ClusterDeployment(cluster) => Some(cluster),
        Object::ClusterClaim(claim) => claim::cluster_of(state, claim),
        Object::Customization(customization) => customization::cluster_of(state, customization),
        Object::Agent(agent) => agent::cluster_of(state, agent),
        _ => None,
    }
}

/// The pool that the explanation of an object leads to, if only the past can explain that pool. The
/// caller gathers its last jobs and events as evidence.
pub fn pool_explained_by_history<'a>(
    state: &'a State,
    object: &'a Object,
) -> Option<&'a ClusterPool> {
    explained_pool(state, object).filter(|pool| pool::is_explained_by_history(state, pool))
}

/// The pool that the explanation of an object leads to, if any.
fn explained_pool<'a>(state: &'a State, object: &'a Object) -> Option<&'a ClusterPool> {
    match object {
        Object::ClusterPool(pool) => Some(pool),
        Object::ClusterClaim(claim) => claim::explained_pool(state, claim),
        _ => None,
    }
}

/// Explains an object of a kind that passes only read.
fn explain_passive_object(evidence: &Evidence, object: &Object) -> Chain {
    let word = object.kind().word();
    let name = object.key().name;
    Chain::new(
        format!("{word} {name} is as it was applied; poolctl does nothing with it on its own"),
        format!("poolctl get {word} {name} -o yaml{}", evidence.namespace_option),
    )
}
