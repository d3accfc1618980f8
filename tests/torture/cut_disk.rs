//! A disk from which the power goes. It is told what a program did to its files, in order, and says
//! what may be on it after a cut: what was synced is there, and of the rest anything may be lost.
//!
//! Writes to a file are lost or kept each by itself, and one may be torn at a sector. Names of a
//! folder (made, changed, removed) are kept in their order up to some point, as journals of file
//! systems keep them; a name may be there before what its file has. All of them are certain only
//! once the file, or the folder, was synced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::sim::dice::Dice;

use super::trace::Call;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// What a program did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Open {
        path: PathBuf,
        is_made: bool,
        is_emptied: bool,
    },
    /// Without an offset it goes on where the last one ended.
    Write {
        path: PathBuf,
        offset: Option<u64>,
        bytes: Vec<u8>,
    },
    Resize {
        path: PathBuf,
        size: u64,
    },
    Sync(PathBuf),
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove(PathBuf),
    /// It told people something.
    Answer,
}

impl Deed {
    /// What a system call did to the files of a folder, or told people; None if neither.
    pub fn of_call(call: &Call, folder: &Path) -> Option<Self> {
        if !call.is_done() {
            return None;
        }
        if call.name == "write" && call.is_to_standard_output() {
            return Some(Self::Answer);
        }
        let path = call.paths().into_iter().next()?;
        if !path.starts_with(folder) {
            return None;
        }
        match call.name.as_str() {
            "openat" => {
                let is_made = call.has_flag("O_CREAT");
                Some(Self::Open { path, is_made, is_emptied: call.has_flag("O_TRUNC") })
            }
            "pwrite64" | "write" => {
                let mut bytes = call.bytes(1);
                bytes.truncate(call.result.parse().ok()?);
                let offset = if call.name == "write" { None } else { Some(call.number(3)) };
                Some(Self::Write { path, offset, bytes })
            }
            "ftruncate" => Some(Self::Resize { path, size: call.number(1) }),
            "fsync" | "fdatasync" => Some(Self::Sync(path)),
            "rename" | "renameat" | "renameat2" => {
                Some(Self::Rename { from: path, to: call.paths().pop()? })
            }
            "unlink" | "unlinkat" => Some(Self::Remove(path)),
            _ => None,
        }
    }
}

/// What becomes of the things that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Nothing,
    Everything,
    /// Whatever falls with this seed.
    Chance(u64),
}

/// A change of a file that may be lost.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                content.resize(content.len().max(end), 0);
                content[*offset..end].copy_from_slice(bytes);
            }
            Self::Resize(size) => content.resize(*size, 0),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    /// What is certain.
    synced: Vec<u8>,
    unsynced: Vec<Change>,
    /// Where the next write without an offset goes.
    position: usize,
}

impl File {
    fn content(&self, loss: Loss) -> Vec<u8> {
        let mut content = self.synced.clone();
        let mut dice = match loss {
            Loss::Chance(seed) => Some(Dice::new(seed)),
            _ => None,
        };
        for change in &self.unsynced {
            let Some(dice) = &mut dice else {
                if loss == Loss::Nothing {
                    change.apply(&mut content);
                }
                continue;
            };
            if dice.happens(40) {
                continue;
            }
            match change {
                Change::Write { offset, bytes } if dice.happens(30) => {
                    let sectors = u32::try_from(bytes.len() / SECTOR).unwrap();
                    let kept = usize::try_from(dice.below(sectors + 1)).unwrap() * SECTOR;
                    let bytes = bytes[..kept].to_vec();
                    Change::Write { offset: *offset, bytes }.apply(&mut content);
                }
                _ => change.apply(&mut content),
            }
        }
        content
    }
}

/// Names that are given or taken away together.
type NameChange = Vec<(PathBuf, Option<usize>)>;

/// The files of a folder, as programs see them and as they are on the disk.
#[derive(Default)]
pub struct CutDisk {
    files: Vec<File>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    unsynced_names: Vec<NameChange>,
}

fn change_names(names: &mut BTreeMap<PathBuf, usize>, change: &NameChange) {
    for (path, file) in change {
        match file {
            Some(file) => names.insert(path.clone(), *file),
            None => names.remove(path),
        };
    }
}

