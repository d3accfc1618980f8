//! Looks whether the credentials of a platform are whole, before anybody logs in with them. Whether
//! they are accepted only the platform can tell.

use std::fs;

use serde_json::{Map, Value};

use crate::drivers::task::Task;
use crate::yaml;

use super::{
    CLOUDS, complete_install_config, is_vcenter_list, read_credential, read_listed_logins,
    server_of,
};

/// What the credentials lack that the installer needs, in a clause with the key; none if they lack
/// nothing, or if it is not known what the platform needs.
pub fn find_missing_credential(task: &Task) -> Option<String> {
    let mut document = read_install_config(task)?;
    if let Some(cloud) = document["platform"]["openstack"]["cloud"].as_str() {
        return find_problem_of_clouds(task, cloud);
    }
    // The list of logins counts only if it can be read.
    if read_credential(task, "vcenters").is_some() && read_listed_logins(task).is_none() {
        return Some(
            "key `vcenters` is no list of logins, each with vCenter, username and password".into(),
        );
    }
    // Then each server that still has no login gets none.
    complete_install_config(task, &mut document);
    let platform = &document["platform"];
    if let Some(prism_central) = platform["nutanix"]["prismCentral"].as_object() {
        return lacks_login(prism_central, "username").then(|| describe_missing_keys(task));
    }
    let vsphere = platform["vsphere"].as_object()?;
    let list = vsphere.iter().find(|(name, _)| is_vcenter_list(name));
    let Some((_, vcenters)) = list else {
        return lacks_login(vsphere, "username").then(|| describe_missing_keys(task));
    };
    let mut vcenters = vcenters.as_array().into_iter().flatten().filter_map(Value::as_object);
    let vcenter = vcenters.find(|vcenter| lacks_login(vcenter, "user"))?;
    if read_credential(task, "vcenters").is_none() {
        return Some(describe_missing_keys(task));
    }
    let server = server_of(vcenter).unwrap_or_default();
    Some(format!("key `vcenters` has no login of `{server}`"))
}

/// The URL at which the cloud of OpenStack is logged in to.
pub fn authentication_url(task: &Task) -> Option<String> {
    let document = read_install_config(task)?;
    let cloud = document["platform"]["openstack"]["cloud"].as_str()?;
    let clouds = yaml::parse_value(&read_credential(task, CLOUDS)?).ok()?;
    clouds["clouds"][cloud]["auth"]["auth_url"].as_str().map(str::to_owned)
}

fn read_install_config(task: &Task) -> Option<Value> {
    let content = fs::read_to_string(task.job_folder.input_path("install-config.yaml")).ok()?;
    yaml::parse_value(&content).ok().filter(Value::is_object)
}

fn find_problem_of_clouds(task: &Task, cloud: &str) -> Option<String> {
    let Some(content) = read_credential(task, CLOUDS) else {
        return Some(format!("there is no key `{CLOUDS}`"));
    };
    let document = match yaml::parse_value(&content) {
        Ok(document) => document,
        Err(error) => return Some(format!("key `{CLOUDS}` is no YAML: {error}")),
    };
    match document["clouds"].as_object() {
        Some(clouds) if clouds.contains_key(cloud) => None,
        Some(clouds) => {
            let names: Vec<&str> = clouds.keys().map(String::as_str).collect();
            Some(format!("key `{CLOUDS}` has no cloud `{cloud}`, but: {}", names.join(", ")))
        }
        None => Some(format!("key `{CLOUDS}` has no clouds, so no cloud `{cloud}`")),
    }
}

/// Whether user or password is missing. `user_field` is the name of the user's field.
fn lacks_login(fields: &Map<String, Value>, user_field: &str) -> bool {
    [user_field, "password"]
        .into_iter()
        .any(|field| fields.get(field).and_then(Value::as_str).is_none_or(str::is_empty))
}

/// Says which of the keys with the login for all servers are missing.
fn describe_missing_keys(task: &Task) -> String {
    let mut keys = vec!["`username`", "`password`"];
    keys.retain(|key| {
        read_credential(task, key.trim_matches('`')).is_none_or(|value| value.is_empty())
    });
    format!("there is no value under {}", keys.join(" and "))
}
