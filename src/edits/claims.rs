//! Edits of claims of clusters: what poolctl fills in cannot be asked for.

use crate::model::claim::{Claim, Pending};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{ClaimId, State};
use crate::model::tick::Tick;

use super::documents::{inherit_metadata, initialize_metadata};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for Claim {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        match state.claims.find(&new.key()) {
            Some(claim_id) => change_claim(state, claim_id, new, merge),
            None => insert_claim(state, new, tick),
        }
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        let claim_id = state.claims.find(key)?;
        Some(state.claims.update(claim_id, |claim| {
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

fn insert_claim(state: &mut State, mut new: Claim, tick: &Tick) -> Result<Verdict, Refusal> {
    let refuse = |why: String| Refusal::conflict(format!("claim `{}`: {why}", new.name));
    if let Some(cluster) = &new.cluster {
        return Err(refuse(format!(
            "spec.namespace `{cluster}` is filled in by poolctl and cannot be asked for"
        )));
    }
    let key = new.key();
    let held_cluster =
        state.clusters.rows().find(|cluster| cluster.claim_key().as_ref() == Some(&key));
    if let Some(cluster) = held_cluster {
        let name = &cluster.name;
        let why = format!("a claim of this name, which is gone, still holds cluster {name}");
        return Err(refuse(why).next(format!("poolctl delete cluster {name}")));
    }
    new.created = tick.now;
    new.owner.clone_from(&tick.actor);
    if let Some(body) = &mut new.body {
        initialize_metadata(&mut body.metadata, Kind::ClusterClaim, tick);
        body.metadata.creation_timestamp = None;
    }
    state.insert_claim(new);
    Ok(Verdict::Created)
}

fn change_claim(
    state: &mut State,
    claim_id: ClaimId,
    mut new: Claim,
    merge: bool,
) -> Result<Verdict, Refusal> {
    let Some(old) = state.claims.get(claim_id).cloned() else { return Ok(Verdict::Unchanged) };
    let refuse = |why: String| Err(Refusal::conflict(format!("claim `{}`: {why}", new.name)));
    if new.cluster.is_some() && new.cluster != old.cluster {
        return refuse("spec.namespace is filled in by poolctl and cannot be changed".into());
    }
    if new.pool != old.pool
        && let Some(cluster) = &old.cluster
    {
        return refuse(format!("it has cluster {cluster} of pool {} already", old.pool));
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
    let description = describe_new_subjects(&old, &new);
    let is_moved = new.pool != old.pool;
    if is_moved {
        state.move_claim(claim_id, &new.pool);
    }
    let is_updated = state.claims.update(claim_id, |claim| {
        claim.lifetime = new.lifetime;
        claim.held = new.held;
        claim.body = new.body;
    });
    let is_changed = is_moved || is_updated;
    Ok(if is_changed { Verdict::Configured(description) } else { Verdict::Unchanged })
}

/// Who may use the cluster of a claim from now on, if that changes: `for User ann, Group ops`.
fn describe_new_subjects(old: &Claim, new: &Claim) -> String {
    let subjects_before = old.body.as_ref().map(|body| &body.spec.subjects);
    let subjects = new.body.as_ref().map(|body| &body.spec.subjects);
    if subjects == subjects_before {
        return String::new();
    }
    let subjects = subjects.into_iter().flatten();
    let names: Vec<String> =
        subjects.map(|subject| format!("{} {}", subject.kind, subject.name)).collect();
    if names.is_empty() { String::new() } else { format!("for {}", names.join(", ")) }
}
