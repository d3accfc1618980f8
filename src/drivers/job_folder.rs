//! Keeps the folder of a job: what lies where, and how the job stands as its folder tells. Never
//! starts or ends a program, and never decides what is to become of a job.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::model::documents::SecretValue;
use crate::model::order::{JobEnding, JobOrder};

use super::files::{read_regular_file, sync_folder, write_new_file};
use super::log;

/// Bytes at the end of a log in which its last message is looked for.
const LOG_TAIL_BYTES: u64 = 16 << 10;

/// Letters of a log's last message that are shown.
const MESSAGE_LETTERS: usize = 200;

/// Seconds that a supervisor has to end a job whose deadline is over.
const OVERDUE_SECONDS: u64 = 600;

/// The file that names the image from which people boot hosts that have no controller.
pub const BOOT_IMAGE: &str = "boots";

/// The folder with what is kept of a failed installation.
pub const EVIDENCE: &str = "evidence";
/// The file that says that hosts are handed the configuration of their cluster, which is in the
/// folder `work`.
pub const HANDS_OVER: &str = "hands-over";

/// `jobs/<id>/` beside the state.
#[derive(Clone, Debug)]
pub struct JobFolder(PathBuf);

/// How a job stands, as its folder tells.
#[derive(Debug, PartialEq)]
pub enum JobState {
    /// Nobody has begun it: it may be begun, as often as needed.
    NotStarted,
    Running,
    Over(JobEnding),
    /// It was begun, and nobody works on it any more.
    Interrupted,
}

/// The process that supervises a job, with enough to tell it from a later process that got the same
/// number. Written to `started`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Supervisor {
    pub pid: i32,
    /// When it started, in clock ticks since the machine did.
    pub since: u64,
    /// The kernel's `boot_id`: process numbers and ticks count anew with each boot.
    pub boot: String,
}

/// What becomes of the files that a job has saved, when its inputs are removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SavedFiles {
    /// As long as the cluster is there: a state that is restored from an older backup may not know
    /// them.
    Keep,
    Remove,
}

impl JobFolder {
    /// The folder of the job with this id, below the folder with those of all jobs.
    pub fn for_job(jobs: &Path, job: &str) -> Self {
        Self(jobs.join(job))
    }

