//! The chain of causes that answers why an object is as it is. Only data: the files of the kinds
//! find and word the causes.

/// Causes, each the reason for the one before it, and the command that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Full sentences without an end mark, the object itself first.
    pub causes: Vec<String>,
    /// A command to type, or what a person must do where no command helps.
    pub next: String,
}

impl Chain {
    /// A chain of one cause.
    pub fn new(cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self { causes: vec![cause.into()], next: next.into() }
    }

    /// Adds a cause at the end.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds a cause at the beginning.
    #[must_use]
    pub fn preceded_by(mut self, cause: impl Into<String>) -> Self {
        self.causes.insert(0, cause.into());
        self
    }
}
