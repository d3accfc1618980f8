//! What a host is checked for: by itself while it is free, and as part of its cluster. Says how it
//! is, never what becomes of it.

mod fit;
mod hardware;
mod ignored;
mod network;

use std::collections::BTreeMap;

use crate::model::agent::inventory::Inventory;
use crate::model::agent::needs::Needs;
use crate::model::agent::{Agent, EVERYBODYS, Role, Validation, can_be_a_host};
use crate::model::time::Time;

pub use fit::lacks;
pub use hardware::{disk_problems, eligible_disks};
pub use ignored::{IGNORED, ignored, problem as ignored_problem};

/// Nobody can say that these do not count.
pub const NEVER_IGNORED: [&str; 6] = [
    "connected",
    "has-inventory",
    "inventory-not-fully-truncated",
    "machine-cidr-defined",
    "hostname-unique",
    "hostname-valid",
];
/// All that a free host has to meet.
pub const GATES_UNBOUND: [&str; 4] =
    ["has-min-cpu-cores", "has-min-memory", "has-min-valid-disks", "hostname-valid"];
/// Of a bound host: worth a word, no more.
const WARNINGS: [&str; 3] =
    ["inventory-not-partially-truncated", "ntp-synced", "release-domain-name-resolved-correctly"];
/// While nobody has said how these are, nothing waits for them.
const LATER: [&str; 5] = [
    "belongs-to-majority-group",
    "container-images-available",
    "sufficient-installation-disk-speed",
    "sufficient-network-latency-requirement-for-role",
    "sufficient-packet-loss-requirement-for-role",
];

const LONGEST: usize = 63;
const PATTERN: &str = "^[a-z0-9][a-z0-9-]{0,62}(?:[.][a-z0-9-]{1,63})*$";

const SUCCESS: &str = "success";
const FAILURE: &str = "failure";
const PENDING: &str = "pending";
const DISABLED: &str = "disabled";
const MISSING: &str = "Missing inventory";

/// What a bound host is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    pub needs: &'a Needs,
    /// The other hosts of the cluster, without this one.
    pub others: &'a [&'a Agent],
}

/// A host, and what is known around it.
struct Look<'a> {
    agent: &'a Agent,
    role: Role,
    around: Option<&'a Around<'a>>,
    now: Time,
}

impl<'a> Look<'a> {
    /// If there is anything in it to go by.
    fn inventory(&self) -> Option<&'a Inventory> {
        self.agent.status.inventory.as_ref().filter(|one| one.is_valid())
    }

    fn sno(&self) -> bool {
        self.around.is_some_and(|around| around.needs.is_sno())
    }

    /// Role and whether it is the only node, of a bound host.
    fn bound(&self) -> Option<(Role, bool)> {
        self.around.map(|_| (self.role, self.sno()))
    }
}

/// How a host does, by category and then by id. Without a cluster around it is looked at as the
/// worker that it could be; what only a cluster can say is left out then, and what nobody reports.
pub fn validate(
    agent: &Agent,
    role: Role,
    around: Option<&Around<'_>>,
    now: Time,
) -> BTreeMap<String, Vec<Validation>> {
    let role = if around.is_none() { Role::Worker } else { role };
    let look = Look { agent, role, around, now };
    let ignored = around.and_then(|around| around.needs.ignored.as_ref());
    let mut all = BTreeMap::new();
    for (category, mut found) in
        [("hardware", hardware::of(&look)), ("network", network::of(&look))]
    {
        found.sort_by(|one, two| one.id.cmp(&two.id));
        for one in &mut found {
            if ignored.is_some_and(|ids| ids.contains(&one.id)) && ignorable(&one.id) {
                DISABLED.clone_into(&mut one.status);
            }
        }
        all.insert(category.to_owned(), found);
    }
    all
}

/// Whether a cluster may say that it does not count.
pub fn ignorable(id: &str) -> bool {
    !NEVER_IGNORED.contains(&id)
}

pub fn is_met(one: &Validation) -> bool {
    matches!(one.status.as_str(), SUCCESS | DISABLED)
}

/// Whether a bound host has to meet it, sooner or later.
pub fn gates_bound(id: &str) -> bool {
    !WARNINGS.contains(&id)
}

/// Whether it keeps a bound host from being installed, as it is.
pub fn holds_up(one: &Validation) -> bool {
    let waits = one.status == PENDING && LATER.contains(&one.id.as_str());
    gates_bound(&one.id) && !is_met(one) && !waits
}

/// Why a host cannot have this name.
pub fn hostname_problem(name: &str) -> Option<String> {
    let length = name.chars().count();
    if length > LONGEST {
        return Some(format!(
            "hostname is too long, must be 63 characters or less. Hostname: {name} has {length} \
             characters"
        ));
    }
    if EVERYBODYS.contains(&name) {
        return Some(format!("The host name {name} is forbidden"));
    }
    (!can_be_a_host(name))
        .then(|| format!("Hostname {name} is forbidden, hostname should match pattern {PATTERN}"))
}

fn result(id: &str, status: &str, message: &str) -> Validation {
    Validation { id: id.into(), status: status.into(), message: message.into() }
}

