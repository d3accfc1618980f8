//! Validates what a bound host reports of the networks of its cluster: names in DNS, the size of
//! packets, and through which interface it reaches a disk of iSCSI. Never asks anybody.

use crate::model::address::Addr;
use crate::model::agent::needs::HostNeeds;
use crate::model::agent::{Agent, Validation};

use super::{ClusterContext, PENDING, ValidationContext, WARNINGS, fail_if, validation};

/// A name that a host of a cluster has to find in DNS.
pub struct NeededDomain {
    /// The validation that fails if it is not found.
    id: &'static str,
    /// What it is the name of.
    purpose: &'static str,
    pub name: String,
}

/// The names that hosts of a cluster have to find in DNS. Those of its own API and ingress are left
/// out where the cluster answers for them itself; any name of the wildcard of its ingress will do.
pub fn needed_domains(needs: &HostNeeds) -> Vec<NeededDomain> {
    let mut domains = Vec::new();
    if needs.user_managed && !needs.is_single_node() && !needs.domain.is_empty() {
        for (id, purpose, prefix) in [
            ("api-domain-name-resolved-correctly", "API load balancer", "api"),
            ("api-int-domain-name-resolved-correctly", "internal API load balancer", "api-int"),
            (
                "apps-domain-name-resolved-correctly",
                "application ingress",
                "console-openshift-console.apps",
            ),
        ] {
            let name = format!("{prefix}.{}", needs.domain);
            domains.push(NeededDomain { id, purpose, name });
        }
    }
    if !needs.release_host.is_empty() {
        domains.push(NeededDomain {
            id: "release-domain-name-resolved-correctly",
            purpose: "release image host",
            name: needs.release_host.clone(),
        });
    }
    domains
}

/// The validations of these reports. What was not reported is left out where it keeps nothing from
/// being installed.
pub(super) fn validate(
    context: &ValidationContext<'_>,
    cluster: &ClusterContext<'_>,
) -> Vec<Validation> {
    let mut validations = Vec::new();
    for domain in needed_domains(cluster.needs) {
        validations.extend(validate_domain(context.agent, &domain));
    }
    if !context.agent.status.peers.is_empty() {
        let problem = find_narrow_path(context.agent, cluster.other_agents);
        validations.push(fail_if("mtu-valid", problem.as_deref(), "MTU is ok"));
    }
    if context.agent.usable_inventory().is_some() {
        let problem = find_iscsi_inside(context.agent, cluster.needs);
        let success = "No interface of an iSCSI disk is in the machine networks";
        validations.push(fail_if(
            "no-iscsi-nic-belongs-to-machine-cidr",
            problem.as_deref(),
            success,
        ));
    }
    validations
}

/// Whether DNS knows a name. A host that was not asked for it yet may be one of an older image.
fn validate_domain(agent: &Agent, domain: &NeededDomain) -> Option<Validation> {
    let NeededDomain { id, purpose, name } = domain;
    let reports = &agent.status.domains;
    let Some(report) = reports.iter().find(|report| report.name == *name) else {
        let why = format!("DNS validation for the {name} domain cannot be completed at the moment");
        // What is only a warning is said once there is something to say.
        return (!WARNINGS.contains(id)).then(|| validation(id, PENDING, &why));
    };
    let problem = report.addresses.is_empty().then(|| {
        format!(
            "Couldn't resolve domain name {name} on the host. To continue installation, create \
             the necessary DNS entries to resolve this domain name to your cluster's {purpose} IP \
             address"
        )
    });
    let success = format!("Domain name resolution for the {name} domain was successful");
    Some(fail_if(id, problem.as_deref(), &success))
}

