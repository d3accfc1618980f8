//! What must hold after any fault: which objects there are, what `doctor` says, and that the next
//! pass and the next command go on.

use std::collections::{BTreeMap, BTreeSet};

use poolctl::model::kinds::Kind;
use serde_json::Value;

use crate::sandbox::{Sandbox, pause};

/// The names of all objects of a state, as `namespace/name`, by their kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census(BTreeMap<String, BTreeSet<String>>);

impl Census {
    /// Counts the objects of a state; the error says why it cannot be exported.
    pub fn take(sandbox: &Sandbox) -> Result<Self, String> {
        let ran = sandbox.run("export -q -o json");
        if ran.code != 0 {
            return Err(format!("the state cannot be exported: {} {}", ran.code, ran.err));
        }
        Ok(Self::read(&ran.out))
    }

    fn read(export: &str) -> Self {
        let list: Value = serde_json::from_str(export).unwrap_or_default();
        let mut census = Self::default();
        for item in list["items"].as_array().into_iter().flatten() {
            // Jobs are records of what was done, which come and go with passes.
            if item["kind"] == Kind::Job.name() {
                continue;
            }
            let metadata = &item["metadata"];
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = format!("{}/{}", word(&metadata["namespace"]), word(&metadata["name"]));
            census.0.entry(word(&item["kind"])).or_default().insert(name);
        }
        census
    }

    /// Every object, as `Kind namespace/name`.
    pub fn objects(&self) -> BTreeSet<String> {
        let mut objects = BTreeSet::new();
        for (kind, names) in &self.0 {
            objects.extend(names.iter().map(|name| format!("{kind} {name}")));
        }
        objects
    }

    /// The kinds of which there are more than in either of two others.
    pub fn kinds_with_more_than(&self, before: &Self, after: &Self) -> Vec<String> {
        let mut kinds = Vec::new();
        for (kind, names) in &self.0 {
            let most = before.count(kind).max(after.count(kind));
            if names.len() > most {
                kinds.push(format!("{} of {kind}, never more than {most} expected", names.len()));
            }
        }
        kinds
    }

    fn count(&self, kind: &str) -> usize {
        self.0.get(kind).map_or(0, BTreeSet::len)
    }
}

/// The last word of an object: its name without kind and namespace.
pub fn name_of(object: &str) -> &str {
    object.rsplit('/').next().unwrap_or_default()
}

/// What is wrong with a state that was in use when something failed: a pass must go on, `doctor`
/// must be content but for what it found before, and a further change must be possible.
pub fn find_problems(sandbox: &Sandbox, accepted: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let ran = sandbox.run("reconcile -q");
    if ![0, 1].contains(&ran.code) {
        problems.push(format!("the next pass ends with {}: {}", ran.code, ran.err));
    }
    if find_complaints(sandbox).iter().any(|complaint| !accepted.contains(complaint)) {
        // What a killed command has left is litter after a second, and the next change sweeps it.
        pause(1100);
        sandbox.run("create namespace after-the-fault -q");
    }
    for problem in find_complaints(sandbox) {
        if !accepted.contains(&problem) {
            problems.push(format!("doctor: {problem}"));
        }
    }
    problems.extend(find_unreadable_states(sandbox));
    let ran = sandbox.run("create namespace after-the-fault -q");
    // It may be there since the last fault.
    if ![0, 4].contains(&ran.code) {
        problems.push(format!("the next change ends with {}: {}", ran.code, ran.err));
    }
    problems
}

/// Other states and backups in the folder of a state that cannot be read. What a killed command has
/// left under a name with a dot in front is neither.
fn find_unreadable_states(sandbox: &Sandbox) -> Vec<String> {
    let mut problems = Vec::new();
    for folder in [sandbox.path().to_owned(), sandbox.path().join("backups")] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            let is_state = path.extension().is_some_and(|extension| extension == "db");
            if is_hidden || !is_state || path == sandbox.state() {
                continue;
            }
            let ran = sandbox.run(&format!("--state {} export -q", path.display()));
            if ran.code != 0 {
                problems.push(format!("{} cannot be read: {}", path.display(), ran.err));
            }
        }
    }
    problems
}

/// What `doctor` complains of: a check and its detail.
pub fn find_complaints(sandbox: &Sandbox) -> BTreeSet<String> {
    let ran = sandbox.run("doctor -o json");
    let mut complaints = BTreeSet::new();
    let list: Result<Value, _> = serde_json::from_str(&ran.out);
    let Ok(list) = list else {
        complaints.insert(format!("{}: {}", ran.code, ran.err));
        return complaints;
    };
    for item in list["items"].as_array().into_iter().flatten() {
        if item["state"] != "ok" {
            complaints.insert(format!("{} {}", item["check"], item["detail"]));
        }
    }
    complaints
}

#[test]
fn objects_are_counted_by_their_kinds() {
    let export = r#"{"items": [{"kind": "A", "metadata": {"name": "a", "namespace": "n"}},
        {"kind": "A", "metadata": {"name": "b"}}]}"#;
    let census = Census::read(export);
    assert_eq!(census.objects().into_iter().collect::<Vec<_>>(), ["A /b", "A n/a"]);
    assert_eq!(name_of("A n/a"), "a");
    let more = census.kinds_with_more_than(&Census::default(), &Census::default());
    assert_eq!(more, ["2 of A, never more than 0 expected"]);
    assert!(census.kinds_with_more_than(&Census::default(), &census).is_empty());
}
