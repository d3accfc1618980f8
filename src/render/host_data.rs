//! What a data template says to one machine: metaData for cloud-init, networkData as OpenStack has
//! it, and the same networks for nmstate.

mod network;
mod nmstate;

use std::collections::BTreeMap;

use crate::model::data_template::metadata::{FromHostInterface, FromPool};
use crate::model::data_template::{Metal3DataTemplate, Source};
use crate::model::host::BareMetalHost;

pub use self::network::network_data;
pub use self::nmstate::nmstate;

const PROVIDER_ID: &str = "providerid";

/// What is known of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub template: &'a Metal3DataTemplate,
    /// The machine's number among those of the template.
    pub index: u64,
    pub host: &'a BareMetalHost,
    pub machine: &'a str,
    pub namespace: &'a str,
    /// What it has of each pool.
    pub leases: &'a BTreeMap<String, Leased>,
}

/// A lease, with what its pool says besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leased {
    pub address: String,
    pub prefix: u8,
    /// Empty if there is none.
    pub gateway: String,
    pub dns: Vec<String>,
}

/// Values by key; later lists win over earlier ones, and the provider's id over all. Nothing at
/// all without metaData in the template.
pub fn meta_data(facts: &Facts<'_>) -> Result<BTreeMap<String, String>, String> {
    let mut made = BTreeMap::new();
    let Some(data) = &facts.template.spec.meta_data else { return Ok(made) };
    for one in &data.from_host_interfaces {
        made.insert(one.key.clone(), facts.interface(one)?);
    }
    leased(facts, &data.ip_addresses_from_ip_pool, &mut made, |one| one.address.clone())?;
    leased(facts, &data.prefixes_from_ip_pool, &mut made, |one| one.prefix.to_string())?;
    leased(facts, &data.gateways_from_ip_pool, &mut made, |one| one.gateway.clone())?;
    leased(facts, &data.dns_servers_from_ip_pool, &mut made, |one| one.dns.join(","))?;
    for one in &data.indexes {
        made.insert(one.key.clone(), one.text(facts.index));
    }
    for one in &data.namespaces {
        made.insert(one.key.clone(), facts.namespace.to_owned());
    }
    for one in &data.object_names {
        made.insert(one.key.clone(), facts.name_of(&one.object)?.to_owned());
    }
    for one in &data.from_labels {
        facts.name_of(&one.object)?;
        let label = facts.host.metadata.labels.get(&one.label);
        made.insert(one.key.clone(), label.cloned().unwrap_or_default());
    }
    for one in &data.from_annotations {
        let text = facts.annotation(&one.object, &one.annotation)?;
        made.insert(one.key.clone(), text.to_owned());
    }
    for one in &data.strings {
        made.insert(one.key.clone(), one.value.clone());
    }
    let id = [facts.namespace, &*facts.host.metadata.name, facts.machine].join("/");
    made.insert(PROVIDER_ID.into(), id);
    Ok(made)
}

fn leased(
    facts: &Facts<'_>,
    all: &[FromPool],
    made: &mut BTreeMap<String, String>,
    text: fn(&Leased) -> String,
) -> Result<(), String> {
    for one in all {
        let lease = facts.leases.get(&one.name).ok_or_else(|| absent(&one.name))?;
        made.insert(one.key.clone(), text(lease));
    }
    Ok(())
}

fn absent(pool: &str) -> String {
    format!("pool not found in cache: {pool}")
}

impl<'a> Facts<'a> {
    /// The name of an object that values are read from.
    fn name_of(&self, object: &str) -> Result<&'a str, String> {
        match object.to_ascii_lowercase().as_str() {
            "machine" | "metal3machine" => Ok(self.machine),
            "baremetalhost" => Ok(&self.host.metadata.name),
            _ => Err(format!("unknown object type: {object}")),
        }
    }

    /// Empty where there is none. A machine has those of its host.
    fn annotation(&self, object: &str, name: &str) -> Result<&'a str, String> {
        self.name_of(object)?;
        Ok(self.host.metadata.annotations.get(name).map_or("", String::as_str))
    }

    fn lease(&self, source: Source<'_>) -> Result<&'a Leased, String> {
        let name = match source {
            Source::Named { name, .. } => name,
            Source::Annotation(one) => {
                let name = self.annotation(&one.object, &one.annotation)?;
                if name.is_empty() {
                    let (note, object) = (&one.annotation, &one.object);
                    return Err(format!("annotation {note} not found or empty on {object}"));
                }
                name
            }
        };
        self.leases.get(name).ok_or_else(|| absent(name))
    }

    /// The MAC address of an interface, as the host was inspected.
    fn nic(&self, name: &str) -> Result<&'a str, String> {
        let nics = self.host.status.hardware.as_ref().map(|hardware| &hardware.nics);
        let nics = nics.filter(|nics| !nics.is_empty()).ok_or("NICs list not populated")?;
        let found = nics.iter().find(|nic| nic.name == name);
        found.map(|nic| nic.mac.as_str()).ok_or_else(|| format!("NIC name not found {name}"))
    }

    fn interface(&self, one: &FromHostInterface) -> Result<String, String> {
        if !one.from_boot_mac {
            return self.nic(&one.interface).map(str::to_owned);
        }
        let mac = &self.host.spec.boot_mac_address;
        if mac.is_empty() {
            return Err(format!(
                "metadata key \"{}\": BareMetalHost {} spec.bootMACAddress is empty",
                one.key,
                self.host.key()
            ));
        }
        Ok(mac.clone())
    }
}
