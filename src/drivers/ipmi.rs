//! IPMI by ipmitool: the password in the child's environment only, the cipher suite always spelled,
//! few retries, and what it says on stderr believed only when it fails.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use crate::model::hardware::Hardware;
use crate::model::host::ErrorReason;

use super::controller::{BootSource, Controller, ControllerError, PowerAction};
use super::http::shorten;
use super::process::{self, BackgroundProgram, Stopwatch};

/// Suites that are tried, the better one first.
const SUITES: [u8; 2] = [17, 3];
/// IPMI 2.0 has no longer passwords.
const LONGEST: usize = 20;
/// Seconds ipmitool waits for an answer, and how often it asks again: six seconds for nobody.
const PATIENCE: [&str; 4] = ["-N", "1", "-R", "2"];
/// Whoever has said nothing for so long is not there; a refusal comes at once.
const SILENCE: Duration = Duration::from_secs(2);
/// A command that takes longer is ended.
const DEADLINE: Duration = Duration::from_secs(20);
/// On every run, on a machine without the registry of manufacturers; says nothing.
const NOISE: &str = "IANA PEN registry";

/// Who is talked to, and how.
pub struct Target {
    pub host: String,
    pub port: u16,
    pub privilege: Option<String>,
    pub user: String,
    pub uefi: bool,
}

pub struct Ipmi {
    program: PathBuf,
    folder: PathBuf,
    target: Target,
    environment: BTreeMap<String, String>,
    suite: Option<u8>,
    /// The suite has worked in this job.
    proven: bool,
}

struct Said {
    /// None for one that took too long and was ended.
    code: Option<i32>,
    out: String,
    err: String,
    took: Duration,
}

impl Ipmi {
    pub fn new(
        program: PathBuf,
        folder: PathBuf,
        target: Target,
        password: String,
        suite: Option<u8>,
    ) -> Result<Self, ControllerError> {
        if password.len() > LONGEST {
            let message =
                format!("the password has {} bytes; IPMI takes {LONGEST} at most", password.len());
            return Err(ControllerError::new(ErrorReason::CredentialsUnusable, message));
        }
        let environment = BTreeMap::from([
            ("IPMI_PASSWORD".to_owned(), password),
            ("HOME".to_owned(), folder.display().to_string()),
        ]);
        Ok(Self { program, folder, target, environment, suite, proven: false })
    }

    /// One command; the first finds the cipher suite.
    fn ask(&mut self, words: &[&str]) -> Result<String, ControllerError> {
        if let Some(suite) = self.suite {
            let said = self.run(suite, words)?;
            // Other firmware takes another: then all are tried again, once.
            if said.code == Some(0) || !refused(&said) || self.proven {
                self.proven = self.proven || said.code == Some(0);
                return self.heard(said, &format!("cipher suite {suite}"));
            }
        }
        let mut last = None;
        for suite in SUITES {
            let said = self.run(suite, words)?;
            // Without a session: another suite may do. Whoever is silent is so with any.
            if !refused(&said) {
                let heard = self.heard(said, &format!("cipher suite {suite}"));
                if heard.is_ok() {
                    (self.suite, self.proven) = (Some(suite), true);
                }
                return heard;
            }
            last = Some(said);
        }
        let all = SUITES.map(|suite| suite.to_string()).join(" and ");
        last.map_or_else(
            || Err("no cipher suite".into()),
            |said| self.heard(said, &format!("cipher suites {all}")),
        )
    }

