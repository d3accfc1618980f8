//! Processes that are stopped, and supervisors and installers that are killed in every phase. The
//! stand-in for openshift-install keeps a ledger: nothing is begun twice, and what was made is known
//! or destroyed.

use std::collections::BTreeSet;

use crate::lab::{Lab, TEMPLATED, VSPHERE, find_process, pool};
use crate::sandbox::{Sandbox, apply, has_program};

use super::judge::find_problems;
use super::trace::{Call, OPTIONS};
use super::{Tally, points_of_each, spread};

/// Stops a claim at a call, tries to read and to claim beside it, and lets it go on.
fn script_beside_stopped_claim(call: &str, at: usize) -> String {
    format!(
        "is_stopped() {{ grep -q '(poolctl) [tT] ' /proc/${{child% }}/stat; }}
         strace -qq -o /dev/null -e trace={call} -e inject={call}:signal=STOP:when={at} \
             poolctl claim lab frozen -q > $HOME/frozen.out 2>&1 &
         tracer=$!; stopped=no
         for try in $(seq 60); do
             [ -e /proc/$tracer/stat ] || break
             child=$(cat /proc/$tracer/task/$tracer/children)
             is_stopped && sleep 0.03 && is_stopped && stopped=yes && break
             sleep 0.03
         done 2> /dev/null
         timeout 3 poolctl get pool -q > /dev/null; reader=$?
         timeout 3 poolctl claim lab other --lock-timeout 1s -q > /dev/null; writer=$?
         for try in $(seq 200); do
             [ -e /proc/$tracer/stat ] || break
             kill -CONT $child
             sleep 0.03
         done 2> /dev/null
         wait $tracer; echo $stopped $reader $writer $?"
    )
}

/// The calls of a claim that change something, each with its number among those of its name.
fn calls_of_a_claim(sandbox: &Sandbox) -> Vec<(String, usize)> {
    let ran = sandbox.shell(&format!(
        "strace {OPTIONS} -s 0 -o $HOME/trace poolctl claim lab frozen -q; cat $HOME/trace"
    ));
    let mut names: Vec<String> = Vec::new();
    let mut calls = Vec::new();
    for call in ran.out.lines().filter_map(Call::read) {
        names.push(call.name.clone());
        if call.changes_something_in(sandbox.path()) {
            let at = names.iter().filter(|name| **name == call.name).count();
            calls.push((call.name, at));
        }
    }
    calls
}

/// Stops a claim at a call. True if it was stopped, and what was wrong.
fn stop_claim(sandbox: &Sandbox, call: &str, at: usize) -> (bool, Vec<String>) {
    let ran = sandbox.shell(&script_beside_stopped_claim(call, at));
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    let [stopped, reader, writer, frozen] = words[..] else {
        return (false, vec![format!("{}{}", ran.out, ran.err)]);
    };
    let mut problems = Vec::new();
    // A program that is stopped while it makes the index of the log holds readers up as well: then
    // they are told so, or wait for as long as they are let.
    if !["0", "7", "8", "124"].contains(&reader) || !["0", "7", "8", "124"].contains(&writer) {
        problems.push(format!("beside it: {reader} and {writer}: {}", ran.err));
    }
    if frozen != "0" {
        problems.push(format!("it went on to end with {frozen}"));
    }
    let path = "jsonpath={range .items[*]}{.metadata.name} {.spec.namespace}{\"\\n\"}{end}";
    let claims = sandbox.run(&format!("get claim -o '{path}'")).out;
    let has_other = claims.lines().any(|line| line.starts_with("other "));
    if has_other != (writer == "0") {
        problems.push(format!("the other one ended with {writer}: {claims}"));
    }
    let clusters: BTreeSet<&str> =
        claims.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    if clusters.len() != claims.lines().count() || !claims.contains("frozen ") {
        problems.push(format!("the claims are {claims}"));
    }
    problems.extend(find_problems(sandbox, &BTreeSet::new()));
    (stopped == "yes", problems)
}

