//! Why something is not done: what, the cause, and what to type next.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// The exit codes, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Conflict = 4,
    Timeout = 5,
    /// Nothing is left to lease.
    Exhausted = 6,
    Busy = 7,
    State = 8,
    Denied = 9,
    Changes = 10,
    /// `run` itself failed, not its command.
    Run = 125,
    /// The command of `run` is there and cannot be run.
    CommandNotExecutable = 126,
    /// The command of `run` is not there.
    CommandNotFound = 127,
    Interrupted = 130,
    Terminated = 143,
}

/// An error that says what to type next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub exit: Exit,
    pub what: String,
    pub causes: Vec<String>,
    pub next: Option<String>,
}

impl Exit {
    /// How a shell reports a program that a signal ended; what is typed counts as SIGINT, the
    /// rest as SIGTERM.
    pub fn by_signal(signal: i32) -> Self {
        if matches!(signal, 2 | 3) { Self::Interrupted } else { Self::Terminated }
    }
}

impl Refusal {
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), causes: Vec::new(), next: None }
    }

    pub fn invalid(what: impl Into<String>) -> Self {
        Self::new(Exit::Failed, what)
    }

    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, what)
    }

    pub fn conflict(what: impl Into<String>) -> Self {
        Self::new(Exit::Conflict, what)
    }

    /// What several objects have wrong, a problem a line; what one has, it says itself.
    pub fn of_all(mut wrong: Vec<Self>) -> Result<(), Self> {
        if wrong.len() < 2 {
            return wrong.pop().map_or(Ok(()), Err);
        }
        let exit = wrong.first().map_or(Exit::Failed, |first| first.exit);
        let causes: Vec<String> = wrong.iter().flat_map(Self::lines).collect();
        let what = format!("nothing is taken, problems: {}", causes.len());
        let next = wrong.iter().find_map(|one| one.next.clone());
        Err(Self { exit, what, causes, next })
    }

    /// Each cause behind what it is the cause of.
    fn lines(&self) -> Vec<String> {
        let mut what = self.what.as_str();
        if self.causes.is_empty() {
            return vec![what.to_owned()];
        }
        if self.causes.len() > 1 {
            // The object without how many problems it has.
            what = what.rsplit_once(": ").map_or(what, |(object, _)| object);
        }
        self.causes.iter().map(|cause| format!("{what}: {cause}")).collect()
    }

    /// Why a file cannot be written.
    pub fn unwritable(path: &Path, error: &std::io::Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::PermissionDenied => Exit::Denied,
            ErrorKind::AlreadyExists => Exit::Conflict,
            _ => Exit::Failed,
        };
        Self::new(exit, format!("`{}` cannot be written", path.display()))
            // The name of the file beside is of no use to anybody.
            .because(error.to_string().split(" at path ").next().unwrap_or_default())
    }

    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    #[must_use]
    pub fn next(mut self, command: impl Into<String>) -> Self {
        self.next = Some(command.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.what)?;
        for cause in &self.causes {
            write!(out, "\n  cause: {cause}")?;
        }
        match &self.next {
            Some(next) => write!(out, "\n  next: {next}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// The known name nearest to a wrong one, if any is near enough to be a slip.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wrong.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|name| (distance(&wrong.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of neighbours that make `a` of `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replace = rows[i][j] + usize::from(a[i] != b[j]);
            let mut best = replace.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["size", "runningCount", "maxSize", "inventory"];
        for (wrong, right) in [
            ("sise", Some("size")),
            ("runningcount", Some("runningCount")),
            ("inventroy", Some("inventory")),
            ("lifetime", None),
        ] {
            assert_eq!(super::nearest(wrong, known), right, "{wrong}");
        }
    }
}
