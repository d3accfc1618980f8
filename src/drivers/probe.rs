//! Tries what an installation of a pool needs, without making anything: the installer of its
//! release, its credentials, certificates, names and platform, and room for images. Whatever came
//! of it, the next step is tried, too, so that a person sees all that is to be mended.

mod names;

use std::fs;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::model::documents::SecretValue;
use crate::model::driver::Driver;
use crate::model::driver_description::CHECK;
use crate::model::failure::FailureClass;
use crate::model::order::JobOrder;

use super::classify::Counterpart;
use super::driver_program::{read_result, run_verb};
use super::files::read_regular_file;
use super::installer::{Installer, ending_before_creation, write_install_config};
use super::task::{Stopped, Task};
use super::{classify, credentials, release, site, trial};

/// The folder below `input/` with the certificates that a platform is to be trusted by.
pub const CERTIFICATES: &str = "platform-certificates";
/// The steps that start an installer.
const RELEASE: &str = "release";
const PLATFORM: &str = "platform";
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
    /// The word that tables and JSON have for it.
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
    /// A step that went well; `detail` says what was seen.
    pub fn ok(step: &str, detail: impl Into<String>) -> Self {
        Self::new(step, StepState::Ok, detail, "")
    }

    /// A step that was not tried; `detail` says why.
    pub fn skipped(step: &str, detail: impl Into<String>) -> Self {
        Self::new(step, StepState::Skipped, detail, "")
    }

    /// A step that failed: `detail` says why, and `next` is what to type.
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

    /// Whether the step was tried and did not go well. One that was skipped has not failed.
    pub fn has_failed(&self) -> bool {
        self.state == StepState::Failed
    }
}

/// What a pool names that is tried out.
pub struct PoolNames<'a> {
    /// Hosts of its platform, each as a name, an address or a URL.
    pub addresses: Vec<String>,
    /// The Secret with the credentials of its platform.
    pub credentials: Option<&'a str>,
    /// The Secret with the certificates of its platform.
    pub certificates: Option<&'a str>,
    /// What it names and is not there, for people. Then no installer is asked.
    pub missing: &'a [String],
}