#[test]
fn a_command_that_is_stopped_at_any_call_harms_nobody() {
    if !has_program("strace") {
        return;
    }
    let states = Sandbox::new();
    states.create_ready_pool("lab", 3);
    let calls = calls_of_a_claim(&states.copy());
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for (call, at) in spread(calls, points_of_each(1).saturating_mul(5)) {
        let (is_stopped, problems) = stop_claim(&states.copy(), &call, at);
        tally.points += 1;
        tally.fired += usize::from(is_stopped);
        tally.held += usize::from(is_stopped && problems.is_empty());
        failures.extend(problems.into_iter().map(|problem| format!("{call} {at}: {problem}")));
    }
    tally.note("stopped at a call");
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(tally.fired > tally.points / 2, "{tally:?}");
}

/// Who is killed while a program of a job works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Supervisor,
    Installer,
    Both,
    /// The supervisor is stopped, and killed only after its installer.
    StoppedSupervisor,
}

impl Victim {
    /// A script that kills it.
    fn script(self, supervisor: &str, installer: &str) -> String {
        match self {
            Self::Supervisor => format!("kill -9 {supervisor}"),
            Self::Installer => format!("kill -9 {installer}"),
            Self::Both => format!("kill -9 {supervisor} {installer}"),
            Self::StoppedSupervisor => {
                format!(
                    "kill -STOP {supervisor}; kill -9 {installer}; poolctl reconcile -q; kill -9 {supervisor}"
                )
            }
        }
    }
}

/// The phases of a cluster in which a program of its works.
const STEPS: [&str; 4] =
    ["create-manifests", "create-ignition-configs", "create-cluster", "destroy"];

/// Waits until the installer is at a step before or after its work.
fn wait_for_step(lab: &Lab, step: &str) {
    let begin = format!("begin {step} ");
    lab.wait_until(&begin, |lab| lab.ledger().iter().any(|line| line.starts_with(&begin)));
}

/// Kills somebody at a step, before the step has done anything or when it has done all.
fn kill_at_step(victim: Victim, step: &str, behaviour: &str) {
    let lab = Lab::new();
    let hangs = format!("{behaviour}: hang");
    if step != "destroy" {
        lab.set_behaviour(&hangs);
    }
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    if step == "destroy" {
        lab.wait_until_installed();
        lab.set_behaviour(&hangs);
        lab.sandbox.ok("pool scale lab --size 0 -q");
    }
    wait_for_step(&lab, step);
    let told = format!("{victim:?} at {behaviour}");
    let supervisor = find_process(&lab, "__supervise").unwrap_or_else(|| panic!("{told}"));
    let installer = find_process(&lab, "openshift-install").unwrap_or_else(|| panic!("{told}"));
    lab.set_behaviour("");
    lab.sandbox.shell(&victim.script(&supervisor, &installer));
    if victim == Victim::Supervisor {
        // The installer goes on by itself, and nobody begins beside it.
        lab.sandbox.ok("reconcile -q");
        assert_eq!(lab.count_in_ledger(&format!("begin {step} ")), 1, "{told}");
        lab.sandbox.shell(&format!("kill -9 {installer}"));
    }
    let goal = if step == "destroy" { "" } else { "Installed" };
    lab.wait_until(&told, |lab| {
        // Nobody has to wait for the next attempt.
        lab.sandbox.shell(
            "for c in $(poolctl get cluster -qo name); do poolctl cluster retry $c -q; done
             poolctl customization reset foo -q",
        );
        lab.phase() == goal
    });
    lab.delete_clusters();
}

#[test]
fn whoever_is_killed_in_any_phase_is_made_good() {
    let victims = [Victim::Both, Victim::Installer, Victim::Supervisor, Victim::StoppedSupervisor];
    let mut points = Vec::new();
    for victim in victims {
        for step in STEPS {
            for behaviour in [step.to_owned(), format!("after-{step}")] {
                points.push((victim, step, behaviour));
            }
        }
    }
    let mut tally = Tally::default();
    for (victim, step, behaviour) in spread(points, points_of_each(1).saturating_mul(2)) {
        kill_at_step(victim, step, &behaviour);
        tally.points += 1;
        tally.fired += 1;
        tally.held += 1;
    }
    tally.note("kill in a phase");
}
