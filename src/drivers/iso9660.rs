//! Reads files out of an ISO 9660 image, such as a live image of RHCOS, by their paths. Names are
//! those of Rock Ridge, where there are any, in any case. Never writes an image.
//!
//! Source: ECMA-119, and the Rock Ridge Interchange Protocol for long names.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes of a sector.
const SECTOR: u64 = 2048;
/// Where the descriptors of the volume begin, and how many are looked at.
const FIRST_DESCRIPTOR: u64 = 16;
const DESCRIPTORS: u64 = 16;
/// Marks of a record: a directory, and a file that goes on in the next record.
const IS_DIRECTORY: u8 = 0x02;
const HAS_MORE_EXTENTS: u8 = 0x80;
/// Bytes of a record before its name.
const RECORD_HEAD: usize = 33;
/// The largest directory that is read: live images have some dozens of files.
const LARGEST_DIRECTORY: u64 = 4 << 20;

/// A part of the image, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    offset: u64,
    length: u64,
}

/// A file or a directory of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    is_directory: bool,
    extents: Vec<Extent>,
}

/// An image that is open for reading.
pub struct IsoImage {
    file: File,
    root: Entry,
}

impl IsoImage {
    /// Opens an image. The error says that it is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        for sector in FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + DESCRIPTORS {
            let mut descriptor = vec![0; 2048];
            file.seek(SeekFrom::Start(sector * SECTOR))?;
            file.read_exact(&mut descriptor).map_err(|_| not_an_image())?;
            match (descriptor.first(), descriptor.get(1..6)) {
                (Some(1), Some(b"CD001")) => {
                    let record = descriptor.get(156..190).ok_or_else(not_an_image)?;
                    let root = parse_record(record).ok_or_else(not_an_image)?;
                    return Ok(Self { file, root });
                }
                (Some(0 | 2 | 3), Some(b"CD001")) => {}
                _ => break,
            }
        }
        Err(not_an_image())
    }

    /// Copies a file of the image. Returns how many bytes it has; None if there is no such file.
    pub fn copy_file(&mut self, path: &str, out: &mut impl Write) -> io::Result<Option<u64>> {
        let Some(entry) = self.find_file(path)? else { return Ok(None) };
        let mut copied = 0;
        for extent in &entry.extents {
            self.file.seek(SeekFrom::Start(extent.offset))?;
            let bytes = io::copy(&mut (&self.file).take(extent.length), out)?;
            if bytes != extent.length {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the image is cut off"));
            }
            copied += bytes;
        }
        Ok(Some(copied))
    }

    /// The names in a directory of the image; none if there is no such directory.
    pub fn list_directory(&mut self, path: &str) -> io::Result<Vec<String>> {
        let Some(directory) = self.find_entry(path)? else { return Ok(Vec::new()) };
        if !directory.is_directory {
            return Ok(Vec::new());
        }
        Ok(self.read_directory(&directory)?.into_iter().map(|entry| entry.name).collect())
    }

    fn find_file(&mut self, path: &str) -> io::Result<Option<Entry>> {
        let entry = self.find_entry(path)?;
        Ok(entry.filter(|entry| !entry.is_directory))
    }

    /// The entry of a path such as `/images/pxeboot/vmlinuz`.
    fn find_entry(&mut self, path: &str) -> io::Result<Option<Entry>> {
        let mut entry = self.root.clone();
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            if !entry.is_directory {
                return Ok(None);
            }
            let mut children = self.read_directory(&entry)?.into_iter();
            let Some(child) = children.find(|child| child.name.eq_ignore_ascii_case(segment))
            else {
                return Ok(None);
            };
            entry = child;
        }
        Ok(Some(entry))
    }

    /// What is in a directory, without the directory itself and the one above it.
    fn read_directory(&mut self, directory: &Entry) -> io::Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut goes_on = false;
        for extent in &directory.extents {
            if extent.length > LARGEST_DIRECTORY {
                return Err(not_an_image());
            }
            let mut bytes = Vec::new();
            self.file.seek(SeekFrom::Start(extent.offset))?;
            (&self.file).take(extent.length).read_to_end(&mut bytes)?;
            // No record goes over the border of a sector: the rest of it is empty.
            for sector in bytes.chunks(2048) {
                let mut rest = sector;
                while let Some(length) = rest.first().map(|length| usize::from(*length))
                    && length > 0
                {
                    let record = rest.get(..length).ok_or_else(not_an_image)?;
                    rest = rest.get(length..).unwrap_or_default();
                    let Some(entry) = parse_record(record) else { continue };
                    match entries.last_mut() {
                        Some(begun) if goes_on => begun.extents.extend(entry.extents),
                        _ => entries.push(entry),
                    }
                    goes_on = record.get(25).is_some_and(|flags| flags & HAS_MORE_EXTENTS != 0);
                }
            }
        }
        // The first two records have no names.
        entries.retain(|entry| !entry.name.is_empty());
        Ok(entries)
    }
}

fn not_an_image() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it is not an ISO 9660 image")
}

