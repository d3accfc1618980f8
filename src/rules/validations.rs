//! Validates a host as assisted-service does: by itself while it is free, and as part of its
//! cluster once it is bound. Says which validations it meets, never what becomes of the host.

mod fit;
mod hardware;
mod ignored;
mod network;
mod network_reports;

use std::collections::BTreeMap;

use crate::model::agent::hostname::{DEFAULT_HOSTNAMES, is_valid_hostname};
use crate::model::agent::needs::{HostNeeds, NodeRole};
use crate::model::agent::{Agent, Role, Validation};
use crate::model::time::Time;

pub use fit::missing_requirements;
pub use hardware::{disk_problems, eligible_disks};
pub use ignored::{IGNORED, ignored_validations, problem as ignored_problem};
pub use network_reports::needed_domains;

/// The validations that no cluster may ignore.
const NEVER_IGNORED: [&str; 6] = [
    "connected",
    "has-inventory",
    "inventory-not-fully-truncated",
    "machine-cidr-defined",
    "hostname-unique",
    "hostname-valid",
];
/// The validations that a free host has to meet.
pub const GATES_UNBOUND: [&str; 4] =
    ["has-min-cpu-cores", "has-min-memory", "has-min-valid-disks", "hostname-valid"];
/// The validations that are only warnings about a bound host.
const WARNINGS: [&str; 3] =
    ["inventory-not-partially-truncated", "ntp-synced", "release-domain-name-resolved-correctly"];
/// The validations that hold nothing up while they are pending: their results come late or never.
const LATER: [&str; 8] = [
    "api-domain-name-resolved-correctly",
    "api-int-domain-name-resolved-correctly",
    "apps-domain-name-resolved-correctly",
    "belongs-to-majority-group",
    "container-images-available",
    "sufficient-installation-disk-speed",
    "sufficient-network-latency-requirement-for-role",
    "sufficient-packet-loss-requirement-for-role",
];

const MAX_HOSTNAME_LENGTH: usize = 63;
const HOSTNAME_PATTERN: &str = "^[a-z0-9][a-z0-9-]{0,62}(?:[.][a-z0-9-]{1,63})*$";

const SUCCESS: &str = "success";
const FAILURE: &str = "failure";
const PENDING: &str = "pending";
const DISABLED: &str = "disabled";
const MISSING_INVENTORY: &str = "Missing inventory";

/// The cluster that a bound host is validated against.
#[derive(Clone, Copy, Debug)]
pub struct ClusterContext<'a> {
    pub needs: &'a HostNeeds,
    /// The other hosts of the cluster, without this one.
    pub other_agents: &'a [&'a Agent],
}

/// A host, and all that its validations depend on.
struct ValidationContext<'a> {
    agent: &'a Agent,
    role: Role,
    /// None while the host is free.
    cluster: Option<&'a ClusterContext<'a>>,
    now: Time,
}

impl ValidationContext<'_> {
    /// The role by which the host is judged. A free host is judged as one of several nodes.
    fn node_role(&self) -> NodeRole {
        self.bound_role().unwrap_or(NodeRole::multi_node(self.role))
    }

    /// The role of a bound host in its cluster; none while it is free.
    fn bound_role(&self) -> Option<NodeRole> {
        self.cluster.map(|cluster| cluster.needs.node_role(self.role))
    }
}

/// The validations of a host, by category and then in the order of their ids. A free host is
/// validated as the worker that it could be. Left out is what only a cluster can say of a free
/// host, and what nobody reports.
pub fn validate_agent(
    agent: &Agent,
    role: Role,
    cluster: Option<&ClusterContext<'_>>,
    now: Time,
) -> BTreeMap<String, Vec<Validation>> {
    let role = if cluster.is_none() { Role::Worker } else { role };
    let context = ValidationContext { agent, role, cluster, now };
    let ignored_ids = cluster.and_then(|cluster| cluster.needs.ignored.as_ref());
    let mut by_category = BTreeMap::new();
    for (category, mut validations) in
        [("hardware", hardware::validate(&context)), ("network", network::validate(&context))]
    {
        validations.sort_unstable_by(|first, second| first.id.cmp(&second.id));
        for validation in &mut validations {
            let is_ignored = ignored_ids.is_some_and(|ids| ids.contains(&validation.id));
            if is_ignored && is_ignorable(&validation.id) {
                DISABLED.clone_into(&mut validation.status);
            }
        }
        by_category.insert(category.to_owned(), validations);
    }
    by_category
}

/// Whether a cluster may ignore a validation.
fn is_ignorable(id: &str) -> bool {
    !NEVER_IGNORED.contains(&id)
}

