//! Edits of pools of clusters.

use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{mark_for_deletion, put_document};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for ClusterPool {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_pool(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        mark_for_deletion(&mut state.pools, key, tick.now)
    }

    fn import(state: &mut State, new: Self, _: &Tick) -> Result<(), Refusal> {
        state.pools.insert(new);
        Ok(())
    }
}

fn put_pool(
    state: &mut State,
    new: ClusterPool,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let old = state.pools.by_key(&new.key()).map(|old| (old.spec.size, old.spec.running_count));
    let (size, running) = (new.spec.size, new.spec.running_count);
    let verdict = put_document(&mut state.pools, new, merge, tick, |old, new| {
        new.status.clone_from(&old.status);
        if (old.spec.size, old.spec.running_count) != (size, running) {
            new.scaled_by_hand(tick.now);
        }
        old.spec != new.spec
    })?;
    Ok(match verdict {
        Verdict::Configured(_) => Verdict::Configured(
            old.map(|old| describe_sizes(old, (size, running))).unwrap_or_default(),
        ),
        other => other,
    })
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
