//! What happened, to what, because of whom.

use super::meta::Key;
use super::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub time: Time,
    /// Normal, or Warning.
    pub warning: bool,
    pub reason: String,
    /// Kind of the object, as on the wire.
    pub kind: &'static str,
    pub object: Key,
    pub actor: String,
    pub message: String,
}
