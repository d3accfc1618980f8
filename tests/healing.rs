//! Pools heal by themselves: no claim waits beside a cluster that could serve it, what is corrected
//! recovers at once, what fails slows down and says so, and all that is said is true. The rules are
//! scenarios, a file for each chapter in `cases/healing`.
//!
//! A scenario is its rule, then lines that begin with one of these words. There is a pool `other`
//! without clusters, whose image set is `simulated`, and the clock stands at 02T12:00, which is noon
//! of 2 March 2026.
//!
//! - `at TIME` moves the clock.
//! - `passes TIME TIME` runs a pass at each minute from then till then; `passes-with TIME TIME
//!   COMMAND` also runs a command after each, which must succeed.
//! - `pool NAME JSON` applies a pool of simulated clusters. The fields replace those of its spec;
//!   annotations are added.
//! - `customizations NAME..` applies customizations that set the name of their cluster.
//! - `set NAME COMMAND` gives what a command prints a name: `$NAME` in what follows.
//! - `poolctl ...` and `sh COMMAND` run a command that must succeed; `exit CODE COMMAND` one that
//!   must end with this code. A line that begins with two spaces belongs to the one before it.
//! - `says TEXT`, `lacks TEXT`: the command before printed this text, or did not; `is TEXT`: it
//!   printed exactly this to standard output.

use poolctl::model::time::{Span, Time};
use serde_json::{Value, json};

use crate::cases::{self, Scenario, assert_all_hold, first_word};
use crate::lab::{Lab, VSPHERE, pool};
use crate::sandbox::{Ran, Sandbox, apply, create_customization, has_program, in_one_line};

struct Player {
    sandbox: Sandbox,
    /// What `set` has named.
    values: Vec<(String, String)>,
    /// The first line of the command that was run last, and how it ended.
    command: String,
    ran: Ran,
}

fn parse_time(text: &str) -> Time {
    format!("2026-03-{text}:00Z").parse().unwrap()
}

impl Player {
    fn new() -> Self {
        Self::in_sandbox(Sandbox::new())
    }

    fn in_sandbox(sandbox: Sandbox) -> Self {
        sandbox.ok("pool create other --fake --size 0 -q");
        let ran = Ran { code: 0, out: String::new(), err: String::new() };
        Self { sandbox, values: Vec::new(), command: String::new(), ran }
    }

    /// Plays a line. The error says what does not hold.
    fn play(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = first_word(line);
        match word {
            "at" => {
                self.set_clock(parse_time(rest));
                Ok(())
            }
            "passes" => self.pass_each_minute(&format!("{rest} true")),
            "passes-with" => self.pass_each_minute(rest),
            "pool" => self.apply_pool(rest),
            "customizations" => {
                for name in rest.split(' ') {
                    create_customization(&self.sandbox, name, name);
                }
                Ok(())
            }
            "set" => self.set_value(rest),
            "poolctl" => self.run(line, 0),
            "sh" => self.run(rest, 0),
            "exit" => {
                let (code, command) = first_word(rest);
                self.run(command, code.parse().unwrap())
            }
            "says" | "lacks" | "is" => self.check_output(word, rest),
            _ => panic!("{line}"),
        }
    }

    fn set_clock(&mut self, now: Time) {
        self.sandbox.set_variable("POOLCTL_NOW", &now.to_string());
    }

    /// Runs a command of a shell, in which `poolctl` is this build.
    fn run(&mut self, command: &str, code: i32) -> Result<(), String> {
        self.ran = self.sandbox.shell(command);
        command.lines().next().unwrap_or_default().clone_into(&mut self.command);
        if self.ran.code == code {
            return Ok(());
        }
        let Ran { code: ended_with, out, err } = &self.ran;
        Err(format!("`{}` ended with {ended_with}, not {code}: {out}{err}", self.command))
    }

    fn pass_each_minute(&mut self, arguments: &str) -> Result<(), String> {
        let (from, rest) = first_word(arguments);
        let (to, command) = first_word(rest);
        let end = parse_time(to);
        let mut now = parse_time(from);
        while now <= end {
            self.set_clock(now);
            self.run("poolctl reconcile -q", 0)?;
            self.run(command, 0).map_err(|failure| {
                let clusters = self.sandbox.ok("get cluster");
                format!("at {now}: {failure}\n{clusters}")
            })?;
            now = now.plus(Span::minutes(1));
        }
        Ok(())
    }

