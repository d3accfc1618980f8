//! Makes half-written links whole: what an import brings, and what `doctor` finds. The cluster's
//! side holds; each repair leaves one event.

use crate::model::cluster::Cluster;
use crate::model::condition::Condition;
use crate::model::customization::Customization;
use crate::model::meta::Key;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::{CUSTOMIZATION, customizations, links, warn};

/// Needs the whole state.
pub fn mend(state: &mut State, tick: &Tick) {
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

/// A reservation whose cluster is not there, or does not use it, is none.
fn drop_reservations(state: &mut State, tick: &Tick) {
    let wrong: Vec<(usize, String)> = state
        .customizations
        .iter()
        .filter_map(|(at, one)| Some((at, unfounded(state, one)?)))
        .collect();
    for (at, why) in wrong {
        free(state, at, tick);
        if let Some(key) = state.customizations.get(at).map(Customization::key) {
            let message = format!("Reservation dropped: {why}");
            warn(state, tick, "ReservationDropped", (CUSTOMIZATION, key), message);
        }
    }
}

/// Ends a lease, whoever has it; a customization that is being deleted goes.
pub fn free(state: &mut State, at: usize, tick: &Tick) {
    let goes = |one: &Customization| {
        one.metadata.deletion_timestamp.is_some() && one.metadata.finalizers.is_empty()
    };
    if state.customizations.get(at).is_some_and(goes) {
        return state.customizations.remove(at);
    }
    let free = Condition::new("Available", "True", "Available", "available");
    state.customizations.update(at, |one| {
        one.holder = None;
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
