//! Patches the manifests that an installer has made from an install-config. Reads and writes no
//! files.

use std::collections::BTreeMap;

use glob::{MatchOptions, Pattern};
use serde_json::Value;

use crate::model::customization::ManifestPatch;

use super::patch::{self, PatchRules};

/// As Go's `filepath.Glob` has it, but for `[^...]` and backslashes, which are refused.
const LIKE_GO: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Applies patches to manifests in the order of the patches. `files` are the manifests by their
/// paths below the installer's directory. If one patch fails, none is applied.
pub fn patch_manifests(
    files: &BTreeMap<String, Value>,
    patches: &[ManifestPatch],
    rules: PatchRules<'_>,
) -> Result<BTreeMap<String, Value>, String> {
    let mut manifests = files.clone();
    for manifest_patch in patches {
        let glob = &manifest_patch.manifest_selector.glob;
        let pattern = Pattern::new(glob).map_err(|why| format!("glob `{glob}`: {why}"))?;
        let mut is_any_matched = false;
        for (path, document) in &mut manifests {
            if !pattern.matches_with(path, LIKE_GO) {
                continue;
            }
            patch::apply_patches(document, &manifest_patch.patches, rules)
                .map_err(|why| format!("{path}: {why}"))?;
            is_any_matched = true;
        }
        if !is_any_matched {
            return Err(format!("glob `{glob}` matches no manifest"));
        }
    }
    Ok(manifests)
}
