//! What the type of a label selector does not say.

use serde_json::{Map, Value};

use crate::model::infra_env::{LabelSelector, Requirement};
use crate::model::platform::Platform;

use super::names::{label_key, label_value};

const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

/// Every problem of one, by its path.
pub fn check(path: &str, one: &LabelSelector) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, value) in &one.match_labels {
        if !label_key(key) || !label_value(value) {
            wrong.push(format!("{path}.matchLabels.{key}: `{value}` is no label"));
        }
    }
    for (at, one) in one.match_expressions.iter().enumerate() {
        wrong.extend(requirement(&format!("{path}.matchExpressions[{at}]"), one));
    }
    wrong
}

fn requirement(path: &str, one: &Requirement) -> Vec<String> {
    let (key, operator) = (&one.key, one.operator.as_str());
    let mut wrong = Vec::new();
    if !label_key(key) {
        wrong.push(format!("{path}.key: `{key}` is no key of a label"));
    }
    let compares = matches!(operator, "In" | "NotIn");
    if !OPERATORS.contains(&operator) {
        wrong.push(format!("{path}.operator: `{operator}` is none of {}", OPERATORS.join(", ")));
    } else if compares && one.values.is_empty() {
        wrong.push(format!("{path}.values is empty; {operator} needs one at least"));
    } else if !compares && !one.values.is_empty() {
        wrong.push(format!("{path}.values: {operator} takes none"));
    }
    for value in one.values.iter().filter(|value| !label_value(value)) {
        wrong.push(format!("{path}.values: `{value}` is no value of a label"));
    }
    wrong
}

/// The same for the agents of a bare-metal pool.
pub fn of_platform(platform: &Platform) -> Vec<String> {
    let path = "spec.platform.agentBareMetal.agentSelector";
    let said = platform.agent_bare_metal.as_ref().and_then(|one| one.agent_selector.as_ref());
    let read = |said: &Map<String, Value>| {
        serde_json::from_value::<LabelSelector>(Value::Object(said.clone()))
    };
    match said.map(read) {
        None => Vec::new(),
        Some(Ok(selector)) => check(path, &selector),
        Some(Err(why)) => vec![format!("{path}: {why}")],
    }
}
