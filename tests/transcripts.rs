//! Transcripts: `$ command`, and what it printed. They are documentation that is always true.
//! A command goes on in lines that begin with `> `. `POOLCTL_BLESS=1` writes them anew.

use std::fmt::Write;
use std::path::Path;

use crate::sandbox::{Sandbox, has};

struct Step {
    /// Comment lines before it.
    before: String,
    command: String,
    printed: String,
}

fn parse(text: &str) -> (Vec<Step>, String) {
    let (mut steps, mut comment): (Vec<Step>, String) = (Vec::new(), String::new());
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let before = std::mem::take(&mut comment);
            steps.push(Step { before, command: command.into(), printed: String::new() });
        } else if let (Some(more), Some(step)) = (line.strip_prefix("> "), steps.last_mut()) {
            write!(step.command, "\n{more}").unwrap();
        } else if line.starts_with("# ") || line == "#" || steps.is_empty() {
            writeln!(comment, "{line}").unwrap();
        } else if let Some(step) = steps.last_mut().filter(|_| comment.is_empty()) {
            writeln!(step.printed, "{line}").unwrap();
        } else {
            writeln!(comment, "{line}").unwrap();
        }
    }
    (steps, comment)
}

/// The width of columns depends on who runs the test; what is in them does not.
fn loosely(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.trim_end().lines().map(words).collect()
}

fn run(sandbox: &mut Sandbox, command: &str) -> String {
    if let Some((name, value)) =
        command.strip_prefix("export ").and_then(|rest| rest.split_once('='))
    {
        sandbox.set(name, value);
        return String::new();
    }
    let ran = sandbox.shell(&format!("({command}\n) 2>&1"));
    let mut printed = ran.out.replace(&sandbox.path().display().to_string(), "DIR");
    let actor = sandbox.shell("id -un").out;
    let actor = actor.trim();
    printed = printed
        .split_inclusive(|letter: char| letter.is_whitespace())
        .map(
            |word| {
                if word.trim_end() == actor { word.replacen(actor, "me", 1) } else { word.into() }
            },
        )
        .collect();
    if ran.code != 0 {
        writeln!(printed, "[exit {}]", ran.code).unwrap();
    }
    printed
}

fn check(path: &Path, bless: bool) {
    let text = std::fs::read_to_string(path).unwrap();
    if text.contains("jq ") && !has("jq") {
        return;
    }
    let (steps, end) = parse(&text);
    assert!(!steps.is_empty(), "{} has no steps", path.display());
    let mut sandbox = Sandbox::new();
    let mut anew = String::new();
    for step in steps {
        let printed = run(&mut sandbox, &step.command);
        let same = loosely(&printed) == loosely(&step.printed);
        assert!(
            same || bless,
            "{}\n$ {}\n--- printed\n{printed}\n--- expected\n{}",
            path.display(),
            step.command,
            step.printed
        );
        let command = step.command.replace('\n', "\n> ");
        let printed = printed.trim_end();
        let gap = if printed.is_empty() { "" } else { "\n" };
        write!(anew, "{}$ {command}\n{printed}{gap}\n", step.before).unwrap();
    }
    if bless {
        anew += &end;
        std::fs::write(path, anew.trim_end().to_owned() + "\n").unwrap();
    }
}

fn paths() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|one| one.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// What each transcript leaves behind, after each of its steps that changed anything.
pub fn replay(mut see: impl FnMut(&str, &Sandbox)) {
    for path in paths() {
        let (steps, _) = parse(&std::fs::read_to_string(&path).unwrap());
        let mut sandbox = Sandbox::new();
        let mut known = String::new();
        for step in steps {
            run(&mut sandbox, &step.command);
            let now = sandbox.run(&["export"]).out;
            if now != known && !now.is_empty() {
                see(&format!("{}: {}", path.display(), step.command), &sandbox);
            }
            known = now;
        }
    }
}

#[test]
fn every_transcript_is_true() {
    #[expect(clippy::disallowed_methods, reason = "blessing is asked for by a variable")]
    let bless = std::env::var_os("POOLCTL_BLESS").is_some();
    for path in paths() {
        check(&path, bless);
    }
}
