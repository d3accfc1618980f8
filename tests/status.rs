//! `status`: what it shows of pools, queues and claims, what it says is wrong, and that it says it in
//! the words of `why`, in lines that fit a terminal.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Sandbox, has_program, in_one_line, jsonpath};

/// The width of the smallest terminal that people use.
const COLUMNS: usize = 80;

fn assert_fits(place: &str, shown: &str) {
    for line in shown.lines() {
        let columns = line.chars().count();
        // A word that is longer than a line cannot be broken: people copy it.
        let is_word = line.trim_start_matches(['!', ' ', '-', '~']).split(' ').count() == 1;
        assert!(columns <= COLUMNS || is_word, "{place}: {columns} columns: {line}");
    }
}

fn document(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&sandbox.ok("status -o json")).unwrap()
}

#[test]
fn status_fits_the_terminal_in_every_transcript() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let transcript = std::fs::read_to_string(&path).unwrap();
        let mut is_status = false;
        for line in transcript.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                is_status = command == "poolctl status";
                count += usize::from(is_status);
            } else if line.is_empty() {
                is_status = false;
            } else if is_status {
                assert_fits(&path.display().to_string(), line);
            }
        }
    }
    assert!(count >= 5, "{count} transcripts of status");
}

#[test]
fn a_pool_has_a_row_with_its_counts_and_a_bar() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab ci-17 --lifetime 2h -q");
    sandbox.ok("pool create a-pool-with-a-name-that-is-much-too-long-for-a-column --fake -q");
    let shown = sandbox.ok("status");
    assert_fits("status", &shown);
    let header = "POOL SIZE READY STANDBY INSTALLING CLAIMED WAITING";
    assert_eq!(in_one_line(shown.lines().next().unwrap()), header, "{shown}");
    let row = shown.lines().find(|line| line.starts_with("lab ")).unwrap();
    assert_eq!(in_one_line(row), "lab 2 1 0 1 1 0 #Ri", "{shown}");
    // A long name stands alone, and its counts below it.
    let long_name = "a-pool-with-a-name-that-is-much-too-long-for-a-column";
    assert!(shown.lines().any(|line| line == long_name), "{shown}");
    let ends = "- claim ci-17 has cluster lab-";
    assert!(shown.contains(ends) && shown.contains(", for 2h"), "{shown}");
    let counts = shown.lines().last().unwrap();
    assert!(counts.starts_with("2 pools, ") && counts.ends_with(" running"), "{shown}");
}

#[test]
fn what_is_wrong_is_said_in_the_words_of_why() {
    let mut sandbox = Sandbox::new();
    let annotations = r#"{"spec": {"annotations": {"poolctl.dev/fake-fail-every": "1"}}}"#;
    sandbox.ok("pool create failing --fake --size 1 --no-reconcile -q");
    sandbox.ok(&format!("patch pool failing -q --type merge -p '{annotations}' --no-reconcile"));
    sandbox.ok("pool create paused --fake -q");
    sandbox.ok("pool pause paused -q");
    sandbox.ok("claim paused waits -q");
    for minute in [1, 11, 12] {
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T12:{minute:02}:00Z"));
        sandbox.ok("reconcile -q");
    }
    let status = sandbox.status();
    let overview = document(&sandbox);
    for pool in ["failing", "paused"] {
        let why = sandbox.ok(&format!("why pool/{pool}"));
        let cause = why.lines().nth(1).unwrap().trim();
        assert!(status.contains(&format!("! {cause}")), "{cause}: {status}");
        let next = why.lines().last().unwrap().replace("Next:", "next:");
        assert!(status.contains(&next), "{next}: {status}");
        let pools = overview["pools"].as_array().unwrap();
        let document = pools.iter().find(|document| document["name"] == pool).unwrap();
        assert_eq!(document["problems"][0]["causes"][0], cause, "{overview:#}");
    }
    // The queue is honest: nobody knows an end.
    assert!(status.contains("~ claim waits waits for a cluster of pool paused"), "{status}");
    assert_eq!(overview["queue"][0]["name"], "waits");
    assert_eq!(overview["queue"][0]["place"], 1);
}

#[test]
fn a_claim_that_waits_is_told_the_cause_of_its_pool_at_once() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0 -q");
    sandbox.ok("patch pool lab -q --type merge -p '{\"spec\": {\"maxConcurrent\": 0}}'");
    let claimed = sandbox.run("claim lab ci-17");
    let cause = "maxConcurrent 0 allows no cluster to be made or destroyed";
    assert!(claimed.err.contains(cause), "{}", claimed.err);
    assert!(sandbox.ok("why claim/ci-17").contains(cause));
    assert!(sandbox.status().contains(cause));
    assert!(sandbox.ok("describe claim ci-17").contains(cause));
    assert!(in_one_line(&sandbox.run("plan").out).contains(cause));
    let metrics = sandbox.ok("metrics");
    let obstacle = "obstacle=\"Concurrency\"} 1";
    assert!(metrics.contains("poolctl_clusterpool_obstacle{") && metrics.contains(obstacle));
}

