//! The simulator: a seeded world of pools, clusters, clouds, people and clocks around the real
//! library, which is driven through its door. No program is started and nobody sleeps: the clocks
//! show what a history says. After every step the laws are judged, and at the end of a history,
//! when all troubles that pass are over, every claim must be served or say truly what a person has
//! to mend.
//!
//! A history is a text with a step a line (`step.rs`), so that one which breaks a law can be kept
//! in `tests/cases/sim`. `cargo run --example sim -- --seeds 2000` plays many of them.

/// Declares values that have a word in the notation of histories.
macro_rules! words {
    ($(#[$about:meta])* $Name:ident { $($(#[$what:meta])* $Value:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $Name { $($(#[$what])* $Value,)* }

        impl $Name {
            pub const ALL: &'static [Self] = &[$(Self::$Value,)*];

            pub fn word(self) -> &'static str {
                match self { $(Self::$Value => $word,)* }
            }

            #[allow(dead_code, reason = "not every set of words is read from a text")]
            pub fn named(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word() == word)
            }
        }
    };
}

pub mod canary;
#[cfg(test)]
mod checks;
mod clock;
pub mod dice;
pub mod game;
mod generator;
mod healing;
pub mod history;
mod hive_trip;
pub mod law;
mod people;
mod pools;
mod referee;
mod remedy;
mod rest;
mod round_trip;
pub mod shrink;
mod step;
mod trouble;
mod world;
