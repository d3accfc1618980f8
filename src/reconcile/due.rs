//! Which scopes a pass looks at: those that are due, those that were changed, and those whose jobs
//! run. Everything else is as the last pass left it, and is not even read.

use std::collections::BTreeSet;
use std::mem;

use crate::model::agent::Agent;
use crate::model::claim::Claim;
use crate::model::clock::PassExtent;
use crate::model::cluster::Cluster;
use crate::model::due::{Due, DueChanges, DueNow, DueObject, HelpedScopes};
use crate::model::host::BareMetalHost;
use crate::model::kinds::Kind;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::table::Change;
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::plan;
use crate::store::DueFilter;

use super::parts::PassPart;
use super::{Door, Notes, PassOutcome, PlannedPass};

/// The kinds whose objects belong to a pool. What is changed of others may concern any scope.
const KINDS_OF_POOLS: [Kind; 3] = [Kind::ClusterPool, Kind::ClusterDeployment, Kind::ClusterClaim];
/// How often a pass goes on with what its own changes have made possible elsewhere.
const MAX_ROUNDS: usize = 20;

impl Door<'_> {
    /// One pass over everything, whether it is due or not. The memory of its last part is never freed:
    /// call this only if the program ends soon after.
    pub fn run_whole_pass_before_exit(&self) -> Result<PassOutcome, Refusal> {
        self.prune_old_records()?;
        let mut passed = PassOutcome::new(State::default());
        let last_state = self.run_parts(DueNow::Everything, &mut passed)?;
        // To free object by object is slow. The kernel frees all memory at once.
        mem::forget(last_state);
        Ok(passed)
    }

    /// One pass over all that is due. What it gives back may help others that wait: they are
    /// looked at in the same pass.
    pub fn run_due_pass(&self) -> Result<PassOutcome, Refusal> {
        self.prune_old_records()?;
        let mut passed = PassOutcome::new(State::default());
        let mut filter = DueFilter::DirtyOrPolled;
        let mut has_passed_everything = false;
        for _ in 0..MAX_ROUNDS {
            let due = self.find_due_now(filter)?;
            // Changes of shared objects that are made in this pass are planned by the next one.
            if due == DueNow::Nothing || (due == DueNow::Everything && has_passed_everything) {
                break;
            }
            has_passed_everything |= due == DueNow::Everything;
            self.run_parts(due, &mut passed)?;
            // A pool that was refused stays to be done, but not in this pass.
            if !passed.refused.is_empty() {
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

    /// Plans and commits one part after the other. Returns the state of the last one.
    fn run_parts(&self, due: DueNow, passed: &mut PassOutcome) -> Result<State, Refusal> {
        // A pool that is made after this is planned for what was changed before.
        if due == DueNow::Everything && self.store.is_everything_changed()? {
            self.store.write_under_lock(|| self.store.begin_pass_over_everything())?;
        }
        let mut is_changed = false;
        let mut last_state = State::default();
        for PassPart { scope, needs } in self.parts_of(due)? {
            // Only one part is in memory at a time.
            drop(mem::take(&mut last_state));
            let is_last_of_many = scope == Scope::WithoutPool;
            let outcome = match self.run_pass_with(&scope, &needs) {
                // What belongs to no pool is planned with pools that have hosts. It waits until a
                // refused one is mended.
                Err(refusal)
                    if scope == Scope::WithoutPool
                        && !passed.refused.is_empty()
                        && !refusal.is_about_state_file() =>
                {
                    break;
                }
                outcome => outcome?,
            };
            is_changed |= !outcome.state.is_unchanged();
            passed.refused.extend(outcome.refused);
            passed.warnings.extend(outcome.warnings);
            if is_last_of_many && is_changed {
                let failure = self.remove_orphaned_copies().err();
                passed.warnings.extend(failure.map(|refusal| refusal.to_string()));
            }
            last_state = outcome.state;
        }
        Ok(last_state)
    }

    /// What has to be looked at now. A clock that was moved concerns everything, and so does one
    /// from which time is counted anew.
    fn find_due_now(&self, filter: DueFilter) -> Result<DueNow, Refusal> {
        let judged = self.judge_clock(PassExtent::Everything)?;
        if judged.jumped || judged.news.is_some() || judged.begins_anew {
            return Ok(DueNow::Everything);
        }
        self.store.find_due(judged.now, filter)
    }

    /// What a commit says of scopes. `edited` are the kinds that were changed before the plan; what
    /// was not planned to the end is still to be done.
    pub(super) fn due_changes(
        &self,
        scope: &Scope,
        state: &State,
        edited: &BTreeSet<Kind>,
        is_planned: bool,
        tick: &Tick,
    ) -> Result<DueChanges, Refusal> {
        let mut changes = DueChanges {
            now: tick.now,
            is_whole: is_planned && state.is_whole,
            is_rest_settled: is_planned && *scope == Scope::WithoutPool,
            helped: find_helped_scopes(state, tick.now),
            // What expired while the clock was not believed is still to be done.
            is_rest_dirty: tick.clock_jumped,
            ..DueChanges::default()
        };
        if !changes.is_whole && !changes.is_rest_settled {
            self.mark_followers_of_clusters(state, &mut changes)?;
            self.mark_ip_pools_with_returned_addresses(state, &mut changes)?;
            mark_changed_clusters_without_pool(state, &mut changes);
        }
        let mut shared_kinds = edited.iter().filter(|kind| !KINDS_OF_POOLS.contains(kind));
        if !is_planned {
            mark_changed_pools(state, &mut changes);
            mark_changed_agents(state, &mut changes);
            mark_changed_leases(state, &mut changes);
            changes.is_rest_dirty |= shared_kinds.any(|kind| *kind != Kind::Agent);
            return Ok(changes);
        }
        changes.settled = plan::due_scopes(state, tick.now);
        for change in state.pools.difference().filter(|change| change.after.is_none()) {
            // What a removed pool leaves belongs to no pool.
            let removed = change.before.map(|pool| (pool.key(), Due::default()));
            changes.settled.pools.extend(removed);
        }
        if let Scope::Pools(_) = scope {
            changes.is_rest_dirty |= shared_kinds.next().is_some()
                || has_host_of_removed_cluster(state)
                || !state.infra_envs.is_unchanged();
            mark_moved_agents(state, &mut changes);
            mark_moved_hosts(state, &mut changes);
            let objects = std::mem::take(&mut changes.settled.objects);
            (changes.partly_settled, changes.settled.objects) =
                objects.into_iter().partition(|(object, _)| object.is_loaded_in_parts());
            changes.settle(&state.looked_at);
        }
        if !changes.is_whole {
            changes.dirty_pools = self.find_pools_sharing_customizations(state)?;
        }
        Ok(changes)
    }

    /// Marks what belongs to no pool but follows a cluster whose stage has changed, that was paused or
    /// resumed, or is gone. It was not loaded with the cluster.
    fn mark_followers_of_clusters(
        &self,
        state: &State,
        changes: &mut DueChanges,
    ) -> Result<(), Refusal> {
        for change in state.clusters.difference() {
            let Some(before) = change.before else { continue };
            let goes_on = change.after.is_some_and(|after| after.paused == before.paused);
            let is_at_same_stage =
                change.after.is_some_and(|after| is_at_same_stage(before, after));
            if goes_on && is_at_same_stage {
                continue;
            }
            for agent in self.store.list_names_of_agents_of(&before.name)? {
                if !state.agents.has_or_had(&agent) {
                    changes.dirty_objects.insert(DueObject::agent(agent));
                }
            }
            changes.is_rest_dirty |=
                !goes_on && self.store.is_named_outside_of_pools(&before.name)?;
        }
        Ok(())
    }

    /// Marks the IPPools whose claims may now get an address that was given back, as far as they were
    /// not planned with it. IPPools of one namespace may have the same address.
    fn mark_ip_pools_with_returned_addresses(
        &self,
        state: &State,
        changes: &mut DueChanges,
    ) -> Result<(), Refusal> {
        let mut namespaces = BTreeSet::new();
        for change in state.ip_leases.difference() {
            let Some(before) = change.before.filter(|before| before.address.is_some()) else {
                continue;
            };
            if change.after.is_none_or(|after| after.address != before.address) {
                namespaces.insert(before.address_namespace());
            }
        }
        for namespace in namespaces {
            for pool_key in self.store.list_ip_pools_with_waiting_claims(namespace)? {
                if state.ip_pools.find(&pool_key).is_none() {
                    changes.dirty_objects.insert(DueObject::ip_pool(pool_key));
                }
            }
        }
        Ok(())
    }

    /// What a plan of everything would change although nothing is due, and the scopes whose stored due
    /// time is too late. Both should be empty. Returns a sentence for each scope; none if a pass has
    /// work to do, or while others change the state.
    pub fn find_missed_changes(&self) -> Result<Vec<String>, Refusal> {
        let mut missed = BTreeSet::new();
        for scope in self.scopes_of_everything()? {
            // What is wrong with a state is not about what is due.
            let planned = self.plan_without_lock(&scope, &[], Notes::Ignore);
            let Ok(PlannedPass { state, mark, due, tick }) = planned else {
                return Ok(Vec::new());
            };
            let due_now = self.store.find_due(tick.now, DueFilter::DirtyOrPolled)?;
            let late_scopes = self.store.find_late_scopes(&due)?;
            // This is read last: what others commit meanwhile is no fault.
            let current_revision = self.store.read_revision()?;
            if tick.clock_jumped || mark.revision != current_revision {
                return Ok(Vec::new());
            }
            let is_left_to_a_pass = match due_now {
                DueNow::Everything => true,
                // What follows from what is due is done in the same pass.
                DueNow::Part { .. } => !state.is_unchanged(),
                DueNow::Nothing => false,
            };
            if is_left_to_a_pass {
                return Ok(Vec::new());
            }
            if !state.is_unchanged() {
                missed.extend(describe_changed_owners(&state));
                continue;
            }
            for late_scope in late_scopes {
                missed.insert(format!(
                    "passes would look at {late_scope} too late, because its due time is stored \
                     wrongly: poolctl doctor --fix"
                ));
            }
        }
        Ok(missed.into_iter().collect())
    }
}

/// What a plan would change, a sentence for each pool, or one about what belongs to none.
fn describe_changed_owners(state: &State) -> Vec<String> {
    let pools: Vec<_> = state.owners().into_iter().flatten().collect();
    if pools.is_empty() {
        return vec![
            "what belongs to no pool would change if all were worked out again".to_owned(),
        ];
    }
    let mut sentences = Vec::new();
    for pool in pools {
        sentences.push(format!("pool `{pool}` would change if all were worked out again"));
    }
    sentences
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
}

/// Marks the clusters without a pool that were changed. Only a pass that looks at such a cluster has
/// all that belongs to it. A new one may be what others wait for.
fn mark_changed_clusters_without_pool(state: &State, changes: &mut DueChanges) {
    for change in state.clusters.difference() {
        for cluster in [change.before, change.after].into_iter().flatten() {
            if cluster.pool.is_none() {
                changes.dirty_objects.insert(DueObject::cluster(cluster.key()));
                changes.is_rest_dirty |= change.before.is_none();
            }
        }
    }
}

/// Marks the IPPools whose claims were changed and not planned.
fn mark_changed_leases(state: &State, changes: &mut DueChanges) {
    for change in state.ip_leases.difference() {
        let leases = [change.before, change.after].into_iter().flatten();
        changes.dirty_objects.extend(leases.map(|lease| DueObject::ip_pool(lease.pool_key())));
    }
}

/// Marks the Agents that were changed and not planned. What a machine reports concerns the Agents
/// around it: those of the same machine and of its cluster, which were loaded with it. What a person
/// changes may concern anything.
fn mark_changed_agents(state: &State, changes: &mut DueChanges) {
    let mut has_report = false;
    for change in state.agents.difference() {
        match change.after {
            Some(after) if is_sign_of_life(&change, changes.now) => {
                let due = plan::due_of_agent(state, after, changes.now);
                changes.postponed.insert(DueObject::agent(after.key()), due);
            }
            Some(after) if change.before.is_none_or(|before| is_report(before, after)) => {
                has_report = true;
            }
            _ => changes.is_rest_dirty = true,
        }
    }
    if has_report {
        let agents = state.agents.rows();
        changes.dirty_objects.extend(agents.map(|agent| DueObject::agent(agent.key())));
    }
}

/// Marks the Agents that a plan of a part has moved to other surroundings, of which it may not have
/// seen all.
fn mark_moved_agents(state: &State, changes: &mut DueChanges) {
    for change in state.agents.difference() {
        let Some(after) = change.after else {
            let removed =
                change.before.map(|agent| (DueObject::agent(agent.key()), Due::default()));
            changes.settled.objects.extend(removed);
            changes.is_rest_dirty = true;
            continue;
        };
        if !change.before.is_some_and(|before| has_same_surroundings(before, after)) {
            changes.dirty_objects.insert(DueObject::agent(after.key()));
        }
    }
}

/// Whether no more was changed than that machines were heard of. `edited` are the kinds of what was
/// changed.
pub(super) fn are_signs_of_life(state: &State, edited: &BTreeSet<Kind>, now: Time) -> bool {
    edited.iter().eq([&Kind::Agent])
        && state.agents.difference().all(|change| is_sign_of_life(&change, now))
}

/// Whether a machine was heard of, and nothing follows from that: no pass has found it silent, nor
/// will one before it is late again.
fn is_sign_of_life(change: &Change<'_, Agent>, now: Time) -> bool {
    let (Some(before), Some(after)) = (change.before, change.after) else { return false };
    if before.is_silent(now) {
        return false;
    }
    let mut heard_of = before.clone();
    heard_of.status.last_contact_time = after.status.last_contact_time;
    heard_of == *after
}

/// Whether nothing has changed but what a machine says of itself. It may turn out to be the same
/// machine as another one, but it belongs to the same objects.
fn is_report(before: &Agent, after: &Agent) -> bool {
    before.metadata == after.metadata && before.spec == after.spec && has_same_ties(before, after)
}

/// Whether an Agent is the same machine as before, and belongs to the same objects.
fn has_same_surroundings(before: &Agent, after: &Agent) -> bool {
    before.identities().eq(after.identities())
        && before.status.found_by_controller == after.status.found_by_controller
        && has_same_ties(before, after)
}

/// Whether an Agent belongs to the same objects as before.
fn has_same_ties(before: &Agent, after: &Agent) -> bool {
    before.infra_env_key() == after.infra_env_key()
        && before.host_key() == after.host_key()
        && before.bound_cluster() == after.bound_cluster()
        && before.requested_cluster() == after.requested_cluster()
        && before.status.deprovision_info == after.status.deprovision_info
}

/// Marks the hosts that a plan of a part has given to another cluster, or taken from one. What a host
/// belonged to was loaded with it; the pass that looks at the host loads what it belongs to now.
/// Whatever else happens to a host concerns its Agents and its cluster alone. A host that came or
/// went may concern anything.
fn mark_moved_hosts(state: &State, changes: &mut DueChanges) {
    for change in state.hosts.difference() {
        match (change.before, change.after) {
            (Some(before), Some(after)) => {
                if !has_host_same_ties(before, after) {
                    changes.dirty_objects.insert(DueObject::host(after.key()));
                }
            }
            _ => changes.is_rest_dirty = true,
        }
    }
}

/// Whether hosts were changed together with a cluster that is gone: one may have been switched on
/// for a cluster that does not name it.
fn has_host_of_removed_cluster(state: &State) -> bool {
    !state.hosts.is_unchanged() && is_cluster_removed(state)
}

/// Whether a host is the same machine as before, and belongs to the same objects.
fn has_host_same_ties(before: &BareMetalHost, after: &BareMetalHost) -> bool {
    before.metadata.labels == after.metadata.labels
        && before.metadata.deletion_timestamp == after.metadata.deletion_timestamp
        && before.spec.boot_mac_address == after.spec.boot_mac_address
        && before.spec.bmc == after.spec.bmc
        && before.spec.consumer_ref == after.spec.consumer_ref
        && before.status.switched_on_for == after.status.switched_on_for
        && before.status.may_run_for == after.status.may_run_for
}

/// Whether a cluster is as near to its installation as before, as its hosts see it.
fn is_at_same_stage(before: &Cluster, after: &Cluster) -> bool {
    before.phase() == after.phase() && before.started_at == after.started_at
}

fn is_cluster_removed(state: &State) -> bool {
    let mut changes = state.clusters.difference();
    changes.any(|change| change.before.is_some() && change.after.is_none())
}

/// Which scopes that wait may now get what they lack.
fn find_helped_scopes(state: &State, now: Time) -> HelpedScopes {
    if is_cluster_removed(state)
        || !state.customizations.is_unchanged()
        || !state.ip_leases.is_unchanged()
        || !state.hosts.is_unchanged()
        || state.agents.difference().any(|change| !is_sign_of_life(&change, now))
    {
        return HelpedScopes::Pools;
    }
    HelpedScopes::Nobody
}
