//! The chain of causes that answers why. It is only data: who finds the causes writes them.

/// Causes, each the reason of the one before it, and what to type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub causes: Vec<String>,
    pub next: String,
}

impl Chain {
    pub fn new(cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self { causes: vec![cause.into()], next: next.into() }
    }

    /// The same with one more cause at its end.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// The same behind a first cause.
    #[must_use]
    pub fn behind(mut self, cause: impl Into<String>) -> Self {
        self.causes.insert(0, cause.into());
        self
    }
}
