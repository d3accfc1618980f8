//! Hosts whose disks nobody wipes: those that were there before poolctl could do that by itself,
//! until an annotation says how; and those that came back when nothing could wipe them.

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
pub struct UnwipedHosts {
    /// Hosts that will not be wiped when they come back.
    known_before: BTreeMap<Key, usize>,
    /// Hosts that came back with what their last cluster has left on their disks, because nothing
    /// could wipe them. The next cluster gets them so.
    came_back: BTreeMap<Key, usize>,
}

impl UnwipedHosts {
    /// Counts a host if the next cluster gets it with old data on its disks, and nobody has decided
    /// so.
    pub fn count(&mut self, pools: &[ClusterPool], host: &BareMetalHost) {
        let namespace = &host.metadata.namespace;
        let has_come_back = host.status.wipe.is_none() && host.old_system().is_some();
        let hosts_by_infra_env = if host.status.known_before_wiping {
            &mut self.known_before
        } else if has_come_back {
            &mut self.came_back
        } else {
            return;
        };
        if !host.metadata.has_annotation(WIPE)
            && is_picked_by_silent_pool(pools, namespace)
            && let Some(name) = host.metadata.labels.get(INFRA_ENV_LABEL)
        {
            *hosts_by_infra_env.entry(Key::new(&**namespace, &**name)).or_default() += 1;
        }
    }

    /// A sentence for each InfraEnv.
    pub fn explain(self, context: &Context, store: &Store) -> Result<Vec<Chain>, Refusal> {
        let mut warnings = Vec::new();
        for (key, count) in self.known_before {
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
        for (key, count) in self.came_back {
            let hosts_of_infra_env = count_of(count, "host");
            let verb = if count == 1 { "is" } else { "are" };
            let name = &key.name;
            let option = context.namespace_option(&key.namespace);
            warnings.push(Chain::new(
                format!(
                    "{hosts_of_infra_env} of InfraEnv `{name}` {verb} free and not wiped: the disks \
                     have what the last cluster has left"
                ),
                format!(
                    "poolctl infraenv iso {name}{option} makes the image that wipes them; \
                     poolctl annotate host NAME {WIPE}=none{option} lets one be used as it is"
                ),
            ));
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
