//! Every command under faults. The commands and what they are run with come from the command tree,
//! so that a new command is tortured by itself: its example is run once in peace, under strace, and
//! then again with a fault at each of the calls by which it changed anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use poolctl::model::refusal::Exit;

use crate::everywhere::{PREPARATION, PreparedStates, all_examples, localized};
use crate::sandbox::{Ran, Sandbox, has_program};
use crate::sim::dice::Dice;

use super::judge::{Census, find_complaints, find_problems, name_of};
use super::trace::{Call, OPTIONS};
use super::{Tally, points_of_each, spread};

/// What a shell reports of a program that was killed.
const KILLED: i32 = 137;
/// The blocks that a shell counts the size of a file in.
const BLOCK: u64 = 512;
/// How many calls of the same name are tried of a command, with the same fault.
const MAX_ALIKE: usize = 60;
/// How many failures are told.
const MAX_FAILURES: usize = 20;

/// What is tortured besides the examples of the command tree: a command, and more of what it does
/// than its example shows.
const FURTHER_EXAMPLES: [(&str, &str); 2] = [
    (
        "restore",
        "poolctl backup \"$HOME/b.db\" && poolctl label pool lab later=true \
         && poolctl restore \"$HOME/b.db\" -y",
    ),
    ("backup", "poolctl backup --keep 1 \"$HOME/backups\""),
];

/// What is done to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    /// The call fails with this error.
    Error(&'static str),
    /// No file may have more blocks than this: the write that goes beyond is cut short.
    Short(u64),
}

impl Fault {
    /// The row of the table.
    fn part(self) -> String {
        match self {
            Self::Kill => "kill at a call".into(),
            Self::Error(error) => format!("{error} at a call"),
            Self::Short(_) => "short write".into(),
        }
    }
}

/// A fault at a call of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    /// Which command of the example, by the checksum of its words.
    command: String,
    call: String,
    /// At the Nth call of this name.
    at: usize,
    fault: Fault,
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {:?}", self.call, self.at, self.fault)
    }
}

/// The errors that a call may end with.
fn errors_of(call: &str) -> &'static [&'static str] {
    match call {
        "openat" => &["EMFILE", "ENOSPC", "EROFS"],
        "flock" | "fcntl" => &["ENOLCK"],
        "fsync" | "fdatasync" => &["EIO"],
        "pwrite64" | "write" | "ftruncate" | "fallocate" | "copy_file_range" | "sendfile" => {
            &["EIO", "ENOSPC"]
        }
        // Names are made, removed or changed.
        _ => &["EROFS", "ENOSPC", "EIO"],
    }
}

/// All faults at the calls of a trace of a command that change something in a folder.
fn points_of(command: &str, trace: &str, folder: &Path) -> BTreeSet<Point> {
    let mut points = BTreeSet::new();
    let mut names: Vec<String> = Vec::new();
    for call in trace.lines().filter_map(Call::read) {
        names.push(call.name.clone());
        if !call.changes_something_in(folder) {
            continue;
        }
        let at = names.iter().filter(|name| **name == call.name).count();
        let mut faults = vec![Fault::Kill];
        faults.extend(errors_of(&call.name).iter().copied().map(Fault::Error));
        if call.name == "pwrite64" {
            let (size, offset) = (call.number(2), call.number(3));
            let blocks = (offset + size / 2) / BLOCK;
            if blocks * BLOCK > offset {
                faults.push(Fault::Short(blocks));
            }
        }
        for fault in faults {
            let command = command.to_owned();
            points.insert(Point { command, call: call.name.clone(), at, fault });
        }
    }
    points
}

/// A command that changes something, and what becomes of it in peace.
struct Verb<'a> {
    states: &'a PreparedStates,
    path: Vec<String>,
    example: String,
    before: Census,
    ran: Ran,
    after: Census,
    complaints: BTreeSet<String>,
    points: BTreeSet<Point>,
}

/// Every command of a script, as a pattern of the shell.
const EVERY_COMMAND: &str = "*";

/// Has strace run one `poolctl` of a script, or every one, with these options. The commands of a
/// script may run at once, so they are told apart by their words. `limit` is a command of the shell
/// before it.
fn under_strace(command: &str, options: &str, limit: &str) -> String {
    format!(
        "poolctl() {{
             words=$(echo \"$*\" | sed \"s|$HOME||g\" | cksum | cut -d' ' -f1)
             trace=$(mktemp $HOME/trace.$words.XXXXXX)
             case $words in
                 {command}) ( {limit} exec strace -s 0 -o $trace {options} poolctl \"$@\" ) ;;
                 *) command poolctl \"$@\" ;;
             esac
             code=$?
             echo $code >> $HOME/codes
             return $code
         }}"
    )
}

