//! Install-config templates of pools. Nothing here fills one in.

use std::cell::OnceCell;

use serde_json::Value;

use super::documents::SecretValue;

/// An install-config template. It is parsed once, when it is first needed.
#[derive(Debug)]
pub struct Template {
    pub text: SecretValue,
    /// The parsed text, or why it cannot be parsed.
    pub read: OnceCell<Result<Value, String>>,
}

impl Template {
    /// A template that is read when it is first needed.
    pub fn new(text: SecretValue) -> Self {
        Self { text, read: OnceCell::new() }
    }
}
