//! The power goes at any call of commands that make a state and change it. Whatever was told before
//! is there afterwards, whatever was not is there wholly or not at all, and the state is in order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, has_program};

use super::cut_disk::{CutDisk, Deed, Loss};
use super::judge::find_problems;
use super::trace::{Call, OPTIONS};
use super::{Tally, points_of_each, spread};

/// What is done to a new state, a command a line.
const COMMANDS: [&str; 18] = [
    "pool create lab --fake --size 3 --running-count 3",
    "reconcile --wait -q",
    "ippool create lan --range 10.0.0.1-10.0.0.9 --allocation sequential",
    "claim lab first",
    "ip claim lan web",
    "claim lab second --lifetime 8h",
    "ip claim lan db",
    "release first",
    "ip release web",
    "label pool lab team=ci",
    "ip claim lan next",
    "claim lab third",
    "delete ipclaim db -y",
    "pool scale lab --size 1",
    "reconcile --wait -q",
    "backup $HOME/b.db",
    "label pool lab team=late --overwrite",
    "restore $HOME/b.db -y",
];

/// How many moments of a command are tried. Only a copy of a state has more, and each of its writes is
/// like its neighbour.
const MAX_CUTS_OF_STEP: usize = 300;

/// How strace is told to answer for the kernel that files are synced.
const WITHOUT_SYNCING: &str = "-e inject=fsync,fdatasync:retval=0";

/// What a command did, and what there was before and after it.
struct Step {
    command: &'static str,
    deeds: Vec<Deed>,
    before: String,
    after: String,
}

/// All claims, pools and leases with their clusters, a line each; empty if there is no state.
fn look(sandbox: &Sandbox) -> Result<String, String> {
    let ran = sandbox.run(
        "get pool,claim,ipclaim,ippool,ipaddress -A -o 'jsonpath={range .items[*]}{.kind} \
         {.metadata.name} {.metadata.labels.team} {.spec.namespace}{\"\\n\"}{end}'",
    );
    match ran.code {
        0 | 3 => Ok(ran.out),
        code => Err(format!("the state cannot be read: {code} {}", ran.err)),
    }
}

/// Runs the commands on a new state and records what they do. `fault` is an option of strace.
fn record(fault: &str) -> (Sandbox, Vec<Step>) {
    let sandbox = Sandbox::new();
    let mut steps = Vec::new();
    for command in COMMANDS {
        let before = look(&sandbox).unwrap();
        let ran = sandbox.shell(&format!(
            "strace {OPTIONS} {fault} -s 2000000 -o $HOME/trace poolctl {command}"
        ));
        assert_eq!(ran.code, 0, "{command}: {}", ran.err);
        let trace_path = sandbox.path().join("trace");
        let trace = std::fs::read_to_string(&trace_path).unwrap();
        std::fs::remove_file(trace_path).unwrap();
        let calls = trace.lines().filter_map(Call::read);
        let deeds = calls.filter_map(|call| Deed::of_call(&call, sandbox.path())).collect();
        let after = look(&sandbox).unwrap();
        steps.push(Step { command, deeds, before, after });
    }
    (sandbox, steps)
}

/// A moment: after so many deeds of a step, with what is lost then.
type Cut = (usize, usize, Loss);

/// All moments, each with three ways to lose something.
fn all_cuts(steps: &[Step]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        for deeds in 1..=step.deeds.len() {
            let seed = cuts.len() as u64;
            cuts.extend(
                [Loss::Everything, Loss::Chance(seed), Loss::Nothing]
                    .map(|loss| (number, deeds, loss)),
            );
        }
    }
    cuts
}

/// Makes a sandbox of what is on the disk after a cut.
fn restart(image: &BTreeMap<PathBuf, Vec<u8>>, folder: &Path) -> Sandbox {
    let sandbox = Sandbox::new();
    for (path, content) in image {
        let path = sandbox.path().join(path.strip_prefix(folder).unwrap());
        // The index of the log is made anew from the log.
        if !path.to_string_lossy().ends_with("-shm") {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }
    // What a file has is all that is looked at here.
    sandbox.shell("chmod -R go= $HOME");
    sandbox
}

/// What is wrong after a cut.
fn judge_cut(sandbox: &Sandbox, step: &Step, deeds: usize) -> Vec<String> {
    let is_told = step.deeds[..deeds].contains(&Deed::Answer);
    let mut problems = match look(sandbox) {
        Err(problem) => vec![problem],
        Ok(now) if now == step.after || (now == step.before && !is_told) => Vec::new(),
        Ok(now) if is_told => {
            vec![format!("it was told, and is lost: {now:?} instead of {:?}", step.after)]
        }
        Ok(now) => vec![format!("neither before nor after: {now:?}")],
    };
    if sandbox.state().exists() {
        problems.extend(find_problems(sandbox, &BTreeSet::new()));
    }
    problems
}

/// Cuts the power at these moments, which are in order. Returns what was wrong after each cut at
/// which anything was.
fn cut_power(folder: &Path, steps: &[Step], cuts: &[Cut]) -> Vec<String> {
    let mut disk = CutDisk::default();
    let mut failures = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        for (done, deed) in step.deeds.iter().enumerate() {
            disk.apply(deed);
            for (_, deeds, loss) in
                cuts.iter().filter(|(of, at, _)| (*of, *at) == (number, done + 1))
            {
                let sandbox = restart(&disk.cut(*loss), folder);
                let problems = judge_cut(&sandbox, step, *deeds);
                if !problems.is_empty() {
                    let command = step.command;
                    failures.push(format!("{command}, {deeds} {loss:?}: {}", problems.join("; ")));
                }
            }
        }
    }
    failures
}

/// The moments that are tried.
fn chosen_cuts(steps: &[Step]) -> Vec<Cut> {
    let mut cuts_of_steps: BTreeMap<usize, Vec<Cut>> = BTreeMap::new();
    for cut in all_cuts(steps) {
        cuts_of_steps.entry(cut.0).or_default().push(cut);
    }
    let different_cuts =
        cuts_of_steps.into_values().flat_map(|cuts| spread(cuts, MAX_CUTS_OF_STEP)).collect();
    spread(different_cuts, points_of_each(1).saturating_mul(50))
}

#[test]
fn what_was_told_is_there_after_the_power_went() {
    if !has_program("strace") {
        return;
    }
    let (sandbox, steps) = record("");
    let answers = steps.iter().filter(|step| step.deeds.contains(&Deed::Answer)).count();
    assert!(answers > 10, "{answers}");
    let cuts = chosen_cuts(&steps);
    let failures = cut_power(sandbox.path(), &steps, &cuts);
    let held = cuts.len() - failures.len();
    Tally { points: cuts.len(), fired: cuts.len(), held }.note("power cut");
    let told: Vec<&String> = failures.iter().take(10).collect();
    assert!(told.is_empty(), "{} of {}: {told:#?}", failures.len(), cuts.len());
}

/// Whether cuts show that a program tells people of changes that it has not synced.
pub fn is_forgotten_sync_found() -> bool {
    let (sandbox, steps) = record(WITHOUT_SYNCING);
    let told: Vec<Cut> = steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.deeds.contains(&Deed::Answer))
        .map(|(number, step)| (number, step.deeds.len(), Loss::Everything))
        .collect();
    !cut_power(sandbox.path(), &steps, &told[..4]).is_empty()
}