/// A failure if there is a problem.
fn check(id: &str, problem: Option<&str>, good: &str) -> Validation {
    match problem {
        Some(why) => result(id, FAILURE, why),
        None => result(id, SUCCESS, good),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::model::time::Span;

    const NOW: Time = Time(1_000_000_000_000);

    /// 8 cores, 16 GiB, a disk of 120 GiB, a name, an address, a default route.
    fn ok() -> Agent {
        let inventory = json!({"hostname": "test-hostname", "cpu": {"count": 8},
            "memory": {"physicalBytes": 17_179_869_184_u64},
            "disks": [{"id": "/dev/sda", "driveType": "HDD", "sizeBytes": 128_849_018_880_u64}],
            "interfaces": [{"name": "eth0", "ipV4Addresses": ["1.2.3.4/24"]}],
            "routes": [{"destination": "0.0.0.0", "gateway": "1.2.3.1"}]});
        let mut agent = Agent::default();
        agent.metadata.name = "h1".into();
        agent.status.last_contact_time = Some(NOW);
        agent.status.inventory = Some(serde_json::from_value(inventory).unwrap());
        agent
    }

    fn changed(change: impl FnOnce(&mut Inventory)) -> Agent {
        let mut agent = ok();
        change(agent.status.inventory.as_mut().unwrap());
        agent
    }

    /// What is not met, with its status.
    fn unmet(agent: &Agent, role: Role, around: Option<&Around<'_>>) -> Vec<String> {
        let all = validate(agent, role, around, NOW);
        let bad = all.values().flatten().filter(|one| !is_met(one));
        bad.map(|one| format!("{} {}", one.id, one.status)).collect()
    }

    fn message(agent: &Agent, role: Role, around: Option<&Around<'_>>, id: &str) -> String {
        let all = validate(agent, role, around, NOW);
        all.values().flatten().find(|one| one.id == id).unwrap().message.clone()
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
        assert_eq!(unmet(&ok(), Role::Master, None), [images, "ntp-synced failure"]);
        let bad = changed(|one| {
            (one.cpu.count, one.memory.physical_bytes) = (1, 130);
            one.disks.clear();
            one.hostname = "localhost".into();
        });
        let failing = unmet(&bad, Role::AutoAssign, None);
        for id in GATES_UNBOUND {
            assert!(failing.contains(&format!("{id} failure")), "{id}: {failing:?}");
        }
        assert_eq!(
            message(&bad, Role::AutoAssign, None, "has-min-memory"),
            "The host is not eligible to participate in Openshift Cluster because the minimum \
             required RAM for any role is 8.00 GiB, found only 0.00 GiB"
        );
        let mut late = ok();
        late.status.clock_offset_seconds = Some(-1800);
        assert!(unmet(&late, Role::Worker, None)[2].starts_with("time-synced-between-host"));
        late.status.last_contact_time = Some(Time(NOW.0 - Span::minutes(4).0));
        assert_eq!(message(&late, Role::Worker, None, "connected"), "Host is disconnected");
    }

    #[test]
    fn without_an_inventory_all_that_needs_one_is_pending() {
        let mut agent = ok();
        agent.status.inventory = None;
        let found = unmet(&agent, Role::Worker, None);
        let failing: Vec<&String> = found.iter().filter(|one| one.ends_with("failure")).collect();
        assert_eq!(failing, ["has-inventory failure", "ntp-synced failure"]);
        assert_eq!(message(&agent, Role::Worker, None, "has-min-memory"), "Missing inventory");
    }

    #[test]
    fn a_cluster_asks_for_more_and_may_ignore_some_of_it() {
        let ignored = ["hostname-unique", "belongs-to-machine-cidr"].map(String::from);
        let needs = Needs {
            machine_networks: vec!["10.0.0.0/24".parse().unwrap()],
            ignored: Some(BTreeSet::from(ignored)),
            ..Needs::default()
        };
        let twin = ok();
        let around = Around { needs: &needs, others: &[&twin] };
        let all = validate(&ok(), Role::Worker, Some(&around), NOW);
        for id in all.values().flatten().map(|one| one.id.as_str()) {
            let said = ignored_problem(&format!("ntp-synced, {id}"));
            assert_eq!(said.is_none(), ignorable(id), "{id}: {said:?}");
        }
        assert!(ignored_problem("odf-requirements-satisfied,").is_none());
        assert!(ignored_problem("all").unwrap().ends_with("`all` is no check of hosts"));
        let held: Vec<&str> =
            all.values().flatten().filter(|one| holds_up(one)).map(|one| one.id.as_str()).collect();
        assert_eq!(held, ["hostname-unique", "no-ip-collisions-in-network"]);
        let small = changed(|one| one.disks[0].size_bytes = 60_000_000_000);
        let failing = unmet(&small, Role::Worker, Some(&around));
        assert!(failing.contains(&"has-min-valid-disks failure".into()), "{failing:?}");
        assert!(!unmet(&small, Role::Worker, None).contains(&"has-min-valid-disks failure".into()));
        let sno = Needs { masters: Some(1), user_managed: true, ..Needs::default() };
        let alone = Around { needs: &sno, others: &[] };
        let four = changed(|one| one.cpu.count = 4);
        assert_eq!(
            message(&four, Role::AutoAssign, Some(&alone), "has-cpu-cores-for-role"),
            "Require at least 8 CPU cores for master role, found only 4"
        );
        let all = validate(&ok(), Role::Master, Some(&alone), NOW);
        assert!(!all.values().flatten().any(holds_up));
    }

    #[test]
    fn what_nobody_reports_of_a_found_host_is_left_out() {
        let mut found = changed(|one| {
            one.routes.clear();
            one.interfaces[0].ipv4_addresses.clear();
            one.disks[0].drive_type.clear();
        });
        found.status.found = true;
        assert!(unmet(&found, Role::Worker, None).is_empty());
        // And nobody asks it anything once it is bound.
        found.status.last_contact_time = None;
        let needs = Needs { has_vips: true, ..Needs::default() };
        let around = Around { needs: &needs, others: &[] };
        assert!(unmet(&found, Role::Worker, Some(&around)).is_empty());
    }
}
