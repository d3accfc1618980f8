//! Touches: clock, dice, environment. Read once per pass into a Tick; nothing else asks the world.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::env::VarError;
use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Group, Uid, User, getgrouplist};
use rustix::fs::Mode;
use rustix::process::{geteuid, getuid};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

use crate::model::clock::{Clocks, Judged};
use crate::model::hash::hex;
use crate::model::refusal::{Exit, Refusal};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};

/// Longest sleep before looking for signals.
const BLINK: Span = Span(100_000);

/// Variables that poolctl reads; no other reaches it, but for PATH when a program is looked for.
const VARIABLES: [&str; 16] = [
    "POOLCTL_STATE",
    "POOLCTL_NAMESPACE",
    "POOLCTL_NOW",
    "POOLCTL_SEED",
    "POOLCTL_KILL_MODE",
    "INVOCATION_ID",
    "XDG_STATE_HOME",
    "HOME",
    "SUDO_UID",
    "TERM",
    "CI",
    "NO_COLOR",
    "VISUAL",
    "EDITOR",
    "TMPDIR",
    "SSH_ORIGINAL_COMMAND",
];

pub struct World {
    environment: HashMap<&'static str, String>,
    /// The user behind sudo, unless that is root or the account itself.
    sudo_user: Option<u32>,
    /// Under `POOLCTL_NOW` the clock stands, and waiting moves it.
    standing: Cell<Option<Time>>,
    seed: Option<u64>,
    /// Where signals are read, once they are caught, and the one that came last.
    signals: RefCell<Option<SignalsInfo<WithOrigin>>>,
    signal: Cell<Option<Caught>>,
    /// As whoever started us had it; programs that are started get it back.
    pub umask: Mode,
}

