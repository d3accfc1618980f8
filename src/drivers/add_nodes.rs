//! `oc adm node-image`: one image for the hosts that join a cluster, which install themselves from
//! it. Their certificates are approved meanwhile, and nobody else's.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::model::job::Verb;
use crate::model::order::{Ending, Verdict};

use super::certificate_requests::{self, KnownHost};
use super::files::read_regular_file;
use super::kube::{self, ClusterClient};
use super::log::PROMPT;
use super::place::BOOT_IMAGE;
use super::process::Stopwatch;
use super::task::{Stopped, Task};
use super::{image, machines};

const NODES: &str = "nodes-config.yaml";
/// How long after the last look the cluster is looked at again.
const LOOK: Duration = Duration::from_secs(2);
/// How long a node that is ready may take to ask for the certificate that it serves with.
const SERVES: Duration = Duration::from_secs(120);
/// As much of what report.json says as is repeated.
const LONGEST_REASON: usize = 300;

pub fn run(task: &mut Task) -> Result<Ending, Stopped> {
    let later = |why: String| Ok(Ending::new(Verdict::Later, why));
    if task.program_path("oc").is_none() {
        let why = task.order.missing.get("oc").cloned();
        let why = why.unwrap_or_else(|| "there is no oc".into());
        return later(format!("hosts join a cluster by oc adm node-image: {why}"));
    }
    let client = match ClusterClient::new(task, &task.job_folder.input_path("kubeconfig")) {
        Ok(client) => client,
        Err(why) => return later(why),
    };
    let hosts: Vec<KnownHost> = fs::read(task.job_folder.input_path("joining.json"))
        .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?))?;
    let Some(nodes) = client.get_resource(task, "nodes")? else {
        return later(format!("the API of cluster {} does not answer", task.order.cluster));
    };
    if hosts.iter().all(|host| is_itself(&nodes, host)) {
        // An earlier try was not seen to its end.
        return over(task);
    }
    if let Some(one) = hosts.iter().find(|host| kube::is_node_ready(&nodes, &host.name)) {
        return Ok(taken(task, one, hosts.len()));
    }
    let work = task.job_folder.file_path("work");
    if let Some(ending) = create(task, &client, &work)? {
        return Ok(ending);
    }
    let published = match image::publish_image(task, &work, "node") {
        Ok(found) => found,
        Err(why) => return later(why),
    };
    let path = image::find_image(&work, "node")?.unwrap_or_default();
    let from = published.as_ref().map_or(path.display().to_string(), |one| one.url.clone());
    task.job_folder.write_file(BOOT_IMAGE, from.as_bytes())?;
    let booted = machines::boot_from_image(task, &from)?;
    let ending = if booted.succeeded() { joined(task, &client, &hosts)? } else { booted.clone() };
    let ejected = machines::run_verb(task, Verb::Eject)?;
    Ok(Ending { hosts: [booted.hosts, ejected.hosts].concat(), ..ending })
}

/// Whether a host is a node that is ready: its name alone may be another's.
fn is_itself(nodes: &Value, host: &KnownHost) -> bool {
    let known = certificate_requests::hosts_of_nodes(nodes);
    let mut same = known.iter().filter(|node| node.name == host.name);
    kube::is_node_ready(nodes, &host.name)
        && same.any(|node| node.addresses.iter().any(|one| host.addresses.contains(one)))
}

/// One of several is found out when they are tried one by one.
fn taken(task: &Task, host: &KnownHost, many: usize) -> Ending {
    let (name, cluster) = (&host.name, &task.order.cluster);
    let why = format!(
        "cluster {cluster} has a node {name} that is ready, and it is not known to be this host: \
         call the host otherwise (poolctl agent set AGENT --hostname NAME) or remove that one (oc \
         delete node {name}), then unbind and bind the host"
    );
    if many > 1 { Ending::failed(why) } else { Ending::hopeless(why) }
}

