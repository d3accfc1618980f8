//! Labels that an Agent gets by itself: of what was found in its machine, those that its InfraEnv
//! hands on to its node, and those that its BareMetalHost has for both.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::model::agent::inventory::Inventory;
use crate::model::agent::{Agent, CLUSTER_NAMESPACE, INVENTORY, INVENTORY_VERSION, is_own_label};
use crate::model::host::{AGENT_LABEL, BareMetalHost, NODE_LABEL};
use crate::model::infra_env::{INHERITED, InfraEnv, PROPAGATE};
use crate::rules::label_value;

/// Flags of processors that can run virtual machines.
const VIRTUALIZE: [&str; 2] = ["vmx", "svm"];
const VERSION: &str = "0.1";
const SOLID: [&str; 2] = ["SSD", "NVMe"];

/// What was found, as labels; what cannot be one is left out.
pub fn of_inventory(inventory: &Inventory) -> BTreeMap<String, String> {
    let (vendor, cpu) = (&inventory.system_vendor, &inventory.cpu);
    let solid = |kind: &str| SOLID.iter().any(|one| one.eq_ignore_ascii_case(kind));
    let solid = inventory.disks.iter().any(|disk| solid(&disk.drive_type));
    let virtualizes = cpu.flags.iter().any(|flag| VIRTUALIZE.contains(&flag.as_str()));
    let all = [
        ("storage-hasnonrotationaldisk", solid.to_string()),
        ("cpu-architecture", sanitised(&cpu.architecture)),
        ("cpu-virtenabled", virtualizes.to_string()),
        ("host-manufacturer", sanitised(&vendor.manufacturer)),
        ("host-productname", sanitised(&vendor.product_name)),
        ("host-isvirtual", vendor.is_virtual.to_string()),
    ];
    let good = all.into_iter().filter(|(_, value)| !value.is_empty() && label_value(value));
    good.map(|(name, value)| (format!("{INVENTORY}{name}"), value)).collect()
}

/// Puts them on an Agent, instead of those that it had.
pub fn apply(agent: &mut Agent, inventory: &Inventory) {
    let meta = &mut agent.metadata;
    meta.labels.retain(|name, _| !name.starts_with(INVENTORY));
    meta.labels.extend(of_inventory(inventory));
    meta.annotations.insert(INVENTORY_VERSION.into(), VERSION.into());
}

/// Where its cluster is, empty for none.
pub fn bound(agent: &mut Agent, namespace: String) {
    agent.metadata.labels.insert(CLUSTER_NAMESPACE.into(), namespace);
}

fn sanitised(text: &str) -> String {
    let fits = |letter: &char| letter.is_ascii_alphanumeric() || "-_.".contains(*letter);
    text.chars().filter(fits).collect()
}

/// What its `BareMetalHost` says, of an Agent and of its node.
pub fn of_host(host: &BareMetalHost, agent: &mut Agent) {
    for (name, value) in host.annotations() {
        if let Some(key) = name.strip_prefix(NODE_LABEL) {
            agent.spec.node_labels.insert(key.to_owned(), value.clone());
        } else if let Some(key) = name.strip_prefix(AGENT_LABEL).filter(|key| !is_own_label(key)) {
            agent.metadata.labels.insert(key.to_owned(), value.clone());
        }
    }
}

/// Labels of the InfraEnv that its annotation names become labels of the node, and go when it
/// names them no more. What somebody has set himself stays: its value is not the remembered one.
pub fn inherited(infra_env: &InfraEnv, agent: &mut Agent) {
    let source = &infra_env.metadata;
    let wanted: Vec<(&str, &String)> = listed(source.annotation(PROPAGATE))
        .filter_map(|key| Some((key, source.labels.get(key)?)))
        .collect();
    let (old, labels) = (agent.metadata.annotation(INHERITED), &mut agent.spec.node_labels);
    for entry in listed(old) {
        // Upstream remembers keys without values.
        let (key, value) = if let Some((key, value)) = entry.split_once('=') {
            (key, Some(value))
        } else {
            let value = wanted.iter().find(|(key, _)| *key == entry);
            (entry, value.map(|(_, value)| value.as_str()))
        };
        if labels.get(key).is_some_and(|now| value.is_none_or(|value| value == now)) {
            labels.remove(key);
        }
    }
    let mut inherited = Vec::new();
    for (key, value) in wanted {
        if let Entry::Vacant(free) = labels.entry(key.to_owned()) {
            free.insert(value.clone());
            inherited.push(format!("{key}={value}"));
        }
    }
    let notes = &mut agent.metadata.annotations;
    if inherited.is_empty() {
        notes.remove(INHERITED);
    } else {
        notes.insert(INHERITED.to_owned(), inherited.join(","));
    }
}

