//! Completes half-written links: what an import brings, and what `doctor` finds. Where two objects
//! disagree, what the cluster says holds; each repair leaves one event. A pass does not come here.

use std::rc::Rc;

use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::model::customization::Customization;
use crate::model::event_reason::EventReason;
use crate::model::ip_lease::VIPS;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::state::{CustomizationId, State};
use crate::model::tick::Tick;

use super::customizations::{lease_named_customizations, write_customization_status};
use super::{leases, links, node_claim_name, record_warning};

/// Completes the links between pools, clusters, claims, customizations and addresses. Needs all
/// clusters that have customizations in the state, with their pools: one that is not there does not
/// exist.
pub fn repair_links(state: &mut State, tick: &Tick) {
    name_agents_of_leases(state);
    drop_reservations(state, tick);
    let mut pools: Vec<Key> = state.pools_with_members().cloned().collect();
    pools.sort_unstable();
    for pool in pools {
        for customization_id in lease_named_customizations(state, &pool, tick) {
            write_customization_status(state, customization_id, &pool, tick);
        }
        links::complete_pairs(state, &pool, tick);
    }
}

/// Exports of earlier versions do not say for which host of a cluster an address is. It follows
/// from the hosts that are bound to the cluster and from how their claims are called.
fn name_agents_of_leases(state: &mut State) {
    for PoolAgent { agent, cluster, pool: pool_key } in agents_of_pools(state) {
        let Some(pool) = state.pools.by_key(&pool_key) else { continue };
        let ip_pools = pool.node_address_pools();
        let mut claims: Vec<String> = Vec::new();
        for ip_pool in &ip_pools {
            claims.push(node_claim_name(&cluster, &agent, &ip_pools, ip_pool));
        }
        for claim in claims {
            let key = Key::new(&*pool_key.namespace, claim);
            let Some(lease_id) = state.ip_leases.find(&key) else { continue };
            state.ip_leases.update(lease_id, |lease| {
                if let Some(holder) = &mut lease.holder
                    && holder.cluster == cluster
                {
                    holder.agent.get_or_insert_with(|| agent.clone());
                }
            });
        }
    }
}

/// A host that a cluster of a pool has.
struct PoolAgent {
    /// The name of its Agent.
    agent: String,
    cluster: String,
    pool: Rc<Key>,
}

/// Lists the Agents that are bound to clusters of pools.
fn agents_of_pools(state: &State) -> Vec<PoolAgent> {
    let hosts = state.agents.rows().filter_map(|agent| {
        // Claims of this name are those of a cluster's API and ingress.
        if VIPS.contains(&agent.metadata.name.as_str()) {
            return None;
        }
        let cluster = agent.bound_cluster()?.name;
        let pool = state.clusters.get(state.find_cluster(&cluster)?)?.pool.clone()?;
        Some(PoolAgent { agent: agent.metadata.name.clone(), cluster, pool })
    });
    hosts.collect()
}

/// Frees customizations whose cluster is not there, or does not use them.
fn drop_reservations(state: &mut State, tick: &Tick) {
    let mut unfounded: Vec<(CustomizationId, String)> = Vec::new();
    for (customization_id, customization) in state.customizations.iter() {
        if let Some(problem) = reservation_problem(state, customization) {
            unfounded.push((customization_id, problem));
        }
    }
    for (customization_id, problem) in unfounded {
        free_customization(state, customization_id, tick);
        if let Some(key) = state.customizations.get(customization_id).map(Customization::key) {
            let message = format!("Reservation dropped: {problem}");
            record_warning(
                state,
                tick,
                Kind::Customization,
                key,
                EventReason::ReservationDropped,
                message,
            );
        }
    }
}

/// Ends the lease of a customization, whoever has it. A customization that is being deleted goes.
pub fn free_customization(state: &mut State, customization_id: CustomizationId, tick: &Tick) {
    let Some(customization) = state.customizations.get(customization_id) else { return };
    let metadata = &customization.metadata;
    if metadata.deletion_timestamp.is_some() && metadata.finalizers.is_empty() {
        return state.customizations.remove(customization_id);
    }
    let available =
        Condition::new(ConditionType::Available, "True", ConditionReason::Available, "available");
    leases::return_customization(state, customization_id);
    state.customizations.update(customization_id, |customization| {
        let status = &mut customization.status;
        status.cluster_deployment_ref = None;
        status.cluster_pool_ref = None;
        status.preserved = false;
        status.preserved_name.clear();
        status.set_condition(available, tick.now);
    });
}

/// Why a customization cannot be leased to the cluster that has it, as it seems.
fn reservation_problem(state: &State, customization: &Customization) -> Option<String> {
    let Some(holder) = &customization.holder else {
        let pool = customization.status.cluster_pool_ref.as_ref()?;
        return Some(format!("it names pool {} and no cluster", pool.name));
    };
    if holder.preserved {
        return None;
    }
    let cluster = state.find_cluster(&holder.cluster).and_then(|id| state.clusters.get(id));
    let Some(cluster) = cluster else {
        return Some(format!("there is no cluster {}", holder.cluster));
    };
    let Key { namespace, name } = customization.key();
    let is_used = cluster.customization.as_ref() == Some(&name)
        && cluster.pool.as_deref() == holder.pool.as_ref()
        && cluster.pool.as_ref().is_some_and(|pool| pool.namespace == namespace);
    if is_used { None } else { Some(format!("cluster {} does not use it", cluster.name)) }
}
