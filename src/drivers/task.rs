//! Starts and ends the programs of one job, and keeps its deadline and its log. Never decides which
//! programs are run: that is what drivers do.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::model::driver::Driver;
use crate::model::order::{JobEnding, JobOrder};

use super::files::read_regular_file;
use super::job_folder::JobFolder;
use super::journal::Journal;
use super::log::PROMPT;
use super::process::{self, BackgroundProgram, PATH, ProgramOutput, Stopwatch};

/// The variable that tells programs which descriptor is the job's lock. Each of them inherits it,
/// so that the job counts as running as long as one of them runs.
const LOCK_FD: &str = "POOLCTL_LOCK_FD";
/// The file in which a driver program says how far it is, a line each time.
const PROGRESS: &str = "progress";

/// A job that this process supervises, as its driver sees it.
pub struct Task {
    pub job_folder: JobFolder,
    pub order: JobOrder,
    lock: File,
    /// Runs since the job was begun.
    stopwatch: Stopwatch,
    /// Set by a signal that asks the job to end.
    stop: Arc<AtomicBool>,
    journal: Journal,
    /// When the file `progress` was written that is in the log already.
    progress_seen: Option<SystemTime>,
}

/// Why a task was stopped before its driver was done.
pub enum Stopped {
    /// The job took longer than its order allows.
    DeadlineExceeded,
    /// Somebody asked for its end.
    Cancelled,
    Failed(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// A program that runs beside others, until this value is dropped.
pub struct CompanionProgram(Child);

impl Drop for CompanionProgram {
    fn drop(&mut self) {
        // Nobody reads its output meanwhile: what it prints as it ends fits into its pipe.
        process::end_process_group(&mut self.0, process::pause_briefly);
    }
}

impl Task {
    /// A task whose time begins to run now. Its programs inherit the lock.
    pub fn new(
        job_folder: JobFolder,
        order: JobOrder,
        lock: File,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        fcntl_setfd(lock.as_fd(), FdFlags::empty())?;
        let journal = Journal::new(&job_folder, &order);
        let stopwatch = Stopwatch::start();
        Ok(Self { job_folder, order, lock, stopwatch, stop, journal, progress_seen: None })
    }

    /// Waits a moment and takes in what programs print. It is an error if the deadline is over or
    /// somebody asked the job to end: everything that waits calls this again and again.
    pub fn wait_unless_stopped(&mut self) -> Result<(), Stopped> {
        self.journal.collect_output();
        self.log_progress();
        if self.stop.load(Ordering::Relaxed) || self.job_folder.file_path("cancel").exists() {
            return Err(Stopped::Cancelled);
        }
        if self.stopwatch.elapsed() >= Duration::from_secs(self.order.limit) {
            return Err(Stopped::DeadlineExceeded);
        }
        self.journal.wait_for_output();
        Ok(())
    }

    /// Runs a program to its end and returns its exit code, 128 plus the signal for one that a
    /// signal ended. The log gets its command line and what it prints.
    pub fn run_program(
        &mut self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Result<i32, Stopped> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        self.log_line(&format!("{PROMPT}{name} {}", arguments.join(" ")));
        let output = self.journal.open_output()?;
        self.run_to_end(program, arguments, folder, environment, output)
    }

    /// As `run_program`, for so many seconds at most. None if the program was ended then; the time
    /// of the job goes on.
    pub fn run_program_for(
        &mut self,
        seconds: u64,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Result<Option<i32>, Stopped> {
        let limit = self.order.limit;
        self.order.limit = limit.min(self.stopwatch.elapsed().as_secs().saturating_add(seconds));
        let ended = self.run_program(program, arguments, folder, environment);
        self.order.limit = limit;
        match ended {
            Ok(code) => Ok(Some(code)),
            Err(Stopped::DeadlineExceeded) => Ok(None),
            Err(stopped) => Err(stopped),
        }
    }

    /// As `run_program`, and returns besides the last line that the program printed to standard
    /// error.
    pub fn run_for_last_words(
        &mut self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Result<(i32, Option<String>), Stopped> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        self.log_line(&format!("{PROMPT}{name} {}", arguments.join(" ")));
        let output = self.journal.open_output_with_last_words()?;
        let code = self.run_to_end(program, arguments, folder, environment, output)?;
        Ok((code, self.journal.last_error_line()))
    }

    /// Runs a program in the job's folder to its end, and returns its exit code and its standard
    /// output. The log gets only what it prints to standard error.
    pub fn ask_program(
        &mut self,
        program: &Path,
        arguments: &[&str],
        environment: &BTreeMap<String, String>,
    ) -> Result<(i32, String), Stopped> {
        let output = self.journal.open_answer()?;
        let folder = self.job_folder.path().to_owned();
        let code = self.run_to_end(program, arguments, &folder, environment, output)?;
        Ok((code, self.journal.take_answer()))
    }

    /// Runs a program to its end and returns its exit code. If the job is cancelled or late, the
    /// program's process group is ended first.
    fn run_to_end(
        &mut self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
        output: ProgramOutput,
    ) -> Result<i32, Stopped> {
        let mut child = self.start_program(program, arguments, folder, environment, output)?;
        loop {
            if let Some(code) = process::exit_code_if_ended(&mut child)? {
                self.journal.collect_output();
                return Ok(code);
            }
            if let Err(stopped) = self.wait_unless_stopped() {
                // While it cleans up its output is read: a full pipe would hold it up.
                process::end_process_group(&mut child, || {
                    self.journal.collect_output();
                    self.journal.wait_for_output();
                });
                return Err(stopped);
            }
        }
    }

    /// Starts a program that runs until the value is dropped. The log gets what it prints.
    pub fn start_companion(
        &mut self,
        program: &Path,
        arguments: &[&str],
    ) -> io::Result<CompanionProgram> {
        let output = self.journal.open_output()?;
        let folder = self.job_folder.file_path("work");
        Ok(CompanionProgram(self.start_program(
            program,
            arguments,
            &folder,
            &BTreeMap::new(),
            output,
        )?))
    }

    /// Starts a program in a folder, with the environment that is given and the variables that all
    /// programs of a job get. It inherits the job's lock, so that the job counts as running as long
    /// as it does.
    fn start_program(
        &self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
        output: ProgramOutput,
    ) -> io::Result<Child> {
        let home = self.job_folder.path().display().to_string();
        let mut whole_environment = environment.clone();
        for (name, value) in [
            ("PATH", PATH.to_owned()),
            ("HOME", home.clone()),
            ("POOLCTL_JOB_DIR", home),
            (LOCK_FD, self.lock.as_raw_fd().to_string()),
        ] {
            whole_environment.insert(name.to_owned(), value);
        }
        // Opening its output may have started a drain, for which our descriptors were marked to
        // be closed. The drain must not hold the lock, but the program must.
        fcntl_setfd(self.lock.as_fd(), FdFlags::empty())?;
        BackgroundProgram { program, arguments, folder, environment: &whole_environment }
            .start(output)
    }

    /// Adds to the log what a driver program has written to its file `progress`, if that is news.
    /// There the passes find it, without secrets.
    fn log_progress(&mut self) {
        if self.order.driver != Driver::Exec {
            return;
        }
        let path = self.job_folder.file_path(PROGRESS);
        let Ok(modified) = fs::symlink_metadata(&path).and_then(|metadata| metadata.modified())
        else {
            return;
        };
        if self.progress_seen == Some(modified) {
            return;
        }
        self.progress_seen = Some(modified);
        let Ok(bytes) = read_regular_file(&path) else { return };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let last_line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        if let Some(line) = last_line {
            self.log_line(&format!("level=info msg=\"{line}\""));
        }
    }

    /// Adds a line of our own to the log.
    pub fn log_line(&mut self, line: &str) {
        self.journal.add_line(line);
    }

    /// A text with the secrets of the job hidden.
    pub fn without_secrets(&mut self, message: &str) -> String {
        self.journal.without_secrets(message)
    }

    /// Takes into the log what was printed and not read yet. Nothing is read afterwards.
    pub fn finish_log(&mut self) {
        self.journal.collect_rest();
    }

    /// The absolute path of a program, as it was looked up when the order was written; None if it
    /// was not found then.
    pub fn program_path(&self, name: &str) -> Option<PathBuf> {
        self.order.programs.get(name).cloned()
    }

    /// How a job ends if its driver does not know its verb.
    pub fn refuse_verb(&self) -> JobEnding {
        let driver = self.order.driver.name();
        let verb = self.order.verb.name();
        JobEnding::failed(format!("driver `{driver}` has no verb `{verb}`"))
    }
}
