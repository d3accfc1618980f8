//! Keeps what a failed installation leaves, for people who look for its cause: logs, archives of
//! logs, what became of the platform's objects, and what the installer was given. Secrets are hidden
//! in whatever is text. Never decides what a failure means.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::model::deployment::SSH_PRIVATE_KEY;
use crate::model::job::Verb;
use crate::model::order::{JobEnding, Verdict};
use crate::render::redact;
use crate::yaml;

use super::files::open_regular_file;
use super::job_folder::{EVIDENCE, JobFolder};
use super::log;
use super::task::{Stopped, Task};

/// Seconds that fetching the logs of a bootstrap machine may take.
const GATHER_SECONDS: u64 = 600;
/// Bytes of evidence that a job keeps at most.
const LARGEST_BYTES: u64 = 64 << 20;
/// Bytes of a text file that are kept at most: its end.
const TEXT_BYTES: u64 = 16 << 20;
/// Bytes of the largest document that is read to hide its secrets.
const DOCUMENT_BYTES: u64 = 4 << 20;
/// Files that are kept at most.
const MOST_FILES: usize = 1000;
/// The inputs that are kept.
const DOCUMENTS: [&str; 2] = ["install-config.yaml", "agent-config.yaml"];
/// The log that openshift-install writes beside what it prints.
const INSTALLER_LOG: &str = ".openshift_install.log";
/// Where it leaves what became of the objects that make the machines.
const CLUSTER_API_OUTPUT: &str = ".clusterapi_output";
/// What names what was not kept, and why.
const LEFT_OUT: &str = "left-out";

/// What is in a file, which says how its secrets are hidden.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// It is kept as it is: nobody can hide anything in it.
    Archive,
    /// YAML or JSON, in which secrets stand under their names.
    Documents,
    Lines,
}

impl Content {
    fn of_file(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz" | "tgz") => Self::Archive,
            Some("yaml" | "yml" | "json" | "kubeconfig") => Self::Documents,
            _ => Self::Lines,
        }
    }
}

/// Keeps what an installation that failed has left in the folder of its job. What cannot be kept
/// changes nothing about how the job ends.
pub fn keep(task: &mut Task, ending: &JobEnding) {
    let folder = task.job_folder.file_path(EVIDENCE);
    // Nobody else may put anything there, because it would stay.
    drop(fs::remove_dir_all(&folder).or_else(|_| fs::remove_file(&folder)));
    // A job that broke off did not fail.
    let has_failed = !ending.is_success() && ending.verdict != Verdict::BrokeOff;
    if task.order.verb != Verb::Provision || !has_failed {
        return;
    }
    let mut collection = Collection { folder, kept_bytes: 0, kept_files: 0, left_out: Vec::new() };
    if let Err(error) = collection.collect(task) {
        task.log_line(&format!("the evidence of the failure was not kept: {error}"));
    }
}

/// Evidence that is being kept.
struct Collection {
    folder: PathBuf,
    kept_bytes: u64,
    kept_files: usize,
    /// What was not kept, each with the reason.
    left_out: Vec<String>,
}

impl Collection {
    fn collect(&mut self, task: &mut Task) -> io::Result<()> {
        for name in DOCUMENTS {
            let path = task.job_folder.input_path(name);
            if fs::symlink_metadata(&path).is_ok() {
                self.keep_file(task, &path, Path::new(name))?;
            }
        }
        let work = task.job_folder.file_path("work");
        if is_folder(&work) {
            for name in self.find_files(&work) {
                self.keep_file(task, &work.join(&name), &name)?;
            }
        }
        if !self.left_out.is_empty() {
            let lines = self.left_out.join("\n") + "\n";
            let lines = task.without_secrets(&lines);
            self.create_file(Path::new(LEFT_OUT))?.write_all(lines.as_bytes())?;
        }
        Ok(())
    }