/// Finds a host of the cluster that answers, but not to packets of full size.
fn find_narrow_path(agent: &Agent, other_agents: &[&Agent]) -> Option<String> {
    for peer in other_agents {
        let reports = &agent.status.peers;
        let report = reports.iter().find(|report| report.agent == peer.metadata.name);
        if let Some(address) = report.and_then(|report| report.mtu_failed.first()) {
            let name = peer.hostname();
            return Some(format!(
                "Host {name} does not answer at {address} to packets as large as the MTU of the \
                 interface allows; set one MTU for all hosts and switches"
            ));
        }
    }
    None
}

/// Finds the installation disk if it is reached by iSCSI through a network of the machines: the
/// installation configures that anew, and would lose the disk.
fn find_iscsi_inside(agent: &Agent, needs: &HostNeeds) -> Option<String> {
    let inventory = agent.inventory()?;
    let disk_id = &agent.status.installation_disk_id;
    let disk = inventory.disks.iter().find(|disk| disk.id == *disk_id)?;
    let written = &disk.iscsi.as_ref()?.host_ip_address;
    let address = written.parse::<Addr>().ok()?;
    let is_inside = needs.machine_networks.iter().any(|network| network.contains(address));
    is_inside.then(|| {
        format!(
            "Network interface of {address}, which reaches the iSCSI disk {}, belongs to a machine \
             network; use an interface in another network for it",
            disk.name
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::agent::{DomainReport, PeerReport};

    fn needs() -> HostNeeds {
        HostNeeds {
            user_managed: true,
            masters: Some(3),
            domain: "a.lab.test".into(),
            release_host: "quay.io".into(),
            machine_networks: vec!["192.0.2.0/24".parse().unwrap()],
            ..HostNeeds::default()
        }
    }

    #[test]
    fn names_are_needed_where_nobody_in_the_cluster_answers_for_them() {
        let names = |needs: &HostNeeds| -> Vec<String> {
            needed_domains(needs).into_iter().map(|domain| domain.name).collect()
        };
        assert_eq!(
            names(&needs()),
            [
                "api.a.lab.test",
                "api-int.a.lab.test",
                "console-openshift-console.apps.a.lab.test",
                "quay.io"
            ]
        );
        assert_eq!(names(&HostNeeds { user_managed: false, ..needs() }), ["quay.io"]);
        assert_eq!(names(&HostNeeds { masters: Some(1), ..needs() }), ["quay.io"]);
    }

    #[test]
    fn a_name_is_pending_until_it_is_reported() {
        let domain = &needed_domains(&needs())[0];
        let mut agent = Agent::default();
        assert_eq!(validate_domain(&agent, domain).unwrap().status, "pending");
        for (addresses, expected) in [(vec![], "failure"), (vec!["192.0.2.1".into()], "success")] {
            agent.status.domains = vec![DomainReport { name: "api.a.lab.test".into(), addresses }];
            assert_eq!(validate_domain(&agent, domain).unwrap().status, expected);
        }
        assert!(validate_domain(&Agent::default(), &needed_domains(&needs())[3]).is_none());
    }

    #[test]
    fn a_narrow_path_and_a_disk_in_the_machine_network_are_found() {
        let mut peer = Agent::default();
        peer.metadata.name = "b".into();
        let mut agent = Agent::default();
        agent.status.peers = vec![PeerReport { agent: "b".into(), ..PeerReport::default() }];
        assert_eq!(find_narrow_path(&agent, &[&peer]), None);
        agent.status.peers[0].mtu_failed = vec!["192.0.2.9".into()];
        assert!(find_narrow_path(&agent, &[&peer]).unwrap().contains("at 192.0.2.9"));
        for (address, is_found) in [("192.0.2.7", true), ("198.51.100.7", false)] {
            let inventory = json!({"disks": [{"id": "d", "name": "sda", "driveType": "iSCSI",
                "iscsi": {"hostIpAddress": address}}]});
            agent.set_inventory(serde_json::from_value(inventory).unwrap());
            agent.status.installation_disk_id = "d".into();
            assert_eq!(find_iscsi_inside(&agent, &needs()).is_some(), is_found, "{address}");
        }
    }
}
