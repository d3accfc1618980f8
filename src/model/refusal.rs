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

/// How a known name is like a wrong one, the likeliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// A few letters were mistyped.
    Slip,
    /// One is the beginning of the other.
    Beginning,
    /// One is somewhere in the other.
    Part,
}

/// The known name nearest to a wrong one, if any is near enough to be what was meant.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let likely =
        known.into_iter().filter_map(|name| Some((likeness(&wrong, &name.to_lowercase())?, name)));
    likely.min_by_key(|(likeness, _)| *likeness).map(|(_, name)| name)
}

/// How alike two names in lower case are, and how many letters are between them.
fn likeness(wrong: &str, known: &str) -> Option<(Likeness, usize)> {
    // Swapped neighbours count as one letter.
    let distance = strsim::osa_distance(wrong, known);
    if distance <= (wrong.chars().count() / 3).clamp(1, 3) {
        return Some((Likeness::Slip, distance));
    }
    let (shorter, longer) = if wrong.len() < known.len() { (wrong, known) } else { (known, wrong) };
    // Very short names are part of many others.
    if shorter.len() >= 3 && longer.starts_with(shorter) {
        return Some((Likeness::Beginning, distance));
    }
    (shorter.len() >= 4 && longer.contains(shorter)).then_some((Likeness::Part, distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(known: [&str; N], wrong: &str, right: Option<&str>) {
        assert_eq!(nearest(wrong, known), right, "{wrong}");
    }

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["size", "runningCount", "maxSize", "inventory"];
        check(known, "sise", Some("size"));
        check(known, "runningcount", Some("runningCount"));
        check(known, "inventroy", Some("inventory"));
        check(known, "lifetime", None);
    }

    #[test]
    fn names_that_begin_alike_or_contain_each_other_are_near() {
        check(["default", "maximum"], "max", Some("maximum"));
        check(["resumeTimeout"], "resumeTimeoutMinutes", Some("resumeTimeout"));
        check(["imageSetRef", "inventory"], "imageSet", Some("imageSetRef"));
        check(["claimLifetime", "size"], "lifetime", Some("claimLifetime"));
    }

    #[test]
    fn a_slip_is_nearer_than_a_part_and_a_short_part_is_none() {
        check(["web", "web-shared", "web-sharde"], "web-sharer", Some("web-shared"));
        check(["db-shared", "web-shared"], "shared", Some("db-shared"));
        check(["ready"], "a", None);
        check(["bootMode", "bmc"], "boot", Some("bootMode"));
        check(["shipping"], "ipp", None);
    }
}