    /// The files of an installer's folder that are worth keeping, by their paths in it, the most
    /// telling first. No link is followed.
    fn find_files(&mut self, work: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for name in list_names(work) {
            let is_archive = Content::of_file(&name) == Content::Archive;
            if name == Path::new(INSTALLER_LOG) || is_archive {
                files.push(name);
            }
        }
        files.sort_unstable();
        let mut folders = vec![PathBuf::from(CLUSTER_API_OUTPUT)];
        while let Some(folder) = folders.pop() {
            let path = work.join(&folder);
            if !is_folder(&path) {
                continue;
            }
            for name in list_names(&path) {
                let name = folder.join(name);
                if is_folder(&work.join(&name)) {
                    folders.push(name);
                } else if files.len() < MOST_FILES {
                    files.push(name);
                } else {
                    self.leave_out(&name, "there are too many files");
                }
            }
        }
        files
    }

    fn leave_out(&mut self, name: &Path, why: &str) {
        // As bounded as what is kept.
        if self.left_out.len() < MOST_FILES {
            self.left_out.push(format!("{}: {why}", name.display()));
        }
    }

    /// Keeps a file under a name, without its secrets. An error means that nothing can be kept.
    fn keep_file(&mut self, task: &mut Task, path: &Path, name: &Path) -> io::Result<()> {
        let file = match open_regular_file(path) {
            Ok(file) => file,
            Err(error) => {
                self.leave_out(name, &format!("it is no file that can be read: {error}"));
                return Ok(());
            }
        };
        let length = file.metadata()?.len();
        match Content::of_file(name) {
            Content::Archive => self.copy_archive(file, length, name),
            Content::Documents if length > DOCUMENT_BYTES => {
                self.leave_out(name, &format!("it has {length} bytes"));
                Ok(())
            }
            Content::Documents => self.keep_documents(task, file, name),
            Content::Lines => self.keep_lines(task, file, length, name),
        }
    }

    fn keep_documents(&mut self, task: &mut Task, file: File, name: &Path) -> io::Result<()> {
        let Some(documents) = read_documents(file) else {
            // What is wrong with it is not said: that may have its secrets in it.
            self.leave_out(name, "it cannot be read, so its secrets cannot be hidden");
            return Ok(());
        };
        let documents = task.without_secrets(&documents);
        self.write(name, documents.as_bytes())
    }

    fn copy_archive(&mut self, file: File, length: u64, name: &Path) -> io::Result<()> {
        if !self.has_room(length) {
            self.leave_out(name, &format!("it has {length} bytes, for which there is no room"));
            return Ok(());
        }
        // Whoever still writes to it does not make it any longer here.
        let kept_bytes = io::copy(&mut file.take(length), &mut self.create_file(name)?)?;
        self.kept_bytes += kept_bytes;
        self.kept_files += 1;
        Ok(())
    }

    /// Keeps the end of a text, from the beginning of a line.
    fn keep_lines(
        &mut self,
        task: &mut Task,
        mut file: File,
        length: u64,
        name: &Path,
    ) -> io::Result<()> {
        let start = length.saturating_sub(TEXT_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(TEXT_BYTES).read_to_end(&mut bytes)?;
        if start > 0 {
            let line_end = bytes.iter().position(|byte| *byte == b'\n');
            bytes.drain(..line_end.map_or(0, |end| end + 1));
            self.leave_out(name, &format!("its first {start} bytes"));
        }
        // Secrets cannot be found in what is no text, for example in a database.
        let Ok(lines) = String::from_utf8(bytes) else {
            self.leave_out(name, "it is no text");
            return Ok(());
        };
        let lines = task.without_secrets(&lines);
        self.write(name, lines.as_bytes())
    }

    fn write(&mut self, name: &Path, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        if !self.has_room(length) {
            self.leave_out(name, &format!("it has {length} bytes, for which there is no room"));
            return Ok(());
        }
        self.create_file(name)?.write_all(bytes)?;
        self.kept_bytes += length;
        self.kept_files += 1;
        Ok(())
    }

    fn has_room(&self, length: u64) -> bool {
        self.kept_files < MOST_FILES && self.kept_bytes + length <= LARGEST_BYTES
    }

    fn create_file(&self, name: &Path) -> io::Result<File> {
        create_private_file(&self.folder, name)
    }
}

/// Whether there is a folder at a path, and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// The names of what is in a folder, in their order; none if it cannot be read.
fn list_names(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.file_name().into()).collect();
    names.sort_unstable();
    names
}

