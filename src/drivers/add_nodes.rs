//! Lets hosts join a cluster that is installed, by `oc adm node-image`: it makes one image from
//! which these hosts install themselves. Meanwhile the certificates that they ask for are approved,
//! and nobody else's.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::model::failure::FailureClass;
use crate::model::job::Verb;
use crate::model::order::JobEnding;

use super::certificate_requests::{self, KnownHost};
use super::files::read_regular_file;
use super::job_folder::BOOT_IMAGE;
use super::kube::{self, ClusterClient};
use super::log::PROMPT;
use super::process::Stopwatch;
use super::task::{CompanionProgram, Stopped, Task};
use super::{image, machines, site};

/// The hosts and their networks, as `oc adm node-image` reads them.
const NODES_CONFIG: &str = "nodes-config.yaml";
/// How long to wait before the cluster is looked at again.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How long a node that is ready may take to ask for the certificate that it serves with.
const SERVING_CERTIFICATE_TIMEOUT: Duration = Duration::from_secs(120);
/// Letters of the reason in report.json that are kept.
const REASON_LETTERS: usize = 300;

/// Makes the image, boots the hosts from it, and waits until all of them are ready nodes.
pub fn run(task: &mut Task) -> Result<JobEnding, Stopped> {
    if task.program_path("oc").is_none() {
        let reason = task.order.missing.get("oc").map_or("there is no oc", String::as_str);
        return Ok(try_later(format!(
            "adding hosts to a cluster needs oc adm node-image: {reason}"
        )));
    }
    let client = match ClusterClient::new(task, &task.job_folder.input_path("kubeconfig")) {
        Ok(client) => client,
        Err(error) => return Ok(try_later(error)),
    };
    let hosts: Vec<KnownHost> = fs::read(task.job_folder.input_path("joining.json"))
        .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?))?;
    let Some(nodes) = client.get_resources(task, "nodes")? else {
        let cluster = &task.order.cluster;
        return Ok(try_later(format!("the API of cluster {cluster} does not answer")));
    };
    if hosts.iter().all(|host| has_joined(&nodes, host)) {
        // An earlier job has let them join, but was not there to see it.
        return finish(task);
    }
    if let Some(host) = hosts.iter().find(|host| kube::is_node_ready(&nodes, &host.name)) {
        return Ok(refuse_taken_name(task, host, hosts.len()));
    }
    let work = task.job_folder.file_path("work");
    if let Some(ending) = create_image(task, &client, &work)? {
        return Ok(ending);
    }
    let published = match image::publish_image(task, &work, "node") {
        Ok(published) => published,
        Err(error) => return Ok(try_later(error)),
    };
    let image_path = image::find_image(&work, "node")?.unwrap_or_default();
    let image_source = match &published {
        Some(published) => published.url.clone(),
        None => image_path.display().to_string(),
    };
    task.job_folder.write_file(BOOT_IMAGE, image_source.as_bytes())?;
    let booted = machines::boot_from_image(task, &image_source)?;
    let ending =
        if booted.is_success() { await_joining(task, &client, &hosts)? } else { booted.clone() };
    let ejected = machines::run_verb(task, Verb::Eject)?;
    Ok(JobEnding { hosts: [booted.hosts, ejected.hosts].concat(), ..ending })
}

/// Nothing was begun: something is missing that somebody has to bring.
fn try_later(reason: String) -> JobEnding {
    JobEnding::failed_early(FailureClass::SetupMissing, reason)
}

/// Whether a host is a ready node already. Its name alone does not tell: another host may have it.
fn has_joined(nodes: &Value, host: &KnownHost) -> bool {
    kube::is_node_ready(nodes, &host.name)
        && certificate_requests::hosts_of_nodes(nodes).iter().any(|node| {
            node.name == host.name
                && node.addresses.iter().any(|address| host.addresses.contains(address))
        })
}

/// How a job ends if another node has the name of this host. Trying again is of use if the job has
/// several hosts: they are tried one by one then, and the others can join.
fn refuse_taken_name(task: &Task, host: &KnownHost, host_count: usize) -> JobEnding {
    let name = &host.name;
    let cluster = &task.order.cluster;
    let message = format!(
        "cluster {cluster} already has a ready node {name}, and it is not known to be this host: \
         rename the host (poolctl agent set AGENT --hostname NAME) or remove that node (oc \
         delete node {name}), then unbind and bind the host"
    );
    if host_count > 1 { JobEnding::failed(message) } else { JobEnding::hopeless(message) }
}

/// Makes the image in the folder `work`. Returns how the job ends if it cannot be made.
fn create_image(
    task: &mut Task,
    client: &ClusterClient,
    work: &Path,
) -> Result<Option<JobEnding>, Stopped> {
    fs::copy(task.job_folder.input_path(NODES_CONFIG), work.join(NODES_CONFIG))?;
    let arguments = node_image_arguments(task, client, &["create", "--dir", "."]);
    let environment = match site::program_environment(task) {
        Ok(environment) => environment,
        Err(error) => return Ok(Some(JobEnding::failed(error))),
    };
    let code = task.run_program(client.program(), &as_strs(&arguments), work, &environment)?;
    if code != 0 {
        let mut message = format!("oc adm node-image create failed (exit code {code})");
        if let Some(error) = read_report(work) {
            // Secrets are hidden before anything is cut off: half a secret is not recognized.
            let scrubbed = task.without_secrets(&error);
            if !scrubbed.is_empty() {
                message += ": ";
                message.extend(scrubbed.chars().take(REASON_LETTERS));
            }
        }
        return Ok(Some(JobEnding::failed(message)));
    }
    if image::find_image(work, "node")?.is_none() {
        return Ok(Some(JobEnding::failed("oc adm node-image create wrote no image")));
    }
    Ok(None)
}

