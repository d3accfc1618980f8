//! The laws of the architecture that can be checked by reading the code: who may name whom, what is
//! done in one room only, how long files are, that no test file is forgotten.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use poolctl::model::refusal::Exit;

const LONGEST: usize = 600;

/// The rooms that each room may name.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("main", &["commands"]),
    (
        "commands",
        &[
            "edits",
            "causes",
            "manifest",
            "reconcile",
            "plan",
            "rules",
            "render",
            "store",
            "drivers",
            "output",
            "model",
            "world",
            "yaml",
        ],
    ),
    ("edits", &["plan", "rules", "render", "model"]),
    ("causes", &["plan", "rules", "render", "model"]),
    ("manifest", &["rules", "model", "yaml"]),
    ("reconcile", &["plan", "rules", "store", "drivers", "output", "model", "world", "yaml"]),
    ("plan", &["rules", "render", "model"]),
    ("rules", &["model"]),
    ("render", &["model", "yaml"]),
    ("store", &["model"]),
    // A supervisor writes what an installer reads.
    ("drivers", &["render", "model", "yaml"]),
    ("output", &["model", "yaml"]),
    ("world", &["model"]),
    ("yaml", &["model"]),
];

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files of Rust in a folder and the folders in it, in order.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn the_files_to_be_checked_are_found() {
    assert!(rust_files(&root().join("src")).len() > 50);
    assert!(rust_files(&root().join("tests")).len() > 5);
}

/// The room a file is in, and its code without comments.
fn room_and_code(path: &Path) -> (String, String) {
    let relative = path.strip_prefix(root().join("src")).unwrap();
    let first = relative.components().next().unwrap().as_os_str().to_string_lossy();
    let source = std::fs::read_to_string(path).unwrap();
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    (first.trim_end_matches(".rs").to_owned(), code.collect::<Vec<_>>().join("\n"))
}

/// The name that a path begins with.
fn first_name(path: &str) -> &str {
    let end = path.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &path[..end.unwrap_or(path.len())]
}

/// Every name that follows a prefix such as `crate::`.
fn names_after<'a>(code: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for path in code.split(prefix).skip(1) {
        names.insert(first_name(path));
        // `use crate::{a, b::c};`
        if let Some(group) = path.strip_prefix('{') {
            let branches = group.split('}').next().unwrap_or_default();
            names.extend(branches.split(',').map(|branch| first_name(branch.trim())));
        }
    }
    names.remove("");
    names
}

