//! The log of a job: files of a bounded size, of which the first and the last ones are kept. The
//! first is `log`. Others are in the folder `.log`, which no program has for its own, and are called
//! after how much of the log comes before them, as `.log/16777216` is: that tells what is left out
//! between two of them.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::files::open_regular_file;

/// Bytes that one file has at most, and all of them.
const PART: u64 = 16 << 20;
const LARGEST: u64 = 64 << 20;
/// As much as is read at a time.
const PIECE: u64 = 1 << 20;

/// Begins the line that says which program was started, with its arguments.
pub const PROMPT: &str = "$ ";
/// The first file of a log, and the folder with the others.
pub const FIRST_PART: &str = "log";
pub const LATER_PARTS: &str = ".log";

/// Writes the log of a job. One process alone does.
pub struct Log {
    folder: PathBuf,
    /// Bytes that were added, whether or not they are kept.
    length: u64,
    /// The file that is written to, and its length.
    part: Option<(File, u64)>,
}

/// Some of a log.
pub struct Piece {
    /// Bytes before it that are not kept.
    pub left_out: u64,
    pub text: String,
    /// Where in the log it ends.
    pub end: u64,
}

/// A file of a log.
struct Part {
    start: u64,
    length: u64,
    path: PathBuf,
}

impl Part {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

impl Log {
    /// An empty log; the folder has none yet.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), length: 0, part: None }
    }

    /// Adds a text that is far smaller than a file. What cannot be written is left out, for a log
    /// ends no job.
    pub fn append(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        let _ = self.write(text);
        self.length += text.len() as u64;
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let added = text.len() as u64;
        let (mut file, length) = match self.part.take() {
            Some((file, length)) if length + added <= PART => (file, length),
            _ => (self.begin_part()?, 0),
        };
        // After a failure the next text begins another file, whose name tells what is missing.
        file.write_all(text)?;
        self.part = Some((file, length + added));
        Ok(())
    }

    /// Makes room for another file. The first stays: it tells what was done.
    fn begin_part(&self) -> io::Result<File> {
        let parts = parts(&self.folder);
        let mut total: u64 = parts.iter().map(|part| part.length).sum();
        for part in parts {
            let is_too_much = part.start > 0 && total + PART > LARGEST;
            if is_too_much || part.length == 0 {
                fs::remove_file(&part.path)?;
                total -= part.length;
            }
        }
        if self.length == 0 {
            return File::create_new(self.folder.join(FIRST_PART));
        }
        let others = self.folder.join(LATER_PARTS);
        fs::create_dir_all(&others)?;
        File::create_new(others.join(self.length.to_string()))
    }
}

/// How much was added to a log that is still there.
pub fn logged_bytes(folder: &Path) -> u64 {
    parts(folder).last().map_or(0, Part::end)
}

/// What of a log is kept behind a position, up to where the log ends now.
pub fn pieces(folder: &Path, mut position: u64) -> impl Iterator<Item = Piece> {
    let end = logged_bytes(folder);
    std::iter::from_fn(move || {
        if position >= end {
            return None;
        }
        let piece = piece_after(folder, position)?;
        position = piece.end;
        Some(piece)
    })
}

fn piece_after(folder: &Path, position: u64) -> Option<Piece> {
    parts(folder).into_iter().filter(|part| part.end() > position).find_map(|part| {
        let start = part.start.max(position);
        // A file that has gone meanwhile is left out, too.
        let bytes = read(&part, start).ok().filter(|bytes| !bytes.is_empty())?;
        Some(Piece {
            left_out: start - position,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            end: start + bytes.len() as u64,
        })
    })
}

fn read(part: &Part, position: u64) -> io::Result<Vec<u8>> {
    let mut file = open_regular_file(&part.path)?;
    file.seek(SeekFrom::Start(position - part.start))?;
    let mut bytes = Vec::new();
    file.take(PIECE).read_to_end(&mut bytes)?;
    // Lines, and the letters in them, stay whole.
    if bytes.len() as u64 == PIECE
        && let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n')
    {
        bytes.truncate(end + 1);
    }
    Ok(bytes)
}

/// The files of a log in their order.
fn parts(folder: &Path) -> Vec<Part> {
    let first = Some((0, folder.join(FIRST_PART)));
    let others = fs::read_dir(folder.join(LATER_PARTS)).into_iter().flatten().flatten();
    let others = others.filter_map(|entry| {
        let start = entry.file_name().to_str()?.parse().ok()?;
        Some((start, entry.path()))
    });
    let mut parts = Vec::new();
    for (start, path) in first.into_iter().chain(others) {
        // Of a link this is not what it leads to: drivers write into these folders.
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

    fn size(folder: &Path) -> u64 {
        parts(folder).iter().map(|part| part.length).sum()
    }

    #[test]
    fn a_long_log_keeps_its_beginning_and_its_end_and_counts_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path());
        let line = |number: usize| {
            let end = format!("{number}\n");
            ".".repeat((1 << 20) - end.len()) + &end
        };
        for number in 0..100 {
            log.append(line(number).as_bytes());
            assert!(size(folder.path()) <= LARGEST, "{number}");
        }
        assert!(size(folder.path()) > LARGEST / 2);
        assert_eq!(logged_bytes(folder.path()), 100 << 20);
        let mut shown = Vec::new();
        let mut left_out = 0;
        for piece in pieces(folder.path(), 0) {
            left_out += piece.left_out;
            shown.push(piece.text);
        }
        assert_eq!(left_out + size(folder.path()), 100 << 20);
        assert!(left_out > 0 && shown[0] == line(0) && shown[shown.len() - 1] == line(99));
        // A reader that has followed it so far gets the rest.
        let rest: Vec<Piece> = pieces(folder.path(), 99 << 20).collect();
        assert!(rest.len() == 1 && rest[0].left_out == 0 && rest[0].text == line(99));
        assert_eq!(pieces(folder.path(), 100 << 20).count(), 0);
    }

    #[test]
    fn what_cannot_be_written_is_left_out_and_counted() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("later");
        let mut log = Log::new(&folder);
        log.append(b"lost\n");
        assert_eq!(logged_bytes(&folder), 0);
        fs::create_dir(&folder).unwrap();
        log.append(b"kept\n");
        log.append(b"kept, too\n");
        let shown: Vec<Piece> = pieces(&folder, 0).collect();
        assert!(shown.len() == 1 && shown[0].left_out == 5, "{}", shown.len());
        assert_eq!(shown[0].text, "kept\nkept, too\n");
    }
}
