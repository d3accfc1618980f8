//! The reserve: a file beside the state that only takes room. On a full disk it makes room for the
//! commands that give something back, which have to write before anything gets better. Nothing is
//! kept in it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::copies::{give_to_owner_of_state, path_beside};

/// Bytes of the reserve: a few times what the log takes before it is folded in.
const RESERVE_SIZE: u64 = 2 << 20;
/// While less is free, the reserve is not made: it would itself fill the disk.
const MIN_FREE_TO_MAKE: u64 = 8 * RESERVE_SIZE;
/// While more is free, the reserve is not needed.
const MAX_FREE_TO_USE: u64 = 512 << 10;

/// Makes the reserve where there is plenty of room. What goes wrong does no harm: then there is no
/// reserve.
pub fn make_reserve(state: &Path) {
    let path = path_beside(state, ".reserve");
    let is_there = fs::metadata(&path).is_ok_and(|metadata| metadata.len() >= RESERVE_SIZE);
    if is_there || free_bytes(state) < MIN_FREE_TO_MAKE {
        return;
    }
    if allocate(&path).is_err() {
        drop(fs::remove_file(&path));
    }
    give_to_owner_of_state(state, &[&path]);
}

/// Gives the reserve up if the disk is full.
pub fn use_reserve(state: &Path) {
    if free_bytes(state) <= MAX_FREE_TO_USE {
        // Without a reserve there is nothing to give up.
        drop(fs::remove_file(path_beside(state, ".reserve")));
    }
}

fn allocate(path: &Path) -> io::Result<()> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    Ok(fallocate(&file, FallocateFlags::empty(), 0, RESERVE_SIZE)?)
}

/// Bytes that may still be written beside a state; none if that cannot be told.
fn free_bytes(state: &Path) -> u64 {
    statvfs(state).map_or(0, |system| system.f_bavail.saturating_mul(system.f_frsize))
}
