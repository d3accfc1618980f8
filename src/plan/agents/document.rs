//! The documents that tell `openshift-install` and `oc` about a cluster's hosts. It writes
//! nothing to disk.

use serde_json::{Value, json};

use crate::model::agent::Agent;
use crate::model::ip_lease::IpLease;
use crate::model::nmstate_config::NMStateConfig;
use crate::render::agent_config::{
    Node, agent_config, nmstate_for_agent, nmstate_of_leases, nodes_config,
};

/// agent-config.yaml of a cluster. The network of each host is that of its `NMStateConfig`, or else
/// that of its leases. `ntp` is the list of servers of time.
pub fn agent_config_document(
    cluster: &str,
    hosts: &[(Agent, Vec<IpLease>)],
    configs: &[NMStateConfig],
    ntp: &[String],
) -> Result<Value, String> {
    Ok(agent_config(cluster, &make_nodes(hosts, configs)?, None, ntp))
}

/// nodes-config.yaml of hosts that join a cluster, and a list of what each of them is known by: its
/// `name` and its `addresses`.
pub fn nodes_config_document(
    hosts: &[(Agent, Vec<IpLease>)],
    configs: &[NMStateConfig],
) -> Result<(Value, Value), String> {
    let nodes = make_nodes(hosts, configs)?;
    let identities: Vec<Value> = nodes.iter().map(describe_identity).collect();
    Ok((nodes_config(&nodes), identities.into()))
}

fn describe_identity(node: &Node<'_>) -> Value {
    let addresses: Vec<String> = node.addresses().iter().map(ToString::to_string).collect();
    json!({"name": node.agent.hostname(), "addresses": addresses})
}

/// Puts beside each host its role and its network. The error is for people: NMStateConfigs that
/// contradict each other or do not fit the host.
fn make_nodes<'a>(
    hosts: &'a [(Agent, Vec<IpLease>)],
    configs: &[NMStateConfig],
) -> Result<Vec<Node<'a>>, String> {
    let mut nodes = Vec::new();
    for (agent, leases) in hosts {
        let mut nmstate = nmstate_for_agent(agent, configs)?;
        if nmstate.is_none() && !leases.is_empty() {
            nmstate = nmstate_of_leases(agent, leases);
        }
        nodes.push(Node { agent, role: agent.role(), nmstate });
    }
    Ok(nodes)
}
