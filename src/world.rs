//! Touches the world: clock, random numbers, environment, users and signals. A pass reads it once,
//! into a Tick; nothing else in the program asks for any of these. It decides nothing.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::env::VarError;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
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

use crate::model::clock::{Clocks, JudgedClocks};
use crate::model::documents::DEFAULT_NAMESPACE;
use crate::model::hash::hex;
use crate::model::refusal::{Exit, Refusal};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};

/// The folder of the account that keeps the pools of a machine.
const SYSTEM_FOLDER: &str = "/var/lib/poolctl";
/// The longest sleep between two looks for signals: a tenth of a second.
const SIGNAL_INTERVAL: Span = Span(100_000);

/// All variables that poolctl reads, but for two: PATH is read when a program is looked for, and
/// SUDO_COMMAND when a command is suggested.
const VARIABLES: [&str; 21] = [
    "POOLCTL_STATE",
    "POOLCTL_NAMESPACE",
    "POOLCTL_YES",
    "POOLCTL_NOW",
    "POOLCTL_SEED",
    "POOLCTL_KILL_MODE",
    "INVOCATION_ID",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "HOME",
    "SUDO_UID",
    "TERM",
    "CI",
    "NO_COLOR",
    "LC_ALL",
    "LC_CTYPE",
    "LANG",
    "VISUAL",
    "EDITOR",
    "TMPDIR",
    "SSH_ORIGINAL_COMMAND",
];

/// The world as the program finds it when it starts.
pub struct World {
    /// The variables that are set, empty ones left out.
    environment: HashMap<&'static str, String>,
    /// The number of the user behind sudo, unless that is root or the account itself.
    sudo_user: Option<u32>,
    /// The time under `POOLCTL_NOW`: the clock stands, and waiting moves it.
    standing_clock: Cell<Option<Time>>,
    /// What the clocks say in a rehearsal in one process, which may play jumps and boots.
    rehearsed_clocks: Option<Clocks>,
    /// Who asks, once the name service was asked for the name.
    actor_name: OnceCell<String>,
    /// The number in `POOLCTL_SEED`.
    seed: Option<u64>,
    /// Where signals are read, once they are caught.
    signals: RefCell<Option<SignalsInfo<WithOrigin>>>,
    /// The one that came last, if `take_signal` has not told of it yet.
    last_signal: Cell<Option<CaughtSignal>>,
    /// The umask that the program was started with; programs that it starts get it back.
    pub umask: Mode,
}

/// A signal that came and did not end the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaughtSignal {
    /// Its number, as 2 for SIGINT.
    pub signal: i32,
    /// Whether it was typed at the terminal: then every program in the foreground got it.
    pub is_typed: bool,
}

impl World {
    /// Reads the environment, and sets the umask of the program.
    pub fn new() -> Result<Self, Refusal> {
        let environment = read_environment()?;
        let sudo_user = sudo_user(&environment)?;
        let now = match environment.get("POOLCTL_NOW") {
            Some(time) => Some(time.parse().map_err(|cause: String| {
                Refusal::usage("POOLCTL_NOW is not usable").because(cause)
            })?),
            None => None,
        };
        let seed = match environment.get("POOLCTL_SEED") {
            Some(number) => Some(number.parse().map_err(|_| {
                Refusal::usage(format!("POOLCTL_SEED is `{number}`, not a whole number"))
            })?),
            None => None,
        };
        // The state and every copy made from it are for their owner alone.
        let umask = rustix::process::umask(Mode::from_raw_mode(0o077));
        Ok(Self {
            environment,
            sudo_user,
            standing_clock: Cell::new(now),
            rehearsed_clocks: None,
            actor_name: OnceCell::new(),
            seed,
            signals: RefCell::default(),
            last_signal: Cell::default(),
            umask,
        })
    }

