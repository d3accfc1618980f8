//! `cases/index.txt` says which scenario is tried in which file. It is compared with the files that
//! it names, and with the scenarios themselves where they lie beside the project.

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

/// The ids of a file of scenarios: `P-02` of pools, `A02` of addresses, and `agent-A02` of hosts,
/// whose numbers are those of addresses.
fn scenario_ids(name: &str) -> Vec<String> {
    let scenarios = read_project_file(&format!("../shared/spec/cases/{name}.md"));
    let prefix = if name == "agents" { "agent-" } else { "" };
    let mut ids = Vec::new();
    for line in scenarios.lines() {
        let id = line.split([' ', '.']).next().unwrap_or_default();
        let number = id.trim_start_matches(|letter: char| letter.is_ascii_uppercase());
        let digits = number.strip_prefix('-').unwrap_or(number);
        if digits.len() < id.len() && digits.parse::<u32>().is_ok() {
            ids.push(format!("{prefix}{id}"));
        }
    }
    ids
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
    let mut missing = ["pools", "ipam", "agents"].map(scenario_ids).concat();
    missing.retain(|id| !listed_ids.contains(id));
    assert!(missing.is_empty(), "{missing:?}");
}
