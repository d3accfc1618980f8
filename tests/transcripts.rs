//! Transcripts, in tests/cli: `$ command`, and what it printed. They are documentation that is
//! always true. A command goes on in lines that begin with `> `; lines that begin with `# ` are
//! comments. `POOLCTL_BLESS=1` writes what is printed now into the files.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::hive_doors::assert_wishes_come_back_from_hive;
use crate::moving::assert_moved_state_is_the_same;
use crate::published_shapes::{assert_published_shapes, declared_kinds};
use crate::sandbox::{Sandbox, has_program};

struct Step {
    /// Comment lines before the command.
    comment: String,
    command: String,
    printed: String,
}

/// The steps of a transcript, and the comment after the last of them.
fn parse_transcript(transcript: &str) -> (Vec<Step>, String) {
    let mut steps: Vec<Step> = Vec::new();
    let mut comment = String::new();
    for line in transcript.lines() {
        let is_comment = line.starts_with("# ") || line == "#" || !comment.is_empty();
        if let Some(command) = line.strip_prefix("$ ") {
            let comment = std::mem::take(&mut comment);
            steps.push(Step { comment, command: command.into(), printed: String::new() });
            continue;
        }
        match (line.strip_prefix("> "), steps.last_mut()) {
            (Some(continuation), Some(step)) => write!(step.command, "\n{continuation}").unwrap(),
            (None, Some(step)) if !is_comment => writeln!(step.printed, "{line}").unwrap(),
            _ => writeln!(comment, "{line}").unwrap(),
        }
    }
    (steps, comment)
}

/// The words of each line: the width of columns depends on who runs the test.
fn words_of_lines(printed: &str) -> Vec<String> {
    let lines = printed.trim_end().lines();
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Runs a command; the sandbox's folder and the user's name are replaced by fixed words.
fn run_command(sandbox: &mut Sandbox, command: &str) -> String {
    static USER: OnceLock<String> = OnceLock::new();
    if let Some((name, value)) =
        command.strip_prefix("export ").and_then(|variable| variable.split_once('='))
    {
        sandbox.set_variable(name, value);
        return String::new();
    }
    let ran = sandbox.shell(&format!("({command}\n) 2>&1"));
    let output = ran.out.replace(&sandbox.path().display().to_string(), "DIR");
    let user = USER.get_or_init(|| sandbox.shell("id -un").out.trim().to_owned());
    let mut printed = String::new();
    for word in output.split_inclusive(char::is_whitespace) {
        if word.trim_end() == user {
            printed += &word.replacen(user, "me", 1);
        } else {
            printed += word;
        }
    }
    if ran.code != 0 {
        writeln!(printed, "[exit {}]", ran.code).unwrap();
    }
    printed
}

/// Fails at the first command that prints something else; when blessing, writes that to the file.
fn check_transcript(path: &Path, bless: bool) {
    let transcript = std::fs::read_to_string(path).unwrap();
    if transcript.contains("jq ") && !has_program("jq") {
        return;
    }
    let (steps, last_comment) = parse_transcript(&transcript);
    assert!(!steps.is_empty(), "{} has no steps", path.display());
    let mut sandbox = Sandbox::new();
    let mut blessed = String::new();
    for step in steps {
        let printed = run_command(&mut sandbox, &step.command);
        let is_same = words_of_lines(&printed) == words_of_lines(&step.printed);
        assert!(
            is_same || bless,
            "{}\n$ {}\n--- printed\n{printed}\n--- expected\n{}",
            path.display(),
            step.command,
            step.printed
        );
        let command = step.command.replace('\n', "\n> ");
        let printed = printed.trim_end();
        let gap = if printed.is_empty() { "" } else { "\n" };
        write!(blessed, "{}$ {command}\n{printed}{gap}\n", step.comment).unwrap();
    }
    if bless {
        blessed += &last_comment;
        std::fs::write(path, blessed.trim_end().to_owned() + "\n").unwrap();
    }
}

fn paths() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        paths.push(entry.unwrap().path());
    }
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// Calls `visit` with the state that each step of a transcript leaves, if the step changed it.
fn replay_transcript(path: &Path, visit: impl Fn(&str, &Sandbox)) {
    let (steps, _) = parse_transcript(&std::fs::read_to_string(path).unwrap());
    let mut sandbox = Sandbox::new();
    let mut before = String::new();
    for step in steps {
        run_command(&mut sandbox, &step.command);
        let after = sandbox.run("export").out;
        if after != before && !after.is_empty() {
            visit(&format!("{}: {}", path.display(), step.command), &sandbox);
        }
        before = after;
    }
}