    /// The world of a rehearsal in one process, such as the simulator of the tests. It has no
    /// environment and no user behind sudo, and its clocks stand at what they are said to show. As
    /// under `POOLCTL_NOW`, only simulated jobs run in it.
    pub fn rehearsed(clocks: Clocks, seed: u64) -> Self {
        Self {
            environment: HashMap::new(),
            sudo_user: None,
            standing_clock: Cell::new(Some(clocks.wall)),
            rehearsed_clocks: Some(clocks),
            actor_name: OnceCell::new(),
            seed: Some(seed),
            signals: RefCell::default(),
            last_signal: Cell::default(),
            umask: Mode::from_raw_mode(0o077),
        }
    }

    /// The value of a variable, if it is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// How many bytes are free on the disk of a path. None in a rehearsal, which has no disk of its
    /// own, and where nobody knows.
    pub fn free_disk_space(&self, path: &Path) -> Option<u64> {
        if self.is_clock_standing() {
            return None;
        }
        let file_system = rustix::fs::statvfs(path).ok()?;
        Some(file_system.f_bavail.saturating_mul(file_system.f_frsize))
    }

    /// Whether the locale has letters beyond ASCII. It has where its encoding is UTF-8; without any
    /// locale programs are to use ASCII alone.
    pub fn is_locale_utf8(&self) -> bool {
        let mut variables = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
        let locale = variables.find_map(|name| self.variable(name)).unwrap_or_default();
        let after_language =
            locale.split_once('.').map_or("", |(_, after_language)| after_language);
        // A modifier may follow, as in `de_DE.UTF-8@euro`.
        let encoding = after_language.split('@').next().unwrap_or_default();
        encoding.replace('-', "").eq_ignore_ascii_case("utf8")
    }

    /// Whether the clock stands, because `POOLCTL_NOW` is set.
    pub fn is_clock_standing(&self) -> bool {
        self.standing_clock.get().is_some()
    }