/// Creates a file that only the account can read, in a folder that is made if it is missing.
fn create_private_file(folder: &Path, name: &Path) -> io::Result<File> {
    let path = folder.join(name);
    let parent = path.parent().unwrap_or(folder);
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)
}

/// Reads YAML documents, or one of JSON, with what stands under secret-looking names hidden. None
/// if they cannot be read.
fn read_documents(file: File) -> Option<String> {
    let mut content = String::new();
    file.take(DOCUMENT_BYTES).read_to_string(&mut content).ok()?;
    let mut documents = Vec::new();
    for part in content.split("\n---\n") {
        let mut document = yaml::parse_value(part).ok()?;
        redact::redact(&mut document);
        documents.push(yaml::to_text(&document).ok()?);
    }
    Some(documents.join("---\n"))
}

/// Fetches the logs of a bootstrap machine with the key that the cluster names, if it names one.
/// Whatever comes of it, the installation has failed already, and the first cause stays.
pub fn gather_bootstrap(
    task: &mut Task,
    program: &Path,
    work: &Path,
    environment: &BTreeMap<String, String>,
) {
    let key = task.job_folder.input_path(SSH_PRIVATE_KEY);
    if !key.is_file() {
        task.log_line(&format!(
            "the logs of the bootstrap machine are not fetched: the cluster names no Secret with \
             the key `{SSH_PRIVATE_KEY}` (spec.provisioning.sshPrivateKeySecretRef)"
        ));
        return;
    }
    let key_path = key.display().to_string();
    let arguments = ["gather", "bootstrap", "--dir", ".", "--key", &key_path];
    let problem = match task.run_program_for(GATHER_SECONDS, program, &arguments, work, environment)
    {
        // Whoever ended the job needs no words about this.
        Ok(Some(0)) | Err(Stopped::Cancelled | Stopped::DeadlineExceeded) => return,
        Ok(Some(code)) => format!("exit code {code}"),
        Ok(None) => format!("not finished after {GATHER_SECONDS} s"),
        Err(Stopped::Failed(error)) => error.to_string(),
    };
    task.log_line(&format!("the logs of the bootstrap machine were not fetched: {problem}"));
}

/// The files that are kept of a failed installation, by their paths in the folder `evidence` of
/// its job; none if nothing is kept.
pub fn list_files(job_folder: &JobFolder) -> Vec<PathBuf> {
    let evidence = job_folder.file_path(EVIDENCE);
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for name in list_names(&evidence.join(&folder)) {
            let name = folder.join(name);
            match fs::symlink_metadata(evidence.join(&name)) {
                Ok(metadata) if metadata.is_dir() => folders.push(name),
                Ok(metadata) if metadata.is_file() => files.push(name),
                _ => {}
            }
        }
    }
    files.sort_unstable();
    files
}

/// Copies what is kept of a failed installation, and the log of its job, to a folder, which is made
/// if it is missing. Only the account can read the copies. Returns their paths.
pub fn copy_to(job_folder: &JobFolder, folder: &Path) -> io::Result<Vec<PathBuf>> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut copies = Vec::new();
    for name in list_files(job_folder) {
        let mut original = open_regular_file(&job_folder.file_path(EVIDENCE).join(&name))?;
        io::copy(&mut original, &mut create_private_file(folder, &name)?)?;
        copies.push(folder.join(name));
    }
    let log_name = Path::new(log::FIRST_PART);
    let mut log_copy = create_private_file(folder, log_name)?;
    for piece in log::read_pieces(job_folder.path(), 0) {
        if piece.left_out > 0 {
            writeln!(log_copy, "[{} bytes left out]", piece.left_out)?;
        }
        log_copy.write_all(piece.text.as_bytes())?;
    }
    copies.push(folder.join(log_name));
    Ok(copies)
}