/// Reads the record of a file or a directory; None if it is cut off. The records of a directory
/// itself and of the one above it get an empty name.
fn parse_record(record: &[u8]) -> Option<Entry> {
    let sector = read_u32(record, 2)?;
    let length = read_u32(record, 10)?;
    let flags = *record.get(25)?;
    let name_length = usize::from(*record.get(32)?);
    let identifier = record.get(RECORD_HEAD..RECORD_HEAD + name_length)?;
    // What follows the name begins at an even place.
    let system_use = record.get(RECORD_HEAD + name_length + (1 - name_length % 2)..);
    let long_name = read_rock_ridge_name(system_use.unwrap_or_default());
    let name = match identifier {
        [0 | 1] => String::new(),
        _ => long_name.unwrap_or_else(|| plain_name(identifier)),
    };
    let extent = Extent { offset: u64::from(sector) * SECTOR, length: u64::from(length) };
    Some(Entry { name, is_directory: flags & IS_DIRECTORY != 0, extents: vec![extent] })
}

fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    let number = bytes.get(offset..offset + 4)?;
    Some(u32::from_le_bytes(number.try_into().ok()?))
}

/// A name such as `VMLINUZ.;1` without its version.
fn plain_name(identifier: &[u8]) -> String {
    let name = String::from_utf8_lossy(identifier);
    let without_version = name.split(';').next().unwrap_or_default();
    without_version.trim_end_matches('.').to_owned()
}

/// The name in the fields `NM`, which may be in several pieces.
fn read_rock_ridge_name(system_use: &[u8]) -> Option<String> {
    let mut name = Vec::new();
    let mut rest = system_use;
    while let [first, second, length, _, ..] = *rest {
        let field = rest.get(..usize::from(length)).unwrap_or_default();
        if field.len() < 4 {
            break;
        }
        if [first, second] == *b"NM" {
            name.extend_from_slice(field.get(5..).unwrap_or_default());
        }
        rest = rest.get(field.len()..).unwrap_or_default();
    }
    if name.is_empty() { None } else { Some(String::from_utf8_lossy(&name).into_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of a file or directory, with a name of Rock Ridge.
    fn record(identifier: &[u8], long_name: &str, sector: u32, length: u32, flags: u8) -> Vec<u8> {
        let mut record = vec![0; RECORD_HEAD];
        record[2..6].copy_from_slice(&sector.to_le_bytes());
        record[10..14].copy_from_slice(&length.to_le_bytes());
        record[25] = flags;
        record[32] = u8::try_from(identifier.len()).unwrap();
        record.extend(identifier);
        if !record.len().is_multiple_of(2) {
            record.push(0);
        }
        if !long_name.is_empty() {
            record.extend(b"NM");
            record.push(u8::try_from(5 + long_name.len()).unwrap());
            record.extend([1, 0]);
            record.extend(long_name.bytes());
        }
        record[0] = u8::try_from(record.len()).unwrap();
        record
    }

    fn put(image: &mut Vec<u8>, sector: usize, bytes: &[u8]) {
        let offset = sector * 2048;
        image.resize(image.len().max((sector + 1) * 2048), 0);
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn files_are_found_by_long_and_by_plain_names() {
        let mut image = Vec::new();
        let mut descriptor = vec![0; 2048];
        descriptor[0] = 1;
        descriptor[1..6].copy_from_slice(b"CD001");
        let root = record(&[0], "", 20, 2048, IS_DIRECTORY);
        descriptor[156..156 + root.len()].copy_from_slice(&root);
        put(&mut image, 16, &descriptor);
        let in_root = [
            record(&[0], "", 20, 2048, IS_DIRECTORY),
            record(&[1], "", 20, 2048, IS_DIRECTORY),
            record(b"IMAGES", "images", 21, 2048, IS_DIRECTORY),
            record(b"LARGE.;1", "large", 22, 2048, HAS_MORE_EXTENTS),
            record(b"LARGE.;1", "large", 23, 3, 0),
        ];
        put(&mut image, 20, &in_root.concat());
        let in_images = [
            record(&[0], "", 21, 2048, IS_DIRECTORY),
            record(&[1], "", 20, 2048, IS_DIRECTORY),
            record(b"ROOTFS.IMG;1", "", 24, 4, 0),
        ];
        put(&mut image, 21, &in_images.concat());
        put(&mut image, 22, &[b'x'; 2048]);
        put(&mut image, 23, b"end");
        put(&mut image, 24, b"root");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.iso");
        std::fs::write(&path, &image).unwrap();
        let mut iso = IsoImage::open(&path).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(iso.copy_file("/images/rootfs.img", &mut bytes).unwrap(), Some(4));
        assert_eq!(bytes, b"root");
        assert_eq!(iso.copy_file("/large", &mut Vec::new()).unwrap(), Some(2051));
        assert_eq!(iso.copy_file("/images", &mut Vec::new()).unwrap(), None);
        assert_eq!(iso.copy_file("/large/x", &mut Vec::new()).unwrap(), None);
        assert_eq!(iso.list_directory("/").unwrap(), ["images", "large"]);
        std::fs::write(&path, "no image").unwrap();
        assert!(IsoImage::open(&path).is_err());
    }
}
