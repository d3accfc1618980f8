//! What reads the texts of others is given texts that nobody would write: each file of a corpus
//! (`corpus/TARGET/`), changed at random by a seed. Nothing may panic, take long, or break what its
//! target promises. An input that did goes into the corpus.
//!
//! `cargo test` tries some hundreds of each; with `POOLCTL_TORTURE=all` there are many thousands.

mod mutate;
mod redfish;
mod targets;

use std::panic::{catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::torture::{Tally, points_of_each};

use mutate::Mutator;
use targets::{TARGETS, Target};

/// How many inputs are tried of each target, in the slice and at most.
const SLICE: usize = 300;
const MOST: usize = 20_000;
/// No input may take longer than this. It is much, because many tests run at the same time.
const LONGEST: Duration = Duration::from_secs(10);

/// What nests is read with the stack that a program has. Threads of tests have a quarter of it, which
/// code that is not optimized uses up.
const STACK_OF_PROGRAM: usize = 8 << 20;

/// The files of a corpus, by their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Gives an input to a target; the error says what was wrong.
#[expect(clippy::disallowed_methods, reason = "the time that it takes is measured")]
fn try_input(target: &Target, input: &[u8]) -> Result<(), String> {
    let begin = Instant::now();
    let outcome = catch_unwind(|| (target.read)(input));
    let taken = begin.elapsed();
    match outcome {
        Err(_) => Err("it panics".into()),
        Ok(Err(problem)) => Err(problem),
        Ok(Ok(())) if taken > LONGEST => Err(format!("it takes {taken:?}")),
        Ok(Ok(())) => Ok(()),
    }
}

/// Tries so many inputs of a target, the corpus first. What ends the whole process, as a stack that
/// overflows does, leaves its input in `target/fuzz/TARGET`.
fn fuzz(target: &Target, count: usize) {
    let corpus = corpus(target.name);
    assert!(corpus.len() > 1, "{} has no corpus", target.name);
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/fuzz");
    std::fs::create_dir_all(&folder).unwrap();
    let kept_input = folder.join(target.name);
    let mut mutator = Mutator::new(target.name, &corpus);
    let mut failures = Vec::new();
    for number in 0..corpus.len() + count {
        let input = corpus.get(number).cloned().unwrap_or_else(|| mutator.next_input());
        std::fs::write(&kept_input, &input).unwrap();
        if let Err(problem) = try_input(target, &input) {
            let text: String = String::from_utf8_lossy(&input).chars().take(2000).collect();
            failures.push(format!("{} {number}: {problem}: {text:?}", target.name));
        }
    }
    let points = corpus.len() + count;
    Tally { points, fired: points, held: points - failures.len() }.note("fuzzed input");
    std::fs::remove_file(&kept_input).unwrap();
    let told: Vec<&String> = failures.iter().take(5).collect();
    assert!(told.is_empty(), "{} of {points}: {told:#?}", failures.len());
}

#[test]
fn what_others_wrote_is_read_or_refused() {
    let count = points_of_each(1).saturating_mul(SLICE).min(MOST);
    let reader = Builder::new().stack_size(STACK_OF_PROGRAM).spawn(move || {
        for target in &TARGETS {
            fuzz(target, count);
        }
    });
    if let Err(panic) = reader.unwrap().join() {
        resume_unwind(panic);
    }
}

#[test]
fn a_target_that_panics_or_breaks_its_promise_is_found() {
    let promise = |input: &[u8]| match input {
        [b'!', ..] => panic!("as expected"),
        [b'?', ..] => Err("broken".to_owned()),
        _ => Ok(()),
    };
    let target = Target { name: "canary", read: promise };
    assert_eq!(try_input(&target, b"!"), Err("it panics".to_owned()));
    assert_eq!(try_input(&target, b"?"), Err("broken".to_owned()));
    assert_eq!(try_input(&target, b""), Ok(()));
}
