//! What a driver program says of itself: the contract that it follows, its verbs and its
//! parameters. It starts no program, and knows nothing of where descriptions are kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::annotations::PARAMETERS;

/// The newest contract of driver programs that this build knows (docs/drivers.md).
pub const NEWEST_CONTRACT: u32 = 2;
/// The contract of a program that does not describe itself.
const FIRST_CONTRACT: u32 = 1;
/// The verb by which a program describes itself.
pub const DESCRIBE: &str = "describe";
/// The verb by which a program says whether it could work.
pub const CHECK: &str = "check";

/// What a driver program writes to `result` when it is asked to describe itself. Fields of later
/// contracts are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriverDescription {
    /// The version of the contract that it follows.
    pub contract: u32,
    /// The verbs that it has; none if it does not say, so that it may have all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbs: Option<Vec<String>>,
    /// The names of the parameters that it takes; none if it does not say, so that it may take any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<String>>,
}

impl Default for DriverDescription {
    fn default() -> Self {
        Self { contract: FIRST_CONTRACT, verbs: None, parameters: None }
    }
}

impl DriverDescription {
    /// Whether it has a verb, as far as it says.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.as_ref().is_none_or(|verbs| verbs.iter().any(|listed| listed == verb))
    }

    /// Whether it can start and stop the machines of its clusters.
    pub fn can_switch_machines(&self) -> bool {
        self.has_verb("start") && self.has_verb("stop")
    }

    /// Why clusters with these annotations cannot be given to it, for people.
    pub fn find_mismatch(&self, annotations: &BTreeMap<String, String>) -> Option<String> {
        if self.contract > NEWEST_CONTRACT {
            return Some(format!(
                "it follows contract {}, and this poolctl knows contracts up to {NEWEST_CONTRACT}",
                self.contract
            ));
        }
        let taken = self.parameters.as_ref()?;
        let given = read_parameters(annotations);
        let unknown = given.keys().find(|name| !taken.contains(name))?;
        if taken.is_empty() {
            return Some(format!("it takes no parameters, and {PARAMETERS} has `{unknown}`"));
        }
        let names = taken.join(", ");
        Some(format!("it has no parameter `{unknown}` (annotation {PARAMETERS}); it has {names}"))
    }
}

/// The parameters that annotations give a driver; none if they are no JSON object.
pub fn read_parameters(annotations: &BTreeMap<String, String>) -> Map<String, Value> {
    let parameters = annotations.get(PARAMETERS).map(String::as_str).unwrap_or_default();
    serde_json::from_str(parameters).unwrap_or_default()
}

/// A driver program as a pass has found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverSighting {
    /// Why it cannot be started; none if it can.
    pub missing: Option<String>,
    /// What it says of itself; none if it was not asked since it was installed.
    pub description: Option<DriverDescription>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(description: &str, parameters: &str, expected: Option<&str>) {
        let description: DriverDescription = serde_json::from_str(description).unwrap();
        let annotations = BTreeMap::from([(PARAMETERS.to_owned(), parameters.to_owned())]);
        assert_eq!(description.find_mismatch(&annotations).as_deref(), expected);
    }

    #[test]
    fn a_description_says_what_a_driver_cannot_do() {
        check("{}", r#"{"plan": "small"}"#, None);
        check(r#"{"contract": 2, "parameters": ["plan"], "later": 1}"#, r#"{"plan": 1}"#, None);
        check(
            r#"{"contract": 2, "parameters": ["plan", "size"]}"#,
            r#"{"plam": 1}"#,
            Some(
                "it has no parameter `plam` (annotation poolctl.dev/parameters); it has plan, size",
            ),
        );
        check(
            r#"{"contract": 99}"#,
            "",
            Some("it follows contract 99, and this poolctl knows contracts up to 2"),
        );
    }

    #[test]
    fn a_driver_that_lists_no_verbs_may_have_all() {
        assert!(DriverDescription::default().can_switch_machines());
        let verbs = Some(vec!["provision".to_owned(), "start".to_owned()]);
        assert!(!DriverDescription { verbs, ..DriverDescription::default() }.can_switch_machines());
    }
}