    /// The folder of a job at this path.
    pub fn from_path(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of something that the job is given: a secret or another document.
    pub fn input_path(&self, name: &str) -> PathBuf {
        self.0.join("input").join(name)
    }

    /// The path of something that must not be lost. It is taken into the state as soon as it is
    /// there, also while the job goes on.
    pub fn saved_path(&self, name: &str) -> PathBuf {
        self.0.join("saved").join(name)
    }

    /// The path of a file or folder right below this one.
    pub fn file_path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Whether the folder is there. Old ones are removed, while the job stays in the state.
    pub fn exists(&self) -> bool {
        self.0.is_dir()
    }

    /// Makes the folder whole, or not at all. It is no error if another process was faster: both
    /// would have made the same.
    pub fn create(&self, order: &JobOrder, inputs: &[(String, SecretValue)]) -> io::Result<()> {
        let jobs = self.0.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(jobs)?;
        let new_folder = tempfile::Builder::new().prefix(".new-").tempdir_in(jobs)?;
        let new_place = Self::from_path(new_folder.path());
        for name in ["input", "saved", "work"] {
            fs::create_dir(new_place.file_path(name))?;
        }
        for (name, value) in inputs {
            let path = new_place.input_path(name);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            write_new_file(&path, value.reveal().as_bytes())?;
        }
        write_new_file(&new_place.file_path("order.json"), &serde_json::to_vec_pretty(order)?)?;
        for name in [
            "input/credentials",
            "input/environment",
            "input/manifests",
            "input",
            "saved",
            "work",
            "",
        ] {
            let folder = new_place.file_path(name);
            if folder.is_dir() {
                sync_folder(&folder)?;
            }
        }
        match fs::rename(new_folder.path(), &self.0) {
            Ok(()) => {
                // It has another name now: there is no temporary folder left to remove.
                drop(new_folder.keep());
                sync_folder(jobs)
            }
            Err(_) if self.exists() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What the job was told when it was given.
    pub fn read_order(&self) -> io::Result<JobOrder> {
        self.read_json("order.json")
    }

    /// Who has begun the job, if somebody has.
    pub fn read_supervisor(&self) -> Option<Supervisor> {
        self.read_json("started").ok()
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        Ok(serde_json::from_slice(&read_regular_file(&self.file_path(name))?)?)
    }

    /// The text of a file that the job has saved; None if it is missing, too large or no text.
    pub fn read_saved(&self, name: &str) -> Option<String> {
        String::from_utf8(read_regular_file(&self.saved_path(name)).ok()?).ok()
    }

    /// How the job stands. The outcome counts as soon as it is there, even if a process still holds
    /// the lock.
    pub fn read_state(&self) -> JobState {
        if let Ok(ending) = self.read_json("outcome") {
            return JobState::Over(ending);
        }
        if !self.file_path("started").exists() {
            return JobState::NotStarted;
        }
        match self.try_lock() {
            // The lock file was replaced: the supervisor holds a lock on the one that was removed.
            Ok(Some(_)) if self.has_live_supervisor() => JobState::Running,
            // The job may have ended since the outcome was looked for. An outcome that is there and
            // cannot be read says nothing: the next pass looks again.
            Ok(Some(_)) => match self.read_json("outcome") {
                Ok(ending) => JobState::Over(ending),
                Err(error) if error.kind() == io::ErrorKind::NotFound => JobState::Interrupted,
                Err(_) => JobState::Running,
            },
            Ok(None) | Err(_) => JobState::Running,
        }
    }

    /// Whether programs of the job go on without their supervisor.
    pub fn is_orphaned(&self) -> bool {
        !self.has_live_supervisor() && self.read_state() == JobState::Running
    }

    fn has_live_supervisor(&self) -> bool {
        self.read_supervisor().is_some_and(|supervisor| supervisor.is_alive())
    }

    /// Whether the supervisor should have ended the job long ago, so that it must be held up.
    pub fn is_long_overdue(&self) -> bool {
        let limit = self.read_order().map_or(u64::MAX, |order| order.limit);
        self.file_age("started")
            .is_some_and(|age| age.as_secs() > limit.saturating_add(OVERDUE_SECONDS))
    }

    /// How long ago a file was written; None if it is not there.
    pub fn file_age(&self, name: &str) -> Option<Duration> {
        fs::metadata(self.file_path(name)).ok()?.modified().ok()?.elapsed().ok()
    }

    /// Sees to it that a job which is not begun yet never will be: `supervisor` counts as the one
    /// who began it. False if another process works on the job and holds its lock.
    pub fn prevent_start(&self, supervisor: &Supervisor) -> io::Result<bool> {
        fs::create_dir_all(&self.0)?;
        let Some(_lock) = self.try_lock()? else { return Ok(false) };
        self.mark_started(supervisor).map(|_| true)
    }

    /// Takes the job's lock and returns the file that holds it; None if another process has it.
    pub fn try_lock(&self) -> io::Result<Option<File>> {
        let path = self.file_path("lock");
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Writes a file whole: after a crash it is there or it is not.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.file_path(name);
        let folder = path.parent().unwrap_or(&self.0);
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        sync_folder(folder)
    }

    /// Writes down who begins the job; false if it was begun before, which nothing undoes.
    pub fn mark_started(&self, supervisor: &Supervisor) -> io::Result<bool> {
        match write_new_file(&self.file_path("started"), &serde_json::to_vec(supervisor)?) {
            Ok(()) => sync_folder(&self.0).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The last line of the log that tells how far the job is: a message of an installer, or the
    /// start of a program. Cut to what fits on a line.
    pub fn last_message(&self) -> Option<String> {
        let end = log::logged_bytes(&self.0);
        let pieces = log::read_pieces(&self.0, end.saturating_sub(LOG_TAIL_BYTES));
        let tail: String = pieces.map(|piece| piece.text).collect();
        let line = tail
            .lines()
            .rev()
            .find(|line| line.contains("level=info") || line.starts_with(log::PROMPT))?;
        let message = line.split_once("msg=").map_or(line, |(_, message)| message);
        Some(message.trim_matches(['"', '$', ' ']).chars().take(MESSAGE_LETTERS).collect())
    }

    /// The image from which people are to boot the hosts without a controller; empty once they have
    /// done so, None if the job needs no such hosts.
    pub fn boot_image(&self) -> Option<String> {
        String::from_utf8(read_regular_file(&self.file_path(BOOT_IMAGE)).ok()?).ok()
    }

    /// Whether hosts are handed the configuration of their cluster.
    pub fn hands_over_configuration(&self) -> bool {
        self.file_path(HANDS_OVER).exists()
    }

    /// Removes what the programs were given and what they left, once they are over. The log stays,
    /// and what is kept of a failure.
    pub fn remove_inputs(&self, saved: SavedFiles) {
        const KEPT: [&str; 8] = [
            "order.json",
            "started",
            "lock",
            "outcome",
            "cancel",
            EVIDENCE,
            log::FIRST_PART,
            log::LATER_PARTS,
        ];
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_kept = KEPT.iter().any(|kept_name| name == *kept_name);
            if is_kept || (name == "saved" && saved == SavedFiles::Keep) {
                continue;
            }
            // What cannot be removed now is tried again by a later pass.
            drop(fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path())));
        }
    }

    /// Removes what is kept of a failed installation.
    pub fn remove_evidence(&self) {
        // What cannot be removed now is tried again after the next failure.
        drop(fs::remove_dir_all(self.file_path(EVIDENCE)));
    }

    /// Removes the folder of a job that is over. It stays if somebody still works on the job, or if
    /// something that the job saved was not removed by `remove_inputs` before.
    pub fn remove_if_over(&self) {
        if matches!(self.read_state(), JobState::Over(_) | JobState::Interrupted)
            && !self.file_path("saved").exists()
        {
            drop(fs::remove_dir_all(&self.0));
        }
    }
}

impl Supervisor {
    /// This process, as those who wait for its end know it.
    pub fn of_this_process() -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let since = process_start_ticks(pid).unwrap_or_default();
        Ok(Self { pid, since, boot })
    }

    /// Whether this very process still runs.
    pub fn is_alive(&self) -> bool {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        boot_id.trim() == self.boot && process_start_ticks(self.pid) == Some(self.since)
    }
}

/// The ids of jobs whose folders still have what the jobs were given.
pub fn jobs_with_inputs(jobs: &Path) -> Vec<String> {
    jobs_with_folder(jobs, "input")
}

/// The ids of jobs that keep evidence of a failed installation.
pub fn jobs_with_evidence(jobs: &Path) -> Vec<String> {
    jobs_with_folder(jobs, EVIDENCE)
}

fn jobs_with_folder(jobs: &Path, name: &str) -> Vec<String> {
    let mut job_ids = Vec::new();
    for entry in fs::read_dir(jobs).into_iter().flatten().flatten() {
        if entry.path().join(name).exists() {
            job_ids.extend(entry.file_name().into_string());
        }
    }
    job_ids
}

/// When a process started, in clock ticks since the machine did; None if it has ended.
pub fn process_start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets; it may contain spaces and brackets.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    // A zombie has ended; its parent has not asked for its exit code yet.
    if fields.next()? == "Z" {
        return None;
    }
    // The 22nd field of proc_pid_stat(5); the third, its state, was taken above.
    fields.nth(18)?.parse().ok()
}