fn listed(annotation: Option<&str>) -> impl Iterator<Item = &str> {
    let all = annotation.unwrap_or_default().split(',');
    all.map(str::trim).filter(|one| !one.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::inventory::{Cpu, Disk, SystemVendor};

    #[test]
    fn what_was_found_becomes_labels_as_far_as_it_can() {
        let mut inventory = Inventory {
            cpu: Cpu {
                architecture: "x86_64".into(),
                flags: vec!["lm".into(), "svm".into()],
                ..Cpu::default()
            },
            disks: vec![Disk { drive_type: "SSD".into(), ..Disk::default() }],
            system_vendor: SystemVendor {
                product_name: "KVM (4)".into(),
                ..SystemVendor::default()
            },
            ..Inventory::default()
        };
        for (maker, label) in [
            ("Red Hat", Some("RedHat")),
            ("_bad_", None),
            ("\u{1f4a9}!?", None),
            ("", None),
            ("Dell Inc.", None),
            ("a-b.c_d", Some("a-b.c_d")),
        ] {
            inventory.system_vendor.manufacturer = maker.into();
            let found = of_inventory(&inventory);
            let key = "inventory.agent-install.openshift.io/host-manufacturer";
            assert_eq!(found.get(key).map(String::as_str), label, "{maker}");
        }
        inventory.system_vendor.manufacturer = "x".repeat(64);
        let found = of_inventory(&inventory);
        let found: Vec<String> = found
            .iter()
            .map(|(key, value)| format!("{}={value}", key.trim_start_matches(INVENTORY)))
            .collect();
        assert_eq!(
            found,
            [
                "cpu-architecture=x86_64",
                "cpu-virtenabled=true",
                "host-isvirtual=false",
                "host-productname=KVM4",
                "storage-hasnonrotationaldisk=true",
            ]
        );
    }

    fn infra_env(rack: &str, propagate: &str) -> InfraEnv {
        let mut one = InfraEnv::default();
        one.metadata.labels.insert("rack".into(), rack.into());
        one.metadata.annotations.insert(PROPAGATE.into(), propagate.into());
        one
    }

    fn rack(agent: &Agent) -> (Option<&str>, Option<&str>) {
        let label = agent.spec.node_labels.get("rack").map(String::as_str);
        (label, agent.metadata.annotation(INHERITED))
    }

    #[test]
    fn nodes_inherit_labels_until_somebody_sets_them() {
        let mut agent = Agent::default();
        for _ in 0..2 {
            inherited(&infra_env("7", " rack,,zone"), &mut agent);
            assert_eq!(rack(&agent), (Some("7"), Some("rack=7")));
        }
        let mut gone = agent.clone();
        inherited(&infra_env("7", ""), &mut gone);
        assert_eq!(rack(&gone), (None, None));
        inherited(&infra_env("9", "rack"), &mut agent);
        assert_eq!(rack(&agent), (Some("9"), Some("rack=9")));
        agent.spec.node_labels.insert("rack".into(), "8".into());
        for propagate in ["rack", "rack", ""] {
            inherited(&infra_env("9", propagate), &mut agent);
            assert_eq!(rack(&agent), (Some("8"), None));
        }
        // As upstream remembers it.
        agent.metadata.annotations.insert(INHERITED.into(), "rack".into());
        inherited(&infra_env("8", "rack"), &mut agent);
        assert_eq!(rack(&agent), (Some("8"), Some("rack=8")));
        agent.metadata.annotations.insert(INHERITED.into(), "rack".into());
        inherited(&infra_env("8", ""), &mut agent);
        assert_eq!(rack(&agent), (None, None));
    }
}
