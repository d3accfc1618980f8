//! openshift-install agent: one image for all hosts of a cluster, attached to those that have a
//! controller; the hosts install themselves from it.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::model::job::Verb;
use crate::model::order::{Ending, Verdict};
use crate::render::agent_config;
use crate::yaml;

use super::image::{find_image, publish};
use super::installer::{configure, failed, failed_before, save};
use super::place::BOOTS;
use super::task::{Stopped, Task};
use super::{credentials, joining, kube, machines, power, release};

pub fn run(task: &mut Task) -> Result<Ending, Stopped> {
    match task.order.verb {
        Verb::Provision => provision(task),
        Verb::Deprovision => release_hosts(task),
        Verb::AddNodes => joining::run(task),
        Verb::Start | Verb::Stop => power::switch(task),
        Verb::Health => power::health(task),
        Verb::Cycle | Verb::State | Verb::Attach | Verb::Eject | Verb::Inspect | Verb::Wipe => {
            Ok(task.refuse_verb())
        }
    }
}

fn provision(task: &mut Task) -> Result<Ending, Stopped> {
    let work = task.place.file("work");
    if let Err(why) = prepare(task, &work) {
        return Ok(Ending::hopeless(why));
    }
    let environment = match credentials::environment(task) {
        Ok(found) => found,
        Err(why) => return Ok(Ending::hopeless(why)),
    };
    let program = match release::installer(task)? {
        Ok(path) => path,
        Err(why) => return Ok(Ending::new(Verdict::Later, why)),
    };
    let step = |task: &mut Task, words: &[&str]| task.run(&program, words, &work, &environment);
    let code = step(task, &["agent", "create", "image", "--dir", "."])?;
    if code != 0 {
        return Ok(failed_before(task, "agent create image", code));
    }
    let infra_id = task.order.cluster_name.clone();
    let metadata = json!({"clusterName": infra_id, "infraID": infra_id, "agent": {}});
    fs::write(work.join("metadata.json"), metadata.to_string())?;
    save(task, &work)?;
    let published = match publish(task, &work, "agent") {
        Ok(found) => found,
        Err(why) => return Ok(Ending::new(Verdict::Later, why)),
    };
    let mut hosts = Vec::new();
    if let Some(published) = &published {
        let booted = machines::boot_all(task, &published.url)?;
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
        task.say(&format!("boot the hosts of this cluster from {image}"));
    }
    task.place.write(BOOTS, image.as_bytes())?;
    for wait in ["bootstrap-complete", "install-complete"] {
        let code = step(task, &["agent", "wait-for", wait, "--dir", "."])?;
        if code != 0 {
            let ending = failed(task, &format!("agent wait-for {wait}"), code);
            let ejected = machines::together_all(task, Verb::Eject)?;
            return Ok(Ending { hosts: ejected.hosts, ..ending });
        }
        task.place.write(BOOTS, b"")?;
    }
    save(task, &work)?;
    let ejected = machines::together_all(task, Verb::Eject)?;
    hosts.extend(ejected.hosts);
    let kubeconfig = task.place.saved("kubeconfig");
    kube::keep_nodes(task, &kubeconfig)?;
    Ok(Ending { infra_id, hosts, ..Ending::done() })
}

/// Both documents for the installer, which removes them; what is wrong with them is said before
/// anything runs.
fn prepare(task: &Task, work: &Path) -> Result<(), String> {
    configure(task, work)?;
    let path = task.place.input("agent-config.yaml");
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
    let ejected = machines::together_all(task, Verb::Eject)?;
    let off = machines::together_all(task, Verb::Stop)?;
    let hosts = ejected.hosts.into_iter().chain(off.hosts.clone()).collect();
    Ok(Ending { hosts, ..off })
}
