//! The addresses of API and ingress that customizations give their clusters. No two clusters of a
//! pool may have the same, whatever their customizations say. It leases nothing.

use std::collections::BTreeMap;

use crate::model::address::Addr;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::render::cluster_dns::applied_addresses;

/// The addresses that customizations in the inventory of a pool have given to clusters, and the names
/// of these clusters. Customizations that the pool does not know are beyond its scope.
pub fn addresses_in_use(state: &State, pool: &ClusterPool) -> BTreeMap<Addr, String> {
    let listed = pool.spec.inventory.iter().flatten().map(|entry| entry.name.as_str());
    let unlisted = pool.status.inventory.keys().map(String::as_str);
    let mut clusters = BTreeMap::new();
    for name in listed.chain(unlisted) {
        let key = Key::new(&*pool.metadata.namespace, name);
        let Some(customization) = state.customizations.by_key(&key) else { continue };
        let Some(holder) = &customization.holder else { continue };
        for address in applied_addresses(customization) {
            clusters.insert(address, holder.cluster.clone());
        }
    }
    clusters
}
