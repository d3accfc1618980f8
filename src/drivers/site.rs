//! Gives to the programs of a job what the Settings say of the site: proxies, certificates, mirrors
//! and a folder for what they download. Whatever a cluster says itself is never replaced.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::model::infra_env::Proxy;
use crate::model::site::Site;

use super::job_folder::JobFolder;
use super::task::Task;
use super::trust_store::{certificates_in, write_bundle};

/// The variable with the file of all certificate authorities that a program trusts.
const TRUST: &str = "SSL_CERT_FILE";
/// The variable with the folder in which programs keep what they download.
const CACHE: &str = "XDG_CACHE_HOME";

/// The environment of a program that reaches the world outside of this machine. The error is for
/// people.
pub fn program_environment(task: &Task) -> Result<BTreeMap<String, String>, String> {
    let mut environment = BTreeMap::new();
    add_variables(task, &mut environment)?;
    Ok(environment)
}

/// Adds the variables of the site to those of a cluster, which are preferred.
pub fn add_variables(
    task: &Task,
    environment: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    if let Some(proxy) = read_proxy(&task.job_folder) {
        add_proxy_variables(&proxy, environment);
    }
    let certificates = read_certificates(&task.job_folder);
    add_folder_variables(&cache_directory(task), &certificates, environment)
}

/// Makes the folder for downloads. A program that could not use it would fail late, and say
/// something else. The error is for people.
pub fn make_cache_directory(task: &Task) -> Result<(), String> {
    let cache = cache_directory(task);
    fs::create_dir_all(&cache).map_err(|error| {
        let shown = cache.display();
        format!("the directory {shown} of spec.site.cacheDirectory cannot be made: {error}")
    })
}

/// The environment of a program outside of a job. The error is for people.
pub fn environment_in_site(site: &Site, cache: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut environment = BTreeMap::new();
    if let Some(proxy) = &site.proxy {
        add_proxy_variables(proxy, &mut environment);
    }
    add_folder_variables(cache, &certificates_in(&site.trust_bundle), &mut environment)?;
    Ok(environment)
}

/// Adds the variables with the folder for downloads, and with the file of all authorities if there
/// are more of them than the system has.
fn add_folder_variables(
    cache: &Path,
    certificates: &str,
    environment: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    if !certificates.is_empty() {
        let bundle = write_bundle(cache, certificates)
            .map_err(|error| format!("{}: {error}", cache.display()))?;
        environment.insert(TRUST.to_owned(), bundle.display().to_string());
    }
    environment.insert(CACHE.to_owned(), cache.display().to_string());
    Ok(())
}

/// Adds the variables of a proxy in both spellings, because some programs read only one of them.
/// Where a variable is there in either spelling, both stay as they are.
fn add_proxy_variables(proxy: &Proxy, environment: &mut BTreeMap<String, String>) {
    for (name, value) in [
        ("HTTP_PROXY", &proxy.http_proxy),
        ("HTTPS_PROXY", &proxy.https_proxy),
        ("NO_PROXY", &proxy.no_proxy),
    ] {
        let spellings = [name.to_owned(), name.to_lowercase()];
        let is_set = spellings.iter().any(|spelling| environment.contains_key(spelling));
        if value.is_empty() || is_set {
            continue;
        }
        for spelling in spellings {
            environment.insert(spelling, value.clone());
        }
    }
}

/// Puts into an install-config what a cluster needs to live in the site, where it says nothing of
/// it itself.
pub fn complete_install_config(task: &Task, document: &mut Value) {
    let proxy = read_proxy(&task.job_folder);
    let Some(fields) = document.as_object_mut() else { return };
    if let Some(proxy) = proxy
        && !fields.contains_key("proxy")
    {
        fields.insert("proxy".to_owned(), json!(proxy));
    }
    if let Some(trust_bundle) = read_trust_bundle(&task.job_folder)
        && !fields.contains_key("additionalTrustBundle")
    {
        fields.insert("additionalTrustBundle".to_owned(), trust_bundle.into());
    }
    let mirrors = &task.order.site.mirrors;
    let names_sources =
        fields.contains_key("imageDigestSources") || fields.contains_key("imageContentSources");
    if !mirrors.is_empty() && !names_sources {
        fields.insert("imageDigestSources".to_owned(), image_sources(mirrors));
    }
}

/// The mirrors as an install-config and an `ImageDigestMirrorSet` have them.
fn image_sources(mirrors: &BTreeMap<String, Vec<String>>) -> Value {
    mirrors.iter().map(|(source, mirrors)| json!({"source": source, "mirrors": mirrors})).collect()
}

/// The mirrors as a file for oc; none if there are no mirrors.
pub fn mirror_set(mirrors: &BTreeMap<String, Vec<String>>) -> Option<Value> {
    if mirrors.is_empty() {
        return None;
    }
    Some(json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ImageDigestMirrorSet",
        "metadata": {"name": "site"},
        "spec": {"imageDigestMirrors": image_sources(mirrors)},
    }))
}

/// All certificates that are trusted beside those of the system.
pub fn read_certificates(job_folder: &JobFolder) -> String {
    let mut certificates =
        read_trust_bundle(job_folder).map(|bundle| certificates_in(&bundle)).unwrap_or_default();
    certificates.push_str(&read_certificates_of_folder(job_folder, "site/authorities"));
    certificates.push_str(&read_platform_certificates(job_folder));
    certificates
}

/// The certificates that the cluster's platform names, by which its API is trusted.
pub fn read_platform_certificates(job_folder: &JobFolder) -> String {
    read_certificates_of_folder(job_folder, "certificates")
}

fn read_certificates_of_folder(job_folder: &JobFolder, folder: &str) -> String {
    let mut certificates = String::new();
    for path in list_files(&job_folder.input_path(folder)) {
        let content = fs::read_to_string(path).unwrap_or_default();
        certificates.push_str(&certificates_in(&content));
    }
    certificates
}

/// The files of a folder in the order of their names, so that the same certificates make the same
/// bundle.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

/// The proxies of the site, if it has any.
pub fn read_proxy(job_folder: &JobFolder) -> Option<Proxy> {
    serde_json::from_slice(&fs::read(job_folder.input_path("site/proxy.json")).ok()?).ok()
}

fn read_trust_bundle(job_folder: &JobFolder) -> Option<String> {
    fs::read_to_string(job_folder.input_path("site/trust.pem")).ok()
}

/// The folder that jobs share for what they download. An order of an earlier version names none.
pub fn cache_directory(task: &Task) -> PathBuf {
    let directory = &task.order.site.cache_directory;
    if !directory.as_os_str().is_empty() {
        return directory.clone();
    }
    let jobs = task.job_folder.path().parent();
    jobs.and_then(Path::parent).unwrap_or(Path::new("/")).join("cache")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_of_the_cluster_is_preferred() {
        let proxy = Proxy {
            http_proxy: "http://a".into(),
            https_proxy: "http://b".into(),
            no_proxy: String::new(),
        };
        let mut environment = BTreeMap::from([("https_proxy".to_owned(), "http://c".to_owned())]);
        add_proxy_variables(&proxy, &mut environment);
        let variables: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected =
            [("HTTP_PROXY", "http://a"), ("http_proxy", "http://a"), ("https_proxy", "http://c")];
        assert_eq!(variables, expected);
    }
}
