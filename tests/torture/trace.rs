//! Reads what strace wrote of a command: which of its system calls change something, and what they
//! were given. Strings and paths are in hexadecimal (`-xx`), so that no letter of them is taken for
//! one of the trace itself.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The options by which strace writes what is read here; `-s BYTES` is up to the caller.
pub const OPTIONS: &str = "-qq -y -xx -e trace=openat,pwrite64,write,fsync,fdatasync,ftruncate,\
                           fallocate,/^rename,/^unlink,rmdir,/^mkdir,/^link,/^symlink,/chmod,\
                           /chown,flock,fcntl,copy_file_range,sendfile";

/// A system call of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    /// As strace writes them, without the brackets.
    arguments: Vec<String>,
    pub result: String,
}

impl Call {
    /// Reads a line of a trace; None if it is no call that has ended.
    pub fn read(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once('(')?;
        let (arguments, result) = rest.rsplit_once(" = ")?;
        let arguments = arguments.trim_end().strip_suffix(')')?;
        let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !is_name {
            return None;
        }
        let arguments = arguments.split(", ").map(str::to_owned).collect();
        Some(Self { name: name.to_owned(), arguments, result: result.to_owned() })
    }

    fn argument(&self, number: usize) -> &str {
        self.arguments.get(number).map_or("", String::as_str)
    }

    /// An argument that is a number; 0 if it is none.
    pub fn number(&self, number: usize) -> u64 {
        self.argument(number).parse().unwrap_or_default()
    }

    /// An argument that is a string.
    pub fn bytes(&self, number: usize) -> Vec<u8> {
        unescape(self.argument(number))
    }

    /// Whether the call is about the standard output.
    pub fn is_to_standard_output(&self) -> bool {
        self.argument(0).starts_with("1<")
    }

    /// Whether the kernel did the call. One that strace answered itself was not done.
    pub fn is_done(&self) -> bool {
        !self.result.starts_with("-1") && !self.result.contains("INJECTED")
    }

    /// Whether one of the arguments has this flag.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.arguments.iter().any(|argument| argument.split('|').any(|word| word == flag))
    }

    /// The file or folder of a descriptor, or else the path that an argument spells out.
    pub fn path(&self, number: usize) -> PathBuf {
        let argument = self.argument(number);
        let name = argument.split_once('<').map_or(argument, |(_, name)| name);
        PathBuf::from(OsString::from_vec(unescape(name)))
    }

    /// All paths that the call is about. Those of calls such as `renameat` are below a folder.
    pub fn paths(&self) -> Vec<PathBuf> {
        match self.name.as_str() {
            "openat" | "unlinkat" | "mkdirat" | "fchmodat" | "fchownat" => {
                vec![self.path(0).join(self.path(1))]
            }
            "renameat" | "renameat2" | "linkat" => {
                vec![self.path(0).join(self.path(1)), self.path(2).join(self.path(3))]
            }
            "rename" | "link" | "symlink" | "sendfile" => vec![self.path(0), self.path(1)],
            "copy_file_range" => vec![self.path(0), self.path(2)],
            _ => vec![self.path(0)],
        }
    }

    /// Whether the call changes a file, a name or a lock in a folder.
    pub fn changes_something_in(&self, folder: &Path) -> bool {
        let is_change = match self.name.as_str() {
            "openat" => ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| self.has_flag(flag)),
            "flock" => !self.has_flag("LOCK_UN"),
            "fcntl" => {
                self.argument(1).starts_with("F_SETLK") && self.argument(2) != "{l_type=F_UNLCK"
            }
            _ => true,
        };
        is_change && self.paths().iter().any(|path| path.starts_with(folder))
    }

    /// Whether the call changes what a file has or is called. Locks, owners and what is made anew
    /// each time, such as SQLite's index of the log, are no change of that kind.
    pub fn changes_files_in(&self, folder: &Path) -> bool {
        let is_of_index = self.paths()[0].to_string_lossy().ends_with("-shm");
        let leaves_content = ["openat", "flock", "fcntl", "fsync", "fdatasync"];
        let is_left = leaves_content.contains(&self.name.as_str())
            || self.name.contains("chown")
            || self.name.contains("chmod");
        !is_left && !is_of_index && self.changes_something_in(folder)
    }
}

/// The bytes of a string such as `"\x2f\x61"` or a path such as `\x2f\x61>`.
fn unescape(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits.filter_map(|digits| u8::from_str_radix(digits.get(..2)?, 16).ok()).collect()
}

#[test]
fn calls_are_read_from_a_trace() {
    let line = r#"pwrite64(4<\x2f\x61\x2f\x62>, "\x00\x28\x2c\x20", 4, 8192)   = 4"#;
    let call = Call::read(line).unwrap();
    assert_eq!((call.name.as_str(), call.path(0)), ("pwrite64", PathBuf::from("/a/b")));
    assert_eq!((call.bytes(1), call.number(3)), (b"\0(, ".to_vec(), 8192));
    assert!(call.is_done() && call.changes_files_in(Path::new("/a")));
    assert!(!call.changes_something_in(Path::new("/b")));
    let line = r#"openat(AT_FDCWD<\x2f\x61>, "\x2f\x61\x2f\x63", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3<\x2f\x61\x2f\x63>"#;
    let call = Call::read(line).unwrap();
    assert_eq!(call.paths(), [PathBuf::from("/a/c")]);
    assert!(call.changes_something_in(Path::new("/a")) && !call.changes_files_in(Path::new("/a")));
    let line = "fsync(4<\\x2f\\x61>) = 0 (INJECTED)";
    assert!(!Call::read(line).unwrap().is_done());
    let line = "fcntl(3<\\x2f\\x61>, F_SETLK, {l_type=F_UNLCK, l_whence=SEEK_SET}) = 0";
    assert!(!Call::read(line).unwrap().changes_something_in(Path::new("/")));
    assert_eq!(Call::read("+++ killed by SIGKILL +++"), None);
}
