//! Which networks are put into a discovery image, and as what files.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::infra_env::InfraEnv;
use crate::model::nmstate_config::{NMStateConfig, NMStateInterface};

use super::{file, one_line};

pub const UNIT: &str = include_str!("network.service");
const SCRIPT: &str = include_str!("network.sh");
const FOLDER: &str = "/etc/poolctl-agent/network";

/// Those that the `InfraEnv` selects, unless two of them are for the same host.
pub fn chosen<'a>(
    infra_env: &InfraEnv,
    configs: &'a [NMStateConfig],
) -> Result<Vec<&'a NMStateConfig>, String> {
    let selector = &infra_env.spec.nm_state_config_label_selector;
    if selector.is_empty() {
        return Ok(Vec::new());
    }
    let mut made = Vec::new();
    let mut owners: BTreeMap<String, &NMStateConfig> = BTreeMap::new();
    for one in configs.iter().filter(|one| selector.matches(&one.metadata.labels)) {
        for interface in &one.spec.interfaces {
            let mac = interface.mac_address.to_ascii_lowercase();
            let other = owners.get(&mac).filter(|other| !std::ptr::eq(**other, one));
            if let Some(other) = other {
                let (first, second) = (other.metadata.key(), one.metadata.key());
                return Err(format!(
                    "NMStateConfigs `{first}` and `{second}` have the same MAC address {mac}"
                ));
            }
            owners.insert(mac, one);
        }
        made.push(one);
    }
    Ok(made)
}

/// The script, and a pair of files for each.
pub fn files(chosen: &[&NMStateConfig]) -> Result<Vec<Value>, String> {
    let mut made = vec![file("/usr/local/bin/poolctl-agent-network", 0o755, SCRIPT)];
    for (number, one) in chosen.iter().enumerate() {
        let macs: Vec<String> = one.spec.interfaces.iter().map(line).collect::<Result<_, _>>()?;
        // JSON, which is YAML that the script can read.
        let config = if one.spec.config.is_null() { json!({}) } else { one.spec.config.clone() };
        made.push(file(&format!("{FOLDER}/{number:04}.yml"), 0o600, &config.to_string()));
        made.push(file(&format!("{FOLDER}/{number:04}.macs"), 0o600, &macs.concat()));
    }
    Ok(made)
}

fn line(interface: &NMStateInterface) -> Result<String, String> {
    let mac = one_line("a MAC address", &interface.mac_address)?.to_ascii_lowercase();
    let name = one_line("an interface's name", &interface.name)?;
    Ok(format!("{mac} {name}\n"))
}
