//! Edits of hosts: what of one stays when its manifest is applied again.

use crate::model::host::{AS_FOUND, BareMetalHost, CIPHER, PIN};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{delete_document, finish_deletion, put_document};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for BareMetalHost {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let key = new.metadata.key();
        let verdict = put_document(&mut state.hosts, new, merge, tick, |old, new| {
            carry_over(old, new, merge)
        })?;
        finish_deletion(&mut state.hosts, &key);
        Ok(verdict)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        delete_document(&mut state.hosts, key, tick.now)
    }

    fn import(state: &mut State, new: Self, _: &Tick) -> Result<(), Refusal> {
        state.hosts.insert(new);
        Ok(())
    }
}

/// Carries over what is not the user's, and says whether the spec is another one.
fn carry_over(old: &BareMetalHost, new: &mut BareMetalHost, merge: bool) -> bool {
    new.status.clone_from(&old.status);
    let notes = &mut new.metadata.annotations;
    if !old.metadata.annotated_at_all(AS_FOUND) && notes.remove(AS_FOUND).is_some() {
        new.spec.online = old.spec.online;
    }
    // Who uses it and what it boots from is often said by others than the manifest.
    if merge {
        let (spec, known) = (&mut new.spec, &old.spec);
        spec.consumer_ref = spec.consumer_ref.take().or(known.consumer_ref.clone());
        spec.image = spec.image.take().or(known.image.clone());
    }
    if old.spec.bmc != new.spec.bmc {
        new.status.good_credentials = None;
        // Another machine's is no guide.
        if new.metadata.annotation(CIPHER) == old.metadata.annotation(CIPHER) {
            new.metadata.annotations.remove(CIPHER);
        }
    }
    let pin = |host: &BareMetalHost| host.metadata.annotations.get(PIN).cloned();
    if old.spec != new.spec || pin(old) != pin(new) {
        // It is tried at once, whatever failed before.
        new.status.error_count = 0;
    }
    old.spec != new.spec
}
