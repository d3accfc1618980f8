//! Labels that poolctl gives to an Agent and to its node: what was found in the machine, what the
//! InfraEnv hands on to its nodes, and what the BareMetalHost has for both. It decides nothing by
//! labels.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::model::agent::inventory::{Disk, Inventory};
use crate::model::agent::{
    Agent, AgentSpec, CLUSTER_NAMESPACE_LABEL, INVENTORY_LABEL_PREFIX, INVENTORY_VERSION,
    is_own_label,
};
use crate::model::agent_classification::{
    AgentClassification, CLASSIFICATION_LABEL_PREFIX, QUERY_ERROR_PREFIX,
};
use crate::model::host::{AGENT_LABEL_PREFIX, BareMetalHost, NODE_LABEL_PREFIX};
use crate::model::infra_env::{INHERITED_LABELS, InfraEnv, PROPAGATED_LABELS};
use crate::model::meta::Meta;
use crate::model::state::State;
use crate::rules::is_label_value;
use crate::rules::query::Query;

/// Flags of processors that can run virtual machines.
const VIRTUALIZE: [&str; 2] = ["vmx", "svm"];
/// The version of the labels of an inventory, which is assisted-service's.
const VERSION: &str = "0.1";
/// Types of drives that do not rotate.
const SOLID_STATE: [&str; 2] = ["SSD", "NVMe"];

/// What was found in a machine, as labels. What cannot be the value of a label is left out.
fn inventory_labels(inventory: &Inventory) -> BTreeMap<String, String> {
    let vendor = &inventory.system_vendor;
    let cpu = &inventory.cpu;
    let has_solid_state = inventory.disks.iter().any(is_solid_state);
    let can_virtualize = cpu.flags.iter().any(|flag| VIRTUALIZE.contains(&flag.as_str()));
    let values = [
        ("storage-hasnonrotationaldisk", has_solid_state.to_string()),
        ("cpu-architecture", to_label_value(&cpu.architecture)),
        ("cpu-virtenabled", can_virtualize.to_string()),
        ("host-manufacturer", to_label_value(&vendor.manufacturer)),
        ("host-productname", to_label_value(&vendor.product_name)),
        ("host-isvirtual", vendor.is_virtual.to_string()),
    ];
    let mut labels = BTreeMap::new();
    for (name, value) in values {
        if !value.is_empty() && is_label_value(&value) {
            labels.insert(format!("{INVENTORY_LABEL_PREFIX}{name}"), value);
        }
    }
    labels
}

fn is_solid_state(disk: &Disk) -> bool {
    SOLID_STATE.iter().any(|drive_type| drive_type.eq_ignore_ascii_case(&disk.drive_type))
}

/// Replaces the labels of an Agent's inventory by those of the inventory that it has now.
pub fn apply_inventory_labels(metadata: &mut Meta, inventory: &Inventory) {
    metadata.labels.retain(|name, _| !name.starts_with(INVENTORY_LABEL_PREFIX));
    metadata.labels.extend(inventory_labels(inventory));
    metadata.annotations.insert(INVENTORY_VERSION.into(), VERSION.into());
}

/// An AgentClassification with its query, which is read once.
pub struct Classification {
    pub namespace: String,
    label: String,
    value: String,
    /// The error says why the query cannot be used.
    query: Result<Query, String>,
}

/// Reads the classifications of the state, in the order of their names: of two for one label the
/// last counts whose query is met.
pub fn read_classifications(state: &State) -> Vec<Classification> {
    let mut rows: Vec<&AgentClassification> = state.agent_classifications.rows().collect();
    rows.retain(|row| row.metadata.deletion_timestamp.is_none());
    rows.sort_by(|left, right| left.metadata.name.cmp(&right.metadata.name));
    let mut classifications = Vec::new();
    for AgentClassification { metadata, spec, .. } in rows {
        classifications.push(Classification {
            namespace: metadata.namespace.clone(),
            label: format!("{CLASSIFICATION_LABEL_PREFIX}{}", spec.label_key),
            value: spec.label_value.clone(),
            query: spec.query.parse(),
        });
    }
    classifications
}

/// Replaces the labels that classifications give to an Agent by those that follow from the inventory
/// that it has now. A query that cannot tell gives a label that says so, as in assisted-service.
pub fn apply_classifications(
    metadata: &mut Meta,
    inventory: &Inventory,
    classifications: &[&Classification],
) {
    let mut labels = BTreeMap::new();
    let mut inventory_document = None;
    for Classification { label, value, query, .. } in classifications {
        // An inventory is large: it becomes a document only if there is a query.
        let document = inventory_document.get_or_insert_with(|| serde_json::to_value(inventory));
        let is_met = match (query, document) {
            (Ok(query), Ok(document)) => query.is_met(document).ok(),
            _ => None,
        };
        let label_value = match is_met {
            Some(true) => value.clone(),
            Some(false) => continue,
            None => format!("{QUERY_ERROR_PREFIX}{value}"),
        };
        labels.insert(label.clone(), label_value);
    }
    metadata.labels.retain(|name, _| !name.starts_with(CLASSIFICATION_LABEL_PREFIX));
    metadata.labels.extend(labels);
}

/// Whether a classification has given a label to an Agent.
pub fn is_classified(metadata: &Meta) -> bool {
    metadata.labels.keys().any(|name| name.starts_with(CLASSIFICATION_LABEL_PREFIX))
}

/// Labels an Agent with the namespace of its cluster, which is empty if it has none.
pub fn set_cluster_namespace(agent: &mut Agent, namespace: String) {
    agent.metadata.labels.insert(CLUSTER_NAMESPACE_LABEL.into(), namespace);
}

