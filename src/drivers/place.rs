//! The folder of a job: what lies where, and what it says of the job.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::model::documents::SecretValue;
use crate::model::order::{Ending, Order};

use super::files::{read_regular_file, sync_folder, write_new_file};
use super::log;

/// As much of a log as its last words are looked for in.
const LAST: u64 = 16 << 10;

/// Seconds that a supervisor has to end what is late.
const FAR: u64 = 600;

/// What names an image for hosts that somebody boots.
pub const BOOT_IMAGE: &str = "boots";

/// `jobs/<id>/` beside the state.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

/// How a job stands, as its folder tells.
#[derive(Debug, PartialEq)]
pub enum Standing {
    /// Nobody has begun it: it may be begun, as often as needed.
    NotStarted,
    Running,
    Over(Ending),
    /// It was begun, and nobody works on it any more.
    Interrupted,
}

/// Who supervises: enough to tell a process from a later one with its number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Supervisor {
    pub pid: i32,
    /// Ticks since the machine started, as the kernel counts.
    pub since: u64,
    pub boot: String,
}

impl Place {
    pub fn of(jobs: &Path, job: &str) -> Self {
        Self(jobs.join(job))
    }

    pub fn from_path(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Secrets and other inputs.
    pub fn input_path(&self, name: &str) -> PathBuf {
        self.0.join("input").join(name)
    }

    /// What must not be lost: it is kept as soon as it is there.
    pub fn saved_path(&self, name: &str) -> PathBuf {
        self.0.join("saved").join(name)
    }

    pub fn file_path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn exists(&self) -> bool {
        self.0.is_dir()
    }

    /// Makes the folder whole, or not at all; another may have been faster.
    pub fn prepare(&self, order: &Order, inputs: &[(String, SecretValue)]) -> io::Result<()> {
        let jobs = self.0.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(jobs)?;
        let made = tempfile::Builder::new().prefix(".new-").tempdir_in(jobs)?;
        let place = Self::from_path(made.path());
        for folder in ["input", "saved", "work"] {
            fs::create_dir(place.file_path(folder))?;
        }
        for (name, value) in inputs {
            let path = place.input_path(name);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            write_new_file(&path, value.reveal().as_bytes())?;
        }
        write_new_file(&place.file_path("order.json"), &serde_json::to_vec_pretty(order)?)?;
        for folder in ["input/credentials", "input", "saved", "work", ""] {
            let folder = made.path().join(folder);
            if folder.is_dir() {
                sync_folder(&folder)?;
            }
        }
        match fs::rename(made.path(), &self.0) {
            Ok(()) => {
                // It is no temporary folder any more.
                drop(made.keep());
                sync_folder(jobs)
            }
            Err(_) if self.exists() => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub fn read_order(&self) -> io::Result<Order> {
        self.read_json("order.json")
    }

    pub fn read_supervisor(&self) -> Option<Supervisor> {
        self.read_json("started").ok()
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        Ok(serde_json::from_slice(&read_regular_file(&self.file_path(name))?)?)
    }

    /// What was saved under a name, if that is a file of a size that one can believe.
    pub fn read_saved(&self, name: &str) -> Option<String> {
        String::from_utf8(read_regular_file(&self.saved_path(name)).ok()?).ok()
    }

    /// The outcome counts, whoever still holds the lock.
    pub fn standing(&self) -> Standing {
        if let Ok(ending) = self.read_json("outcome") {
            return Standing::Over(ending);
        }
        if !self.file_path("started").exists() {
            return Standing::NotStarted;
        }
        match self.try_lock() {
            // Somebody has taken its lock away.
            Ok(Some(_)) if self.read_supervisor().is_some_and(|who| who.is_alive()) => {
                Standing::Running
            }
            // It may have ended between the two looks. What is there and cannot be read is no
            // verdict: it is looked at again.
            Ok(Some(_)) => match self.read_json("outcome") {
                Ok(ending) => Standing::Over(ending),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Standing::Interrupted,
                Err(_) => Standing::Running,
            },
            Ok(None) | Err(_) => Standing::Running,
        }
    }

    /// Whether programs go on without their supervisor.
    pub fn is_orphaned(&self) -> bool {
        let lives = self.read_supervisor().is_some_and(|who| who.is_alive());
        !lives && self.standing() == Standing::Running
    }

    /// Whether its supervisor should have ended it long ago.
    pub fn is_long_overdue(&self) -> bool {
        let limit = self.read_order().map_or(u64::MAX, |order| order.limit);
        self.age_of("started").is_some_and(|age| age.as_secs() > limit.saturating_add(FAR))
    }

    /// How long ago a file was written.
    pub fn age_of(&self, name: &str) -> Option<Duration> {
        fs::metadata(self.file_path(name)).ok()?.modified().ok()?.elapsed().ok()
    }

    /// Sees to it that the job is never begun, if it is not yet. Holds its lock meanwhile; false if
    /// somebody else does.
    pub fn prevent_start(&self, who: &Supervisor) -> io::Result<bool> {
        fs::create_dir_all(&self.0)?;
        let Some(_lock) = self.try_lock()? else { return Ok(false) };
        self.mark_started(who).map(|_| true)
    }

    /// The lock, unless somebody holds it.
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

    /// Says that the job is begun; false if it was already.
    pub fn mark_started(&self, who: &Supervisor) -> io::Result<bool> {
        match write_new_file(&self.file_path("started"), &serde_json::to_vec(who)?) {
            Ok(()) => sync_folder(&self.0).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What the programs said last that is worth telling.
    pub fn last_message(&self) -> Option<String> {
        let end = log::logged_bytes(&self.0);
        let pieces = log::pieces(&self.0, end.saturating_sub(LAST));
        let text: String = pieces.map(|piece| piece.text).collect();
        let told = |line: &&str| line.contains("level=info") || line.starts_with(log::PROMPT);
        let line = text.lines().rev().find(told)?;
        let said = line.split_once("msg=").map_or(line, |(_, said)| said);
        Some(said.trim_matches(['"', '$', ' ']).chars().take(200).collect())
    }

    /// The image that hosts without a controller are to be booted from; empty once they have been.
    pub fn boot_image(&self) -> Option<String> {
        String::from_utf8(read_regular_file(&self.file_path(BOOT_IMAGE)).ok()?).ok()
    }

    /// Removes what the programs were given and left, once they are over. The log stays, and what
    /// was saved until the cluster is gone: an older backup of the state may not know it.
    pub fn tidy(&self, cluster_is_gone: bool) {
        const STAYS: [&str; 7] = [
            "order.json",
            "started",
            "lock",
            "outcome",
            "cancel",
            log::FIRST_PART,
            log::LATER_PARTS,
        ];
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let stays = STAYS.iter().any(|one| name == *one);
            if stays || (name == "saved" && !cluster_is_gone) {
                continue;
            }
            // What cannot be removed is found again.
            drop(fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path())));
        }
    }
}

impl Place {
    /// Removes the folder of a job that is over; one that somebody still works on stays.
    pub fn forget(&self) {
        if matches!(self.standing(), Standing::Over(_) | Standing::Interrupted)
            && !self.file_path("saved").exists()
        {
            drop(fs::remove_dir_all(&self.0));
        }
    }
}

impl Supervisor {
    /// Whether it is still that process.
    pub fn is_alive(&self) -> bool {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        boot.trim() == self.boot && process_start_ticks(self.pid) == Some(self.since)
    }
}

/// Jobs whose folders still have what they were given.
pub fn untidy(jobs: &Path) -> Vec<String> {
    let folders = fs::read_dir(jobs).into_iter().flatten().flatten();
    let left = folders.filter(|one| one.path().join("input").exists());
    left.filter_map(|one| one.file_name().into_string().ok()).collect()
}

/// When a process started, in ticks since the machine did.
pub fn process_start_ticks(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // One that has ended and that nobody has asked after is a zombie.
    let state = fields.next()?;
    fields.nth(18)?.parse().ok().filter(|_| state != "Z")
}
