//! Checks a network configuration for nmstate, as far as its form shows that no host could apply
//! it. Whether an interface exists is known to the host alone.

use serde_json::Value;

use crate::model::address::Addr;
use crate::model::hardware::check_mac_address;
use crate::model::refusal::nearest_name;

/// The keys that nmstate knows, and those that nmpolicy adds.
const KEYS: [&str; 12] = [
    "interfaces",
    "routes",
    "route-rules",
    "rules",
    "dns-resolver",
    "hostname",
    "ovn",
    "ovs-db",
    "capture",
    "desiredState",
    "description",
    "version",
];

/// Every problem of a configuration. `path` is the field that holds it, for messages.
pub fn find_nmstate_problems(path: &str, config: &Value) -> Vec<String> {
    let Some(fields) = config.as_object() else {
        return vec![format!("{path} is not nmstate: a mapping with interfaces, routes, ...")];
    };
    let mut problems = Vec::new();
    for key in fields.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        let near = nearest_name(key, KEYS);
        let hint = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        problems.push(format!("{path}.{key} is no key of nmstate{hint}"));
    }
    let interfaces = &config["interfaces"];
    if !interfaces.is_null() && !interfaces.is_array() {
        problems.push(format!("{path}.interfaces is not a list"));
    }
    for (index, interface) in interfaces.as_array().into_iter().flatten().enumerate() {
        let interface_path = format!("{path}.interfaces[{index}]");
        problems.extend(find_interface_problems(&interface_path, interface));
    }
    problems
}

fn find_interface_problems(path: &str, interface: &Value) -> Vec<String> {
    if !interface.is_object() {
        return vec![format!("{path} is not a mapping with name, type, state, ...")];
    }
    let mut problems = Vec::new();
    let names = ["name", "profile-name", "mac-address"];
    if !names.iter().any(|name| interface[*name].as_str().is_some_and(|name| !name.is_empty())) {
        problems.push(format!("{path}.name is missing"));
    }
    if let Some(mac_address) = interface["mac-address"].as_str()
        && let Err(why) = check_mac_address(mac_address)
    {
        problems.push(format!("{path}.mac-address: {why}"));
    }
    for family in ["ipv4", "ipv6"] {
        let addresses = interface[family]["address"].as_array().into_iter().flatten();
        for (index, address) in addresses.enumerate() {
            let address_path = format!("{path}.{family}.address[{index}]");
            problems.extend(find_address_problem(&address_path, family, address));
        }
    }
    problems
}

/// Why an entry such as `{ip: 192.0.2.1, prefix-length: 24}` is no address of the family.
fn find_address_problem(path: &str, family: &str, entry: &Value) -> Option<String> {
    let written = entry["ip"].as_str().unwrap_or_default();
    let address = written.parse::<Addr>().ok();
    let Some(address) = address.filter(|address| address.is_v4() == (family == "ipv4")) else {
        return Some(format!("{path}.ip: `{written}` is not an address of {family}"));
    };
    let prefix_length = &entry["prefix-length"];
    let is_prefix_length = prefix_length.is_null()
        || prefix_length.as_u64().is_some_and(|length| length <= u64::from(address.bits()));
    (!is_prefix_length)
        .then(|| format!("{path}.prefix-length: `{prefix_length}` is not up to {}", address.bits()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_host_could_apply_is_found() {
        for (config, expected) in [
            (json!({}), ""),
            (json!({"interfaces": []}), ""),
            (
                json!({"interfaces": [{"name": "eth0", "type": "ethernet", "state": "up",
                    "mac-address": "02:00:00:00:00:01",
                    "ipv4": {"enabled": true, "address": [{"ip": "192.0.2.1", "prefix-length": 24}]},
                    "ipv6": {"address": [{"ip": "2001:db8::1", "prefix-length": 64}]}}],
                    "dns-resolver": {"config": {"server": ["192.0.2.2"]}},
                    "routes": {"config": []}}),
                "",
            ),
            (json!("garbage"), "c is not nmstate: a mapping with interfaces, routes, ..."),
            (
                json!({"interface": []}),
                "c.interface is no key of nmstate, did you mean `interfaces`?",
            ),
            (json!({"interfaces": "garbage"}), "c.interfaces is not a list"),
            (
                json!({"interfaces": ["eth0"]}),
                "c.interfaces[0] is not a mapping with name, type, state, ...",
            ),
            (json!({"interfaces": [{"type": "bond"}]}), "c.interfaces[0].name is missing"),
            (
                json!({"interfaces": [{"name": "a", "ipv4": {"address": [{"ip": "192.0.2.300"}]}}]}),
                "c.interfaces[0].ipv4.address[0].ip: `192.0.2.300` is not an address of ipv4",
            ),
            (
                json!({"interfaces": [{"name": "a",
                    "ipv4": {"address": [{"ip": "192.0.2.3", "prefix-length": 33}]}}]}),
                "c.interfaces[0].ipv4.address[0].prefix-length: `33` is not up to 32",
            ),
        ] {
            assert_eq!(find_nmstate_problems("c", &config).join("; "), expected, "{config}");
        }
    }
}
