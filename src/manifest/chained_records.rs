//! Records that are put aside on the disk and read again in groups: a file without a name, which is
//! gone with the command. Each record says where the one before it of its group is, so that of a group
//! only the span of its last record is held in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use crate::model::refusal::{Exit, Refusal};

/// A record begins with the start and the size of the one before it of its group, each a number of
/// eight bytes, the lowest first. Both are 0 in the first record of a group.
const HEADER_SIZE: usize = 16;

/// Where a record is in the file, with its header.
#[derive(Clone, Copy)]
struct RecordSpan {
    start: u64,
    size: u64,
}

/// Groups of records, each of which has a number.
pub struct ChainedRecords {
    out: BufWriter<File>,
    size: u64,
    /// The last record of each group.
    last_records: HashMap<u64, RecordSpan>,
}

impl ChainedRecords {
    /// Makes the file in a folder.
    pub fn create_in(folder: &Path) -> io::Result<Self> {
        let out = BufWriter::new(tempfile::tempfile_in(folder)?);
        Ok(Self { out, size: 0, last_records: HashMap::new() })
    }

    /// Adds a record to a group.
    pub fn add(&mut self, group: u64, record: &Value) -> io::Result<()> {
        let json = serde_json::to_vec(record)?;
        let span = RecordSpan { start: self.size, size: (HEADER_SIZE + json.len()) as u64 };
        let previous = self.last_records.get(&group);
        let previous_start = previous.map_or(0, |previous| previous.start);
        let previous_size = previous.map_or(0, |previous| previous.size);
        self.out.write_all(&previous_start.to_le_bytes())?;
        self.out.write_all(&previous_size.to_le_bytes())?;
        self.out.write_all(&json)?;
        self.size += span.size;
        self.last_records.insert(group, span);
        Ok(())
    }

    /// The numbers of all groups, in the order in which their last records were added.
    pub fn groups(&self) -> Vec<u64> {
        let mut groups: Vec<u64> = self.last_records.keys().copied().collect();
        groups.sort_unstable_by_key(|group| self.last_records.get(group).map(|last| last.start));
        groups
    }

    /// The records of a group as JSON, in the order in which they were added.
    pub fn read_group(&mut self, group: u64) -> io::Result<Vec<String>> {
        self.out.flush()?;
        let file = self.out.get_ref();
        let mut records = Vec::new();
        let mut next_span = self.last_records.get(&group).copied();
        while let Some(span) = next_span {
            let mut record = vec![0; usize::try_from(span.size).map_err(io::Error::other)?];
            file.read_exact_at(&mut record, span.start)?;
            let json = record.split_off(HEADER_SIZE);
            let previous =
                RecordSpan { start: read_number(&record[..8]), size: read_number(&record[8..]) };
            next_span = if previous.size > 0 { Some(previous) } else { None };
            records.push(String::from_utf8(json).map_err(io::Error::other)?);
        }
        records.reverse();
        Ok(records)
    }
}

/// Refuses an import whose temporary files cannot be read.
pub fn refuse_temporary_file(error: &io::Error) -> Refusal {
    Refusal::new(Exit::Failed, "a temporary file of the import cannot be read")
        .because(error.to_string())
}

/// The number of eight bytes.
fn read_number(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(bytes);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_of_a_group_come_in_their_order_and_while_others_are_added() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = ChainedRecords::create_in(folder.path()).unwrap();
        for (group, text) in [(7, "a"), (8, "b"), (7, "c")] {
            records.add(group, &text.into()).unwrap();
        }
        assert_eq!(records.read_group(7).unwrap(), [r#""a""#, r#""c""#]);
        records.add(8, &"d".into()).unwrap();
        assert_eq!(records.read_group(8).unwrap(), [r#""b""#, r#""d""#]);
        assert_eq!(records.read_group(9).unwrap(), Vec::<String>::new());
        assert_eq!(records.groups(), [7, 8]);
    }
}
