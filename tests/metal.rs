//! A simulated rack: hosts that report themselves by command, and pools of clusters made of them.

use serde_json::{Value, json};

use crate::once::whole;
use crate::sandbox::{Sandbox, apply};

const OBJECTS: &str = include_str!("cases/metal.yaml");
const INVENTORY: &str = include_str!("../examples/agents/inventory.json");

/// The rack and its pool `metal` of one cluster; no host is there yet.
pub fn rack() -> Sandbox {
    let sandbox = Sandbox::new();
    apply(&sandbox, OBJECTS);
    sandbox
}

/// The pool under another name, with another customization.
pub fn another_pool(name: &str, customization: &str) -> String {
    let (_, pool) = OBJECTS.rsplit_once("---\n").unwrap();
    pool.replace("  name: metal\n", &format!("  name: {name}\n"))
        .replace("name: metal-a", &format!("name: {customization}"))
}

/// A host of a number is booted and says what is in it: node-3, with a 3 in its addresses.
pub fn boots(sandbox: &Sandbox, environment: &str, number: usize, patch: &Value) {
    boots_as(sandbox, environment, &format!("h{number}"), number, patch);
}

/// The same under another name than h3.
pub fn boots_as(sandbox: &Sandbox, environment: &str, host: &str, number: usize, patch: &Value) {
    let mut found: Value = serde_json::from_str(INVENTORY).unwrap();
    found["hostname"] = format!("node-{number}").into();
    found["interfaces"][0]["mac_address"] = format!("02:00:00:00:00:{number:02}").into();
    found["interfaces"][0]["ipv4_addresses"] = json!([format!("1.2.3.{number}/24")]);
    json_patch::merge(&mut found, patch);
    sandbox.ok(&["agent", "register", "--infraenv", environment, "--id", host, "-q"]);
    let file = sandbox.file("inventory.json", &found.to_string());
    sandbox.ok(&["agent", "report", host, "--inventory", &file, "-q"]);
}

/// Hosts are booted; those that come for the first time are approved.
pub fn boot(sandbox: &Sandbox, numbers: &[usize]) {
    for number in numbers {
        boots(sandbox, "rack", *number, &json!({}));
    }
    let names: Vec<String> = numbers.iter().map(|number| format!("h{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    sandbox.ok(&[&["agent", "approve", "-q"][..], &names[..]].concat());
}

/// A pass, after which everything is whole.
pub fn pass(sandbox: &Sandbox) {
    sandbox.ok(&["reconcile", "-q"]);
    whole(sandbox, 3, 5);
}
