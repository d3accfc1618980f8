//! Installs clusters by `openshift-install agent`: one image is made for all hosts of a cluster,
//! and the hosts install themselves from it. It is attached to those that have a controller; people
//! boot the others. Never makes a machine.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::model::customization::ADDED_MANIFESTS;
use crate::model::failure::FailureClass;
use crate::model::job::Verb;
use crate::model::order::JobEnding;
use crate::render::agent_config;
use crate::yaml;

use super::classify::Counterpart;
use super::image::{PublishedImage, find_image, publish_image};
use super::installer::{
    Installer, StepEnd, add_manifests, ending_before_creation, ending_of_failed_step,
    patch_manifests, refuse_input, save_installation, write_install_config,
};
use super::job_folder::{BOOT_IMAGE, HANDS_OVER};
use super::release::ReleaseInstaller;
use super::task::{Stopped, Task};
use super::{add_nodes, credentials, kube, machines, power, release, site};

/// Runs the verb of a task on a cluster that its hosts install themselves.
pub fn run(task: &mut Task) -> Result<JobEnding, Stopped> {
    match task.order.verb {
        Verb::Provision => provision(task),
        Verb::Deprovision => release_hosts(task),
        Verb::AddNodes => add_nodes::run(task),
        Verb::Start | Verb::Stop => power::switch_machines(task),
        Verb::Health => power::check_health(task),
        Verb::Cycle | Verb::State | Verb::Attach | Verb::Eject | Verb::Inspect | Verb::Wipe => {
            Ok(task.refuse_verb())
        }
    }
}

/// Installs a cluster by the agent-based installer: makes the image, boots the hosts from it, and
/// waits until the cluster is installed. metadata.json is saved before any host is booted, so that
/// whatever was begun can be taken back.
fn provision(task: &mut Task) -> Result<JobEnding, Stopped> {
    let work = task.job_folder.file_path("work");
    if let Err(error) = write_documents(task, &work).and_then(|()| write_manifests(task, &work)) {
        return Ok(refuse_input(task, error));
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
    let wanted_image = choose_image(task, &release_installer);
    let installer = match Installer::prepare(task, release_installer, work, environment) {
        Ok(installer) => installer,
        Err(error) => return Ok(refuse_input(task, error)),
    };
    let (image, end) = create_image(task, &installer, wanted_image)?;
    if end.code != 0 {
        return Ok(ending_before_creation(task, &end));
    }
    let infra_id = task.order.cluster_name.clone();
    let metadata = json!({"clusterName": infra_id, "infraID": infra_id, "agent": {}});
    fs::write(installer.work.join("metadata.json"), metadata.to_string())?;
    save_installation(task, &installer.work)?;
    // Controllers can fetch the image until the installation is over.
    let mut published = None;
    let mut host_reports = Vec::new();
    if image == ClusterImage::Configuration {
        task.log_line("the hosts are handed the configuration of the cluster where they stand");
        task.job_folder.write_file(HANDS_OVER, b"")?;
    } else {
        let booted = match boot_hosts(task, &installer.work, &mut published)? {
            booted if booted.is_success() => booted,
            ending => return Ok(ending),
        };
        host_reports = booted.hosts;
    }
    if let Some(ending) = await_installation(task, &installer)? {
        return Ok(ending);
    }
    save_installation(task, &installer.work)?;
    let ejected = machines::run_verb(task, Verb::Eject)?;
    host_reports.extend(ejected.hosts);
    let kubeconfig = task.job_folder.saved_path("kubeconfig");
    kube::save_nodes(task, &kubeconfig)?;
    Ok(JobEnding { infra_id, hosts: host_reports, ..JobEnding::success() })
}

/// What is made for the hosts of a cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClusterImage {
    /// A live system, from which they are booted.
    Whole,
    /// Only the configuration of the cluster, for hosts that wait for it.
    Configuration,
}

impl ClusterImage {
    /// The word that openshift-install has for it.
    fn name(self) -> &'static str {
        match self {
            Self::Whole => "image",
            Self::Configuration => "config-image",
        }
    }
}

/// Hosts get only the configuration if the installer of this very release waits on all of them.
/// Installers before 4.14 know no such image.
fn choose_image(task: &Task, installer: &ReleaseInstaller) -> ClusterImage {
    let is_awaited =
        task.order.waiting_release.as_ref().is_some_and(|host_release| {
            installer.installs(&task.order.release_image, host_release)
        });
    if is_awaited && !installer.has_content_sources() {
        ClusterImage::Configuration
    } else {
        ClusterImage::Whole
    }
}

