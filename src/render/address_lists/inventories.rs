//! The inventory of Ansible: hosts in groups of their pools and clusters.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::yaml;

use super::{AddressUse, ListOptions, ListProblem, ListedAddress};

/// Every machine is in the groups of its pools and, if it has one, in that of its cluster. Addresses
/// that move between machines are left out: nobody logs in to them.
pub fn ansible_inventory(
    addresses: &[ListedAddress],
    options: &ListOptions<'_>,
) -> Result<String, ListProblem> {
    let mut groups: Map<String, Value> = Map::new();
    for machine in find_machines(addresses, options) {
        // Ansible merges what the groups say of a machine, so all of them say the same.
        let variables = machine.variables();
        for listed in &machine.addresses {
            let pool = group_name("ippool", &listed.pool);
            let cluster = listed.cluster.as_ref().map(|cluster| group_name("cluster", cluster));
            for group in [Some(pool), cluster].into_iter().flatten() {
                let group_document = groups.entry(group).or_insert_with(|| json!({"hosts": {}}));
                group_document["hosts"][machine.name.as_str()] = variables.clone();
            }
        }
    }
    let inventory = json!({"all": {"children": groups}});
    yaml::to_text(&inventory).map_err(|error| ListProblem::Yaml(error.to_string()))
}

/// A machine of the inventory: one address, or one of each family.
struct Machine<'a> {
    name: String,
    addresses: Vec<&'a ListedAddress>,
}

impl Machine<'_> {
    /// Whether an address of the same name in DNS is one of the same machine.
    fn takes(&self, listed: &ListedAddress) -> bool {
        self.addresses.iter().all(|own| {
            own.address.is_v4() != listed.address.is_v4()
                && own.namespace == listed.namespace
                && own.cluster == listed.cluster
        })
    }

    /// What Ansible is told of the machine. The comments are not: Ansible would run templates that
    /// stand in them.
    fn variables(&self) -> Value {
        let Some(first) = self.addresses.first() else { return json!({}) };
        let mut variables = json!({"ansible_host": first.address, "poolctl_claim": first.claim});
        if let Some(mac) = self.addresses.iter().find_map(|listed| listed.mac.as_deref()) {
            variables["poolctl_mac"] = mac.into();
        }
        if self.addresses.len() > 1 {
            let addresses = self.addresses.iter().map(|listed| listed.address.to_string());
            variables["poolctl_addresses"] = addresses.collect::<Vec<_>>().into();
        }
        variables
    }
}

/// The machines that have the addresses. One that has the name of another machine is called after
/// its claim.
fn find_machines<'a>(
    addresses: &'a [ListedAddress],
    options: &ListOptions<'_>,
) -> Vec<Machine<'a>> {
    let mut machines: Vec<Machine<'a>> = Vec::new();
    let mut machines_by_dns_name: HashMap<String, usize> = HashMap::new();
    let mut used_names: HashSet<String> = HashSet::new();
    for listed in addresses.iter().filter(|listed| listed.address_use == AddressUse::Host) {
        let first_name = listed.plain_names(options).into_iter().next();
        let dns_name = first_name.unwrap_or_else(|| listed.claim.clone());
        let position = machines_by_dns_name.get(&dns_name).copied();
        let namesake = position.and_then(|position| machines.get_mut(position));
        if let Some(machine) = namesake
            && machine.takes(listed)
        {
            machine.addresses.push(listed);
            continue;
        }
        let mut name = dns_name.clone();
        if used_names.contains(&name) {
            name.clone_from(&listed.claim);
        }
        if used_names.contains(&name) {
            name = format!("{}-{}", listed.claim, listed.address.to_dashed_text());
        }
        used_names.insert(name.clone());
        machines_by_dns_name.entry(dns_name).or_insert(machines.len());
        machines.push(Machine { name, addresses: vec![listed] });
    }
    machines
}

/// A group is called like a variable of Python, or Ansible warns of it.
fn group_name(kind: &str, name: &str) -> String {
    let mut group = format!("{kind}_");
    for letter in name.chars() {
        group.push(if letter.is_ascii_alphanumeric() { letter } else { '_' });
    }
    group
}
