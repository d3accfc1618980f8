//! Installs and destroys clusters by openshift-install. Each attempt has a fresh folder, and what
//! is needed to destroy a cluster is saved before anything of it exists. Never makes or removes
//! infrastructure by itself.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::model::customization::{ADDED_MANIFESTS, ManifestPatch};
use crate::model::failure::FailureClass;
use crate::model::hash::sha256;
use crate::model::job::Verb;
use crate::model::order::JobEnding;
use crate::render::manifests;
use crate::render::patch::PatchRules;
use crate::yaml;

use super::classify::{Cause, Counterpart, FailedStep};
use super::release::ReleaseInstaller;
use super::task::{Stopped, Task};
use super::{classify, credentials, evidence, kube, log, power, release, site};

/// What openshift-install leaves in `auth/` for those who use the cluster.
const AUTH_FILES: [&str; 2] = ["kubeconfig", "kubeadmin-password"];
/// Logged errors of a step that are looked at.
const ERRORS: usize = 200;
/// Letters of a logged error that are repeated.
const ERROR_LETTERS: usize = 300;
/// The exit code of an installation whose bootstrap did not complete.
const BOOTSTRAP_FAILED: i32 = 5;
/// The variable with the release that an installer installs in the place of its own.
const RELEASE_OVERRIDE: &str = "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE";

/// Runs the verb of a task on a cluster whose infrastructure the installer makes.
pub fn run(task: &mut Task) -> Result<JobEnding, Stopped> {
    match task.order.verb {
        Verb::Provision => provision(task),
        Verb::Deprovision => destroy_cluster(task),
        Verb::Start | Verb::Stop => power::switch_machines(task),
        Verb::Health => power::check_health(task),
        Verb::AddNodes
        | Verb::Cycle
        | Verb::State
        | Verb::Attach
        | Verb::Eject
        | Verb::Inspect
        | Verb::Wipe => Ok(task.refuse_verb()),
    }
}

/// openshift-install, with the folder that it works in and its environment.
pub struct Installer {
    pub program: PathBuf,
    pub work: PathBuf,
    pub environment: BTreeMap<String, String>,
}

impl Installer {
    /// The installer of the order's release, in a folder that has its documents, with the
    /// environment of its cluster. Documents of an older one get the names that it knows. The error
    /// is for people.
    pub fn prepare(
        task: &Task,
        release_installer: ReleaseInstaller,
        work: PathBuf,
        mut environment: BTreeMap<String, String>,
    ) -> Result<Self, String> {
        if let Some(release_image) = release_installer.release_override(&task.order.release_image) {
            environment.insert(RELEASE_OVERRIDE.to_owned(), release_image.to_owned());
        }
        if release_installer.has_content_sources() && !task.order.site.mirrors.is_empty() {
            rename_image_sources(&work).map_err(|error| format!("install-config.yaml: {error}"))?;
        }
        Ok(Self { program: release_installer.program, work, environment })
    }

    /// Runs a step of an installation, and returns how it ended.
    pub fn run_step(
        &self,
        task: &mut Task,
        command: &[&str],
        counterpart: Counterpart,
    ) -> Result<StepEnd, Stopped> {
        let log_start = log::logged_bytes(task.job_folder.path());
        let code = self.run(task, command)?;
        Ok(StepEnd { step: command.join(" "), code, counterpart, log_start })
    }

    /// Runs a command of it in its folder, and returns the exit code.
    pub fn run(&self, task: &mut Task, command: &[&str]) -> Result<i32, Stopped> {
        let mut arguments = command.to_vec();
        arguments.extend(["--dir", "."]);
        task.run_program(&self.program, &arguments, &self.work, &self.environment)
    }
}

/// How a step ended.
pub struct StepEnd {
    /// The command of the installer, such as `create cluster`.
    step: String,
    pub code: i32,
    counterpart: Counterpart,
    /// Bytes of the job's log that come before the step.
    log_start: u64,
}

/// Gives the mirrors in an install-config the name that installers before 4.14 have for them.
fn rename_image_sources(work: &Path) -> Result<(), String> {
    let path = work.join("install-config.yaml");
    // Whoever destroys a cluster has no install-config.
    let Ok(install_config) = fs::read_to_string(&path) else { return Ok(()) };
    let mut document = yaml::parse_value(&install_config).map_err(|error| error.to_string())?;
    if let Some(fields) = document.as_object_mut()
        && let Some(sources) = fields.remove("imageDigestSources")
    {
        fields.insert("imageContentSources".to_owned(), sources);
    }
    let install_config = yaml::to_text(&document).map_err(|error| error.to_string())?;
    fs::write(path, install_config).map_err(|error| error.to_string())
}

