//! The names that a cluster needs in DNS and the addresses that its install-config gives them, or
//! that patches of it do. It changes no name server.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::Value;

use crate::model::address::Addr;
use crate::model::customization::{Customization, CustomizationSpec, Patch, PatchOperation};

/// Fields of a platform with the addresses of the API and of the applications. The first that a
/// platform has counts.
const API_FIELDS: [&str; 3] = ["apiFloatingIP", "apiVIPs", "apiVIP"];
const APPS_FIELDS: [&str; 3] = ["ingressFloatingIP", "ingressVIPs", "ingressVIP"];

/// Names that have the same addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterRecord {
    /// A name that begins with `*.` stands for all names below the rest.
    pub names: Vec<String>,
    /// The addresses that the install-config has; empty if it has none.
    pub addresses: Vec<String>,
}

/// The records that an installation with this install-config needs: of the API and of the
/// applications.
pub fn cluster_records(config: &Value) -> Vec<ClusterRecord> {
    let cluster = string_at(config, "/metadata/name");
    let domain = string_at(config, "/baseDomain");
    let api = ClusterRecord {
        names: vec![format!("api.{cluster}.{domain}"), format!("api-int.{cluster}.{domain}")],
        addresses: platform_addresses(config, API_FIELDS),
    };
    let apps = ClusterRecord {
        names: vec![format!("*.apps.{cluster}.{domain}")],
        addresses: platform_addresses(config, APPS_FIELDS),
    };
    vec![api, apps]
}

fn string_at<'a>(config: &'a Value, pointer: &str) -> &'a str {
    config.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The addresses in the first of these fields that a platform of an install-config has. What is no
/// IP address is passed over, and one that follows itself is listed once.
fn platform_addresses(config: &Value, fields: [&str; 3]) -> Vec<String> {
    let platforms = config["platform"].as_object();
    let mut addresses = Vec::new();
    for platform in platforms.into_iter().flat_map(|platforms| platforms.values()) {
        let value = fields.iter().map(|field| &platform[*field]).find(|value| !value.is_null());
        let values: Vec<&Value> = match value {
            Some(Value::Array(values)) => values.iter().collect(),
            Some(value) => vec![value],
            None => Vec::new(),
        };
        for address in values.into_iter().filter_map(Value::as_str) {
            if address.parse::<IpAddr>().is_ok() {
                addresses.push(address.to_owned());
            }
        }
    }
    addresses.dedup();
    addresses
}

/// The addresses of API and ingress that patches of an install-config give, each once. A patch may
/// set such a field, an item of it, or all of a platform.
pub fn patched_addresses(patches: &[Patch]) -> Vec<Addr> {
    let mut addresses = Vec::new();
    for patch in patches {
        if !matches!(patch.op, PatchOperation::Add | PatchOperation::Replace) {
            continue;
        }
        let field = patch.path.split('/').find(|name| is_address_field(name)).unwrap_or_default();
        if let Some(value) = value_of_patch(patch) {
            collect_addresses(field, &value, &mut addresses);
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The addresses of a customization as they were when its cluster was made: it may have been changed
/// since.
pub fn applied_addresses(customization: &Customization) -> Vec<Addr> {
    let applied = customization.status.last_applied_configuration.as_deref();
    match applied.and_then(|json| serde_json::from_str::<CustomizationSpec>(json).ok()) {
        Some(applied) => patched_addresses(&applied.install_config_patches),
        None => patched_addresses(&customization.spec.install_config_patches),
    }
}

/// The name in DNS that patches of an install-config give to a cluster; none if they give none.
pub fn patched_name(patches: &[Patch]) -> Option<String> {
    let mut namings = patches.iter().rev().filter(|patch| {
        patch.path.trim_start_matches('/') == "metadata/name"
            && matches!(patch.op, PatchOperation::Add | PatchOperation::Replace)
    });
    value_of_patch(namings.next()?)?.as_str().map(str::to_owned)
}

fn is_address_field(name: &str) -> bool {
    API_FIELDS.contains(&name) || APPS_FIELDS.contains(&name)
}

/// The value of a patch; none if it has none, or one that cannot be read.
fn value_of_patch(patch: &Patch) -> Option<Value> {
    match patch.value_json.as_deref() {
        Some(json) if !json.is_empty() => serde_json::from_str(json).ok(),
        _ => patch.value.clone(),
    }
}

/// Adds the addresses in the value of a field, and in the fields below it.
fn collect_addresses(field: &str, value: &Value, addresses: &mut Vec<Addr>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                collect_addresses(name, value, addresses);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_addresses(field, item, addresses);
            }
        }
        Value::String(word) if is_address_field(field) => {
            addresses.extend(word.parse::<Addr>().ok());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_of_patches_are_found_wherever_they_stand() {
        for (patch, expected) in [
            (json!({"op": "add", "path": "/platform/vsphere/apiVIP", "value": "192.0.2.1"}), 1),
            (json!({"op": "add", "path": "platform/vsphere/apiVIPs/-", "value": "192.0.2.1"}), 1),
            (
                json!({"op": "replace", "path": "/platform/vsphere/ingressVIPs",
                    "valueJSON": "[\"192.0.2.1\", \"2001:db8::1\"]"}),
                2,
            ),
            (
                json!({"op": "add", "path": "/platform",
                    "value": {"vsphere": {"apiVIPs": ["192.0.2.1"], "vCenter": "192.0.2.9"}}}),
                1,
            ),
            (json!({"op": "add", "path": "/metadata/name", "value": "192.0.2.1"}), 0),
            (json!({"op": "test", "path": "/platform/vsphere/apiVIP", "value": "192.0.2.1"}), 0),
        ] {
            let patches: Vec<Patch> = vec![serde_json::from_value(patch.clone()).unwrap()];
            assert_eq!(patched_addresses(&patches).len(), expected, "{patch}");
        }
    }
}