    fn apply_pool(&mut self, arguments: &str) -> Result<(), String> {
        let (name, fields) = first_word(arguments);
        let fields: Value = serde_json::from_str(fields).unwrap();
        let mut spec = json!({
            "baseDomain": "example.com",
            "imageSetRef": {"name": "simulated"},
            "platform": {"none": {}},
            "annotations": {"hive.openshift.io/fake-cluster": "true"},
        });
        for (field, value) in fields.as_object().unwrap() {
            if field == "annotations" {
                for (annotation, setting) in value.as_object().unwrap() {
                    spec["annotations"][annotation.as_str()] = setting.clone();
                }
            } else {
                spec[field.as_str()] = value.clone();
            }
        }
        let pool = json!({
            "apiVersion": "hive.openshift.io/v1",
            "kind": "ClusterPool",
            "metadata": {"name": name},
            "spec": spec,
        });
        let path = self.sandbox.write_file("pool.json", &pool.to_string());
        self.run(&format!("poolctl apply -qf {path}"), 0)
    }

    fn set_value(&mut self, arguments: &str) -> Result<(), String> {
        let (name, command) = first_word(arguments);
        self.run(command, 0)?;
        let value = self.ran.out.trim().to_owned();
        self.sandbox.set_variable(name, &value);
        self.values.retain(|(named, _)| named != name);
        self.values.push((name.to_owned(), value));
        Ok(())
    }

    fn check_output(&self, word: &str, expected: &str) -> Result<(), String> {
        let mut expected = expected.to_owned();
        for (name, value) in &self.values {
            expected = expected.replace(&format!("${name}"), value);
        }
        let Ran { out, err, .. } = &self.ran;
        let printed = format!("{out}{err}");
        // Some texts are broken into lines that fit a terminal.
        let printed_in_one_line = in_one_line(&printed);
        let holds = match word {
            "says" => printed_in_one_line.contains(&in_one_line(&expected)),
            "lacks" => !printed_in_one_line.contains(&in_one_line(&expected)),
            _ => out.trim() == expected,
        };
        if holds {
            return Ok(());
        }
        Err(format!("`{word} {expected}` does not hold of `{}`:\n{printed}", self.command))
    }
}

/// The lines of a scenario, each with those that belong to it.
fn join_lines(scenario: &Scenario<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in &scenario.lines {
        if let Some(continuation) = line.strip_prefix("  ")
            && let Some(last_line) = lines.last_mut()
        {
            last_line.push('\n');
            last_line.push_str(continuation);
        } else {
            lines.push((*line).to_owned());
        }
    }
    lines
}

/// Plays the scenarios of a chapter, of which there are at least so many.
fn play_chapter(file: &str, at_least: usize) {
    let scenarios = cases::scenarios(file);
    let mut failures = Vec::new();
    for scenario in &scenarios {
        let mut player = Player::new();
        let played = join_lines(scenario).iter().try_for_each(|line| player.play(line));
        if let Err(failure) = played {
            failures.push(format!("{}: {failure}", scenario.name));
        }
    }
    assert_all_hold(scenarios.len(), at_least, &failures);
}

#[test]
fn a_standby_that_never_wakes_starves_no_claim() {
    play_chapter(include_str!("cases/healing/standbys.txt"), 6);
}

#[test]
fn a_pool_that_is_corrected_heals_at_once() {
    play_chapter(include_str!("cases/healing/corrected.txt"), 12);
}

#[test]
fn a_place_of_running_count_is_for_a_cluster_that_can_run() {
    play_chapter(include_str!("cases/healing/running.txt"), 3);
}

#[test]
fn a_pool_whose_installations_fail_says_so_and_slows_down() {
    play_chapter(include_str!("cases/healing/degraded.txt"), 8);
}

