//! A history: the seed of the names in it, and its steps. As a text it has a line for the seed and
//! one for each step; lines that begin with `#` are comments.

use std::fmt;
use std::str::FromStr;

use super::step::Step;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// What the library draws its random names from.
    pub seed: u64,
    pub steps: Vec<Step>,
}

impl fmt::Display for History {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "seed {}", self.seed)?;
        for step in &self.steps {
            writeln!(out, "{step}")?;
        }
        Ok(())
    }
}

impl FromStr for History {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut history = Self { seed: 1, steps: Vec::new() };
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.strip_prefix("seed ") {
                Some(seed) => {
                    history.seed = seed.parse().map_err(|_| format!("`{line}` is no seed"))?;
                }
                None => history.steps.push(line.parse()?),
            }
        }
        Ok(history)
    }
}
