//! Edits hosts. What poolctl has found out about a machine stays when its manifest is applied
//! again. Never switches a machine on or off: a pass does.

use crate::model::annotations::{AS_FOUND, CIPHER, PIN};
use crate::model::host::{BareMetalHost, Image};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::plan::leases;

use super::documents::{EditedDocument, delete_document, put_and_finish_deletion};
use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;

impl EditedDocument for BareMetalHost {
    fn carry_over(existing: &Self, desired: &mut Self, mode: PutMode, _: &Tick) -> bool {
        desired.status.clone_from(&existing.status);
        let annotations = &mut desired.metadata.annotations;
        if !existing.metadata.has_annotation(AS_FOUND) && annotations.remove(AS_FOUND).is_some() {
            desired.spec.online = existing.spec.online;
        }
        // The manifest of a host rarely says who uses it and what it boots from: a cluster or a
        // command has set these.
        if mode == PutMode::Apply && desired.spec.consumer_ref.is_none() {
            desired.spec.consumer_ref.clone_from(&existing.spec.consumer_ref);
        }
        if mode == PutMode::Apply && desired.spec.image.is_none() {
            desired.spec.image.clone_from(&existing.spec.image);
        }
        if existing.spec.bmc != desired.spec.bmc {
            desired.status.good_credentials = None;
            // The cipher works with the controller that the host had before.
            if desired.metadata.annotation(CIPHER) == existing.metadata.annotation(CIPHER) {
                desired.metadata.annotations.remove(CIPHER);
            }
        }
        let is_spec_changed = existing.spec != desired.spec;
        if is_spec_changed || existing.metadata.annotation(PIN) != desired.metadata.annotation(PIN)
        {
            // What is new may work: the controller is tried again at once, without a back-off.
            desired.status.error_count = 0;
        }
        is_spec_changed
    }

    fn put(
        state: &mut State,
        host: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        let key = host.key();
        let outcome = put_and_finish_deletion(state, host, mode, tick)?;
        return_leases_if_removed(state, &key, tick);
        Ok(outcome)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        let outcome = delete_document::<Self>(state, key, tick.now);
        return_leases_if_removed(state, key, tick);
        outcome
    }

    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        let noted_image = self.status.provisioning.image.take();
        self.status.provisioning.image = noted_image.filter(Image::may_be_attached);
        Ok(())
    }
}

/// Gives back the numbers and the addresses of a host, unless another program still holds its
/// object.
fn return_leases_if_removed(state: &mut State, key: &Key, tick: &Tick) {
    if state.hosts.was_removed(key) {
        leases::return_leases_of_removed_host(state, key, tick.now);
    }
}
