//! Speaks IPMI to a management controller through ipmitool. The password is in the environment of
//! ipmitool alone, the cipher suite is always given, and what ipmitool prints to standard error is
//! believed only if it fails. Never attaches an image: IPMI has no virtual media.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::hardware::Hardware;
use crate::model::host::ErrorReason;

use super::controller::{BootSource, Controller, ControllerError, PowerAction};
use super::http::shorten;
use super::process::{self, BackgroundProgram, ProgramOutput, Stopwatch};

/// Cipher suites that are tried, the better one first.
const CIPHER_SUITES: [u8; 2] = [17, 3];
/// Bytes that a password of IPMI 2.0 has at most.
const LONGEST_PASSWORD: usize = 20;
/// Seconds that ipmitool waits for an answer, and how often it asks again: it gives up on a silent
/// address after six seconds.
const RETRY_OPTIONS: [&str; 4] = ["-N", "1", "-R", "2"];
/// A failure that took so long means that nobody is there: a refusal comes at once.
const SILENCE: Duration = Duration::from_secs(2);
/// A command that takes longer is ended.
const DEADLINE: Duration = Duration::from_secs(20);
/// Part of a warning that ipmitool prints on every run if the registry of manufacturers is not
/// installed. It has nothing to do with the command.
const REGISTRY_WARNING: &str = "IANA PEN registry";

/// The controller that is spoken to, and how.
pub struct IpmiTarget {
    pub host: String,
    pub port: u16,
    /// As ipmitool's -L takes it.
    pub privilege: Option<String>,
    pub user: String,
    /// Whether a boot order is for UEFI, or for a legacy BIOS.
    pub uefi: bool,
}

/// A management controller that speaks IPMI 2.0.
pub struct Ipmi {
    program: PathBuf,
    /// For the output of ipmitool; also its home.
    folder: PathBuf,
    target: IpmiTarget,
    environment: BTreeMap<String, String>,
    /// The cipher suite that has worked, now or in an earlier job.
    cipher_suite: Option<u8>,
    /// Whether that suite has worked in this job.
    is_suite_proven: bool,
}

/// What one run of ipmitool has said.
struct CommandOutput {
    /// None for one that took too long and was ended.
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
    duration: Duration,
}

impl CommandOutput {
    fn succeeded(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// Whether no session could be opened, for whatever reason.
    fn has_no_session(&self) -> bool {
        ["Unable to establish", "open session", "RAKP"]
            .iter()
            .any(|message| self.stderr.contains(message))
    }

    /// Whether the controller is there and refused the session: the cipher suite or the login.
    fn is_session_refused(&self) -> bool {
        !self.succeeded() && self.has_no_session() && self.duration < SILENCE
    }
}

impl Ipmi {
    /// Talks to nobody yet. `folder` must be one that no other machine uses; `cipher_suite` is the
    /// one that has worked before, if any has.
    pub fn new(
        program: PathBuf,
        folder: PathBuf,
        target: IpmiTarget,
        password: String,
        cipher_suite: Option<u8>,
    ) -> Result<Self, ControllerError> {
        if password.len() > LONGEST_PASSWORD {
            let length = password.len();
            let message =
                format!("the password has {length} bytes; IPMI takes {LONGEST_PASSWORD} at most");
            return Err(ControllerError::new(ErrorReason::CredentialsUnusable, message));
        }
        let environment = BTreeMap::from([
            ("IPMI_PASSWORD".to_owned(), password),
            ("HOME".to_owned(), folder.display().to_string()),
        ]);
        Ok(Self { program, folder, target, environment, cipher_suite, is_suite_proven: false })
    }

    /// Runs one command and returns its standard output. The first command also finds out which
    /// cipher suite works.
    fn run_command(&mut self, words: &[&str]) -> Result<String, ControllerError> {
        if let Some(suite) = self.cipher_suite {
            let output = self.run_with_suite(suite, words)?;
            // Other firmware may take another suite: then all are tried again, once in a job.
            if !output.is_session_refused() || self.is_suite_proven {
                self.is_suite_proven |= output.succeeded();
                return self.judge_output(output, &format!("cipher suite {suite}"));
            }
        }
        let mut refused_output = None;
        for suite in CIPHER_SUITES {
            let output = self.run_with_suite(suite, words)?;
            // After a refusal another suite may do. A controller that is silent is so with any.
            if !output.is_session_refused() {
                let result = self.judge_output(output, &format!("cipher suite {suite}"));
                if result.is_ok() {
                    self.cipher_suite = Some(suite);
                    self.is_suite_proven = true;
                }
                return result;
            }
            refused_output = Some(output);
        }
        let suites = CIPHER_SUITES.map(|suite| suite.to_string()).join(" and ");
        match refused_output {
            Some(output) => self.judge_output(output, &format!("cipher suites {suites}")),
            None => Err("no cipher suite".into()),
        }
    }

