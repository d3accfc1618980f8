//! The steps of `init`: each is found to be done already, or is said first and then done. A file
//! that is there is never overwritten.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::drivers::process::ForegroundProgram;
use crate::model::refusal::{Exit, NextStep, Refusal};
use crate::model::text::quote_word;
use crate::store::Store;
use crate::world;

use crate::commands::Context;
use crate::commands::init::answers::{Answers, Layout, Schedule};

/// The system account that owns a state of several people.
const ACCOUNT: &str = "poolctl";
const STATE_OF_ACCOUNT: &str = "/var/lib/poolctl/state.db";
const CRON_FILE: &str = "/etc/cron.d/poolctl";
/// Where units of an administrator are, and where packages put theirs.
const UNITS: &str = "/etc/systemd/system";
const PACKAGED_UNITS: [&str; 2] = ["/usr/lib/systemd/system", "/lib/systemd/system"];
const SERVICE: &str = include_str!("../../../examples/systemd/poolctl.service");
/// A manager of a user can neither switch accounts nor take rights away.
const SERVICE_OF_USER: &str = include_str!("user.service");
const TIMER: &str = include_str!("../../../examples/systemd/poolctl.timer");
/// The path of the program in the units above.
const PROGRAM_OF_UNITS: &str = "/usr/local/bin/poolctl";
/// Exists on a machine that systemd has started.
const RUNNING_SYSTEMD: &str = "/run/systemd/system";

/// Exits with 0 if the crontab of the user has the line `$1`, with 3 if there is no crontab at all.
const FIND_CRON_LINE: &str = "command -v crontab >/dev/null || exit 3
crontab -l 2>/dev/null | grep -qxF -- \"$1\"";
/// Adds the line `$1` to the crontab of the user.
const ADD_CRON_LINE: &str = "{ crontab -l 2>/dev/null; printf '%s\\n' \"$1\"; } | crontab -";
const NO_CRONTAB: u8 = 3;

/// What a step does.
enum Action {
    CreateAccount,
    CreateFolder {
        path: PathBuf,
        mode: u32,
        owner: Option<&'static str>,
    },
    CreateState {
        path: PathBuf,
        owner: Option<&'static str>,
    },
    WriteFile {
        path: PathBuf,
        content: String,
    },
    AddCronLine {
        line: String,
    },
    /// Runs `systemctl` with these words.
    Systemctl {
        words: Vec<&'static str>,
    },
}

/// A step, in the order in which the steps are done.
pub struct Step {
    /// What is made, as `folder /var/lib/poolctl`.
    pub subject: String,
    pub progress: Progress,
    action: Action,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is left to do.
    Done,
    /// A file is there, and says something else than what would be written. It is kept.
    Differs,
    Open,
}

impl Progress {
    /// The word of the step in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "there already",
            Self::Differs => "kept: it differs",
            Self::Open => "to be made",
        }
    }

    /// The progress of what a file or a folder proves.
    fn proven_by(path: &Path) -> Self {
        if path.exists() { Self::Done } else { Self::Open }
    }
}

/// Where the state is, and who it is for.
pub struct Place {
    pub layout: Layout,
    pub state: PathBuf,
    /// The absolute path of this program.
    program: String,
}

impl Place {
    /// The state of an account is always at the path where poolctl looks for it by itself.
    pub fn choose(context: &Context, layout: Layout) -> Result<Self, Refusal> {
        let path = std::env::current_exe().map_err(|error| {
            Refusal::invalid("the path of this program is unknown").because(error.to_string())
        })?;
        let program = path.display().to_string();
        if layout == Layout::User {
            // cron and systemd start passes in another folder than this one.
            let state = context.state_path()?;
            let state = std::path::absolute(&state).unwrap_or(state);
            return Ok(Self { layout, state, program });
        }
        if !rustix::process::geteuid().is_root() {
            return Err(Refusal::new(Exit::Denied, "only root can set up a system account")
                .next(NextStep::Line("sudo poolctl init, or poolctl init --layout user".into())));
        }
        if context.globals.state.is_some() {
            return Err(Refusal::usage("--state is for --layout user")
                .because(format!("the state of an account is {STATE_OF_ACCOUNT}")));
        }
        Ok(Self { layout, state: STATE_OF_ACCOUNT.into(), program })
    }

    fn owner(&self) -> Option<&'static str> {
        (self.layout == Layout::Account).then_some(ACCOUNT)
    }

    /// What a crontab of the owner runs every minute.
    fn pass_command(&self) -> String {
        let state = quote_word(&self.state.display().to_string());
        let command = format!("POOLCTL_STATE={state} {} reconcile", quote_word(&self.program));
        // cron would end the line at a percent sign.
        command.replace('%', "\\%")
    }

    /// A unit with the path of this program and of this state.
    fn unit(&self, text: &str) -> String {
        text.replace(STATE_OF_ACCOUNT, &escape_for_unit(&self.state.display().to_string()))
            .replace(PROGRAM_OF_UNITS, &escape_for_unit(&self.program))
    }

    fn service(&self) -> String {
        match self.layout {
            Layout::Account => self.unit(SERVICE),
            Layout::User => self.unit(SERVICE_OF_USER),
        }
    }
}

