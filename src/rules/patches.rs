//! Validates the patches of customizations: what upstream's webhook would refuse, and warnings
//! about patches that change more than one cluster should. Never applies a patch.

use crate::model::customization::{Customization, Patch, PatchOperation};

/// The fields of an install-config that belong to the pool, not to one of its clusters.
const POOLWIDE: [&str; 2] = ["pullSecret", "sshKey"];

/// The first problem of a customization.
pub fn check(customization: &Customization) -> Result<(), String> {
    for (number, patch) in customization.spec.install_config_patches.iter().enumerate() {
        check_patch(patch).map_err(|why| format!("patch {number}: {why}"))?;
    }
    for manifest in &customization.spec.installer_manifest_patches {
        let glob = &manifest.manifest_selector.glob;
        check_glob(glob).map_err(|why| format!("manifestSelector.glob `{glob}`: {why}"))?;
        for (number, patch) in manifest.patches.iter().enumerate() {
            check_patch(patch).map_err(|why| format!("patch {number} of `{glob}`: {why}"))?;
        }
    }
    Ok(())
}

/// Checks one operation by itself, without the document that it will be applied to.
fn check_patch(patch: &Patch) -> Result<(), String> {
    for pointer in std::iter::once(patch.path.as_str()).chain(patch.from.as_deref()) {
        let mut escapes = pointer.split('~').skip(1);
        if escapes.any(|escape| !escape.starts_with(['0', '1'])) {
            return Err(format!("`{pointer}` is not a JSON pointer: only 0 or 1 may follow ~"));
        }
    }
    if matches!(patch.op, PatchOperation::Move | PatchOperation::Copy) && patch.from.is_none() {
        return Err("move and copy need `from`".into());
    }
    match patch.value_json.as_deref() {
        None | Some("") => Ok(()),
        Some(json) => serde_json::from_str::<serde_json::Value>(json)
            .map(drop)
            .map_err(|why| format!("valueJSON: {why}")),
    }
}

/// Globs are as Go has them, and match manifests below the installer's directory only.
fn check_glob(glob: &str) -> Result<(), &'static str> {
    if glob.is_empty() {
        return Err("it is empty; an example is manifests/*.yaml");
    }
    if glob.starts_with('/') || glob.split('/').any(|part| part == "..") {
        return Err("it leads out of the installer's directory");
    }
    if glob.contains("**") {
        return Err("** is not supported; * matches within one directory");
    }
    if glob.contains("[^") || glob.contains('\\') {
        return Err("[^...] and backslashes are not supported; [!...] excludes letters");
    }
    glob::Pattern::new(glob).map(drop).map_err(|error| error.msg)
}

/// What is accepted, but probably not what was meant.
pub fn warnings(customization: &Customization) -> Vec<String> {
    let name = &customization.metadata.name;
    let patches = customization.spec.install_config_patches.iter();
    patches
        .flat_map(patch_warnings)
        .map(|warning| format!("customization `{name}`: {warning}"))
        .collect()
}

/// What of an operation works otherwise than it seems, or touches what all clusters of the pool
/// share.
fn patch_warnings(patch: &Patch) -> Vec<String> {
    let target = patch.path.as_str();
    let from = patch.from.as_deref();
    let mut warnings = Vec::new();
    for pointer in [Some(target), from].into_iter().flatten() {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            warnings.push(format!("path `{pointer}` is read as `/{pointer}`"));
        }
    }
    if patch.op != PatchOperation::Test {
        warnings.extend(warn_of_poolwide_change(target));
    }
    if patch.op == PatchOperation::Move {
        warnings.extend(from.and_then(warn_of_poolwide_change));
    }
    warnings
}

/// Warns of a change of what the clusters of a pool should have in common.
fn warn_of_poolwide_change(pointer: &str) -> Option<String> {
    let path = pointer.trim_start_matches('/');
    let mut segments = path.split('/');
    let first = segments.next().unwrap_or_default();
    let is_whole_platform = path.is_empty() || (first == "platform" && segments.count() < 2);
    if is_whole_platform {
        let change = "changes the platform of the cluster";
        Some(format!("`/{path}` {change}; the pool's driver and credentials stay as they are"))
    } else if POOLWIDE.contains(&first) {
        Some(format!("`/{first}` belongs to the pool; all its clusters should have the same value"))
    } else {
        None
    }
}
