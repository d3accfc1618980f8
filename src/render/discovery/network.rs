//! Selects the network configurations of a discovery image, and renders them as files. The script
//! beside them finds the one that is for its host.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::infra_env::InfraEnv;
use crate::model::nmstate_config::{NMStateConfig, NMStateInterface};

use super::{check_one_line, render_file};

/// The service that runs the script when the machine boots.
pub const UNIT: &str = include_str!("network.service");
const SCRIPT: &str = include_str!("network.sh");
const FOLDER: &str = "/etc/poolctl-agent/network";

/// The configurations that the `InfraEnv` selects. Two for the same interface are an error.
pub fn select_configs<'a>(
    infra_env: &InfraEnv,
    configs: &'a [NMStateConfig],
) -> Result<Vec<&'a NMStateConfig>, String> {
    let selector = &infra_env.spec.nm_state_config_label_selector;
    if selector.is_empty() {
        return Ok(Vec::new());
    }
    let mut selected = Vec::new();
    let mut configs_by_mac: BTreeMap<String, &NMStateConfig> = BTreeMap::new();
    for config in configs {
        if !selector.matches(&config.metadata.labels) {
            continue;
        }
        for interface in &config.spec.interfaces {
            let mac = interface.mac_address.to_ascii_lowercase();
            // The same configuration may name one interface twice.
            if let Some(earlier) = configs_by_mac.get(&mac)
                && !std::ptr::eq(*earlier, config)
            {
                let first = earlier.metadata.key();
                let second = config.metadata.key();
                return Err(format!(
                    "NMStateConfigs `{first}` and `{second}` have the same MAC address {mac}"
                ));
            }
            configs_by_mac.insert(mac, config);
        }
        selected.push(config);
    }
    Ok(selected)
}

/// The script that applies a configuration, and two files for each configuration: what nmstate
/// reads, and the interfaces that it is for.
pub fn render_files(configs: &[&NMStateConfig]) -> Result<Vec<Value>, String> {
    let mut files = vec![render_file("/usr/local/bin/poolctl-agent-network", 0o755, SCRIPT)];
    for (index, config) in configs.iter().enumerate() {
        let mut lines = String::new();
        for interface in &config.spec.interfaces {
            lines.push_str(&render_interface_line(interface)?);
        }
        let nmstate = &config.spec.config;
        // JSON is YAML, and the script can read it.
        let json = if nmstate.is_null() { "{}".to_owned() } else { nmstate.to_string() };
        files.push(render_file(&format!("{FOLDER}/{index:04}.yml"), 0o600, &json));
        files.push(render_file(&format!("{FOLDER}/{index:04}.macs"), 0o600, &lines));
    }
    Ok(files)
}

/// The MAC address of an interface, and what the configuration calls it.
fn render_interface_line(interface: &NMStateInterface) -> Result<String, String> {
    let mac = check_one_line("a MAC address", &interface.mac_address)?.to_ascii_lowercase();
    let name = check_one_line("an interface's name", &interface.name)?;
    Ok(format!("{mac} {name}\n"))
}
