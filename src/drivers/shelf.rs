//! Where images lie that controllers fetch: each in a folder of its own that nobody guesses. They
//! have secrets in them; a group may serve them, and nobody else reads them.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const FOLDER: u32 = 0o750;
const IMAGE: u32 = 0o640;

/// Makes a folder for an image, and those that it is to be in, whatever the umask says. Folders
/// that are there already somebody else has made as he wants them.
pub fn folder(own: &Path) -> io::Result<()> {
    if own.is_dir() {
        return Ok(());
    }
    if let Some(above) = own.parent() {
        folder(above)?;
    }
    match fs::create_dir(own) {
        // Another was faster.
        Err(_) if own.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => fs::set_permissions(own, Permissions::from_mode(FOLDER)),
    }
}

/// Lets the group read an image.
pub fn open_to_group(image: &Path) -> io::Result<()> {
    fs::set_permissions(image, Permissions::from_mode(IMAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_made_for_the_group_and_what_is_there_stays_as_it_is() {
        let there = tempfile::tempdir().unwrap();
        fs::set_permissions(there.path(), Permissions::from_mode(0o711)).unwrap();
        let shelf = there.path().join("images");
        folder(&shelf.join("job")).unwrap();
        folder(&shelf.join("job")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([there.path(), &shelf, &shelf.join("job")].map(mode), [0o711, 0o750, 0o750]);
    }
}