/// Whether a validation is met, or does not count because the cluster ignores it.
pub fn is_met(validation: &Validation) -> bool {
    matches!(validation.status.as_str(), SUCCESS | DISABLED)
}

/// Whether a validation keeps a bound host, as it is now, from being installed.
pub fn blocks_installation(validation: &Validation) -> bool {
    let id = validation.id.as_str();
    let may_wait = validation.status == PENDING && LATER.contains(&id);
    !WARNINGS.contains(&id) && !is_met(validation) && !may_wait
}

/// Why a host cannot have this name; none if it can.
pub fn hostname_problem(name: &str) -> Option<String> {
    let length = name.chars().count();
    if length > MAX_HOSTNAME_LENGTH {
        return Some(format!(
            "hostname is too long, must be 63 characters or less. Hostname: {name} has {length} \
             characters"
        ));
    }
    if DEFAULT_HOSTNAMES.contains(&name) {
        return Some(format!("The host name {name} is forbidden"));
    }
    if !is_valid_hostname(name) {
        return Some(format!(
            "Hostname {name} is forbidden, hostname should match pattern {HOSTNAME_PATTERN}"
        ));
    }
    None
}

fn validation(id: &str, status: &str, message: &str) -> Validation {
    Validation { id: id.into(), status: status.into(), message: message.into() }
}

