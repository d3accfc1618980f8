//! What the types of a data template's fields do not say: patterns, ranges, and that what is named
//! is there. Each mistake is told with its path.

mod networks;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::data_template::metadata::MetaData;
use crate::model::data_template::{Metal3DataTemplate, OBJECTS, Source};
use crate::model::refusal::Refusal;
use crate::model::state::State;

/// Of texts in characters, and of lists in entries.
const MOST: usize = 512;
/// So many hosts are named in a refusal.
const NAMED: usize = 20;

/// Says everything that is wrong with a template.
pub fn check(template: &Metal3DataTemplate) -> Result<(), Vec<String>> {
    let mut found = Vec::new();
    if let Some(data) = &template.spec.meta_data {
        meta_data(data, &mut found);
    }
    if let Some(data) = &template.spec.network_data {
        networks::check(data, &mut found);
    }
    one_type_each(template, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Says what of a change is not allowed: machines that were told something keep it.
pub fn check_change(old: &Metal3DataTemplate, new: &Metal3DataTemplate) -> Result<(), Vec<String>> {
    let mut found = Vec::new();
    if old.spec.meta_data != new.spec.meta_data {
        found.push("spec.metaData: cannot be modified".to_owned());
    }
    if old.spec.network_data != new.spec.network_data {
        found.push("spec.networkData: cannot be modified".to_owned());
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// A template stays while hosts have numbers of it.
pub fn invariants(state: &State) -> Result<(), Refusal> {
    let gone = state.data_templates.difference().filter(|change| change.after.is_none());
    for one in gone.filter_map(|change| change.before) {
        let (name, hosts) = (&one.metadata.name, &one.status.indexes);
        let Some(first) = hosts.values().next() else { continue };
        let mut refusal = Refusal::conflict(format!("Metal3DataTemplate `{name}` has hosts"));
        let told = |(number, host): (&String, &String)| format!("{host} has number {number}");
        refusal.causes.extend(hosts.iter().take(NAMED).map(told));
        return Err(refusal.next(format!("poolctl template release {name} --host {first}")));
    }
    Ok(())
}

fn meta_data(data: &MetaData, found: &mut Vec<String>) {
    for (list, keys) in data.keys() {
        let list = format!("spec.metaData.{list}");
        few(&list, keys.len(), found);
        let mut seen = BTreeSet::new();
        for (at, key) in keys.into_iter().enumerate() {
            let path = format!("{list}[{at}].key");
            needed(&path, key, found);
            if !seen.insert(key) {
                found.push(format!("{path}: `{key}` is set by another entry of the list too"));
            }
        }
    }
    for (at, one) in data.from_host_interfaces.iter().enumerate() {
        let path = format!("spec.metaData.fromHostInterfaces[{at}].interface");
        match (one.from_boot_mac, one.interface.is_empty()) {
            (false, true) => {
                found
                    .push(format!("{path}: interface must be specified when fromBootMAC is false"));
            }
            (true, false) => {
                found.push(format!("{path}: interface must be empty when fromBootMAC is true"));
            }
            _ => short(&path, &one.interface, found),
        }
    }
    for (list, all) in data.from_pools() {
        for (at, one) in all.iter().enumerate() {
            needed(&format!("spec.metaData.{list}[{at}].name"), &one.name, found);
        }
    }
    for (list, at, name) in data.objects() {
        object(&format!("spec.metaData.{list}[{at}].object"), name, found);
    }
    for (at, one) in data.from_labels.iter().enumerate() {
        needed(&format!("spec.metaData.fromLabels[{at}].label"), &one.label, found);
    }
    for (at, one) in data.from_annotations.iter().enumerate() {
        needed(&format!("spec.metaData.fromAnnotations[{at}].annotation"), &one.annotation, found);
    }
    for (at, one) in data.indexes.iter().enumerate() {
        short(&format!("spec.metaData.indexes[{at}].prefix"), &one.prefix, found);
        short(&format!("spec.metaData.indexes[{at}].suffix"), &one.suffix, found);
    }
    for (at, one) in data.strings.iter().enumerate() {
        short(&format!("spec.metaData.strings[{at}].value"), &one.value, found);
    }
}

/// A pool's name stands for one pool.
fn one_type_each(template: &Metal3DataTemplate, found: &mut Vec<String>) {
    let (mut types, mut told) = (BTreeMap::new(), BTreeSet::new());
    for source in template.sources() {
        let Source::Named { name, kind, group } = source else { continue };
        let first = *types.entry(name).or_insert((kind, group));
        if first != (kind, group) && told.insert(name) {
            found.push(format!(
                "spec: multiple references with the same name but different resource types: \
                 `{name}` is {}.{} and {kind}.{group}",
                first.0, first.1
            ));
        }
    }
}

fn object(path: &str, name: &str, found: &mut Vec<String>) {
    if !OBJECTS.iter().any(|one| one.eq_ignore_ascii_case(name)) {
        let known = OBJECTS.join(", ");
        found.push(format!("{path}: unknown object type: `{name}` is none of {known}"));
    }
}

/// A text that must be there.
fn needed(path: &str, text: &str, found: &mut Vec<String>) {
    if text.is_empty() {
        found.push(format!("{path}: cannot be empty"));
    }
    short(path, text, found);
}

fn short(path: &str, text: &str, found: &mut Vec<String>) {
    let length = text.chars().count();
    if length > MOST {
        found.push(format!("{path}: it has {length} characters, and {MOST} are the most"));
    }
}

fn few(path: &str, length: usize, found: &mut Vec<String>) {
    if length > MOST {
        found.push(format!("{path}: it has {length} entries, and {MOST} are the most"));
    }
}
