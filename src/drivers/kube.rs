//! Asks a cluster through its own API, by oc or kubectl: which of its nodes are ready, whether its
//! operators have settled, and which certificates its nodes ask for. Approves certificates of known
//! hosts, and changes nothing else in a cluster.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::model::order::{HealthReport, JobEnding};
use crate::yaml;

use super::certificate_requests::{KnownHost, approvable_requests, hosts_of_nodes};
use super::site;
use super::task::{Stopped, Task};

/// Ways to log in for which a kubeconfig makes its reader start a program.
const STARTING_PROGRAMS: [&str; 2] = ["exec", "auth-provider"];

/// Speaks to one cluster through its kubeconfig.
pub struct ClusterClient {
    program: PathBuf,
    /// Whether the program is oc, and not kubectl.
    is_oc: bool,
    kubeconfig: String,
    environment: BTreeMap<String, String>,
}

impl ClusterClient {
    /// A client that uses oc or else kubectl. The error is for people: neither is there, or the
    /// kubeconfig cannot be used.
    pub fn new(task: &Task, kubeconfig: &Path) -> Result<Self, String> {
        let is_oc = task.program_path("oc").is_some();
        let program = task
            .program_path("oc")
            .or_else(|| task.program_path("kubectl"))
            .ok_or("asking the cluster needs oc or kubectl, and neither is installed")?;
        let content =
            fs::read_to_string(kubeconfig).map_err(|error| format!("kubeconfig: {error}"))?;
        if let Some(defect) = kubeconfig_defect(&content) {
            return Err(format!("kubeconfig: {defect}"));
        }
        let kubeconfig = kubeconfig.display().to_string();
        Ok(Self { program, is_oc, kubeconfig, environment: site::program_environment(task)? })
    }

    fn run_command(&self, task: &mut Task, words: &[&str]) -> Result<(i32, String), Stopped> {
        let mut arguments = vec!["--kubeconfig", &self.kubeconfig, "--request-timeout=10s"];
        arguments.extend(words);
        task.ask_program(&self.program, &arguments, &self.environment)
    }

    /// Approves a certificate request. If that fails, the request is still there the next time.
    fn approve_request(&self, task: &mut Task, name: &str) -> Result<(), Stopped> {
        if self.is_oc {
            self.run_command(task, &["adm", "certificate", "approve", name])?;
        } else {
            self.run_command(task, &["certificate", "approve", name])?;
        }
        Ok(())
    }

    /// The path of oc or kubectl.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The path of the kubeconfig.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// All resources of a kind, as `get KIND -o json` lists them; None if the API does not answer.
    pub fn get_resources(&self, task: &mut Task, kind: &str) -> Result<Option<Value>, Stopped> {
        let (code, json) = self.run_command(task, &["get", kind, "-o", "json"])?;
        if code != 0 {
            return Ok(None);
        }
        Ok(serde_json::from_str(&json).ok())
    }
}

/// Looks how far a cluster is that was told to start or stop. It approves certificates on the way:
/// nodes that were away for long cannot become ready without.
pub fn check_health(task: &mut Task) -> Result<JobEnding, Stopped> {
    let client = match ClusterClient::new(task, &task.job_folder.input_path("kubeconfig")) {
        Ok(client) => client,
        Err(error) => return Ok(JobEnding::failed(error)),
    };
    let report = read_health(task, &client)?;
    Ok(JobEnding { health: Some(report), ..JobEnding::success() })
}

/// Asks the cluster how far it is. While it stops, its machines are what counts; while it starts,
/// its nodes and operators. Certificates that its nodes ask for are approved on the way.
fn read_health(task: &mut Task, client: &ClusterClient) -> Result<HealthReport, Stopped> {
    let answer = client.get_resources(task, "nodes")?;
    if task.order.stopping {
        // As long as the API answers, machines run: those whose nodes are ready.
        let ready_nodes = answer.iter().flat_map(items).filter(|node| is_ready(node));
        let machines = ready_nodes.map(resource_name).collect();
        return Ok(HealthReport { machines, ..HealthReport::default() });
    }
    let Some(nodes) = answer else {
        let machines = vec!["the API does not answer".to_owned()];
        return Ok(HealthReport { machines, ..HealthReport::default() });
    };
    let nodes_ready = has_items(&nodes) && items(&nodes).all(is_ready);
    let known_hosts: Vec<KnownHost> = fs::read(task.job_folder.input_path("nodes.json"))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    approve_requests(task, client, &known_hosts)?;
    let operators = client.get_resources(task, "clusteroperators")?.unwrap_or_default();
    let operators_ready = has_items(&operators) && items(&operators).all(is_operator_settled);
    Ok(HealthReport { machines: Vec::new(), nodes_ready, operators_ready })
}