/// A failure that says the problem, or a success if there is none.
fn fail_if(id: &str, problem: Option<&str>, success: &str) -> Validation {
    match problem {
        Some(problem) => validation(id, FAILURE, problem),
        None => validation(id, SUCCESS, success),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::model::agent::inventory::Inventory;
    use crate::model::time::Span;

    const NOW: Time = Time(1_000_000_000_000);

    /// 8 cores, 16 GiB, a disk of 120 GiB, a name, an address, a default route.
    fn good_host() -> Agent {
        let inventory = json!({"hostname": "test-hostname", "cpu": {"count": 8},
            "memory": {"physicalBytes": 17_179_869_184_u64},
            "disks": [{"id": "/dev/sda", "driveType": "HDD", "sizeBytes": 128_849_018_880_u64}],
            "interfaces": [{"name": "eth0", "ipV4Addresses": ["1.2.3.4/24"]}],
            "routes": [{"destination": "0.0.0.0", "gateway": "1.2.3.1"}]});
        let mut agent = Agent::default();
        agent.metadata.name = "h1".into();
        agent.status.last_contact_time = Some(NOW);
        agent.set_inventory(serde_json::from_value(inventory).unwrap());
        agent
    }

    fn host_with(change: impl FnOnce(&mut Inventory)) -> Agent {
        let mut agent = good_host();
        let mut inventory = agent.inventory().unwrap().clone();
        change(&mut inventory);
        agent.set_inventory(inventory);
        agent
    }

    /// The validations that are not met, each with its status.
    fn unmet(agent: &Agent, role: Role, cluster: Option<&ClusterContext<'_>>) -> Vec<String> {
        let by_category = validate_agent(agent, role, cluster, NOW);
        let validations = by_category.values().flatten();
        validations
            .filter(|validation| !is_met(validation))
            .map(|validation| format!("{} {}", validation.id, validation.status))
            .collect()
    }

    fn message(
        agent: &Agent,
        role: Role,
        cluster: Option<&ClusterContext<'_>>,
        id: &str,
    ) -> String {
        let by_category = validate_agent(agent, role, cluster, NOW);
        let mut validations = by_category.values().flatten();
        validations.find(|validation| validation.id == id).unwrap().message.clone()
    }

    #[test]
    fn names_are_refused_for_three_reasons() {
        for (name, why) in [
            ("a".repeat(64), "hostname is too long, must be 63 characters or less. Hostname: aaa"),
            ("Foo".into(), "Hostname Foo is forbidden, hostname should match pattern ^[a-z0-9]["),
            ("a..b".into(), "Hostname a..b is forbidden, "),
            ("-a".into(), "Hostname -a is forbidden, "),
            ("localhost".into(), "The host name localhost is forbidden"),
        ] {
            assert!(hostname_problem(&name).unwrap().starts_with(why), "{name}");
        }
        assert!(
            ["a", "0-a.b-", &"a".repeat(63)].into_iter().all(|n| hostname_problem(n).is_none())
        );
    }

    #[test]
    fn a_free_host_is_held_up_by_four_things_and_told_of_others() {
        let images = "container-images-available pending";
        assert_eq!(unmet(&good_host(), Role::Master, None), [images, "ntp-synced failure"]);
        let bad = host_with(|inventory| {
            inventory.cpu.count = 1;
            inventory.memory.physical_bytes = 130;
            inventory.disks.clear();
            inventory.hostname = "localhost".into();
        });
        let failing = unmet(&bad, Role::AutoAssign, None);
        for id in GATES_UNBOUND {
            assert!(failing.contains(&format!("{id} failure")), "{id}: {failing:?}");
        }
        assert_eq!(
            message(&bad, Role::AutoAssign, None, "has-min-memory"),
            "The host is not eligible to participate in Openshift Cluster because the minimum \
             required RAM for any role is 8.00 GiB, found only 0.00 MiB"
        );
        let mut late = good_host();
        late.status.clock_offset_seconds = Some(-1800);
        assert!(unmet(&late, Role::Worker, None)[2].starts_with("time-synced-between-host"));
        late.status.last_contact_time = Some(Time(NOW.0 - Span::minutes(4).0));
        assert_eq!(message(&late, Role::Worker, None, "connected"), "Host is disconnected");
    }

    #[test]
    fn without_an_inventory_all_that_needs_one_is_pending() {
        let mut agent = good_host();
        agent.status.inventory = None;
        let mut failing = unmet(&agent, Role::Worker, None);
        failing.retain(|validation| validation.ends_with("failure"));
        assert_eq!(failing, ["has-inventory failure", "ntp-synced failure"]);
        assert_eq!(message(&agent, Role::Worker, None, "has-min-memory"), "Missing inventory");
    }

    #[test]
    fn a_cluster_asks_for_more_and_may_ignore_some_of_it() {
        let ignored = ["hostname-unique", "belongs-to-machine-cidr"].map(String::from);
        let needs = HostNeeds {
            machine_networks: vec!["10.0.0.0/24".parse().unwrap()],
            ignored: Some(BTreeSet::from(ignored)),
            ..HostNeeds::default()
        };
        let twin = good_host();
        let cluster = ClusterContext { needs: &needs, other_agents: &[&twin] };
        let by_category = validate_agent(&good_host(), Role::Worker, Some(&cluster), NOW);
        for id in by_category.values().flatten().map(|validation| validation.id.as_str()) {
            let problem = ignored_problem(&format!("ntp-synced, {id}"));
            assert_eq!(problem.is_none(), is_ignorable(id), "{id}: {problem:?}");
        }
        assert!(ignored_problem("odf-requirements-satisfied,").is_none());
        assert!(ignored_problem("all").unwrap().ends_with("`all` is not a validation of hosts"));
        let blocking: Vec<&str> = by_category
            .values()
            .flatten()
            .filter(|validation| blocks_installation(validation))
            .map(|validation| validation.id.as_str())
            .collect();
        assert_eq!(blocking, ["hostname-unique", "no-ip-collisions-in-network"]);
        let small = host_with(|inventory| inventory.disks[0].size_bytes = 60_000_000_000);
        let failing = unmet(&small, Role::Worker, Some(&cluster));
        assert!(failing.contains(&"has-min-valid-disks failure".into()), "{failing:?}");
        assert!(!unmet(&small, Role::Worker, None).contains(&"has-min-valid-disks failure".into()));
        let sno = HostNeeds { masters: Some(1), user_managed: true, ..HostNeeds::default() };
        let alone = ClusterContext { needs: &sno, other_agents: &[] };
        let host = host_with(|inventory| inventory.cpu.count = 4);
        assert_eq!(
            message(&host, Role::AutoAssign, Some(&alone), "has-cpu-cores-for-role"),
            "Require at least 8 CPU cores for master role, found only 4"
        );
        let by_category = validate_agent(&good_host(), Role::Master, Some(&alone), NOW);
        assert!(!by_category.values().flatten().any(blocks_installation));
    }

    #[test]
    fn what_nobody_reports_of_a_found_host_is_left_out() {
        let mut host = host_with(|inventory| {
            inventory.routes.clear();
            inventory.interfaces[0].ipv4_addresses.clear();
            inventory.disks[0].drive_type.clear();
        });
        host.status.found_by_controller = true;
        assert!(unmet(&host, Role::Worker, None).is_empty());
        // Once it is bound, nobody asks it anything.
        host.status.last_contact_time = None;
        let needs = HostNeeds { has_vips: true, ..HostNeeds::default() };
        let cluster = ClusterContext { needs: &needs, other_agents: &[] };
        assert!(unmet(&host, Role::Worker, Some(&cluster)).is_empty());
    }
}