    /// The time on the clock on the wall, or on the standing clock.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn now(&self) -> Time {
        if let Some(now) = self.standing_clock.get() {
            return now;
        }
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A clock before 1970 was never set.
        let microseconds = since_epoch.map_or(0, |duration| duration.as_micros());
        Time(i64::try_from(microseconds).unwrap_or(i64::MAX))
    }

    /// The clock on the wall, and the one that nobody moves; a standing clock is alone.
    pub fn read_clocks(&self) -> Clocks {
        let wall = self.now();
        if let Some(clocks) = &self.rehearsed_clocks {
            return Clocks { wall, ..clocks.clone() };
        }
        if self.is_clock_standing() {
            return Clocks { wall, ..Clocks::default() };
        }
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let boot = boot_id.unwrap_or_default().trim().to_owned();
        let boot_time = clock_gettime(ClockId::Boottime);
        let since_boot = boot_time.tv_sec * 1_000_000 + boot_time.tv_nsec / 1_000;
        Clocks { wall, boot, since_boot, ..Clocks::default() }
    }

    /// All that a pass knows of the world, at a time that was judged.
    pub fn tick(&self, judged: &JudgedClocks, revision: u64) -> Tick {
        let JudgedClocks { now, jumped: clock_jumped, .. } = *judged;
        Tick { now, seed: self.seed(), revision, actor: self.actor_name(), clock_jumped }
    }

    /// What makes names for objects that a command creates; `revision` is the number of commits.
    pub fn name_maker(&self, revision: u64) -> Tick {
        Tick { now: self.now(), seed: self.seed(), revision, ..Tick::default() }
    }

    /// The seed of one pass: the number in `POOLCTL_SEED`, or else random.
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

    /// 32 random bytes in hexadecimal, which nobody can guess, whatever the seed is.
    pub fn random_secret(&self) -> Result<String, Refusal> {
        let mut bytes = [0; 32];
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(32) => Ok(hex(&bytes)),
            _ => Err(Refusal::invalid("the kernel gives no random numbers for a secret")),
        }
    }

    /// Whether systemd ends every program that we have started when we end: so it is in a service,
    /// unless that says in a variable that its KillMode is another.
    pub fn does_systemd_end_children(&self) -> bool {
        let is_in_service = self.variable("INVOCATION_ID").is_some()
            && std::fs::read_to_string("/proc/self/cgroup")
                .is_ok_and(|cgroups| cgroups.lines().any(|cgroup| cgroup.ends_with(".service")));
        is_in_service && self.variable("POOLCTL_KILL_MODE") != Some("process")
    }

    /// Whether sudo was used by somebody who is neither root nor the account itself.
    pub fn is_behind_sudo(&self) -> bool {
        self.sudo_user.is_some()
    }

    /// What the user behind sudo types before the name of the program. Nothing without sudo, and
    /// nothing in a shell that sudo has opened.
    pub fn sudo_words(&self) -> String {
        let is_started_by_sudo = self.sudo_user.is_some()
            && program_of_sudo().is_some_and(|program| {
                std::env::current_exe().is_ok_and(|own_program| own_program == program)
            });
        if !is_started_by_sudo {
            return String::new();
        }
        if geteuid().is_root() {
            return "sudo ".to_owned();
        }
        format!("sudo -u {} ", self.account_name())
    }

    /// The name of a variable of poolctl's own that is set, if any is.
    pub fn first_own_variable(&self) -> Option<&'static str> {
        let mut variables = VARIABLES.into_iter();
        variables.find(|name| name.starts_with("POOLCTL_") && self.variable(name).is_some())
    }

    /// The name of the user who asks: of the one behind sudo, if there is one.
    pub fn actor_name(&self) -> String {
        let name = self.actor_name.get_or_init(|| {
            let uid = match self.sudo_user {
                Some(uid) => uid,
                None if self.variable("SUDO_UID") == Some("0") => 0,
                None => getuid().as_raw(),
            };
            user_name(uid)
        });
        name.clone()
    }

    /// The names of all groups of the user behind sudo; none if there is no such user.
    pub fn group_names(&self) -> Vec<String> {
        let Some(user) = self.sudo_user.and_then(find_user) else { return Vec::new() };
        let Ok(user_name) = CString::new(user.name) else { return Vec::new() };
        let mut names = Vec::new();
        for gid in getgrouplist(&user_name, user.gid).unwrap_or_default() {
            if let Ok(Some(group)) = Group::from_gid(gid) {
                names.push(group.name);
            }
        }
        names
    }

    /// The name of the account that the program runs as.
    pub fn account_name(&self) -> String {
        user_name(geteuid().as_raw())
    }

    /// Whether root runs the program, and this file belongs to another account.
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

    /// The namespace that commands work in unless they are told another: `POOLCTL_NAMESPACE`, else
    /// what `poolctl config` has written, else `default`.
    pub fn default_namespace(&self) -> String {
        if let Some(name) = self.variable("POOLCTL_NAMESPACE") {
            return name.to_owned();
        }
        let written = self.namespace_file().and_then(|path| std::fs::read_to_string(path).ok());
        let name = written.as_deref().map(str::trim).unwrap_or_default();
        if name.is_empty() { DEFAULT_NAMESPACE.into() } else { name.to_owned() }
    }

    /// The file with the namespace that commands work in by default. None behind sudo: the account
    /// chooses no namespace for other people.
    pub fn namespace_file(&self) -> Option<PathBuf> {
        if self.sudo_user.is_some() {
            return None;
        }
        let folder = match self.absolute_path("XDG_CONFIG_HOME") {
            Some(config_home) => config_home,
            None => self.absolute_path("HOME")?.join(".config"),
        };
        Some(folder.join("poolctl/namespace"))
    }

    /// Where the state is when neither `--state` nor `POOLCTL_STATE` says it.
    pub fn default_state_path(&self) -> Result<PathBuf, Refusal> {
        let system_path = Path::new(SYSTEM_FOLDER).join("state.db");
        let account = geteuid();
        let owner = std::fs::metadata(&system_path).map(|file| file.uid());
        if owner.is_ok_and(|owner| account.is_root() || owner == account.as_raw()) {
            return Ok(system_path);
        }
        if self.sudo_user.is_some() {
            // The user behind sudo must not choose the state of the account by a variable: its
            // home is what the system says.
            let uid = account.as_raw();
            let user = find_user(uid).ok_or_else(|| unknown_user(uid))?;
            return Ok(user.dir.join(".local/state/poolctl/state.db"));
        }
        if let Some(state_home) = self.absolute_path("XDG_STATE_HOME") {
            return Ok(state_home.join("poolctl/state.db"));
        }
        if let Some(home) = self.absolute_path("HOME") {
            return Ok(home.join(".local/state/poolctl/state.db"));
        }
        let sentence = "there is no place for the state: neither HOME nor XDG_STATE_HOME is set";
        Err(Refusal::usage(sentence).advise("poolctl --state FILE, or set POOLCTL_STATE"))
    }

    /// The account that keeps the pools of this machine, if it is another one and nothing names a
    /// state. Its state cannot even be seen, but for sudo.
    pub fn account_of_machine(&self) -> Option<String> {
        if self.variable("POOLCTL_STATE").is_some() || self.sudo_user.is_some() {
            return None;
        }
        let owner = std::fs::metadata(SYSTEM_FOLDER).ok()?.uid();
        let account = geteuid();
        let is_another = owner != 0 && !account.is_root() && owner != account.as_raw();
        is_another.then(|| user_name(owner))
    }

    /// The path in a variable. A relative one counts as unset, as the XDG specification has it.
    fn absolute_path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).filter(|path| path.starts_with('/')).map(PathBuf::from)
    }

    /// Lets time pass until `due`, but not longer than `longest`; a standing clock is moved to
    /// `due` at once. A signal that is caught ends the wait within a tenth of a second.
    pub fn wait_until(&self, due: Time, longest: Span) {
        if self.is_clock_standing() {
            self.standing_clock.set(Some(due.max(self.now())));
            return;
        }
        // The slices are counted, because the clock may be moved meanwhile.
        let mut remaining = due.since(self.now()).min(longest);
        while remaining.0 > 0 && self.read_signals().is_none() {
            let slice = remaining.min(SIGNAL_INTERVAL);
            self.sleep(slice);
            remaining = Span(remaining.0 - slice.0);
        }
    }

    /// Lets real time pass, also when the clock stands: for what other programs need time for.
    #[expect(clippy::disallowed_methods, reason = "the one place that waits for time")]
    pub fn sleep(&self, time: Span) {
        std::thread::sleep(Duration::from_micros(time.0.unsigned_abs()));
    }

    /// From here on SIGINT, SIGTERM, SIGQUIT and SIGHUP do not end the program; `take_signal` tells
    /// of them. SIGHUP stays ignored under nohup.
    pub fn catch_signals(&self) {
        let mut signals = vec![SIGINT, SIGTERM, SIGQUIT];
        if !is_ignored(SIGHUP) {
            signals.push(SIGHUP);
        }
        // Every system lets a program catch these, so there is no error to report.
        *self.signals.borrow_mut() = SignalsInfo::new(&signals).ok();
    }

    /// The signal that came last since this was asked before, if signals are caught.
    pub fn take_signal(&self) -> Option<CaughtSignal> {
        self.read_signals();
        self.last_signal.take()
    }

    /// Reads the signals that have come, and returns the last one that nobody was told of.
    fn read_signals(&self) -> Option<CaughtSignal> {
        let mut signals = self.signals.borrow_mut();
        for origin in signals.iter_mut().flat_map(SignalsInfo::pending) {
            let is_typed = origin.cause == Cause::Kernel;
            self.last_signal.set(Some(CaughtSignal { signal: origin.signal, is_typed }));
        }
        self.last_signal.get()
    }

    /// The next time that the clock shows a time of day like `18:00`, in the time zone of the
    /// system; none if it is not a time of day.
    pub fn next_time_of_day(&self, hours_and_minutes: &str) -> Option<Time> {
        let time_of_day: jiff::civil::Time = hours_and_minutes.parse().ok()?;
        let timestamp = jiff::Timestamp::from_microsecond(self.now().0).ok()?;
        let now = timestamp.to_zoned(jiff::tz::TimeZone::system());
        let today = now.with().time(time_of_day).build().ok()?;
        let next = if today > now { today } else { today.tomorrow().ok()? };
        Some(Time(next.timestamp().as_microsecond()))
    }
}

