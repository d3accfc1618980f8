//! Tries what an installation of a pool needs, without making anything: the installer of its
//! release, its credentials, certificates, names and platform, and room for images. Whatever came
//! of it, the next step is tried, too, so that a person sees all that is to be mended.

use std::fs;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{Access, access, statvfs};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::model::documents::SecretValue;
use crate::model::driver::Driver;
use crate::model::driver_description::CHECK;
use crate::model::order::JobOrder;

use super::classify::Counterpart;
use super::driver_program::{read_result, run_verb};
use super::files::read_regular_file;
use super::installer::{Installer, ending_before_creation, write_install_config};
use super::task::{Stopped, Task};
use super::{credentials, release, trial};

/// The folder below `input/` with the certificates that a platform is to be trusted by.
pub const CERTIFICATES: &str = "platform-certificates";
/// How long a name may take to be resolved.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that the images of one release need at least.
const IMAGE_BYTES: u64 = 2 << 30;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    Ok,
    Failed,
    /// There is nothing to try, or an earlier step has to succeed first.
    Skipped,
}

impl StepState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// What was tried, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub step: String,
    pub state: StepState,
    /// What was found, for people.
    pub detail: String,
    /// What a person can do; empty if nothing has to be done.
    pub next: String,
}

impl Finding {
    pub fn ok(step: &str, detail: impl Into<String>) -> Self {
        Self::new(step, StepState::Ok, detail, "")
    }

    pub fn skipped(step: &str, detail: impl Into<String>) -> Self {
        Self::new(step, StepState::Skipped, detail, "")
    }

    pub fn failed(step: &str, detail: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(step, StepState::Failed, detail, next)
    }

    fn new(
        step: &str,
        state: StepState,
        detail: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { step: step.to_owned(), state, detail: detail.into(), next: next.into() }
    }

    pub fn has_failed(&self) -> bool {
        self.state == StepState::Failed
    }
}

/// Tries what openshift-install needs for the cluster of an order. `jobs` is the folder of all
/// jobs, `host_names` are those that the order leads to.
pub fn probe_installer(
    jobs: &Path,
    order: JobOrder,
    inputs: &[(String, SecretValue)],
    host_names: &[String],
) -> Vec<Finding> {
    let findings = trial::run_as_trial(jobs, order, inputs, |task| {
        let mut findings = vec![probe_credentials(task), probe_certificates(task)];
        findings.push(probe_names(host_names));
        findings.extend(probe_release_and_platform(task)?);
        findings.push(probe_room(jobs));
        for finding in &mut findings {
            finding.detail = task.without_secrets(&finding.detail);
        }
        Ok(findings)
    });
    findings.unwrap_or_else(|error| vec![Finding::failed("trial", error, "poolctl doctor")])
}

/// Asks a driver program by its verb `check` whether it could install the cluster of an order.
pub fn probe_program(
    jobs: &Path,
    order: JobOrder,
    inputs: &[(String, SecretValue)],
    program: &Path,
) -> Finding {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let next = format!("mend what it says, or see the documentation of {name}");
    let finding = trial::run_as_trial(jobs, order, inputs, |task| {
        let end = run_verb(task, program, CHECK)?;
        let result = read_result(task);
        let message = match result {
            Ok(result) => end.describe(program, result.message),
            Err(error) => return Ok(Finding::failed(CHECK, error, next.as_str())),
        };
        let detail = task.without_secrets(&message);
        Ok(match end.code {
            0 => Finding::ok(CHECK, detail),
            _ => Finding::failed(CHECK, detail, next.as_str()),
        })
    });
    finding.unwrap_or_else(|error| Finding::failed(CHECK, error, next.as_str()))
}

/// Whether the credentials can be given to the installer. Whether the platform takes them is seen
/// when it is asked.
fn probe_credentials(task: &Task) -> Finding {
    let step = "credentials";
    let next = "poolctl secret create NAME --from-file=KEY=FILE";
    let entries = fs::read_dir(task.job_folder.input_path("credentials"));
    let count = entries.into_iter().flatten().flatten().count();
    match credentials::installer_environment(task) {
        Err(error) => Finding::failed(step, error, next),
        Ok(_) if count == 0 => Finding::skipped(step, "the platform names none"),
        Ok(_) => Finding::ok(step, format!("{count} keys can be given to the installer")),
    }
}

/// Whether what is given as certificates can be read as certificates.
fn probe_certificates(task: &Task) -> Finding {
    let step = "certificates";
    let mut count = 0;
    let folder = task.job_folder.input_path(CERTIFICATES);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let key = entry.file_name().to_string_lossy().into_owned();
        match read_certificates(&entry.path()) {
            Ok(read_count) => count += read_count,
            Err(error) => {
                let next = "put PEM certificates alone into the Secret of certificatesSecretRef";
                return Finding::failed(step, format!("key `{key}`: {error}"), next);
            }
        }
    }
    if count == 0 {
        return Finding::skipped(step, "the platform names none: those of the system count");
    }
    Finding::ok(step, format!("{count} certificates can be read"))
}

