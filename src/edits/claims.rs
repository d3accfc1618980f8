//! Edits of claims of clusters: what poolctl fills in cannot be asked for.

use crate::model::claim::{Claim, Pending};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{inherit_metadata, initialize_metadata};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for Claim {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_claim(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        let id = state.claims.find(key)?;
        Some(state.claims.update(id, |claim| {
            claim.deleting.get_or_insert(tick.now);
        }))
    }

    fn import(state: &mut State, mut new: Self, tick: &Tick) -> Result<(), Refusal> {
        if new.pending == Pending::Claimed {
            // Without a time its lifetime would never end.
            new.pending_since.get_or_insert(tick.now);
        }
        state.insert_claim(new);
        Ok(())
    }
}

fn put_claim(
    state: &mut State,
    mut new: Claim,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let refuse = |why: String| Err(Refusal::conflict(format!("claim `{}`: {why}", new.name)));
    let Some(at) = state.claims.find(&new.key()) else {
        if let Some(cluster) = &new.cluster {
            return refuse(format!(
                "spec.namespace `{cluster}` is filled in by poolctl and cannot be asked for"
            ));
        }
        let left = state.clusters.rows().find(|one| one.claim_key().as_ref() == Some(&new.key()));
        if let Some(left) = left {
            let cluster = &left.name;
            let what =
                format!("a claim of this name, which is gone, still holds cluster {cluster}");
            return refuse(what)
                .map_err(|refusal| refusal.next(format!("poolctl delete cluster {cluster}")));
        }
        new.created = tick.now;
        new.owner.clone_from(&tick.actor);
        if let Some(body) = &mut new.body {
            initialize_metadata(&mut body.metadata, Kind::ClusterClaim, tick);
            body.metadata.creation_timestamp = None;
        }
        state.insert_claim(new);
        return Ok(Verdict::Created);
    };
    let Some(old) = state.claims.get(at).cloned() else {
        return Ok(Verdict::Unchanged);
    };
    if new.cluster.is_some() && new.cluster != old.cluster {
        return refuse("spec.namespace is filled in by poolctl and cannot be changed".into());
    }
    if new.pool != old.pool && old.cluster.is_some() {
        return refuse({
            let cluster = old.cluster.as_deref().unwrap_or_default();
            format!("it has cluster {cluster} of pool {} already", old.pool)
        });
    }
    if let (Some(before), Some(after)) = (&old.body, &mut new.body) {
        let other_spec = (new.lifetime, &new.pool) != (old.lifetime, &old.pool)
            || before.spec.subjects != after.spec.subjects;
        if old.deleting.is_some() && other_spec {
            return refuse("it is being released".into());
        }
        inherit_metadata(&before.metadata, &mut after.metadata, merge, other_spec);
        after.metadata.creation_timestamp = None;
        new.held = !after.metadata.finalizers.is_empty();
    }
    let subjects = |one: &Claim| one.body.as_ref().map(|body| body.spec.subjects.clone());
    let named = subjects(&new).filter(|named| Some(named) != subjects(&old).as_ref());
    let named =
        named.unwrap_or_default().into_iter().map(|one| format!("{} {}", one.kind, one.name));
    let named: Vec<String> = named.collect();
    let what = if named.is_empty() { String::new() } else { format!("for {}", named.join(", ")) };
    let mut changed = false;
    if new.pool != old.pool {
        state.move_claim(at, &new.pool);
        changed = true;
    }
    changed |= state.claims.update(at, |claim| {
        (claim.lifetime, claim.held) = (new.lifetime, new.held);
        claim.body = new.body;
    });
    Ok(if changed { Verdict::Configured(what) } else { Verdict::Unchanged })
}
