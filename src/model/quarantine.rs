//! Why a restore holds an object, as the object's annotation says. It holds and frees nothing.

use super::annotations::QUARANTINE;
use super::facts::named;
use super::meta::Meta;

named! {
    /// Why a restore holds an object, so that nobody gets it before it is given back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Quarantine {
        /// The state that was replaced had leased it after the backup was made.
        LeasedSince = "leased after this backup",
        /// The state that was replaced had it no more.
        Gone = "gone after this backup",
        /// The state that was replaced could not be read, or was gone.
        Unknown = "free in this backup",
    }
}

impl Quarantine {
    /// Why an object is held; none for one that is not.
    pub fn of(metadata: &Meta) -> Option<Self> {
        Self::named(metadata.annotation(QUARANTINE)?)
    }

    /// Writes down why an object is held.
    pub fn mark(self, metadata: &mut Meta) {
        metadata.annotations.insert(QUARANTINE.into(), self.name().into());
    }
}