/// Makes the image, or the whole one if the installer cannot make only the configuration. Returns
/// which it tried last, and how that ended.
fn create_image(
    task: &mut Task,
    installer: &Installer,
    wanted_image: ClusterImage,
) -> Result<(ClusterImage, StepEnd), Stopped> {
    let command = ["agent", "create", wanted_image.name()];
    let end = installer.run_step(task, &command, Counterpart::Platform)?;
    if end.code == 0 || wanted_image == ClusterImage::Whole {
        return Ok((wanted_image, end));
    }
    // The installer may have removed what it has read.
    let work = &installer.work;
    if let Err(error) = write_documents(task, work).and_then(|()| write_manifests(task, work)) {
        task.log_line(&error);
        return Ok((wanted_image, end));
    }
    task.log_line("the hosts are booted from an image instead");
    let image = ClusterImage::Whole;
    let command = ["agent", "create", image.name()];
    Ok((image, installer.run_step(task, &command, Counterpart::Platform)?))
}

/// Publishes the image of a cluster, boots the hosts from it that have a controller, and names it
/// for people who boot the others. The caller keeps the image until the installation is over.
fn boot_hosts(
    task: &mut Task,
    work: &Path,
    published: &mut Option<PublishedImage>,
) -> Result<JobEnding, Stopped> {
    *published = match publish_image(task, work, "agent") {
        Ok(published) => published,
        Err(error) => return Ok(JobEnding::failed_early(FailureClass::SetupMissing, error)),
    };
    let booted = match published {
        Some(published) => machines::boot_from_image(task, &published.url)?,
        None => JobEnding::success(),
    };
    if booted.is_success() {
        name_image_for_people(task, published.as_ref(), work)?;
    }
    Ok(booted)
}

/// Writes down from which image people are to boot the hosts that have no controller.
fn name_image_for_people(
    task: &mut Task,
    published: Option<&PublishedImage>,
    work: &Path,
) -> Result<(), Stopped> {
    let image = match published {
        Some(published) => published.url.clone(),
        None => find_image(work, "agent")?.unwrap_or_default().display().to_string(),
    };
    if published.is_none() {
        task.log_line(&format!("boot the hosts of this cluster from {image}"));
    }
    task.job_folder.write_file(BOOT_IMAGE, image.as_bytes())?;
    Ok(())
}

/// Waits until the hosts have installed themselves. Returns how the job ends if they have not.
fn await_installation(
    task: &mut Task,
    installer: &Installer,
) -> Result<Option<JobEnding>, Stopped> {
    for step in ["bootstrap-complete", "install-complete"] {
        let command = ["agent", "wait-for", step];
        let end = installer.run_step(task, &command, Counterpart::Cluster)?;
        if end.code != 0 {
            let ending = ending_of_failed_step(task, &end);
            let ejected = machines::run_verb(task, Verb::Eject)?;
            return Ok(Some(JobEnding { hosts: ejected.hosts, ..ending }));
        }
        // After the bootstrap all hosts have booted: nobody has to boot one any more.
        task.job_folder.write_file(BOOT_IMAGE, b"")?;
    }
    Ok(None)
}

/// Writes both documents for the installer, which removes them when it has read them. The error is
/// for people: what is wrong with a document is said before anything runs.
fn write_documents(task: &Task, work: &Path) -> Result<(), String> {
    write_install_config(task, work)?;
    let path = task.job_folder.input_path("agent-config.yaml");
    let agent_config =
        fs::read_to_string(path).map_err(|error| format!("agent-config.yaml: {error}"))?;
    fs::write(work.join("agent-config.yaml"), &agent_config).map_err(|error| error.to_string())?;
    let install_config =
        fs::read_to_string(work.join("install-config.yaml")).map_err(|error| error.to_string())?;
    let problems = agent_config::find_problems(&parse(&install_config)?, &parse(&agent_config)?);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// Writes the manifests that the cluster brings along, with its patches of them. The agent-based
/// installer makes no manifests that could be patched before it makes the image. The error is for
/// people.
fn write_manifests(task: &mut Task, work: &Path) -> Result<(), String> {
    add_manifests(task, work)?;
    let has_manifests = work.join(ADDED_MANIFESTS).is_dir();
    let mut patches = task.order.manifest_patches.clone();
    patches.retain(|patch| {
        let is_applicable = has_manifests && patch.is_of_added_manifests();
        if !is_applicable {
            let glob = &patch.manifest_selector.glob;
            task.log_line(&format!("the patch of `{glob}` has no effect: there is no manifest"));
        }
        is_applicable
    });
    patch_manifests(task, work, &patches)
}

fn parse(document: &str) -> Result<Value, String> {
    yaml::parse_value(document).map_err(|error| error.to_string())
}

/// Ejects the image from the hosts and powers them off. There is nothing else to destroy: nothing
/// was made outside of them.
fn release_hosts(task: &mut Task) -> Result<JobEnding, Stopped> {
    if let Some(folder) = &task.order.iso_directory {
        for job_id in &task.order.before {
            // An image that a crash has left behind.
            drop(fs::remove_dir_all(folder.join(job_id)));
        }
    }
    if task.order.machines.is_empty() {
        return Ok(JobEnding::success());
    }
    let ejected = machines::run_verb(task, Verb::Eject)?;
    let stopped = machines::run_verb(task, Verb::Stop)?;
    let hosts = [ejected.hosts, stopped.hosts.clone()].concat();
    Ok(JobEnding { hosts, ..stopped })
}
