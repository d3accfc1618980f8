//! Edits of pools of clusters: their clusters go first, in passes, so no edit removes a pool.

use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{EditedDocument, mark_for_deletion, put_document};
use super::verdict::Verdict;

impl EditedDocument for ClusterPool {
    fn carry_over(old: &Self, new: &mut Self, _: bool, tick: &Tick) -> bool {
        new.status.clone_from(&old.status);
        if sizes(old) != sizes(new) {
            new.scaled_by_hand(tick.now);
        }
        old.spec != new.spec
    }

    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let sizes_before = state.pools.by_key(&new.key()).map(sizes);
        let sizes_after = sizes(&new);
        let verdict = put_document(state, new, merge, tick)?;
        Ok(match (verdict, sizes_before) {
            (Verdict::Configured(_), Some(sizes_before)) => {
                Verdict::Configured(describe_sizes(sizes_before, sizes_after))
            }
            (verdict, _) => verdict,
        })
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        mark_for_deletion::<Self>(state, key, tick.now)
    }
}

/// A pool's size, and how many of its clusters run.
fn sizes(pool: &ClusterPool) -> (u32, u32) {
    (pool.spec.size, pool.spec.running_count)
}

/// What changed of a pool's size and of how many of its clusters run: `size 1 -> 3`.
pub fn describe_sizes(before: (u32, u32), after: (u32, u32)) -> String {
    let mut changes = Vec::new();
    for (field, before, after) in [("size", before.0, after.0), ("runningCount", before.1, after.1)]
    {
        if before != after {
            changes.push(format!("{field} {before} -> {after}"));
        }
    }
    changes.join(", ")
}
