//! Validates data templates: required and unique fields, patterns and ranges, and that every name
//! leads to something. Reports every problem at once, as `PATH: WHY`. Never looks at hosts: what a
//! template says about a host is computed by `render::host_data`.

mod networks;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::annotations::SEPARATE_ADDRESSES;
use crate::model::data_template::metadata::{MetaData, SourceObject};
use crate::model::data_template::{Metal3DataTemplate, PoolSource, SOURCE_OBJECTS};
use crate::model::kinds::Kind;
use crate::model::metal3_data::Metal3Data;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::annotations;

/// The longest text, in characters, and the longest list, in entries.
const MAX_LENGTH: usize = 512;
/// How many hosts a refusal names, so that it fits a screen.
const MAX_HOSTS_NAMED: usize = 20;

/// Returns every problem of a template.
pub fn check(template: &Metal3DataTemplate) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    if let Some(meta_data) = &template.spec.meta_data {
        check_meta_data(meta_data, &mut problems);
    }
    if let Some(network_data) = &template.spec.network_data {
        networks::check(network_data, &mut problems);
    }
    check_types_of_pools(template, &mut problems);
    problems.extend(annotations::check(Kind::DataTemplate, &template.metadata.annotations).err());
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// What is accepted, but probably not what was meant: networks of a host that get the same address,
/// because a host has one address of each pool unless the template asks for separate ones.
pub fn warnings(template: &Metal3DataTemplate) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(network_data) = &template.spec.network_data else { return warnings };
    if template.metadata.has_true_annotation(SEPARATE_ADDRESSES) {
        return warnings;
    }
    let mut networks_of_pools: BTreeMap<&str, &str> = BTreeMap::new();
    for network in network_data.networks.list_networks() {
        let Some(leased) = network.leased else { continue };
        let pool = match &leased.from_pool_ref {
            Some(reference) => reference.name.as_str(),
            None => leased.ip_address_from_ip_pool.as_str(),
        };
        // Which pool an annotation names is known only for a host.
        if pool.is_empty() || leased.from_pool_annotation.is_some() {
            continue;
        }
        if let Some(first_network) = networks_of_pools.insert(pool, network.id) {
            let name = &template.metadata.name;
            warnings.push(format!(
                "datatemplate `{name}`: the networks {first_network} and {} have the same address, \
                 because both take it from IPPool `{pool}`",
                network.id
            ));
        }
    }
    warnings
}

