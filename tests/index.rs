//! Which scenario is tried where: `cases/index.txt` against the files it names, and against the
//! scenarios themselves where they lie beside the project.

use std::collections::BTreeSet;
use std::path::Path;

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_default()
}

/// Whether a number stands in a text, not as the beginning of another.
fn names(text: &str, id: &str) -> bool {
    text.match_indices(id)
        .any(|(at, _)| !text[at + id.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

/// The numbers of a file of scenarios: `P-02` of pools, `A02` of addresses, and `agent-A02` of hosts,
/// whose numbers are those of addresses.
fn numbers(name: &str) -> Vec<String> {
    let text = text(&format!("../shared/spec/cases/{name}.md"));
    let front = if name == "agents" { "agent-" } else { "" };
    let numbered = |id: &&str| {
        let number = id.trim_start_matches(|letter: char| letter.is_ascii_uppercase());
        let number = number.strip_prefix('-').unwrap_or(number);
        number.len() < id.len() && number.parse::<u32>().is_ok()
    };
    let all = text.lines().filter_map(|line| line.split([' ', '.']).next());
    all.filter(numbered).map(|id| format!("{front}{id}")).collect()
}

#[test]
fn every_scenario_is_tried_or_said_not_to_be() {
    let index = text("tests/cases/index.txt");
    let mut known = BTreeSet::new();
    for row in index.lines().filter(|row| !row.starts_with('#')) {
        let (ids, place) = row.split_once(" | ").unwrap_or_else(|| panic!("{row}"));
        let place = place.trim();
        let why = place.strip_prefix("- | ");
        assert!(
            why.is_some_and(|why| why.len() > 10)
                || place.ends_with("rs")
                || place.ends_with("txt"),
            "{row}"
        );
        let tried = text(&format!("tests/{place}"));
        for id in ids.split(' ') {
            assert!(why.is_some() || names(&tried, id), "{id} is not in {place}");
            assert!(known.insert(id.to_owned()), "{id} comes twice");
        }
    }
    let all: Vec<String> = ["pools", "ipam", "agents"].into_iter().flat_map(numbers).collect();
    let missing: Vec<&String> = all.iter().filter(|id| !known.contains(*id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
