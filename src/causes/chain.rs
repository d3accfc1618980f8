//! The chain of causes that answers why an object is as it is. Only data: the files of the kinds
//! find and word the causes.

/// Causes, each the reason for the one before it, and the command that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Full sentences without an end mark, the object itself first.
    pub causes: Vec<String>,
    /// The causes from this one on are each a reason for the one before all of them, and not for one
    /// another.
    first_sibling: Option<usize>,
    /// A command to type, or what a person must do where no command helps.
    pub next: String,
}

impl Chain {
    /// A chain of one cause.
    pub fn new(cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self { causes: vec![cause.into()], first_sibling: None, next: next.into() }
    }

    /// Adds a cause at the end.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Adds causes at the end that have nothing to do with one another.
    #[must_use]
    pub fn because_of_each(mut self, causes: impl IntoIterator<Item = String>) -> Self {
        self.first_sibling.get_or_insert(self.causes.len());
        self.causes.extend(causes);
        self
    }

    /// Adds a cause at the beginning.
    #[must_use]
    pub fn preceded_by(mut self, cause: impl Into<String>) -> Self {
        self.causes.insert(0, cause.into());
        self.first_sibling = self.first_sibling.map(|index| index + 1);
        self
    }

    /// How many causes the one with this index is the reason of.
    pub fn depth_of(&self, index: usize) -> usize {
        self.first_sibling.map_or(index, |first_sibling| index.min(first_sibling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_that_have_nothing_to_do_with_one_another_have_one_depth() {
        let checks = ["its disk is small".to_owned(), "it has no route".to_owned()];
        let chain = Chain::new("agent n1 is insufficient", "poolctl why agent/n1")
            .because_of_each(checks)
            .preceded_by("cluster edge waits");
        let depths: Vec<usize> =
            (0..chain.causes.len()).map(|index| chain.depth_of(index)).collect();
        assert_eq!(depths, [0, 1, 2, 2]);
    }
}