    fn run(&self, suite: u8, words: &[&str]) -> Result<Said, String> {
        let (port, suite) = (self.target.port.to_string(), suite.to_string());
        let mut arguments = vec!["-I", "lanplus", "-H", &self.target.host, "-p", &port];
        arguments.extend(["-U", &self.target.user, "-E", "-C", &suite]);
        if let Some(level) = &self.target.privilege {
            arguments.extend(["-L", level]);
        }
        arguments.extend(PATIENCE);
        arguments.extend(words);
        let paths = [self.folder.join("out"), self.folder.join("err")];
        let wrong = |error: std::io::Error| format!("ipmitool: {error}");
        let output =
            (File::create(&paths[0]).map_err(wrong)?, File::create(&paths[1]).map_err(wrong)?);
        let child = BackgroundProgram {
            program: &self.program,
            arguments: &arguments,
            folder: &self.folder,
            environment: &self.environment,
        };
        let watch = Stopwatch::start();
        let mut child = child.start(output).map_err(wrong)?;
        let code = loop {
            if let Some(code) = process::exit_code_if_ended(&mut child).map_err(wrong)? {
                break Some(code);
            }
            if watch.elapsed() > DEADLINE {
                process::end_process_group(&mut child, process::pause_briefly);
                break None;
            }
            process::pause_briefly();
        };
        let text = |path: &PathBuf| {
            String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
        };
        Ok(Said { code, out: text(&paths[0]), err: text(&paths[1]), took: watch.elapsed() })
    }

    /// What it said, or why it failed. ipmitool has one message for a wrong password and for
    /// nobody there: only the time tells them apart.
    fn heard(&self, said: Said, how: &str) -> Result<String, ControllerError> {
        if said.code == Some(0) {
            return Ok(said.out);
        }
        let Target { host, port, .. } = &self.target;
        let (lines, took) = (said.err.lines(), said.took.as_secs_f32());
        let lines: Vec<&str> = lines.filter(|line| !line.contains(NOISE)).collect();
        if said.err.contains("Address lookup") {
            return Err(format!("there is no host `{host}`").into());
        }
        match said.code {
            Some(code) if !no_session(&said.err) => {
                Err(shorten(&format!("{} (exit code {code})", lines.join(" "))).into())
            }
            _ if said.took >= SILENCE => Err(format!(
                "{host} port {port} did not answer for {took:.0} s: unreachable, or no IPMI 2.0 there"
            )
            .into()),
            _ => {
                let message = format!(
                    "{host} port {port} refused within {took:.1} s: wrong username or password, or not {how}"
                );
                Err(ControllerError::new(ErrorReason::CredentialsUnusable, message))
            }
        }
    }
}

fn refused(said: &Said) -> bool {
    said.code != Some(0) && no_session(&said.err) && said.took < SILENCE
}

fn no_session(err: &str) -> bool {
    err.contains("Unable to establish") || err.contains("open session") || err.contains("RAKP")
}

impl Controller for Ipmi {
    fn is_powered_on(&mut self) -> Result<bool, ControllerError> {
        let said = self.ask(&["chassis", "power", "status"])?;
        match said.trim() {
            text if text.ends_with("is on") => Ok(true),
            text if text.ends_with("is off") => Ok(false),
            other => Err(format!("it says of its power: `{}`", shorten(other)).into()),
        }
    }

    fn request_power(&mut self, action: PowerAction) -> Result<(), ControllerError> {
        let word = match action {
            PowerAction::On => "on",
            PowerAction::SoftOff => "soft",
            PowerAction::Off => "off",
        };
        self.ask(&["chassis", "power", word]).map(drop)
    }

    fn boot_once(&mut self, from: BootSource) -> Result<(), ControllerError> {
        let device = match from {
            BootSource::Cdrom => "cdrom",
            BootSource::Pxe => "pxe",
            BootSource::Disk => "disk",
        };
        let words = ["chassis", "bootdev", device, "options=efiboot"];
        self.ask(if self.target.uefi { &words } else { &words[..3] }).map(drop)
    }

    fn insert_image(&mut self, _: &str) -> Result<(), ControllerError> {
        Err("IPMI attaches no images; a redfish-virtualmedia:// address does".into())
    }

    fn eject_image(&mut self) -> Result<(), ControllerError> {
        // Nothing was ever attached.
        Ok(())
    }

    fn read_hardware(&mut self) -> Result<Option<Hardware>, ControllerError> {
        Ok(None)
    }

    fn cipher_suite(&self) -> Option<u8> {
        self.suite
    }
}
