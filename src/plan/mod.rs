//! Decides: State + Tick -> State. It is pure and cannot fail, and touches no clock, dice, disk or
//! program. This file is the order of the steps; each concern has a file of its own.

mod address_allocator;
mod addresses;
pub mod agents;
mod assign;
pub mod buckets;
mod cluster_addresses;
mod cluster_hosts;
mod cluster_jobs;
mod create;
mod customizations;
mod deadline;
mod dependencies;
mod due;
mod edited_input;
mod expire;
mod fixed_addresses;
mod give_back;
mod history;
mod hosts;
mod inventory;
mod lease_expiry;
mod lease_names;
pub mod leases;
mod life;
mod links;
mod pause;
mod power;
mod preflight;
mod probes;
mod recipe;
mod repair;
mod reports;
mod schedule;
mod size;
mod status;
mod version;
mod wiping;

use std::rc::Rc;

pub use crate::render::install_config::Rendered;
pub use addresses::find_serving_pool;
pub use buckets::is_failed_stale;
pub use cluster_addresses::{describe_unplaceable_vips, has_patched_vips, node_claim_name};
pub use deadline::{deadline, overdue_report};
pub use dependencies::{driver_problem, driver_program_problem, missing_dependencies};
pub use due::{due_of_agent, due_scopes, next_due_at};
pub use edited_input::check_edited_input;
pub use expire::effective_lifetime;
pub use give_back::find_lost_hosts;
pub use history::restore_inventory_history;
pub use inventory::inventory_summary;
pub use life::{
    FAILURES_WORTH_A_WARNING, crowding_clusters, forget_cluster, has_used_its_attempts,
    next_attempt_at, waits_for_hosts_until,
};
pub use links::complete_pairs;
pub use pause::{PauseEnd, describe_install_pause, end_pause};
pub use power::{hibernates_at, sleeps_for_good};
pub use preflight::render_checked_cluster;
pub use recipe::render_next_cluster;
pub use repair::{free_customization, repair_links};
pub use reports::{keep_installation, take_healths, take_job_reports};
pub use schedule::schedule_of;
pub use size::{BROKEN_CLUSTER, STALE_CLUSTER};
pub use status::{describe_failed_destruction, recount_clusters, restore_counts};

use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::state::{Books, ClusterId, PoolId, State};
use crate::model::tick::Tick;

/// Rounds after which a plan counts as not settling.
const MAX_ROUNDS: usize = 100;

/// The rounds changed something every time.
#[derive(Debug, PartialEq, Eq)]
pub struct NotConverged;

/// Repeats rounds until nothing changes, time standing still, and notes which Agents are settled.
pub fn settle(state: &mut State, tick: &Tick, names: &dyn Books) -> Result<(), NotConverged> {
    for _ in 0..MAX_ROUNDS {
        let before = state.changes_made();
        round(state, tick, names);
        if state.changes_made() == before {
            // While the clock is not believed, a silent host keeps the state of one that reports. Whose
            // spec is not followed is tried again in every pass.
            if !tick.clock_jumped {
                state.agents.note_settled_rows(agents::conditions::is_spec_synced);
            }
            return Ok(());
        }
    }
    Err(NotConverged)
}

/// One round: what Hive would do in one reconcile of each pool, in its order.
pub fn round(state: &mut State, tick: &Tick, names: &dyn Books) {
    // Agents first: the pools below pick hosts, so host states must already be those of this pass.
    agents::advance_agents(state, tick);
    let pool_ids: Vec<PoolId> = state.pools.iter().map(|(pool_id, _)| pool_id).collect();
    for pool_id in pool_ids {
        plan_pool(state, pool_id, tick, names);
    }
    state.act_for(None);
    plan_clusters_without_pool(state, tick);
    give_back::follow_returned_hosts(state, tick);
    hosts::advance_hosts(state, tick);
    // Before addresses are leased, so that the next claim gets what an expired one gives back.
    lease_expiry::expire_leases(state, tick);
    addresses::lease_addresses(state, names, tick);
    lease_names::give_unique_names(state, names);
}

