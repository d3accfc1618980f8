//! What the installer is told of a cluster's hosts.

use serde_json::{Value, json};

use crate::model::agent::Agent;
use crate::model::ip_lease::IpLease;
use crate::model::nmstate_config::NMStateConfig;
use crate::render::agent_config::{Node, agent_config, network_of, nodes_config, of_leases};

/// agent-config.yaml: each host's network is its NMStateConfig's, or that of its leases.
pub fn document(
    cluster: &str,
    hosts: &[(Agent, Vec<IpLease>)],
    configs: &[NMStateConfig],
    ntp: &[String],
) -> Result<Value, String> {
    Ok(agent_config(cluster, &nodes(hosts, configs)?, None, ntp))
}

/// nodes-config.yaml of hosts that join a cluster, and what each of them is known by: its name and
/// its addresses.
pub fn nodes_document(
    hosts: &[(Agent, Vec<IpLease>)],
    configs: &[NMStateConfig],
) -> Result<(Value, Value), String> {
    let nodes = nodes(hosts, configs)?;
    let known = |node: &Node<'_>| {
        let addresses: Vec<String> = node.addresses().iter().map(ToString::to_string).collect();
        json!({"name": node.agent.hostname(), "addresses": addresses})
    };
    let known: Vec<Value> = nodes.iter().map(known).collect();
    Ok((nodes_config(&nodes), known.into()))
}

fn nodes<'a>(
    hosts: &'a [(Agent, Vec<IpLease>)],
    configs: &[NMStateConfig],
) -> Result<Vec<Node<'a>>, String> {
    let mut nodes = Vec::new();
    for (agent, leases) in hosts {
        let leased = || of_leases(agent, leases).filter(|_| !leases.is_empty());
        let nmstate = network_of(agent, configs)?.or_else(leased);
        nodes.push(Node { agent, role: agent.role(), nmstate });
    }
    Ok(nodes)
}
