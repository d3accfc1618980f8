//! Which scopes a pass looks at: those that are due, those that were changed, and those whose jobs
//! run. Everything else is as the last pass left it, and is not even read.

use std::collections::BTreeSet;

use crate::model::claim::Claim;
use crate::model::clock::PassExtent;
use crate::model::due::{Due, DueChanges, DueNow};
use crate::model::kinds::Kind;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::plan;
use crate::store::DueFilter;

use super::{Door, PassOutcome, PlannedPass};

/// The kinds whose objects belong to a pool. What is changed of others may concern any scope.
const KINDS_OF_POOLS: [Kind; 3] = [Kind::ClusterPool, Kind::ClusterDeployment, Kind::ClusterClaim];
/// The kinds that pools share and that a plan changes for one of them.
const SHARED_MACHINES: [Kind; 3] = [Kind::BareMetalHost, Kind::Agent, Kind::InfraEnv];
/// How often a pass goes on with what its own changes have made possible elsewhere.
const MAX_ROUNDS: usize = 20;

impl Door<'_> {
    /// One pass over everything, be it due or not.
    pub fn run_whole_pass(&self) -> Result<PassOutcome, Refusal> {
        self.prune_old_records()?;
        self.run_pass(&Scope::Whole)
    }

    /// One pass over all that is due. What it gives back may help others that wait: they are
    /// looked at in the same pass.
    pub fn run_due_pass(&self) -> Result<PassOutcome, Refusal> {
        self.prune_old_records()?;
        let mut passed = PassOutcome::new(State::default());
        let mut filter = DueFilter::DirtyOrPolled;
        let mut has_passed_everything = false;
        for _ in 0..MAX_ROUNDS {
            let scope = match self.find_due_now(filter)? {
                DueNow::Nothing => break,
                DueNow::Pools(keys) => Scope::Pools(keys),
                DueNow::Everything => Scope::Whole,
            };
            let round = self.run_pass(&scope)?;
            passed.refused.extend(round.refused);
            passed.warnings.extend(round.warnings);
            // A pool that was refused stays to be done, but not in this pass.
            has_passed_everything = scope == Scope::Whole;
            if has_passed_everything || !passed.refused.is_empty() {
                break;
            }
            filter = DueFilter::Dirty;
        }
        for failure in [self.end_jobs_with_inputs().err(), self.finish_removals().err()] {
            passed.warnings.extend(failure.map(|refusal| refusal.to_string()));
        }
        debug_assert_eq!(
            if has_passed_everything { Vec::new() } else { self.find_missed_changes()? },
            Vec::<String>::new()
        );
        Ok(passed)
    }

    /// What has to be looked at now. A clock that was moved concerns everything.
    fn find_due_now(&self, filter: DueFilter) -> Result<DueNow, Refusal> {
        let judged = self.judge_clock(PassExtent::Everything)?;
        if judged.jumped || judged.news.is_some() {
            return Ok(DueNow::Everything);
        }
        self.store.find_due(judged.now, filter)
    }

    /// What a commit says of scopes. `edited` are the kinds that were changed before the plan; what
    /// was not planned to the end is still to be done.
    pub(super) fn due_changes(
        &self,
        state: &State,
        edited: &BTreeSet<Kind>,
        is_planned: bool,
        tick: &Tick,
    ) -> Result<DueChanges, Refusal> {
        let mut changes = DueChanges {
            is_whole: is_planned && state.is_whole,
            may_help_waiting: may_help_waiting(state),
            // What expired while the clock was not believed is still to be done.
            is_rest_dirty: tick.clock_jumped,
            ..DueChanges::default()
        };
        let is_edit_shared = edited.iter().any(|kind| !KINDS_OF_POOLS.contains(kind));
        if !is_planned {
            mark_changed_pools(state, &mut changes);
            changes.is_rest_dirty |= is_edit_shared || !state.ip_leases.is_unchanged();
            return Ok(changes);
        }
        changes.settled = plan::due_scopes(state, tick.now);
        for change in state.pools.difference().filter(|change| change.after.is_none()) {
            // What a removed pool leaves belongs to no pool.
            let removed = change.before.map(|pool| (pool.key(), Due::default()));
            changes.settled.pools.extend(removed);
        }
        if !changes.is_whole {
            let changed_kinds = state.changed_kinds();
            let are_machines_changed =
                SHARED_MACHINES.iter().any(|kind| changed_kinds.contains(kind));
            changes.is_rest_dirty |=
                is_edit_shared || are_machines_changed || are_clusters_without_pool_changed(state);
            changes.dirty_pools = self.find_pools_sharing_customizations(state)?;
        }
        Ok(changes)
    }

    /// What a pass over everything would change although nothing of it is due: there should be no
    /// such thing. Returns a sentence for each scope; none while others change the state.
    pub fn find_missed_changes(&self) -> Result<Vec<String>, Refusal> {
        // What is wrong with a state is not about what is due.
        let Ok(planned) = self.plan_without_lock(&Scope::Whole) else { return Ok(Vec::new()) };
        let PlannedPass { state, revision, tick, .. } = planned;
        // What follows from what is due is done in the same pass.
        if self.store.find_due(tick.now, DueFilter::DirtyOrPolled)? != DueNow::Nothing {
            return Ok(Vec::new());
        }
        let current_revision = self.store.read_revision()?;
        if tick.clock_jumped || state.is_unchanged() || revision != current_revision {
            return Ok(Vec::new());
        }
        let mut missed = Vec::new();
        for pool in state.owners().into_iter().flatten() {
            missed.push(format!("a pass over everything would change pool `{pool}`"));
        }
        if missed.is_empty() {
            missed.push("a pass over everything would change what belongs to no pool".to_owned());
        }
        Ok(missed)
    }
}

/// Marks the pools whose clusters and claims were changed, and the pools that were.
fn mark_changed_pools(state: &State, changes: &mut DueChanges) {
    for change in state.pools.difference() {
        changes.dirty_pools.extend(change.after.or(change.before).map(ClusterPool::key));
    }
    for change in state.claims.difference() {
        let claims = [change.before, change.after].into_iter().flatten();
        changes.dirty_pools.extend(claims.map(Claim::pool_key));
    }
    for change in state.clusters.difference() {
        for cluster in [change.before, change.after].into_iter().flatten() {
            changes.dirty_pools.extend(cluster.pool.as_deref().cloned());
        }
    }
    changes.is_rest_dirty |= are_clusters_without_pool_changed(state);
}

fn are_clusters_without_pool_changed(state: &State) -> bool {
    state
        .clusters
        .difference()
        .any(|change| change.before.or(change.after).is_some_and(|cluster| cluster.pool.is_none()))
}

/// Whether names, addresses, hosts or customizations may have become free.
fn may_help_waiting(state: &State) -> bool {
    let is_cluster_removed =
        state.clusters.difference().any(|change| change.before.is_some() && change.after.is_none());
    is_cluster_removed
        || !state.customizations.is_unchanged()
        || !state.ip_leases.is_unchanged()
        || !state.hosts.is_unchanged()
        || !state.agents.is_unchanged()
}
