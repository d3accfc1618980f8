//! Keeps the log of a job in files of a bounded size, of which the first and the last ones stay.
//! Never interprets what is in it.
//!
//! The first file is `log`. The others are in the folder `.log`, which no program uses for itself.
//! A file there is named after the number of bytes of the log that come before it, as
//! `.log/16777216` is: the gap between two files tells how much was left out.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::files::open_regular_file;

/// Bytes that one file of a log has at most.
const PART_BYTES: u64 = 16 << 20;
/// Bytes that all files of a log have at most.
const LOG_BYTES: u64 = 64 << 20;
/// While fewer bytes are free on the disk, a log does not grow beyond `BYTES_ON_FULL_DISK`: the state,
/// which may be on the same disk, has to be written.
const MIN_FREE_BYTES: u64 = 16 << 20;
/// Enough for the first cause of most failures.
const BYTES_ON_FULL_DISK: u64 = 256 << 10;
/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Begins the line that says which program was started, with its arguments.
pub const PROMPT: &str = "$ ";
/// The first file of a log.
pub const FIRST_PART: &str = "log";
/// The folder with the other files of a log.
pub const LATER_PARTS: &str = ".log";

/// Writes the log of a job. Only one process, the supervisor, may hold one.
pub struct Log {
    folder: PathBuf,
    /// Bytes that were appended, whether or not they are kept.
    length: u64,
    /// The file that is being written, and its length; none before the first text and after a
    /// failure.
    part: Option<(File, u64)>,
}

/// A stretch of a log, as one step of reading returns it.
pub struct LogPiece {
    /// Bytes that were logged right before it and are not kept any more.
    pub left_out: u64,
    pub text: String,
    /// The position in the log where it ends, in bytes: the next piece is behind it.
    pub end: u64,
}

/// A file of a log.
struct Part {
    /// Bytes of the log that come before it.
    start: u64,
    /// Its size in bytes.
    length: u64,
    path: PathBuf,
}

impl Part {
    fn end_position(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

impl Log {
    /// An empty log in the folder of a job, which has none yet.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), length: 0, part: None }
    }

    /// Appends a text that is far smaller than a file of the log. A text that cannot be written is
    /// left out without an error: a full disk must not end a job only because of its log.
    pub fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if may_grow(self.length, free_bytes(&self.folder)) {
            let _ = self.write_to_part(bytes);
        } else {
            // What comes when there is room again goes into another file.
            self.part = None;
        }
        self.length += bytes.len() as u64;
    }

    /// Appends bytes to the file that is being written, or to the next one if that is full.
    fn write_to_part(&mut self, bytes: &[u8]) -> io::Result<()> {
        let added_bytes = bytes.len() as u64;
        let (mut file, length) = match self.part.take() {
            Some((file, length)) if length + added_bytes <= PART_BYTES => (file, length),
            _ => (self.begin_part()?, 0),
        };
        // After a failure `part` stays empty: the next bytes begin another file, whose name tells
        // how much is missing before it.
        file.write_all(bytes)?;
        self.part = Some((file, length + added_bytes));
        Ok(())
    }

    /// Makes room for another file and creates it. The oldest files go, but never the first: it
    /// tells which programs were started, and how.
    fn begin_part(&self) -> io::Result<File> {
        let parts = list_parts(&self.folder);
        let mut kept_bytes: u64 = parts.iter().map(|part| part.length).sum();
        for part in parts {
            let exceeds_limit = part.start > 0 && kept_bytes + PART_BYTES > LOG_BYTES;
            if exceeds_limit || part.length == 0 {
                fs::remove_file(&part.path)?;
                kept_bytes -= part.length;
            }
        }
        if self.length == 0 {
            return File::create_new(self.folder.join(FIRST_PART));
        }
        let later_parts = self.folder.join(LATER_PARTS);
        fs::create_dir_all(&later_parts)?;
        File::create_new(later_parts.join(self.length.to_string()))
    }
}

