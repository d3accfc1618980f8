//! Records that are put aside on the disk and read again in groups: a file without a name, which is
//! gone with the command. Each record says where the one before it of its group begins, so that of a
//! group only the place of its last record is held in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

/// A record begins with two numbers of eight bytes: where the one before it of its group begins, and
/// how many bytes it has.
const HEADER_SIZE: usize = 16;
/// Stands for the place of a record that does not exist.
const NO_RECORD: u64 = u64::MAX;

/// Groups of records, each of which has a number.
pub struct ChainedRecords {
    out: BufWriter<File>,
    size: u64,
    /// Where the last record of each group begins.
    last_records: HashMap<u64, u64>,
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
        let previous = self.last_records.insert(group, self.size).unwrap_or(NO_RECORD);
        let length = json.len() as u64;
        self.out.write_all(&previous.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&json)?;
        self.size += HEADER_SIZE as u64 + length;
        Ok(())
    }

    /// The numbers of all groups, in the order in which their last records were added.
    pub fn groups(&self) -> Vec<u64> {
        let mut places: Vec<(u64, u64)> =
            self.last_records.iter().map(|(group, place)| (*place, *group)).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, group)| group).collect()
    }

    /// The records of a group as JSON, in the order in which they were added.
    pub fn read_group(&mut self, group: u64) -> io::Result<Vec<String>> {
        self.out.flush()?;
        let file = self.out.get_ref();
        let mut records = Vec::new();
        let mut place = self.last_records.get(&group).copied().unwrap_or(NO_RECORD);
        while place != NO_RECORD {
            let mut previous = [0; 8];
            let mut length = [0; 8];
            file.read_exact_at(&mut previous, place)?;
            file.read_exact_at(&mut length, place + 8)?;
            let length = usize::try_from(u64::from_le_bytes(length)).map_err(io::Error::other)?;
            let mut json = vec![0; length];
            file.read_exact_at(&mut json, place + HEADER_SIZE as u64)?;
            records.push(String::from_utf8(json).map_err(io::Error::other)?);
            place = u64::from_le_bytes(previous);
        }
        records.reverse();
        Ok(records)
    }
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