/// How many certificates a file has; each of them can serve as an authority.
fn read_certificates(path: &Path) -> Result<usize, String> {
    let pem = read_regular_file(path).map_err(|error| error.to_string())?;
    let mut authorities = RootCertStore::empty();
    for read in CertificateDer::pem_slice_iter(&pem) {
        let certificate = read.map_err(|error| format!("it is not PEM: {error}"))?;
        authorities
            .add(certificate)
            .map_err(|error| format!("a certificate cannot be used: {error}"))?;
    }
    if authorities.is_empty() {
        Err("it has no certificate".to_owned())
    } else {
        Ok(authorities.len())
    }
}

/// Whether names can be resolved.
fn probe_names(host_names: &[String]) -> Finding {
    let step = "DNS names";
    let mut unresolved = Vec::new();
    for name in host_names {
        if let Err(error) = resolve(name) {
            unresolved.push(format!("{name}: {error}"));
        }
    }
    if host_names.is_empty() {
        Finding::skipped(step, "the pool names no host")
    } else if unresolved.is_empty() {
        Finding::ok(step, format!("{} can be resolved", host_names.join(", ")))
    } else {
        let next = "mend the name in the pool, or the resolver of this machine (/etc/resolv.conf)";
        Finding::failed(step, unresolved.join("; "), next)
    }
}

/// Resolves a name as programs do. The resolver of the system may take long, so it is not waited
/// for to the end.
fn resolve(host_name: &str) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    let address = (host_name.to_owned(), 443);
    std::thread::spawn(move || {
        let resolved = address.to_socket_addrs().map(drop).map_err(|error| error.to_string());
        // Nobody may wait any more.
        drop(sender.send(resolved));
    });
    let seconds = RESOLVE_TIMEOUT.as_secs();
    receiver
        .recv_timeout(RESOLVE_TIMEOUT)
        .unwrap_or_else(|_| Err(format!("no answer within {seconds} s")))
}

/// Whether there is an installer of the release, and whether the platform takes what it would be
/// asked for: `create manifests` asks every platform, and makes nothing.
fn probe_release_and_platform(task: &mut Task) -> Result<Vec<Finding>, Stopped> {
    let step = "platform";
    let installer = match release::find_installer(task)? {
        Ok(installer) => installer,
        Err(error) => {
            let next = "name openshift-install or oc in programs of the Settings";
            return Ok(vec![
                Finding::failed("release", error, next),
                Finding::skipped(step, "without an installer the platform is not asked"),
            ]);
        }
    };
    let release = format!("{} installs {}", installer.program.display(), task.order.release_image);
    let mut findings = vec![Finding::ok("release", release)];
    if task.order.driver == Driver::Agent {
        findings.push(Finding::skipped(step, "hosts are asked when they are bound to a cluster"));
        return Ok(findings);
    }
    let work = task.job_folder.file_path("work");
    let written = write_install_config(task, &work);
    let environment = written.and_then(|()| credentials::installer_environment(task));
    let prepared =
        environment.and_then(|environment| Installer::prepare(task, installer, work, environment));
    let installer = match prepared {
        Ok(installer) => installer,
        Err(error) => {
            let next = "mend the install-config template or the credentials of the pool";
            findings.push(Finding::failed(step, error, next));
            return Ok(findings);
        }
    };
    let end = installer.run_step(task, &["create", "manifests"], Counterpart::Platform)?;
    findings.push(if end.code == 0 {
        Finding::ok(step, "it takes the install-config of the next cluster")
    } else {
        let message = ending_before_creation(task, &end).message;
        let next = "mend the platform or the pool, then poolctl driver check again";
        Finding::failed(step, message, next)
    });
    Ok(findings)
}

/// Whether images can be kept beside the state, and whether there is room for them.
fn probe_room(jobs: &Path) -> Finding {
    let step = "image cache";
    let folder = jobs.parent().unwrap_or(jobs);
    let shown = folder.display();
    if let Err(error) = access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        let next = format!("give the account of poolctl the right to write to {shown}");
        return Finding::failed(step, format!("`{shown}` cannot be written: {error}"), next);
    }
    let free_bytes = match statvfs(folder) {
        Ok(file_system) => file_system.f_bavail.saturating_mul(file_system.f_frsize),
        Err(error) => return Finding::skipped(step, format!("`{shown}`: {error}")),
    };
    let detail = format!("{} MiB are free in `{shown}`", free_bytes >> 20);
    if free_bytes < IMAGE_BYTES {
        let next = format!("free {} MiB there", IMAGE_BYTES >> 20);
        return Finding::failed(step, detail, next);
    }
    Finding::ok(step, detail)
}