/// Refuses a change of the data: machines were already given it, and keep it.
pub fn check_change(
    before: &Metal3DataTemplate,
    after: &Metal3DataTemplate,
) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    if before.spec.meta_data != after.spec.meta_data {
        problems.push("spec.metaData: cannot be modified".to_owned());
    }
    if before.spec.network_data != after.spec.network_data {
        problems.push("spec.networkData: cannot be modified".to_owned());
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Refuses to delete a template while hosts have an index of it.
pub fn check_deletions(state: &State) -> Result<(), Refusal> {
    for change in state.data_templates.difference() {
        let (Some(template), None) = (change.before, change.after) else { continue };
        let name = &template.metadata.name;
        let hosts = &template.status.indexes;
        let Some(first_host) = hosts.values().next() else { continue };
        let mut refusal = Refusal::conflict(format!("Metal3DataTemplate `{name}` has hosts"));
        for (index, host) in hosts.iter().take(MAX_HOSTS_NAMED) {
            refusal.causes.push(format!("{host} has index {index}"));
        }
        return Err(refusal.next(format!("poolctl template release {name} --host {first_host}")));
    }
    Ok(())
}

/// Checks metaData: its keys, then what the entries of each list need.
fn check_meta_data(data: &MetaData, problems: &mut Vec<String>) {
    for (list, keys) in data.keys_by_list() {
        let list = format!("spec.metaData.{list}");
        check_list_length(&list, keys.len(), problems);
        let mut seen = BTreeSet::new();
        for (index, key) in keys.into_iter().enumerate() {
            let path = format!("{list}[{index}].key");
            check_required_text(&path, key, problems);
            if !seen.insert(key) {
                problems.push(format!("{path}: another entry of the list sets `{key}` too"));
            }
        }
    }
    for (index, entry) in data.from_host_interfaces.iter().enumerate() {
        let path = format!("spec.metaData.fromHostInterfaces[{index}].interface");
        match (entry.from_boot_mac, entry.interface.is_empty()) {
            (false, true) => {
                let why = "interface must be specified when fromBootMAC is false";
                problems.push(format!("{path}: {why}"));
            }
            (true, false) => {
                problems.push(format!("{path}: interface must be empty when fromBootMAC is true"));
            }
            _ => check_text_length(&path, &entry.interface, problems),
        }
    }
    for (list, pools) in data.pool_entries() {
        for (index, pool) in pools.iter().enumerate() {
            let path = format!("spec.metaData.{list}[{index}].name");
            check_required_text(&path, &pool.name, problems);
        }
    }
    for SourceObject { list, index, object: name } in data.source_objects() {
        check_object_type(&format!("spec.metaData.{list}[{index}].object"), name, problems);
    }
    for (index, entry) in data.from_labels.iter().enumerate() {
        let path = format!("spec.metaData.fromLabels[{index}].label");
        check_required_text(&path, &entry.label, problems);
    }
    for (index, entry) in data.from_annotations.iter().enumerate() {
        let path = format!("spec.metaData.fromAnnotations[{index}].annotation");
        check_required_text(&path, &entry.annotation, problems);
    }
    for (index, entry) in data.indexes.iter().enumerate() {
        let path = format!("spec.metaData.indexes[{index}]");
        check_text_length(&format!("{path}.prefix"), &entry.prefix, problems);
        check_text_length(&format!("{path}.suffix"), &entry.suffix, problems);
    }
    for (index, entry) in data.strings.iter().enumerate() {
        let path = format!("spec.metaData.strings[{index}].value");
        check_text_length(&path, &entry.value, problems);
    }
}

/// Pools are found by name alone, so one name must not stand for pools of two types.
fn check_types_of_pools(template: &Metal3DataTemplate, problems: &mut Vec<String>) {
    let mut type_by_name = BTreeMap::new();
    let mut reported_names = BTreeSet::new();
    for source in template.pool_sources() {
        let PoolSource::Named { name, kind, group } = source else { continue };
        let (first_kind, first_group) = *type_by_name.entry(name).or_insert((kind, group));
        if (first_kind, first_group) != (kind, group) && reported_names.insert(name) {
            problems.push(format!(
                "spec: multiple references with the same name but different resource types: \
                 `{name}` is {first_kind}.{first_group} and {kind}.{group}"
            ));
        }
    }
}

/// Upstream compares the types of objects without regard to case.
fn check_object_type(path: &str, name: &str, problems: &mut Vec<String>) {
    if !SOURCE_OBJECTS.iter().any(|object| object.eq_ignore_ascii_case(name)) {
        let objects = SOURCE_OBJECTS.join(", ");
        problems.push(format!("{path}: unknown object type: `{name}` is none of {objects}"));
    }
}

fn check_required_text(path: &str, value: &str, problems: &mut Vec<String>) {
    if value.is_empty() {
        problems.push(format!("{path}: cannot be empty"));
    }
    check_text_length(path, value, problems);
}

fn check_text_length(path: &str, value: &str, problems: &mut Vec<String>) {
    let length = value.chars().count();
    if length > MAX_LENGTH {
        problems.push(format!("{path}: it has {length} characters; the limit is {MAX_LENGTH}"));
    }
}

fn check_list_length(path: &str, length: usize, problems: &mut Vec<String>) {
    if length > MAX_LENGTH {
        problems.push(format!("{path}: it has {length} entries; the limit is {MAX_LENGTH}"));
    }
}

/// Every problem of a Metal3Data, in metal3's words.
pub fn check_data(data: &Metal3Data) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, reference) in [("template", &data.spec.template), ("claim", &data.spec.claim)] {
        if reference.name.is_empty() {
            problems.push(format!("spec.{path}.name: cannot be empty"));
        }
    }
    let Ok(index) = u64::try_from(data.spec.index) else {
        problems.push("spec.index: must be positive value".into());
        return problems;
    };
    let name = Metal3DataTemplate::data_name(&data.spec.template.name, index);
    if data.metadata.name != name && problems.is_empty() {
        problems.push(format!(
            "metadata.name: should follow the convention <Metal3Template Name>-<index>, `{name}`"
        ));
    }
    problems
}
