//! Finds what is missing of the write-ahead log: the whole log of a state that was copied without
//! it, or commits behind a damaged place, where SQLite ends its reading and says nothing. The log is
//! read as a file (<https://sqlite.org/walformat.html>); nothing is repaired.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::model::refusal::{Exit, Refusal};

use super::copies::path_beside;

/// The size in bytes of the head of SQLite's write-ahead log. Source: sqlite.org/fileformat2.html,
/// section 4.
pub const LOG_HEADER_SIZE: usize = 32;
/// The size in bytes of the head of each frame of that log.
pub const FRAME_HEADER_SIZE: usize = 24;
/// The index of the log begins with a header of this size.
const INDEX_HEADER_SIZE: usize = 48;
/// A commit is on the disk before the next one begins. So if a machine lost its power, at most one
/// commit that is not whole is at the end of the log.
const MAX_UNFINISHED_COMMITS: usize = 1;

/// A checksum of a log: two numbers, each of which depends on all bytes before.
type Checksum = (u32, u32);

/// Two numbers that all frames of a log have, until it begins anew.
type Salts = [u8; 8];

/// What SQLite knows of the log, as it is in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogIndex {
    /// So many frames from the beginning are read.
    frame_count: u32,
    salts: Salts,
}

/// Refuses a state whose log has commits that SQLite does not read. A connection must have read from
/// the file before, so that the index is that of the log as it is.
pub fn refuse_damaged_log(path: &Path) -> Result<(), Refusal> {
    let Some(lost_commits) = count_lost_commits(path) else { return Ok(()) };
    let path = path.display();
    let commits = if lost_commits == 1 { "commit" } else { "commits" };
    Err(Refusal::new(Exit::State, format!("the log `{path}-wal` is damaged"))
        .because(format!("{lost_commits} {commits} behind the damaged place cannot be read"))
        .because("it was left as it is")
        .advise(format!(
            "poolctl restore BACKUP; without a backup: poolctl doctor --salvage '{path}' --to NEW"
        )))
}

/// Refuses a state that was in use when its file was copied, and whose log was not. The file alone
/// is an older state: no one can tell what was committed since.
pub fn refuse_missing_log(path: &Path) -> Result<(), Refusal> {
    // The log and the lock lie beside the file itself, not beside a symbolic link to it.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path_beside(path, "-wal").exists() || path_beside(path, ".lock").exists() {
        return Ok(());
    }
    let path = path.display();
    Err(Refusal::new(Exit::State, format!("`{path}` is a copy of a state without its log"))
        .because("what was committed last is only in the log, a file with `-wal` after its name")
        .advise(format!(
            "poolctl --state ORIGINAL backup COPY; if the original is gone, \
             install -m 600 /dev/null '{path}.lock' takes the copy as it is"
        )))
}

/// How many commits of the log are not read because a place before them is damaged. None if all are
/// read.
fn count_lost_commits(path: &Path) -> Option<usize> {
    let log = File::open(path_beside(path, "-wal")).ok()?;
    let index = read_index(path)?;
    let frame_size = page_size(&log)? + FRAME_HEADER_SIZE as u64;
    let salts = salts_of_log(&log, &index)?;
    let mut lost_commits = 0;
    let mut frame_start = LOG_HEADER_SIZE as u64 + u64::from(index.frame_count) * frame_size;
    let mut header = [0; FRAME_HEADER_SIZE];
    while log.read_exact_at(&mut header, frame_start).is_ok() {
        // The last frame of a commit has the size of the database after it.
        if header[8..16] == salts && header[4..8] != [0_u8; 4] {
            lost_commits += 1;
        }
        frame_start += frame_size;
    }
    if lost_commits <= MAX_UNFINISHED_COMMITS || read_index(path) != Some(index) {
        // If another command has written meanwhile, these commits are its own.
        return None;
    }
    Some(lost_commits)
}

