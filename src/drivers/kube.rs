//! How a cluster does that is waking, by its own API: nodes and operators, in Hive's order.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::model::order::{Ending, HealthReport};
use crate::yaml;

use super::supervise::{Stopped, Task};

/// What makes a program of a kubeconfig.
const EXECUTING: [&str; 2] = ["exec", "auth-provider"];

pub fn health(task: &mut Task) -> Result<Ending, Stopped> {
    let report = |health: HealthReport| Ending { health: Some(health), ..Ending::done() };
    let Some(client) = task.program("oc").or_else(|| task.program("kubectl")) else {
        return Ok(Ending::failed("neither oc nor kubectl is there to ask the cluster"));
    };
    let path = task.place.input("kubeconfig");
    if let Some(why) =
        fs::read_to_string(&path).map_or(Some("there is none".into()), |text| refused(&text))
    {
        return Ok(Ending::failed(format!("kubeconfig: {why}")));
    }
    let path = path.display().to_string();
    let get = |task: &mut Task, what: &str| {
        let arguments = ["--kubeconfig", &path, "--request-timeout=10s", "get", what, "-o", "json"];
        task.ask(&client, &arguments, &BTreeMap::new())
            .map(|(code, text)| serde_json::from_str::<Value>(&text).ok().filter(|_| code == 0))
    };
    let nodes = get(task, "nodes")?;
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
    let operators = get(task, "clusteroperators")?.unwrap_or_default();
    let settled = |one: &Value| {
        condition(one, "Disabled") == Some("True")
            || (condition(one, "Available") != Some("False")
                && condition(one, "Progressing") != Some("True")
                && condition(one, "Degraded") != Some("True"))
    };
    let operators_ready = items(&operators).next().is_some() && items(&operators).all(settled);
    Ok(report(HealthReport { machines: Vec::new(), nodes_ready, operators_ready }))
}

fn refused(kubeconfig: &str) -> Option<String> {
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
    use super::refused;

    #[test]
    fn a_kubeconfig_that_starts_programs_is_refused() {
        for (user, why) in [
            ("{token: x}", None),
            ("{exec: {command: id}}", Some("exec would start a program")),
            ("{auth-provider: {name: x}}", Some("auth-provider would start a program")),
        ] {
            let text =
                format!("users: [{{name: a, user: {{token: y}}}}, {{name: b, user: {user}}}]");
            assert_eq!(refused(&text).as_deref(), why, "{user}");
        }
    }
}
