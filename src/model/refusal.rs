//! Refusals: what is not done, why, and what to type next; and the exit codes of the program. It
//! never decides whether to refuse.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// Declares the exit codes: what each means as its documentation, its name and its number.
macro_rules! exit_codes {
    ($( $(#[doc = $meaning:literal])+ $Exit:ident = $code:literal, )*) => {
        /// The exit codes of whatever is not done. What is done has 0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Exit { $( $(#[doc = $meaning])+ $Exit = $code, )* }

        impl Exit {
            /// All of them, by their number.
            pub const ALL: &'static [Self] = &[$(Self::$Exit),*];

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                let comment = match self { $(Self::$Exit => concat!($($meaning),+),)* };
                // A documentation comment begins with a blank.
                comment.trim_start()
            }

            /// Its number, as people type it.
            pub fn digits(self) -> &'static str {
                match self { $(Self::$Exit => stringify!($code),)* }
            }
        }
    };
}

/// More causes than this are counted and not shown.
const MOST_CAUSES: usize = 100;

exit_codes! {
    /// It failed: an invalid manifest, a pool's change that was undone, a file that cannot be read.
    /// Or `diff` found a difference.
    Failed = 1,
    /// Usage: an unknown option, an unusable name, or a question without a terminal to ask on.
    Usage = 2,
    /// An object does not exist.
    NotFound = 3,
    /// An object exists already, is in use, or cannot be changed.
    Conflict = 4,
    /// A wait ended without its goal.
    Timeout = 5,
    /// Nothing is left to lease: no address is free, or too few hosts fit.
    Exhausted = 6,
    /// Another pass is running (`reconcile --strict`, `restore`), or another command holds the write
    /// lock for too long.
    Busy = 7,
    /// The state file is unusable: corrupt, newer, read-only, hard-linked, or the disk is full.
    State = 8,
    /// File permissions, or with sudo somebody else's object.
    Denied = 9,
    /// `plan` found changes.
    Changes = 10,
    /// `run` itself failed, not its command.
    Run = 125,
    /// The command of `run` exists but cannot be run.
    CommandNotExecutable = 126,
    /// The command of `run` does not exist.
    CommandNotFound = 127,
    /// It was interrupted at the keyboard. The state is consistent.
    Interrupted = 130,
    /// It was told to end. The state is consistent.
    Terminated = 143,
}

/// An error that says what to type next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub exit: Exit,
    /// What is refused, in a sentence without a full stop.
    pub what: String,
    /// Why, each in a sentence without a full stop.
    pub causes: Vec<String>,
    pub next: Option<NextStep>,
    /// Set if `causes` are several problems of one subject, and `what` only counts them: the
    /// subject.
    pub problems_of: Option<String>,
}

/// What helps somebody who was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// A command of poolctl. It is to be typed in the same namespace as the one that was refused.
    Command(String),
    /// Anything else: a command of another program or with its namespace, an option, a sentence.
    Advice(String),
    /// A whole line, which everybody types as it is, whatever was given to the command.
    Line(String),
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
        let (Self::Command(step) | Self::Advice(step) | Self::Line(step)) = self;
        out.write_str(step)
    }
}

impl Exit {
    /// The exit code of a program that a signal ended, as shells report it. SIGQUIT, which is typed
    /// like SIGINT, counts as that, and any other signal as SIGTERM.
    pub fn by_signal(signal: i32) -> Self {
        if matches!(signal, 2 | 3) { Self::Interrupted } else { Self::Terminated }
    }
}