/// Whether an operator has settled, by Hive's rule for clusters that are waking.
fn is_operator_settled(operator: &Value) -> bool {
    condition_status(operator, "Disabled") == Some("True")
        || (condition_status(operator, "Available") != Some("False")
            && condition_status(operator, "Progressing") != Some("True")
            && condition_status(operator, "Degraded") != Some("True"))
}

/// Approves the certificate requests of these hosts. Nodes ask for certificates when they are new,
/// or when theirs ran out while they were away. Returns all requests as they were before.
pub fn approve_requests(
    task: &mut Task,
    client: &ClusterClient,
    hosts: &[KnownHost],
) -> Result<Value, Stopped> {
    let requests = client.get_resources(task, "certificatesigningrequests")?.unwrap_or_default();
    for name in approvable_requests(&requests, hosts) {
        client.approve_request(task, &name)?;
    }
    Ok(requests)
}

/// Whether the node of this name is among these nodes, and ready.
pub fn is_node_ready(nodes: &Value, name: &str) -> bool {
    items(nodes).any(|node| resource_name(node) == name && is_ready(node))
}

/// Saves which nodes a cluster has now, because these hosts may get new certificates later. Saves
/// nothing if there is no program to ask, or no answer.
pub fn save_nodes(task: &mut Task, kubeconfig: &Path) -> Result<(), Stopped> {
    let Ok(client) = ClusterClient::new(task, kubeconfig) else { return Ok(()) };
    if let Some(nodes) = client.get_resources(task, "nodes")? {
        let json = serde_json::to_vec(&hosts_of_nodes(&nodes)).map_err(io::Error::from)?;
        task.job_folder.write_file("saved/nodes.json", &json)?;
    }
    Ok(())
}

/// Why a kubeconfig must not be used, if so: it is no YAML mapping, or its reader would start a
/// program.
pub fn kubeconfig_defect(kubeconfig: &str) -> Option<String> {
    let document = match yaml::parse_value(kubeconfig) {
        Ok(document) => document,
        Err(error) => return Some(error.to_string()),
    };
    if document.is_null() {
        return Some("it is empty".to_owned());
    }
    if !document.is_object() {
        return Some("it is no YAML mapping".to_owned());
    }
    for entry in document["users"].as_array().into_iter().flatten() {
        for field in STARTING_PROGRAMS {
            if !entry["user"][field].is_null() {
                return Some(format!("{field} would start a program"));
            }
        }
    }
    None
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn has_items(list: &Value) -> bool {
    items(list).next().is_some()
}

fn is_ready(node: &Value) -> bool {
    condition_status(node, "Ready") == Some("True")
}

fn resource_name(resource: &Value) -> String {
    resource["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// The status of a resource's condition: True, False or Unknown; None if it has no such condition.
fn condition_status<'a>(resource: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = resource["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

#[cfg(test)]
mod tests {
    use super::kubeconfig_defect;

    #[test]
    fn a_kubeconfig_that_starts_programs_is_refused() {
        for (user, defect) in [
            ("{token: x}", None),
            ("{exec: {command: id}}", Some("exec would start a program")),
            ("{auth-provider: {name: x}}", Some("auth-provider would start a program")),
        ] {
            let kubeconfig =
                format!("users: [{{name: a, user: {{token: y}}}}, {{name: b, user: {user}}}]");
            assert_eq!(kubeconfig_defect(&kubeconfig).as_deref(), defect, "{user}");
        }
    }

    #[test]
    fn a_kubeconfig_is_a_mapping() {
        for (kubeconfig, defect) in [
            ("", "it is empty"),
            ("# nothing\n", "it is empty"),
            ("garbage", "it is no YAML mapping"),
            ("[]", "it is no YAML mapping"),
        ] {
            assert_eq!(kubeconfig_defect(kubeconfig).as_deref(), Some(defect), "{kubeconfig:?}");
        }
    }
}