/// Whether a log of this length gets more, with so many bytes free on the disk. Where that cannot be
/// told it does.
fn may_grow(length: u64, free_bytes: Option<u64>) -> bool {
    length < BYTES_ON_FULL_DISK || free_bytes.is_none_or(|free_bytes| free_bytes >= MIN_FREE_BYTES)
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let system = statvfs(folder).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// How many bytes the log in a job's folder has had so far, whether or not they are kept; 0 if
/// there is none.
pub fn logged_bytes(folder: &Path) -> u64 {
    list_parts(folder).last().map_or(0, Part::end_position)
}

/// What is kept of the log in a job's folder behind a position (in bytes), up to where the log ends
/// at the time of the call.
pub fn read_pieces(folder: &Path, mut position: u64) -> impl Iterator<Item = LogPiece> {
    let end = logged_bytes(folder);
    std::iter::from_fn(move || {
        if position >= end {
            return None;
        }
        let piece = read_piece_after(folder, position)?;
        position = piece.end;
        Some(piece)
    })
}

/// Reads the next piece of a log after a position, at most to the end of a file. None if there is
/// no more.
fn read_piece_after(folder: &Path, position: u64) -> Option<LogPiece> {
    for part in list_parts(folder) {
        if part.end_position() <= position {
            continue;
        }
        let start = part.start.max(position);
        // A file that was removed meanwhile counts as left out.
        let bytes = read_part(&part, start).unwrap_or_default();
        if !bytes.is_empty() {
            return Some(LogPiece {
                left_out: start - position,
                text: String::from_utf8_lossy(&bytes).into_owned(),
                end: start + bytes.len() as u64,
            });
        }
    }
    None
}

/// Reads a file of the log from a position of the log on, at most `PIECE_BYTES`.
fn read_part(part: &Part, position: u64) -> io::Result<Vec<u8>> {
    let mut file = open_regular_file(&part.path)?;
    file.seek(SeekFrom::Start(position - part.start))?;
    let mut bytes = Vec::new();
    file.take(PIECE_BYTES).read_to_end(&mut bytes)?;
    // Cut after a line, so that no line and no letter of several bytes is split.
    if bytes.len() as u64 == PIECE_BYTES
        && let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n')
    {
        bytes.truncate(end + 1);
    }
    Ok(bytes)
}

/// The files of the log in a job's folder, in the order of the log.
fn list_parts(folder: &Path) -> Vec<Part> {
    let mut paths: Vec<(u64, PathBuf)> = vec![(0, folder.join(FIRST_PART))];
    for entry in fs::read_dir(folder.join(LATER_PARTS)).into_iter().flatten().flatten() {
        // Whatever has no number for its name was not put there by us.
        if let Some(start) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            paths.push((start, entry.path()));
        }
    }
    let mut parts = Vec::new();
    for (start, path) in paths {
        // Drivers write into these folders: a link is not followed, and not counted as a part.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_file() {
            parts.push(Part { start, length: metadata.len(), path });
        }
    }
    parts.sort_by_key(|part| part.start);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_on_disk(folder: &Path) -> u64 {
        list_parts(folder).iter().map(|part| part.length).sum()
    }

    /// A line of 1 MiB that ends with its number.
    fn line_of_one_mebibyte(number: usize) -> String {
        let end = format!("{number}\n");
        ".".repeat((1 << 20) - end.len()) + &end
    }

    #[test]
    fn a_long_log_keeps_its_beginning_and_its_end_and_counts_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path());
        for number in 0..100 {
            log.append(line_of_one_mebibyte(number).as_bytes());
            assert!(bytes_on_disk(folder.path()) <= LOG_BYTES, "{number}");
        }
        assert!(bytes_on_disk(folder.path()) > LOG_BYTES / 2);
        assert_eq!(logged_bytes(folder.path()), 100 << 20);
        let mut shown = Vec::new();
        let mut left_out = 0;
        for piece in read_pieces(folder.path(), 0) {
            left_out += piece.left_out;
            shown.push(piece.text);
        }
        assert_eq!(left_out + bytes_on_disk(folder.path()), 100 << 20);
        assert!(
            left_out > 0
                && shown[0] == line_of_one_mebibyte(0)
                && shown[shown.len() - 1] == line_of_one_mebibyte(99)
        );
        // A reader that has followed it so far gets the rest.
        let rest: Vec<LogPiece> = read_pieces(folder.path(), 99 << 20).collect();
        assert!(
            rest.len() == 1 && rest[0].left_out == 0 && rest[0].text == line_of_one_mebibyte(99)
        );
        assert_eq!(read_pieces(folder.path(), 100 << 20).count(), 0);
    }

    #[test]
    fn a_log_leaves_the_last_of_a_disk_to_the_state() {
        for (length, free_bytes, grows) in [
            (0, Some(0), true),
            (BYTES_ON_FULL_DISK, Some(MIN_FREE_BYTES - 1), false),
            (BYTES_ON_FULL_DISK, Some(MIN_FREE_BYTES), true),
            (LOG_BYTES, None, true),
        ] {
            assert_eq!(may_grow(length, free_bytes), grows, "{length} {free_bytes:?}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_left_out_and_counted() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("later");
        let mut log = Log::new(&folder);
        log.append(b"lost\n");
        assert_eq!(logged_bytes(&folder), 0);
        fs::create_dir(&folder).unwrap();
        log.append(b"kept\n");
        log.append(b"kept, too\n");
        let shown: Vec<LogPiece> = read_pieces(&folder, 0).collect();
        assert!(shown.len() == 1 && shown[0].left_out == 5, "{}", shown.len());
        assert_eq!(shown[0].text, "kept\nkept, too\n");
    }
}
