//! Reads and writes files in the folders of jobs. Foreign programs write into these folders too, so
//! reading never waits for anybody and never follows a link elsewhere. Knows no names of files and
//! nothing of what is in them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// 4 MiB. Nothing that poolctl reads in these folders is larger.
const LARGEST_BYTES: u64 = 4 << 20;

/// Opens a regular file for reading. A link, a folder, a pipe or a device is an error: a driver may
/// have put one there, and opening it could block or lead out of the folder.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let flag_bits = i32::try_from(flags.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flag_bits).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Reads a regular file of at most 4 MiB; a larger one is an error.
pub fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular_file(path)?.take(LARGEST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Writes a file that must not exist yet, and waits until its content is on the disk. The umask
/// of poolctl, 077, keeps it from other users.
pub fn write_new_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Waits until the entries of a folder are on the disk.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
