//! Hands a host the configuration of its cluster, so that it is installed where it stands: the
//! installer of its discovery image waits for that. Starts no job and decides nothing.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::drivers::image::find_image;
use crate::drivers::job_folder::JobFolder;
use crate::model::agent::{Agent, HostState};
use crate::model::hash::sha256;
use crate::model::job::Verb;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::store::Store;

use crate::commands::Context;

/// The kind of the image, as openshift-install names its file.
const CONFIG_IMAGE: &str = "agentconfig";

/// The answer to a host that checks in: to install, if there is a configuration for it.
pub fn tell_to_install(
    context: &Context,
    store: &Store,
    agent_key: &Key,
    mut answer: Value,
) -> Result<Value, Refusal> {
    if answer["next"] == "none" && find_configuration(context, store, agent_key)?.is_some() {
        answer["next"] = "install".into();
    }
    Ok(answer)
}

/// The configuration for a host, in base64, with its SHA-256. Refused if there is none for it.
pub fn read_configuration(
    context: &Context,
    store: &Store,
    agent_key: &Key,
) -> Result<Value, Refusal> {
    let path = find_configuration(context, store, agent_key)?
        .ok_or_else(|| Refusal::conflict("there is no configuration for this host now"))?;
    let image = std::fs::read(&path)
        .map_err(|error| Refusal::invalid(format!("the configuration cannot be read: {error}")))?;
    Ok(json!({"next": "none", "after": 5, "sha256": sha256(&image),
              "image": STANDARD.encode(&image)}))
}

/// Whether the installation of a host waits for a configuration, as far as the host itself shows.
pub fn waits_for_configuration(agent: &Agent) -> bool {
    let has_begun = !agent.status.progress.current_stage.is_empty();
    agent.state() == HostState::PreparingForInstallation && !has_begun
}

/// The file with the configuration for a host. None if the job of its cluster hands over none, or if
/// the host has it already.
fn find_configuration(
    context: &Context,
    store: &Store,
    agent_key: &Key,
) -> Result<Option<PathBuf>, Refusal> {
    let Some(agent) = store.find::<Agent>(agent_key)? else { return Ok(None) };
    if !waits_for_configuration(&agent) {
        return Ok(None);
    }
    let Some(cluster_key) = agent.bound_cluster() else { return Ok(None) };
    let jobs_folder = context.door(store).jobs_folder();
    for job in store.jobs_of_object(&cluster_key.name)? {
        if job.ended.is_some() || job.verb != Verb::Provision {
            continue;
        }
        let job_folder = JobFolder::for_job(&jobs_folder, &job.id.to_string());
        if job_folder.hands_over_configuration() {
            // A job that is just ending has removed its files.
            return Ok(find_image(&job_folder.file_path("work"), CONFIG_IMAGE).unwrap_or_default());
        }
    }
    Ok(None)
}