/// The arguments of oc that run `oc adm node-image` with these. It pulls from the registry that the
/// cluster uses, so it gets the cluster's pull secret.
fn node_image_arguments(task: &Task, client: &ClusterClient, arguments: &[&str]) -> Vec<String> {
    let command = ["--kubeconfig", client.kubeconfig(), "adm", "node-image"];
    let mut all_arguments: Vec<String> =
        command.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
    let pull_secret = task.job_folder.input_path("pull-secret.json");
    if pull_secret.exists() {
        all_arguments.push("--registry-config".to_owned());
        all_arguments.push(pull_secret.display().to_string());
    }
    all_arguments
}

fn as_strs(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// What went wrong according to the report.json that `oc adm node-image` leaves.
fn read_report(work: &Path) -> Option<String> {
    let bytes = read_regular_file(&work.join("report.json")).ok()?;
    let report: Value = serde_json::from_slice(&bytes).ok()?;
    for object in [&report["result"], &report] {
        for field in ["error_message", "errorMessage", "message", "error"] {
            if let Some(message) = object[field].as_str() {
                return Some(message.to_owned());
            }
        }
    }
    None
}

/// Waits until the hosts have joined, while oc writes into the log how far they are.
fn await_joining(
    task: &mut Task,
    client: &ClusterClient,
    hosts: &[KnownHost],
) -> Result<JobEnding, Stopped> {
    let monitor = start_monitor(task, client, hosts)?;
    let result = wait_until_ready(task, client, hosts);
    drop(monitor);
    match result {
        Ok(()) => finish(task),
        Err(Stopped::DeadlineExceeded) => {
            let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            let name_list = names.join(", ");
            let cluster = &task.order.cluster;
            let limit = task.order.limit;
            Err(Stopped::Failed(io::Error::other(format!(
                "not all of {name_list} were ready nodes of cluster {cluster} after {limit} s"
            ))))
        }
        Err(stopped) => Err(stopped),
    }
}

/// Starts the program that tells how far the hosts are. It needs their addresses: without any there
/// is nothing to start.
fn start_monitor(
    task: &mut Task,
    client: &ClusterClient,
    hosts: &[KnownHost],
) -> Result<Option<CompanionProgram>, Stopped> {
    let addresses: Vec<&str> =
        hosts.iter().filter_map(|host| host.addresses.first()).map(String::as_str).collect();
    if addresses.is_empty() {
        return Ok(None);
    }
    let address_list = addresses.join(",");
    let monitor_arguments = ["monitor", "--ip-addresses", &address_list];
    let arguments = node_image_arguments(task, client, &monitor_arguments);
    task.log_line(&format!("{PROMPT}oc adm node-image monitor --ip-addresses {address_list}"));
    Ok(Some(task.start_companion(client.program(), &as_strs(&arguments))?))
}

/// Waits until all hosts are ready nodes and have both their certificates. A node that is ready and
/// does not ask for the second one is not waited for much longer.
fn wait_until_ready(
    task: &mut Task,
    client: &ClusterClient,
    hosts: &[KnownHost],
) -> Result<(), Stopped> {
    let mut since_ready: Option<Stopwatch> = None;
    loop {
        let nodes = client.get_resources(task, "nodes")?.unwrap_or_default();
        let requests = kube::approve_requests(task, client, &with_addresses(hosts, &nodes))?;
        if hosts.iter().all(|host| kube::is_node_ready(&nodes, &host.name)) {
            let stopwatch = since_ready.get_or_insert_with(Stopwatch::start);
            let have_certificates = hosts
                .iter()
                .all(|host| certificate_requests::has_serving_certificate(&requests, host));
            if have_certificates || stopwatch.elapsed() > SERVING_CERTIFICATE_TIMEOUT {
                return Ok(());
            }
        } else {
            since_ready = None;
        }
        let since_look = Stopwatch::start();
        while since_look.elapsed() < LOOK_INTERVAL {
            task.wait_unless_stopped()?;
        }
    }
}

/// The hosts, with the addresses that their nodes report where none were known beforehand.
fn with_addresses(hosts: &[KnownHost], nodes: &Value) -> Vec<KnownHost> {
    let reported_hosts = certificate_requests::hosts_of_nodes(nodes);
    let mut completed_hosts = hosts.to_vec();
    for host in &mut completed_hosts {
        let reported = reported_hosts.iter().find(|reported| reported.name == host.name);
        if let Some(reported) = reported
            && host.addresses.is_empty()
        {
            host.clone_from(reported);
        }
    }
    completed_hosts
}

/// Saves the nodes that the cluster has now: they may get new certificates later.
fn finish(task: &mut Task) -> Result<JobEnding, Stopped> {
    let kubeconfig = task.job_folder.input_path("kubeconfig");
    kube::save_nodes(task, &kubeconfig)?;
    Ok(JobEnding::success())
}