/// All steps of a setup. It looks at what is there, and changes nothing.
pub fn find_steps(
    context: &Context,
    place: &Place,
    answers: &Answers,
    manifest: Option<String>,
) -> Result<Vec<Step>, Refusal> {
    let mut steps = Vec::new();
    if place.layout == Layout::Account {
        steps.push(Step {
            subject: format!("account {ACCOUNT}"),
            progress: match world::account_ids(ACCOUNT) {
                Some(_) => Progress::Done,
                None => Progress::Open,
            },
            action: Action::CreateAccount,
        });
    }
    if let Some(folder) = place.state.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        steps.push(folder_step(folder, 0o700, place.owner()));
    }
    steps.push(Step {
        subject: format!("state {}", place.state.display()),
        progress: Progress::proven_by(&place.state),
        action: Action::CreateState { path: place.state.clone(), owner: place.owner() },
    });
    if let Some((folder, manifest)) = answers.folder().zip(manifest) {
        steps.push(folder_step(&folder, 0o755, None));
        let path = folder.join(format!("{}.yaml", answers.pool()));
        steps.push(file_step(path, manifest));
    }
    steps.extend(find_schedule_steps(context, place, answers.schedule())?);
    Ok(steps)
}

fn folder_step(path: &Path, mode: u32, owner: Option<&'static str>) -> Step {
    Step {
        subject: format!("folder {}", path.display()),
        progress: Progress::proven_by(path),
        action: Action::CreateFolder { path: path.to_owned(), mode, owner },
    }
}

fn file_step(path: PathBuf, content: String) -> Step {
    let progress = match std::fs::read_to_string(&path) {
        Ok(existing) if existing == content => Progress::Done,
        Ok(_) => Progress::Differs,
        Err(_) => Progress::proven_by(&path),
    };
    let subject = format!("file {}", path.display());
    Step { subject, progress, action: Action::WriteFile { path, content } }
}

