//! Finds what `openshift-install agent` refuses in its two files, in its words, and what it does
//! not look at although no installation survives it. Changes neither file.

mod cluster;
mod hosts;
mod vips;

use serde_json::{Map, Value};

use crate::model::address::{Addr, Subnet};

use self::cluster::Cluster;

static NULL: Value = Value::Null;

/// Every problem of an install-config and the agent-config beside it, as `FILE: PATH: WHY`.
pub fn find_problems(install_config: &Value, agent_config: &Value) -> Vec<String> {
    let mut report = Report { file: "install-config.yaml", problems: Vec::new() };
    let cluster = Cluster::read(install_config, &mut report);
    report.file = "agent-config.yaml";
    hosts::check(agent_config, &cluster, &mut report);
    report.problems
}

/// The problems that were found so far, worded as Kubernetes words them.
struct Report {
    /// The file that is looked at now.
    file: &'static str,
    problems: Vec<String>,
}

impl Report {
    fn add(&mut self, path: &str, problem: &str) {
        self.problems.push(format!("{}: {path}: {problem}", self.file));
    }

    fn add_required(&mut self, path: &str, why: &str) {
        self.add(path, &format!("Required value: {why}"));
    }

    fn add_forbidden(&mut self, path: &str, why: &str) {
        self.add(path, &format!("Forbidden: {why}"));
    }

    fn add_invalid(&mut self, path: &str, value: &Value, why: &str) {
        self.add(path, &format!("Invalid value: {value}: {why}"));
    }

    /// Reports a value that is not supported.
    fn check_supported(&mut self, path: &str, value: &Value, supported: &[&str]) {
        if value.as_str().is_some_and(|value| supported.contains(&value)) {
            return;
        }
        let value = if value.is_null() { "\"\"".to_owned() } else { value.to_string() };
        let supported: Vec<String> = supported.iter().map(|name| format!("\"{name}\"")).collect();
        let supported = supported.join(", ");
        self.add(path, &format!("Unsupported value: {value}: supported values: {supported}"));
    }

    /// Reports fields that are not among `fields`, whatever their case. `path` ends with a dot or
    /// is empty.
    fn check_fields(&mut self, path: &str, value: &Value, fields: &[&str]) {
        for key in value.as_object().into_iter().flat_map(Map::keys) {
            if !fields.iter().any(|field| field.eq_ignore_ascii_case(key)) {
                self.add(&format!("{path}{key}"), &format!("unknown field \"{key}\""));
            }
        }
    }
}

/// A field by its name, or by the same name in another case, as Go reads it. Null if there is none.
fn field<'v>(value: &'v Value, name: &str) -> &'v Value {
    let Some(fields) = value.as_object() else { return &NULL };
    if let Some(field) = fields.get(name) {
        return field;
    }
    let in_other_case = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    in_other_case.map_or(&NULL, |(_, field)| field)
}

/// The text of a field, empty if it has none.
fn text_field<'v>(value: &'v Value, name: &str) -> &'v str {
    field(value, name).as_str().unwrap_or_default()
}

/// The items of a field, none if it is no list.
fn list_field<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    field(value, name).as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_in_any(networks: &[Subnet], address: Addr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// The problem of an address that is in none of the networks.
fn outside_of(networks: &[Subnet]) -> String {
    let networks: Vec<String> = networks
        .iter()
        .map(|network| format!("{}/{}", network.first_address(), network.prefix_length()))
        .collect();
    format!("IP expected to be in one of the machine networks: {}", networks.join(","))
}
