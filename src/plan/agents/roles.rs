//! What hosts are in their cluster, and the disk that each is installed on. Weak machines become
//! masters if they are enough for it, so that the strong ones are left for work.

use std::collections::BTreeSet;

use crate::model::agent::inventory::{Disk, Inventory};
use crate::model::agent::needs::Needs;
use crate::model::agent::{Agent, Role};
use crate::rules::validations::{eligible_disks, lacks};

/// Of a cluster that does not say.
const MASTERS: u64 = 3;
const GIB: i128 = 1 << 30;

/// Machines in the order in which they are used up: those with accelerators last, and weak ones
/// first. A core counts as much as 10 GiB of memory, or 250 GiB of disks.
pub type Weight = (bool, i128);

pub fn weight(inventory: &Inventory) -> Weight {
    let disks = eligible_disks(inventory, None).into_iter();
    let disks: i128 = disks.map(|disk| i128::from(disk.size_bytes)).sum();
    let cores = (i128::from(inventory.cpu.count) - 4) * 1000;
    let memory = i128::from(inventory.memory.physical_bytes) * 100 / GIB - 1600;
    (!inventory.gpus.is_empty(), cores + memory + disks * 4 / GIB - 400)
}

/// The place of a host in that order; like ones by name.
pub fn rank(agent: &Agent) -> (Option<Weight>, String, String) {
    let weight = known(agent).map(weight);
    (weight, agent.hostname().to_owned(), agent.metadata.name.clone())
}

/// The role of each host, in their order. Nothing is decided for anybody before all that it could
/// be decided for have said what they are.
pub fn assign(hosts: &[&Agent], needs: &Needs) -> Vec<Role> {
    let mut roles: Vec<Role> = hosts.iter().map(|host| host.spec.role).collect();
    let open = |host: &Agent| host.spec.role == Role::AutoAssign;
    let unknown = hosts.iter().any(|host| open(host) && known(host).is_none());
    if unknown && !needs.day2 && !needs.is_sno() {
        return roles;
    }
    let masters = roles.iter().filter(|role| matches!(role, Role::Master | Role::Bootstrap));
    let wanted = if needs.day2 { 0 } else { needs.masters.unwrap_or(MASTERS) };
    let missing = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_sub(masters.count());
    let mut adequate = Vec::new();
    for (at, host) in hosts.iter().enumerate().filter(|(_, host)| open(host)) {
        // Of a single node it is better said what it lacks.
        let counts = |id: &str| needs.ignored.as_ref().is_none_or(|ids| !ids.contains(id));
        let lacks = |found: &Inventory| lacks(found, Role::Master, false);
        let fits = |found: &&Inventory| {
            needs.is_sno() || !lacks(found).into_iter().any(|(id, _)| counts(id))
        };
        if known(host).as_ref().map_or(needs.is_sno(), fits) {
            adequate.push((rank(host), at));
        }
    }
    adequate.sort_unstable();
    let chosen: BTreeSet<usize> = adequate.into_iter().take(missing).map(|(_, at)| at).collect();
    for (at, role) in roles.iter_mut().enumerate() {
        if *role == Role::AutoAssign {
            *role = if chosen.contains(&at) { Role::Master } else { Role::Worker };
        }
    }
    roles
}

fn known(agent: &Agent) -> Option<&Inventory> {
    agent.status.inventory.as_ref().filter(|one| one.is_valid())
}

/// The disk of a host, by its id: the one that was asked for, else the one that it had, else the
/// best. Where another one was asked for than can be, there is none.
pub fn installation_disk(agent: &Agent, role: Role, sno: bool) -> Option<String> {
    let all = eligible_disks(known(agent)?, Some((role, sno)));
    let (id, path) = (&agent.spec.installation_disk_id, &agent.spec.installation_disk_path);
    let had = &agent.status.installation_disk_id;
    let asked = [id, path].into_iter().find(|one| !one.is_empty());
    let found = if let Some(asked) = asked {
        all.into_iter().find(|disk| disk.is_called(asked))
    } else if let Some(disk) = all.iter().find(|disk| disk.id == *had) {
        Some(*disk)
    } else {
        all.into_iter().min_by(|one, two| preference(one).cmp(&preference(two)))
    };
    found.map(|disk| disk.id.clone())
}

/// Lower is better: bootable, not NVMe, HDD before SSD, small, first in its place.
fn preference(disk: &Disk) -> (bool, bool, &str, u64, Vec<u64>, &str) {
    let nvme = disk.name.starts_with("nvme") || disk.drive_type.eq_ignore_ascii_case("nvme");
    let place = disk.hctl.split(':').filter_map(|part| part.parse().ok()).collect();
    (!disk.bootable, nvme, &disk.drive_type, disk.size_bytes, place, &disk.id)
}

#[cfg(test)]
mod tests {
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
        agent.status.inventory = inventory;
        agent
    }

    /// `host CORES GIB`, and the roles of all as their first letters.
    fn roles(all: &[Agent], needs: &Needs) -> String {
        let all: Vec<&Agent> = all.iter().collect();
        let found = assign(&all, needs);
        found.iter().filter_map(|role| role.name().chars().next()).collect()
    }

    #[test]
    fn weak_machines_become_masters_if_they_are_enough() {
        let card = Inventory { gpus: vec![Gpu::default()], ..machine(4, 16) };
        let mut all: Vec<Agent> = [(16, 64), (2, 8), (8, 32), (8, 32), (4, 16)]
            .map(|(cores, memory)| Some(machine(cores, memory)))
            .into_iter()
            .zip(["e", "d", "c", "b", "a"])
            .map(|(inventory, name)| host(name, inventory))
            .collect();
        all.push(host("f", Some(card)));
        assert_eq!(roles(&all, &Needs::default()), "wwmmmw");
        let two = Needs { masters: Some(2), ..Needs::default() };
        assert_eq!(roles(&all, &two), "wwwmmw");
        all[0].spec.role = Role::Master;
        assert_eq!(roles(&all, &two), "mwwwmw");
        assert_eq!(roles(&all, &Needs { day2: true, ..two.clone() }), "mwwwww");
        all[1].status.inventory = None;
        assert_eq!(roles(&all, &two), "maaaaa");
        let sno = Needs { masters: Some(1), ..Needs::default() };
        assert_eq!(roles(&[host("a", Some(machine(4, 8)))], &sno), "m");
    }

    #[test]
    fn accelerators_come_last_and_cores_weigh_most() {
        let (small, big) = (machine(4, 16), machine(8, 16));
        let card = Inventory { gpus: vec![Gpu::default()], ..machine(2, 8) };
        assert!(weight(&small) < weight(&big) && weight(&big) < weight(&card));
        assert_eq!(weight(&Inventory::default()), (false, -6000));
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
        let found = |agent: &Agent| installation_disk(agent, Role::Worker, false);
        assert_eq!(found(&agent).as_deref(), Some("sdd"));
        for (had, now) in [("sdb", "sdb"), ("sde", "sdd"), ("gone", "sdd")] {
            agent.status.installation_disk_id = had.into();
            assert_eq!(found(&agent).as_deref(), Some(now), "{had}");
        }
        agent.spec.installation_disk_path = "/dev/nvme0n1".into();
        assert_eq!(found(&agent).as_deref(), Some("nvme0n1"));
        agent.spec.installation_disk_id = "sde".into();
        assert_eq!(found(&agent), None);
    }
}