/// A path as systemd reads it in a unit: spaces, quotes and backslashes by their numbers, and percent
/// signs twice.
fn escape_for_unit(path: &str) -> String {
    let mut escaped = String::new();
    for letter in path.chars() {
        match letter {
            '%' => escaped += "%%",
            ' ' | '"' | '\'' | '\\' | '$' | ';' => {
                let _ = write!(escaped, "\\x{:02x}", u32::from(letter));
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// What makes passes run every minute.
fn find_schedule_steps(
    context: &Context,
    place: &Place,
    schedule: Schedule,
) -> Result<Vec<Step>, Refusal> {
    match (schedule, place.layout) {
        (Schedule::Nothing, _) => Ok(Vec::new()),
        (Schedule::Cron, Layout::Account) => {
            let line = place.pass_command();
            let content = format!("# One pass a minute.\n* * * * * {ACCOUNT} {line}\n");
            let folder = folder_step(Path::new("/etc/cron.d"), 0o755, None);
            Ok(vec![folder, file_step(CRON_FILE.into(), content)])
        }
        (Schedule::Cron, Layout::User) => {
            let line = format!("* * * * * {}", place.pass_command());
            let progress = match run_shell(context, FIND_CRON_LINE, &line)? {
                0 => Progress::Done,
                NO_CRONTAB => {
                    return Err(Refusal::invalid("crontab is not installed")
                        .advise("install cron, or add --schedule timer or --schedule none"));
                }
                _ => Progress::Open,
            };
            let subject = format!("line of crontab: {line}");
            Ok(vec![Step { subject, progress, action: Action::AddCronLine { line } }])
        }
        (Schedule::Timer, _) => find_timer_steps(context, place),
    }
}

/// The units, unless a package has brought them, and what starts the timer.
fn find_timer_steps(context: &Context, place: &Place) -> Result<Vec<Step>, Refusal> {
    let mut steps = Vec::new();
    let (units, mut words) = match place.layout {
        Layout::Account => (PathBuf::from(UNITS), Vec::new()),
        Layout::User => {
            let home = context
                .world
                .variable("HOME")
                .ok_or_else(|| Refusal::usage("HOME is not set, so there is no place for units"))?;
            (Path::new(home).join(".config/systemd/user"), vec!["--user"])
        }
    };
    let is_packaged = place.layout == Layout::Account
        && PACKAGED_UNITS.iter().any(|folder| Path::new(folder).join("poolctl.timer").exists());
    if !is_packaged {
        steps.push(folder_step(&units, 0o755, None));
        steps.push(file_step(units.join("poolctl.service"), place.service()));
        steps.push(file_step(units.join("poolctl.timer"), place.unit(TIMER)));
    }
    words.extend(["enable", "--now", "poolctl.timer"]);
    // Without a running systemd nothing can be enabled: `describe_open_schedule` says what to type.
    if Path::new(RUNNING_SYSTEMD).exists() {
        steps.push(Step {
            subject: format!("systemctl {}", words.join(" ")),
            progress: Progress::proven_by(&units.join("timers.target.wants/poolctl.timer")),
            action: Action::Systemctl { words },
        });
    }
    Ok(steps)
}

/// What is left to type for the schedule; none if passes run by themselves now.
pub fn describe_open_schedule(place: &Place, schedule: Schedule) -> Option<&'static str> {
    match (schedule, place.layout) {
        (Schedule::Nothing, _) => {
            Some("poolctl reconcile, every minute, by whatever you like: nothing runs passes yet")
        }
        (Schedule::Timer, _) if Path::new(RUNNING_SYSTEMD).exists() => None,
        (Schedule::Timer, Layout::Account) => Some("systemctl enable --now poolctl.timer"),
        (Schedule::Timer, Layout::User) => Some("systemctl --user enable --now poolctl.timer"),
        (Schedule::Cron, _) => None,
    }
}

impl Step {
    /// The file or folder that the step makes.
    pub fn path(&self) -> Option<&Path> {
        match &self.action {
            Action::CreateFolder { path, .. }
            | Action::CreateState { path, .. }
            | Action::WriteFile { path, .. } => Some(path),
            Action::CreateAccount | Action::AddCronLine { .. } | Action::Systemctl { .. } => None,
        }
    }

    /// Does what the step says.
    pub fn perform(&self, context: &Context) -> Result<(), Refusal> {
        match &self.action {
            Action::CreateAccount => create_account(context),
            Action::CreateFolder { path, mode, owner } => create_folder(path, *mode, *owner),
            Action::CreateState { path, owner } => create_state(path, *owner),
            Action::WriteFile { path, content } => write_new_file(path, content),
            Action::AddCronLine { line } => {
                let code = run_shell(context, ADD_CRON_LINE, line)?;
                expect_success("crontab", code)
            }
            Action::Systemctl { words } => run_program(context, "systemctl", words)
                .and_then(|code| expect_success("systemctl", code)),
        }
    }
}

fn create_account(context: &Context) -> Result<(), Refusal> {
    let words = [
        "--system",
        "--user-group",
        "--home-dir",
        "/var/lib/poolctl",
        "--no-create-home",
        "--shell",
        "/usr/sbin/nologin",
        ACCOUNT,
    ];
    expect_success("useradd", run_program(context, "useradd", &words)?)
}

/// Makes a folder. Those above it that are missing are private, as our mask has it.
fn create_folder(path: &Path, mode: u32, owner: Option<&str>) -> Result<(), Refusal> {
    // An earlier step may have made it, with the rights that it needs.
    if path.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(path)
        .and_then(|()| std::fs::set_permissions(path, Permissions::from_mode(mode)))
        .map_err(|error| Refusal::unwritable(path, &error))?;
    give_to(path, owner)
}

/// Makes an empty state. What SQLite has made beside it belongs to its owner, too.
fn create_state(path: &Path, owner: Option<&str>) -> Result<(), Refusal> {
    drop(Store::open_or_create(path)?);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let entries = std::fs::read_dir(folder).map_err(|error| Refusal::unwritable(folder, &error))?;
    for entry in entries.flatten() {
        give_to(&entry.path(), owner)?;
    }
    Ok(())
}

/// Gives a file or a folder to an account, if it is to have an owner.
fn give_to(path: &Path, owner: Option<&str>) -> Result<(), Refusal> {
    let Some(owner) = owner else { return Ok(()) };
    let Some((uid, gid)) = world::account_ids(owner) else {
        return Err(Refusal::invalid(format!("the system does not know account {owner} yet"))
            .advise(format!("id {owner}")));
    };
    chown(path, Some(uid), Some(gid)).map_err(|error| Refusal::unwritable(path, &error))
}

/// Writes a file that everybody may read, unless there is one.
fn write_new_file(path: &Path, content: &str) -> Result<(), Refusal> {
    let written =
        OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.set_permissions(Permissions::from_mode(0o644))
        });
    written.map_err(|error| Refusal::unwritable(path, &error))
}

fn run_shell(context: &Context, script: &str, argument: &str) -> Result<u8, Refusal> {
    run_program(context, "/bin/sh", &["-c", script, "sh", argument])
}

/// Runs a program of the system on our terminal, and returns its exit code.
fn run_program(context: &Context, program: &str, words: &[&str]) -> Result<u8, Refusal> {
    let arguments = words.iter().map(OsString::from).collect();
    let umask = context.world.umask;
    ForegroundProgram { program: program.into(), arguments, variables: Vec::new(), umask }
        .run_to_end(|| None)
        .map_err(|error| {
            Refusal::invalid(format!("`{program}` cannot be run")).because(error.to_string())
        })
}

fn expect_success(program: &str, code: u8) -> Result<(), Refusal> {
    if code == 0 {
        return Ok(());
    }
    Err(Refusal::invalid(format!("`{program}` failed with exit code {code}"))
        .advise("poolctl init again, when that is mended: what is done stays done"))
}
