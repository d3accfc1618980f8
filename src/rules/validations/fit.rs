//! What a machine is good for, in few words.

use crate::model::agent::Role;
use crate::model::agent::inventory::{Disk, Inventory};

use super::hardware::{
    GB, MIB, disk_needed, disk_problems, eligible_disks, enough, gib, gigabytes, least,
};

/// What a machine lacks for a role, by the check that says so, in few words; nothing: it is good
/// enough.
pub fn lacks(inventory: &Inventory, role: Role, sno: bool) -> Vec<(&'static str, String)> {
    let (cores, mebibytes, _) = least(role, sno);
    let (found, memory) = (inventory.cpu.count, &inventory.memory);
    let mut all = Vec::new();
    if found < cores {
        all.push(("has-cpu-cores-for-role", format!("{found} CPU cores < {cores}")));
    }
    if !enough(memory, mebibytes) {
        let (found, needed) = (gib(memory.physical_bytes), gib(mebibytes * MIB));
        all.push(("has-memory-for-role", format!("memory {found} < {needed}")));
    }
    let bound = Some((role, sno));
    if eligible_disks(inventory, bound).is_empty() {
        let fixed = |disk: &&Disk| !disk.removable && !disk.is_installation_media;
        let largest = inventory.disks.iter().filter(fixed).max_by_key(|disk| disk.size_bytes);
        let needed = disk_needed(inventory, bound);
        let why = match largest {
            None => "no disk".into(),
            Some(disk) if disk.size_bytes < needed * GB => {
                format!("disk {} < {needed} GB", gigabytes(disk.size_bytes))
            }
            Some(disk) => {
                format!("disk {}: {}", disk.name, disk_problems(disk, inventory, bound).join(", "))
            }
        };
        all.push(("has-min-valid-disks", why));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_little_is_said_with_what_is_needed() {
        let disk = Disk { size_bytes: 60 * GB, ..Disk::default() };
        let inventory = Inventory { disks: vec![disk], ..Inventory::default() };
        let why = ["0 CPU cores < 4", "memory 0.00 GiB < 16.00 GiB", "disk 60 GB < 100 GB"];
        let found = lacks(&inventory, Role::Master, false);
        assert_eq!(found.into_iter().map(|(_, why)| why).collect::<Vec<_>>(), why);
    }
}
