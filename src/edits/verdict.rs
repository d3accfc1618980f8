//! What putting an object into a state came to.

/// What putting an object in came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Created,
    /// What is worth saying of the change; nothing when it is empty.
    Configured(String),
    Unchanged,
}

impl Verdict {
    /// The verdict on an object that was there before.
    pub fn of_update(is_changed: bool) -> Self {
        if is_changed { Self::Configured(String::new()) } else { Self::Unchanged }
    }
}