#[test]
fn a_dead_cron_an_old_backup_and_the_disk_are_seen() {
    let mut sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let backup = sandbox.path().join("backup.db").display().to_string();
    assert!(sandbox.ok("status").contains("Last pass 0s ago; no backup yet"));
    sandbox.ok(&format!("backup {backup}"));
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T14:00:00Z");
    let status = sandbox.status();
    assert!(status.contains("! no pass has run for "), "{status}");
    assert!(status.contains("does cron run `poolctl reconcile`?"), "{status}");
    sandbox.ok("reconcile -q");
    let status = sandbox.status();
    assert!(!status.contains("no pass has run"), "{status}");
    assert!(status.contains("Last pass 0s ago; last backup "), "{status}");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-20T14:00:00Z");
    assert!(sandbox.status().contains("! the last backup is 18d old"));
    // A rehearsal has no disk; a real state has one.
    assert!(document(&sandbox)["upkeep"]["freeDiskBytes"].is_null());
    sandbox.set_variable("POOLCTL_NOW", "");
    let upkeep = &document(&sandbox)["upkeep"];
    assert!(upkeep["freeDiskBytes"].is_u64() && upkeep["stateBytes"].is_u64(), "{upkeep}");
    assert!(sandbox.status().contains("free on its disk"));
}

#[test]
fn letters_and_colours_follow_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let colored = sandbox.ok("status --color always");
    assert!(colored.contains("\u{1b}[32m"), "{colored:?}");
    assert!(!sandbox.ok("status").contains('\u{1b}'));
    assert!(!sandbox.ok("status --color always -o json").contains('\u{1b}'));
    let shown = sandbox.shell("LANG=C.UTF-8 poolctl status").out;
    assert!(shown.contains('▓'), "{shown}");
}

#[test]
fn a_watched_status_is_redrawn_and_ends_with_q() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    if has_program("script") {
        let typed = "(sleep 1; poolctl pool scale lab --size 7 -q >/dev/null; sleep 1; printf q)";
        let watch = "TERM=xterm timeout 20 script -qec 'poolctl status -w' /dev/null";
        let ran = sandbox.shell(&format!("{typed} | {watch}"));
        assert_eq!(ran.code, 0, "{:?}", ran.out);
        assert!(ran.out.starts_with("\u{1b}[?1049h\u{1b}[?25l"), "{:?}", ran.out);
        assert!(ran.out.trim_end().ends_with("\u{1b}[?25h\u{1b}[?1049l"), "{:?}", ran.out);
        // Redrawn in place: the screen is cleared once, and lines only where they were longer.
        assert_eq!(ran.out.matches("\u{1b}[2J").count(), 1, "{:?}", ran.out);
        assert!(ran.out.matches("\u{1b}[H").count() >= 2, "{:?}", ran.out);
    }
    // It ends with the program that reads it, though nothing changes any more.
    let headed = sandbox.shell("timeout 10 sh -c 'poolctl status -w | head -1'");
    assert_eq!(headed.code, 0, "{}", headed.err);
    // Elsewhere it prints what has changed, until a signal ends it.
    let script = "timeout 3 poolctl status -w & sleep 1; \
                  poolctl pool scale lab --size 8 -q >/dev/null; wait";
    let shown = sandbox.shell(script).out;
    assert!(shown.matches("1 pool, ").count() >= 2, "{shown}");
}

#[test]
fn only_what_is_in_trouble_has_an_exclamation_mark() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab ci-17 -q");
    sandbox.ok("reconcile --wait -q");
    let status = sandbox.ok("status");
    assert!(!status.contains('!'), "{status}");
    assert_eq!(document(&sandbox)["problems"], serde_json::json!([]));
    let names = jsonpath(&sandbox, "pool", "{.items[*].metadata.name}");
    assert_eq!(sandbox.ok("status -q").trim(), names);
}

#[test]
fn a_long_queue_is_cut_for_people_and_whole_for_programs() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    sandbox.ok("pool pause lab -q");
    for number in 0..9 {
        sandbox.ok(&format!("claim lab c{number} -q"));
    }
    let status = sandbox.ok("status");
    assert_eq!(status.matches("~ claim c").count(), 6, "{status}");
    assert!(status.contains("~ 3 more claims: poolctl get claim -A"), "{status}");
    let queue = &document(&sandbox)["queue"];
    assert_eq!(queue.as_array().map(Vec::len), Some(9), "{queue}");
    // What is wrong comes first.
    let [mark, first_in_queue] = ["! it is paused", "~ claim c0"].map(|part| status.find(part));
    assert!(mark.is_some() && mark < first_in_queue, "{status}");
}