/// Makes the image; why not, if it cannot be made.
fn create(task: &mut Task, client: &ClusterClient, work: &Path) -> Result<Option<Ending>, Stopped> {
    fs::copy(task.job_folder.input_path(NODES), work.join(NODES))?;
    let words = words(task, client, &["create", "--dir", "."]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let code = task.run_program(client.program(), &words, work, &BTreeMap::new())?;
    if code != 0 {
        // Before anything is cut: half a secret is not known.
        let why = reported(work).map(|why| task.without_secrets(&why)).unwrap_or_default();
        let why: String = why.chars().take(LONGEST_REASON).collect();
        let said = if why.is_empty() { why } else { format!(": {why}") };
        let what = "oc adm node-image create failed";
        return Ok(Some(Ending::failed(format!("{what} (exit code {code}){said}"))));
    }
    let made = image::find_image(work, "node")?;
    Ok(made.is_none().then(|| Ending::failed("oc adm node-image create left no image")))
}

/// The words of `oc adm node-image`, which pulls from the cluster's registry.
fn words(task: &Task, client: &ClusterClient, more: &[&str]) -> Vec<String> {
    let mut words = vec!["--kubeconfig", client.kubeconfig(), "adm", "node-image"];
    words.extend(more);
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let pull_secret = task.job_folder.input_path("pull-secret.json");
    if pull_secret.exists() {
        words.extend(["--registry-config".to_owned(), pull_secret.display().to_string()]);
    }
    words
}

/// What report.json says went wrong.
fn reported(work: &Path) -> Option<String> {
    let report: Value =
        serde_json::from_slice(&read_regular_file(&work.join("report.json")).ok()?).ok()?;
    let said = |place: &Value| {
        let names = ["error_message", "errorMessage", "message", "error"];
        names.into_iter().find_map(|name| place[name].as_str()).map(str::to_owned)
    };
    said(&report["result"]).or_else(|| said(&report))
}

/// Waits for the hosts, while oc tells how far they are.
fn joined(task: &mut Task, client: &ClusterClient, hosts: &[KnownHost]) -> Result<Ending, Stopped> {
    let addresses: Vec<&str> =
        hosts.iter().filter_map(|host| host.addresses.first()).map(String::as_str).collect();
    let monitor = if addresses.is_empty() {
        None
    } else {
        let words = words(task, client, &["monitor", "--ip-addresses", &addresses.join(",")]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        task.log_line(&format!(
            "{PROMPT}oc adm node-image monitor --ip-addresses {}",
            addresses.join(",")
        ));
        Some(task.start_companion(client.program(), &words)?)
    };
    let waited = wait(task, client, hosts);
    drop(monitor);
    match waited {
        Ok(()) => over(task),
        Err(Stopped::DeadlineExceeded) => {
            let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            let (names, cluster) = (names.join(", "), &task.order.cluster);
            let limit = task.order.limit;
            Err(Stopped::Failed(io::Error::other(format!(
                "not all of {names} were ready nodes of cluster {cluster} after {limit} s"
            ))))
        }
        Err(other) => Err(other),
    }
}

/// Until all of them are nodes that are ready and have both their certificates.
fn wait(task: &mut Task, client: &ClusterClient, hosts: &[KnownHost]) -> Result<(), Stopped> {
    let mut ready: Option<Stopwatch> = None;
    loop {
        let nodes = client.get_resource(task, "nodes")?.unwrap_or_default();
        let asked = kube::approve_requests(task, client, &with_addresses(hosts, &nodes))?;
        if hosts.iter().all(|host| kube::is_node_ready(&nodes, &host.name)) {
            let since = ready.get_or_insert_with(Stopwatch::start);
            let served = hosts
                .iter()
                .all(|host| certificate_requests::has_serving_certificate(&asked, host));
            if served || since.elapsed() > SERVES {
                return Ok(());
            }
        } else {
            ready = None;
        }
        let looked = Stopwatch::start();
        while looked.elapsed() < LOOK {
            task.wait_unless_stopped()?;
        }
    }
}

/// A host of which nobody knows an address beforehand has those that its node says.
fn with_addresses(hosts: &[KnownHost], nodes: &Value) -> Vec<KnownHost> {
    let known = certificate_requests::hosts_of_nodes(nodes);
    let with = |host: &KnownHost| {
        let said = known.iter().find(|node| node.name == host.name);
        said.filter(|_| host.addresses.is_empty()).unwrap_or(host).clone()
    };
    hosts.iter().map(with).collect()
}

/// The nodes that the cluster has now may have new certificates later.
fn over(task: &mut Task) -> Result<Ending, Stopped> {
    let kubeconfig = task.job_folder.input_path("kubeconfig");
    kube::save_nodes(task, &kubeconfig)?;
    Ok(Ending::done())
}
