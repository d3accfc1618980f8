//! What `openshift-install agent` refuses, in its words, and what it does not look at but no
//! installation survives.

mod cluster;
mod hosts;
mod vips;

use serde_json::{Map, Value};

use crate::model::address::{Addr, Subnet};

use self::cluster::Cluster;

static NOTHING: Value = Value::Null;

/// Every problem of an install-config and the agent-config beside it, as `FILE: PATH: WHY`.
pub fn problems(install_config: &Value, agent_config: &Value) -> Vec<String> {
    let mut report = Report { file: "install-config.yaml", all: Vec::new() };
    let cluster = Cluster::read(install_config, &mut report);
    report.file = "agent-config.yaml";
    hosts::check(agent_config, &cluster, &mut report);
    report.all
}

/// What is wrong, as Kubernetes words it.
struct Report {
    file: &'static str,
    all: Vec<String>,
}

impl Report {
    fn say(&mut self, path: &str, what: &str) {
        self.all.push(format!("{}: {path}: {what}", self.file));
    }

    fn required(&mut self, path: &str, why: &str) {
        self.say(path, &format!("Required value: {why}"));
    }

    fn forbidden(&mut self, path: &str, why: &str) {
        self.say(path, &format!("Forbidden: {why}"));
    }

    fn invalid(&mut self, path: &str, value: &Value, why: &str) {
        self.say(path, &format!("Invalid value: {value}: {why}"));
    }

    /// Unless it is one of those that are known.
    fn one_of(&mut self, path: &str, value: &Value, known: &[&str]) {
        if value.as_str().is_some_and(|text| known.contains(&text)) {
            return;
        }
        let value = if value.is_null() { "\"\"".to_owned() } else { value.to_string() };
        let known: Vec<String> = known.iter().map(|one| format!("\"{one}\"")).collect();
        let known = known.join(", ");
        self.say(path, &format!("Unsupported value: {value}: supported values: {known}"));
    }

    /// Fields that nobody knows, whatever their case; `path` ends with a dot or is empty.
    fn unknown(&mut self, path: &str, value: &Value, known: &[&str]) {
        for key in value.as_object().into_iter().flat_map(Map::keys) {
            if !known.iter().any(|one| one.eq_ignore_ascii_case(key)) {
                self.say(&format!("{path}{key}"), &format!("unknown field \"{key}\""));
            }
        }
    }
}

/// A field by its name, or by the same name in another case, as Go reads it; else null.
fn field<'v>(of: &'v Value, name: &str) -> &'v Value {
    let Some(fields) = of.as_object() else { return &NOTHING };
    let alike = || fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    let found = fields.get(name).or_else(|| alike().map(|(_, value)| value));
    found.unwrap_or(&NOTHING)
}

fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    field(of, name).as_str().unwrap_or_default()
}

fn list<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    field(of, name).as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_in(networks: &[Subnet], address: Addr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// Why an address that is in none of the networks is no good.
fn outside(networks: &[Subnet]) -> String {
    let one = |network: &Subnet| format!("{}/{}", network.first(), network.prefix_length());
    let all: Vec<String> = networks.iter().map(one).collect();
    format!("IP expected to be in one of the machine networks: {}", all.join(","))
}
