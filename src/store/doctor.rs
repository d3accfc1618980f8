//! Looks for what should not be in and beside the state file, and puts right what it can.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::model::ip_pool::{IpPool, OVERLAP};
use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;

use super::connection::Store;
use super::copies;
use super::documents::select_documents;
use super::free_addresses::{is_list_wrong, is_listed, make_or_remove_list, remove_list};
use super::ip_counts::{replace_count, select_count, tally_leases};
use super::lock::Lock;

/// A log that was not folded in for long.
const LARGE_LOG: u64 = 16 << 20;
/// File systems over the network, as statfs(2) numbers them: NFS, SMB, CIFS, SMB 2 and AFS.
const NETWORK: [u64; 5] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x5346_414f];

impl Store {
    /// What SQLite finds wrong with tables, indexes and references.
    pub fn constraints(&self) -> Result<Vec<String>, Refusal> {
        let mut mistakes: Vec<String> = Vec::new();
        let mut check = self.conn().prepare("PRAGMA integrity_check(20)")?;
        let mut rows = check.query([])?;
        while let Some(row) = rows.next()? {
            mistakes.push(row.get(0)?);
        }
        // SQLite says so when nothing is wrong.
        mistakes.retain(|mistake| mistake != "ok");
        let mut check = self.conn().prepare("PRAGMA foreign_key_check")?;
        let mut rows = check.query([])?;
        while let Some(row) = rows.next()? {
            let table: String = row.get(0)?;
            let parent: String = row.get(2)?;
            mistakes
                .push(format!("a row of {table} points to a row of {parent} that is not there"));
        }
        for table in ["cluster", "claim"] {
            let sql =
                format!("SELECT name FROM {table} WHERE id NOT IN (SELECT id FROM {table}_body)");
            let mut check = self.conn().prepare(&sql)?;
            let mut rows = check.query([])?;
            while let Some(row) = rows.next()? {
                mistakes.push(format!("{table} `{}` has no document", row.get::<_, String>(0)?));
            }
        }
        Ok(mistakes)
    }

    /// The log beside the file: its mode, its size, and whether it can work there.
    pub fn journal(&self) -> Result<Vec<String>, Refusal> {
        let mut mistakes = Vec::new();
        let mode: String = self.conn().query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        if mode != "wal" && !self.is_earlier() {
            mistakes.push(format!("the journal mode is {mode}, not wal"));
        }
        let size = fs::metadata(copies::beside(self.path(), "-wal")).map_or(0, |log| log.len());
        if size > LARGE_LOG {
            mistakes.push(format!("the log has {size} bytes that are not folded in"));
        }
        let file_system = rustix::fs::statfs(self.path());
        if file_system.is_ok_and(|system| NETWORK.contains(&system.f_type.unsigned_abs())) {
            mistakes.push("the state is on a network file system, where locks do not hold".into());
        }
        Ok(mistakes)
    }

    /// Counts and free addresses of pools of addresses, against the leases.
    pub fn addresses(&self) -> Result<Vec<String>, Refusal> {
        check_addresses(self.conn(), false)
    }

    /// Makes the counts and the free addresses anew from the leases.
    pub fn fix_addresses(&self) -> Result<(), Refusal> {
        let _lock = Lock::to_write(self.path())?;
        self.begin_write()?;
        let fixed = check_addresses(self.conn(), true).and_then(|_| self.commit());
        if fixed.is_err() {
            self.rollback();
        }
        fixed
    }

    /// Keeps a log again, and folds in what is in it.
    pub fn fix_journal(&self) -> Result<(), Refusal> {
        self.keep_log()?;
        // A log that is new, or read by others, is folded in another time.
        self.fold_log();
        Ok(())
    }

