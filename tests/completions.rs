//! Completion: in the shells themselves, on a terminal, and what they are told.

use crate::sandbox::{Sandbox, has};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake");
    sandbox.ok("pool create other --fake");
    sandbox.ok("claim lab ci-17");
    sandbox
}

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
    if !has("zsh") {
        return;
    }
    let sandbox = sandbox();
    for shell in ["bash", "zsh"] {
        let lines: Vec<String> = TYPED.iter().map(|(typed, _)| format!("'{typed}'")).collect();
        let script =
            format!("timeout 60 zsh -f tests/completion.zsh {shell} \"$HOME\" {}", lines.join(" "));
        let ran = sandbox.shell(&script);
        let shown: Vec<&str> =
            ran.out.lines().map(|line| line.trim_start_matches("line: ").trim()).collect();
        let expected: Vec<&str> = TYPED.iter().map(|(_, line)| *line).collect();
        assert_eq!(shown, expected, "{shell}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn fish_completes() {
    if !has("fish") {
        return;
    }
    let sandbox = sandbox();
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
        let text = std::fs::read_to_string(format!("completions/{file}")).unwrap();
        assert_eq!(sandbox.ok(&format!("completion {shell}")), text);
    }
}

#[test]
fn words_come_from_the_state_and_nothing_is_ever_said() {
    let sandbox = sandbox();
    let words = |line: &str| {
        let arguments = ["__complete", "--"].into_iter().chain(line.split(' '));
        let ran = sandbox.run(&arguments.collect::<Vec<_>>());
        assert_eq!(ran.err, "", "{line}");
        ran.out.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let before = sandbox.objects();
    for (line, expected) in [
        ("claim ", &["lab", "other"][..]),
        ("kubeconfig c", &["ci-17"]),
        ("get pool/", &["pool/lab", "pool/other"]),
        ("describe claim ", &["ci-17"]),
        ("-n nowhere claim ", &[]),
        ("claim lab --l", &["--lifetime"]),
        ("explain pool.spec.siz", &["pool.spec.size"]),
        ("completion ", &["bash", "fish", "zsh"]),
        ("run lab -- ", &[]),
        ("pool create x --platform vs", &["vsphere"]),
        ("--state /nowhere claim ", &[]),
        ("--bogus x y z ", &[]),
        ("claim --wait ", &["lab", "other"]),
    ] {
        assert_eq!(words(line), expected, "{line}");
    }
    assert_eq!(sandbox.objects(), before);
    // A state that cannot be used is no reason to talk.
    sandbox.file("state.db", "this is not a state");
    assert!(words("claim ").is_empty());
}
