//! Validates hosts, and refuses two hosts that would be one machine. Never asks a management
//! controller.

use std::collections::{HashMap, HashSet};

use crate::model::agent::is_own_label;
use crate::model::bmc::BmcAddress;
use crate::model::hardware::check_mac_address;
use crate::model::host::{
    AGENT_LABEL_PREFIX, BareMetalHost, CLUSTER_REFERENCE, NODE_LABEL_PREFIX, ROLE_ANNOTATION,
};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::annotations;
use super::names::{check_dns_label, check_name, is_label_key, is_label_value};

const ROLES: [&str; 3] = ["master", "worker", "auto-assign"];
/// The schemes by which a management controller can fetch an image.
const IMAGE_SCHEMES: [&str; 4] = ["http", "https", "nfs", "cifs"];

/// The first problem of a host.
pub fn check(host: &BareMetalHost) -> Result<(), String> {
    let spec = &host.spec;
    if let Some(bmc) = &spec.bmc {
        bmc.address.parse::<BmcAddress>().map_err(|why| format!("spec.bmc.address: {why}"))?;
        check_name(Kind::Secret, &bmc.credentials_name)
            .map_err(|why| format!("spec.bmc.credentialsName: {}", why.what))?;
    }
    if !spec.boot_mac_address.is_empty() {
        check_mac_address(&spec.boot_mac_address)
            .map_err(|why| format!("spec.bootMACAddress: {why}"))?;
    }
    if let Some(image) = &spec.image
        && image.is_live()
    {
        check_image_url(&image.url)?;
    }
    if let Some(consumer) = &spec.consumer_ref
        && !consumer.namespace.is_empty()
    {
        check_dns_label("spec.consumerRef.namespace", &consumer.namespace)
            .map_err(|why| why.what)?;
    }
    host.annotations().iter().try_for_each(|(name, value)| check_annotation(name, value))
}

fn check_image_url(address: &str) -> Result<(), String> {
    let url = url::Url::parse(address);
    let has_login =
        url.as_ref().is_ok_and(|url| !url.username().is_empty() || url.password().is_some());
    if has_login {
        // The message leaves the URL out: everybody who may look at the host would see it.
        let problem = "it contains a user name, which everyone who can read the host would see";
        return Err(format!("spec.image.url: {problem}"));
    }
    let is_fetchable = url.is_ok_and(|url| IMAGE_SCHEMES.contains(&url.scheme()) && url.has_host());
    if !is_fetchable || address.chars().any(|letter| letter.is_control() || letter == ' ') {
        let schemes = IMAGE_SCHEMES.join(", ");
        return Err(format!(
            "spec.image.url: it must be a URL with a host and one of the schemes {schemes}"
        ));
    }
    Ok(())
}

fn check_annotation(name: &str, value: &str) -> Result<(), String> {
    annotations::check_value(Kind::BareMetalHost, name, value)?;
    let problem = match name {
        ROLE_ANNOTATION if !ROLES.contains(&value) => format!("is not one of {}", ROLES.join(", ")),
        CLUSTER_REFERENCE if !is_cluster_reference(value) => {
            "is neither NAMESPACE/NAME of a cluster nor empty".into()
        }
        _ => return check_label_annotation(name, value),
    };
    Err(format!("annotation {name}: `{value}` {problem}"))
}

/// Some annotations become labels of the node or of the agent: the rest of their name is the key.
fn check_label_annotation(name: &str, value: &str) -> Result<(), String> {
    let agent_key = name.strip_prefix(AGENT_LABEL_PREFIX);
    let Some(key) = name.strip_prefix(NODE_LABEL_PREFIX).or(agent_key) else { return Ok(()) };
    if !is_label_key(key) || !is_label_value(value) {
        return Err(format!("annotation {name}: `{value}` is not a label"));
    }
    if agent_key.is_some_and(is_own_label) {
        return Err(format!("annotation {name}: only poolctl sets label {key}"));
    }
    Ok(())
}

