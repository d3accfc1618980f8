//! Why a text is not read, in the words of users. Nothing here reads texts.

use std::fmt;
use std::io::{self, ErrorKind};

use serde_saphyr::budget::BudgetBreach;

use super::LARGEST_PART;

pub(super) const TOO_MANY_VALUES: &str =
    "it has too many values, or its aliases expand to too much data";
pub(super) const TOO_LARGE_AT_ONCE: &str =
    "it cannot be read object by object, and it is too large to be read at once";

/// What is wrong with a part of a text that is larger than any may be.
pub(super) fn too_large_part() -> String {
    format!("a document, or an item of a list, has more than {LARGEST_PART} bytes")
}

/// Why a text is not YAML, or not YAML that is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    /// Without the lines around the place, for they may have a secret.
    pub message: String,
    /// 0 if the error has no place.
    pub line: u64,
    pub column: u64,
    /// Whether a part of the text has more than is accepted, so that it may well be YAML.
    pub is_too_much: bool,
}

impl YamlError {
    /// What the parser says, in the words of users, who know neither its budgets nor its settings.
    pub(super) fn of_parser(error: &serde_saphyr::Error) -> Self {
        let (line, column) =
            error.location().map_or((0, 0), |place| (place.line(), place.column()));
        let is_too_much = matches!(error_itself(error), serde_saphyr::Error::Budget { .. });
        Self { message: reword_error(error), line, column, is_too_much }
    }

    /// Why a text cannot be read at all.
    pub fn of_reading(error: &io::Error) -> Self {
        Self::without_place(match error.kind() {
            ErrorKind::InvalidData => "is not UTF-8 text".into(),
            _ => error.to_string(),
        })
    }

    /// An error of a text as a whole.
    pub fn without_place(message: String) -> Self {
        Self { message, line: 0, column: 0, is_too_much: false }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.message)?;
        if self.line > 0 {
            write!(out, " (line {}, column {})", self.line, self.column)?;
        }
        Ok(())
    }
}

fn reword_error(error: &serde_saphyr::Error) -> String {
    if let serde_saphyr::Error::Budget { breach, .. } = error_itself(error) {
        return match breach {
            BudgetBreach::Depth { .. } => "nested too deeply",
            _ => TOO_MANY_VALUES,
        }
        .into();
    }
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    if message.starts_with("duplicate mapping key") {
        return message.split(", set ").next().unwrap_or(message).into();
    }
    if message.starts_with("recursion limit") {
        return "nested too deeply".into();
    }
    message.into()
}

/// An error without those around it, which say by which alias the parser came there.
fn error_itself(error: &serde_saphyr::Error) -> &serde_saphyr::Error {
    match error {
        serde_saphyr::Error::AliasError { error, .. } => error_itself(error),
        _ => error,
    }
}
