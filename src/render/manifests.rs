//! Patches of the manifests that an installer has made from an install-config.

use std::collections::BTreeMap;

use glob::{MatchOptions, Pattern};

use crate::model::customization::ManifestPatch;
use crate::yaml;

use super::patch::{self, Rules};

/// As Go's `filepath.Glob`.
const LIKE_GO: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Manifests by their paths below the installer's directory. The pool-wide customization comes
/// first, so that what the inventory's says holds. All are patched, or none and it says why.
pub fn patched(
    files: &BTreeMap<String, String>,
    patches: &[ManifestPatch],
    rules: Rules<'_>,
) -> Result<BTreeMap<String, String>, String> {
    let mut result = files.clone();
    for one in patches {
        let glob = &one.manifest_selector.glob;
        let pattern = Pattern::new(glob).map_err(|why| format!("glob `{glob}`: {why}"))?;
        let mut many = 0;
        for (path, text) in &mut result {
            if !pattern.matches_with(path, LIKE_GO) {
                continue;
            }
            let about = |why: String| format!("{path}: {why}");
            let mut document = yaml::value(text).map_err(|why| about(why.to_string()))?;
            patch::apply(&mut document, &one.patches, rules).map_err(about)?;
            *text = yaml::text(&document).map_err(|why| about(why.to_string()))?;
            many += 1;
        }
        if many == 0 {
            return Err(format!("glob `{glob}` matches no manifest"));
        }
    }
    Ok(result)
}