/// The traces of the commands that a script has run, each after the checksum of its words, and their
/// exit codes. Both are removed.
fn take_traces(sandbox: &Sandbox) -> (Vec<(String, String)>, Vec<i32>) {
    let mut traces = Vec::new();
    for entry in std::fs::read_dir(sandbox.path()).unwrap().flatten() {
        let file_name = entry.file_name().to_string_lossy().into_owned();
        let Some(words) = file_name.strip_prefix("trace.") else { continue };
        let command = words.split('.').next().unwrap_or_default().to_owned();
        let trace = std::fs::read(entry.path()).unwrap();
        traces.push((command, String::from_utf8_lossy(&trace).into_owned()));
        std::fs::remove_file(entry.path()).unwrap();
    }
    let codes = sandbox.shell("cat $HOME/codes /dev/null; rm -f $HOME/codes").out;
    (traces, codes.lines().filter_map(|code| code.parse().ok()).collect())
}

impl<'a> Verb<'a> {
    /// Runs the example of a command in peace; None if it changes nothing in its folder.
    fn explore(states: &'a PreparedStates, path: &[String], example: &str) -> Option<Self> {
        let (sandbox, example) = prepare(states, path, &localized(example));
        let before = Census::take(&sandbox).unwrap();
        let script = format!("{}\n{example}", under_strace(EVERY_COMMAND, OPTIONS, ""));
        let ran = sandbox.shell(&script);
        let (traces, _) = take_traces(&sandbox);
        let lines = traces.iter().flat_map(|(_, trace)| trace.lines());
        if !lines.filter_map(Call::read).any(|call| call.changes_files_in(sandbox.path())) {
            return None;
        }
        let after = Census::take(&sandbox).unwrap();
        sandbox.run("reconcile -q");
        let complaints = find_complaints(&sandbox);
        let mut points = BTreeSet::new();
        for (command, trace) in &traces {
            points.extend(points_of(command, trace, sandbox.path()));
        }
        Some(Self { states, path: path.to_vec(), example, before, ran, after, complaints, points })
    }

    /// The points that are tried: of each fault as many as are asked for.
    fn chosen_points(&self, wanted: usize) -> Vec<Point> {
        if wanted == usize::MAX {
            return self.different_points();
        }
        let letters = self.path.concat();
        let seed =
            letters.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(byte));
        let mut dice = Dice::new(seed);
        let points: Vec<&Point> = self.points.iter().collect();
        let mut chosen = BTreeSet::new();
        // A kill, and an error of any kind.
        for is_kill in [true, false] {
            let mut candidates = points.clone();
            candidates.retain(|point| (point.fault == Fault::Kill) == is_kill);
            let slice = spread(candidates, wanted.saturating_mul(8));
            for _ in 0..wanted.min(slice.len()) {
                chosen.insert(dice.pick(&slice).clone());
            }
        }
        chosen.into_iter().collect()
    }

    /// All points but those of very many calls of the same name, which are spread over them: of the
    /// writes of a copy, one is as good as its neighbour.
    fn different_points(&self) -> Vec<Point> {
        let mut groups: BTreeMap<(&str, &str, String), Vec<&Point>> = BTreeMap::new();
        for point in &self.points {
            let group = (point.command.as_str(), point.call.as_str(), point.fault.part());
            groups.entry(group).or_default().push(point);
        }
        let groups = groups.into_values();
        groups.flat_map(|points| spread(points, MAX_ALIKE)).cloned().collect()
    }

    /// Tries a point. True if the fault happened, and what was wrong after it.
    fn try_point(&self, point: &Point) -> (bool, Vec<String>) {
        let (sandbox, example) = prepare(self.states, &self.path, &self.example);
        let Point { command, call, at, fault } = point;
        let (options, limit) = match fault {
            Fault::Kill => (format!("-e inject={call}:signal=KILL:when={at}"), String::new()),
            Fault::Error(error) => {
                (format!("-e inject={call}:error={error}:when={at}"), String::new())
            }
            Fault::Short(blocks) => (String::new(), format!("trap '' XFSZ; ulimit -f {blocks};")),
        };
        let options = format!("-qq -e trace={call} {options}");
        let script = format!("{}\n{example}", under_strace(command, &options, &limit));
        let ran = sandbox.shell(&script);
        let (traces, codes) = take_traces(&sandbox);
        let signs = ["INJECTED", "killed by SIGKILL", "EFBIG"];
        let has_fired =
            traces.iter().any(|(_, trace)| signs.iter().any(|sign| trace.contains(sign)));
        let mut problems = check_ending(&ran, &codes);
        match Census::take(&sandbox) {
            Ok(census) => problems.extend(self.check_effect(&sandbox, &ran, &codes, &census)),
            Err(problem) => problems.push(problem),
        }
        problems.extend(find_problems(&sandbox, &self.complaints));
        (has_fired, problems)
    }

    /// What is wrong with the objects after a fault, and after the command was typed again.
    fn check_effect(
        &self,
        sandbox: &Sandbox,
        ran: &Ran,
        codes: &[i32],
        census: &Census,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        let before = self.before.objects();
        let after = self.after.objects();
        let now = census.objects();
        for lost in before.intersection(&after).filter(|object| !now.contains(*object)) {
            problems.push(format!("{lost} is lost"));
        }
        problems.extend(census.kinds_with_more_than(&self.before, &self.after));
        let has_all_answers = !self.ran.out.is_empty() && ran.out == self.ran.out;
        let is_acknowledged = has_all_answers || codes.iter().all(|code| *code == 0);
        if is_acknowledged && self.ran.code == 0 {
            problems.extend(self.check_named_objects(&now, "acknowledged"));
        } else if now == before && self.ran.code == 0 {
            let again = sandbox.shell(&self.example);
            if again.code == 0 {
                let census = Census::take(sandbox).unwrap_or_default();
                problems.extend(self.check_named_objects(&census.objects(), "typed again"));
            } else if ![Exit::Usage, Exit::NotFound, Exit::Conflict]
                .iter()
                .any(|exit| i32::from(*exit as u8) == again.code)
            {
                // A refusal that says what to type is an answer: the state is there, or is asked for.
                problems.push(format!("typed again it ends with {}: {}", again.code, again.err));
            }
        }
        problems
    }

    /// What is missing or left over of the objects that the command line or its answer names.
    fn check_named_objects(&self, now: &BTreeSet<String>, how: &str) -> Vec<String> {
        let before = self.before.objects();
        let after = self.after.objects();
        let words = format!("{} {}", self.example, self.ran.out);
        let words: BTreeSet<&str> =
            words.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').collect();
        let mut problems = Vec::new();
        for made in after.difference(&before).filter(|object| words.contains(name_of(object))) {
            if !now.contains(made) {
                problems.push(format!("{made} is not there, though {how}"));
            }
        }
        for removed in before.difference(&after).filter(|object| words.contains(name_of(object))) {
            if now.contains(removed) {
                problems.push(format!("{removed} is still there, though {how}"));
            }
        }
        problems
    }
}

