//! What a machine has to have: processors, memory, a disk, and a name.

use crate::model::agent::inventory::{Disk, Inventory, Memory};
use crate::model::agent::{Agent, Role, Validation};

use super::{Around, Look, MISSING, PENDING, check, hostname_problem, result};

const GIB: u64 = 1 << 30;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GB: u64 = 1_000_000_000;
/// Memory that firmware keeps for itself.
const TOLERANCE: u64 = 100 * MIB;
/// Cores, and MiB of memory, that every role takes; GB of a disk that some role is content with.
const ANY: (u64, u64, u64) = (2, 8192, 50);
/// The same disk of a BlueField card, which is a node in a server.
const EDGE: u64 = 15;
/// Milliseconds that 99 of 100 syncs may take.
const SLOWEST: u64 = 10;

const TYPES: [&str; 5] = ["HDD", "SSD", "Multipath", "RAID", "iSCSI"];
const NO_DISKS: &str = "No eligible disks were found, please check specific disks to see why they \
                        are not eligible";

pub(super) fn of(look: &Look<'_>) -> Vec<Validation> {
    let (said, nothing) = (look.agent.status.inventory.as_ref(), Inventory::default());
    let missing = match said {
        None => Some(MISSING),
        Some(one) if !one.is_valid() => Some("Inventory is truncated"),
        Some(_) => None,
    };
    let mut all = measured(look, said.unwrap_or(&nothing));
    if let Some(why) = missing {
        all = all.iter().map(|one| result(&one.id, PENDING, why)).collect();
    }
    let none = said.is_none().then_some("Inventory has not been received for the host");
    all.push(check("has-inventory", none, "Valid inventory exists for the host"));
    all.extend(["full", "partial"].map(|kind| truncation(said, kind)));
    all
}

fn truncation(said: Option<&Inventory>, kind: &str) -> Validation {
    let id = if kind == "full" { "fully" } else { "partially" };
    let id = format!("inventory-not-{id}-truncated");
    let Some(said) = said else {
        return result(&id, PENDING, MISSING);
    };
    let found = said.truncation.as_ref().filter(|one| one.kind == kind);
    let problem =
        found.map(|one| format!("Inventory is truncated ({kind}): {}", one.reasons.join(", ")));
    check(&id, problem.as_deref(), "Inventory is not truncated")
}

fn measured(look: &Look<'_>, inventory: &Inventory) -> Vec<Validation> {
    let (role, sno, name) = (look.role, look.sno(), look.agent.hostname());
    let mut all = vec![
        check("has-min-cpu-cores", any_cores(inventory).as_deref(), "Sufficient CPU cores"),
        check("has-min-memory", any_memory(inventory).as_deref(), "Sufficient minimum RAM"),
        check("has-min-valid-disks", disks(inventory, look.bound()), "Sufficient disk capacity"),
        check("hostname-valid", hostname_problem(name).as_deref(), "Hostname is allowed"),
        check(
            "has-cpu-cores-for-role",
            cores(look, inventory).as_deref(),
            "Sufficient CPU cores for its role",
        ),
        check(
            "has-memory-for-role",
            memory(inventory, role, sno).as_deref(),
            "Sufficient RAM for its role",
        ),
        check(
            "sufficient-installation-disk-speed",
            speed(look.agent, inventory).as_deref(),
            "Speed of installation disk is sufficient, as far as it was measured",
        ),
        check("compatible-agent", None, "Host agent is compatible"),
        check("no-skip-installation-disk", None, "Its disks are all formatted"),
        check("no-skip-missing-disk", None, "Its disks are all formatted"),
    ];
    if let Some(around) = look.around {
        all.extend(in_cluster(look.agent, inventory, around));
    }
    all
}

