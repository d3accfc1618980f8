//! Reads what one program prints through a pipe, so that nothing of it is on a disk before its
//! secrets are hidden. Never waits for the program.
//!
//! A second process of ours, the drain, has the pipe open too. It reads once the supervisor is
//! gone, and throws away what comes. Without it, SIGPIPE would end a program that goes on without
//! its supervisor, and a program that outlives its job.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::setsid;

use super::job_folder::{JobFolder, Supervisor};
use super::process;
use super::scrub::{Scrubber, Secrets};

/// The hidden command that makes a drain of poolctl.
pub const DRAIN_COMMAND: &str = "__drain";
/// How often a drain looks whether the supervisor is still alive.
const DRAIN_INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Bytes that are read at a time, so that a program which prints without end holds up nothing else.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes that are kept of what nobody has taken yet: no answer of a program is longer.
const LARGEST_BYTES: usize = 64 << 20;

/// The reading end of what one program prints.
pub struct Stream {
    pipe: PipeReader,
    /// Whether somebody may still write.
    is_open: bool,
    /// What has been read and not been taken yet, as the program printed it.
    buffer: Vec<u8>,
    scrubber: Scrubber,
}

impl Stream {
    /// A stream, and the end of its pipe that a program writes to.
    pub fn new() -> io::Result<(Self, PipeWriter)> {
        let (pipe, writer) = io::pipe()?;
        ioctl_fionbio(&pipe, true)?;
        let stream =
            Self { pipe, is_open: true, buffer: Vec::new(), scrubber: Scrubber::default() };
        Ok((stream, writer))
    }

    /// The same for a program that may outlive the supervisor of the job in this folder: a drain
    /// is started along with the stream.
    pub fn for_detached_program(folder: &Path) -> io::Result<(Self, PipeWriter)> {
        let (stream, writer) = Self::new()?;
        process::start_reader(DRAIN_COMMAND, folder, stream.pipe.try_clone()?)?;
        Ok((stream, writer))
    }

    /// Whether more may come.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The end of the pipe that this process reads, to wait for it beside others.
    pub fn pipe_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Reads what has come, or some of it if that is much; never waits. Returns whether anything is
    /// there to be taken.
    pub fn read_available(&mut self) -> bool {
        if self.is_open {
            // Fewer bytes than were asked for mean that no program has the pipe open any more. If
            // the pipe is merely empty for now, that is the error WouldBlock, and what came before
            // it is in the buffer all the same.
            let result = (&self.pipe).take(PIECE_BYTES).read_to_end(&mut self.buffer);
            self.is_open = match result {
                Ok(bytes_read) => bytes_read as u64 == PIECE_BYTES,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            self.buffer.truncate(LARGEST_BYTES);
        }
        !self.buffer.is_empty()
    }

    /// Stops reading: what comes from now on is left to the drain.
    pub fn close(&mut self) {
        self.is_open = false;
    }

    /// Takes what can be shown so far without cutting a secret in two. Once the program has ended
    /// that is all of it, and ends with a line break.
    pub fn take_scrubbed(&mut self, secrets: &Secrets) -> Vec<u8> {
        let buffer = std::mem::take(&mut self.buffer);
        let mut scrubbed = self.scrubber.scrub_next(secrets, &buffer);
        if !self.is_open {
            scrubbed.extend(self.scrubber.scrub_rest(secrets));
            if scrubbed.last().is_some_and(|byte| *byte != b'\n') {
                scrubbed.push(b'\n');
            }
        }
        scrubbed
    }

    /// All that was read and not taken, with its secrets: an answer for our own use.
    pub fn into_text(self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }
}

/// Waits until the programs that print to our standard input have ended, or their supervisor has;
/// then reads what else is printed, and throws it away. Prints nothing: nobody would read it.
pub fn drain_output(folder: &Path) -> io::Result<()> {
    // It fails if we are the leader of a session already, which serves as well.
    let _ = setsid();
    let pipe = io::stdin();
    let supervisor = JobFolder::from_path(folder).read_supervisor();
    while supervisor.as_ref().is_some_and(Supervisor::is_alive) {
        // Without any flag `poll` tells only that nobody can write any more. What is printed
        // meanwhile is for the supervisor to read.
        let mut poll_fds = [PollFd::new(&pipe, PollFlags::empty())];
        if poll(&mut poll_fds, Some(&DRAIN_INTERVAL)).is_ok_and(|closed_pipes| closed_pipes > 0) {
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
            let kibibyte = [b'x'; 1024];
            while writer.write_all(&kibibyte).is_ok() {}
        });
        let mut pieces = 0;
        while pieces < 3 {
            pieces += usize::from(stream.read_available());
            let piece = stream.take_scrubbed(&Secrets::new(std::iter::empty()));
            assert!(stream.is_open() && piece.len() as u64 <= 2 * PIECE_BYTES);
        }
        drop(stream);
        printing.join().unwrap();
    }
}