/// Installs a cluster by openshift-install, step by step. What the steps before `create cluster`
/// make lies in the job's folder only; the metadata is saved before anything is created outside of
/// it.
fn provision(task: &mut Task) -> Result<JobEnding, Stopped> {
    let work = task.job_folder.file_path("work");
    if let Err(error) = write_install_config(task, &work) {
        return Ok(refuse_input(task, error));
    }
    if let Some(problem) = credentials::find_missing_credential(task) {
        let message = format!("the Secret with the credentials of the platform: {problem}");
        return Ok(JobEnding::failed_early(FailureClass::SetupMissing, message));
    }
    let environment = match site::make_cache_directory(task)
        .and_then(|()| credentials::installer_environment(task))
    {
        Ok(environment) => environment,
        Err(error) => return Ok(JobEnding::failed_early(FailureClass::SetupMissing, error)),
    };
    let release_installer = match release::find_installer(task)? {
        Ok(release_installer) => release_installer,
        Err(error) => return Ok(JobEnding::failed_early(FailureClass::SetupMissing, error)),
    };
    let installer = match Installer::prepare(task, release_installer, work, environment) {
        Ok(installer) => installer,
        Err(error) => return Ok(refuse_input(task, error)),
    };
    for document in ["manifests", "ignition-configs"] {
        let end = installer.run_step(task, &["create", document], Counterpart::Platform)?;
        if end.code != 0 {
            return Ok(ending_before_creation(task, &end));
        }
        if document == "manifests"
            && let Err(error) = add_manifests(task, &installer.work)
                .and_then(|()| patch_manifests(task, &installer.work, &task.order.manifest_patches))
        {
            return Ok(refuse_input(task, error));
        }
    }
    // From here on the cluster can be destroyed, whatever happens.
    let metadata = save_installation(task, &installer.work)?;
    if metadata["infraID"].as_str().is_none_or(str::is_empty) {
        let message = "the installer wrote no metadata.json; poolctl creates no cluster without it";
        return Ok(JobEnding::failed_early(FailureClass::Unclear, message));
    }
    if let Some(ending) = create_cluster(task, &installer)? {
        return Ok(ending);
    }
    save_installation(task, &installer.work)?;
    let kubeconfig = task.job_folder.saved_path("kubeconfig");
    kube::save_nodes(task, &kubeconfig)?;
    Ok(JobEnding {
        infra_id: metadata["infraID"].as_str().unwrap_or_default().to_owned(),
        cluster_id: metadata["clusterID"].as_str().unwrap_or_default().to_owned(),
        ..JobEnding::success()
    })
}

/// Makes the infrastructure and waits for the cluster. Returns how the job ends if that fails. What
/// took too long may be over after all, but nobody waits for a cluster without a bootstrap.
fn create_cluster(task: &mut Task, installer: &Installer) -> Result<Option<JobEnding>, Stopped> {
    let created = installer.run_step(task, &["create", "cluster"], Counterpart::Platform)?;
    if created.code == 0 {
        return Ok(None);
    }
    let ending = ending_of_failed_step(task, &created);
    if created.code == BOOTSTRAP_FAILED {
        let Installer { program, work, environment } = installer;
        evidence::gather_bootstrap(task, program, work, environment);
    }
    if ending.class != FailureClass::OperatorsNotReady {
        return Ok(Some(ending));
    }
    let command = ["wait-for", "install-complete"];
    let waited = installer.run_step(task, &command, Counterpart::Cluster)?;
    if waited.code == 0 {
        return Ok(None);
    }
    let symptom = find_cause_of_step(task, &waited).error.map(|error| shorten(&error));
    Ok(Some(match symptom {
        Some(symptom) if !ending.message.contains(&symptom) => {
            let message = format!("{}; then {}: {symptom}", ending.message, waited.step);
            JobEnding { message, ..ending }
        }
        _ => ending,
    }))
}

/// How a job ends whose cluster cannot be installed as it is described: another attempt would be
/// refused as well.
pub fn refuse_input(task: &Task, error: impl Into<String>) -> JobEnding {
    JobEnding {
        hopeless: true,
        input: Some(digest_input(task)),
        ..JobEnding::failed_early(FailureClass::InputWrong, error)
    }
}