/// What only a cluster can ask for.
fn in_cluster(agent: &Agent, inventory: &Inventory, around: &Around<'_>) -> Vec<Validation> {
    let (needs, name) = (around.needs, agent.hostname());
    let twin = around.others.iter().any(|other| other.hostname() == name);
    let twin = twin.then(|| format!("Hostname {name} is not unique in cluster"));
    let other = foreign(inventory, &needs.platform);
    let mut all = vec![
        check("hostname-unique", twin.as_deref(), "Hostname is unique in cluster"),
        check(
            "compatible-with-cluster-platform",
            other.as_deref(),
            "Host is compatible with cluster platform",
        ),
    ];
    if needs.platform == "vsphere" {
        let plain = |one: &&Disk| !one.has_uuid && !one.removable && !one.is_installation_media;
        let wrong = inventory.disks.iter().find(plain).map(|_| {
            "VSphere disk.EnableUUID isn't enabled for this virtual machine, it's necessary for \
             disks to be mounted properly"
        });
        all.push(check("vsphere-disk-uuid-enabled", wrong, "VSphere disk.EnableUUID is enabled"));
    }
    all
}

fn foreign(inventory: &Inventory, platform: &str) -> Option<String> {
    let maker = &inventory.system_vendor.manufacturer;
    let fits = match platform {
        "vsphere" => maker.contains("VMware"),
        "nutanix" => maker.contains("Nutanix"),
        _ => true,
    };
    (!fits).then(|| {
        format!(
            "Host is not compatible with cluster platform {platform}; either disable this host \
             or discover a new compatible host."
        )
    })
}

/// The least that a role takes: cores, MiB of memory, GB of a disk.
pub(super) fn least(role: Role, sno: bool) -> (u64, u64, u64) {
    match role {
        _ if sno => (8, 16_384, 100),
        Role::Master | Role::Bootstrap => (4, 16_384, 100),
        Role::Arbiter => (2, 8192, 50),
        Role::Worker | Role::AutoAssign => (2, 8192, 100),
    }
}

/// A role as people call it.
fn called(role: Role, sno: bool) -> &'static str {
    match role {
        Role::Arbiter if !sno => "arbiter",
        Role::Worker | Role::AutoAssign if !sno => "worker",
        _ => "master",
    }
}

fn any_cores(inventory: &Inventory) -> Option<String> {
    let ((needed, _, _), found) = (ANY, inventory.cpu.count);
    (found < needed).then(|| {
        format!(
            "The host is not eligible to participate in Openshift Cluster because the minimum \
             required CPU cores for any role is {needed}, found only {found}"
        )
    })
}

fn any_memory(inventory: &Inventory) -> Option<String> {
    let (_, needed, _) = ANY;
    (!enough(&inventory.memory, needed)).then(|| {
        let (needed, found) = (gib(needed * MIB), gib(inventory.memory.physical_bytes));
        format!(
            "The host is not eligible to participate in Openshift Cluster because the minimum \
             required RAM for any role is {needed}, found only {found}"
        )
    })
}

/// A single node got by with half as many.
const FEWER: ((u64, u64), u64) = ((4, 22), 4);

fn cores(look: &Look<'_>, inventory: &Inventory) -> Option<String> {
    let (role, sno) = (look.role, look.sno());
    let ((mut needed, _, _), found) = (least(role, sno), inventory.cpu.count);
    let version = look.around.and_then(|around| around.needs.version);
    let (since, fewer) = FEWER;
    if sno && version.is_some_and(|version| version >= since) {
        needed = fewer;
    }
    let role = called(role, sno);
    (found < needed)
        .then(|| format!("Require at least {needed} CPU cores for {role} role, found only {found}"))
}

fn memory(inventory: &Inventory, role: Role, sno: bool) -> Option<String> {
    let (_, needed, _) = least(role, sno);
    (!enough(&inventory.memory, needed)).then(|| {
        let (needed, found) = (gib(needed * MIB), gib(inventory.memory.physical_bytes));
        let role = called(role, sno);
        format!("Require at least {needed} RAM for role {role}, found only {found}")
    })
}