/// Indexes that this process has read. They are never closed: with a file, a process gives up all
/// locks that it has on it, also those by which SQLite keeps others from truncating the index.
static OPENED_INDEXES: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Reads the first bytes of an index that SQLite may have open.
fn read_index_header(path: &Path) -> Option<[u8; INDEX_HEADER_SIZE]> {
    let index_path = path_beside(path, "-shm");
    let metadata = fs::metadata(&index_path).ok()?;
    let mut opened_indexes = OPENED_INDEXES.lock().unwrap_or_else(PoisonError::into_inner);
    let position = opened_indexes.iter().position(|file| {
        let opened = file.metadata();
        opened.is_ok_and(|opened| (opened.dev(), opened.ino()) == (metadata.dev(), metadata.ino()))
    });
    let position = if let Some(position) = position {
        position
    } else {
        opened_indexes.push(File::open(&index_path).ok()?);
        opened_indexes.len() - 1
    };
    let mut header = [0; INDEX_HEADER_SIZE];
    opened_indexes.get(position)?.read_exact_at(&mut header, 0).ok()?;
    Some(header)
}

/// Reads the index, which SQLite makes anew when the first program opens the log.
fn read_index(path: &Path) -> Option<LogIndex> {
    let header = read_index_header(path)?;
    let is_made = header[12] == 1;
    if !is_made {
        return None;
    }
    let frame_count = u32::from_ne_bytes(header[16..20].try_into().ok()?);
    Some(LogIndex { frame_count, salts: header[32..40].try_into().ok()? })
}

/// How many frames of the log with these salts are committed, as its index says. None if there is no
/// index of this log: then nobody has it open.
pub fn count_committed_frames(path: &Path, salts: [u8; 8]) -> Option<u64> {
    let index = read_index(path)?;
    if index.salts == salts { Some(u64::from(index.frame_count)) } else { None }
}

/// The size of the pages in a log. If the header of the log is damaged, that of nearly all states.
fn page_size(log: &File) -> Option<u64> {
    let mut header = [0; LOG_HEADER_SIZE];
    log.read_exact_at(&mut header, 0).ok()?;
    let size = u32::from_be_bytes(header[8..12].try_into().ok()?);
    let is_usable = size.is_power_of_two() && (512..=65536).contains(&size);
    Some(if is_usable { u64::from(size) } else { 4096 })
}

/// What the frames have that belong to the log as it is. If its header is damaged, SQLite does not
/// know them; then they are those of the first frame.
fn salts_of_log(log: &File, index: &LogIndex) -> Option<Salts> {
    let mut header = [0; LOG_HEADER_SIZE];
    log.read_exact_at(&mut header, 0).ok()?;
    if index.frame_count > 0 || is_header_whole(&header) {
        return Some(index.salts);
    }
    let mut frame_header = [0; FRAME_HEADER_SIZE];
    log.read_exact_at(&mut frame_header, LOG_HEADER_SIZE as u64).ok()?;
    frame_header[8..16].try_into().ok()
}

/// Whether the checksum of the header of a log is right.
fn is_header_whole(header: &[u8; LOG_HEADER_SIZE]) -> bool {
    read_checksum(&header[24..]) == add_to_checksum((0, 0), &header[..24], reads_big_endian(header))
}

/// In which order of bytes the checksums of a log read numbers: the last bit of the magic number in
/// its header says it.
pub fn reads_big_endian(header: &[u8; LOG_HEADER_SIZE]) -> bool {
    header[3] & 1 == 1
}

/// The checksum of a log, up to what was added before and these bytes, a multiple of eight.
pub fn add_to_checksum(before: Checksum, bytes: &[u8], is_big_endian: bool) -> Checksum {
    let mut sums = before;
    for pair in bytes.chunks_exact(8) {
        sums.0 = sums.0.wrapping_add(read_number(&pair[..4], is_big_endian)).wrapping_add(sums.1);
        sums.1 = sums.1.wrapping_add(read_number(&pair[4..], is_big_endian)).wrapping_add(sums.0);
    }
    sums
}

/// The checksum that eight bytes are.
pub fn read_checksum(bytes: &[u8]) -> Checksum {
    (read_number(&bytes[..4], true), read_number(&bytes[4..8], true))
}

/// The number of four bytes.
fn read_number(bytes: &[u8], is_big_endian: bool) -> u32 {
    let mut four_bytes = [0; 4];
    four_bytes.copy_from_slice(bytes);
    if is_big_endian { u32::from_be_bytes(four_bytes) } else { u32::from_le_bytes(four_bytes) }
}
