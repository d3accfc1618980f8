//! What is shown while a command runs: rows that change, events, bars on a terminal and lines
//! elsewhere. And the questions that are asked at a terminal.

use std::io::Read;

use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Sandbox, has_program, pause};

/// Starts a command that does not end by itself, acts meanwhile, ends it, and returns its output.
fn output_during(sandbox: &Sandbox, line: &str, act: impl FnOnce()) -> String {
    let mut child = sandbox.start(line);
    pause(500);
    act();
    pause(600);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
    let mut out = String::new();
    child.stdout.unwrap().read_to_string(&mut out).unwrap();
    out
}

#[test]
fn a_watch_shows_what_changes() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let out = output_during(&sandbox, "get claim,pool -w", || {
        sandbox.ok("claim lab ci-17");
    });
    let words: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    let headers = words.iter().filter(|line| line.first() == Some(&"NAME")).count();
    assert_eq!(headers, 2, "{out}");
    assert!(words.iter().any(|line| line.starts_with(&["ci-17", "lab", "Running"])), "{out}");
    assert_eq!(words.iter().filter(|line| line.first() == Some(&"lab")).count(), 2, "{out}");
    // The same with names, and with documents.
    let out = output_during(&sandbox, "get claim -w -o name", || {
        sandbox.ok("label claim ci-17 a=b");
        pause(300);
        sandbox.ok("release ci-17");
    });
    assert_eq!(out, "claim/ci-17\n".repeat(3), "{out}");
    let out = output_during(&sandbox, "get pool lab -w -o 'jsonpath={.spec.size} '", || {
        sandbox.ok("pool scale lab --size 2");
    });
    assert!(out.starts_with("1 2"), "{out}");
}

#[test]
fn a_watch_keeps_its_columns_when_a_name_is_longer() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let long_name = "n".repeat(60);
    let out = output_during(&sandbox, "get claim -w", || {
        sandbox.ok("claim lab short");
        pause(300);
        sandbox.ok(&format!("claim lab {long_name}"));
    });
    let headers: Vec<&str> = out.lines().filter(|line| line.starts_with("NAME")).collect();
    assert_eq!(headers.len(), 1, "{out}");
    assert!(headers[0].ends_with("AGE"), "{out}");
    assert!(out.lines().last().unwrap().starts_with(&format!("{long_name}  lab")), "{out}");
}

#[test]
fn events_are_followed() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let out = output_during(&sandbox, "events -f claim/ci-17", || {
        sandbox.ok("claim lab ci-17");
        sandbox.ok("label pool lab a=b");
    });
    let reasons: Vec<&str> =
        out.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(reasons, ["Created", "ClusterClaimed"], "{out}");
}

/// Runs a command line on a terminal of its own, where this text is typed. Returns its exit code
/// and what the terminal showed.
fn terminal(sandbox: &Sandbox, typed: &str, line: &str) -> (i32, String) {
    let terminal = "LANG=C.UTF-8 TERM=xterm script -qec";
    let run = format!("(sleep 0.5; printf '{typed}') | {terminal} '{line}' /dev/null");
    let ran = sandbox.shell(&run);
    (ran.code, ran.out)
}

#[test]
fn a_wait_draws_a_bar_on_a_terminal_and_lines_elsewhere() {
    if !has_program("script") {
        return;
    }
    for wait in [
        "reconcile --wait=30s",
        "claim lab c --wait=30s",
        "run lab --lifetime 1m -- true",
        "wait pool/lab --for=jsonpath={.status.ready}=1",
    ] {
        let sandbox = installing();
        let (code, shown) = terminal(&sandbox, "", &format!("poolctl {wait}"));
        assert_eq!(code, 0, "{shown}");
        assert!(
            shown.contains("\u{1b}[") && shown.contains('░') || shown.contains('█'),
            "{wait}: {shown:?}"
        );
    }
    let elsewhere = "poolctl wait pool/lab --for=jsonpath={.status.ready}=1";
    let ran = installing().shell(elsewhere);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains('\u{1b}') && ran.err.contains("pool/lab"), "{:?}", ran.err);
    // A dumb terminal gets lines.
    let ran = installing().shell("TERM=dumb script -qec 'poolctl reconcile --wait=30s' /dev/null");
    assert!(!ran.out.contains('\u{1b}') && ran.out.contains("installing"), "{:?}", ran.out);
}

/// A pool whose cluster is there in a second.
fn installing() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", "");
    sandbox.ok("pool create lab --fake --fake-install-duration 1s --running-count 1");
    sandbox
}

#[test]
fn a_refusal_fits_a_terminal_and_is_whole_elsewhere() {
    if !has_program("script") {
        return;
    }
    let sandbox = Sandbox::new();
    let command = "poolctl patch pool lab --type strategic -p {}";
    let cause = "  cause: strategic patches exist for the kinds of Kubernetes itself only, as with \
                 kubectl\n";
    let ran = sandbox.shell(command);
    assert!(ran.code == 2 && ran.err.contains(cause), "{}", ran.err);
    let (code, shown) = terminal(&sandbox, "", command);
    assert_eq!(code, 2, "{shown}");
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(lines.contains(&"      with kubectl"), "{shown}");
    assert!(shown.contains("  next: poolctl patch pool NAME --type merge -p"), "{shown}");
}