/// A digest of what a cluster is installed from: its install-config and agent-config, the patches
/// of its manifests, and the release.
fn digest_input(task: &Task) -> String {
    let mut input = format!("{} {:?}", task.order.release_image, task.order.manifest_patches);
    for name in ["install-config.yaml", "agent-config.yaml"] {
        input += &fs::read_to_string(task.job_folder.input_path(name)).unwrap_or_default();
    }
    sha256(input.as_bytes())
}

/// Writes install-config.yaml for the installer, with the secrets that it reads there. The
/// installer removes the file; the one in our inputs stays. The error is for people.
pub fn write_install_config(task: &Task, work: &Path) -> Result<(), String> {
    read_completed_config(task)
        .and_then(|install_config| {
            fs::write(work.join("install-config.yaml"), install_config)
                .map_err(|error| error.to_string())
        })
        .map_err(|error| format!("install-config.yaml: {error}"))
}

fn read_completed_config(task: &Task) -> Result<String, String> {
    let template = fs::read_to_string(task.job_folder.input_path("install-config.yaml"))
        .map_err(|error| error.to_string())?;
    let mut document = yaml::parse_value(&template).map_err(|error| error.to_string())?;
    credentials::complete_install_config(task, &mut document);
    yaml::to_text(&document).map_err(|error| error.to_string())
}

/// Adds the manifests that the cluster brings along to those of the installer. The error is for
/// people.
pub fn add_manifests(task: &Task, work: &Path) -> Result<(), String> {
    let folder = work.join(ADDED_MANIFESTS);
    for entry in fs::read_dir(task.job_folder.input_path("manifests")).into_iter().flatten() {
        entry
            .and_then(|entry| {
                fs::create_dir_all(&folder)?;
                fs::copy(entry.path(), folder.join(entry.file_name()))
            })
            .map_err(|error| format!("manifests of the cluster: {error}"))?;
    }
    Ok(())
}

/// Applies patches to the manifests in the installer's folder. The error is for people: then no
/// manifest was changed.
pub fn patch_manifests(
    task: &Task,
    work: &Path,
    manifest_patches: &[ManifestPatch],
) -> Result<(), String> {
    if manifest_patches.is_empty() {
        return Ok(());
    }
    let original = read_manifests(work).map_err(|error| error.to_string())?;
    let rules = PatchRules { strict: task.order.strict_patches, allowed: None };
    let patched = manifests::patch_manifests(&original, manifest_patches, rules)?;
    for (path, document) in &patched {
        if original.get(path) != Some(document) {
            let manifest = yaml::to_text(document).map_err(|error| format!("{path}: {error}"))?;
            fs::write(work.join(path), manifest).map_err(|error| format!("{path}: {error}"))?;
        }
    }
    Ok(())
}

/// The manifests in the installer's folder, by their paths below it. Files that are not YAML are
/// left out: they cannot be patched.
fn read_manifests(work: &Path) -> io::Result<BTreeMap<String, Value>> {
    let mut manifests = BTreeMap::new();
    for folder in ["manifests", "openshift"] {
        for entry in fs::read_dir(work.join(folder)).into_iter().flatten() {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
                let manifest = fs::read_to_string(entry.path())?;
                if let Ok(document) = yaml::parse_value(&manifest) {
                    manifests.insert(path, document);
                }
            }
        }
    }
    Ok(manifests)
}

/// Saves what is needed to destroy the cluster and to use it, as far as it is there. Returns the
/// cluster's metadata, or null if there is none.
pub fn save_installation(task: &mut Task, work: &Path) -> Result<Value, Stopped> {
    let mut metadata = Value::Null;
    if let Ok(bytes) = fs::read(work.join("metadata.json")) {
        task.job_folder.write_file("saved/metadata.json", &bytes)?;
        metadata = serde_json::from_slice(&bytes).unwrap_or_default();
    }
    for name in AUTH_FILES {
        if let Ok(bytes) = fs::read(work.join("auth").join(name)) {
            task.job_folder.write_file(&format!("saved/{name}"), &bytes)?;
        }
    }
    Ok(metadata)
}

