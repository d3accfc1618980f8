//! What hosts are good for: which roles, and what they lack for the others.

use crate::model::agent::inventory::Inventory;
use crate::model::agent::{Agent, Role};
use crate::rules::validations::lacks;

/// As people call them, and whether it is the only node of its cluster.
const ROLES: [(&str, Role, bool); 3] =
    [("master", Role::Master, false), ("worker", Role::Worker, false), ("sno", Role::Master, true)];

/// `master,worker`; none before it is known what is in it.
pub fn roles(agent: &Agent) -> Option<String> {
    let found = known(agent)?;
    let fits = ROLES.into_iter().filter(|(_, role, sno)| lacks(found, *role, *sno).is_empty());
    let names: Vec<&str> = fits.map(|(name, _, _)| name).collect();
    Some(if names.is_empty() { "none".into() } else { names.join(",") })
}

/// A line for each role: `master: no (...)`.
pub fn lines(agent: &Agent) -> Vec<String> {
    let line = |found: &Inventory, (name, role, sno): (&str, Role, bool)| {
        let why = lacks(found, role, sno);
        if why.is_empty() {
            format!("{name}: yes")
        } else {
            let why: Vec<String> = why.into_iter().map(|(_, why)| why).collect();
            format!("{name}: no ({})", why.join("; "))
        }
    };
    let found = known(agent).into_iter();
    found.flat_map(|found| ROLES.map(|role| line(found, role))).collect()
}

fn known(agent: &Agent) -> Option<&Inventory> {
    agent.status.inventory.as_ref().filter(|one| one.is_valid())
}
