//! Plays random histories in the simulator of the tests until one breaks a law. It prints that
//! history, as short as it can be, in the form of a file of `tests/cases/sim`.
//!
//! `cargo run --release --example sim -- --seeds 2000 --steps 200 --seed 0`

use std::process::ExitCode;

use clap::Parser;

use sim::game::play;
use sim::history::History;
use sim::law::Law;
use sim::shrink::describe;

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/sim/mod.rs"]
mod sim;

/// Simulates years of pools, clusters, clouds and people, and judges them by the laws of poolctl.
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
    /// Go on after a history that breaks a law
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut failed: u64 = 0;
    for seed in options.seed..options.seed.saturating_add(options.seeds) {
        let history = History::random(seed, options.steps);
        if let Err(failure) = play(&history, Law::ALL, None) {
            failed += 1;
            println!("{}", describe(&history, &failure, Law::ALL));
            if !options.keep_going {
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{} histories, {failed} broke a law", options.seeds);
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
