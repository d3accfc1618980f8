//! A cluster by its own API: how it does that is waking, nodes and operators in Hive's order, and
//! which certificates its nodes may have.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::model::order::{Ending, HealthReport};
use crate::yaml;

use super::certificate_requests::{KnownHost, approvable_requests, hosts_of_nodes};
use super::task::{Stopped, Task};

/// What makes a program of a kubeconfig.
const EXECUTING: [&str; 2] = ["exec", "auth-provider"];

/// Speaks to a cluster through its kubeconfig.
pub struct ClusterClient {
    program: PathBuf,
    is_oc: bool,
    kubeconfig: String,
}

impl ClusterClient {
    /// By oc or kubectl, with a kubeconfig that starts no programs.
    pub fn new(task: &Task, kubeconfig: &Path) -> Result<Self, String> {
        let is_oc = task.program_path("oc").is_some();
        let program = task.program_path("oc").or_else(|| task.program_path("kubectl"));
        let program = program.ok_or("neither oc nor kubectl is there to ask the cluster")?;
        let text =
            fs::read_to_string(kubeconfig).map_err(|error| format!("kubeconfig: {error}"))?;
        match kubeconfig_defect(&text) {
            Some(why) => Err(format!("kubeconfig: {why}")),
            None => Ok(Self { program, is_oc, kubeconfig: kubeconfig.display().to_string() }),
        }
    }

    fn run_command(&self, task: &mut Task, words: &[&str]) -> Result<(i32, String), Stopped> {
        let mut arguments = vec!["--kubeconfig", &self.kubeconfig, "--request-timeout=10s"];
        arguments.extend(words);
        task.ask_program(&self.program, &arguments, &BTreeMap::new())
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// None if it does not answer.
    pub fn get_resource(&self, task: &mut Task, what: &str) -> Result<Option<Value>, Stopped> {
        let (code, text) = self.run_command(task, &["get", what, "-o", "json"])?;
        Ok(serde_json::from_str(&text).ok().filter(|_| code == 0))
    }
}

pub fn check_health(task: &mut Task) -> Result<Ending, Stopped> {
    let report = |health: HealthReport| Ending { health: Some(health), ..Ending::done() };
    let client = match ClusterClient::new(task, &task.job_folder.input_path("kubeconfig")) {
        Ok(client) => client,
        Err(why) => return Ok(Ending::failed(why)),
    };
    let nodes = client.get_resource(task, "nodes")?;
    if task.order.stopping {
        // As long as it answers, machines run: those whose nodes are ready.
        let machines = nodes.iter().flat_map(items).filter(|one| ready(one)).map(name).collect();
        return Ok(report(HealthReport { machines, ..HealthReport::default() }));
    }
    let Some(nodes) = nodes else {
        let machines = vec!["the API does not answer".to_owned()];
        return Ok(report(HealthReport { machines, ..HealthReport::default() }));
    };
    let nodes_ready = items(&nodes).next().is_some() && items(&nodes).all(ready);
    let known: Vec<KnownHost> = fs::read(task.job_folder.input_path("nodes.json"))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    approve_requests(task, &client, &known)?;
    let operators = client.get_resource(task, "clusteroperators")?.unwrap_or_default();
    let settled = |one: &Value| {
        condition(one, "Disabled") == Some("True")
            || (condition(one, "Available") != Some("False")
                && condition(one, "Progressing") != Some("True")
                && condition(one, "Degraded") != Some("True"))
    };
    let operators_ready = items(&operators).next().is_some() && items(&operators).all(settled);
    Ok(report(HealthReport { machines: Vec::new(), nodes_ready, operators_ready }))
}

/// Nodes that are new, or whose certificates ran out while they were away, ask for some: these get
/// them. Returns all requests, as they were before.
pub fn approve_requests(
    task: &mut Task,
    client: &ClusterClient,
    hosts: &[KnownHost],
) -> Result<Value, Stopped> {
    let asked = client.get_resource(task, "certificatesigningrequests")?.unwrap_or_default();
    for request in approvable_requests(&asked, hosts) {
        let words = ["adm", "certificate", "approve", &request];
        client.run_command(task, &words[usize::from(!client.is_oc)..])?;
    }
    Ok(asked)
}

/// Whether a cluster has a node of a name that is ready.
pub fn is_node_ready(nodes: &Value, host: &str) -> bool {
    items(nodes).any(|one| name(one) == host && ready(one))
}

/// Keeps which nodes a cluster has now, if somebody is there to ask: hosts that may get new
/// certificates later.
pub fn save_nodes(task: &mut Task, kubeconfig: &Path) -> Result<(), Stopped> {
    let Ok(client) = ClusterClient::new(task, kubeconfig) else { return Ok(()) };
    if let Some(nodes) = client.get_resource(task, "nodes")? {
        let text = serde_json::to_vec(&hosts_of_nodes(&nodes)).map_err(io::Error::from)?;
        task.job_folder.write_file("saved/nodes.json", &text)?;
    }
    Ok(())
}

pub fn kubeconfig_defect(kubeconfig: &str) -> Option<String> {
    let document = match yaml::value(kubeconfig) {
        Ok(document) => document,
        Err(error) => return Some(error.to_string()),
    };
    let users = document["users"].as_array().into_iter().flatten();
    let mut words = users.flat_map(|one| EXECUTING.map(|word| (word, one["user"][word].is_null())));
    words.find(|(_, absent)| !absent).map(|(word, _)| format!("{word} would start a program"))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn ready(node: &Value) -> bool {
    condition(node, "Ready") == Some("True")
}

fn name(one: &Value) -> String {
    one["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn condition<'a>(one: &'a Value, kind: &str) -> Option<&'a str> {
    let all = one["status"]["conditions"].as_array()?;
    all.iter().find(|one| one["type"] == kind)?["status"].as_str()
}

#[cfg(test)]
mod tests {
    use super::kubeconfig_defect;

    #[test]
    fn a_kubeconfig_that_starts_programs_is_refused() {
        for (user, why) in [
            ("{token: x}", None),
            ("{exec: {command: id}}", Some("exec would start a program")),
            ("{auth-provider: {name: x}}", Some("auth-provider would start a program")),
        ] {
            let text =
                format!("users: [{{name: a, user: {{token: y}}}}, {{name: b, user: {user}}}]");
            assert_eq!(kubeconfig_defect(&text).as_deref(), why, "{user}");
        }
    }
}