/// What remains of a value without the characters that a label cannot have.
fn to_label_value(value: &str) -> String {
    let characters = value.chars();
    characters.filter(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(*letter)).collect()
}

/// Gives an Agent and its node the labels that annotations of its `BareMetalHost` ask for.
pub fn apply_host_labels(host: &BareMetalHost, metadata: &mut Meta, spec: &mut AgentSpec) {
    for (name, value) in host.annotations() {
        if let Some(key) = name.strip_prefix(NODE_LABEL_PREFIX) {
            spec.node_labels.insert(key.to_owned(), value.clone());
        } else if let Some(key) = name.strip_prefix(AGENT_LABEL_PREFIX)
            && !is_own_label(key)
        {
            metadata.labels.insert(key.to_owned(), value.clone());
        }
    }
}

/// Whether `inherit_node_labels` may change something: the InfraEnv names labels for the nodes of its
/// Agents, or the Agent remembers some that its node was given.
pub fn must_update_node_labels(infra_env: &InfraEnv, metadata: &Meta) -> bool {
    infra_env.metadata.annotation(PROPAGATED_LABELS).is_some()
        || metadata.annotation(INHERITED_LABELS).is_some()
}

/// Hands labels of an InfraEnv on to the node of an Agent: those that an annotation of the InfraEnv
/// names. A label goes when it is named no more. A label that a person has set stays: its value is
/// not the one that was handed on, which an annotation of the Agent remembers.
pub fn inherit_node_labels(infra_env: &InfraEnv, metadata: &mut Meta, spec: &mut AgentSpec) {
    let source = &infra_env.metadata;
    let wanted: Vec<(&str, &String)> = split_list(source.annotation(PROPAGATED_LABELS))
        .filter_map(|key| Some((key, source.labels.get(key)?)))
        .collect();
    let node_labels = &mut spec.node_labels;
    for entry in split_list(metadata.annotation(INHERITED_LABELS)) {
        // Assisted-service remembers keys without values: then the value of today is taken for it.
        let (key, remembered) = if let Some((key, value)) = entry.split_once('=') {
            (key, Some(value))
        } else {
            let label = wanted.iter().find(|(key, _)| *key == entry);
            (entry, label.map(|(_, value)| value.as_str()))
        };
        if let Some(current) = node_labels.get(key)
            && remembered.is_none_or(|remembered| remembered == current)
        {
            node_labels.remove(key);
        }
    }
    let mut inherited = Vec::new();
    for (key, value) in wanted {
        if let Entry::Vacant(vacant) = node_labels.entry(key.to_owned()) {
            vacant.insert(value.clone());
            inherited.push(format!("{key}={value}"));
        }
    }
    let annotations = &mut metadata.annotations;
    if inherited.is_empty() {
        annotations.remove(INHERITED_LABELS);
    } else {
        annotations.insert(INHERITED_LABELS.to_owned(), inherited.join(","));
    }
}

/// The entries of an annotation that is a list with commas.
fn split_list(annotation: Option<&str>) -> impl Iterator<Item = &str> {
    let entries = annotation.unwrap_or_default().split(',');
    entries.map(str::trim).filter(|entry| !entry.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::inventory::{Cpu, SystemVendor};

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
            let labels = inventory_labels(&inventory);
            let key = "inventory.agent-install.openshift.io/host-manufacturer";
            assert_eq!(labels.get(key).map(String::as_str), label, "{maker}");
        }
        inventory.system_vendor.manufacturer = "x".repeat(64);
        let labels: Vec<String> = inventory_labels(&inventory)
            .iter()
            .map(|(key, value)| {
                format!("{}={value}", key.trim_start_matches(INVENTORY_LABEL_PREFIX))
            })
            .collect();
        assert_eq!(
            labels,
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
        let mut infra_env = InfraEnv::default();
        infra_env.metadata.labels.insert("rack".into(), rack.into());
        infra_env.metadata.annotations.insert(PROPAGATED_LABELS.into(), propagate.into());
        infra_env
    }

    fn inherit(infra_env: &InfraEnv, agent: &mut Agent) {
        inherit_node_labels(infra_env, &mut agent.metadata, &mut agent.spec);
    }

    /// The label of the node, and what is remembered of it.
    fn rack(agent: &Agent) -> (Option<&str>, Option<&str>) {
        let label = agent.spec.node_labels.get("rack").map(String::as_str);
        (label, agent.metadata.annotation(INHERITED_LABELS))
    }

    #[test]
    fn nodes_inherit_labels_until_somebody_sets_them() {
        let mut agent = Agent::default();
        for _ in 0..2 {
            inherit(&infra_env("7", " rack,,zone"), &mut agent);
            assert_eq!(rack(&agent), (Some("7"), Some("rack=7")));
        }
        let mut without_label = agent.clone();
        inherit(&infra_env("7", ""), &mut without_label);
        assert_eq!(rack(&without_label), (None, None));
        inherit(&infra_env("9", "rack"), &mut agent);
        assert_eq!(rack(&agent), (Some("9"), Some("rack=9")));
        agent.spec.node_labels.insert("rack".into(), "8".into());
        for propagate in ["rack", "rack", ""] {
            inherit(&infra_env("9", propagate), &mut agent);
            assert_eq!(rack(&agent), (Some("8"), None));
        }
        // As assisted-service remembers it.
        agent.metadata.annotations.insert(INHERITED_LABELS.into(), "rack".into());
        inherit(&infra_env("8", "rack"), &mut agent);
        assert_eq!(rack(&agent), (Some("8"), Some("rack=8")));
        agent.metadata.annotations.insert(INHERITED_LABELS.into(), "rack".into());
        inherit(&infra_env("8", ""), &mut agent);
        assert_eq!(rack(&agent), (None, None));
    }
}
