//! Which role each host gets in its cluster, and which disk it is installed on. Weak machines
//! become masters if they are good enough, so that the strong ones are left for work. It changes no
//! Agent.

use std::collections::BTreeSet;

use crate::model::agent::inventory::{Disk, Inventory};
use crate::model::agent::needs::{HostNeeds, NodeRole};
use crate::model::agent::{Agent, Role};
use crate::rules::validations::{eligible_disks, missing_requirements};

use super::spread::SpreadQueue;

/// The masters of a cluster whose install-config does not say how many it has.
const DEFAULT_MASTERS: u64 = 3;
const GIB: i128 = 1 << 30;

/// How much a machine is worth. Machines are used up in the order of their weights: those with
/// accelerators last, and weak ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    has_accelerators: bool,
    /// Thousandths of a core more than the least that a master needs.
    strength: i128,
}

/// The place of a host in the order in which machines are used up: by weight, then by name. Hosts
/// without an inventory come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageRank {
    weight: Option<Weight>,
    hostname: String,
    name: String,
}

/// The weight of a machine. A core counts as much as 10 GiB of memory, or 250 GiB of disks; the
/// least that a master needs counts as nothing.
fn weigh(inventory: &Inventory) -> Weight {
    let disks = eligible_disks(inventory, None).into_iter();
    let disk_bytes: i128 = disks.map(|disk| i128::from(disk.size_bytes)).sum();
    let cores = (i128::from(inventory.cpu.count) - 4) * 1000;
    let memory = i128::from(inventory.memory.physical_bytes) * 100 / GIB - 1600;
    Weight {
        has_accelerators: !inventory.gpus.is_empty(),
        strength: cores + memory + disk_bytes * 4 / GIB - 400,
    }
}

/// Where a host stands in the order in which machines are used up.
pub fn usage_rank(agent: &Agent) -> UsageRank {
    UsageRank {
        weight: agent.usable_inventory().map(weigh),
        hostname: agent.hostname().to_owned(),
        name: agent.metadata.name.clone(),
    }
}

/// The role of each host of a cluster, in the order of the hosts. Unless there is only one node or
/// the hosts join the cluster later, roles are assigned when all hosts that have none have
/// reported.
pub fn assign_roles(agents: &[&Agent], needs: &HostNeeds) -> Vec<Role> {
    let mut roles: Vec<Role> = agents.iter().map(|agent| agent.spec.role).collect();
    let is_any_unknown =
        agents.iter().any(|agent| is_auto_assigned(agent) && agent.usable_inventory().is_none());
    if is_any_unknown && !needs.day2 && !needs.is_single_node() {
        return roles;
    }
    let masters = roles.iter().filter(|role| matches!(role, Role::Master | Role::Bootstrap));
    let wanted = if needs.day2 { 0 } else { needs.masters.unwrap_or(DEFAULT_MASTERS) };
    let missing = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_sub(masters.count());
    let chosen = choose_masters(agents, needs, missing);
    for (index, role) in roles.iter_mut().enumerate() {
        if *role == Role::AutoAssign {
            *role = if chosen.contains(&index) { Role::Master } else { Role::Worker };
        }
    }
    roles
}

/// Which hosts, by their places in the list, become masters beside those that a person has chosen:
/// the weakest first, or those first whose value of the label has the fewest masters.
fn choose_masters(agents: &[&Agent], needs: &HostNeeds, missing: usize) -> BTreeSet<usize> {
    let mut candidates = Vec::new();
    for (index, agent) in agents.iter().enumerate() {
        if is_auto_assigned(agent) && can_be_master(agent, needs) {
            candidates.push((usage_rank(agent), index));
        }
    }
    candidates.sort_unstable();
    let ranked = candidates.into_iter().map(|(_, index)| index);
    let ranked_hosts: Vec<(usize, &Agent)> =
        ranked.filter_map(|index| Some((index, *agents.get(index)?))).collect();
    let mut queue = SpreadQueue::new(needs.spread_by.as_deref(), ranked_hosts);
    for agent in agents {
        if matches!(agent.spec.role, Role::Master | Role::Bootstrap) {
            queue.count(agent);
        }
    }
    let mut chosen = BTreeSet::new();
    while chosen.len() < missing
        && let Some(next) = queue.pop()
    {
        queue.choose(next.place);
        chosen.insert(next.key);
    }
    chosen
}

fn is_auto_assigned(agent: &Agent) -> bool {
    agent.spec.role == Role::AutoAssign
}

/// Whether the machine of a host is good enough for a master. The only node of a cluster is its
/// master in any case: its failed checks then say what it lacks.
fn can_be_master(agent: &Agent, needs: &HostNeeds) -> bool {
    if needs.is_single_node() {
        return true;
    }
    let Some(inventory) = agent.usable_inventory() else { return false };
    let missing = missing_requirements(inventory, NodeRole::multi_node(Role::Master));
    missing
        .iter()
        .all(|(id, _)| needs.ignored.as_ref().is_some_and(|ignored| ignored.contains(*id)))
}

/// The id of the disk on which a host is to be installed: the one that its spec asks for, else the
/// one that was chosen before, else the best. None if there is no such disk, also when the spec
/// asks for one that cannot be used.
pub fn installation_disk(agent: &Agent, node: NodeRole) -> Option<String> {
    let disks = eligible_disks(agent.usable_inventory()?, Some(node));
    let requested_disks = [&agent.spec.installation_disk_id, &agent.spec.installation_disk_path];
    let previous_id = &agent.status.installation_disk_id;
    let disk = if let Some(name) = requested_disks.into_iter().find(|name| !name.is_empty()) {
        disks.into_iter().find(|disk| disk.is_named(name))
    } else if let Some(disk) = disks.iter().find(|disk| disk.id == *previous_id) {
        Some(*disk)
    } else {
        disks.into_iter().min_by(|first, second| rank_disk(first).cmp(&rank_disk(second)))
    };
    disk.map(|disk| disk.id.clone())
}

