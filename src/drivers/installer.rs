//! openshift-install: a fresh folder for each attempt, and what is needed to destroy a cluster
//! kept before anything of it exists.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::model::job::Verb;
use crate::model::order::{Ending, Verdict};
use crate::render::manifests;
use crate::render::patch::Rules;
use crate::yaml;

use super::task::{Stopped, Task};
use super::{credentials, kube, log, power, release};

/// What an installation leaves below `auth/`.
const AUTH: [&str; 2] = ["kubeconfig", "kubeadmin-password"];

pub fn run(task: &mut Task) -> Result<Ending, Stopped> {
    match task.order.verb {
        Verb::Provision => provision(task),
        Verb::Deprovision => destroy(task),
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

fn provision(task: &mut Task) -> Result<Ending, Stopped> {
    let work = task.job_folder.file_path("work");
    if let Err(why) = write_install_config(task, &work) {
        return Ok(Ending::hopeless(why));
    }
    let environment = match credentials::installer_environment(task) {
        Ok(found) => found,
        Err(why) => return Ok(Ending::hopeless(why)),
    };
    let installer = match release::find_installer(task)? {
        Ok(path) => path,
        Err(why) => return Ok(Ending::new(Verdict::Later, why)),
    };
    let step = |task: &mut Task, arguments: &[&str]| {
        task.run_program(&installer, arguments, &work, &environment)
    };
    for create in ["manifests", "ignition-configs"] {
        let code = step(task, &["create", create, "--dir", "."])?;
        if code != 0 {
            return Ok(ending_before_creation(task, &format!("create {create}"), code));
        }
        if create == "manifests"
            && let Err(why) = patch_manifests(task, &work)
        {
            return Ok(Ending::hopeless(why));
        }
    }
    // From here on it can be destroyed, whatever happens.
    let metadata = save_installation(task, &work)?;
    if metadata["infraID"].as_str().is_none_or(str::is_empty) {
        let why = "the installer wrote no metadata.json: nothing is made without";
        return Ok(Ending::new(Verdict::NothingMade, why));
    }
    let code = step(task, &["create", "cluster", "--dir", "."])?;
    if code != 0 {
        // What took too long may be over after all.
        let again = if code == 3 {
            code
        } else {
            step(task, &["wait-for", "install-complete", "--dir", "."])?
        };
        if again != 0 {
            return Ok(ending_of_failed_step(task, "create cluster", code));
        }
    }
    save_installation(task, &work)?;
    let kubeconfig = task.job_folder.saved_path("kubeconfig");
    kube::save_nodes(task, &kubeconfig)?;
    let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
    Ok(Ending { infra_id: text("infraID"), cluster_id: text("clusterID"), ..Ending::done() })
}

/// install-config.yaml for the installer, with the secrets that it takes from there. It removes
/// the file; ours stays.
pub fn write_install_config(task: &Task, work: &Path) -> Result<(), String> {
    let wrong = |why: &dyn std::fmt::Display| format!("install-config.yaml: {why}");
    let text = fs::read_to_string(task.job_folder.input_path("install-config.yaml"));
    let text = text.map_err(|error| wrong(&error))?;
    let mut document = yaml::value(&text).map_err(|error| wrong(&error))?;
    credentials::complete_install_config(task, &mut document);
    let text = yaml::text(&document).map_err(|error| wrong(&error))?;
    fs::write(work.join("install-config.yaml"), text).map_err(|error| wrong(&error))
}

fn patch_manifests(task: &mut Task, work: &Path) -> Result<(), String> {
    if task.order.manifest_patches.is_empty() {
        return Ok(());
    }
    let before = manifests_of(work).map_err(|error| error.to_string())?;
    let rules = Rules { strict: task.order.strict_patches, allowed: None };
    let after = manifests::patched(&before, &task.order.manifest_patches, rules)?;
    for (path, document) in after.iter().filter(|(path, one)| before.get(*path) != Some(one)) {
        let text = yaml::text(document).map_err(|error| format!("{path}: {error}"))?;
        fs::write(work.join(path), text).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

fn manifests_of(work: &Path) -> io::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for folder in ["manifests", "openshift"] {
        for entry in fs::read_dir(work.join(folder)).into_iter().flatten() {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                let text = fs::read_to_string(entry.path())?;
                // What is no YAML cannot be patched.
                found.extend(yaml::value(&text).ok().map(|document| (name, document)));
            }
        }
    }
    Ok(found)
}

/// Keeps what destroying the cluster, and using it, needs. Returns its metadata.
pub fn save_installation(task: &mut Task, work: &Path) -> Result<Value, Stopped> {
    let files = [("metadata.json".to_owned(), work.join("metadata.json"))];
    let auth = AUTH.map(|name| (name.to_owned(), work.join("auth").join(name)));
    let mut metadata = Value::Null;
    for (name, path) in files.into_iter().chain(auth) {
        let Ok(bytes) = fs::read(path) else { continue };
        task.job_folder.write_file(&format!("saved/{name}"), &bytes)?;
        if name == "metadata.json" {
            metadata = serde_json::from_slice(&bytes).unwrap_or_default();
        }
    }
    Ok(metadata)
}

/// From metadata.json alone; without it nothing was made.
fn destroy(task: &mut Task) -> Result<Ending, Stopped> {
    let work = task.job_folder.file_path("work");
    let text = match fs::read_to_string(task.job_folder.input_path("metadata.json")) {
        Ok(text) => text,
        Err(error) => {
            let given = task.order.inputs.iter().any(|one| one == "metadata.json");
            if given || error.kind() != io::ErrorKind::NotFound || !task.order.infra_id.is_empty() {
                return Ok(Ending::failed(format!("metadata.json: {error}")));
            }
            task.log_line("no metadata.json was ever written: there is nothing to destroy");
            return Ok(Ending::done());
        }
    };
    let mut metadata: Value = match serde_json::from_str(&text) {
        Ok(found) => found,
        Err(error) => return Ok(Ending::failed(format!("metadata.json: {error}"))),
    };
    credentials::complete_metadata(task, &mut metadata);
    fs::write(work.join("metadata.json"), metadata.to_string())?;
    let environment = match credentials::installer_environment(task) {
        Ok(found) => found,
        Err(why) => return Ok(Ending::failed(why)),
    };
    let installer: PathBuf = match release::find_installer(task)? {
        Ok(path) => path,
        Err(why) => return Ok(Ending::failed(why)),
    };
    let code =
        task.run_program(&installer, &["destroy", "cluster", "--dir", "."], &work, &environment)?;
    Ok(if code == 0 {
        Ending::done()
    } else {
        ending_of_failed_step(task, "destroy cluster", code)
    })
}

/// A step that comes before anything exists, whatever its exit code.
pub fn ending_before_creation(task: &Task, step: &str, code: i32) -> Ending {
    Ending { verdict: Verdict::NothingMade, ..ending_of_failed_step(task, step, code) }
}

/// The exit codes that openshift-install documents; others may come. It ends with 3 when it has not
/// begun to make anything: because the install-config is not valid, and also because the platform
/// could not be asked whether it is.
pub fn ending_of_failed_step(task: &Task, step: &str, code: i32) -> Ending {
    let why = match code {
        3 => "the install-config is not valid, or the platform could not be reached",
        4 => "the infrastructure could not be made",
        5 => "the bootstrap failed",
        6 => "the installation failed: operators did not come up",
        7 => "operators did not become stable",
        8 => "it was interrupted",
        _ => "it failed",
    };
    let last = last_error(task.job_folder.path());
    let said = last.map(|line| format!(": {line}")).unwrap_or_default();
    let made = task.order.verb != Verb::Provision || code != 3;
    let verdict = if made { Verdict::Failed } else { Verdict::NothingMade };
    Ending::new(verdict, format!("{step}: {why} (exit code {code}){said}"))
}

/// The last line of a job's log that says what went wrong.
fn last_error(folder: &Path) -> Option<String> {
    let mut last: Option<String> = None;
    for piece in log::pieces(folder, 0) {
        let mut lines = piece.text.lines().rev();
        let line = lines.find(|line| line.contains("level=error") || line.contains("level=fatal"));
        last = line.map(str::to_owned).or(last);
    }
    let line = last?;
    let said = line.split_once("msg=").map_or(&*line, |(_, said)| said).trim_matches('"');
    Some(said.chars().take(300).collect())
}