/// A signal that did not end the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    pub signal: i32,
    /// Typed at the terminal: everything in the foreground got it.
    pub typed: bool,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn new() -> Result<Self, Refusal> {
        let mut environment = HashMap::new();
        for name in VARIABLES {
            match std::env::var(name) {
                // Empty is as good as unset.
                Ok(value) if !value.is_empty() => drop(environment.insert(name, value)),
                Ok(_) | Err(VarError::NotPresent) => {}
                Err(VarError::NotUnicode(_)) => {
                    return Err(Refusal::usage(format!("{name} is not UTF-8 text")));
                }
            }
        }
        let sudo_user = sudo_user(&environment)?;
        let standing =
            match environment.get("POOLCTL_NOW") {
                Some(text) => Some(text.parse().map_err(|why: String| {
                    Refusal::usage("POOLCTL_NOW is not usable").because(why)
                })?),
                None => None,
            };
        let seed = match environment.get("POOLCTL_SEED") {
            Some(text) => Some(text.parse().map_err(|_| {
                Refusal::usage(format!("POOLCTL_SEED is `{text}`, not a whole number"))
            })?),
            None => None,
        };
        // The state and every copy made from it are for their owner alone.
        let umask = rustix::process::umask(Mode::from_raw_mode(0o077));
        let (signals, signal) = (RefCell::default(), Cell::default());
        let standing = Cell::new(standing);
        Ok(Self { environment, sudo_user, standing, seed, signals, signal, umask })
    }

    /// A variable that is set.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// Whether time is rehearsed.
    pub fn stands(&self) -> bool {
        self.standing.get().is_some()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn now(&self) -> Time {
        self.standing.get().unwrap_or_else(|| {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            Time(since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX)))
        })
    }

    pub fn clocks(&self) -> Clocks {
        let wall = self.now();
        if self.stands() {
            return Clocks { wall, ..Clocks::default() };
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let since = clock_gettime(ClockId::Boottime);
        let since_boot = since.tv_sec * 1_000_000 + since.tv_nsec / 1_000;
        Clocks { wall, boot: boot.trim().to_owned(), since_boot, ..Clocks::default() }
    }

    /// What a pass knows, beside the time.
    pub fn tick(&self, judged: &Judged, revision: u64) -> Tick {
        let Judged { now, jumped, .. } = *judged;
        Tick { now, seed: self.seed(), revision, actor: self.actor(), jumped }
    }

    fn seed(&self) -> u128 {
        if let Some(seed) = self.seed {
            return u128::from(seed);
        }
        let mut bytes = [0; 16];
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(16) => u128::from_le_bytes(bytes),
            // A kernel without random numbers still has a clock and processes.
            _ => u128::from(std::process::id()) ^ (u128::from(self.now().0.unsigned_abs()) << 32),
        }
    }

    /// What nobody can guess, whatever the seed is.
    pub fn secret(&self) -> Result<String, Refusal> {
        let mut bytes = [0; 32];
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(32) => Ok(hex(&bytes)),
            _ => Err(Refusal::invalid("the kernel has no random numbers for a secret")),
        }
    }

    /// Whether systemd ends everything that we start when we end: in a service, unless that says
    /// that its KillMode is another.
    pub fn dies_with_us(&self) -> bool {
        let service = self.variable("INVOCATION_ID").is_some()
            && std::fs::read_to_string("/proc/self/cgroup")
                .is_ok_and(|text| text.lines().any(|line| line.ends_with(".service")));
        service && self.variable("POOLCTL_KILL_MODE") != Some("process")
    }

    /// Whether sudo was used by somebody who is neither root nor the account itself.
    pub fn is_behind_sudo(&self) -> bool {
        self.sudo_user.is_some()
    }

    /// One of our own variables that is set, if any is.
    pub fn own_variable(&self) -> Option<&'static str> {
        let mut variables = VARIABLES.into_iter();
        variables.find(|name| name.starts_with("POOLCTL_") && self.variable(name).is_some())
    }

    /// Who asks: the user, or the one behind sudo.
    pub fn actor(&self) -> String {
        let root = || self.variable("SUDO_UID").is_some_and(|text| text == "0");
        let uid = self.sudo_user.unwrap_or_else(|| if root() { 0 } else { getuid().as_raw() });
        name_of(uid)
    }

    /// The names of the groups of the user behind sudo.
    pub fn groups(&self) -> Vec<String> {
        let user = self.sudo_user.and_then(user);
        let found = user.and_then(|user| {
            let name = CString::new(user.name).ok()?;
            getgrouplist(&name, user.gid).ok()
        });
        let found = found.unwrap_or_default().into_iter();
        found.filter_map(|gid| Some(Group::from_gid(gid).ok()??.name)).collect()
    }

    /// The account that we run as.
    pub fn account(&self) -> String {
        name_of(geteuid().as_raw())
    }

    /// Whether we are root and this file is another account's.
    pub fn is_root_over(&self, file: &Path) -> bool {
        getuid().is_root() && std::fs::metadata(file).is_ok_and(|file| file.uid() != 0)
    }

    /// Where the state is, unless `--state` says otherwise.
    pub fn state_path(&self) -> Result<PathBuf, Refusal> {
        match self.variable("POOLCTL_STATE") {
            Some(path) => Ok(path.into()),
            None => self.default_state_path(),
        }
    }

    /// Where the state is when neither `--state` nor `POOLCTL_STATE` says it.
    pub fn default_state_path(&self) -> Result<PathBuf, Refusal> {
        let system = PathBuf::from("/var/lib/poolctl/state.db");
        let us = geteuid();
        let theirs = std::fs::metadata(&system).map(|file| file.uid());
        if theirs.is_ok_and(|owner| us.is_root() || owner == us.as_raw()) {
            return Ok(system);
        }
        if self.sudo_user.is_some() {
            // Whoever asks does not choose: the account's home is what the system says.
            let account = user(us.as_raw()).ok_or_else(|| unknown(us.as_raw()))?;
            return Ok(account.dir.join(".local/state/poolctl/state.db"));
        }
        let absolute = |name: &str| self.variable(name).filter(|path| path.starts_with('/'));
        let home = || absolute("HOME").map(|home| PathBuf::from(home).join(".local/state"));
        let folder = absolute("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
        folder.map(|folder| folder.join("poolctl/state.db")).ok_or_else(|| {
            Refusal::usage(
                "there is no place for the state: neither HOME nor XDG_STATE_HOME is set",
            )
            .advise("poolctl --state FILE, or set POOLCTL_STATE")
        })
    }

    /// Lets time pass until `due`, at most `longest`; a standing clock is moved. A signal that is
    /// caught ends it within a tenth of a second.
    pub fn wait(&self, due: Time, longest: Span) {
        if self.stands() {
            self.standing.set(Some(due.max(self.now())));
            return;
        }
        // Slices are counted, not the clock asked: it may be moved meanwhile.
        let mut left = due.since(self.now()).min(longest);
        while left.0 > 0 && self.arrived().is_none() {
            let slice = left.min(BLINK);
            self.pause(slice);
            left = Span(left.0 - slice.0);
        }
    }

    /// Lets real time pass, also when the clock stands: for looking at what others do.
    #[expect(clippy::disallowed_methods, reason = "the one place that waits for time")]
    pub fn pause(&self, time: Span) {
        std::thread::sleep(Duration::from_micros(time.0.unsigned_abs()));
    }

    /// From here on SIGINT, SIGTERM, SIGQUIT and SIGHUP do not end the program but are told by
    /// `interrupted`. What nohup made us ignore stays ignored.
    pub fn catch_signals(&self) {
        let mut signals = vec![SIGINT, SIGTERM, SIGQUIT];
        signals.extend((!ignored(SIGHUP)).then_some(SIGHUP));
        // Signals of these numbers can be caught on every system.
        *self.signals.borrow_mut() = SignalsInfo::new(&signals).ok();
    }

    /// The signal that came since the last time, if signals are caught.
    pub fn interrupted(&self) -> Option<Caught> {
        self.arrived();
        self.signal.take()
    }

    fn arrived(&self) -> Option<Caught> {
        let mut signals = self.signals.borrow_mut();
        for origin in signals.iter_mut().flat_map(SignalsInfo::pending) {
            let typed = origin.cause == Cause::Kernel;
            self.signal.set(Some(Caught { signal: origin.signal, typed }));
        }
        self.signal.get()
    }

    /// The next time the clock on the wall shows `18:00`, where the user is.
    pub fn next_time_of_day(&self, text: &str) -> Option<Time> {
        let at: jiff::civil::Time = text.parse().ok()?;
        let now = jiff::Timestamp::from_microsecond(self.now().0).ok()?;
        let now = now.to_zoned(jiff::tz::TimeZone::system());
        let today = now.with().time(at).build().ok()?;
        let next = if today > now { today } else { today.tomorrow().ok()? };
        Some(Time(next.timestamp().as_microsecond()))
    }
}

