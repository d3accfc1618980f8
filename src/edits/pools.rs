//! Edits pools of clusters. Never removes a pool: a pass does, when its clusters are gone.

use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{EditedDocument, mark_for_deletion, put_document};
use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;

impl EditedDocument for ClusterPool {
    fn carry_over(existing: &Self, desired: &mut Self, _: PutMode, tick: &Tick) -> bool {
        desired.status.clone_from(&existing.status);
        if sizes(existing) != sizes(desired) {
            desired.skip_past_ticks(tick.now);
        }
        existing.spec != desired.spec
    }

    fn put(
        state: &mut State,
        pool: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        let sizes_before = state.pools.by_key(&pool.key()).map(sizes);
        let sizes_after = sizes(&pool);
        let outcome = put_document(state, pool, mode, tick)?;
        Ok(match (outcome, sizes_before) {
            (PutOutcome::Configured(_), Some(sizes_before)) => {
                PutOutcome::Configured(describe_size_changes(sizes_before, sizes_after))
            }
            (outcome, _) => outcome,
        })
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        mark_for_deletion::<Self>(state, key, tick.now)
    }
}

/// The size of a pool, and its `runningCount`.
fn sizes(pool: &ClusterPool) -> (u32, u32) {
    (pool.spec.size, pool.spec.running_count)
}

/// Describes how the size of a pool and its `runningCount` change, each given in this order:
/// `size 1 -> 3`. Empty if they do not.
pub fn describe_size_changes(before: (u32, u32), after: (u32, u32)) -> String {
    let mut changes = Vec::new();
    for (field, before, after) in [("size", before.0, after.0), ("runningCount", before.1, after.1)]
    {
        if before != after {
            changes.push(format!("{field} {before} -> {after}"));
        }
    }
    changes.join(", ")
}
