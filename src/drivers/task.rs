//! The task of a driver: the order, the folder, the log and the deadline of one job. Starts and
//! ends the programs that drivers name; never decides which.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};

use crate::model::order::{Ending, Order};

use super::journal::{Journal, Output};
use super::log::PROMPT;
use super::place::Place;
use super::process::{self, BackgroundProgram, PATH, Stopwatch};

/// Names the descriptor of the lock, which every program of the job holds.
const LOCK_FD: &str = "POOLCTL_LOCK_FD";

/// A job that is supervised here.
pub struct Task {
    pub job_folder: Place,
    pub order: Order,
    lock: File,
    watch: Stopwatch,
    stop: Arc<AtomicBool>,
    journal: Journal,
}

/// Why a task was stopped before its driver was done.
pub enum Stopped {
    /// The deadline is over.
    DeadlineExceeded,
    /// Somebody wanted it.
    Cancelled,
    Failed(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// A program that runs beside others, as long as this value lives.
pub struct CompanionProgram(Child);

impl Drop for CompanionProgram {
    fn drop(&mut self) {
        // What it prints while it ends fits into its pipe.
        process::end_process_group(&mut self.0, process::pause_briefly);
    }
}

impl Task {
    /// A task whose deadline begins now. Its programs inherit the lock; `stop` is set by signals.
    pub fn new(
        job_folder: Place,
        order: Order,
        lock: File,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        // Every program that works for the job holds the lock, so that it counts as running.
        fcntl_setfd(lock.as_fd(), FdFlags::empty())?;
        let journal = Journal::new(&job_folder, &order);
        Ok(Self { job_folder, order, lock, watch: Stopwatch::start(), stop, journal })
    }

    /// Waits a moment, unless the deadline is over or somebody wants the job to end.
    pub fn wait_unless_stopped(&mut self) -> Result<(), Stopped> {
        self.journal.collect_output();
        if self.stop.load(Ordering::Relaxed) || self.job_folder.file_path("cancel").exists() {
            return Err(Stopped::Cancelled);
        }
        if self.watch.elapsed() >= Duration::from_secs(self.order.limit) {
            return Err(Stopped::DeadlineExceeded);
        }
        self.journal.wait_for_output();
        Ok(())
    }

    /// Runs a program to its end and returns its exit code, 128 and the signal for one that a
    /// signal ended. What it prints goes to the log.
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

    /// Runs a program in the job's folder to its end. Returns its exit code and what it printed.
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

    fn run_to_end(
        &mut self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
        output: Output,
    ) -> Result<i32, Stopped> {
        let mut child = self.start_program(program, arguments, folder, environment, output)?;
        loop {
            if let Some(code) = process::exit_code_if_ended(&mut child)? {
                self.journal.collect_output();
                return Ok(code);
            }
            if let Err(stopped) = self.wait_unless_stopped() {
                // What it prints while it cleans up is read: a full pipe would hold it up.
                process::end_process_group(&mut child, || {
                    self.journal.collect_output();
                    self.journal.wait_for_output();
                });
                return Err(stopped);
            }
        }
    }

    /// Starts a program that runs until the value is dropped. What it prints goes to the log.
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

    fn start_program(
        &self,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
        environment: &BTreeMap<String, String>,
        output: Output,
    ) -> io::Result<Child> {
        let home = self.job_folder.path().display().to_string();
        let mut environment = environment.clone();
        for (name, value) in [
            ("PATH", PATH.to_owned()),
            ("HOME", home.clone()),
            ("POOLCTL_JOB_DIR", home),
            (LOCK_FD, self.lock.as_raw_fd().to_string()),
        ] {
            environment.insert(name.to_owned(), value);
        }
        // To drain its output, a process was started that must not hold the lock; the program must.
        fcntl_setfd(self.lock.as_fd(), FdFlags::empty())?;
        BackgroundProgram { program, arguments, folder, environment: &environment }.start(output)
    }

    /// Adds a line of our own to the log.
    pub fn log_line(&mut self, line: &str) {
        self.journal.add_line(line);
    }

    /// A text without the secrets of the job.
    pub fn without_secrets(&mut self, text: &str) -> String {
        self.journal.without_secrets(text)
    }

    /// Takes into the log what was printed and not read yet; nothing is read afterwards.
    pub fn finish_log(&mut self) {
        self.journal.collect_rest();
    }

    /// The program of a name, which was looked up when the job was given.
    pub fn program_path(&self, name: &str) -> Option<PathBuf> {
        self.order.programs.get(name).cloned()
    }

    /// How a job ends whose driver has no such verb.
    pub fn refuse_verb(&self) -> Ending {
        let driver = self.order.driver.name();
        let verb = self.order.verb.name();
        Ending::failed(format!("driver `{driver}` has no verb `{verb}`"))
    }
}
