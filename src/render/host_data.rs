//! Renders what a data template says about one machine: metaData for cloud-init, networkData as
//! OpenStack has it, and the same networks for nmstate. Leases no addresses; they are given.

mod network;
mod nmstate;

use std::collections::BTreeMap;

use crate::model::data_template::metadata::FromHostInterface;
use crate::model::data_template::network::ObjectAnnotation;
use crate::model::data_template::{Metal3DataTemplate, PoolSource};
use crate::model::host::BareMetalHost;

pub use self::network::render_network_data;
pub use self::nmstate::render_nmstate;

const PROVIDER_ID: &str = "providerid";

/// What a template is rendered from: the machine, its host and its leases.
#[derive(Clone, Copy, Debug)]
pub struct TemplateContext<'a> {
    pub template: &'a Metal3DataTemplate,
    /// The machine's index among those that use the template.
    pub index: u64,
    pub host: &'a BareMetalHost,
    pub machine: &'a str,
    pub namespace: &'a str,
    /// The machine's leases by the names of their pools.
    pub leases: &'a BTreeMap<String, LeasedAddress>,
    /// The leases of networks that have an address of their own, by the ids of the networks.
    pub network_leases: &'a BTreeMap<String, LeasedAddress>,
}

/// A leased address, with the network of its pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeasedAddress {
    pub address: String,
    pub prefix: u8,
    /// Empty if there is none.
    pub gateway: String,
    pub dns: Vec<String>,
}

/// Renders the metaData of a machine: values by key. Later lists win over earlier ones, and the
/// provider's id over all. It is empty if the template has no metaData.
pub fn render_meta_data(facts: &TemplateContext<'_>) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    let Some(data) = &facts.template.spec.meta_data else { return Ok(values) };
    for entry in &data.from_host_interfaces {
        values.insert(entry.key.clone(), facts.mac_of_entry(entry)?);
    }
    for entry in &data.ip_addresses_from_ip_pool {
        values.insert(entry.key.clone(), facts.lease_of_pool(&entry.name)?.address.clone());
    }
    for entry in &data.prefixes_from_ip_pool {
        values.insert(entry.key.clone(), facts.lease_of_pool(&entry.name)?.prefix.to_string());
    }
    // A pool may have no gateway and no DNS servers. An empty one is no address of either.
    for entry in &data.gateways_from_ip_pool {
        let gateway = &facts.lease_of_pool(&entry.name)?.gateway;
        if !gateway.is_empty() {
            values.insert(entry.key.clone(), gateway.clone());
        }
    }
    for entry in &data.dns_servers_from_ip_pool {
        let servers = &facts.lease_of_pool(&entry.name)?.dns;
        if !servers.is_empty() {
            values.insert(entry.key.clone(), servers.join(","));
        }
    }
    for entry in &data.indexes {
        values.insert(entry.key.clone(), entry.value_for(facts.index));
    }
    for entry in &data.namespaces {
        values.insert(entry.key.clone(), facts.namespace.to_owned());
    }
    for entry in &data.object_names {
        values.insert(entry.key.clone(), facts.object_name(&entry.object)?.to_owned());
    }
    for entry in &data.from_labels {
        facts.object_name(&entry.object)?;
        let label = facts.host.metadata.labels.get(&entry.label);
        values.insert(entry.key.clone(), label.cloned().unwrap_or_default());
    }
    for entry in &data.from_annotations {
        let annotation = facts.annotation(&entry.object, &entry.annotation)?;
        values.insert(entry.key.clone(), annotation.to_owned());
    }
    for entry in &data.strings {
        values.insert(entry.key.clone(), entry.value.clone());
    }
    let provider_id = [facts.namespace, &*facts.host.metadata.name, facts.machine].join("/");
    values.insert(PROVIDER_ID.into(), provider_id);
    Ok(values)
}

impl<'a> TemplateContext<'a> {
    /// The name of an object that values are read from, by its type.
    fn object_name(&self, object: &str) -> Result<&'a str, String> {
        match object.to_ascii_lowercase().as_str() {
            "machine" | "metal3machine" => Ok(self.machine),
            "baremetalhost" => Ok(&self.host.metadata.name),
            _ => Err(format!("unknown object type: {object}")),
        }
    }

    /// An annotation of an object, empty if it has none. Machines have the annotations of their
    /// hosts.
    fn annotation(&self, object: &str, name: &str) -> Result<&'a str, String> {
        self.object_name(object)?;
        Ok(self.host.metadata.annotations.get(name).map_or("", String::as_str))
    }

    /// The address that was leased for the host from a pool, which a template names or an
    /// annotation of an object does.
    fn lease(&self, source: PoolSource<'_>) -> Result<&'a LeasedAddress, String> {
        let name = match source {
            PoolSource::Named { name, .. } => name,
            PoolSource::Annotation(ObjectAnnotation { object, annotation }) => {
                let name = self.annotation(object, annotation)?;
                if name.is_empty() {
                    return Err(format!("annotation {annotation} not found or empty on {object}"));
                }
                name
            }
        };
        self.lease_of_pool(name)
    }

    fn lease_of_pool(&self, name: &str) -> Result<&'a LeasedAddress, String> {
        self.leases.get(name).ok_or_else(|| format!("pool not found in cache: {name}"))
    }

    /// The MAC address of an interface, as it was found by inspecting the host.
    fn mac_of_interface(&self, name: &str) -> Result<&'a str, String> {
        let hardware = self.host.status.hardware.as_ref();
        let nics = hardware.map(|hardware| hardware.nics.as_slice()).unwrap_or_default();
        if nics.is_empty() {
            return Err("NICs list not populated".into());
        }
        let nic = nics.iter().find(|nic| nic.name == name);
        nic.map(|nic| nic.mac.as_str()).ok_or_else(|| format!("NIC name not found {name}"))
    }

    /// The MAC address for an entry of the metadata: of the interface that it names, or the one
    /// that the host boots from.
    fn mac_of_entry(&self, entry: &FromHostInterface) -> Result<String, String> {
        if !entry.from_boot_mac {
            return self.mac_of_interface(&entry.interface).map(str::to_owned);
        }
        let mac = &self.host.spec.boot_mac_address;
        if mac.is_empty() {
            return Err(format!(
                "metadata key \"{}\": BareMetalHost {} spec.bootMACAddress is empty",
                entry.key,
                self.host.key()
            ));
        }
        Ok(mac.clone())
    }
}
