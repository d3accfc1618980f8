//! The checks of `doctor` on the state file and on what lies beside it, and the repairs that are
//! safe. Nothing is repaired that somebody may still need: folders of unknown jobs are reported,
//! never removed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::model::annotations::OVERLAP;
use crate::model::ip_pool::IpPool;
use crate::model::job::Job;
use crate::model::refusal::Refusal;

use super::agents::forget_settled_agents;
use super::body_checksums::{accept_documents, find_changed_documents};
use super::connection::{Store, log_size};
use super::copies;
use super::documents::select_documents;
use super::event_chain::{find_breaks_of_chain, rebuild_chain};
use super::facts::visit_facts;
use super::free_addresses::{
    build_or_remove_free_list, has_free_list, is_free_list_wrong, remove_free_list,
};
use super::instants::{LAST_BACKUP, LAST_PASS};
use super::ip_counts::{replace_lease_counts, select_lease_counts, tally_leases};
use super::lock::is_on_network;
use super::repeated_columns::find_contradicting_columns;
use super::temporary::{find_abandoned_files, remove_file_or_folder};

/// A log with more bytes than this has not been folded in for long.
const LARGE_LOG: u64 = 16 << 20;

/// How an object is removed of which only the row of its facts is there.
const COMMANDS_THAT_REMOVE: [(&str, &str); 3] = [
    ("cluster", "poolctl delete cluster NAME -n NAMESPACE"),
    ("claim", "poolctl release NAME -n NAMESPACE"),
    ("agent", "poolctl doctor --salvage \"$(poolctl state path)\" --to NEW"),
];

impl Store {
    /// Finds damaged tables and indexes, rows that refer to rows which are not there, and clusters,
    /// claims and Agents without a document, or with columns that contradict it, and pools whose
    /// inventories lack rows. Returns a sentence about each.
    pub fn check_constraints(&self) -> Result<Vec<String>, Refusal> {
        let mut mistakes: Vec<String> = Vec::new();
        let mut check = self.conn().prepare("PRAGMA integrity_check(20)")?;
        let mut rows = check.query([])?;
        while let Some(row) = rows.next()? {
            mistakes.push(row.get(0)?);
        }
        // If nothing is wrong, SQLite returns one row that says "ok".
        mistakes.retain(|mistake| mistake != "ok");
        let mut check = self.conn().prepare("PRAGMA foreign_key_check")?;
        let mut rows = check.query([])?;
        while let Some(row) = rows.next()? {
            let table: String = row.get(0)?;
            let parent: String = row.get(2)?;
            mistakes
                .push(format!("a row of {table} points to a row of {parent} that does not exist"));
        }
        for (table, command) in COMMANDS_THAT_REMOVE {
            let sql = format!(
                "SELECT namespace, name FROM {table} WHERE id NOT IN (SELECT id FROM {table}_body)"
            );
            let mut check = self.conn().prepare(&sql)?;
            let mut rows = check.query([])?;
            while let Some(row) = rows.next()? {
                let (namespace, name): (String, String) = (row.get(0)?, row.get(1)?);
                let command = command.replace("NAMESPACE", &namespace).replace("NAME", &name);
                mistakes.push(format!(
                    "{table} `{name}` has no document; to have a state without it: {command}"
                ));
            }
        }
        // No pass reads jobs that are over, and a list or an export ends at one that cannot be read.
        visit_facts(self.conn(), "ORDER BY rowid", [], &mut |_: Job| Ok(()))?;
        mistakes.extend(find_contradicting_columns(self.conn())?);
        Ok(mistakes)
    }

    /// Finds documents and events that were changed, and events that were removed, by another
    /// program or a failing disk. Returns a sentence about each.
    pub fn check_contents(&self) -> Result<Vec<String>, Refusal> {
        let mut mistakes = find_changed_documents(self.conn())?;
        mistakes.extend(find_breaks_of_chain(self.conn())?);
        Ok(mistakes)
    }

    /// Takes documents and events as they are, whoever has changed them: `check_contents` finds
    /// nothing afterwards.
    pub fn accept_contents(&self) -> Result<(), Refusal> {
        self.write_under_lock(|| {
            accept_documents(self.conn())?;
            rebuild_chain(self.conn())?;
            // What was worked out from a document may not follow from what it is now.
            forget_settled_agents(self.conn())?;
            self.mark_everything_due()
        })
    }

    /// Finds what is wrong with the write-ahead log: that there is none, that it has grown large,
    /// or that the state is on a file system where logs and locks do not work.
    pub fn check_journal(&self) -> Result<Vec<String>, Refusal> {
        let mut mistakes = Vec::new();
        if let Some(refusal) = self.find_second_name() {
            mistakes.push(format!("{}: {}", refusal.what, refusal.causes.join("; ")));
            // Nothing is known of a log beside another name.
            return Ok(mistakes);
        }
        let mode: String = self.conn().query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        if mode != "wal" && !self.is_earlier() {
            mistakes.push(format!("the journal mode is {mode}, not wal"));
        }
        let size = log_size(self.path());
        if size > LARGE_LOG {
            mistakes.push(format!(
                "the write-ahead log has {size} bytes that are not yet in the state file"
            ));
        }
        if is_on_network(self.path()) {
            mistakes.push(
                "the state is on a network file system, where file locks are not reliable".into(),
            );
        }
        Ok(mistakes)
    }

    /// Finds IPPools whose counts or lists of free addresses differ from what the leases say.
    pub fn check_addresses(&self) -> Result<Vec<String>, Refusal> {
        find_wrong_addresses(self.conn())
    }