/// Hands clusters that are ready to claims that wait, and nothing that follows from it: neither
/// another cluster for the pool nor a job, nor what the pool says of itself.
pub fn settle_claims(state: &mut State, tick: &Tick) {
    let pool_ids: Vec<PoolId> = state.pools.iter().map(|(pool_id, _)| pool_id).collect();
    for pool_id in pool_ids {
        let Some(pool) = state.pools.get(pool_id) else { continue };
        if !may_act(pool) {
            continue;
        }
        let key = Rc::new(pool.key());
        state.act_for(Some(Rc::clone(&key)));
        assign::assign_clusters(state, &key, tick);
        links::sync_links(state, &key, tick);
        links::write_claim_conditions(state, &key, tick);
    }
    state.act_for(None);
}

/// Plans one pool, in the order in which its steps need the results of one another. Events are
/// recorded on behalf of the pool, so that they are undone with it.
fn plan_pool(state: &mut State, pool_id: PoolId, tick: &Tick, names: &dyn Books) {
    let Some(pool) = state.pools.get(pool_id) else { return };
    let key = Rc::new(pool.key());
    state.act_for(Some(Rc::clone(&key)));
    pause::lift_expired_pause(state, pool_id, tick);
    // Before claims that were answered and are released already go.
    assign::count_waits(state, pool_id);
    expire::expire_claims(state, &key, tick);
    links::sync_links(state, &key, tick);
    links::write_claim_conditions(state, &key, tick);
    customizations::sync_customizations(state, pool_id, tick);
    if state.pools.get(pool_id).is_some_and(may_act) {
        schedule::apply_schedule(state, pool_id, tick);
        // Assignment before size: a claimed cluster is not in the pool when size looks at it, so
        // it is never deleted as stale in the pass that hands it over.
        assign::assign_clusters(state, &key, tick);
        assign::count_waits(state, pool_id);
        size::choose_size(state, pool_id, tick, names);
        power::choose_running_clusters(state, pool_id, tick);
    }
    for cluster_id in state.members(&key).clusters {
        life::advance_cluster(state, cluster_id, tick);
    }
    status::write_pool_status(state, pool_id, tick);
}

/// Whether a pool makes clusters and hands them over. A paused one does not, unless it is being
/// deleted: then it goes all the same.
fn may_act(pool: &ClusterPool) -> bool {
    !pool.metadata.has_true_annotation(RECONCILE_PAUSE)
        || pool.metadata.deletion_timestamp.is_some()
}

/// Clusters that were applied by hand, and the clusters and claims of pools that are not there.
fn plan_clusters_without_pool(state: &mut State, tick: &Tick) {
    let clusters = state.clusters.iter().filter(|(_, cluster)| cluster.pool.is_none());
    let cluster_ids: Vec<ClusterId> = clusters.map(|(cluster_id, _)| cluster_id).collect();
    for cluster_id in cluster_ids {
        life::advance_cluster(state, cluster_id, tick);
    }
    let pools = state.pools_with_members().filter(|key| state.pools.find(key).is_none());
    let missing_pools: Vec<Key> = pools.cloned().collect();
    for key in missing_pools {
        // The jobs of its clusters are the pool's, too.
        state.act_for(Some(Rc::new(key.clone())));
        expire::expire_claims(state, &key, tick);
        links::sync_links(state, &key, tick);
        for cluster_id in state.members(&key).clusters {
            life::advance_cluster(state, cluster_id, tick);
        }
        links::write_claim_conditions(state, &key, tick);
    }
    state.act_for(None);
}

/// Records an event: what is done to an object, and why.
fn record_event(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    object: Key,
    reason: EventReason,
    message: String,
) {
    state.record_event(make_event(tick, kind, object, reason, message));
}

/// Records a warning: what went wrong with an object, or soon will.
fn record_warning(
    state: &mut State,
    tick: &Tick,
    kind: Kind,
    object: Key,
    reason: EventReason,
    message: String,
) {
    let event = make_event(tick, kind, object, reason, message);
    state.record_event(Event { event_type: EventType::Warning, ..event });
}

/// Makes an event of the pass. The caller records it.
fn make_event(tick: &Tick, kind: Kind, object: Key, reason: EventReason, message: String) -> Event {
    Event {
        time: tick.now,
        reason: reason.into(),
        kind: kind.name(),
        object,
        actor: PASS_ACTOR.to_owned(),
        message,
        ..Event::default()
    }
}

/// The actor of what a pass decides. Whoever started the pass has typed nothing of the kind.
const PASS_ACTOR: &str = "reconcile";