    /// Files that others could read or write, or that are another's.
    pub fn open_to_others(&self) -> Vec<(PathBuf, String)> {
        let owner = fs::metadata(self.path()).map(|found| found.uid()).unwrap_or_default();
        let mut open_files = Vec::new();
        for path in self.files() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let mode = metadata.mode() & 0o777;
            if mode & 0o077 != 0 {
                open_files.push((path, format!("has mode {mode:o}")));
            } else if metadata.uid() != owner {
                open_files.push((path, format!("belongs to user {}, not {owner}", metadata.uid())));
            }
        }
        open_files
    }

    /// Takes others' rights away; what cannot be changed is found again.
    pub fn close_to_others(&self) {
        for (path, _) in self.open_to_others() {
            let mode = if path.is_dir() { 0o700 } else { 0o600 };
            drop(fs::set_permissions(&path, Permissions::from_mode(mode)));
            copies::belongs_with(self.path(), &[&path]);
        }
    }

    /// The state, what lies beside it, and everything below `clusters/` and `jobs/`. Links are
    /// somebody else's business.
    fn files(&self) -> Vec<PathBuf> {
        let ends = ["", "-wal", "-shm", ".lock", ".pass"];
        let mut paths: Vec<PathBuf> =
            ends.into_iter().map(|end| copies::beside(self.path(), end)).collect();
        paths.retain(|path| path.exists());
        let mut folders: Vec<PathBuf> =
            ["clusters", "jobs"].map(|name| copies::folder(self.path(), name)).into();
        folders.retain(|path| fs::symlink_metadata(path).is_ok_and(|entry| entry.is_dir()));
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => paths.push(entry.path()),
                    _ => {}
                }
            }
            paths.push(folder);
        }
        paths
    }

    /// Copies of clusters that the state does not know, and files that were being made.
    pub fn orphans(&self) -> Result<Vec<PathBuf>, Refusal> {
        let names = self.names(Kind::ClusterDeployment)?;
        let mut orphans = Vec::new();
        for cluster in copies::clusters(self.path()) {
            if !names.iter().any(|key| key.name == cluster) {
                orphans.push(copies::cluster_folder(self.path(), &cluster));
            }
        }
        orphans.extend(copies::abandoned(self.path()));
        Ok(orphans)
    }

    /// Folders of jobs that the state does not know. What is in them may be all that is known of
    /// machines that run: nobody but the operator removes them.
    pub fn strays(&self) -> Result<Vec<PathBuf>, Refusal> {
        let jobs = self.all_jobs()?;
        let known_ids: HashSet<String> = jobs.iter().map(|job| job.id.to_string()).collect();
        let mut folders = job_folders(self.path());
        folders.retain(|path| {
            let id = path.file_name().unwrap_or_default().to_string_lossy();
            !known_ids.contains(&*id)
        });
        Ok(folders)
    }

    /// Removes orphans; what stays is found again.
    pub fn remove_orphans(&self) -> Result<(), Refusal> {
        for path in self.orphans()? {
            drop(fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)));
        }
        Ok(())
    }
}

/// What is counted or listed otherwise than the leases say; mended if asked to.
fn check_addresses(conn: &Connection, mend: bool) -> Result<Vec<String>, Refusal> {
    let mut mistakes = Vec::new();
    for pool in select_documents::<IpPool>(conn, None)? {
        let pool_id = pool.metadata.id;
        let name = pool.metadata.key();
        let kept = select_count(conn, pool_id)?;
        let counted = tally_leases(conn, pool_id, &pool)?;
        if kept != counted {
            mistakes
                .push(format!("IPPool `{name}` counts {} leases and has {}", kept.0, counted.0));
        }
        // Where pools overlap, another has what is listed here.
        let is_alone = !pool.metadata.annotated(OVERLAP);
        if is_alone && is_listed(conn, pool_id)? && is_list_wrong(conn, pool_id, &pool)? {
            mistakes.push(format!("IPPool `{name}` lists other addresses as free than are"));
        }
        if mend {
            replace_count(conn, pool_id, counted.0, counted.1)?;
            remove_list(conn, pool_id)?;
            make_or_remove_list(conn, pool_id, &pool)?;
        }
    }
    Ok(mistakes)
}

/// What lies in `jobs/` beside a state.
pub fn job_folders(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(copies::folder(state, "jobs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