    /// Makes the counts and the lists of free addresses anew from the leases.
    pub fn fix_addresses(&self) -> Result<(), Refusal> {
        self.write_under_lock(|| rebuild_addresses(self.conn()))
    }

    /// Turns the write-ahead log on, and folds it into the state file.
    pub fn fix_journal(&self) -> Result<(), Refusal> {
        let _lock = self.lock_to_write()?;
        self.keep_log()?;
        // Readers of the log may keep parts of it from being folded in; a later command does that.
        self.fold_log();
        Ok(())
    }

    /// Finds files and folders of the state that other users may read or write, or that belong to
    /// another user than the state file. Returns what is wrong with each.
    pub fn find_files_open_to_others(&self) -> Vec<(PathBuf, String)> {
        let owner = fs::metadata(self.path()).map(|metadata| metadata.uid()).unwrap_or_default();
        let mut open_files = Vec::new();
        for path in self.list_files() {
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

    /// Takes away the rights of other users. What cannot be changed is found by the next check.
    pub fn close_files_to_others(&self) {
        for (path, _) in self.find_files_open_to_others() {
            let mode = if path.is_dir() { 0o700 } else { 0o600 };
            drop(fs::set_permissions(&path, Permissions::from_mode(mode)));
            copies::give_to_owner_of_state(self.path(), &[&path]);
        }
    }

    /// The state file, the files beside it, and everything below `clusters/` and `jobs/`. Symbolic
    /// links are left out: what they lead to is not the state's.
    fn list_files(&self) -> Vec<PathBuf> {
        let endings =
            ["", "-wal", "-shm", ".lock", ".pass", ".tell", ".reserve", LAST_PASS, LAST_BACKUP];
        let mut paths: Vec<PathBuf> =
            endings.into_iter().map(|ending| copies::path_beside(self.path(), ending)).collect();
        paths.retain(|path| path.exists());
        let mut folders: Vec<PathBuf> =
            ["clusters", "jobs"].map(|name| copies::folder_beside(self.path(), name)).into();
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

    /// Finds copies of clusters that are not in the state, and temporary files of commands that
    /// were killed.
    pub fn find_orphans(&self) -> Result<Vec<PathBuf>, Refusal> {
        // The folders first: what is there belongs to a cluster that is in the state by then.
        let clusters_with_copies = copies::list_clusters_with_copies(self.path());
        let mut is_cluster = self.conn().prepare_cached("SELECT 1 FROM cluster WHERE name = ?1")?;
        let mut orphans = Vec::new();
        for cluster in clusters_with_copies {
            if is_cluster.exists([&cluster])? {
                orphans.extend(copies::find_abandoned_copies(self.path(), &cluster));
            } else {
                orphans.push(copies::cluster_folder(self.path(), &cluster));
            }
        }
        orphans.extend(find_abandoned_files(self.path()));
        Ok(orphans)
    }

    /// Finds folders of jobs that are not in the state. What is in them may be all that is known of
    /// machines that run, so nobody but a person removes them.
    pub fn find_unknown_job_folders(&self) -> Result<Vec<PathBuf>, Refusal> {
        // The folders first: each was made for a job that is in the state by then.
        let folders = list_job_folders(self.path());
        let mut is_job = self.conn().prepare_cached("SELECT 1 FROM job WHERE id = ?1")?;
        let mut unknown_folders = Vec::new();
        for path in folders {
            let id = path.file_name().unwrap_or_default().to_string_lossy();
            if !is_job.exists([&*id])? {
                unknown_folders.push(path);
            }
        }
        Ok(unknown_folders)
    }

    /// Removes what `orphans` finds. What cannot be removed is found by the next check.
    pub fn remove_orphans(&self) -> Result<(), Refusal> {
        for path in self.find_orphans()? {
            remove_file_or_folder(&path);
        }
        Ok(())
    }
}

/// Compares the counts and the list of free addresses of each IPPool with the leases. Returns a
/// sentence about each that is wrong.
fn find_wrong_addresses(conn: &Connection) -> Result<Vec<String>, Refusal> {
    let mut mistakes = Vec::new();
    for pool in select_documents::<IpPool>(conn, None)? {
        let pool_id = pool.metadata.id;
        let name = pool.metadata.key();
        let kept = select_lease_counts(conn, pool_id)?;
        let counted = tally_leases(conn, pool_id, &pool)?;
        if kept != counted {
            mistakes.push(format!(
                "IPPool `{name}` has a wrong count of leases: {} instead of {}",
                kept.used, counted.used
            ));
        }
        // A pool that may overlap with others lists addresses that those may have leased.
        let has_own_addresses = !pool.metadata.has_true_annotation(OVERLAP);
        if has_own_addresses
            && has_free_list(conn, pool_id)?
            && is_free_list_wrong(conn, pool_id, &pool)?
        {
            mistakes.push(format!("IPPool `{name}` has a wrong list of free addresses"));
        }
    }
    Ok(mistakes)
}

/// Makes the counts and the list of free addresses of each IPPool anew from the leases, also where
/// they were right.
fn rebuild_addresses(conn: &Connection) -> Result<(), Refusal> {
    for pool in select_documents::<IpPool>(conn, None)? {
        let pool_id = pool.metadata.id;
        let counted = tally_leases(conn, pool_id, &pool)?;
        replace_lease_counts(conn, pool_id, counted)?;
        remove_free_list(conn, pool_id)?;
        build_or_remove_free_list(conn, pool_id, &pool)?;
    }
    Ok(())
}

/// The folders in `jobs/` beside a state, one of each job.
pub fn list_job_folders(state: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(copies::folder_beside(state, "jobs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
