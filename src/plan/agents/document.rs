//! What the installer is told of a cluster's hosts.

use serde_json::Value;

use crate::model::agent::Agent;
use crate::model::ip_lease::IpLease;
use crate::model::nmstate_config::NMStateConfig;
use crate::render::agent_config::{Node, agent_config, network_of, of_leases};

/// agent-config.yaml: each host's network is its NMStateConfig's, or that of its leases.
pub fn document(
    cluster: &str,
    hosts: &[(Agent, Vec<IpLease>)],
    configs: &[NMStateConfig],
    ntp: &[String],
) -> Result<Value, String> {
    let mut nodes = Vec::new();
    for (agent, leases) in hosts {
        let leased = || of_leases(agent, leases).filter(|_| !leases.is_empty());
        let nmstate = network_of(agent, configs)?.or_else(leased);
        nodes.push(Node { agent, role: agent.role(), nmstate });
    }
    Ok(agent_config(cluster, &nodes, None, ntp))
}
