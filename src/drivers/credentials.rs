//! A platform's credentials as its installer takes them: in files, its environment, or the
//! install-config; never as arguments.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Map, Value};

use super::task::Task;

/// Keys of a cloud's Secret that are files, and the variable that names the file.
const FILES: [(&str, &str); 3] = [
    ("clouds.yaml", "OS_CLIENT_CONFIG_FILE"),
    ("osServicePrincipal.json", "AZURE_AUTH_LOCATION"),
    ("osServiceAccount.json", "GOOGLE_APPLICATION_CREDENTIALS"),
];
/// Keys whose values are variables.
const VARIABLES: [(&str, &str); 3] = [
    ("aws_access_key_id", "AWS_ACCESS_KEY_ID"),
    ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("ibmcloud_api_key", "IC_API_KEY"),
];
/// What makes a program of what is read as a file.
const EXECUTING: [&str; 2] = ["credential_process", "credential_source"];

/// The environment of the installer: the cluster's own, and its credentials.
pub fn installer_environment(task: &Task) -> Result<BTreeMap<String, String>, String> {
    let mut found = task.order.environment.clone();
    for (key, text) in all(task) {
        let lower = text.to_lowercase();
        if let Some(word) = EXECUTING.iter().find(|word| lower.contains(**word)) {
            return Err(format!("the credentials have {word} in {key}: it would start a program"));
        }
        let path = task.job_folder.input_path("credentials").join(&key).display().to_string();
        found.extend(
            FILES
                .iter()
                .filter(|(name, _)| *name == key)
                .map(|(_, variable)| ((*variable).to_owned(), path.clone())),
        );
        let variables = VARIABLES.iter().filter(|(name, _)| *name == key);
        found.extend(
            variables.map(|(_, variable)| ((*variable).to_owned(), text.trim().to_owned())),
        );
    }
    Ok(found)
}

/// The values of the credentials by key.
fn all(task: &Task) -> Vec<(String, String)> {
    let entries =
        fs::read_dir(task.job_folder.input_path("credentials")).into_iter().flatten().flatten();
    let mut found: Vec<(String, String)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name, fs::read_to_string(entry.path()).ok()?))
        })
        .collect();
    found.sort();
    found
}

fn value(task: &Task, key: &str) -> Option<String> {
    let path = task.job_folder.input_path("credentials").join(key);
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Puts into an install-config what the installer reads there and a template does not hold.
pub fn complete_install_config(task: &Task, document: &mut Value) {
    if document["pullSecret"].as_str().is_none_or(str::is_empty)
        && let Ok(text) = fs::read_to_string(task.job_folder.input_path("pull-secret.json"))
    {
        document["pullSecret"] = text.trim().into();
    }
    if let Some(vsphere) = document.pointer_mut("/platform/vsphere").and_then(Value::as_object_mut)
    {
        log_in(task, vsphere, "user");
    }
}

/// The same for what destroying reads; today's login counts, not the one of the installation.
pub fn complete_metadata(task: &Task, metadata: &mut Value) {
    if let Some(vsphere) = metadata.get_mut("vsphere").and_then(Value::as_object_mut) {
        for name in ["username", "password"] {
            vsphere.remove(name);
        }
        let lists = vsphere.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case("vcenters"));
        for one in lists.filter_map(|(_, list)| list.as_array_mut()).flatten() {
            let fields = one.as_object_mut().into_iter();
            fields
                .for_each(|one| one.retain(|name, _| !["username", "password"].contains(&&**name)));
        }
        log_in(task, vsphere, "username");
    }
}

/// vCenters have their logins in a list, or there is one, as before 4.13.
fn log_in(task: &Task, vsphere: &mut Map<String, Value>, user: &str) {
    let (Some(name), Some(password)) = (value(task, "username"), value(task, "password")) else {
        return;
    };
    let fill = |one: &mut Map<String, Value>, user: &str| {
        for (field, value) in [(user, &name), ("password", &password)] {
            let empty = one.get(field).and_then(Value::as_str).is_none_or(str::is_empty);
            if empty {
                one.insert(field.to_owned(), value.as_str().into());
            }
        }
    };
    let list = vsphere.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("vcenters"));
    match list.and_then(|(_, list)| list.as_array_mut()) {
        Some(all) => {
            for one in all.iter_mut().filter_map(Value::as_object_mut) {
                fill(one, user);
            }
        }
        None => fill(vsphere, "username"),
    }
}