/// The place of a disk in the order in which disks are chosen: the least is the best.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DiskRank<'a> {
    is_not_bootable: bool,
    is_nvme: bool,
    /// HDD sorts before SSD.
    drive_type: &'a str,
    size_bytes: u64,
    /// Host, channel, target and LUN of a SCSI disk.
    place: Vec<u64>,
    id: &'a str,
}

fn rank_disk(disk: &Disk) -> DiskRank<'_> {
    DiskRank {
        is_not_bootable: !disk.bootable,
        is_nvme: disk.name.starts_with("nvme") || disk.drive_type.eq_ignore_ascii_case("nvme"),
        drive_type: &disk.drive_type,
        size_bytes: disk.size_bytes,
        place: disk.hctl.split(':').filter_map(|part| part.parse().ok()).collect(),
        id: &disk.id,
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::model::agent::inventory::{Cpu, Gpu, Memory};

    const GB: u64 = 1_000_000_000;

    fn disk(id: &str, kind: &str, gigabytes: u64) -> Disk {
        Disk {
            id: id.into(),
            name: id.into(),
            path: format!("/dev/{id}"),
            drive_type: kind.into(),
            size_bytes: gigabytes * GB,
            ..Disk::default()
        }
    }

    fn machine(cores: u64, gibibytes: u64) -> Inventory {
        Inventory {
            cpu: Cpu { count: cores, ..Cpu::default() },
            memory: Memory { physical_bytes: gibibytes << 30, ..Memory::default() },
            disks: vec![disk("sda", "HDD", 120)],
            ..Inventory::default()
        }
    }

    fn host(name: &str, inventory: Option<Inventory>) -> Agent {
        let mut agent = Agent::default();
        agent.metadata.name = name.into();
        agent.status.inventory = inventory.map(|inventory| Rc::new(inventory.into()));
        agent
    }

    /// The first letters of the roles of all hosts.
    fn roles(hosts: &[Agent], needs: &HostNeeds) -> String {
        let hosts: Vec<&Agent> = hosts.iter().collect();
        let roles = assign_roles(&hosts, needs);
        roles.iter().filter_map(|role| role.name().chars().next()).collect()
    }

    #[test]
    fn weak_machines_become_masters_if_they_are_enough() {
        let with_gpu = Inventory { gpus: vec![Gpu::default()], ..machine(4, 16) };
        let mut hosts: Vec<Agent> = [(16, 64), (2, 8), (8, 32), (8, 32), (4, 16)]
            .map(|(cores, memory)| Some(machine(cores, memory)))
            .into_iter()
            .zip(["e", "d", "c", "b", "a"])
            .map(|(inventory, name)| host(name, inventory))
            .collect();
        hosts.push(host("f", Some(with_gpu)));
        assert_eq!(roles(&hosts, &HostNeeds::default()), "wwmmmw");
        let two = HostNeeds { masters: Some(2), ..HostNeeds::default() };
        assert_eq!(roles(&hosts, &two), "wwwmmw");
        hosts[0].spec.role = Role::Master;
        assert_eq!(roles(&hosts, &two), "mwwwmw");
        assert_eq!(roles(&hosts, &HostNeeds { day2: true, ..two.clone() }), "mwwwww");
        hosts[1].status.inventory = None;
        assert_eq!(roles(&hosts, &two), "maaaaa");
        let sno = HostNeeds { masters: Some(1), ..HostNeeds::default() };
        assert_eq!(roles(&[host("a", Some(machine(4, 8)))], &sno), "m");
    }

    #[test]
    fn accelerators_come_last_and_cores_weigh_most() {
        let small = machine(4, 16);
        let big = machine(8, 16);
        let with_gpu = Inventory { gpus: vec![Gpu::default()], ..machine(2, 8) };
        assert!(weigh(&small) < weigh(&big) && weigh(&big) < weigh(&with_gpu));
        let nothing = Weight { has_accelerators: false, strength: -6000 };
        assert_eq!(weigh(&Inventory::default()), nothing);
    }

    fn worker_disk(agent: &Agent) -> Option<String> {
        installation_disk(agent, NodeRole::multi_node(Role::Worker))
    }

    #[test]
    fn the_disk_that_was_asked_for_wins_and_an_old_choice_stays() {
        let disks = vec![
            disk("nvme0n1", "SSD", 200),
            disk("sdb", "SSD", 150),
            Disk { hctl: "0:0:10:0".into(), ..disk("sdc", "HDD", 300) },
            Disk { hctl: "0:0:2:0".into(), ..disk("sdd", "HDD", 300) },
            disk("sde", "HDD", 60),
        ];
        let mut agent = host("a", Some(Inventory { disks, ..Inventory::default() }));
        assert_eq!(worker_disk(&agent).as_deref(), Some("sdd"));
        for (previous, expected) in [("sdb", "sdb"), ("sde", "sdd"), ("gone", "sdd")] {
            agent.status.installation_disk_id = previous.into();
            assert_eq!(worker_disk(&agent).as_deref(), Some(expected), "{previous}");
        }
        agent.spec.installation_disk_path = "/dev/nvme0n1".into();
        assert_eq!(worker_disk(&agent).as_deref(), Some("nvme0n1"));
        agent.spec.installation_disk_id = "sde".into();
        assert_eq!(worker_disk(&agent), None);
    }
}
