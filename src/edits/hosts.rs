//! Edits of hosts: what poolctl has found out about a machine stays when its manifest is applied
//! again.

use crate::model::host::{AS_FOUND, BareMetalHost, CIPHER, PIN};
use crate::model::tick::Tick;

use super::documents::EditedDocument;

impl EditedDocument for BareMetalHost {
    fn carry_over(old: &Self, new: &mut Self, merge: bool, _: &Tick) -> bool {
        new.status.clone_from(&old.status);
        let annotations = &mut new.metadata.annotations;
        if !old.metadata.annotated_at_all(AS_FOUND) && annotations.remove(AS_FOUND).is_some() {
            new.spec.online = old.spec.online;
        }
        // Who uses it and what it boots from is often said by others than the manifest.
        if merge && new.spec.consumer_ref.is_none() {
            new.spec.consumer_ref.clone_from(&old.spec.consumer_ref);
        }
        if merge && new.spec.image.is_none() {
            new.spec.image.clone_from(&old.spec.image);
        }
        if old.spec.bmc != new.spec.bmc {
            new.status.good_credentials = None;
            // The cipher was found with the controller that the host had before.
            if new.metadata.annotation(CIPHER) == old.metadata.annotation(CIPHER) {
                new.metadata.annotations.remove(CIPHER);
            }
        }
        let other_spec = old.spec != new.spec;
        if other_spec || old.metadata.annotation(PIN) != new.metadata.annotation(PIN) {
            // It is tried at once, whatever failed before.
            new.status.error_count = 0;
        }
        other_spec
    }
}
