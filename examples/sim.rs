//! Plays random histories in the simulator of the tests until one breaks a law. It prints that
//! history, as short as it can be, in the form of a file of `tests/cases/sim`.
//!
//! `cargo run --release --example sim -- --seeds 2000 --steps 200 --jobs 2`
//!
//! `--replay FILE` plays the history in a file instead.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;

use sim::game::play;
use sim::history::History;
use sim::law::Law;
use sim::shrink::describe;

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/sim/mod.rs"]
mod sim;

/// Simulates months of pools, clusters, clouds and people, and judges them by the laws of poolctl.
#[derive(Parser)]
struct Options {
    /// How many histories are played
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Steps of each history
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// The seed of the first history
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many histories are played at the same time
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Go on after a history that breaks a law
    #[arg(long)]
    keep_going: bool,
    /// Play the history in this file instead of random ones
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

/// How far all threads together are.
struct Progress {
    next_seed: AtomicU64,
    played: AtomicU64,
    failed: AtomicU64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(path) = &options.replay {
        return replay(path);
    }
    let progress = Progress {
        next_seed: AtomicU64::new(options.seed),
        played: AtomicU64::new(0),
        failed: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| play_histories(&options, &progress));
        }
    });
    let played = progress.played.load(Ordering::Relaxed);
    let failed = progress.failed.load(Ordering::Relaxed);
    println!("{played} histories of {} steps, {failed} broke a law", options.steps);
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Plays the history in a file, and prints how it ends.
fn replay(path: &Path) -> ExitCode {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let history = text.and_then(|text| text.parse::<History>());
    let ended = history
        .and_then(|history| play(&history, Law::ALL, None).map_err(|failure| failure.to_string()));
    match ended {
        Ok(()) => {
            println!("{}: no law is broken", path.display());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            println!("{}: {problem}", path.display());
            ExitCode::FAILURE
        }
    }
}

/// Plays histories until all seeds are used up, or one of any thread has broken a law.
fn play_histories(options: &Options, progress: &Progress) {
    let end = options.seed.saturating_add(options.seeds);
    loop {
        let seed = progress.next_seed.fetch_add(1, Ordering::Relaxed);
        let is_over = progress.failed.load(Ordering::Relaxed) > 0 && !options.keep_going;
        if seed >= end || is_over {
            return;
        }
        let history = History::random(seed, options.steps);
        progress.played.fetch_add(1, Ordering::Relaxed);
        if let Err(failure) = play(&history, Law::ALL, None) {
            progress.failed.fetch_add(1, Ordering::Relaxed);
            println!("{}", describe(&history, &failure, Law::ALL));
        }
    }
}
