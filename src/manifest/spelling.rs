//! Replaces the spellings of metal3's documents, and of newer versions of its API, by those of today.

use serde_json::Value;

use crate::model::data_template::V1BETA2_FIELD_NAMES;
use crate::model::kinds::Kind;
use crate::yaml::{Node, Tree};

/// The groups of metal3's kinds of addresses and of data.
const METAL3_GROUPS: [&str; 2] = ["ipam.metal3.io/", "infrastructure.cluster.x-k8s.io/"];
/// Spellings in metal3's documents of fields that its API has in another one, with the first letter
/// in lower case: the name there, then the name here.
const METAL3_SPELLINGS: [(&str, &str); 3] = [
    ("ipAddressfromIPPool", "ipAddressFromIPPool"),
    ("iPAddressFromIPPool", "ipAddressFromIPPool"),
    ("dNSServers", "dnsServers"),
];

/// Whether published examples of a kind spell some of its fields in another way.
pub fn is_kind_of_metal3(kind: Kind) -> bool {
    METAL3_GROUPS.iter().any(|group| kind.api_version().starts_with(group))
}

/// Renames fields at any depth: metal3's documents begin some with a capital that its API has in
/// lower case, and write the prefix of a route as its netmask; newer versions of the API have other
/// names for some.
pub fn rename_metal3_fields(node: &mut Node) {
    match &mut node.tree {
        Tree::Scalar(_) => {}
        Tree::List(items) => items.iter_mut().for_each(rename_metal3_fields),
        Tree::Map(entries) => {
            for (key, value) in entries {
                if let Tree::Scalar(Value::String(name)) = &mut key.tree {
                    rename_metal3_field(name);
                    if name == "netmask" && matches!(value.tree, Tree::Scalar(Value::Number(_))) {
                        "prefix".clone_into(name);
                    }
                }
                // Its keys are the names of claims.
                if key.as_str() != Some("preAllocations") {
                    rename_metal3_fields(value);
                }
            }
        }
    }
}

/// Renames one field as `rename_metal3_fields` does.
fn rename_metal3_field(name: &mut String) {
    if let Some(first_letter) = name.get_mut(..1) {
        first_letter.make_ascii_lowercase();
    }
    for (name_there, name_here) in V1BETA2_FIELD_NAMES.into_iter().chain(METAL3_SPELLINGS) {
        if name == name_there {
            name_here.clone_into(name);
            return;
        }
    }
}
