//! Edits claims of clusters. Never gives a claim its cluster, and refuses a manifest that asks for
//! one: a pass fills that in.

use crate::model::claim::{Claim, Pending};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{ClaimId, State};
use crate::model::tick::Tick;

use super::documents::{has_new_finalizer, inherit_metadata, initialize_metadata};
use super::edited::Edited;
use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;

impl Edited for Claim {
    fn put(
        state: &mut State,
        claim: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        match state.claims.find(&claim.key()) {
            Some(claim_id) => change_claim(state, claim_id, claim, mode),
            None => insert_claim(state, claim, tick),
        }
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        let Some(claim_id) = state.claims.find(key) else { return DeleteOutcome::NotFound };
        DeleteOutcome::of_mark(state.claims.update(claim_id, |claim| {
            claim.deleting.get_or_insert(tick.now);
        }))
    }

    fn import(state: &mut State, mut claim: Self, tick: &Tick) -> Result<(), Refusal> {
        if claim.pending == Pending::Claimed {
            // Without a time its lifetime would never end.
            claim.pending_since.get_or_insert(tick.now);
        }
        state.insert_claim(claim);
        Ok(())
    }
}

/// Adds a claim that belongs to whoever acts. Refused if it chooses its cluster, or if a cluster
/// still belongs to a deleted claim of this name and would come back with what somebody else left
/// on it.
fn insert_claim(state: &mut State, mut claim: Claim, tick: &Tick) -> Result<PutOutcome, Refusal> {
    if let Some(cluster) = &claim.cluster {
        let why =
            format!("spec.namespace `{cluster}` is filled in by poolctl and cannot be chosen");
        return Err(refusal_of_claim(&claim.name, &why));
    }
    let key = claim.key();
    let held_cluster =
        state.clusters.rows().find(|cluster| cluster.claim_key().as_ref() == Some(&key));
    if let Some(cluster) = held_cluster {
        let name = &cluster.name;
        let why = format!("a deleted claim of this name still holds cluster {name}");
        let refusal = refusal_of_claim(&claim.name, &why);
        return Err(refusal.next(format!("poolctl delete cluster {name}")));
    }
    claim.created = tick.now;
    claim.owner.clone_from(&tick.actor);
    if let Some(body) = &mut claim.body {
        initialize_metadata(&mut body.metadata, Kind::ClusterClaim, tick);
        body.metadata.creation_timestamp = None;
    }
    state.insert_claim(claim);
    Ok(PutOutcome::Created)
}

/// Changes lifetime, subjects and metadata of a claim, and its pool while it has no cluster. Any
/// other change is refused; once the claim is being released, so are any change of the spec and any
/// new finalizer.
fn change_claim(
    state: &mut State,
    claim_id: ClaimId,
    mut desired: Claim,
    mode: PutMode,
) -> Result<PutOutcome, Refusal> {
    let Some(existing) = state.claims.get(claim_id).cloned() else {
        return Ok(PutOutcome::Unchanged);
    };
    if desired.cluster.is_some() && desired.cluster != existing.cluster {
        let why = "spec.namespace is filled in by poolctl and cannot be changed";
        return Err(refusal_of_claim(&desired.name, why));
    }
    let is_moved = desired.pool != existing.pool;
    if is_moved && let Some(cluster) = &existing.cluster {
        let why = format!("it already has cluster {cluster} of pool {}", existing.pool);
        return Err(refusal_of_claim(&desired.name, &why));
    }
    if let (Some(existing_body), Some(body)) = (&existing.body, &mut desired.body) {
        let is_spec_changed = is_moved
            || desired.lifetime != existing.lifetime
            || body.spec.subjects != existing_body.spec.subjects;
        inherit_metadata(&existing_body.metadata, &mut body.metadata, mode, is_spec_changed);
        if existing.deleting.is_some()
            && (is_spec_changed || has_new_finalizer(&existing_body.metadata, &body.metadata))
        {
            return Err(refusal_of_claim(&desired.name, "it is being released"));
        }
        body.metadata.creation_timestamp = None;
        desired.held = !body.metadata.finalizers.is_empty();
    }
    let description = describe_new_subjects(&existing, &desired);
    if is_moved {
        state.move_claim(claim_id, &desired.pool);
    }
    let is_updated = state.claims.update(claim_id, |claim| {
        claim.lifetime = desired.lifetime;
        claim.held = desired.held;
        claim.body = desired.body;
    });
    let is_changed = is_moved || is_updated;
    Ok(if is_changed { PutOutcome::Configured(description) } else { PutOutcome::Unchanged })
}

/// Who may use the cluster of a claim from now on: `for User ann, Group ops`. Empty if that stays
/// as it is.
fn describe_new_subjects(existing: &Claim, desired: &Claim) -> String {
    let existing_subjects = existing.body.as_ref().map(|body| &body.spec.subjects);
    let subjects = desired.body.as_ref().map(|body| &body.spec.subjects);
    if subjects == existing_subjects {
        return String::new();
    }
    let mut names = Vec::new();
    for subject in subjects.into_iter().flatten() {
        names.push(format!("{} {}", subject.kind, subject.name));
    }
    if names.is_empty() { String::new() } else { format!("for {}", names.join(", ")) }
}

fn refusal_of_claim(name: &str, why: &str) -> Refusal {
    Refusal::conflict(format!("claim `{name}`: {why}"))
}