/// Destroys a cluster. The installer needs nothing but its metadata.json; if none was ever written,
/// nothing was made.
fn destroy_cluster(task: &mut Task) -> Result<JobEnding, Stopped> {
    let work = task.job_folder.file_path("work");
    let json = match fs::read_to_string(task.job_folder.input_path("metadata.json")) {
        Ok(json) => json,
        Err(error) => {
            // A cluster with an infraID was begun, so its metadata must not be missing: whoever
            // forgot it would leave machines behind.
            let was_given = task.order.inputs.iter().any(|name| name == "metadata.json");
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            if was_given || !is_missing || !task.order.infra_id.is_empty() {
                return Ok(refuse_metadata(task, &error.to_string()));
            }
            task.log_line("no metadata.json was ever written: there is nothing to destroy");
            return Ok(JobEnding::success());
        }
    };
    let mut metadata = match serde_json::from_str::<Map<String, Value>>(&json) {
        Ok(metadata) => Value::Object(metadata),
        Err(error) => return Ok(refuse_metadata(task, &error.to_string())),
    };
    credentials::complete_metadata(task, &mut metadata);
    fs::write(work.join("metadata.json"), metadata.to_string())?;
    let environment = match credentials::installer_environment(task) {
        Ok(environment) => environment,
        Err(error) => return Ok(JobEnding::failed_as(FailureClass::SetupMissing, error)),
    };
    let release_installer = match release::find_installer(task)? {
        Ok(release_installer) => release_installer,
        Err(error) => return Ok(JobEnding::failed_as(FailureClass::SetupMissing, error)),
    };
    let installer = match Installer::prepare(task, release_installer, work, environment) {
        Ok(installer) => installer,
        Err(error) => return Ok(JobEnding::failed(error)),
    };
    let end = installer.run_step(task, &["destroy", "cluster"], Counterpart::Platform)?;
    if end.code != 0 {
        return Ok(ending_of_failed_step(task, &end));
    }
    Ok(JobEnding::success())
}

/// How a deprovision job ends without a metadata.json that the installer can read: only a person
/// can find out what there is to destroy.
fn refuse_metadata(task: &Task, why: &str) -> JobEnding {
    let infrastructure = match task.order.infra_id.as_str() {
        "" => "nobody knows the ID of its infrastructure".to_owned(),
        infra_id => format!("its infrastructure has the ID {infra_id}"),
    };
    JobEnding::hopeless(format!(
        "openshift-install cannot destroy the cluster, because its metadata.json cannot be read \
         ({why}); {infrastructure}"
    ))
}

/// How a job ends if a step fails before anything exists, whatever its exit code.
pub fn ending_before_creation(task: &Task, end: &StepEnd) -> JobEnding {
    JobEnding { nothing_made: true, ..ending_of_failed_step(task, end) }
}

/// How a job ends if a step of openshift-install fails. With the code 3 it has not begun to make
/// anything.
pub fn ending_of_failed_step(task: &Task, end: &StepEnd) -> JobEnding {
    let Cause { class, error } = find_cause_of_step(task, end);
    let reason = classify::describe(class, end.code);
    let mut message = format!("{}: {reason} (exit code {})", end.step, end.code);
    if let Some(error) = error {
        message += ": ";
        message += &shorten(&error);
    }
    JobEnding {
        nothing_made: task.order.verb == Verb::Provision && end.code == 3,
        input: (class == FailureClass::InputWrong).then(|| digest_input(task)),
        ..JobEnding::failed_as(class, message)
    }
}

fn find_cause_of_step(task: &Task, end: &StepEnd) -> Cause {
    let order = &task.order;
    classify::find_cause(&FailedStep {
        code: end.code,
        counterpart: end.counterpart,
        errors: &read_errors(task.job_folder.path(), end.log_start),
        cluster_api: &format!("api.{}.{}", order.cluster_name, order.base_domain),
    })
}

/// The messages of the first errors in a job's log behind a position, in bytes.
fn read_errors(folder: &Path, log_start: u64) -> Vec<String> {
    let mut errors = Vec::new();
    for piece in log::read_pieces(folder, log_start) {
        for line in piece.text.lines() {
            let is_error = line.contains("level=error") || line.contains("level=fatal");
            if is_error && errors.len() < ERRORS {
                let message = line.split_once("msg=").map_or(line, |(_, message)| message);
                errors.push(message.trim_matches('"').replace("\\\"", "\""));
            }
        }
    }
    errors
}

fn shorten(error: &str) -> String {
    error.chars().take(ERROR_LETTERS).collect()
}