impl Refusal {
    /// A refusal with an exit code. `what` is a sentence without a full stop, with names in
    /// backticks.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), causes: Vec::new(), next: None, problems_of: None }
    }

    /// Several problems of one thing.
    pub fn of_problems(subject: impl Into<String>, problems: Vec<String>) -> Self {
        let subject = subject.into();
        let what = format!("{subject}: {} problems", problems.len());
        Self { causes: problems, problems_of: Some(subject), ..Self::invalid(what) }
    }

    /// What was asked cannot be done: exit code 1.
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::new(Exit::Failed, what)
    }

    /// The command was not written as its help says: exit code 2.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// What was named is not there: exit code 3.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, what)
    }

    /// What was asked contradicts what there is: exit code 4.
    pub fn conflict(what: impl Into<String>) -> Self {
        Self::new(Exit::Conflict, what)
    }

    /// Refuses several objects at once, with a cause for each problem. A single refusal stays as it
    /// is; none is Ok.
    pub fn refuse_all(mut refusals: Vec<Self>) -> Result<(), Self> {
        if refusals.len() < 2 {
            return refusals.pop().map_or(Ok(()), Err);
        }
        let exit = refusals.first().map_or(Exit::Failed, |first| first.exit);
        let count: usize = refusals.iter().map(|refusal| refusal.causes.len().max(1)).sum();
        // A file may have millions of problems, of which nobody reads more than the first.
        let problems = refusals.iter().flat_map(Self::problems);
        let mut causes: Vec<String> = problems.take(MOST_CAUSES).collect();
        if count > MOST_CAUSES {
            causes.truncate(MOST_CAUSES - 1);
            causes.push(format!("{} more", count - causes.len()));
        }
        let what = format!("nothing is changed, problems: {count}");
        let next = refusals.iter().find_map(|refusal| refusal.next.clone());
        Err(Self { causes, next, ..Self::new(exit, what) })
    }

    /// Each cause on its own, after what it is the cause of.
    fn problems(&self) -> Vec<String> {
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
            // Some errors go on with the name of a temporary file, which is of no use to anybody.
            .because(error.to_string().split(" at path ").next().unwrap_or_default())
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// All of it in one line, for a log, an event or a condition.
    pub fn to_line(&self) -> String {
        let mut line = self.what.clone();
        for cause in &self.causes {
            line.push_str(": ");
            line.push_str(cause);
        }
        if let Some(next) = &self.next {
            line.push_str("; next: ");
            line.push_str(&next.to_string());
        }
        line
    }

    /// Whether the state file is unusable or locked, so that no other change would be possible.
    pub fn is_about_state_file(&self) -> bool {
        matches!(self.exit, Exit::State | Exit::Busy)
    }

    /// Puts the file or the place before it in which the problem is.
    #[must_use]
    pub fn in_place(mut self, place: &str) -> Self {
        self.what = format!("{place}: {}", self.what);
        self.problems_of = self.problems_of.map(|subject| format!("{place}: {subject}"));
        self
    }

    /// Sets what to type next: a command of poolctl, in the namespace of the one that was refused.
    #[must_use]
    pub fn next(mut self, command: impl Into<NextStep>) -> Self {
        self.next = Some(command.into());
        self
    }

    /// Sets what to do next if that is no command of poolctl, or one that gives its own namespace.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        self.next(NextStep::Advice(advice.into()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.what)?;
        for cause in self.causes.iter().take(MOST_CAUSES) {
            write!(out, "\n  cause: {cause}")?;
        }
        let unnamed = self.causes.len().saturating_sub(MOST_CAUSES);
        if unnamed > 0 {
            write!(out, "\n  cause: {unnamed} more")?;
        }
        match &self.next {
            Some(next) => write!(out, "\n  next: {next}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// How a valid name is like an unknown one, the most likely mistake first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// A few letters were mistyped.
    Slip,
    /// One is the beginning of the other.
    Beginning,
    /// One is somewhere in the other.
    Part,
}

/// The valid name that is nearest to an unknown one, if one is near enough to be what was meant.
pub fn nearest_name<'a>(
    unknown_name: &str,
    valid_names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let unknown_name = unknown_name.to_lowercase();
    let candidates = valid_names.into_iter().filter_map(|valid_name| {
        let likeness = compare_names(&unknown_name, &valid_name.to_lowercase())?;
        Some((likeness, valid_name))
    });
    candidates.min_by_key(|(likeness, _)| *likeness).map(|(_, valid_name)| valid_name)
}

/// How alike two names in lower case are, and the number of letters in which they differ. None if
/// they are not alike.
fn compare_names(unknown_name: &str, valid_name: &str) -> Option<(Likeness, usize)> {
    // Two neighbouring letters in the wrong order count as one mistake.
    let distance = strsim::osa_distance(unknown_name, valid_name);
    if distance <= (unknown_name.chars().count() / 3).clamp(1, 3) {
        return Some((Likeness::Slip, distance));
    }
    let (shorter, longer) = if unknown_name.len() < valid_name.len() {
        (unknown_name, valid_name)
    } else {
        (valid_name, unknown_name)
    };
    // Very short names are part of many others.
    if shorter.len() >= 3 && longer.starts_with(shorter) {
        return Some((Likeness::Beginning, distance));
    }
    (shorter.len() >= 4 && longer.contains(shorter)).then_some((Likeness::Part, distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(valid_names: [&str; N], unknown_name: &str, meant: Option<&str>) {
        assert_eq!(nearest_name(unknown_name, valid_names), meant, "{unknown_name}");
    }

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let fields = ["size", "runningCount", "maxSize", "inventory"];
        check(fields, "sise", Some("size"));
        check(fields, "runningcount", Some("runningCount"));
        check(fields, "inventroy", Some("inventory"));
        check(fields, "lifetime", None);
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
