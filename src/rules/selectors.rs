//! Validates label selectors. Never looks for what they select.

use serde_json::Value;

use crate::model::infra_env::{LabelRequirement, LabelSelector};
use crate::model::platform::Platform;
use crate::model::typed::read_value;

use super::names::{is_label_key, is_label_value};

const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

/// Every problem of a selector, each with its path.
pub fn check(path: &str, selector: &LabelSelector) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, value) in &selector.match_labels {
        if !is_label_key(key) || !is_label_value(value) {
            problems.push(format!("{path}.matchLabels.{key}: `{value}` is not a label"));
        }
    }
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        problems.extend(check_requirement(&path, requirement));
    }
    problems
}

/// Checks one entry of matchExpressions. Operators are those of Kubernetes' label selectors.
fn check_requirement(path: &str, requirement: &LabelRequirement) -> Vec<String> {
    let LabelRequirement { key, operator, values } = requirement;
    let mut problems = Vec::new();
    if !is_label_key(key) {
        problems.push(format!("{path}.key: `{key}` is not a label key"));
    }
    let takes_values = matches!(operator.as_str(), "In" | "NotIn");
    if !OPERATORS.contains(&operator.as_str()) {
        let operators = OPERATORS.join(", ");
        problems.push(format!("{path}.operator: `{operator}` is none of {operators}"));
    } else if takes_values && values.is_empty() {
        problems.push(format!("{path}.values is empty; {operator} needs at least one value"));
    } else if !takes_values && !values.is_empty() {
        problems.push(format!("{path}.values: {operator} takes no values"));
    }
    for value in values.iter().filter(|value| !is_label_value(value)) {
        problems.push(format!("{path}.values: `{value}` is not a label value"));
    }
    problems
}

/// Every problem of the selector that a bare-metal pool has for its agents. The pool keeps it as it
/// was written, so that it is only read here.
pub fn check_agent_selector(platform: &Platform) -> Vec<String> {
    let path = "spec.platform.agentBareMetal.agentSelector";
    let agent_bare_metal = platform.agent_bare_metal.as_ref();
    let Some(written) = agent_bare_metal.and_then(|platform| platform.agent_selector.as_ref())
    else {
        return Vec::new();
    };
    match read_value::<LabelSelector>(&Value::Object(written.clone())) {
        Ok(selector) => check(path, &selector),
        Err(message) => vec![format!("{path}: {message}")],
    }
}
