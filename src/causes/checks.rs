//! Names the checks that keep a host from being bound or installed.

use crate::model::agent::Agent;
use crate::rules::validations::{GATES_UNBOUND, blocks_installation};

/// The checks that a host fails, each as `id: message`. Of a free host only those count that keep
/// it from being bound.
pub fn describe_failing_checks(agent: &Agent) -> Vec<String> {
    let is_bound = agent.bound_cluster().is_some();
    let mut failing_checks = Vec::new();
    for check in agent.validations() {
        let counts = is_bound || GATES_UNBOUND.contains(&check.id.as_str());
        if counts && check.status == "failure" && blocks_installation(check) {
            failing_checks.push(format!("{}: {}", check.id, check.message));
        }
    }
    failing_checks
}
