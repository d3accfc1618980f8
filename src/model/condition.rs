//! Conditions as Hive writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time::Time;

/// `status.conditions[]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// What it is about, such as Available.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default)]
    pub message: String,
    /// When status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When anything of it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
}

/// What is short: a word for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub reason: String,
    pub message: String,
}

impl Shortage {
    pub fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }
}

impl Condition {
    pub fn new(kind: &str, status: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn at(mut self, time: Time) -> Self {
        self.last_transition_time = Some(time);
        self.last_probe_time = Some(time);
        self
    }
}

pub fn find<'a>(all: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    all.iter().find(|condition| condition.kind == kind)
}

/// The same for conditions that have no time of probing, as those of metal3 and of agents.
pub fn set_unprobed(all: &mut Vec<Condition>, new: Condition, now: Time) {
    let kind = new.kind.clone();
    set(all, new, now);
    for one in all.iter_mut().filter(|one| one.kind == kind) {
        one.last_probe_time = None;
    }
}

/// Puts `new` in its place and says whether anything changed. The time of transition moves only
/// with the status, the time of probing with any change.
pub fn set(all: &mut Vec<Condition>, new: Condition, now: Time) -> bool {
    let Some(old) = all.iter_mut().find(|old| old.kind == new.kind) else {
        all.push(new.at(now));
        return true;
    };
    if (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message) {
        return false;
    }
    let since = if old.status == new.status { old.last_transition_time } else { Some(now) };
    *old = Condition { last_transition_time: since, ..new.at(now) };
    true
}
