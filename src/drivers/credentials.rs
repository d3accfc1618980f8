//! Gives a platform's credentials to its installer: in files, in its environment, or in the
//! install-config. Never as arguments, which every user of the machine can see. Files that cannot
//! be read are skipped.

mod check;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::yaml;

pub use check::{authentication_url, find_missing_credential};

use super::site;
use super::task::Task;

/// The file with OpenStack's credentials, and the variable that holds its path.
const CLOUDS: &str = "clouds.yaml";
const CLOUDS_VARIABLE: &str = "OS_CLIENT_CONFIG_FILE";
/// The file with the authorities of a cloud.
const CLOUD_AUTHORITY: &str = "cloud-authorities.pem";
/// The file with oVirt's credentials, which is also a key of its Secret, and the variable that holds
/// its path.
const OVIRT_CONFIG: &str = "ovirt-config.yaml";
const OVIRT_VARIABLE: &str = "OVIRT_CONFIG";
/// Keys of a cloud's Secret whose values the installer reads from a file, and the environment
/// variable that holds the path of the file.
const FILE_VARIABLES: [(&str, &str); 4] = [
    (CLOUDS, CLOUDS_VARIABLE),
    (OVIRT_CONFIG, OVIRT_VARIABLE),
    ("osServicePrincipal.json", "AZURE_AUTH_LOCATION"),
    ("osServiceAccount.json", "GOOGLE_APPLICATION_CREDENTIALS"),
];
/// Keys of a cloud's Secret whose values the installer reads from an environment variable, and that
/// variable.
const VALUE_VARIABLES: [(&str, &str); 3] = [
    ("aws_access_key_id", "AWS_ACCESS_KEY_ID"),
    ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("ibmcloud_api_key", "IC_API_KEY"),
];
/// Words in credentials that make a cloud tool start a program (`credential_process`) or take
/// credentials from elsewhere (`credential_source`).
const REFUSED_WORDS: [&str; 2] = ["credential_process", "credential_source"];

/// Returns the environment of the installer: the variables of the order, those whose values came
/// from Secrets, and those of the credentials. The error is a sentence for people.
pub fn installer_environment(task: &Task) -> Result<BTreeMap<String, String>, String> {
    let mut environment = task.order.environment.clone();
    environment.extend(read_inputs(task, "environment"));
    let credentials = read_credentials(task);
    if let Some(path) = write_ovirt_config(task, &credentials)? {
        environment.insert(OVIRT_VARIABLE.to_owned(), path.display().to_string());
    }
    for (key, value) in credentials {
        let lower_case = value.to_lowercase();
        if let Some(word) = REFUSED_WORDS.iter().find(|word| lower_case.contains(**word)) {
            return Err(format!(
                "credentials key `{key}` contains `{word}`, which poolctl does not pass on"
            ));
        }
        for (file_key, variable) in FILE_VARIABLES {
            if file_key == key {
                let path = credential_path(task, &key).display().to_string();
                environment.insert(variable.to_owned(), path);
            }
        }
        for (value_key, variable) in VALUE_VARIABLES {
            if value_key == key {
                environment.insert(variable.to_owned(), value.trim().to_owned());
            }
        }
    }
    if let Some(path) = write_clouds_with_authority(task)? {
        environment.insert(CLOUDS_VARIABLE.to_owned(), path.display().to_string());
    }
    site::add_variables(task, &mut environment)?;
    Ok(environment)
}

/// The values of the credentials by key.
fn read_credentials(task: &Task) -> BTreeMap<String, String> {
    read_inputs(task, "credentials")
}

/// The values in a folder of the inputs, by the names of their files. Files that cannot be read or
/// are not UTF-8 are skipped.
fn read_inputs(task: &Task, folder: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for entry in fs::read_dir(task.job_folder.input_path(folder)).into_iter().flatten().flatten() {
        if let Ok(name) = entry.file_name().into_string()
            && let Ok(value) = fs::read_to_string(entry.path())
        {
            values.insert(name, value);
        }
    }
    values
}

