//! Which addresses a host gets of a template, and what their claims are called: after its index, as
//! metal3 calls them, or after the host, which then keeps its addresses when it is rebuilt. Claims
//! no address.

use std::collections::BTreeMap;

use crate::model::annotations::CLAIM_NAMES;
use crate::model::data_template::Metal3DataTemplate;
use crate::model::meta::Key;

/// An address that a host gets.
pub struct WantedAddress {
    pub pool: String,
    /// The id of the network that it is for. None for the one address that everything else of the
    /// template shares.
    pub network: Option<String>,
}

/// The addresses that a template wants for a host with these annotations.
pub fn wanted_addresses(
    template: &Metal3DataTemplate,
    annotations: &BTreeMap<String, String>,
) -> Vec<WantedAddress> {
    let mut wanted = Vec::new();
    for pool in template.pool_names(annotations) {
        wanted.push(WantedAddress { pool: pool.to_owned(), network: None });
    }
    for (pool, network) in template.further_networks(annotations) {
        wanted.push(WantedAddress { pool: pool.to_owned(), network: Some(network.to_owned()) });
    }
    wanted
}

/// How the claims of one host are called.
pub struct ClaimNames<'a> {
    pub template: &'a Metal3DataTemplate,
    pub host_name: &'a str,
    pub wanted: &'a [WantedAddress],
}

impl ClaimNames<'_> {
    /// Whether they are called after the host, whatever its index is.
    pub fn are_after_host(&self) -> bool {
        self.template.metadata.annotation(CLAIM_NAMES) == Some("host")
    }

    /// The claims of a host with this index, one for each wanted address.
    pub fn keys(&self, index: u64) -> Vec<Key> {
        let metadata = &self.template.metadata;
        let holder = if self.are_after_host() {
            self.host_name.to_owned()
        } else {
            Metal3DataTemplate::data_name(&metadata.name, index)
        };
        let mut keys = Vec::new();
        for WantedAddress { pool, network } in self.wanted {
            let name = match network {
                Some(network) => format!("{holder}-{pool}-{network}"),
                None => format!("{holder}-{pool}"),
            };
            keys.push(Key::new(&*metadata.namespace, name));
        }
        keys
    }
}
