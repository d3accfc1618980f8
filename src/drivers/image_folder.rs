//! Makes the folders in which images lie for management controllers to fetch. Images have secrets
//! in them: each lies in a folder with a random name, and only its owner and a group, which may be
//! that of a web server, can read it. Never writes an image.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const FOLDER_MODE: u32 = 0o750;
const IMAGE_MODE: u32 = 0o640;

/// Makes a folder for an image, and the folders above it that are missing, with these modes
/// whatever the umask says. A folder that exists keeps the mode that somebody gave it.
pub fn create_image_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_image_folder(parent)?;
    }
    match fs::create_dir(path) {
        // Another process was faster.
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE)),
    }
}

/// Lets the group read an image.
pub fn open_to_group(image: &Path) -> io::Result<()> {
    fs::set_permissions(image, Permissions::from_mode(IMAGE_MODE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_made_for_the_group_and_what_is_there_stays_as_it_is() {
        let existing_folder = tempfile::tempdir().unwrap();
        fs::set_permissions(existing_folder.path(), Permissions::from_mode(0o711)).unwrap();
        let shelf = existing_folder.path().join("images");
        create_image_folder(&shelf.join("job")).unwrap();
        create_image_folder(&shelf.join("job")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            [existing_folder.path(), &shelf, &shelf.join("job")].map(mode),
            [0o711, 0o750, 0o750]
        );
    }
}