/// Transcripts need nothing of each other.
const TRANSCRIPTS_AT_ONCE: usize = 3;

#[test]
fn every_state_of_a_transcript_moves_to_another_file_and_to_other_programs() {
    let kinds = declared_kinds();
    let paths = Mutex::new(paths());
    let (states, states_for_hive, documents) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let visit = |transcript: &str, sandbox: &Sandbox| {
        states.fetch_add(1, Ordering::Relaxed);
        assert_moved_state_is_the_same(transcript, sandbox);
        let went_to_hive = assert_wishes_come_back_from_hive(transcript, sandbox);
        states_for_hive.fetch_add(usize::from(went_to_hive), Ordering::Relaxed);
        let count = assert_published_shapes(transcript, sandbox, &kinds);
        documents.fetch_add(count, Ordering::Relaxed);
    };
    let replay_those_that_are_left = || {
        loop {
            let path = paths.lock().unwrap().pop();
            let Some(path) = path else { break };
            replay_transcript(&path, visit);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..TRANSCRIPTS_AT_ONCE {
            scope.spawn(replay_those_that_are_left);
        }
    });
    let [states, states_for_hive, documents] =
        [states, states_for_hive, documents].map(AtomicUsize::into_inner);
    assert!(states > 20 && states_for_hive > 20, "{states} {states_for_hive}");
    assert!(documents > 100, "{documents}");
}

#[test]
fn every_transcript_is_true() {
    #[expect(clippy::disallowed_methods, reason = "blessing is asked for by a variable")]
    let bless = std::env::var_os("POOLCTL_BLESS").is_some();
    for path in paths() {
        check_transcript(&path, bless);
    }
}

/// Columns of a terminal.
const WIDTH: usize = 80;

/// What asks for more columns than a terminal has.
const WIDE_FORMATS: [&str; 6] =
    ["-o wide", "-o json", "-o yaml", "-o custom-columns", "jsonpath=", "poolctl export"];

/// Commands some of whose lines are wider, each with the reason.
const WIDE_COMMANDS: [(&str, &str); 11] = [
    ("get event", "messages are whole, as with kubectl, where no terminal has to be fitted"),
    ("agent check-in", "it answers a host, which reads a line of JSON"),
    ("agent unbind", "what is done with a host is one line, which scripts search"),
    ("events", "messages are whole, as with kubectl"),
    ("infraenv iso", "names of files are whole"),
    ("infraenv token", "a token is used with a sentence about its end"),
    ("ip who", "a list of leases has two instants in each line"),
    ("pool advise", "an advice is one sentence and one line"),
    ("pool dns", "lines of hosts files and zones are not broken"),
    ("wait", "a line of progress is one line of a log, where no terminal has to be fitted"),
    ("why", "a cause is one sentence and one line, which scripts search"),
];

/// Commands that fit a terminal whatever they show.
const SCREENS: [&str; 4] = ["get", "status", "describe", "plan"];

/// A refusal or a warning has one line for each of its parts, so that scripts find them.
const PARTS_OF_REFUSALS: [&str; 4] = ["error: ", "warning: ", "  cause: ", "  next: "];

fn may_be_wide(command: &str) -> bool {
    WIDE_FORMATS.iter().any(|format| command.contains(format))
        || WIDE_COMMANDS.iter().any(|(name, _)| command.contains(&format!("poolctl {name}")))
}

#[test]
fn every_line_of_a_transcript_fits_a_terminal() {
    for (command, reason) in WIDE_COMMANDS {
        assert!(!SCREENS.contains(&command), "{command} has to fit: {reason}");
    }
    let mut wide_lines = Vec::new();
    for path in paths() {
        let (steps, _) = parse_transcript(&std::fs::read_to_string(&path).unwrap());
        for step in steps.iter().filter(|step| !may_be_wide(&step.command)) {
            for line in step.printed.lines() {
                let is_part = PARTS_OF_REFUSALS.iter().any(|part| line.starts_with(part));
                if line.chars().count() > WIDTH && !is_part {
                    wide_lines.push(format!("{}: {}\n{line}", path.display(), step.command));
                }
            }
        }
    }
    assert!(wide_lines.is_empty(), "{}", wide_lines.join("\n"));
}
