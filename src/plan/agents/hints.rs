//! Root device hints of a `BareMetalHost`: which disk of a machine they mean.

use serde_json::Value;

use crate::model::agent::inventory::{Disk, Inventory};

/// The first disk of a machine that fits all hints; none if `hints` is no object.
pub fn find_disk<'a>(inventory: &'a Inventory, hints: &Value) -> Option<&'a Disk> {
    let named_hints = hints.as_object()?;
    inventory
        .disks
        .iter()
        .find(|disk| named_hints.iter().all(|(name, value)| fits(disk, name, value)))
}

/// Whether a disk fits one hint of metal3, by the name of the hint. Sizes are in units of 10^9
/// bytes.
fn fits(disk: &Disk, name: &str, value: &Value) -> bool {
    let wanted = value.as_str().unwrap_or_default();
    match name {
        "deviceName" => disk.is_named(wanted),
        "hctl" => disk.hctl == wanted,
        "model" => contains_ignoring_case(&disk.model, wanted),
        "vendor" => contains_ignoring_case(&disk.vendor, wanted),
        "serialNumber" => disk.serial == wanted,
        "wwn" => disk.wwn == wanted,
        "minSizeGigabytes" => {
            let min_bytes = value.as_u64().unwrap_or_default().saturating_mul(1_000_000_000);
            disk.size_bytes >= min_bytes
        }
        "rotational" => {
            let is_rotational = disk.drive_type == "HDD";
            value.as_bool().is_none_or(|wanted| wanted == is_rotational)
        }
        // A hint that is not understood fits no disk: better no disk than a wrong one.
        _ => false,
    }
}

fn contains_ignoring_case(field: &str, wanted: &str) -> bool {
    field.to_lowercase().contains(&wanted.to_lowercase())
}
