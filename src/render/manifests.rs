//! Patches of the manifests that an installer has made from an install-config.

use std::collections::BTreeMap;

use glob::{MatchOptions, Pattern};
use serde_json::Value;

use crate::model::customization::ManifestPatch;

use super::patch::{self, Rules};

/// As Go's `filepath.Glob` has it, but for `[^...]` and backslashes, which are refused.
const LIKE_GO: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Manifests by their paths below the installer's directory, patched in this order: all of them,
/// or none and it says why.
pub fn patched(
    files: &BTreeMap<String, Value>,
    patches: &[ManifestPatch],
    rules: Rules<'_>,
) -> Result<BTreeMap<String, Value>, String> {
    let mut result = files.clone();
    for one in patches {
        let glob = &one.manifest_selector.glob;
        let pattern = Pattern::new(glob).map_err(|why| format!("glob `{glob}`: {why}"))?;
        let chosen = result.iter_mut().filter(|(path, _)| pattern.matches_with(path, LIKE_GO));
        let mut many = 0;
        for (path, document) in chosen {
            patch::apply(document, &one.patches, rules).map_err(|why| format!("{path}: {why}"))?;
            many += 1;
        }
        if many == 0 {
            return Err(format!("glob `{glob}` matches no manifest"));
        }
    }
    Ok(result)
}
