//! Validates the hardware of a host: processors, memory, disks and its name.

use crate::model::agent::inventory::{Disk, Inventory, Memory};
use crate::model::agent::needs::{NodeRole, Topology};
use crate::model::agent::{Agent, Role, Validation};

use super::{
    ClusterContext, MISSING_INVENTORY, PENDING, ValidationContext, fail_if, hostname_problem,
    validation,
};

const GIB: u64 = 1 << 30;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GB: u64 = 1_000_000_000;
/// How much less memory a machine may report, because its firmware keeps some for itself.
const MEMORY_TOLERANCE: u64 = 100 * MIB;
/// GB of the disk of a BlueField card, which is a node inside of a server.
const BLUEFIELD_DISK_GB: u64 = 15;
/// Milliseconds that 99 of 100 syncs of the installation disk may take.
const MAX_SYNC_MILLISECONDS: u64 = 10;

const DRIVE_TYPES: [&str; 5] = ["HDD", "SSD", "Multipath", "RAID", "iSCSI"];
const NO_DISKS: &str = "No eligible disks were found, please check specific disks to see why they \
                        are not eligible";

/// The least hardware that a machine has to have.
pub(super) struct Minimum {
    pub(super) cores: u64,
    pub(super) memory_mib: u64,
    pub(super) disk_gb: u64,
}

/// The least that any role is content with.
const MINIMUM_OF_ANY_ROLE: Minimum = Minimum { cores: 2, memory_mib: 8192, disk_gb: 50 };

impl Minimum {
    pub(super) fn of_role(node: NodeRole) -> Self {
        match node.role {
            _ if node.is_single_node() => Self { cores: 8, memory_mib: 16_384, disk_gb: 100 },
            Role::Master | Role::Bootstrap => Self { cores: 4, memory_mib: 16_384, disk_gb: 100 },
            Role::Arbiter => Self { cores: 2, memory_mib: 8192, disk_gb: 50 },
            Role::Worker | Role::AutoAssign => Self { cores: 2, memory_mib: 8192, disk_gb: 100 },
        }
    }
}

/// The validations of a host's hardware. Those that measure are pending without a usable inventory.
pub(super) fn validate(context: &ValidationContext<'_>) -> Vec<Validation> {
    let inventory = context.agent.inventory();
    let mut validations = match inventory {
        Some(inventory) => validate_inventory(context, inventory),
        // An empty one gives the ids of the validations.
        None => validate_inventory(context, &Inventory::default()),
    };
    let why_pending = match inventory {
        None => Some(MISSING_INVENTORY),
        Some(inventory) if !inventory.is_usable() => Some("Inventory is truncated"),
        Some(_) => None,
    };
    if let Some(why) = why_pending {
        validations =
            validations.iter().map(|pending| validation(&pending.id, PENDING, why)).collect();
    }
    let problem = inventory.is_none().then_some("Inventory has not been received for the host");
    validations.push(fail_if("has-inventory", problem, "Valid inventory exists for the host"));
    validations.push(validate_truncation(inventory, "inventory-not-fully-truncated", "full"));
    validations.push(validate_truncation(
        inventory,
        "inventory-not-partially-truncated",
        "partial",
    ));
    validations
}

/// Whether nothing was cut from the inventory by a truncation of this kind.
fn validate_truncation(inventory: Option<&Inventory>, id: &str, kind: &str) -> Validation {
    let Some(inventory) = inventory else {
        return validation(id, PENDING, MISSING_INVENTORY);
    };
    let truncation = inventory.truncation.as_ref().filter(|truncation| truncation.kind == kind);
    let problem = truncation.map(|truncation| {
        format!("Inventory is truncated ({kind}): {}", truncation.reasons.join(", "))
    });
    fail_if(id, problem.as_deref(), "Inventory is not truncated")
}

