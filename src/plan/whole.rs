//! Makes half-written links whole: what an import brings, and what `doctor` finds. The cluster's
//! side holds; each repair leaves one event.

use std::rc::Rc;

use crate::model::cluster::Cluster;
use crate::model::condition::{Condition, ConditionReason, ConditionType};
use crate::model::customization::Customization;
use crate::model::event_reason::EventReason;
use crate::model::ip_lease::VIPS;
use crate::model::meta::Key;
use crate::model::state::{CustomizationId, State};
use crate::model::tick::Tick;

use super::{CUSTOMIZATION, claim_of_host, customizations, leases, links, warn};

/// Needs the whole state.
pub fn mend(state: &mut State, tick: &Tick) {
    name_agents_of_leases(state);
    drop_reservations(state, tick);
    let mut pools: Vec<Key> = state.pools_with_members().cloned().collect();
    pools.sort();
    for pool in pools {
        for at in customizations::take_what_clusters_name(state, &pool, tick) {
            customizations::write_status(state, at, &pool, tick);
        }
        links::mend(state, &pool, tick);
    }
}

/// Exports of earlier versions do not say for which host of a cluster an address is. It follows
/// from the hosts that are bound to the cluster and from how their claims are called.
fn name_agents_of_leases(state: &mut State) {
    let hosts = state.agents.rows().filter_map(|agent| {
        // Claims of this name are those of a cluster's API and ingress.
        if VIPS.contains(&agent.metadata.name.as_str()) {
            return None;
        }
        let cluster = agent.bound_to()?.name;
        let pool = state.clusters.get(state.cluster(&cluster)?)?.pool.clone()?;
        Some((agent.metadata.name.clone(), cluster, pool))
    });
    let hosts: Vec<(String, String, Rc<Key>)> = hosts.collect();
    for (agent, cluster, pool_key) in hosts {
        let Some(pool) = state.pools.by_key(&pool_key) else { continue };
        let ip_pools = pool.nodes_from();
        let claims =
            ip_pools.iter().map(|ip_pool| claim_of_host(&cluster, &agent, &ip_pools, ip_pool));
        for claim in claims.collect::<Vec<_>>() {
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

/// A reservation whose cluster is not there, or does not use it, is none.
fn drop_reservations(state: &mut State, tick: &Tick) {
    let wrong: Vec<(CustomizationId, String)> = state
        .customizations
        .iter()
        .filter_map(|(at, one)| Some((at, unfounded(state, one)?)))
        .collect();
    for (at, why) in wrong {
        free(state, at, tick);
        if let Some(key) = state.customizations.get(at).map(Customization::key) {
            let message = format!("Reservation dropped: {why}");
            warn(state, tick, EventReason::ReservationDropped, (CUSTOMIZATION, key), message);
        }
    }
}

/// Ends a lease, whoever has it; a customization that is being deleted goes.
pub fn free(state: &mut State, at: CustomizationId, tick: &Tick) {
    let goes = |one: &Customization| {
        one.metadata.deletion_timestamp.is_some() && one.metadata.finalizers.is_empty()
    };
    if state.customizations.get(at).is_some_and(goes) {
        return state.customizations.remove(at);
    }
    let free =
        Condition::new(ConditionType::Available, "True", ConditionReason::Available, "available");
    leases::return_customization(state, at);
    state.customizations.update(at, |one| {
        let status = &mut one.status;
        (status.cluster_deployment_ref, status.cluster_pool_ref) = (None, None);
        status.preserved = false;
        status.preserved_name.clear();
        status.set(free, tick.now);
    });
}

fn unfounded(state: &State, one: &Customization) -> Option<String> {
    let Some(holder) = &one.holder else {
        let half = one.status.cluster_pool_ref.as_ref()?;
        return Some(format!("it names pool {} and no cluster", half.name));
    };
    if holder.preserved {
        return None;
    }
    let Some(cluster) = state.cluster(&holder.cluster).and_then(|at| state.clusters.get(at)) else {
        return Some(format!("there is no cluster {}", holder.cluster));
    };
    let uses = |cluster: &Cluster| {
        cluster.customization.as_deref() == Some(one.metadata.name.as_str())
            && cluster.pool.as_deref() == holder.pool.as_ref()
            && cluster.pool.as_ref().is_some_and(|pool| pool.namespace == one.metadata.namespace)
    };
    (!uses(cluster)).then(|| format!("cluster {} does not use it", cluster.name))
}
