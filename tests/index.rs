//! `cases/index.txt` says which scenario is tried in which file. It is compared with the files that
//! it names.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cases::rows;

/// A file of the project; empty if there is none.
fn read_project_file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_default()
}

/// Whether an id stands in a file as a whole, and not as the beginning of a longer one.
fn has_id(content: &str, id: &str) -> bool {
    content
        .match_indices(id)
        .any(|(start, _)| !content[start + id.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

#[test]
fn every_scenario_is_tried_or_has_a_reason_why_not() {
    let index = read_project_file("tests/cases/index.txt");
    let mut listed_ids = BTreeSet::new();
    for row in rows(&index) {
        let (ids, place) = row.split_once(" | ").unwrap_or_else(|| panic!("{row}"));
        let place = place.trim();
        let reason = place.strip_prefix("- | ");
        let has_reason = reason.is_some_and(|reason| reason.len() > 10);
        assert!(has_reason || place.ends_with("rs") || place.ends_with("txt"), "{row}");
        let content = read_project_file(&format!("tests/{place}"));
        for id in ids.split(' ') {
            assert!(reason.is_some() || has_id(&content, id), "{id} is not in {place}");
            assert!(listed_ids.insert(id.to_owned()), "{id} comes twice");
        }
    }
}