/// The validations that follow from an inventory, in assisted-service's words. Some ids have no
/// check behind them here, but programs that read Agents expect them.
fn validate_inventory(context: &ValidationContext<'_>, inventory: &Inventory) -> Vec<Validation> {
    let bound_role = context.bound_role();
    let no_disks = eligible_disks(inventory, bound_role).is_empty().then_some(NO_DISKS);
    let mut validations = vec![
        fail_if(
            "has-min-cpu-cores",
            missing_cores_for_any_role(inventory).as_deref(),
            "Sufficient CPU cores",
        ),
        fail_if(
            "has-min-memory",
            missing_memory_for_any_role(inventory).as_deref(),
            "Sufficient minimum RAM",
        ),
        fail_if("has-min-valid-disks", no_disks, "Sufficient disk capacity"),
        fail_if(
            "hostname-valid",
            hostname_problem(context.agent.hostname()).as_deref(),
            "Hostname is allowed",
        ),
        fail_if(
            "has-cpu-cores-for-role",
            missing_cores(context, inventory).as_deref(),
            "Sufficient CPU cores for its role",
        ),
        fail_if(
            "has-memory-for-role",
            missing_memory(inventory, context.node_role()).as_deref(),
            "Sufficient RAM for its role",
        ),
        fail_if(
            "sufficient-installation-disk-speed",
            slow_disk(context.agent, inventory).as_deref(),
            "Speed of installation disk is sufficient, as far as it was measured",
        ),
        fail_if("compatible-agent", None, "Host agent is compatible"),
        fail_if("no-skip-installation-disk", None, "No disk is excluded from formatting"),
        fail_if("no-skip-missing-disk", None, "No disk is excluded from formatting"),
    ];
    if let Some(cluster) = context.cluster {
        validations.extend(validate_for_cluster(context.agent, inventory, cluster));
    }
    validations
}

/// The validations that only a cluster can ask for.
fn validate_for_cluster(
    agent: &Agent,
    inventory: &Inventory,
    cluster: &ClusterContext<'_>,
) -> Vec<Validation> {
    let name = agent.hostname();
    let has_twin = cluster.other_agents.iter().any(|other_agent| other_agent.hostname() == name);
    let twin_problem = has_twin.then(|| format!("Hostname {name} is not unique in cluster"));
    let platform = cluster.needs.platform.as_str();
    let mut validations = vec![
        fail_if("hostname-unique", twin_problem.as_deref(), "Hostname is unique in cluster"),
        fail_if(
            "compatible-with-cluster-platform",
            incompatible_platform(inventory, platform).as_deref(),
            "Host is compatible with cluster platform",
        ),
    ];
    if platform == "vsphere" {
        let is_uuid_missing = inventory
            .disks
            .iter()
            .any(|disk| !disk.has_uuid && !disk.removable && !disk.is_installation_media);
        let problem = is_uuid_missing.then_some(
            "VSphere disk.EnableUUID isn't enabled for this virtual machine, it's necessary for \
             disks to be mounted properly",
        );
        let success = "VSphere disk.EnableUUID is enabled";
        validations.push(fail_if("vsphere-disk-uuid-enabled", problem, success));
    }
    validations
}

/// Why a machine cannot be of a cluster on a platform: virtual machines must be of the hypervisor
/// that the platform names.
fn incompatible_platform(inventory: &Inventory, platform: &str) -> Option<String> {
    let manufacturer = &inventory.system_vendor.manufacturer;
    let is_compatible = match platform {
        "vsphere" => manufacturer.contains("VMware"),
        "nutanix" => manufacturer.contains("Nutanix"),
        _ => true,
    };
    (!is_compatible).then(|| {
        format!(
            "Host is not compatible with cluster platform {platform}; either disable this host \
             or discover a new compatible host."
        )
    })
}

/// The role in messages: upstream calls what is not yet assigned a worker, and a single node a
/// master.
fn display_role(node: NodeRole) -> &'static str {
    match node.role {
        _ if node.is_single_node() => "master",
        Role::Arbiter => "arbiter",
        Role::Worker | Role::AutoAssign => "worker",
        Role::Master | Role::Bootstrap => "master",
    }
}

