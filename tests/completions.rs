//! Completion: in the shells themselves, on a terminal, and the words that the program offers them.

use crate::sandbox::{Sandbox, has_program};

/// A state with two pools and a claim.
fn prepared_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake");
    sandbox.ok("pool create other --fake");
    sandbox.ok("claim lab ci-17");
    sandbox
}

/// What is typed before TAB, and the line after it.
const TYPED: [(&str, &str); 6] = [
    ("poolctl expl", "poolctl explain"),
    ("poolctl claim o", "poolctl claim other"),
    ("poolctl release c", "poolctl release ci-17"),
    ("poolctl pool sc", "poolctl pool scale"),
    ("poolctl wait pool/o", "poolctl wait pool/other"),
    ("poolctl reconcile --pool=l", "poolctl reconcile --pool=lab"),
];

#[test]
fn bash_and_zsh_complete_on_a_terminal() {
    if !has_program("zsh") {
        return;
    }
    let sandbox = prepared_sandbox();
    for shell in ["bash", "zsh"] {
        let typed = TYPED.map(|(typed, _)| format!("'{typed}'")).join(" ");
        let script = format!("timeout 60 zsh -f tests/completion.zsh {shell} \"$HOME\" {typed}");
        let ran = sandbox.shell(&script);
        let lines = ran.out.lines().map(|line| line.trim_start_matches("line: ").trim());
        let completed: Vec<&str> = lines.collect();
        let expected = TYPED.map(|(_, line)| line);
        assert_eq!(completed, expected, "{shell}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn fish_completes_a_word() {
    if !has_program("fish") {
        return;
    }
    let sandbox = prepared_sandbox();
    for (typed, line) in TYPED {
        let ran = sandbox
            .shell(&format!("fish -c 'source completions/poolctl.fish; complete -C \"{typed}\"'"));
        let expected = line.rsplit(' ').next().unwrap();
        assert_eq!(ran.out.lines().collect::<Vec<_>>(), [expected], "{typed}: {}", ran.err);
    }
}

#[test]
fn the_scripts_are_those_of_the_repository() {
    let sandbox = Sandbox::new();
    for (shell, file) in [("bash", "poolctl.bash"), ("zsh", "_poolctl"), ("fish", "poolctl.fish")] {
        let script = std::fs::read_to_string(format!("completions/{file}")).unwrap();
        assert_eq!(sandbox.ok(&format!("completion {shell}")), script);
    }
}

/// The words that are offered at the end of a line; nothing is said beside them.
fn completions(sandbox: &Sandbox, line: &str) -> Vec<String> {
    // The last word is the one that is completed; it may be empty.
    let (words, last) = line.rsplit_once(' ').unwrap();
    let ran = sandbox.run(&format!("__complete -- {words} '{last}'"));
    assert_eq!(ran.err, "", "{line}");
    ran.out.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn words_come_from_the_state_and_no_message_disturbs_the_line() {
    let sandbox = prepared_sandbox();
    let before = sandbox.all_objects();
    for (line, expected) in [
        ("claim ", &["lab", "other"][..]),
        ("kubeconfig c", &["ci-17"]),
        ("get pool/", &["pool/lab", "pool/other"]),
        ("describe claim ", &["ci-17"]),
        ("-n nowhere claim ", &[]),
        ("claim lab --li", &["--lifetime"]),
        ("explain pool.spec.siz", &["pool.spec.size"]),
        ("explain annotation/wip", &["annotation/wipe"]),
        ("completion ", &["bash", "fish", "zsh"]),
        ("run lab -- ", &[]),
        ("pool create x --platform vs", &["vsphere"]),
        ("--state /nowhere claim ", &[]),
        ("--bogus x y z ", &[]),
        ("claim --wait ", &["lab", "other"]),
    ] {
        assert_eq!(completions(&sandbox, line), expected, "{line}");
    }
    assert_eq!(sandbox.all_objects(), before);
    // A state that cannot be used is no reason for a message either.
    sandbox.write_file("state.db", "this is not a state");
    assert!(completions(&sandbox, "claim ").is_empty());
}
