//! The reference of the book is made from the code: its pages are current, `explain` prints the same,
//! and what the code does not declare in tables is at least named. `POOLCTL_BLESS=1` writes the
//! pages.

use std::collections::BTreeSet;
use std::path::PathBuf;

use poolctl::model::job::Verb;

use crate::architecture::root;
use crate::pages::is_blessed;
use crate::sandbox::Sandbox;

fn folder() -> PathBuf {
    root().join("docs/reference")
}

/// The text of a page as the code makes it.
fn page(name: &str) -> String {
    let mut pages = poolctl::commands::reference_pages().into_iter();
    pages.find(|(page_name, _)| *page_name == name).unwrap().1
}

/// The cells of the rows of all tables of a page, without headings.
fn rows(page: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells = line.trim_matches('|').split(" | ");
        rows.push(cells.map(|cell| cell.trim().trim_matches('`').to_owned()).collect());
    }
    rows
}

#[test]
fn the_pages_of_the_reference_are_current() {
    let pages = poolctl::commands::reference_pages();
    if is_blessed() {
        std::fs::create_dir_all(folder()).unwrap();
        for (name, text) in &pages {
            std::fs::write(folder().join(name), text).unwrap();
        }
    }
    for (name, text) in &pages {
        let written = std::fs::read_to_string(folder().join(name)).unwrap_or_default();
        assert!(written == *text, "docs/reference/{name} is old: POOLCTL_BLESS=1 writes it anew");
    }
    let entries = std::fs::read_dir(folder()).unwrap();
    let files: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let names: BTreeSet<String> = pages.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, names);
}

#[test]
fn explain_prints_of_an_annotation_what_the_reference_has() {
    let sandbox = Sandbox::new();
    let page = page("annotations.md");
    let mut sections = page.split("\n## ");
    sections.next();
    let mut annotations = 0;
    for section in sections {
        let name = section.lines().next().unwrap();
        let shown = sandbox.ok(&format!("explain annotation/{name}"));
        for fact in section.lines().filter_map(|line| line.strip_prefix("- ")) {
            assert!(shown.contains(&fact.replace('`', "")), "{name}: {fact}: {shown}");
        }
        annotations += 1;
    }
    assert!(annotations > 40, "{annotations}");
    let short = sandbox.ok("explain annotation/wipe");
    assert_eq!(short, sandbox.ok("explain annotation/poolctl.dev/wipe"));
}

#[test]
fn explain_prints_of_conditions_and_events_what_the_reference_has() {
    let sandbox = Sandbox::new();
    for (page_name, topic) in [("conditions.md", "condition"), ("events.md", "event")] {
        let rows = rows(&page(page_name));
        assert!(rows.len() > 90, "{page_name}: {}", rows.len());
        for row in rows {
            let [name, facts @ ..] = row.as_slice() else { panic!("{row:?}") };
            let shown = sandbox.ok(&format!("explain {topic}/{name}"));
            for fact in facts {
                assert!(shown.contains(fact.as_str()), "{name}: {fact}: {shown}");
            }
        }
    }
}

#[test]
fn explain_prints_exit_codes_and_metrics_and_what_hive_declares() {
    let sandbox = Sandbox::new();
    let busy = sandbox.ok("explain exit-code/7");
    assert!(busy.contains("EXIT CODE: 7\n") && busy.contains("holds the write lock"), "{busy}");
    assert!(sandbox.ok("explain exit-codes").starts_with("exit code 0\n  Success.\n"));
    sandbox.refused(3, "explain exit-code/99", "there is no exit-code `99`");
    for row in rows(&page("metrics.md")) {
        let shown = sandbox.ok(&format!("explain metric/{}", row[0]));
        assert!(shown.contains(row[2].trim_end_matches('.')), "{row:?}: {shown}");
    }
    let foreign = sandbox.ok("explain annotation/hive.openshift.io/fake-cluster");
    assert!(foreign.contains("on: ClusterDeployment"), "{foreign}");
    for name in ["cluster.x-k8s.io/paused", "reboot.metal3.io"] {
        assert!(page("annotations.md").contains(&format!("\n## {name}\n")), "{name}");
    }
    let commands = page("commands.md");
    assert!(commands.contains("\n## poolctl auth\n"), "{commands}");
    assert!(commands.contains("| `poolctl whoami` | `poolctl auth whoami` |"), "{commands}");
    assert!(!commands.contains("__complete"), "{commands}");
}

#[test]
fn what_is_both_a_condition_and_a_reason_is_explained_as_both() {
    let shown = Sandbox::new().ok("explain condition/available");
    assert!(shown.contains("CONDITION: Available\n"), "{shown}");
    assert!(shown.contains("REASON: Available\n"), "{shown}");
}