/// `SUDO_UID`, unless it says that root or the account itself asks. It is believed because only
/// root and the account can read the state; whoever invents it gains nothing.
fn sudo_user(environment: &HashMap<&str, String>) -> Result<Option<u32>, Refusal> {
    let Some(text) = environment.get("SUDO_UID") else {
        return Ok(None);
    };
    let digits = text.bytes().all(|letter| letter.is_ascii_digit());
    let uid: u32 = text.parse().ok().filter(|_| digits).ok_or_else(|| {
        Refusal::new(Exit::Denied, format!("SUDO_UID is `{text}`, not a user's number"))
    })?;
    let other = (uid != 0 && uid != getuid().as_raw()).then_some(uid);
    // Nobody is taken for somebody else, or for nobody, when the name service fails.
    match other {
        Some(uid) if user(uid).is_none() => Err(unknown(uid)),
        other => Ok(other),
    }
}

fn unknown(uid: u32) -> Refusal {
    Refusal::new(Exit::Denied, format!("the system knows no user {uid}"))
        .advise(format!("id {uid}"))
}

/// The folders where exec looks for a program whose name has no slash.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn program_folders() -> Vec<PathBuf> {
    // Without PATH the C library looks in these.
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&folders).collect()
}

/// A user as the system's name service knows it.
fn user(uid: u32) -> Option<User> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten()
}

pub fn name_of(uid: u32) -> String {
    user(uid).map_or_else(|| format!("uid:{uid}"), |user| user.name)
}

/// Whether whoever started us wants a signal ignored.
fn ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