/// Why a machine has too few cores, whatever its role will be.
fn missing_cores_for_any_role(inventory: &Inventory) -> Option<String> {
    let needed = MINIMUM_OF_ANY_ROLE.cores;
    let cores = inventory.cpu.count;
    (cores < needed).then(|| {
        format!(
            "The host is not eligible to participate in Openshift Cluster because the minimum \
             required CPU cores for any role is {needed}, found only {cores}"
        )
    })
}

/// Why a machine has too little memory, whatever its role will be.
fn missing_memory_for_any_role(inventory: &Inventory) -> Option<String> {
    let needed_mib = MINIMUM_OF_ANY_ROLE.memory_mib;
    if has_memory(&inventory.memory, needed_mib) {
        return None;
    }
    let needed = format_gib(needed_mib * MIB);
    let memory = format_gib(inventory.memory.physical_bytes);
    Some(format!(
        "The host is not eligible to participate in Openshift Cluster because the minimum \
         required RAM for any role is {needed}, found only {memory}"
    ))
}

/// From this version on a single node needs only half of the cores.
const SMALL_SINGLE_NODE_VERSION: (u64, u64) = (4, 22);
const SMALL_SINGLE_NODE_CORES: u64 = 4;

/// Why a host has too few cores for its role in its cluster.
fn missing_cores(context: &ValidationContext<'_>, inventory: &Inventory) -> Option<String> {
    let node = context.node_role();
    let version = context.cluster.and_then(|cluster| cluster.needs.version);
    let needed = if node.is_single_node()
        && version.is_some_and(|version| version >= SMALL_SINGLE_NODE_VERSION)
    {
        SMALL_SINGLE_NODE_CORES
    } else {
        Minimum::of_role(node).cores
    };
    let role = display_role(node);
    let cores = inventory.cpu.count;
    (cores < needed)
        .then(|| format!("Require at least {needed} CPU cores for {role} role, found only {cores}"))
}

/// Why a host has too little memory for its role in its cluster.
fn missing_memory(inventory: &Inventory, node: NodeRole) -> Option<String> {
    let needed_mib = Minimum::of_role(node).memory_mib;
    if has_memory(&inventory.memory, needed_mib) {
        return None;
    }
    let needed = format_gib(needed_mib * MIB);
    let memory = format_gib(inventory.memory.physical_bytes);
    let role = display_role(node);
    Some(format!("Require at least {needed} RAM for role {role}, found only {memory}"))
}

pub(super) fn has_memory(memory: &Memory, needed_mib: u64) -> bool {
    let needed = needed_mib * MIB;
    // What /proc/meminfo counts lacks the memory that the kernel keeps for itself.
    let kept = if memory.physical_bytes_method == "meminfo" { needed / 50 } else { 0 };
    memory.physical_bytes >= needed.saturating_sub(MEMORY_TOLERANCE + kept)
}

/// Rounded down, so that what is not enough does not look as if it were. What is less than 1 GiB is
/// given in MiB.
pub(super) fn format_gib(bytes: u64) -> String {
    let (size, unit) = if bytes < GIB { (MIB, "MiB") } else { (GIB, "GiB") };
    let whole = bytes / size;
    let hundredths = bytes % size * 100 / size;
    format!("{whole}.{hundredths:02} {unit}")
}

/// Rounded down, with a tenth if there is one.
pub(super) fn format_gb(bytes: u64) -> String {
    let tenths = bytes / (GB / 10);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} GB"),
        (whole, tenth) => format!("{whole}.{tenth} GB"),
    }
}

/// The disks that an installation may go to. `bound_role` is the role of a bound host; none while
/// the host is free.
pub fn eligible_disks(inventory: &Inventory, bound_role: Option<NodeRole>) -> Vec<&Disk> {
    inventory
        .disks
        .iter()
        .filter(|disk| disk_problems(disk, inventory, bound_role).is_empty())
        .collect()
}

