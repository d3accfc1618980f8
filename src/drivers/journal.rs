//! What the programs of a job print, on its way into the log: read as it comes, and without the
//! secrets that the job was given or has made.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::model::order::Order;
use crate::render::redact;

use super::files::read_regular_file;
use super::log::Log;
use super::place::Place;
use super::process;
use super::scrub::Secrets;
use super::stream::Stream;

/// Standard output and standard error of a program.
pub type Output = (OwnedFd, OwnedFd);

/// A file, its length, and when it was written.
type Version = (PathBuf, u64, Option<SystemTime>);

pub struct Journal {
    place: Place,
    log: Log,
    /// Of programs that print into the log.
    streams: Vec<Stream>,
    /// Of a program that is asked something: the answer is in no log.
    answer: Option<Stream>,
    secrets: Secrets,
    /// All that was ever known: what was saved once is secret also when it is gone.
    known: BTreeSet<String>,
    /// The files that the secrets were taken from.
    files: Vec<Version>,
}

impl Journal {
    pub fn new(place: &Place, order: &Order) -> Self {
        let mut known = BTreeSet::new();
        for (name, value) in &order.environment {
            known.extend(redact::secrets_of_variable(name, value));
        }
        let mut journal = Self {
            place: place.clone(),
            log: Log::new(place.path()),
            streams: Vec::new(),
            answer: None,
            secrets: Secrets::new(known.iter().map(String::as_str)),
            known,
            files: Vec::new(),
        };
        journal.learn_secrets();
        journal
    }

    /// A line of our own.
    pub fn add_line(&mut self, line: &str) {
        let line = self.without_secrets(line) + "\n";
        self.log.append(line.as_bytes());
    }

    pub fn without_secrets(&mut self, text: &str) -> String {
        self.learn_secrets();
        String::from_utf8_lossy(&self.secrets.hide_in(text.as_bytes())).into_owned()
    }

    /// Where a program prints to that may outlive us.
    pub fn open_output(&mut self) -> io::Result<Output> {
        let (stream, writer) = Stream::for_detached_program(self.place.path())?;
        let output = (writer.try_clone()?.into(), writer.into());
        self.streams.push(stream);
        Ok(output)
    }

    /// Where a program prints to that is asked something. Its answer comes by standard output;
    /// standard error goes to the log.
    pub fn open_answer(&mut self) -> io::Result<Output> {
        let (answer, stdout) = Stream::new()?;
        let (complaints, stderr) = Stream::new()?;
        self.answer = Some(answer);
        self.streams.push(complaints);
        Ok((stdout.into(), stderr.into()))
    }

    /// What the program that was asked last has answered.
    pub fn take_answer(&mut self) -> String {
        self.answer.take().map(Stream::into_text).unwrap_or_default()
    }

    /// Takes what has been printed into the log.
    pub fn collect_output(&mut self) {
        let mut is_news = false;
        for stream in self.streams.iter_mut().chain(&mut self.answer) {
            is_news |= stream.read_available();
        }
        // After it was read: what a program saves and then prints is known by now.
        if is_news {
            self.learn_secrets();
        }
        for stream in &mut self.streams {
            self.log.append(&stream.take_scrubbed(&self.secrets));
        }
        self.streams.retain(Stream::is_open);
    }

    /// Takes the rest, also of programs that outlive the job.
    pub fn collect_rest(&mut self) {
        self.collect_output();
        self.streams.iter_mut().for_each(Stream::close);
        self.collect_output();
    }

    /// Waits a moment, or until something is printed.
    pub fn wait_for_output(&self) {
        let streams = self.streams.iter().chain(&self.answer);
        process::pause_until_readable(streams.filter(|stream| stream.is_open()).map(Stream::pipe));
    }

    /// What was given or has been saved meanwhile is secret.
    fn learn_secrets(&mut self) {
        let files =
            list_versions(vec![self.place.file_path("input"), self.place.file_path("saved")]);
        if files == self.files {
            return;
        }
        for (path, ..) in &files {
            let text = read_regular_file(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let is_secret = path.file_name().is_none_or(|name| name != "install-config.yaml");
            self.known.extend(text.iter().flat_map(|text| redact::secrets_in(text, is_secret)));
        }
        self.secrets = Secrets::new(self.known.iter().map(String::as_str));
        self.files = files;
    }
}

/// The files in folders and below them, as they are now.
fn list_versions(mut folders: Vec<PathBuf>) -> Vec<Version> {
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // Of a link this is not what it leads to: drivers write into these folders.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                files.push((entry.path(), metadata.len(), metadata.modified().ok()));
            }
        }
    }
    files.sort();
    files
}