#[test]
fn rooms_name_only_the_rooms_they_may() {
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("src")) {
        let (room, code) = room_and_code(&path);
        if room == "lib" {
            continue;
        }
        let row = MAY_USE.iter().find(|(name, _)| *name == room);
        let allowed = row.map_or(&[][..], |(_, rooms)| rooms);
        let mut names = names_after(&code, "crate::");
        names.extend(names_after(&code, "poolctl::"));
        for name in names {
            if name != room && !allowed.contains(&name) {
                wrong.push(format!("{} names {name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_one_rooms_work_is_done_there_alone() {
    // What the code may contain, and in which rooms.
    let only: [(&str, &[&str]); 10] = [
        ("rusqlite", &["store"]),
        ("serde_saphyr", &["yaml"]),
        ("SystemTime::now", &["world"]),
        ("env::var", &["world"]),
        ("process::Command", &["drivers"]),
        ("std::fs", &["store", "drivers", "commands", "manifest", "world"]),
        ("comfy_table", &["output"]),
        // A command returns values; how a format shows them is written once.
        ("Format::Json", &["output"]),
        ("Format::Name", &["output"]),
        ("getrandom", &["world"]),
    ];
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("src")) {
        let (room, code) = room_and_code(&path);
        for (words, rooms) in &only {
            if code.contains(words) && !rooms.contains(&room.as_str()) {
                wrong.push(format!("{} has {words}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn annotations_are_declared_in_one_list() {
    let declarations = root().join("src/model/annotations.rs");
    // A version of the API and a finalizer begin like annotations.
    let others = ["poolctl.dev/v1\"", "poolctl.dev/cluster\""];
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("src")).into_iter().filter(|path| *path != declarations) {
        let (_, code) = room_and_code(&path);
        // Examples in help and in tests of a file name annotations as people do.
        let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
        for name in code.split("\"poolctl.dev/").skip(1).map(|rest| format!("poolctl.dev/{rest}")) {
            if !others.iter().any(|other| name.starts_with(other)) {
                let name = name.split('"').next().unwrap_or_default();
                wrong.push(format!("{} names {name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn events_have_declared_reasons() {
    for path in rust_files(&root().join("src")) {
        let (_, code) = room_and_code(&path);
        assert!(!code.contains("reason: \""), "{} makes up a reason", path.display());
    }
}

#[test]
fn every_exit_code_is_in_the_table_for_people() {
    let page = std::fs::read_to_string(root().join("docs/reference/exit-codes.md")).unwrap();
    for exit in Exit::ALL {
        let row = format!("| {} | {} |", *exit as u8, exit.meaning());
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn files_are_not_too_long_and_say_what_they_are_about() {
    let mut wrong = Vec::new();
    for path in ["src", "tests"].into_iter().flat_map(|folder| rust_files(&root().join(folder))) {
        let source = std::fs::read_to_string(&path).unwrap();
        let lines = source.lines().count();
        if lines > LONGEST {
            wrong.push(format!("{} has {lines} lines", path.display()));
        }
        if !source.starts_with("//!") {
            wrong.push(format!("{} does not say what it is about", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether a file beside this one has it as a module, as a target of several files does.
fn is_part_of_neighbour(path: &Path, name: &str) -> bool {
    let neighbours = rust_files(path.parent().unwrap());
    neighbours.iter().any(|neighbour| {
        let code = std::fs::read_to_string(neighbour).unwrap();
        code.lines().any(|line| line == format!("mod {name};"))
    })
}

#[test]
fn no_test_file_is_forgotten() {
    let tests = root().join("tests");
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for path in rust_files(&tests) {
        let name = path.file_stem().unwrap().to_string_lossy();
        let relative_path = path.strip_prefix(root()).unwrap().display();
        // A target of its own, or a module of the one binary or of a folder of it.
        let is_target = manifest.contains(&format!("path = \"{relative_path}\""));
        assert!(
            is_target || is_module_of_tests(&path, &tests) || is_part_of_neighbour(&path, &name),
            "{relative_path} is named neither by the modules of tests/main.rs nor in Cargo.toml"
        );
    }
}

/// Whether a file is named by the module above it: those in a folder by its `mod.rs`, the others by
/// `main.rs`.
fn is_module_of_tests(path: &Path, tests: &Path) -> bool {
    let folder = path.parent().unwrap();
    let is_folder_itself = path.ends_with("mod.rs");
    let name = if is_folder_itself { folder.file_name() } else { path.file_stem() };
    let is_of_main = folder == tests || is_folder_itself;
    let parent = if is_of_main { tests.join("main.rs") } else { folder.join("mod.rs") };
    let code = std::fs::read_to_string(parent).unwrap_or_default();
    code.contains(&format!("mod {};", name.unwrap().to_string_lossy()))
}

#[test]
fn a_secret_value_cannot_be_printed() {
    let code = std::fs::read_to_string(root().join("src/model/documents.rs")).unwrap();
    assert!(!code.contains("Display for SecretValue"));
    let value = poolctl::model::documents::SecretValue::new("hunter2");
    assert!(!format!("{value:?}").contains("hunter2"));
    // `reveal` is for code that writes a value somewhere safe.
    for path in rust_files(&root().join("src")) {
        let (room, code) = room_and_code(&path);
        let may_reveal = ["store", "render", "model"].contains(&room.as_str())
            || path.ends_with("commands/cluster/credentials.rs")
            || path.ends_with("commands/create.rs")
            || path.ends_with("commands/export.rs")
            || path.ends_with("commands/infraenv/iso/make.rs")
            || path.ends_with("commands/cluster/extract.rs")
            || path.ends_with("edits/secrets.rs")
            || path.ends_with("drivers/job_folder.rs");
        assert!(may_reveal || !code.contains(".reveal()"), "{} reveals", path.display());
    }
}

/// What is assigned or called when a lease changes hands.
const CHANGES_OF_HANDS: [&str; 5] =
    [".holder = ", ".bound_to = ", ".consumer_ref = ", "ip_leases.insert(", "ip_leases.remove("];

#[test]
fn plan_grants_and_returns_what_is_leased_in_one_place() {
    let mut lines = Vec::new();
    for path in rust_files(&root().join("src/plan")) {
        // A claim that everybody has let go of was its owner's, not a cluster's.
        if path.ends_with("plan/leases.rs") || path.ends_with("plan/addresses.rs") {
            continue;
        }
        let code = std::fs::read_to_string(&path).unwrap();
        for line in code.lines() {
            if CHANGES_OF_HANDS.iter().any(|change| line.contains(change)) {
                lines.push(format!("{}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}
