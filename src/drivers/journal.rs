//! Takes what the programs of a job print into its log: reads it as it comes, and hides the secrets
//! that the job was given or has saved. Never starts a program, and never waits for the end of one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::model::order::JobOrder;
use crate::render::redact;

use super::files::read_regular_file;
use super::job_folder::JobFolder;
use super::log::Log;
use super::process::{self, ProgramOutput};
use super::scrub::Secrets;
use super::stream::Stream;

/// Bytes at the end of a program's standard error in which its last line is looked for.
const LAST_WORDS_BYTES: usize = 8 << 10;
/// Letters of that line that are shown.
const LINE_LETTERS: usize = 300;

/// A file as it was at some time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FileVersion {
    path: PathBuf,
    /// Its size in bytes.
    length: u64,
    /// When it was last written to, if the file system says it.
    modified: Option<SystemTime>,
}

/// What becomes of the output of a job's programs.
pub struct Journal {
    job_folder: JobFolder,
    log: Log,
    /// What programs print into the log.
    streams: Vec<Stream>,
    /// What a program prints that is asked something; it goes to no log.
    answer: Option<Stream>,
    /// The standard error of a program whose last words count. It goes to the log, too.
    error_output: Option<Stream>,
    /// The end of what came from there, without secrets.
    last_words: Vec<u8>,
    secrets: Secrets,
    /// Every secret that was ever seen. One that a job saved stays secret when its file is gone.
    secret_values: BTreeSet<String>,
    /// The files that the secrets were read from, to notice when there are others.
    secret_files: Vec<FileVersion>,
}

impl Journal {
    /// A journal of a job that has printed nothing yet, with the secrets that it was given.
    pub fn new(job_folder: &JobFolder, order: &JobOrder) -> Self {
        let mut secret_values = BTreeSet::new();
        for (name, value) in &order.environment {
            secret_values.extend(redact::secrets_of_variable(name, value));
        }
        let mut journal = Self {
            job_folder: job_folder.clone(),
            log: Log::new(job_folder.path()),
            streams: Vec::new(),
            answer: None,
            error_output: None,
            last_words: Vec::new(),
            secrets: Secrets::new(secret_values.iter().map(String::as_str)),
            secret_values,
            secret_files: Vec::new(),
        };
        journal.learn_secrets();
        journal
    }

    /// Adds a line of our own to the log.
    pub fn add_line(&mut self, line: &str) {
        let logged_line = self.without_secrets(line) + "\n";
        self.log.append(logged_line.as_bytes());
    }

    /// A text with the secrets of the job hidden.
    pub fn without_secrets(&mut self, message: &str) -> String {
        self.learn_secrets();
        String::from_utf8_lossy(&self.secrets.hide_in(message.as_bytes())).into_owned()
    }

    /// Opens the output of a program that may outlive us: all of it goes to the log.
    pub fn open_output(&mut self) -> io::Result<ProgramOutput> {
        let (stream, writer) = Stream::for_detached_program(self.job_folder.path())?;
        let output = ProgramOutput { stdout: writer.try_clone()?.into(), stderr: writer.into() };
        self.streams.push(stream);
        Ok(output)
    }

    /// The same for a program whose last line of standard error is wanted afterwards.
    pub fn open_output_with_last_words(&mut self) -> io::Result<ProgramOutput> {
        let folder = self.job_folder.path();
        let (stream, stdout) = Stream::for_detached_program(folder)?;
        let (error_output, stderr) = Stream::for_detached_program(folder)?;
        self.streams.push(stream);
        self.streams.extend(self.error_output.replace(error_output));
        self.last_words.clear();
        Ok(ProgramOutput { stdout: stdout.into(), stderr: stderr.into() })
    }

    /// The last line that a program has printed to standard error, without secrets; none if it
    /// printed none. Only of a program whose output was opened for that.
    pub fn last_error_line(&self) -> Option<String> {
        let tail = String::from_utf8_lossy(&self.last_words);
        let line = tail.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(LINE_LETTERS).collect())
    }

    /// Opens the output of a program that is asked something. Its standard output is the answer and
    /// goes to no log, its standard error goes to the log.
    pub fn open_answer(&mut self) -> io::Result<ProgramOutput> {
        let (answer, stdout) = Stream::new()?;
        let (error_stream, stderr) = Stream::new()?;
        self.answer = Some(answer);
        self.streams.push(error_stream);
        Ok(ProgramOutput { stdout: stdout.into(), stderr: stderr.into() })
    }

    /// What the program that was asked last has answered; empty if it was taken before.
    pub fn take_answer(&mut self) -> String {
        self.answer.take().map(Stream::into_text).unwrap_or_default()
    }

    /// Takes into the log what has been printed since the last call.
    pub fn collect_output(&mut self) {
        let mut has_output = false;
        let streams = self.streams.iter_mut().chain(&mut self.error_output);
        for stream in streams.chain(&mut self.answer) {
            has_output |= stream.read_available();
        }
        // Read first, then learn: what a program saves and prints afterwards is known in time.
        if has_output {
            self.learn_secrets();
        }
        for stream in &mut self.streams {
            self.log.append(&stream.take_scrubbed(&self.secrets));
        }
        if let Some(stream) = &mut self.error_output {
            let piece = stream.take_scrubbed(&self.secrets);
            self.log.append(&piece);
            self.last_words.extend(piece);
            let excess = self.last_words.len().saturating_sub(LAST_WORDS_BYTES);
            self.last_words.drain(..excess);
        }
        self.streams.retain(Stream::is_open);
    }

    /// Takes the rest into the log, also of programs that outlive the job, and stops reading.
    pub fn collect_rest(&mut self) {
        self.collect_output();
        self.streams.iter_mut().chain(&mut self.error_output).for_each(Stream::close);
        self.collect_output();
    }

    /// Waits a moment, or until something is printed.
    pub fn wait_for_output(&self) {
        let streams = self.streams.iter().chain(&self.error_output).chain(&self.answer);
        let open_streams = streams.filter(|stream| stream.is_open());
        process::pause_until_readable(open_streams.map(Stream::pipe_fd));
    }

    /// Reads the secrets that the job was given or has saved meanwhile, if there are other files
    /// than the last time. Of install-config.yaml only what looks secret is one: most of it is not.
    fn learn_secrets(&mut self) {
        let folders = vec![self.job_folder.file_path("input"), self.job_folder.file_path("saved")];
        let files = list_versions(folders);
        if files == self.secret_files {
            return;
        }
        for FileVersion { path, .. } in &files {
            let Ok(bytes) = read_regular_file(path) else { continue };
            let Ok(content) = String::from_utf8(bytes) else { continue };
            let is_secret = path.file_name().is_none_or(|name| name != "install-config.yaml");
            self.secret_values.extend(if is_secret {
                redact::secrets_of_credentials(&content)
            } else {
                redact::find_secrets(&content)
            });
        }
        self.secrets = Secrets::new(self.secret_values.iter().map(String::as_str));
        self.secret_files = files;
    }
}

/// The files in these folders and below them, as they are now.
fn list_versions(mut folders: Vec<PathBuf>) -> Vec<FileVersion> {
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // Drivers write into these folders: of a link this is the link, not what it leads to.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                files.push(FileVersion {
                    path: entry.path(),
                    length: metadata.len(),
                    modified: metadata.modified().ok(),
                });
            }
        }
    }
    files.sort_unstable();
    files
}