#[test]
fn colours_are_shown_only_where_they_are_wanted() {
    if !has_program("script") {
        return;
    }
    let sandbox = Sandbox::new();
    let diff = "poolctl diff -f examples/pool";
    assert!(terminal(&sandbox, "", diff).1.contains("\u{1b}[32m"));
    assert!(!terminal(&sandbox, "", &format!("{diff} --color never")).1.contains("\u{1b}[32m"));
    assert!(!terminal(&sandbox, "", &format!("NO_COLOR=1 {diff}")).1.contains("\u{1b}[32m"));
    assert!(!sandbox.shell(diff).out.contains('\u{1b}'));
    assert!(sandbox.shell(&format!("{diff} --color always")).out.contains("\u{1b}[32m"));
    assert!(!sandbox.shell(&format!("{diff} --color always -o json")).out.contains('\u{1b}'));
    // Help, which is printed before any option is looked at, follows the same option.
    let help = "poolctl get --help";
    assert!(sandbox.shell(&format!("{help} --color always")).out.contains('\u{1b}'));
    assert!(!terminal(&sandbox, "", &format!("{help} --color never")).1.contains("\u{1b}[1m"));
}

#[test]
fn letters_beyond_ascii_are_drawn_only_where_the_locale_has_them() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    for (variables, option, is_ascii) in [
        ("", "", true),
        ("LANG=C", "", true),
        ("LANG=de_DE.ISO-8859-1", "", true),
        ("LANG=C.UTF-8", "", false),
        ("LANG=en_US.utf8", "", false),
        ("LC_ALL=C LANG=en_US.UTF-8", "", true),
        ("LC_ALL=en_US.UTF-8 LANG=C", "", false),
        ("LC_CTYPE=en_US.UTF-8", "", false),
        ("LANG=C.UTF-8", "--ascii", true),
    ] {
        let shown = sandbox.shell(&format!("{variables} poolctl status {option}")).out;
        assert!(shown.contains("lab"), "{shown}");
        assert_eq!(shown.is_ascii(), is_ascii, "{variables} {option}: {shown}");
    }
}

#[test]
fn what_is_typed_for_a_secret_is_not_shown() {
    if !has_program("script") {
        return;
    }
    let sandbox = Sandbox::new();
    let (code, shown) =
        terminal(&sandbox, "hunter2\\n", "poolctl secret create creds --prompt password");
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("password: ") && !shown.contains("hunter2"), "{shown:?}");
    assert_eq!(sandbox.ok("extract secret/creds --to=-"), "hunter2\n");
    // Without a terminal the refusal names another way.
    sandbox.refused(2, "secret create other --prompt password", "--from-file=KEY=-");
    assert_eq!(sandbox.run("secret create x --from-literal=a=b").code, 2);
}

#[test]
fn a_loss_is_asked_for_at_a_terminal() {
    if !has_program("script") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let name = sandbox.path().join("b.db").display().to_string();
    sandbox.ok(&format!("backup {name}"));
    let (code, shown) = terminal(&sandbox, "n\\n", &format!("poolctl restore {name}"));
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("Go on? [y/N]") && shown.contains("nothing was changed"), "{shown}");
    let (code, shown) = terminal(&sandbox, "y\\n", &format!("poolctl restore {name}"));
    assert_eq!(code, 0, "{shown}");
}

#[test]
fn a_question_is_never_broken() {
    if !has_program("script") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let claim = "a-claim-with-a-name-that-is-long";
    sandbox.ok(&format!("claim lab {claim} -q"));
    let cluster = sandbox.ok(&format!("get claim {claim} -o 'jsonpath={{.spec.namespace}}'"));
    let delete = format!("poolctl delete cluster {cluster}");
    let (code, shown) = terminal(&sandbox, "n\\n", &delete);
    assert_eq!(code, 1, "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("Go on? [y/N]")), "{shown}");
    assert!(shown.lines().all(|line| line.trim_end().chars().count() <= 80), "{shown}");
}

#[test]
fn init_asks_what_is_open_and_asks_again_if_an_answer_cannot_be_used() {
    if !has_program("script") {
        return;
    }
    let mut sandbox = Sandbox::new();
    let state = sandbox.path().join("state/state.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &state);
    // Layout, schedule, platform, folder, name (twice), size, and whether to go on.
    let typed = "\\nnone\\n\\n\\nBad_Name\\nmine\\n3\\nn\\n";
    let (code, shown) = terminal(&sandbox, typed, "poolctl init");
    assert_eq!(code, 1, "{shown}");
    for part in [
        "Who owns the state: account or user [user]:",
        "`Bad_Name` is no answer to `pool`",
        "Unclaimed clusters to keep [2]:",
        "to be made",
        "nothing was changed",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!sandbox.path().join("state").exists());
    let typed = "\\n\\n\\nmine\\n3\\ny\\n";
    let (code, shown) = terminal(&sandbox, typed, "poolctl init --schedule none");
    assert_eq!(code, 0, "{shown}");
    let manifest = std::fs::read_to_string(sandbox.path().join("state/manifests/mine.yaml"));
    assert!(manifest.unwrap().contains("size: 3"), "{shown}");
}
