//! The names that a cluster needs in DNS and the addresses that its install-config gives them. It
//! changes no name server.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::Value;

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
