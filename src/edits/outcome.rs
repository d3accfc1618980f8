//! What putting or deleting an object did to the state.

/// What putting an object did to the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    Created,
    /// The object existed and was changed: a few words about what matters of the change, or none.
    Configured(String),
    Unchanged,
}

impl PutOutcome {
    /// The outcome for an object that existed before.
    pub fn of_update(is_changed: bool) -> Self {
        if is_changed { Self::Configured(String::new()) } else { Self::Unchanged }
    }
}

/// What asking for the deletion of an object did to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The object was removed, or marked for a pass that removes it.
    Requested,
    /// The object was already marked, and nothing was changed.
    AlreadyRequested,
    NotFound,
}

impl DeleteOutcome {
    /// The outcome for an object that exists and that the request has marked, if `is_changed`.
    pub fn of_mark(is_changed: bool) -> Self {
        if is_changed { Self::Requested } else { Self::AlreadyRequested }
    }
}
