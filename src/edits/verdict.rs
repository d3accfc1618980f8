//! The outcome of putting an object into a state.

/// The outcome of putting an object into a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditOutcome {
    Created,
    /// The object existed and was changed: a few words about what matters of the change, or none.
    Configured(String),
    Unchanged,
}

impl EditOutcome {
    /// The outcome for an object that existed before.
    pub fn of_update(is_changed: bool) -> Self {
        if is_changed { Self::Configured(String::new()) } else { Self::Unchanged }
    }
}