/// Whether a text is the namespace and name of a cluster, or empty.
fn is_cluster_reference(reference: &str) -> bool {
    if reference.is_empty() {
        return true;
    }
    let Some((namespace, name)) = reference.split_once('/') else { return false };
    check_name(Kind::Namespace, namespace).is_ok()
        && check_name(Kind::ClusterDeployment, name).is_ok()
}

/// What is accepted, but probably not what was meant.
pub fn warnings(host: &BareMetalHost) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(bmc) = &host.spec.bmc else { return warnings };
    let name = &host.metadata.name;
    let is_redfish = matches!(host.bmc_address(), Some(BmcAddress::Redfish { .. }));
    if bmc.disable_certificate_verification && is_redfish {
        warnings.push(format!(
            "host `{name}`: with disableCertificateVerification, an attacker on the network can \
             read the password"
        ));
    }
    if let Some(ip) = host.bmc_address().and_then(|address| address.hidden_ipv4(&bmc.address)) {
        let spelling = &bmc.address;
        warnings.push(format!(
            "host `{name}`: `{spelling}` means {ip}: numbers that begin with 0 are octal, and those \
             that are missing are part of the last one; write {ip}"
        ));
    }
    if host.bmc_address().is_some_and(|address| address.is_unencrypted()) {
        warnings.push(format!("host `{name}`: +http sends the password as plain text"));
    }
    if let Some(image) = &host.spec.image
        && !image.is_live()
    {
        warnings.push(format!(
            "host `{name}`: spec.image of format `{}` has no effect; only live-iso is attached",
            image.format
        ));
    }
    warnings
}

/// The hosts that are new, or whose boot address or controller was changed.
fn list_changed_machines(state: &State) -> HashSet<Key> {
    let mut changed_keys = HashSet::new();
    for change in state.hosts.difference() {
        let Some(after) = change.after else { continue };
        let is_same = change.before.is_some_and(|before| {
            before.spec.boot_mac_address == after.spec.boot_mac_address
                && controller_as_written(before) == controller_as_written(after)
        });
        if !is_same {
            changed_keys.insert(after.key());
        }
    }
    changed_keys
}

fn controller_as_written(host: &BareMetalHost) -> Option<&str> {
    host.spec.bmc.as_ref().map(|bmc| bmc.address.as_str())
}

/// Refuses two hosts with one boot address or one management controller, if one of them is new or
/// was changed: a state may have two from the time when their spellings were told apart, and passes
/// go on with it.
pub fn check_machines_differ(state: &State) -> Result<(), Refusal> {
    let changed_keys = list_changed_machines(state);
    if changed_keys.is_empty() {
        return Ok(());
    }
    let mut hosts_by_mac = HashMap::new();
    let mut hosts_by_controller = HashMap::new();
    for host in state.hosts.rows() {
        let mac_address = host.spec.boot_mac_address.to_lowercase();
        if !mac_address.is_empty()
            && let Some(twin) = hosts_by_mac.insert(mac_address.clone(), host.key())
            && (changed_keys.contains(&twin) || changed_keys.contains(&host.key()))
        {
            return Err(refuse_twins(&twin, &host.key(), "bootMACAddress", &mac_address));
        }
        let Some(controller) = host.bmc_address().map(|address| address.canonical_name()) else {
            continue;
        };
        if let Some(twin) = hosts_by_controller.insert(controller.clone(), host.key())
            && (changed_keys.contains(&twin) || changed_keys.contains(&host.key()))
        {
            return Err(refuse_twins(&twin, &host.key(), "bmc.address", &controller));
        }
    }
    Ok(())
}

fn refuse_twins(first: &Key, second: &Key, field: &str, value: &str) -> Refusal {
    Refusal::conflict(format!(
        "hosts `{first}` and `{second}` would be one machine: both have {field} {value}"
    ))
}