pub(super) fn enough(memory: &Memory, mebibytes: u64) -> bool {
    let needed = mebibytes * MIB;
    // The kernel keeps some of what it counts.
    let kept = if memory.physical_bytes_method == "meminfo" { needed / 50 } else { 0 };
    memory.physical_bytes >= needed.saturating_sub(TOLERANCE + kept)
}

/// Rounded down: what is not enough does not look as if it were.
pub(super) fn gib(bytes: u64) -> String {
    let (whole, rest) = (bytes / GIB, bytes % GIB * 100 / GIB);
    format!("{whole}.{rest:02} GiB")
}

pub(super) fn gigabytes(bytes: u64) -> String {
    let tenths = bytes / (GB / 10);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} GB"),
        (whole, rest) => format!("{whole}.{rest} GB"),
    }
}

fn disks(inventory: &Inventory, bound: Option<(Role, bool)>) -> Option<&'static str> {
    eligible_disks(inventory, bound).is_empty().then_some(NO_DISKS)
}

/// Disks that an installation may go to; bound as what, and whether as the only node.
pub fn eligible_disks(inventory: &Inventory, bound: Option<(Role, bool)>) -> Vec<&Disk> {
    let eligible = |disk: &&Disk| disk_problems(disk, inventory, bound).is_empty();
    inventory.disks.iter().filter(eligible).collect()
}

/// Why an installation may not go to a disk, its agent's reasons first; none: it may.
pub fn disk_problems(
    disk: &Disk,
    inventory: &Inventory,
    bound: Option<(Role, bool)>,
) -> Vec<String> {
    let mut all: Vec<String> = disk.installation_eligibility.reported_reasons().cloned().collect();
    let found = [
        disk.removable.then(|| "Disk is removable".to_owned()),
        disk.is_installation_media.then(|| "Disk is an installation media".to_owned()),
        too_small(disk, inventory, bound),
        wrong_type(disk, &inventory.cpu.architecture),
        part_of(disk, inventory),
    ];
    for why in found.into_iter().flatten() {
        if !all.contains(&why) {
            all.push(why);
        }
    }
    all
}

/// GB that a disk has to have.
pub(super) fn disk_needed(inventory: &Inventory, bound: Option<(Role, bool)>) -> u64 {
    let edge = inventory.system_vendor.product_name == "BlueField SoC"
        && matches!(inventory.cpu.architecture.as_str(), "aarch64" | "arm64");
    let (_, _, any) = ANY;
    match bound {
        None | Some((Role::Worker | Role::AutoAssign, false)) if edge => EDGE,
        None => any,
        Some((role, sno)) => {
            let (_, _, needed) = least(role, sno);
            needed
        }
    }
}

fn too_small(disk: &Disk, inventory: &Inventory, bound: Option<(Role, bool)>) -> Option<String> {
    let needed = disk_needed(inventory, bound);
    (disk.size_bytes < needed * GB).then(|| {
        let found = gigabytes(disk.size_bytes);
        format!("Disk is too small (disk only has {found}, but {needed} GB are required)")
    })
}

/// A type that nobody knows is taken for HDD.
fn wrong_type(disk: &Disk, architecture: &str) -> Option<String> {
    let fibre = matches!(architecture, "" | "x86_64" | "amd64").then_some("FC");
    let known: Vec<&str> = TYPES.into_iter().chain(fibre).collect();
    let kind = disk.drive_type.as_str();
    let mut names = known.iter().chain(&["", "NVMe"]);
    let fine = names.any(|name| name.eq_ignore_ascii_case(kind));
    (!fine).then(|| {
        let known = known.join(", ");
        format!("Drive type is {kind}, it must be one of {known}.")
    })
}

