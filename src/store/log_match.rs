//! Finds a write-ahead log that is not that of its file: somebody has copied an older or a newer
//! state over one of the two. SQLite would mix the pages of both. The file and the log both have the
//! row of table `state`, with the lineage of the state and the number of its commits; here these are
//! read as bytes (<https://sqlite.org/fileformat.html>), before SQLite opens anything.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::model::refusal::{Exit, Refusal};

use super::copies::path_beside;
use super::last_commit::read_noted_lineage;
use super::log_damage::{
    FRAME_HEADER_SIZE, LOG_HEADER_SIZE, add_to_checksum, count_committed_frames, read_checksum,
    reads_big_endian,
};
use super::pages::{Page, PageKind};

/// Table `state` is the first that is made in a state file, so it is in the page after the first.
const PAGE_OF_STATE: u32 = 2;
/// The columns of table `state` that are read, counted from 0.
const REVISION_COLUMN: usize = 1;
const LINEAGE_COLUMN: usize = 10;
/// So often a file and a log are compared before one is refused.
const LOOKS: usize = 3;
/// So many frames are looked at for one that has the page, from either end of a log.
const MOST_FRAMES: u64 = 10_000;

/// Which state it is, and how many commits it has had.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counter {
    lineage: String,
    revision: i64,
}

/// The counters of the first and the last commit that are in a log.
struct LogCounters {
    first: Counter,
    last: Counter,
}

/// Refuses a file whose log belongs to an older or a newer one. `page_size` is that of the file.
pub fn refuse_foreign_log(path: &Path, file: &File, page_size: u64) -> Result<(), Refusal> {
    // A log lies beside the file itself, not beside a symbolic link to it.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut mismatch = None;
    // A page that another command is writing may be read half old and half new.
    for _ in 0..LOOKS {
        mismatch = find_mismatch(path, file, page_size);
        if mismatch.is_none() {
            return Ok(());
        }
    }
    let why = mismatch.unwrap_or_default();
    Err(foreign_log(path, &why))
}

/// In what a file and its log contradict each other, if they do.
fn find_mismatch(path: &Path, file: &File, page_size: u64) -> Option<String> {
    // Others may commit meanwhile, and fold the log in. The counter only grows, so it is read before
    // the log is, to be compared with its end, and again after it, for its beginning.
    let before = read_counter_of_file(file, page_size)?;
    let log = read_log_counters(path, page_size)?;
    let after = read_counter_of_file(file, page_size)?;
    // Read after the log: another command may have just begun to keep one.
    if !has_log_mode(file)? {
        return Some("the file is a backup, which has no log".to_owned());
    }
    if log.first.lineage != after.lineage || log.last.lineage != before.lineage {
        // The restore of another state may still be in the log. The lock file names that one then,
        // or, if the restore was killed, none.
        let noted_lineage = read_noted_lineage(path)?;
        if noted_lineage == log.last.lineage {
            return None;
        }
        return Some("the log is that of another state".to_owned());
    }
    let base = log.first.revision - 1;
    if after.revision < base {
        let revision = after.revision;
        return Some(format!(
            "the file has commit {revision}, and its log begins after commit {base}"
        ));
    }
    let end = log.last.revision;
    if before.revision > end {
        let revision = before.revision;
        return Some(format!("the file has commit {revision}, and its log ends at commit {end}"));
    }
    None
}

fn foreign_log(path: &Path, why: &str) -> Refusal {
    let path = path.display();
    Refusal::new(Exit::State, format!("the log `{path}-wal` is not that of `{path}`"))
        .because(why)
        .because("one of them was copied from elsewhere; both were left as they are")
        .next("poolctl restore BACKUP")
}

/// Whether the header of a file says that it has a write-ahead log: byte 18 is 2 then.
fn has_log_mode(file: &File) -> Option<bool> {
    let mut version = [0];
    file.read_exact_at(&mut version, 18).ok()?;
    Some(version != [1])
}

fn read_counter_of_file(file: &File, page_size: u64) -> Option<Counter> {
    read_counter(file, u64::from(PAGE_OF_STATE - 1) * page_size, page_size)
}

