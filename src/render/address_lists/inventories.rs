//! The inventory of Ansible: hosts in groups of their pools and clusters.

use serde_json::{Map, Value, json};

use crate::yaml;

use super::{AddressUse, ListOptions, ListProblem, ListedAddress};

/// Every machine is in the group of its pool and, if it has one, in that of its cluster. Addresses
/// that move between machines are left out: nobody logs in to them.
pub fn ansible_inventory(
    addresses: &[ListedAddress],
    options: &ListOptions<'_>,
) -> Result<String, ListProblem> {
    let mut groups: Map<String, Value> = Map::new();
    for listed in addresses.iter().filter(|listed| listed.address_use == AddressUse::Host) {
        let names = listed.plain_names(options);
        let host = names.first().unwrap_or(&listed.claim);
        let pool = group_name("ippool", &listed.pool);
        let cluster = listed.cluster.as_ref().map(|cluster| group_name("cluster", cluster));
        for group in [Some(pool), cluster].into_iter().flatten() {
            let group_document = groups.entry(group).or_insert_with(|| json!({"hosts": {}}));
            let variables = &mut group_document["hosts"][host.as_str()];
            // Of several addresses of a machine the first one is what Ansible connects to.
            if variables.is_null() {
                *variables = host_variables(listed);
            }
        }
    }
    let inventory = json!({"all": {"children": groups}});
    yaml::to_text(&inventory).map_err(|error| ListProblem::Yaml(error.to_string()))
}

fn host_variables(listed: &ListedAddress) -> Value {
    let mut variables = json!({"ansible_host": listed.address, "poolctl_claim": listed.claim});
    if let Some(mac) = &listed.mac {
        variables["poolctl_mac"] = mac.as_str().into();
    }
    if !listed.comment.is_empty() {
        variables["poolctl_comment"] = listed.comment.as_str().into();
    }
    variables
}

/// A group is called like a variable of Python, or Ansible warns of it.
fn group_name(kind: &str, name: &str) -> String {
    let mut group = format!("{kind}_");
    for letter in name.chars() {
        group.push(if letter.is_ascii_alphanumeric() { letter } else { '_' });
    }
    group
}
