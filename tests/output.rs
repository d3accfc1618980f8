//! Every command prints in the format that is asked for: its examples are run with `-o json` and
//! with `-q`. Commands whose output has its own format are listed here, each with its reason.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde_json::{Deserializer, Value};

use crate::everywhere::{assert_succeeded, run_examples};

/// Commands that print the same in every format, each with the reason.
const RAW: [(&str, &str); 8] = [
    ("agent ssh", "its output is a line of authorized_keys, or a message that a host reads"),
    ("completion", "its output is a script that a shell reads"),
    ("edit", "the editor has the terminal"),
    ("export", "its output is for `import`: a List in YAML, or in JSON with -o json"),
    ("extract", "a value goes to stdout as it is"),
    ("job logs", "its output is what other programs printed"),
    ("metrics", "its output is text for Prometheus"),
    ("run", "its output is that of the command it runs"),
];

/// Most examples print something; the others have nothing to do on the state of this test.
const LEAST_ANSWERS: usize = 60;

fn is_raw(path: &[String]) -> bool {
    let command = path.join(" ");
    RAW.iter().any(|(raw, _)| *raw == command)
}

#[test]
fn every_command_prints_json() {
    let answered = Cell::new(0);
    let seen = RefCell::new(BTreeSet::new());
    run_examples("poolctl() { command poolctl -o json \"$@\"; }", |path, example, ran| {
        assert_succeeded(path, example, ran);
        seen.borrow_mut().insert(path.join(" "));
        if is_raw(path) {
            return;
        }
        let documents: Result<Vec<Value>, _> =
            Deserializer::from_str(&ran.out).into_iter().collect();
        let documents = documents.unwrap_or_else(|error| panic!("{example}: {error}\n{}", ran.out));
        // A program that reads the output of one command finds one document.
        let commands = example.matches("poolctl ").count();
        assert!(documents.len() <= commands, "{example}: {}", ran.out);
        answered.set(answered.get() + usize::from(!documents.is_empty()));
    });
    assert!(answered.get() >= LEAST_ANSWERS, "{} commands answer in JSON", answered.get());
    for (command, reason) in RAW {
        assert!(seen.borrow().contains(command), "there is no command {command}: {reason}");
    }
}

#[test]
fn every_quiet_command_prints_names_alone() {
    run_examples("poolctl() { command poolctl -q \"$@\"; }", |path, example, ran| {
        assert_succeeded(path, example, ran);
        for line in ran.out.lines() {
            let is_name = !line.is_empty() && !line.contains(' ');
            assert!(is_raw(path) || is_name, "{example}: {}", ran.out);
        }
    });
}
