//! Patches of customizations: what a webhook would refuse, and what is worth a word.

use crate::model::customization::{Customization, Op, Patch};

/// What belongs to the pool, not to one of its clusters.
const POOLWIDE: [&str; 2] = ["pullSecret", "sshKey"];

pub fn check(one: &Customization) -> Result<(), String> {
    for (number, patch) in one.spec.install_config_patches.iter().enumerate() {
        check_patch(patch).map_err(|why| format!("patch {number}: {why}"))?;
    }
    for manifest in &one.spec.installer_manifest_patches {
        let glob = &manifest.manifest_selector.glob;
        check_glob(glob).map_err(|why| format!("manifestSelector.glob `{glob}`: {why}"))?;
        for (number, patch) in manifest.patches.iter().enumerate() {
            check_patch(patch).map_err(|why| format!("patch {number} of `{glob}`: {why}"))?;
        }
    }
    Ok(())
}

fn check_patch(patch: &Patch) -> Result<(), String> {
    for pointer in std::iter::once(patch.path.as_str()).chain(patch.from.as_deref()) {
        let escapes = pointer.split('~').skip(1);
        if escapes.into_iter().any(|rest| !rest.starts_with(['0', '1'])) {
            return Err(format!("`{pointer}` is not a JSON pointer: after ~ comes 0 or 1"));
        }
    }
    if matches!(patch.op, Op::Move | Op::Copy) && patch.from.is_none() {
        return Err("move and copy need `from`".into());
    }
    if let Some(text) = patch.value_json.as_deref().filter(|text| !text.is_empty()) {
        serde_json::from_str::<serde_json::Value>(text)
            .map_err(|why| format!("valueJSON: {why}"))?;
    }
    Ok(())
}

/// Manifests lie below the installer's directory.
fn check_glob(glob: &str) -> Result<(), &'static str> {
    if glob.is_empty() {
        return Err("it names no manifests; like manifests/*.yaml");
    }
    if glob.starts_with('/') || glob.split('/').any(|part| part == "..") {
        return Err("it leaves the installer's directory");
    }
    if glob.contains("**") {
        return Err("** is not known; * matches within one directory");
    }
    if glob.contains("[^") || glob.contains('\\') {
        return Err("[^...] and backslashes are not known; [!...] leaves letters out");
    }
    glob::Pattern::new(glob).map(drop).map_err(|error| error.msg)
}

pub fn warnings(one: &Customization) -> Vec<String> {
    let patches = one.spec.install_config_patches.iter();
    let words = patches.flat_map(|one| {
        let taken = one.from.as_deref().filter(|_| one.op == Op::Move);
        let paths = std::iter::once(one.path.as_str()).chain(one.from.as_deref());
        let far = std::iter::once(one.path.as_str()).chain(taken);
        let far = far.filter(|_| one.op != Op::Test).filter_map(too_far);
        paths.filter_map(rootless).chain(far)
    });
    words.map(|text| format!("customization `{}`: {text}", one.metadata.name)).collect()
}

fn rootless(path: &str) -> Option<String> {
    let wrong = !path.is_empty() && !path.starts_with('/');
    wrong.then(|| format!("path `{path}` is read as `/{path}`"))
}

/// A patch that changes more than one cluster should differ in.
fn too_far(path: &str) -> Option<String> {
    let path = path.trim_start_matches('/');
    let mut segments = path.split('/');
    let first = segments.next().unwrap_or_default();
    let kind = path.is_empty() || (first == "platform" && segments.count() < 2);
    if kind {
        let what = "changes what platform a cluster is made on";
        Some(format!("`/{path}` {what}; the pool's driver and credentials stay as they are"))
    } else if POOLWIDE.contains(&first) {
        Some(format!("`/{first}` is the pool's; its clusters should not differ in it"))
    } else {
        None
    }
}