/// The counters in a log; none if it has no whole commit.
fn read_log_counters(path: &Path, page_size: u64) -> Option<LogCounters> {
    let log = File::open(path_beside(path, "-wal")).ok()?;
    let mut header = [0; LOG_HEADER_SIZE];
    log.read_exact_at(&mut header, 0).ok()?;
    let salts: [u8; 8] = header[16..24].try_into().ok()?;
    let frame_size = page_size + FRAME_HEADER_SIZE as u64;
    let size_of_frames = log.metadata().ok()?.len().checked_sub(LOG_HEADER_SIZE as u64)?;
    // Frames of a commit that is being written may not have their pages yet.
    let committed = count_committed_frames(path, salts).unwrap_or(u64::MAX);
    let frame_count = committed.min(size_of_frames / frame_size);
    let first_frame = find_frame(&log, frame_size, salts, 0..frame_count.min(MOST_FRAMES))?;
    let last_frames = frame_count.saturating_sub(MOST_FRAMES)..frame_count;
    let last_frame = find_frame(&log, frame_size, salts, last_frames.rev())?;
    let is_big_endian = reads_big_endian(&header);
    Some(LogCounters {
        first: read_counter_of_frame(&log, first_frame, page_size, is_big_endian)?,
        last: read_counter_of_frame(&log, last_frame, page_size, is_big_endian)?,
    })
}

/// Reads the counter from the frame that begins at an offset. None if its checksum is wrong: a loss of
/// power may leave a frame without its page.
fn read_counter_of_frame(
    log: &File,
    offset: u64,
    page_size: u64,
    is_big_endian: bool,
) -> Option<Counter> {
    // The checksum goes on from that of the frame before, or from that at the end of the log's header.
    let frame_size = page_size + FRAME_HEADER_SIZE as u64;
    let is_first = offset == LOG_HEADER_SIZE as u64;
    let offset_of_checksum = if is_first { 24 } else { offset - frame_size + 16 };
    let mut checksum_before = [0; 8];
    log.read_exact_at(&mut checksum_before, offset_of_checksum).ok()?;
    let mut frame = vec![0; usize::try_from(frame_size).ok()?];
    log.read_exact_at(&mut frame, offset).ok()?;
    let (header, page) = frame.split_at(FRAME_HEADER_SIZE);
    let checksum_of_header =
        add_to_checksum(read_checksum(&checksum_before), &header[..8], is_big_endian);
    let checksum = add_to_checksum(checksum_of_header, page, is_big_endian);
    if checksum == read_checksum(&header[16..]) { parse_counter(page) } else { None }
}

/// Where the first of these frames begins that has the page of table `state`. Frames with other salts
/// are left from an earlier log.
fn find_frame(
    log: &File,
    frame_size: u64,
    salts: [u8; 8],
    frames: impl Iterator<Item = u64>,
) -> Option<u64> {
    let mut header = [0; FRAME_HEADER_SIZE];
    for frame in frames {
        let start = LOG_HEADER_SIZE as u64 + frame * frame_size;
        log.read_exact_at(&mut header, start).ok()?;
        if header[..4] == PAGE_OF_STATE.to_be_bytes() && header[8..16] == salts {
            return Some(start);
        }
    }
    None
}

/// Reads the only row of table `state` from the page that begins at an offset.
fn read_counter(file: &File, offset: u64, page_size: u64) -> Option<Counter> {
    let mut page = vec![0; usize::try_from(page_size).ok()?];
    file.read_exact_at(&mut page, offset).ok()?;
    parse_counter(&page)
}

/// Finds the counter in a page.
fn parse_counter(page: &[u8]) -> Option<Counter> {
    let page = Page::new(page, PAGE_OF_STATE);
    if page.kind() != Some(PageKind::LeafOfTable) {
        return None;
    }
    let cells = page.cells();
    let [cell] = cells.as_slice() else { return None };
    let values = page.read_row(*cell, LINEAGE_COLUMN + 1)?;
    let lineage = values.get(LINEAGE_COLUMN)?.text()?.to_owned();
    let revision = values.get(REVISION_COLUMN)?.number()?;
    Some(Counter { lineage, revision })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn the_counter_is_what_sqlite_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let store = Store::open_or_create(&path).unwrap();
        let lineage = store.read_lineage().unwrap().unwrap();
        // Bytes of the numbers of each size, and the numbers that have none.
        for revision in [1, 0, 2, 200, 40_000, 9_000_000, 1 << 40, 1 << 50] {
            let sql = "UPDATE state SET revision = ?1";
            store.file().execute(sql, [revision]).unwrap();
            let log = read_log_counters(&path, 4096).unwrap();
            assert_eq!(log.last, Counter { lineage: lineage.clone(), revision });
            store.fold_log();
        }
    }
}
