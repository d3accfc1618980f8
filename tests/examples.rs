//! The folders of `examples/`: each says in a few lines what it is and how to try it, and all of them
//! together contradict nobody. The commands of the READMEs are run by `chapters`.

use std::path::PathBuf;

use crate::architecture::root;
use crate::sandbox::{Sandbox, jsonpath};

/// What is longer belongs into a chapter of the book.
const LONGEST: usize = 12;

fn folders() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("examples")).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders
}

#[test]
fn each_folder_says_what_it_is() {
    assert!(folders().len() > 10);
    for folder in folders() {
        let readme = folder.join("README.md");
        let text = std::fs::read_to_string(&readme)
            .unwrap_or_else(|error| panic!("{}: {error}", readme.display()));
        let shown = readme.display();
        assert!(text.starts_with("# "), "{shown}");
        assert!(text.lines().count() <= LONGEST, "{shown}");
        assert!(text.lines().filter(|line| !line.is_empty()).count() >= 3, "{shown}");
    }
}

/// Applied one after another, as somebody does who tries all of them: nothing of one is changed by
/// another, and no pool lacks what it names.
#[test]
fn all_folders_fit_into_one_state() {
    let sandbox = Sandbox::new();
    let secret = "echo '{}' | poolctl secret create cloud-creds --from-file=clouds.yaml=- -q";
    assert_eq!(sandbox.shell(secret).code, 0);
    let folders =
        ["pool", "scaling", "credentials", "addresses", "inventory", "agents", "baremetal"];
    for folder in folders {
        let applied = sandbox.ok(&format!("apply --no-reconcile -f examples/{folder}"));
        assert!(!applied.contains("configured"), "{folder}: {applied}");
    }
    sandbox.ok("reconcile --wait -q");
    let path = "{.items[*].status.conditions[?(@.type==\"MissingDependencies\")].status}";
    assert_eq!(jsonpath(&sandbox, "pool", path), "False False False False False");
}

/// Without root, from a folder that has nothing of ours, by absolute paths.
#[test]
fn manifests_are_applied_from_any_folder() {
    for folder in ["pool", "scaling", "inventory", "agents"] {
        let sandbox = Sandbox::new();
        let path = root().join("examples").join(folder);
        let ran = sandbox.shell(&format!("cd / && poolctl apply -f '{}'", path.display()));
        assert_eq!(ran.code, 0, "{folder}: {}", ran.err);
    }
}