#[test]
fn a_word_that_is_not_declared_is_refused_with_the_nearest() {
    let sandbox = Sandbox::new();
    sandbox.refused(3, "explain annotation/wip", "did you mean `wipe`?");
    sandbox.refused(3, "explain condition/Degradedd", "did you mean `Degraded`?");
    sandbox.refused(3, "explain event/xyzzyxyzzy", "next: poolctl explain event.reason");
    let document = sandbox.ok("explain condition/CloudAway -o json");
    assert!(document.contains("\"mendedBy\": \"an admin of the machines"), "{document}");
    let listed = sandbox.ok("explain annotations");
    assert!(listed.contains("annotation poolctl.dev/wipe\n  How disks"), "{listed}");
}

/// Every word for which something may be wrong says who mends it.
#[test]
fn whatever_has_a_next_command_has_somebody_who_types_it() {
    for page_name in ["conditions.md", "events.md"] {
        for row in rows(&page(page_name)) {
            let has_command = row.last().is_some_and(|command| command.starts_with("poolctl "));
            assert!(!has_command || !row[2].starts_with("nobody"), "{row:?}");
        }
    }
}

/// The names of variables in a file of the code that begin with `POOLCTL_`.
fn variables_in(path: &str) -> BTreeSet<String> {
    let code = std::fs::read_to_string(root().join(path)).unwrap();
    let mut variables = BTreeSet::new();
    for rest in code.split("\"POOLCTL_").skip(1) {
        let name = rest.split('"').next().unwrap();
        if name.bytes().all(|letter| letter.is_ascii_uppercase() || letter == b'_') {
            variables.insert(format!("POOLCTL_{name}"));
        }
    }
    variables
}

/// The names that JSON has for the fields of a struct in a file of the code.
fn fields_in(path: &str, name: &str) -> Vec<String> {
    let code = std::fs::read_to_string(root().join(path)).unwrap();
    let (_, rest) = code.split_once(&format!("pub struct {name} {{\n")).unwrap();
    let (body, _) = rest.split_once("\n}").unwrap();
    let mut fields = Vec::new();
    let mut name_on_wire = None;
    for line in body.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[serde(rename = \"") {
            name_on_wire = rest.split('"').next();
        } else if let Some(rest) = line.strip_prefix("pub ") {
            let field = rest.split(':').next().unwrap();
            fields.push(name_on_wire.take().unwrap_or(field).to_owned());
        }
    }
    fields
}

#[test]
fn the_contract_of_drivers_has_whatever_a_driver_gets_and_may_leave() {
    let page = page("driver-contract.md");
    let mut names: Vec<String> =
        variables_in("src/drivers/driver_program.rs").into_iter().collect();
    names.extend(variables_in("src/drivers/task.rs"));
    assert!(names.len() > 8, "{names:?}");
    names.extend(fields_in("src/drivers/driver_program.rs", "DriverResult"));
    names.extend(fields_in("src/model/driver_description.rs", "DriverDescription"));
    assert!(names.contains(&"infraID".to_owned()) && names.contains(&"verbs".to_owned()));
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    // Only the controllers of hosts are told these.
    let verbs_of_controllers = [Verb::Cycle, Verb::State, Verb::Attach, Verb::Eject, Verb::Inspect];
    for verb in Verb::ALL {
        let is_listed = page.contains(&format!("| `{}` |", verb.name()));
        assert_eq!(is_listed, !verbs_of_controllers.contains(verb), "{}", verb.name());
    }
}

#[test]
fn every_variable_that_is_read_is_in_the_book() {
    let code = std::fs::read_to_string(root().join("src/world.rs")).unwrap();
    let (_, list) = code.split_once("const VARIABLES").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let chapter = std::fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let variables: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(variables.len() > 10, "{variables:?}");
    for variable in variables {
        assert!(chapter.contains(&format!("`{variable}`")), "{variable}");
    }
}

/// Whether a name fits the beginning of a path in which capitals stand for what differs.
fn fits(name: &str, path: &str) -> bool {
    let first = path.split('/').next().unwrap();
    match first.find(|letter: char| letter.is_ascii_uppercase()) {
        Some(start) => name.starts_with(&first[..start]),
        None => name == first,
    }
}

#[test]
fn each_file_beside_a_state_is_in_the_reference() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab ci-1 -q");
    sandbox.ok("kubeconfig ci-1");
    sandbox.ok("reconcile --wait -q");
    let rows = rows(&page("files.md"));
    let mut files = 0;
    for entry in std::fs::read_dir(sandbox.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(rows.iter().any(|row| fits(&name, &row[0])), "{name}");
        files += 1;
    }
    assert!(files > 3, "{files}");
    assert!(fits("state.db.schema-5", "state.db.schema-N") && !fits("other", "jobs/ID/"));
}