impl CutDisk {
    /// Does what the program did.
    pub fn apply(&mut self, deed: &Deed) {
        match deed {
            Deed::Open { path, is_made, is_emptied } => self.open(path, *is_made, *is_emptied),
            Deed::Write { path, offset, bytes } => self.write(path, *offset, bytes),
            Deed::Resize { path, size } => {
                let size = usize::try_from(*size).unwrap();
                if let Some(file) = self.file_at(path) {
                    file.unsynced.push(Change::Resize(size));
                }
            }
            Deed::Sync(path) => self.sync(path),
            Deed::Rename { from, to } => {
                if let Some(file) = self.names.get(from).copied() {
                    self.rename(vec![(to.clone(), Some(file)), (from.clone(), None)]);
                }
            }
            Deed::Remove(path) => self.rename(vec![(path.clone(), None)]),
            Deed::Answer => {}
        }
    }

    fn file_at(&mut self, path: &Path) -> Option<&mut File> {
        let file = *self.names.get(path)?;
        self.files.get_mut(file)
    }

    fn rename(&mut self, change: NameChange) {
        change_names(&mut self.names, &change);
        self.unsynced_names.push(change);
    }

    fn open(&mut self, path: &Path, is_made: bool, is_emptied: bool) {
        if is_made && !self.names.contains_key(path) {
            self.files.push(File::default());
            let file = self.files.len() - 1;
            self.rename(vec![(path.to_owned(), Some(file))]);
        }
        if let Some(file) = self.file_at(path) {
            file.position = 0;
            if is_emptied {
                file.unsynced.push(Change::Resize(0));
            }
        }
    }

    fn write(&mut self, path: &Path, offset: Option<u64>, bytes: &[u8]) {
        let Some(file) = self.file_at(path) else { return };
        let offset = offset.map_or(file.position, |offset| usize::try_from(offset).unwrap());
        file.position = offset + bytes.len();
        file.unsynced.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    /// Makes a file certain, or the names of a folder.
    fn sync(&mut self, path: &Path) {
        if let Some(file) = self.file_at(path) {
            file.synced = file.content(Loss::Nothing);
            file.unsynced.clear();
            return;
        }
        let waiting = std::mem::take(&mut self.unsynced_names);
        for change in waiting {
            if change.iter().any(|(name, _)| name.parent() == Some(path)) {
                change_names(&mut self.synced_names, &change);
            } else {
                self.unsynced_names.push(change);
            }
        }
    }

    /// What is on the disk if the power goes now.
    pub fn cut(&self, loss: Loss) -> BTreeMap<PathBuf, Vec<u8>> {
        let total = self.unsynced_names.len();
        let kept = match loss {
            Loss::Nothing => total,
            Loss::Everything => 0,
            Loss::Chance(seed) => {
                let count = u32::try_from(total).unwrap();
                usize::try_from(Dice::new(!seed).below(count + 1)).unwrap()
            }
        };
        let mut names = self.synced_names.clone();
        for change in &self.unsynced_names[..kept] {
            change_names(&mut names, change);
        }
        let contents = names.into_iter().map(|(path, file)| {
            // Two files do not lose the same of their writes.
            let loss = match loss {
                Loss::Chance(seed) => Loss::Chance(seed.wrapping_add(file as u64)),
                loss => loss,
            };
            (path, self.files[file].content(loss))
        });
        contents.collect()
    }
}

#[test]
fn what_was_not_synced_may_be_lost_and_what_was_is_there() {
    let path = PathBuf::from("/f/a");
    let mut disk = CutDisk::default();
    let open = Deed::Open { path: path.clone(), is_made: true, is_emptied: false };
    let write =
        |bytes: &[u8]| Deed::Write { path: path.clone(), offset: None, bytes: bytes.into() };
    disk.apply(&open);
    disk.apply(&write(b"one"));
    disk.apply(&Deed::Sync(path.clone()));
    assert!(disk.cut(Loss::Everything).is_empty(), "its name is not certain");
    assert_eq!(disk.cut(Loss::Nothing)[&path], b"one");
    disk.apply(&Deed::Sync("/f".into()));
    disk.apply(&write(b"two"));
    assert_eq!(disk.cut(Loss::Everything)[&path], b"one");
    assert_eq!(disk.cut(Loss::Nothing)[&path], b"onetwo");
    let target = PathBuf::from("/f/b");
    disk.apply(&Deed::Rename { from: path.clone(), to: target.clone() });
    assert!(disk.cut(Loss::Everything).contains_key(&path));
    assert_eq!(disk.cut(Loss::Nothing).into_keys().collect::<Vec<_>>(), [target]);
}