#[test]
fn what_is_being_deleted_looks_so_and_is_changed_only_as_its_deletion_needs() {
    play_chapter(include_str!("cases/healing/deleted.txt"), 4);
}

#[test]
fn what_is_said_of_a_pool_is_true() {
    play_chapter(include_str!("cases/healing/truth.txt"), 14);
}

#[test]
fn a_value_that_is_capped_or_out_of_reach_is_said_by_the_command_that_asks_for_it() {
    play_chapter(include_str!("cases/healing/said.txt"), 8);
}

#[test]
fn what_an_import_brings_is_made_whole_and_its_failures_are_remembered() {
    play_chapter(include_str!("cases/healing/moved.txt"), 4);
}

#[test]
fn what_people_know_from_hive_holds() {
    play_chapter(include_str!("cases/healing/hive.txt"), 12);
}

/// The next attempt may be hours away, and till then what is left costs money and addresses.
#[test]
fn what_a_failed_attempt_left_is_destroyed_before_the_wait_for_the_next_one() {
    let lab = Lab::new();
    lab.set_behaviour("after-create-cluster: exit 6\nwait-for: exit 6");
    let template = "  installConfigSecretTemplateRef: {name: template}\n";
    apply(&lab.sandbox, &pool("lab", VSPHERE, template));
    lab.wait_until("failed", |lab| lab.sandbox.ok("events").contains("operators did not come up"));
    // The next attempt is a minute away, and this waits for half a minute.
    lab.wait_until("destroyed", |lab| {
        lab.ledger().iter().any(|line| line.starts_with("destroyed "))
    });
    assert_eq!(lab.phase(), "Retrying");
    lab.set_behaviour("");
    lab.delete_clusters();
}

/// Claims a cluster and gives it back, so many times at most, while a command waits so many microseconds at
/// each lock that it takes to read: so there is work between any two of its reads.
fn beside_work(command: &str, delay: u32, rounds: u32) -> String {
    format!(
        "strace -f -qq -o /dev/null -P $POOLCTL_STATE-shm -e trace=fcntl \
            -e inject=fcntl:delay_enter={delay} poolctl {command} >$HOME/answer 2>&1 &
        reader=$!
        round=0
        while kill -0 $reader 2>/dev/null && [ $round -lt {rounds} ]; do
            round=$((round + 1))
            poolctl claim lab ci-$round -q
            poolctl release ci-$round -y -q
            poolctl reconcile -q
        done >/dev/null 2>&1
        wait $reader
        code=$?
        cat $HOME/answer
        exit $code"
    )
}

/// A pool of four clusters, each of which changes in a millisecond, in real time.
fn pool_without_delays() -> Player {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", "");
    sandbox.set_variable("POOLCTL_SEED", "");
    let mut player = Player::in_sandbox(sandbox);
    let fields = json!({"size": 4, "runningCount": 4, "annotations": {
        "poolctl.dev/fake-install-duration": "1ms",
        "poolctl.dev/fake-deprovision-duration": "1ms",
        "poolctl.dev/fake-resume-duration": "1ms",
        "poolctl.dev/fake-stop-duration": "1ms",
    }});
    player.apply_pool(&format!("lab {fields}")).unwrap();
    player.sandbox.ok("reconcile --wait=1m -q");
    player
}

#[test]
fn doctor_raises_no_alarm_beside_ordinary_work() {
    if !has_program("strace") {
        return;
    }
    let player = pool_without_delays();
    for _ in 0..3 {
        let ran = player.sandbox.shell(&beside_work("doctor", 10_000, 250));
        assert_eq!(ran.code, 0, "{}", ran.out);
        // Without work beside it, the test would show nothing.
        assert!(player.sandbox.ok("events").contains("claim/ci-"), "no claim was served");
    }
}

/// SQLite begins to read a hundred times, and then gives up: each time there was a commit between its
/// first and its second look at the log.
#[test]
fn commits_without_a_pause_keep_nobody_from_reading() {
    if !has_program("strace") {
        return;
    }
    let player = pool_without_delays();
    let ran = player.sandbox.shell(&beside_work("status", 40_000, 1_000));
    assert_eq!(ran.code, 0, "{}", ran.out);
}