/// Tries what openshift-install needs for the cluster of an order. `jobs` is the folder of all
/// jobs.
pub fn probe_installer(
    jobs: &Path,
    order: JobOrder,
    inputs: &[(String, SecretValue)],
    pool_names: &PoolNames<'_>,
) -> Vec<Finding> {
    let findings = trial::run_as_trial(jobs, order, inputs, |task| {
        let mut findings = vec![
            probe_credentials(task, pool_names.credentials),
            probe_certificates(task, pool_names.certificates),
            names::probe_names(task, &pool_names.addresses),
        ];
        if pool_names.missing.is_empty() {
            findings.extend(probe_release_and_platform(task)?);
        } else {
            for step in [RELEASE, PLATFORM] {
                findings.push(Finding::skipped(step, "what the pool names has to exist first"));
            }
        }
        findings.push(probe_room(task));
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

/// Whether the credentials are whole and can be given to the installer. Whether the platform takes
/// them is seen when it is asked.
fn probe_credentials(task: &Task, secret: Option<&str>) -> Finding {
    let step = "credentials";
    let Some(secret) = secret else {
        return Finding::skipped(step, "the platform names none");
    };
    let next = format!("poolctl secret create {secret} --from-file=KEY=FILE");
    let entries = fs::read_dir(task.job_folder.input_path("credentials"));
    let count = entries.into_iter().flatten().flatten().count();
    if count == 0 {
        let detail = format!("Secret `{secret}` does not exist, or has no keys");
        return Finding::failed(step, detail, next);
    }
    if let Some(problem) = credentials::find_missing_credential(task) {
        return Finding::failed(step, format!("Secret `{secret}`: {problem}"), next);
    }
    match credentials::installer_environment(task) {
        Err(error) => Finding::failed(step, error, next),
        Ok(_) if count == 1 => Finding::ok(step, "1 key can be given to the installer"),
        Ok(_) => Finding::ok(step, format!("{count} keys can be given to the installer")),
    }
}

/// Whether there are certificates in what is given as such, and each of them can be read. The Secret
/// may have keys for other purposes.
fn probe_certificates(task: &Task, secret: Option<&str>) -> Finding {
    let step = "certificates";
    let Some(secret) = secret else {
        return Finding::skipped(step, "the platform names none: those of the system count");
    };
    let next = format!("put PEM certificates into Secret {secret} (poolctl secret create)");
    let mut count = 0;
    let folder = task.job_folder.input_path(CERTIFICATES);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let key = entry.file_name().to_string_lossy().into_owned();
        match read_certificates(&entry.path()) {
            Ok(read_count) => count += read_count,
            Err(error) => {
                let detail = format!("Secret `{secret}`, key `{key}`: {error}");
                return Finding::failed(step, detail, next);
            }
        }
    }
    match count {
        0 => Finding::failed(step, format!("Secret `{secret}` has no certificate"), next),
        1 => Finding::ok(step, "1 certificate can be read"),
        _ => Finding::ok(step, format!("{count} certificates can be read")),
    }
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
    Ok(authorities.len())
}

/// Whether there is an installer of the release, and whether the platform takes what it would be
/// asked for: `create manifests` asks every platform, and makes nothing.
fn probe_release_and_platform(task: &mut Task) -> Result<Vec<Finding>, Stopped> {
    let installer = match release::find_installer(task)? {
        Ok(installer) => installer,
        Err(error) => {
            let next = remedy_for_release(&error);
            return Ok(vec![
                Finding::failed(RELEASE, error, next),
                Finding::skipped(PLATFORM, "without an installer the platform is not asked"),
            ]);
        }
    };
    let release = format!("{} installs {}", installer.program.display(), task.order.release_image);
    let mut findings = vec![Finding::ok(RELEASE, release)];
    if task.order.driver == Driver::Agent {
        findings
            .push(Finding::skipped(PLATFORM, "hosts are asked when they are bound to a cluster"));
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
            findings.push(Finding::failed(PLATFORM, error, next));
            return Ok(findings);
        }
    };
    let end = installer.run_step(task, &["create", "manifests"], Counterpart::Platform)?;
    findings.push(if end.code == 0 {
        Finding::ok(PLATFORM, "it takes the install-config of the next cluster")
    } else {
        let ending = ending_before_creation(task, &end);
        let next = remedy_for_platform(ending.class, &ending.message);
        Finding::failed(PLATFORM, ending.message, next)
    });
    Ok(findings)
}

/// What a person can do if there is no installer of the release.
fn remedy_for_release(error: &str) -> &'static str {
    match classify::class_of_words(error) {
        FailureClass::SetupMissing if classify::is_about_certificates(error) => {
            "put the authority of the registry into spec.site.trustBundle of the Settings"
        }
        FailureClass::SetupMissing => {
            "put a login for the registry into the pull secret of the pool, or into \
             spec.site.pullSecretRef of the Settings"
        }
        FailureClass::CloudAway => {
            "name a mirror or a proxy that this machine reaches in spec.site of the Settings"
        }
        _ => "name openshift-install or oc in programs of the Settings",
    }
}

/// What a person can do if the platform does not take the install-config of the next cluster.
fn remedy_for_platform(class: FailureClass, error: &str) -> &'static str {
    match class {
        FailureClass::SetupMissing if classify::is_about_certificates(error) => {
            "put the authority of the platform into the Secret of certificatesSecretRef"
        }
        FailureClass::SetupMissing => "mend the credentials of the pool's platform",
        FailureClass::CloudAway => {
            "mend the address of the platform in the pool, or the proxy in spec.site of the Settings"
        }
        FailureClass::Capacity => "make room on the platform",
        FailureClass::InputWrong => {
            "mend the platform or the install-config template of the pool (poolctl pool render)"
        }
        _ => "mend the platform or the pool, then poolctl driver check again",
    }
}

/// Whether images can be kept where the site says, and whether there is room for them.
fn probe_room(task: &Task) -> Finding {
    let step = "image cache";
    let folder = site::cache_directory(task);
    let shown = folder.display();
    if let Err(error) = fs::create_dir_all(&folder) {
        let next = "name another directory in spec.site.cacheDirectory of the Settings";
        return Finding::failed(step, format!("`{shown}` cannot be made: {error}"), next);
    }
    if let Err(error) = access(folder.as_path(), Access::WRITE_OK | Access::EXEC_OK) {
        let next = format!("give the account of poolctl the right to write to {shown}");
        return Finding::failed(step, format!("`{shown}` cannot be written: {error}"), next);
    }
    let free_bytes = match statvfs(folder.as_path()) {
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
