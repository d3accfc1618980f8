//! What one program prints: a pipe that its supervisor reads, so that nothing of it is on a disk
//! before it is scrubbed. A second process of ours has the pipe open, too. It reads once the
//! supervisor is gone, and throws away what comes: without it, a program that goes on without its
//! supervisor would be ended by SIGPIPE, and one that outlives its job as well.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::setsid;

use super::place::{Place, Supervisor};
use super::process;
use super::scrub::{Scrubber, Secrets};

/// The hidden word that makes us read what nobody else does.
pub const DRAIN: &str = "__drain";
/// How often such a process looks whether the supervisor still lives.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// As much as is read at a time: a program that prints without end holds up nothing else.
const PIECE: u64 = 1 << 20;
/// No answer of a program is longer.
const LONGEST: usize = 64 << 20;

pub struct Stream {
    pipe: PipeReader,
    /// Somebody may still write.
    is_open: bool,
    /// What has been read and nobody has taken yet.
    new: Vec<u8>,
    scrubber: Scrubber,
}

impl Stream {
    /// A stream, and what a program writes into it.
    pub fn new() -> io::Result<(Self, PipeWriter)> {
        let (pipe, writer) = io::pipe()?;
        ioctl_fionbio(&pipe, true)?;
        let stream = Self { pipe, is_open: true, new: Vec::new(), scrubber: Scrubber::default() };
        Ok((stream, writer))
    }

    /// The same for a program of the job in this folder that may outlive us.
    pub fn for_detached_program(folder: &Path) -> io::Result<(Self, PipeWriter)> {
        let (stream, writer) = Self::new()?;
        process::start_drain(DRAIN, folder, stream.pipe.try_clone()?)?;
        Ok((stream, writer))
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    pub fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Reads what has come, or some of it if that is much. Returns whether there is any.
    pub fn read_available(&mut self) -> bool {
        if self.is_open {
            // Fewer bytes than were asked for come at the end alone: else the pipe is said to be
            // empty, which is an error, and what came before that is there all the same.
            self.is_open = match (&self.pipe).take(PIECE).read_to_end(&mut self.new) {
                Ok(read) => read as u64 == PIECE,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            self.new.truncate(LONGEST);
        }
        !self.new.is_empty()
    }

    /// Nobody reads it any more.
    pub fn close(&mut self) {
        self.is_open = false;
    }

    /// What of it can be shown so far; of one that has ended, all of it, as whole lines.
    pub fn take_scrubbed(&mut self, secrets: &Secrets) -> Vec<u8> {
        let new = std::mem::take(&mut self.new);
        let mut shown = self.scrubber.scrub_next(secrets, &new);
        if !self.is_open {
            shown.extend(self.scrubber.scrub_rest(secrets));
            if shown.last().is_some_and(|byte| *byte != b'\n') {
                shown.push(b'\n');
            }
        }
        shown
    }

    /// What was read, as it is.
    pub fn into_text(self) -> String {
        String::from_utf8_lossy(&self.new).into_owned()
    }
}

/// Waits until the program that prints to our standard input has ended, or its supervisor has;
/// then reads what else is printed. Says nothing: nobody listens.
pub fn drain(folder: &Path) -> io::Result<()> {
    // Already the first of a session is as good.
    let _ = setsid();
    let pipe = io::stdin();
    let supervisor = Place::from_path(folder).read_supervisor();
    while supervisor.as_ref().is_some_and(Supervisor::is_alive) {
        // What comes is the supervisor's: this tells only that nobody can write any more.
        let mut ends = [PollFd::new(&pipe, PollFlags::empty())];
        if poll(&mut ends, Some(&LOOK)).is_ok_and(|ended| ended > 0) {
            return Ok(());
        }
    }
    ioctl_fionbio(&pipe, false)?;
    io::copy(&mut pipe.lock(), &mut io::sink()).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_printed_is_read_as_it_comes_and_to_its_end() {
        let secrets = Secrets::new(["hunter2"].into_iter());
        let (mut stream, mut writer) = Stream::new().unwrap();
        assert!(
            !stream.read_available() && stream.is_open(),
            "nothing has come, and nobody waits for it"
        );
        writer.write_all(b"one\ntwo hunt").unwrap();
        assert!(stream.read_available());
        assert_eq!(stream.take_scrubbed(&secrets), b"one\n");
        writer.write_all(b"er2").unwrap();
        drop(writer);
        assert!(stream.read_available() && !stream.is_open());
        assert_eq!(stream.take_scrubbed(&secrets), b"two (hidden)\n");
        assert!(!stream.read_available() && stream.take_scrubbed(&secrets).is_empty());
    }

    #[test]
    fn a_program_that_prints_without_end_is_read_in_pieces() {
        let (mut stream, mut writer) = Stream::new().unwrap();
        let printing = std::thread::spawn(move || {
            let text = [b'x'; 1024];
            while writer.write_all(&text).is_ok() {}
        });
        let mut pieces = 0;
        while pieces < 3 {
            pieces += usize::from(stream.read_available());
            let read = stream.take_scrubbed(&Secrets::new(std::iter::empty())).len() as u64;
            assert!(stream.is_open() && read <= 2 * PIECE);
        }
        drop(stream);
        printing.join().unwrap();
    }
}
