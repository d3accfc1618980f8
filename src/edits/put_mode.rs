//! What putting an object does to the fields of the existing one that it leaves out.

/// What putting an object does to the fields of the existing one that it leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// They stay where other programs or commands are used to set them: labels, annotations,
    /// finalizers, owners, and a few fields that each kind names. The object comes from a manifest
    /// or from the options of a command, whose author has not seen the existing object.
    Apply,
    /// They are removed. The object is all that is wanted: the existing one after it was edited, or
    /// one that another state has exported.
    Replace,
}