/// Why an installation may not go to a disk, the agent's own reasons first. If there are none, it
/// may.
pub fn disk_problems(
    disk: &Disk,
    inventory: &Inventory,
    bound_role: Option<NodeRole>,
) -> Vec<String> {
    let mut problems: Vec<String> =
        disk.installation_eligibility.reported_reasons().cloned().collect();
    let our_problems = [
        disk.removable.then(|| "Disk is removable".to_owned()),
        disk.is_installation_media.then(|| "Disk is an installation media".to_owned()),
        too_small(disk, inventory, bound_role),
        unsupported_type(disk, &inventory.cpu.architecture),
        multipath_membership(disk, inventory),
    ];
    for problem in our_problems.into_iter().flatten() {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}

/// The GB that an installation disk has to have.
pub(super) fn minimum_disk_gb(inventory: &Inventory, bound_role: Option<NodeRole>) -> u64 {
    let is_bluefield = inventory.system_vendor.product_name == "BlueField SoC"
        && matches!(inventory.cpu.architecture.as_str(), "aarch64" | "arm64");
    match bound_role {
        None
        | Some(NodeRole { role: Role::Worker | Role::AutoAssign, topology: Topology::MultiNode })
            if is_bluefield =>
        {
            BLUEFIELD_DISK_GB
        }
        None => MINIMUM_OF_ANY_ROLE.disk_gb,
        Some(node) => Minimum::of_role(node).disk_gb,
    }
}

fn too_small(disk: &Disk, inventory: &Inventory, bound_role: Option<NodeRole>) -> Option<String> {
    let needed = minimum_disk_gb(inventory, bound_role);
    (disk.size_bytes < needed * GB).then(|| {
        let size = format_gb(disk.size_bytes);
        format!("Disk is too small (disk only has {size}, but {needed} GB are required)")
    })
}

/// The types of disks that only machines of some architectures can be installed on.
fn drive_types_of(architecture: &str) -> &'static [&'static str] {
    match architecture {
        "" | "x86_64" | "amd64" => &["FC"],
        "s390x" => &["FC", "ECKD", "ECKD (ESE)", "FBA"],
        _ => &[],
    }
}

/// A disk without a type is taken for one that can be installed on.
fn unsupported_type(disk: &Disk, architecture: &str) -> Option<String> {
    let more_types = drive_types_of(architecture).iter().copied();
    let supported: Vec<&str> = DRIVE_TYPES.into_iter().chain(more_types).collect();
    let drive_type = disk.drive_type.as_str();
    let mut accepted = supported.iter().chain(&["", "NVMe"]);
    if accepted.any(|name| name.eq_ignore_ascii_case(drive_type)) {
        return None;
    }
    let supported = supported.join(", ");
    Some(format!("Drive type is {drive_type}, it must be one of {supported}."))
}

/// Disks of one multipath device have its world wide name.
fn multipath_membership(disk: &Disk, inventory: &Inventory) -> Option<String> {
    if disk.wwn.is_empty() || disk.drive_type == "Multipath" {
        return None;
    }
    let device = inventory
        .disks
        .iter()
        .find(|device| device.drive_type == "Multipath" && device.wwn == disk.wwn)?;
    let name = &device.name;
    Some(format!(
        "Disk is a member of multipath device {name} and is not eligible for installation. Use \
         the multipath device instead."
    ))
}