/// The variables that are set and not empty. One that is not UTF-8 is refused, because a path or a
/// name would be misread.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn read_environment() -> Result<HashMap<&'static str, String>, Refusal> {
    let mut environment = HashMap::new();
    for name in VARIABLES {
        match std::env::var(name) {
            // An empty variable is as good as an unset one.
            Ok(value) if !value.is_empty() => drop(environment.insert(name, value)),
            Ok(_) | Err(VarError::NotPresent) => {}
            Err(VarError::NotUnicode(_)) => {
                return Err(Refusal::usage(format!("{name} is not UTF-8 text")));
            }
        }
    }
    Ok(environment)
}

/// The user in `SUDO_UID`, unless that is root or the account itself. The variable is believed
/// because only root and the account can read the state: whoever invents it gains nothing.
fn sudo_user(environment: &HashMap<&str, String>) -> Result<Option<u32>, Refusal> {
    let Some(number) = environment.get("SUDO_UID") else {
        return Ok(None);
    };
    let uid = match number.parse::<u32>() {
        // A sign, which a parsed number may have, is no part of a user's number.
        Ok(uid) if number.bytes().all(|digit| digit.is_ascii_digit()) => uid,
        _ => {
            let sentence = format!("SUDO_UID is `{number}`, not a user ID");
            return Err(Refusal::new(Exit::Denied, sentence));
        }
    };
    if uid == 0 || uid == getuid().as_raw() {
        return Ok(None);
    }
    // When the name service fails, a user must not be taken for another one, or for no user.
    if find_user(uid).is_none() {
        return Err(unknown_user(uid));
    }
    Ok(Some(uid))
}