/// A sandbox with the files that examples name, and the example with the name of its cluster.
fn prepare(states: &PreparedStates, path: &[String], example: &str) -> (Sandbox, String) {
    let sandbox = states.copy_for(path);
    let ran = sandbox.shell(&format!("set -e\n{PREPARATION}\necho $CLUSTER"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    (sandbox, example.replace("$CLUSTER", ran.out.trim()))
}

/// What is wrong with how a command ended: it must not panic, and its code must be one of the table.
fn check_ending(ran: &Ran, codes: &[i32]) -> Vec<String> {
    let mut problems = Vec::new();
    if ran.err.contains("panicked") {
        problems.push("it panicked".to_owned());
    }
    for code in codes {
        let is_documented = Exit::ALL.iter().any(|exit| i32::from(*exit as u8) == *code);
        if !is_documented && ![0, KILLED].contains(code) {
            problems.push(format!("exit code {code}"));
        }
    }
    problems.into_iter().map(|problem| format!("{problem}: {}", ran.err)).collect()
}

/// What all workers have found together.
#[derive(Default)]
struct Findings {
    verbs: usize,
    tallies: BTreeMap<String, Tally>,
    failures: Vec<String>,
}

/// Tortures one command after another, until none is left.
fn work(
    states: &PreparedStates,
    examples: &[(Vec<String>, String)],
    next: &AtomicUsize,
    findings: &Mutex<Findings>,
) {
    while let Some((path, example)) = examples.get(next.fetch_add(1, Ordering::Relaxed)) {
        let Some(verb) = Verb::explore(states, path, example) else { continue };
        findings.lock().unwrap().verbs += 1;
        for point in verb.chosen_points(points_of_each(1)) {
            let (has_fired, problems) = verb.try_point(&point);
            let mut findings = findings.lock().unwrap();
            let tally = findings.tallies.entry(point.fault.part()).or_default();
            tally.points += 1;
            tally.fired += usize::from(has_fired);
            tally.held += usize::from(has_fired && problems.is_empty());
            for problem in problems {
                findings.failures.push(format!("{}\n  {point}: {problem}", verb.example));
            }
        }
    }
}

#[test]
fn every_command_survives_a_fault_at_each_call_that_changes_something() {
    if !has_program("strace") {
        return;
    }
    let states = PreparedStates::new();
    let mut examples = all_examples();
    for (command, example) in FURTHER_EXAMPLES {
        examples.push((vec![command.to_owned()], example.to_owned()));
    }
    let next = AtomicUsize::new(0);
    let findings = Mutex::new(Findings::default());
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(&states, &examples, &next, &findings));
        }
    });
    let findings = findings.into_inner().unwrap();
    let mut fired = 0;
    for (part, tally) in &findings.tallies {
        tally.note(part);
        fired += tally.fired;
    }
    let count = findings.failures.len();
    let told = findings.failures.iter().take(MAX_FAILURES).cloned().collect::<Vec<_>>();
    assert!(told.is_empty(), "{count} failures, such as:\n{}", told.join("\n"));
    assert!(findings.verbs > 45, "only {} commands change anything", findings.verbs);
    // Most points fire; a second run may be a call shorter than the first.
    assert!(fired > findings.verbs, "{fired} of {:?}", findings.tallies);
}