fn part_of(disk: &Disk, inventory: &Inventory) -> Option<String> {
    let multipath = |one: &Disk| one.drive_type == "Multipath";
    if disk.wwn.is_empty() || multipath(disk) {
        return None;
    }
    let whole = inventory.disks.iter().find(|one| multipath(one) && one.wwn == disk.wwn)?;
    let name = &whole.name;
    Some(format!(
        "Disk is a member of multipath device {name} and is not eligible for installation. Use \
         the multipath device instead."
    ))
}

fn speed(agent: &Agent, inventory: &Inventory) -> Option<String> {
    let ids = [&agent.status.installation_disk_id, &agent.spec.installation_disk_id];
    let id = ids.into_iter().find(|id| !id.is_empty())?;
    let disk = inventory.disks.iter().find(|disk| disk.id == *id)?;
    let took = disk.io_perf.as_ref()?.sync_duration_milliseconds;
    (took > SLOWEST).then(|| {
        let path = &disk.path;
        format!(
            "Installation disk {path} is too slow: 99 of 100 syncs take up to {took} ms, and \
             {SLOWEST} ms are the most"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(size_bytes: u64) -> Disk {
        Disk { size_bytes, ..Disk::default() }
    }

    #[test]
    fn a_little_memory_may_be_missing() {
        for (missing, method, fine) in [
            (100, "dmidecode", true),
            (101, "dmidecode", false),
            (263, "meminfo", true),
            (264, "meminfo", false),
        ] {
            let memory = Memory {
                physical_bytes: 8 * GIB - missing * MIB,
                physical_bytes_method: method.into(),
                ..Memory::default()
            };
            let inventory = Inventory { memory, ..Inventory::default() };
            assert_eq!(any_memory(&inventory).is_none(), fine, "{missing} {method}");
        }
        assert_eq!((gib(8 * GIB - 1), gib(GIB / 2)), ("7.99 GiB".into(), "0.50 GiB".into()));
    }

    #[test]
    fn the_smallest_disk_depends_on_the_role() {
        let inventory = Inventory { disks: vec![disk(60 * GB)], ..Inventory::default() };
        let found = |bound| disk_problems(&inventory.disks[0], &inventory, bound);
        let small = "Disk is too small (disk only has 60 GB, but 100 GB are required)";
        assert!(found(None).is_empty());
        assert!(found(Some((Role::Arbiter, false))).is_empty());
        assert_eq!(found(Some((Role::Worker, false))), [small]);
        assert_eq!(found(Some((Role::Master, true))), [small]);
        assert_eq!(gigabytes(99_990_000_000), "99.9 GB");
    }

    #[test]
    fn reasons_of_the_agent_stay_and_ours_are_found_anew() {
        let mut tape = Disk { drive_type: "ODD".into(), removable: true, ..disk(200 * GB) };
        let eligibility = &mut tape.installation_eligibility;
        let old = ["Disk has partitions", "Disk is removable", "Disk is too small (old)"];
        eligibility.not_eligible_reasons = old.map(String::from).into();
        eligibility.judged_reasons = vec!["Disk is too small (old)".into()];
        let kind = |wwn: &str, kind: &str| Disk {
            wwn: wwn.into(),
            name: "dm-0".into(),
            drive_type: kind.into(),
            ..disk(200 * GB)
        };
        let disks = vec![tape, kind("w", "Multipath"), kind("w", "FC"), kind("v", "nvme")];
        let inventory = Inventory { disks, ..Inventory::default() };
        let found = |at: usize| disk_problems(&inventory.disks[at], &inventory, None);
        let types = "Drive type is ODD, it must be one of HDD, SSD, Multipath, RAID, iSCSI, FC.";
        assert_eq!(found(0), ["Disk has partitions", "Disk is removable", types]);
        let mut eligibility = inventory.disks[0].installation_eligibility.clone();
        eligibility.judge(found(0));
        assert!(!eligibility.eligible);
        assert_eq!(eligibility.judged_reasons, [types]);
        assert!(found(1).is_empty() && found(3).is_empty());
        assert!(found(2)[0].starts_with("Disk is a member of multipath device dm-0 and"));
    }
}
