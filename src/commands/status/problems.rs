//! What is wrong with what, each with what helps, in the words of `why`. It reads what the
//! explanations need, and only of what is in trouble.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::causes::{
    self, Chain, WaitingAgents, find_ip_pool_trouble, find_pool_troubles, may_be_in_trouble,
};
use crate::model::annotations::HOLD;
use crate::model::cluster::Cluster;
use crate::model::host::BareMetalHost;
use crate::model::infra_env::InfraEnv;
use crate::model::ip_pool::IpPool;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::time::Time;
use crate::plan;
use crate::store::{Filter, Store};

use crate::commands::status::unwiped::UnwipedHosts;
use crate::commands::why::evidence::{gather_evidence, gather_present, turn_to_cluster};
use crate::commands::{Context, count_of};

/// So many clusters of a pool, clusters without a pool, and hosts are explained; the rest is counted.
const MOST_EXPLAINED: usize = 3;

/// Clusters that are in trouble, by the pool that they are of.
pub struct TroubledClusters(BTreeMap<Option<Key>, Vec<Cluster>>);

impl TroubledClusters {
    /// Looks at all clusters. Those of `clusters_with_lost_hosts` wait for hosts that do not come.
    pub fn read(
        store: &Store,
        filter: &Filter,
        pools: &[ClusterPool],
        clusters_with_lost_hosts: &HashSet<String>,
        now: Time,
    ) -> Result<Self, Refusal> {
        let pools_by_key: HashMap<Key, &ClusterPool> =
            pools.iter().map(|pool| (pool.key(), pool)).collect();
        let mut troubled: BTreeMap<Option<Key>, Vec<Cluster>> = BTreeMap::new();
        store.visit_clusters(&mut |cluster| {
            let lacks_hosts = clusters_with_lost_hosts.contains(&cluster.name)
                && plan::waits_for_hosts_until(&cluster).is_some();
            let pool = cluster.pool.as_deref().cloned();
            let own_pool = pool.as_ref().and_then(|key| pools_by_key.get(key).copied());
            let namespace = pool.as_ref().map_or(&cluster.namespace, |pool| &pool.namespace);
            let is_wanted = filter.namespace.as_ref().is_none_or(|wanted| wanted == namespace);
            let is_late = causes::is_late(own_pool, &cluster, now);
            if is_wanted && (lacks_hosts || is_late || causes::is_in_trouble(&cluster)) {
                troubled.entry(pool).or_default().push(cluster);
            }
            Ok(())
        })?;
        Ok(Self(troubled))
    }

    /// What is wrong with a pool and with its clusters, the strongest cause first.
    pub fn explain_pool(
        &mut self,
        context: &Context,
        store: &Store,
        pool: &ClusterPool,
    ) -> Result<Vec<Chain>, Refusal> {
        let clusters = self.0.remove(&Some(pool.key())).unwrap_or_default();
        if clusters.is_empty() && !may_be_in_trouble(pool) {
            return Ok(Vec::new());
        }
        let object = Object::ClusterPool(Box::new(pool.clone()));
        let mut evidence = gather_present(context, store, &object)?;
        let mut troubles = find_pool_troubles(&evidence, pool);
        let option = context.namespace_option(&pool.metadata.namespace);
        let (explained, rest) = clusters.split_at(clusters.len().min(MOST_EXPLAINED));
        for cluster in explained {
            turn_to_cluster(context, store, cluster, &mut evidence)?;
            let object = Object::ClusterDeployment(Box::new(cluster.clone()));
            push_news(&mut troubles, causes::explain(&evidence, &object));
        }
        troubles.extend(count_rest(rest.len(), "cluster", &option));
        Ok(troubles)
    }

    /// What is wrong with clusters without a pool, and with those whose pool is gone.
    pub fn explain_rest(self, context: &Context, store: &Store) -> Result<Vec<Chain>, Refusal> {
        let clusters: Vec<Cluster> = self.0.into_values().flatten().collect();
        let mut troubles = Vec::new();
        let (explained, rest) = clusters.split_at(clusters.len().min(MOST_EXPLAINED));
        for cluster in explained {
            let object = Object::ClusterDeployment(Box::new(cluster.clone()));
            let evidence = gather_evidence(context, store, &object)?;
            troubles.push(causes::explain(&evidence, &object));
        }
        troubles.extend(count_rest(rest.len(), "cluster", " -A"));
        Ok(troubles)
    }
}

