//! openshift-install agent: one image for all hosts of a cluster, attached to those that have a
//! controller; the hosts install themselves from it.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::model::job::Verb;
use crate::model::order::{Ending, Verdict};
use crate::render::agent_config;
use crate::yaml;

use super::image::{find_image, publish_image};
use super::installer::{
    ending_before_creation, ending_of_failed_step, save_installation, write_install_config,
};
use super::place::BOOT_IMAGE;
use super::task::{Stopped, Task};
use super::{add_nodes, credentials, kube, machines, power, release};

pub fn run(task: &mut Task) -> Result<Ending, Stopped> {
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

fn provision(task: &mut Task) -> Result<Ending, Stopped> {
    let work = task.job_folder.file_path("work");
    if let Err(why) = prepare(task, &work) {
        return Ok(Ending::hopeless(why));
    }
    let environment = match credentials::installer_environment(task) {
        Ok(found) => found,
        Err(why) => return Ok(Ending::hopeless(why)),
    };
    let program = match release::find_installer(task)? {
        Ok(path) => path,
        Err(why) => return Ok(Ending::new(Verdict::Later, why)),
    };
    let step =
        |task: &mut Task, words: &[&str]| task.run_program(&program, words, &work, &environment);
    let code = step(task, &["agent", "create", "image", "--dir", "."])?;
    if code != 0 {
        return Ok(ending_before_creation(task, "agent create image", code));
    }
    let infra_id = task.order.cluster_name.clone();
    let metadata = json!({"clusterName": infra_id, "infraID": infra_id, "agent": {}});
    fs::write(work.join("metadata.json"), metadata.to_string())?;
    save_installation(task, &work)?;
    let published = match publish_image(task, &work, "agent") {
        Ok(found) => found,
        Err(why) => return Ok(Ending::new(Verdict::Later, why)),
    };
    let mut hosts = Vec::new();
    if let Some(published) = &published {
        let booted = machines::boot_from_image(task, &published.url)?;
        if !booted.succeeded() {
            return Ok(booted);
        }
        hosts = booted.hosts;
    }
    // Those without a controller are booted by somebody, who reads there from what.
    let image = match &published {
        Some(published) => published.url.clone(),
        None => find_image(&work, "agent")?.unwrap_or_default().display().to_string(),
    };
    if published.is_none() {
        task.log_line(&format!("boot the hosts of this cluster from {image}"));
    }
    task.job_folder.write_file(BOOT_IMAGE, image.as_bytes())?;
    for wait in ["bootstrap-complete", "install-complete"] {
        let code = step(task, &["agent", "wait-for", wait, "--dir", "."])?;
        if code != 0 {
            let ending = ending_of_failed_step(task, &format!("agent wait-for {wait}"), code);
            let ejected = machines::run_verb(task, Verb::Eject)?;
            return Ok(Ending { hosts: ejected.hosts, ..ending });
        }
        task.job_folder.write_file(BOOT_IMAGE, b"")?;
    }
    save_installation(task, &work)?;
    let ejected = machines::run_verb(task, Verb::Eject)?;
    hosts.extend(ejected.hosts);
    let kubeconfig = task.job_folder.saved_path("kubeconfig");
    kube::save_nodes(task, &kubeconfig)?;
    Ok(Ending { infra_id, hosts, ..Ending::done() })
}

/// Both documents for the installer, which removes them; what is wrong with them is said before
/// anything runs.
fn prepare(task: &Task, work: &Path) -> Result<(), String> {
    write_install_config(task, work)?;
    let path = task.job_folder.input_path("agent-config.yaml");
    let text = fs::read_to_string(path).map_err(|error| format!("agent-config.yaml: {error}"))?;
    fs::write(work.join("agent-config.yaml"), &text).map_err(|error| error.to_string())?;
    let read = |text: &str| yaml::value(text).map_err(|error| error.to_string());
    let own = fs::read_to_string(work.join("install-config.yaml"));
    let own = own.map_err(|error| error.to_string())?;
    let wrong = agent_config::problems(&read(&own)?, &read(&text)?);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// Nothing was made but on the hosts: they are powered off, and their drives are empty.
fn release_hosts(task: &mut Task) -> Result<Ending, Stopped> {
    if let Some(folder) = &task.order.iso_directory {
        for job in &task.order.before {
            drop(fs::remove_dir_all(folder.join(job)));
        }
    }
    if task.order.machines.is_empty() {
        return Ok(Ending::done());
    }
    let ejected = machines::run_verb(task, Verb::Eject)?;
    let off = machines::run_verb(task, Verb::Stop)?;
    let hosts = ejected.hosts.into_iter().chain(off.hosts.clone()).collect();
    Ok(Ending { hosts, ..off })
}
