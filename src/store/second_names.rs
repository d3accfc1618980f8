//! States with more than one name: hard links, and bind mounts of the file alone. Such a state is read
//! with a warning, and never changed. Nothing here opens a file.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use crate::model::refusal::{Exit, Refusal};

/// Refuses a state that has a second name: a hard link, or a bind mount of the file alone.
///
/// SQLite keeps its log, and poolctl its locks, beside the name that was used to open the file. A
/// command that uses the other name does not see a claim that is only in the log, and gives its
/// cluster to somebody else. Whoever only reads is warned: it cannot be told which of the names has
/// the log, and without its log the file shows an old state.
pub fn refuse_second_name(path: &Path) -> Result<(), Refusal> {
    // Linux has statx since 4.11, and marks mount points in it since 5.8. On an older kernel
    // nothing is refused.
    let Ok(status) = statx(CWD, path, AtFlags::empty(), StatxFlags::NLINK) else {
        return Ok(());
    };
    let is_mount_point = status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    if status.stx_nlink < 2 && !is_mount_point {
        return Ok(());
    }
    let path = path.display();
    let refusal = Refusal::new(Exit::State, format!("the state `{path}` has more than one name"));
    let refusal = if is_mount_point {
        refusal.because("it is a bind mount of one file").advise(format!(
            "findmnt -no SOURCE '{path}' names the file; use that one, or mount its folder"
        ))
    } else {
        refusal.because(format!("it has {} hard links", status.stx_nlink)).advise(format!(
            "find \"$(stat -c %m '{path}')\" -xdev -samefile '{path}' lists them; keep the one \
             with a -wal beside it, rm the others"
        ))
    };
    Err(refusal.because(
        "its log and locks are beside one name; programs that use another name do not see them",
    ))
}
