//! Says in few words which requirements of a role a machine does not meet. Needs its inventory
//! only, and never judges its network.

use crate::model::agent::inventory::Inventory;
use crate::model::agent::needs::NodeRole;

use super::hardware::{
    GB, MIB, Minimum, disk_problems, eligible_disks, format_gb, format_gib, has_memory,
    minimum_disk_gb,
};

/// The requirements of a role that a machine does not meet, each with the id of its validation. If
/// there are none, the machine is good enough.
pub fn missing_requirements(inventory: &Inventory, node: NodeRole) -> Vec<(&'static str, String)> {
    let minimum = Minimum::of_role(node);
    let mut missing = Vec::new();
    let cores = inventory.cpu.count;
    if cores < minimum.cores {
        let why = format!("{cores} CPU cores < {}", minimum.cores);
        missing.push(("has-cpu-cores-for-role", why));
    }
    if !has_memory(&inventory.memory, minimum.memory_mib) {
        let memory = format_gib(inventory.memory.physical_bytes);
        let needed = format_gib(minimum.memory_mib * MIB);
        missing.push(("has-memory-for-role", format!("memory {memory} < {needed}")));
    }
    if eligible_disks(inventory, Some(node)).is_empty() {
        let why = describe_missing_disk(inventory, node);
        missing.push(("has-min-valid-disks", why));
    }
    missing
}

/// Why the largest disk cannot be installed on: the others are even less suitable.
fn describe_missing_disk(inventory: &Inventory, node: NodeRole) -> String {
    let fixed_disks =
        inventory.disks.iter().filter(|disk| !disk.removable && !disk.is_installation_media);
    let Some(largest) = fixed_disks.max_by_key(|disk| disk.size_bytes) else {
        return "no disk".into();
    };
    let needed = minimum_disk_gb(inventory, Some(node));
    if largest.size_bytes < needed * GB {
        return format!("disk {} < {needed} GB", format_gb(largest.size_bytes));
    }
    let problems = disk_problems(largest, inventory, Some(node)).join(", ");
    format!("disk {}: {problems}", largest.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::Role;
    use crate::model::agent::inventory::Disk;

    #[test]
    fn a_missing_requirement_says_what_there_is_and_what_is_needed() {
        let disk = Disk { size_bytes: 60 * GB, ..Disk::default() };
        let inventory = Inventory { disks: vec![disk], ..Inventory::default() };
        let expected = ["0 CPU cores < 4", "memory 0.00 MiB < 16.00 GiB", "disk 60 GB < 100 GB"];
        let missing = missing_requirements(&inventory, NodeRole::multi_node(Role::Master));
        assert_eq!(missing.into_iter().map(|(_, why)| why).collect::<Vec<_>>(), expected);
    }
}