fn read_credential(task: &Task, key: &str) -> Option<String> {
    Some(fs::read_to_string(credential_path(task, key)).ok()?.trim().to_owned())
}

fn credential_path(task: &Task, key: &str) -> PathBuf {
    task.job_folder.input_path("credentials").join(key)
}

/// Puts into an install-config the secrets that the installer reads there, and what a cluster needs
/// of the site, where a template does not have its own.
pub fn complete_install_config(task: &Task, document: &mut Value) {
    site::complete_install_config(task, document);
    if document["pullSecret"].as_str().is_none_or(str::is_empty)
        && let Ok(pull_secret) = fs::read_to_string(task.job_folder.input_path("pull-secret.json"))
    {
        document["pullSecret"] = pull_secret.trim().into();
    }
    if let Some(vsphere) = document.pointer_mut("/platform/vsphere").and_then(Value::as_object_mut)
    {
        fill_in_logins(task, vsphere, "user");
    }
    if let Some(prism_central) =
        document.pointer_mut("/platform/nutanix/prismCentral").and_then(Value::as_object_mut)
        && let Some(login) = find_login(task, None)
    {
        login.fill_in(prism_central, "username");
    }
}

/// Replaces the logins in the metadata by the current ones; destroying a cluster reads them. They
/// may have changed since the installation.
pub fn complete_metadata(task: &Task, metadata: &mut Value) {
    if let Some(nutanix) = metadata.get_mut("nutanix").and_then(Value::as_object_mut)
        && let Some(login) = find_login(task, None)
    {
        remove_login(nutanix);
        login.fill_in(nutanix, "username");
    }
    let Some(vsphere) = metadata.get_mut("vsphere").and_then(Value::as_object_mut) else { return };
    remove_login(vsphere);
    for (_, value) in vsphere.iter_mut().filter(|(name, _)| is_vcenter_list(name)) {
        let vcenters = value.as_array_mut().into_iter().flatten();
        for vcenter in vcenters.filter_map(Value::as_object_mut) {
            remove_login(vcenter);
        }
    }
    fill_in_logins(task, vsphere, "username");
}

fn remove_login(vcenter: &mut Map<String, Value>) {
    for field in ["username", "password"] {
        vcenter.remove(field);
    }
}

/// Who an installer logs in as. The key `vcenters` of a Secret lists one for each vCenter.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Login {
    #[serde(default)]
    v_center: String,
    username: String,
    password: String,
}

impl Login {
    /// Fills in user and password where they are missing. `user_field` is the name of the user's
    /// field.
    fn fill_in(&self, fields: &mut Map<String, Value>, user_field: &str) {
        for (field, value) in [(user_field, &self.username), ("password", &self.password)] {
            if fields.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                fields.insert(field.to_owned(), value.as_str().into());
            }
        }
    }
}

/// The login of a server: the one that the credentials list for it, or else the one that they have
/// for all.
fn find_login(task: &Task, server: Option<&str>) -> Option<Login> {
    let listed_logins = read_listed_logins(task).unwrap_or_default();
    let login = listed_logins
        .into_iter()
        .find(|login| server.is_some_and(|server| login.v_center.eq_ignore_ascii_case(server)));
    if login.is_some() {
        return login;
    }
    Some(Login {
        v_center: String::new(),
        username: read_credential(task, "username")?,
        password: read_credential(task, "password")?,
    })
}

/// The logins of the key `vcenters`; none if there is no such key, or no list in it.
fn read_listed_logins(task: &Task) -> Option<Vec<Login>> {
    let list = yaml::parse_value(&read_credential(task, "vcenters")?).ok()?;
    serde_json::from_value(list).ok()
}

