//! Tells for which roles a machine has enough, and what it lacks for the others.

use crate::model::agent::needs::NodeRole;
use crate::model::agent::{Agent, Role};
use crate::rules::validations::missing_requirements;

/// The roles that a machine can have, by the names that people use.
const ROLES: [(&str, NodeRole); 3] = [
    ("master", NodeRole::multi_node(Role::Master)),
    ("worker", NodeRole::multi_node(Role::Worker)),
    ("sno", NodeRole::SINGLE_NODE),
];

/// The roles for which a machine has enough, such as `master,worker`; without an inventory nothing.
pub fn suitable_roles(agent: &Agent) -> Option<String> {
    let inventory = agent.usable_inventory()?;
    let mut names = Vec::new();
    for (name, node) in ROLES {
        if missing_requirements(inventory, node).is_empty() {
            names.push(name);
        }
    }
    Some(if names.is_empty() { "none".into() } else { names.join(",") })
}

/// A line for each role: `master: yes`, or `master: no (WHAT IT LACKS)`.
pub fn role_fit_lines(agent: &Agent) -> Vec<String> {
    let Some(inventory) = agent.usable_inventory() else { return Vec::new() };
    let mut lines = Vec::new();
    for (name, node) in ROLES {
        let reasons: Vec<String> =
            missing_requirements(inventory, node).into_iter().map(|(_, why)| why).collect();
        lines.push(if reasons.is_empty() {
            format!("{name}: yes")
        } else {
            format!("{name}: no ({})", reasons.join("; "))
        });
    }
    lines
}
