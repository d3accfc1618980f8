//! The disk that hints of a BareMetalHost mean.

use serde_json::Value;

use crate::model::agent::inventory::{Disk, Inventory};

/// The first disk that all hints fit.
pub fn disk<'a>(found: &'a Inventory, hints: &Value) -> Option<&'a Disk> {
    let hints = hints.as_object()?;
    found.disks.iter().find(|disk| hints.iter().all(|(name, value)| fits(disk, name, value)))
}

fn fits(disk: &Disk, name: &str, value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    let part = |field: &str| field.to_lowercase().contains(&text.to_lowercase());
    match name {
        "deviceName" => disk.is_called(text),
        "hctl" => disk.hctl == text,
        "model" => part(&disk.model),
        "vendor" => part(&disk.vendor),
        "serialNumber" => disk.serial == text,
        "wwn" => disk.wwn == text,
        "minSizeGigabytes" => {
            let least = value.as_u64().unwrap_or_default().saturating_mul(1_000_000_000);
            disk.size_bytes >= least
        }
        "rotational" => value.as_bool().is_none_or(|turns| turns == (disk.drive_type == "HDD")),
        // What is not understood fits nothing: better no disk than a wrong one.
        _ => false,
    }
}
