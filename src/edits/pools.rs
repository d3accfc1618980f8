//! Edits pools of clusters. Never removes a pool: a pass does, when its clusters are gone.

use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, PoolSpec};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{EditedDocument, mark_for_deletion, put_document};
use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;

impl EditedDocument for ClusterPool {
    fn carry_over(existing: &Self, desired: &mut Self, _: PutMode, tick: &Tick) -> bool {
        desired.status.clone_from(&existing.status);
        if PoolSizes::of(existing) != PoolSizes::of(desired) {
            desired.skip_past_ticks(tick.now);
            let mut scaled = existing.spec.clone();
            scaled.size = desired.spec.size;
            scaled.running_count = desired.spec.running_count;
            if scaled == desired.spec {
                desired.status.keep_install_pause(existing.metadata.generation);
            }
        }
        existing.spec != desired.spec
    }

    /// It limits how many of its clusters are destroyed at a time.
    fn differs_for_deletion_only(existing: &Self, desired: &Self) -> bool {
        let max_concurrent = existing.spec.max_concurrent;
        PoolSpec { max_concurrent, ..desired.spec.clone() } == existing.spec
    }

    fn put(
        state: &mut State,
        pool: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        let sizes_before = state.pools.by_key(&pool.key()).map(PoolSizes::of);
        let sizes_after = PoolSizes::of(&pool);
        let outcome = put_document(state, pool, mode, tick)?;
        Ok(match (outcome, sizes_before) {
            (PutOutcome::Configured(_), Some(sizes_before)) => {
                PutOutcome::Configured(sizes_before.describe_changes(sizes_after))
            }
            (outcome, _) => outcome,
        })
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        mark_for_deletion::<Self>(state, key, tick.now)
    }
}

/// How many unclaimed clusters a pool keeps, and how many of them it keeps running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSizes {
    pub size: u32,
    pub running_count: u32,
}

impl PoolSizes {
    /// The sizes in the spec of a pool.
    pub fn of(pool: &ClusterPool) -> Self {
        Self { size: pool.spec.size, running_count: pool.spec.running_count }
    }

    /// The fields that change and how: `size 1 -> 3, runningCount 0 -> 1`. Empty if none does.
    pub fn describe_changes(self, after: Self) -> String {
        let mut changes = Vec::new();
        if self.size != after.size {
            changes.push(format!("size {} -> {}", self.size, after.size));
        }
        if self.running_count != after.running_count {
            changes.push(format!("runningCount {} -> {}", self.running_count, after.running_count));
        }
        changes.join(", ")
    }
}
