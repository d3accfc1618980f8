//! A simulated rack: hosts that report themselves by command, and pools of clusters made of them.

use serde_json::{Value, json};

use crate::once::assert_clusters_are_whole;
use crate::sandbox::{Sandbox, apply};

const OBJECTS: &str = include_str!("cases/metal.yaml");
const INVENTORY: &str = include_str!("../examples/agents/reports/node-1.json");

/// The rack and its pool `metal` of one cluster. No host has reported itself yet.
pub fn sandbox_with_rack() -> Sandbox {
    let sandbox = Sandbox::new();
    apply(&sandbox, OBJECTS);
    sandbox
}

/// The document of a pool like `metal`, with another name and another customization.
pub fn another_pool(name: &str, customization: &str) -> String {
    let (_, pool) = OBJECTS.rsplit_once("---\n").unwrap();
    pool.replace("  name: metal\n", &format!("  name: {name}\n"))
        .replace("name: metal-a", &format!("name: {customization}"))
}

/// The host of a number is booted and reports its inventory: number 3 is the agent `h3` with the
/// hostname `node-3`. The patch is merged into the inventory.
pub fn boot_host(sandbox: &Sandbox, environment: &str, number: usize, patch: &Value) {
    boot_host_as(sandbox, environment, &format!("h{number}"), number, patch);
}

/// The same with a name of its own for the agent.
pub fn boot_host_as(
    sandbox: &Sandbox,
    environment: &str,
    host: &str,
    number: usize,
    patch: &Value,
) {
    let mut inventory: Value = serde_json::from_str(INVENTORY).unwrap();
    inventory["hostname"] = format!("node-{number}").into();
    inventory["interfaces"][0]["mac_address"] = format!("02:00:00:00:00:{number:02}").into();
    inventory["interfaces"][0]["ipv4_addresses"] = json!([format!("1.2.3.{number}/24")]);
    json_patch::merge(&mut inventory, patch);
    sandbox.ok(&format!("agent register --infraenv {environment} --id {host} -q"));
    let file = sandbox.write_file("inventory.json", &inventory.to_string());
    sandbox.ok(&format!("agent report {host} --inventory {file} -q"));
}

/// Boots hosts of the rack, and approves their agents.
pub fn boot_hosts(sandbox: &Sandbox, numbers: &[usize]) {
    for number in numbers {
        boot_host(sandbox, "rack", *number, &json!({}));
    }
    let agents: Vec<String> = numbers.iter().map(|number| format!("h{number}")).collect();
    sandbox.ok(&format!("agent approve -q {}", agents.join(" ")));
}

/// One pass, after which every cluster is whole.
pub fn reconcile_whole(sandbox: &Sandbox) {
    sandbox.ok("reconcile -q");
    assert_clusters_are_whole(sandbox, 3, 5);
}
