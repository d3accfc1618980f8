//! The facts of an Agent: what lists, summaries and searches read of it. All but the time of its last
//! contact follow from its document. They are columns beside it, so that thousands of Agents are
//! listed without decoding them.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;

use crate::model::facts::facts;
use crate::model::meta::{Key, Meta};
use crate::model::time::Time;

use super::inventory::{Cpu, Disk, Inventory, Memory};
use super::{
    Agent, AgentSpec, AgentStatus, ClusterReference, DebugInfo, HOST_LABEL, HostState,
    INFRA_ENV_LABEL, Role,
};

facts! {
    /// The facts of an Agent. Clusters are named without a namespace: no two have the same name.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct AgentFacts in "agent" {
        /// Order of insertion.
        pub id: i64,
        pub namespace: String,
        pub name: String,
        /// Its labels as a JSON object.
        pub labels: String,
        pub created: Option<Time>,
        /// When its deletion was asked for.
        pub deleting: Option<Time>,
        /// What its host is called.
        pub hostname: String,
        pub state: HostState,
        pub role: Role,
        pub approved: bool,
        /// The InfraEnv whose image its host was booted from.
        pub infra_env: Option<String>,
        /// The BareMetalHost that is the same machine.
        pub bare_metal_host: Option<String>,
        /// The id that its host reports, in lower case. It is unique in its InfraEnv.
        pub machine: Option<String>,
        /// The other Agent of the same machine: its name, or `NAMESPACE/NAME` if it is in another.
        pub duplicate_of: Option<String>,
        /// The name of the cluster that its spec asks for.
        pub wanted: Option<String>,
        /// The name of the cluster that it belongs to.
        pub bound: Option<String>,
        /// The name of the cluster that it has left and may still run in.
        pub left_cluster: Option<String>,
        /// When its host last reported.
        pub seen: Option<Time>,
        /// The number of CPU cores of its host.
        pub cores: Option<u64>,
        /// The memory of its host, in bytes.
        pub memory: Option<u64>,
        /// The size of the largest disk of its host, in bytes.
        pub disk: Option<u64>,
    }
    beside {
    }
}

/// Looks up Agents that have a cluster or ask for one, be they in scope or not. Read only.
pub trait HostBook {
    /// The Agents of a namespace that have a cluster or ask for one, in the order of insertion.
    fn agents_with_cluster(&self, namespace: &str) -> Vec<AgentFacts>;
}

impl AgentFacts {
    /// The facts of an Agent whose inventory can be decoded.
    pub fn of(agent: &Agent) -> Self {
        let Agent { metadata, spec, status, secret: _ } = agent;
        let inventory = agent.inventory();
        let disks = inventory.map(|inventory| inventory.disks.iter().map(|disk| disk.size_bytes));
        let left = status.deprovision_info.as_ref();
        Self {
            id: metadata.id,
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            labels: json!(metadata.labels).to_string(),
            created: metadata.creation_timestamp.map(Time::in_whole_seconds),
            deleting: metadata.deletion_timestamp.map(Time::in_whole_seconds),
            hostname: agent.hostname().to_owned(),
            state: agent.state(),
            role: agent.role(),
            approved: spec.approved,
            infra_env: metadata.labels.get(INFRA_ENV_LABEL).cloned(),
            bare_metal_host: metadata.labels.get(HOST_LABEL).cloned(),
            machine: non_empty(&status.host_id.to_ascii_lowercase()),
            duplicate_of: non_empty(&status.duplicate_of),
            wanted: spec.cluster_deployment_name.as_ref().map(|cluster| cluster.name.clone()),
            bound: status.bound_to.as_ref().map(|cluster| cluster.name.clone()),
            left_cluster: left.map(|left| left.cluster_name.clone()),
            seen: status.last_contact_time,
            cores: inventory.map(|inventory| inventory.cpu.count),
            memory: inventory.map(|inventory| inventory.memory.physical_bytes),
            disk: disks.and_then(Iterator::max),
        }
    }

    /// The namespace and the name of the Agent.
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }

    /// Its labels, by their names.
    pub fn labels(&self) -> BTreeMap<String, String> {
        serde_json::from_str(&self.labels).unwrap_or_default()
    }

    /// The InfraEnv whose image its host was booted from.
    pub fn infra_env_key(&self) -> Option<Key> {
        Some(Key::new(&*self.namespace, self.infra_env.as_deref()?))
    }

    /// An Agent that has these facts and nothing else, for a table. It must never be written.
    pub fn into_agent(self) -> Agent {
        let labels = self.labels();
        let namespace = &self.namespace;
        let bound_to =
            self.bound.map(|name| ClusterReference { name, namespace: namespace.clone() });
        let inventory = self.cores.map(|count| Inventory {
            cpu: Cpu { count, ..Cpu::default() },
            memory: Memory { physical_bytes: self.memory.unwrap_or_default(), ..Memory::default() },
            disks: self
                .disk
                .map(|size_bytes| Disk { size_bytes, ..Disk::default() })
                .into_iter()
                .collect(),
            ..Inventory::default()
        });
        Agent {
            metadata: Meta {
                id: self.id,
                namespace: self.namespace,
                name: self.name,
                labels,
                creation_timestamp: self.created,
                deletion_timestamp: self.deleting,
                ..Meta::default()
            },
            spec: AgentSpec { approved: self.approved, ..AgentSpec::default() },
            status: AgentStatus {
                role: self.role,
                node_name: self.hostname,
                debug_info: DebugInfo { state: self.state, ..DebugInfo::default() },
                bound_to,
                last_contact_time: self.seen,
                inventory: inventory.map(|inventory| Rc::new(inventory.into())),
                ..AgentStatus::default()
            },
            secret: None,
        }
    }
}

fn non_empty(text: &str) -> Option<String> {
    if text.is_empty() { None } else { Some(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_made_of_facts_has_the_facts_that_tables_show() {
        let facts = AgentFacts {
            id: 7,
            namespace: "lab".into(),
            name: "h-1".into(),
            labels: r#"{"rack":"7"}"#.into(),
            created: Some(Time(1_000_000)),
            deleting: Some(Time(2_000_000)),
            hostname: "node-1".into(),
            state: HostState::Installed,
            role: Role::Worker,
            approved: true,
            bound: Some("c1".into()),
            seen: Some(Time(3)),
            cores: Some(8),
            memory: Some(16 << 30),
            disk: Some(120_000_000_000),
            ..AgentFacts::default()
        };
        assert_eq!(AgentFacts::of(&facts.clone().into_agent()), facts);
        assert_eq!(AgentFacts::of(&AgentFacts::default().into_agent()).cores, None);
    }
}