/// Judges the disk that is chosen, or else the one that is asked for, if its speed was measured.
fn slow_disk(agent: &Agent, inventory: &Inventory) -> Option<String> {
    let ids = [&agent.status.installation_disk_id, &agent.spec.installation_disk_id];
    let id = ids.into_iter().find(|id| !id.is_empty())?;
    let disk = inventory.disks.iter().find(|disk| disk.id == *id)?;
    let milliseconds = disk.io_perf.as_ref()?.sync_duration_milliseconds;
    (milliseconds > MAX_SYNC_MILLISECONDS).then(|| {
        let path = &disk.path;
        format!(
            "Installation disk {path} is too slow: 99 of 100 syncs take up to {milliseconds} ms; \
             the limit is {MAX_SYNC_MILLISECONDS} ms"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(size_bytes: u64) -> Disk {
        Disk { size_bytes, ..Disk::default() }
    }

    fn disk_of_type(wwn: &str, drive_type: &str) -> Disk {
        Disk {
            wwn: wwn.into(),
            name: "dm-0".into(),
            drive_type: drive_type.into(),
            ..disk(200 * GB)
        }
    }

    fn problems_of_first_disk(inventory: &Inventory, role: Option<NodeRole>) -> Vec<String> {
        disk_problems(&inventory.disks[0], inventory, role)
    }

    #[test]
    fn a_little_memory_may_be_missing() {
        for (missing_mib, method, is_enough) in [
            (100, "dmidecode", true),
            (101, "dmidecode", false),
            (263, "meminfo", true),
            (264, "meminfo", false),
        ] {
            let memory = Memory {
                physical_bytes: 8 * GIB - missing_mib * MIB,
                physical_bytes_method: method.into(),
                ..Memory::default()
            };
            let inventory = Inventory { memory, ..Inventory::default() };
            let problem = missing_memory_for_any_role(&inventory);
            assert_eq!(problem.is_none(), is_enough, "{missing_mib} {method}");
        }
        assert_eq!(format_gib(8 * GIB - 1), "7.99 GiB");
        assert_eq!(format_gib(GIB / 2), "512.00 MiB");
    }

    #[test]
    fn the_smallest_disk_depends_on_the_role() {
        let inventory = Inventory { disks: vec![disk(60 * GB)], ..Inventory::default() };
        let too_small = ["Disk is too small (disk only has 60 GB, but 100 GB are required)"];
        assert!(problems_of_first_disk(&inventory, None).is_empty());
        assert!(
            problems_of_first_disk(&inventory, Some(NodeRole::multi_node(Role::Arbiter)))
                .is_empty()
        );
        for bound_role in [NodeRole::multi_node(Role::Worker), NodeRole::SINGLE_NODE] {
            assert_eq!(problems_of_first_disk(&inventory, Some(bound_role)), too_small);
        }
        assert_eq!(format_gb(99_990_000_000), "99.9 GB");
    }

    #[test]
    fn a_mainframe_is_installed_on_its_own_kinds_of_disks() {
        for (architecture, drive_type, is_eligible) in [
            ("s390x", "ECKD", true),
            ("s390x", "ECKD (ESE)", true),
            ("s390x", "FBA", true),
            ("s390x", "FC", true),
            ("s390x", "ODD", false),
            ("x86_64", "ECKD", false),
            ("x86_64", "FC", true),
            ("arm64", "FC", false),
        ] {
            let problem = unsupported_type(&disk_of_type("", drive_type), architecture);
            assert_eq!(problem.is_none(), is_eligible, "{architecture} {drive_type}");
        }
    }

    #[test]
    fn reasons_of_the_agent_stay_and_ours_are_computed_anew() {
        let mut tape = Disk { drive_type: "ODD".into(), removable: true, ..disk(200 * GB) };
        let eligibility = &mut tape.installation_eligibility;
        let reported = ["Disk has partitions", "Disk is removable", "Disk is too small (old)"];
        eligibility.not_eligible_reasons = reported.map(String::from).into();
        eligibility.judged_reasons = vec!["Disk is too small (old)".into()];
        let disks = vec![
            tape,
            disk_of_type("w", "Multipath"),
            disk_of_type("w", "FC"),
            disk_of_type("v", "nvme"),
        ];
        let inventory = Inventory { disks, ..Inventory::default() };
        let problems: Vec<Vec<String>> =
            inventory.disks.iter().map(|disk| disk_problems(disk, &inventory, None)).collect();
        let types = "Drive type is ODD, it must be one of HDD, SSD, Multipath, RAID, iSCSI, FC.";
        assert_eq!(problems[0], ["Disk has partitions", "Disk is removable", types]);
        let mut eligibility = inventory.disks[0].installation_eligibility.clone();
        eligibility.set_verdict(problems[0].clone());
        assert!(!eligibility.eligible);
        assert_eq!(eligibility.judged_reasons, [types]);
        assert!(problems[1].is_empty() && problems[3].is_empty());
        assert!(problems[2][0].starts_with("Disk is a member of multipath device dm-0 and"));
    }
}
