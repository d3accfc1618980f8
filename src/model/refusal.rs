//! Why something is not done: what, the cause, and what to type next.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// Declares the exit codes: what each means as its documentation, its name and its number.
macro_rules! exit_codes {
    ($( $(#[doc = $meaning:literal])+ $Exit:ident = $code:literal, )*) => {
        /// The exit codes of everything that is not done; 0 is what is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Exit { $( $(#[doc = $meaning])+ $Exit = $code, )* }

        impl Exit {
            /// All of them, by their number.
            pub const ALL: &'static [Self] = &[$(Self::$Exit),*];

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                let text = match self { $(Self::$Exit => concat!($($meaning),+),)* };
                // A documentation comment begins with a blank.
                text.trim_start()
            }
        }
    };
}

exit_codes! {
    /// It failed: an invalid manifest, a pool's change that was undone, a file that cannot be read.
    Failed = 1,
    /// Usage: an unknown option, an unusable name, a question and nobody to ask.
    Usage = 2,
    /// Something is not there.
    NotFound = 3,
    /// It is there already, is in use, or cannot be changed.
    Conflict = 4,
    /// The time of a wait is over.
    Timeout = 5,
    /// Nothing is left to lease.
    Exhausted = 6,
    /// Another pass is running.
    Busy = 7,
    /// The state file is unusable.
    State = 8,
    /// File permissions, or somebody else's object.
    Denied = 9,
    /// `plan` has changes.
    Changes = 10,
    /// `run` itself failed, not its command.
    Run = 125,
    /// The command of `run` is there and cannot be run.
    CommandNotExecutable = 126,
    /// The command of `run` is not there.
    CommandNotFound = 127,
    /// It was interrupted at the keyboard.
    Interrupted = 130,
    /// It was told to end.
    Terminated = 143,
}

/// An error that says what to type next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub exit: Exit,
    pub what: String,
    pub causes: Vec<String>,
    pub next: Option<NextStep>,
    /// What `causes` are the problems of, each by itself: then `what` only counts them.
    pub problems_of: Option<String>,
}

/// What helps somebody who was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// A command of poolctl. It is to be typed in the same namespace as the one that was refused.
    Command(String),
    /// Anything else: a command of another program or with its namespace, an option, a sentence.
    Advice(String),
}

impl From<&str> for NextStep {
    fn from(command: &str) -> Self {
        Self::Command(command.to_owned())
    }
}

impl From<String> for NextStep {
    fn from(command: String) -> Self {
        Self::Command(command)
    }
}

impl fmt::Display for NextStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Command(text) | Self::Advice(text)) = self;
        out.write_str(text)
    }
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
        Self { exit, what: what.into(), causes: Vec::new(), next: None, problems_of: None }
    }

    /// Several problems of one thing.
    pub fn of_problems(subject: impl Into<String>, problems: Vec<String>) -> Self {
        let subject = subject.into();
        let what = format!("{subject}: {} problems", problems.len());
        Self { causes: problems, problems_of: Some(subject), ..Self::invalid(what) }
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
        Err(Self { causes, next, ..Self::new(exit, what) })
    }

    /// Each cause behind what it is the cause of.
    fn lines(&self) -> Vec<String> {
        if self.causes.is_empty() {
            return vec![self.what.clone()];
        }
        let subject = self.problems_of.as_ref().unwrap_or(&self.what);
        self.causes.iter().map(|cause| format!("{subject}: {cause}")).collect()
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

    /// The file or the place in which it is wrong.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.what = format!("{place}: {}", self.what);
        self.problems_of = self.problems_of.map(|subject| format!("{place}: {subject}"));
        self
    }

    /// What to type next: a command of poolctl, in the namespace of the one that was refused.
    #[must_use]
    pub fn next(mut self, command: impl Into<NextStep>) -> Self {
        self.next = Some(command.into());
        self
    }

    /// What to do next where that is no command of poolctl, or one that says its namespace.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        self.next(NextStep::Advice(advice.into()))
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
