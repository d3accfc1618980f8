//! Hosts that were there before poolctl could wipe disks by itself: they are not wiped until an
//! annotation says how, and that is said until one does.

use std::collections::BTreeMap;

use crate::causes::Chain;
use crate::commands::{Context, count_of};
use crate::model::agent::INFRA_ENV_LABEL;
use crate::model::annotations::WIPE;
use crate::model::host::BareMetalHost;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::store::Store;

/// How many such hosts each InfraEnv has in the namespaces where pools pick hosts.
#[derive(Default)]
pub struct UnwipedHosts(BTreeMap<Key, usize>);

impl UnwipedHosts {
    pub fn count(&mut self, pools: &[ClusterPool], host: &BareMetalHost) {
        let namespace = &host.metadata.namespace;
        let is_asked = host.metadata.has_annotation(WIPE);
        if host.status.known_before_wiping
            && !is_asked
            && is_picked_by_silent_pool(pools, namespace)
            && let Some(name) = host.metadata.labels.get(INFRA_ENV_LABEL)
        {
            *self.0.entry(Key::new(&**namespace, &**name)).or_default() += 1;
        }
    }

    /// A sentence for each InfraEnv.
    pub fn explain(self, context: &Context, store: &Store) -> Result<Vec<Chain>, Refusal> {
        let mut warnings = Vec::new();
        for (key, count) in self.0 {
            let infra_env = store.find::<InfraEnv>(&key)?;
            if infra_env.is_some_and(|infra_env| !infra_env.metadata.has_annotation(WIPE)) {
                let hosts_of_infra_env = count_of(count, "host");
                let name = &key.name;
                let option = context.namespace_option(&key.namespace);
                warnings.push(Chain::new(
                    format!(
                        "{hosts_of_infra_env} of InfraEnv `{name}` will not be wiped on return"
                    ),
                    format!("poolctl annotate infraenv {name} {WIPE}=quick{option}"),
                ));
            }
        }
        Ok(warnings)
    }
}

/// Whether a pool may pick hosts of a namespace and does not say itself how they are wiped.
fn is_picked_by_silent_pool(pools: &[ClusterPool], namespace: &str) -> bool {
    pools.iter().any(|pool| {
        pool.metadata.namespace == namespace
            && pool.picks_hosts()
            && !pool.metadata.has_annotation(WIPE)
    })
}