    /// Runs ipmitool with a cipher suite. The password is in the environment, where other users do
    /// not see it.
    fn run_with_suite(&self, suite: u8, words: &[&str]) -> Result<CommandOutput, String> {
        let port = self.target.port.to_string();
        let suite_number = suite.to_string();
        let mut arguments = vec!["-I", "lanplus", "-H", &self.target.host, "-p", &port];
        arguments.extend(["-U", &self.target.user, "-E", "-C", &suite_number]);
        if let Some(level) = &self.target.privilege {
            arguments.extend(["-L", level]);
        }
        arguments.extend(RETRY_OPTIONS);
        arguments.extend(words);
        let program = BackgroundProgram {
            program: &self.program,
            arguments: &arguments,
            folder: &self.folder,
            environment: &self.environment,
        };
        self.run_to_end(&program).map_err(|error| format!("ipmitool: {error}"))
    }

    /// Runs a program to its end, or ends it when its time is over.
    fn run_to_end(&self, program: &BackgroundProgram<'_>) -> io::Result<CommandOutput> {
        let stdout_path = self.folder.join("out");
        let stderr_path = self.folder.join("err");
        let output = ProgramOutput {
            stdout: File::create(&stdout_path)?.into(),
            stderr: File::create(&stderr_path)?.into(),
        };
        let stopwatch = Stopwatch::start();
        let mut child = program.start(output)?;
        let exit_code = loop {
            if let Some(code) = process::exit_code_if_ended(&mut child)? {
                break Some(code);
            }
            if stopwatch.elapsed() > DEADLINE {
                process::end_process_group(&mut child, process::pause_briefly);
                break None;
            }
            process::pause_briefly();
        };
        Ok(CommandOutput {
            exit_code,
            stdout: read_output(&stdout_path),
            stderr: read_output(&stderr_path),
            duration: stopwatch.elapsed(),
        })
    }

    /// The standard output of a command, or why it failed, for people. `tried_suites` are those
    /// that were tried, in words. ipmitool has one message for a wrong password and for a silent
    /// address: only the time that it took tells them apart.
    fn judge_output(
        &self,
        output: CommandOutput,
        tried_suites: &str,
    ) -> Result<String, ControllerError> {
        if output.succeeded() {
            return Ok(output.stdout);
        }
        let IpmiTarget { host, port, .. } = &self.target;
        if output.stderr.contains("Address lookup") {
            return Err(format!("there is no host `{host}`").into());
        }
        let seconds = output.duration.as_secs_f32();
        match output.exit_code {
            Some(code) if !output.has_no_session() => {
                let lines = output.stderr.lines().filter(|line| !line.contains(REGISTRY_WARNING));
                let message = lines.collect::<Vec<_>>().join(" ");
                Err(shorten(&format!("{message} (exit code {code})")).into())
            }
            _ if output.duration >= SILENCE => Err(ControllerError::away(format!(
                "{host} port {port} did not answer for {seconds:.0} s: unreachable, or no IPMI 2.0 there"
            ))),
            _ => {
                let message = format!(
                    "{host} port {port} refused within {seconds:.1} s: wrong username or password, \
                     or it does not support {tried_suites}"
                );
                Err(ControllerError::new(ErrorReason::CredentialsUnusable, message))
            }
        }
    }
}

fn read_output(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

impl Controller for Ipmi {
    fn is_powered_on(&mut self) -> Result<bool, ControllerError> {
        let answer = self.run_command(&["chassis", "power", "status"])?;
        match answer.trim() {
            status if status.ends_with("is on") => Ok(true),
            status if status.ends_with("is off") => Ok(false),
            status => {
                Err(format!("it reports an unknown power state: `{}`", shorten(status)).into())
            }
        }
    }

    fn request_power(&mut self, action: PowerAction) -> Result<(), ControllerError> {
        let word = match action {
            PowerAction::On => "on",
            PowerAction::SoftOff => "soft",
            PowerAction::Off => "off",
        };
        self.run_command(&["chassis", "power", word]).map(drop)
    }

    fn boot_once(&mut self, source: BootSource) -> Result<(), ControllerError> {
        let device = match source {
            BootSource::Cdrom => "cdrom",
            BootSource::Pxe => "pxe",
            BootSource::Disk => "disk",
        };
        let words = ["chassis", "bootdev", device, "options=efiboot"];
        self.run_command(if self.target.uefi { &words } else { &words[..3] }).map(drop)
    }

    fn insert_image(&mut self, _url: &str) -> Result<(), ControllerError> {
        Err("IPMI cannot attach images; use a redfish-virtualmedia:// address".into())
    }

    fn eject_image(&mut self) -> Result<(), ControllerError> {
        // Nothing can be attached, so there is nothing to eject.
        Ok(())
    }

    fn read_hardware(&mut self) -> Result<Option<Hardware>, ControllerError> {
        Ok(None)
    }

    fn cipher_suite(&self) -> Option<u8> {
        self.cipher_suite
    }
}