fn unknown_user(uid: u32) -> Refusal {
    Refusal::new(Exit::Denied, format!("the system has no user with ID {uid}"))
        .advise(format!("id {uid}"))
}

/// The folders where exec looks for a program whose name has no slash, in their order.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn program_folders() -> Vec<PathBuf> {
    // Without PATH the C library looks in these.
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&folders).collect()
}

/// The program that sudo has started, as `SUDO_COMMAND` has it before the arguments. A long command
/// is cut there, so the whole need not be text.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn program_of_sudo() -> Option<PathBuf> {
    let command = std::env::var_os("SUDO_COMMAND")?;
    let program = command.as_bytes().split(|byte| *byte == b' ').next()?;
    std::fs::canonicalize(OsStr::from_bytes(program)).ok()
}

/// A user as the system's name service knows it; none if that fails, too.
fn find_user(uid: u32) -> Option<User> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten()
}

/// The numbers of a user and of that user's group; none if the system knows no such user.
pub fn account_ids(name: &str) -> Option<(u32, u32)> {
    let user = User::from_name(name).ok().flatten()?;
    Some((user.uid.as_raw(), user.gid.as_raw()))
}

/// The name of a user; `uid:1000` if the system knows none.
pub fn user_name(uid: u32) -> String {
    find_user(uid).map_or_else(|| format!("uid:{uid}"), |user| user.name)
}

/// Whether the program was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let digits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = digits.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
