//! Tells for which roles a host has enough, and what it lacks for the others.

use crate::model::agent::inventory::Inventory;
use crate::model::agent::{Agent, Role};
use crate::rules::validations::missing_requirements;

/// The name that people use, the role, and whether the host is the only node of its cluster.
const ROLES: [(&str, Role, bool); 3] =
    [("master", Role::Master, false), ("worker", Role::Worker, false), ("sno", Role::Master, true)];

/// The roles for which a host has enough, such as `master,worker`; without an inventory nothing.
pub fn suitable_roles(agent: &Agent) -> Option<String> {
    let inventory = valid_inventory(agent)?;
    let mut names = Vec::new();
    for (name, role, is_single_node) in ROLES {
        if missing_requirements(inventory, role, is_single_node).is_empty() {
            names.push(name);
        }
    }
    Some(if names.is_empty() { "none".into() } else { names.join(",") })
}

/// A line for each role: `master: yes`, or `master: no (WHAT IT LACKS)`.
pub fn role_fit_lines(agent: &Agent) -> Vec<String> {
    let Some(inventory) = valid_inventory(agent) else { return Vec::new() };
    let mut lines = Vec::new();
    for (name, role, is_single_node) in ROLES {
        let reasons: Vec<String> = missing_requirements(inventory, role, is_single_node)
            .into_iter()
            .map(|(_, why)| why)
            .collect();
        lines.push(if reasons.is_empty() {
            format!("{name}: yes")
        } else {
            format!("{name}: no ({})", reasons.join("; "))
        });
    }
    lines
}

fn valid_inventory(agent: &Agent) -> Option<&Inventory> {
    agent.status.inventory.as_ref().filter(|inventory| inventory.is_complete())
}
