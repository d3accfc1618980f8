//! Makes refusals of the problems of one object. Knows no rule.

use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;

/// Refuses an object for one reason.
pub fn refuse(kind: Kind, name: &str, why: &str) -> Refusal {
    Refusal::invalid(format!("{} `{name}`: {why}", kind.name()))
}

/// One refusal with all problems of an object; a single problem is the message itself.
pub fn refuse_problems(kind: Kind, name: &str, problems: Vec<String>) -> Result<(), Refusal> {
    match problems.as_slice() {
        [] => Ok(()),
        [problem] => Err(refuse(kind, name, problem)),
        _ => Err(Refusal::of_problems(format!("{} `{name}`", kind.name()), problems)),
    }
}