/// Adds a cause, unless it is among the others, be it after another one.
fn push_news(troubles: &mut Vec<Chain>, trouble: Chain) {
    let is_said = trouble
        .causes
        .first()
        .is_some_and(|cause| troubles.iter().any(|listed| listed.causes.contains(cause)));
    if !is_said {
        troubles.push(trouble);
    }
}

/// Says how many more are in trouble than are explained.
fn count_rest(count: usize, noun: &str, namespace_option: &str) -> Option<Chain> {
    if count == 0 {
        return None;
    }
    let verb = if count == 1 { "is" } else { "are" };
    let cause = format!("{} {verb} in trouble", count_of(count, &format!("more {noun}")));
    Some(Chain::new(cause, format!("poolctl get {noun}{namespace_option}")))
}

/// What is shown of agents.
#[derive(Default)]
pub struct AgentSummary {
    pub count: usize,
    pub clusters_with_lost_hosts: HashSet<String>,
    waiting: WaitingAgents,
}

impl AgentSummary {
    /// Reads the agents that match the filter. Fails if the state cannot be read.
    pub fn read(store: &Store, filter: &Filter) -> Result<Self, Refusal> {
        let mut summary = Self::default();
        for agent in store.list_agent_facts(filter)? {
            summary.count += 1;
            summary.waiting.add(&agent);
            if agent.state.has_become_unfit() {
                summary.clusters_with_lost_hosts.extend(agent.bound);
            }
        }
        Ok(summary)
    }

    /// What agents wait for that a person can do.
    pub fn explain(self, context: &Context, store: &Store) -> Result<Vec<Chain>, Refusal> {
        let mut waits = Vec::new();
        for group in self.waiting.into_groups() {
            let infra_env = match group.infra_env_key() {
                Some(key) => store.find::<InfraEnv>(key)?,
                None => None,
            };
            let option = context.namespace_option(&group.namespace);
            waits.push(group.explain(infra_env.as_ref(), &option));
        }
        Ok(waits)
    }
}

/// What is shown of hosts.
#[derive(Default)]
pub struct HostSummary {
    pub count: usize,
    troubled: Vec<BareMetalHost>,
    unwiped: UnwipedHosts,
}

impl HostSummary {
    /// Reads the hosts that match the filter, one by one. `pools` are asked which hosts they pick.
    /// Fails if the state cannot be read.
    pub fn read(store: &Store, filter: &Filter, pools: &[ClusterPool]) -> Result<Self, Refusal> {
        let mut summary = Self::default();
        store.visit_resources::<BareMetalHost>(filter.namespace.as_deref(), &mut |host| {
            summary.count += 1;
            summary.unwiped.count(pools, &host);
            if !host.status.error_message.is_empty() || host.metadata.has_annotation(HOLD) {
                summary.troubled.push(host);
            }
            Ok(())
        })?;
        Ok(summary)
    }

    /// What is wrong with hosts, or why they are held.
    pub fn explain(self, context: &Context, store: &Store) -> Result<Vec<Chain>, Refusal> {
        let mut troubles = Vec::new();
        let (explained, rest) = self.troubled.split_at(self.troubled.len().min(MOST_EXPLAINED));
        for host in explained {
            let object = Object::BareMetalHost(Box::new(host.clone()));
            let evidence = gather_evidence(context, store, &object)?;
            troubles.push(causes::explain(&evidence, &object));
        }
        troubles.extend(count_rest(rest.len(), "host", " -A"));
        troubles.extend(self.unwiped.explain(context, store)?);
        Ok(troubles)
    }
}

/// What is wrong with an IPPool, if anything is.
pub fn explain_ip_pool(
    context: &Context,
    store: &Store,
    ip_pool: &IpPool,
) -> Result<Option<Chain>, Refusal> {
    let key = ip_pool.metadata.key();
    let waiting_claims = store.count_waiting_ip_claims(ip_pool)?;
    let option = context.namespace_option(&key.namespace);
    Ok(find_ip_pool_trouble(ip_pool, waiting_claims, &option))
}