/// Fills in user and password where they are missing: in each entry of the list of vCenters, or in
/// `vsphere` itself, as installers before 4.13 have them. `user_field` is the name of the user's
/// field in the list.
fn fill_in_logins(task: &Task, vsphere: &mut Map<String, Value>, user_field: &str) {
    let list = vsphere.iter_mut().find(|(name, _)| is_vcenter_list(name));
    if let Some(vcenters) = list.and_then(|(_, value)| value.as_array_mut()) {
        for vcenter in vcenters.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(login) = find_login(task, server_of(vcenter)) {
                login.fill_in(vcenter, user_field);
            }
        }
    } else if let Some(login) = find_login(task, server_of(vsphere)) {
        login.fill_in(vsphere, "username");
    }
}

/// The name of a vCenter, which documents have under different names.
fn server_of(vcenter: &Map<String, Value>) -> Option<&str> {
    ["server", "vCenter", "VCenter"].into_iter().find_map(|field| vcenter.get(field)?.as_str())
}

/// The installer spells it `vcenters` in one document and `VCenters` in another.
fn is_vcenter_list(name: &str) -> bool {
    name.eq_ignore_ascii_case("vcenters")
}

/// Writes the file that the installer reads oVirt's credentials from, unless the Secret has it
/// whole. Returns its path; none for another platform.
fn write_ovirt_config(
    task: &Task,
    credentials: &BTreeMap<String, String>,
) -> Result<Option<PathBuf>, String> {
    if credentials.contains_key(OVIRT_CONFIG) || !credentials.contains_key("ovirt_url") {
        return Ok(None);
    }
    let mut config = Map::new();
    for (key, value) in credentials.iter().filter(|(key, _)| key.starts_with("ovirt_")) {
        config.insert(key.clone(), value.trim().into());
    }
    let authorities = site::read_platform_certificates(&task.job_folder);
    if !config.contains_key("ovirt_ca_bundle") && !authorities.is_empty() {
        config.insert("ovirt_ca_bundle".to_owned(), authorities.into());
    }
    let content = yaml::to_text(&Value::Object(config)).map_err(|error| error.to_string())?;
    task.job_folder
        .write_file(OVIRT_CONFIG, content.as_bytes())
        .map_err(|error| format!("{OVIRT_CONFIG}: {error}"))?;
    Ok(Some(task.job_folder.file_path(OVIRT_CONFIG)))
}

/// Writes clouds.yaml with the authorities of the platform as `cacert` of each cloud that names no
/// such file, or one that is not here. The installer gives that file to the cluster, too, and trusts
/// no other authority for that cloud. Returns its path; none if there is nothing to add.
fn write_clouds_with_authority(task: &Task) -> Result<Option<PathBuf>, String> {
    let authorities = site::read_platform_certificates(&task.job_folder);
    let Some(clouds) = read_credential(task, CLOUDS) else { return Ok(None) };
    // What is no YAML is for the installer to refuse.
    let Ok(mut document) = yaml::parse_value(&clouds) else { return Ok(None) };
    if authorities.is_empty() {
        return Ok(None);
    }
    let authority_path = task.job_folder.file_path(CLOUD_AUTHORITY);
    for (_, settings) in
        document.get_mut("clouds").and_then(Value::as_object_mut).into_iter().flatten()
    {
        let Some(cloud) = settings.as_object_mut() else { continue };
        let named_path = cloud.get("cacert").and_then(Value::as_str).unwrap_or_default();
        if !Path::new(named_path).is_file() {
            cloud.insert("cacert".to_owned(), authority_path.display().to_string().into());
        }
    }
    let content = yaml::to_text(&document).map_err(|error| error.to_string())?;
    // Among the inputs its secrets are hidden from the log, as they are in the original.
    let path = format!("input/{CLOUDS}");
    for (name, content) in [(path.as_str(), &content), (CLOUD_AUTHORITY, &authorities)] {
        task.job_folder
            .write_file(name, content.as_bytes())
            .map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(Some(task.job_folder.file_path(&path)))
}
