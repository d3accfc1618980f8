//! What the types of a host's fields do not say, and that a machine is one host only.

use std::collections::HashMap;

use crate::model::agent::is_own_label;
use crate::model::bmc::Address;
use crate::model::hardware::mac;
use crate::model::host::{AGENT_LABEL, BareMetalHost, CLUSTER_REFERENCE, NODE_LABEL, ROLE};
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::annotations;
use super::names::{label, label_key, label_value, name_of};
use crate::model::kinds::Kind;

const ROLES: [&str; 3] = ["master", "worker", "auto-assign"];
const FETCHED: [&str; 4] = ["http", "https", "nfs", "cifs"];

pub fn check(host: &BareMetalHost) -> Result<(), String> {
    let spec = &host.spec;
    if let Some(bmc) = &spec.bmc {
        bmc.address.parse::<Address>().map_err(|why| format!("spec.bmc.address: {why}"))?;
        name_of(Kind::Secret, &bmc.credentials_name)
            .map_err(|why| format!("spec.bmc.credentialsName: {}", why.what))?;
    }
    if !spec.boot_mac_address.is_empty() {
        mac(&spec.boot_mac_address).map_err(|why| format!("spec.bootMACAddress: {why}"))?;
    }
    if let Some(image) = spec.image.as_ref().filter(|image| image.is_live()) {
        let url = url::Url::parse(&image.url);
        let known = url.as_ref().is_ok_and(|url| FETCHED.contains(&url.scheme()) && url.has_host());
        let secret =
            url.as_ref().is_ok_and(|url| !url.username().is_empty() || url.password().is_some());
        if secret {
            // Not said again: it is shown to everybody who may look at the host.
            return Err("spec.image.url: has a user in it, which anybody would see".into());
        }
        if !known || image.url.chars().any(|one| one.is_control() || one == ' ') {
            let all = FETCHED.join(", ");
            return Err(format!("spec.image.url: no address by {all} that a BMC could fetch"));
        }
    }
    if let Some(user) = &spec.consumer_ref
        && !user.namespace.is_empty()
    {
        label("spec.consumerRef.namespace", &user.namespace).map_err(|why| why.what)?;
    }
    notes(host)
}

fn notes(host: &BareMetalHost) -> Result<(), String> {
    for (name, value) in host.annotations() {
        let wrong = |why: &str| Err(format!("annotation {name}: `{value}` {why}"));
        annotations::check_one(Kind::BareMetalHost, name, value)?;
        match name.as_str() {
            ROLE if !ROLES.contains(&&**value) => {
                return wrong(&format!("is not one of {}", ROLES.join(", ")));
            }
            CLUSTER_REFERENCE if !is_reference(value) => {
                return wrong("is not NAMESPACE/NAME of a cluster, or empty for none");
            }
            _ => {}
        }
        let key = [NODE_LABEL, AGENT_LABEL].into_iter().find_map(|one| name.strip_prefix(one));
        if let Some(key) = key {
            if !label_key(key) || !label_value(value) {
                return wrong("makes no label");
            }
            if name.starts_with(AGENT_LABEL) && is_own_label(key) {
                return Err(format!("annotation {name}: label {key} is poolctl's to set"));
            }
        }
    }
    Ok(())
}

/// A cluster by its namespace and name, or nothing.
fn is_reference(text: &str) -> bool {
    let good = |(namespace, name): (&str, &str)| {
        [(Kind::Namespace, namespace), (Kind::ClusterDeployment, name)]
            .into_iter()
            .all(|(kind, name)| name_of(kind, name).is_ok())
    };
    text.is_empty() || text.split_once('/').is_some_and(good)
}

/// What is accepted but worth a word.
pub fn warnings(host: &BareMetalHost) -> Vec<String> {
    let (name, mut found) = (&host.metadata.name, Vec::new());
    let Some(bmc) = &host.spec.bmc else { return found };
    let redfish = matches!(host.address(), Some(Address::Redfish { .. }));
    if bmc.disable_certificate_verification && redfish {
        found.push(format!(
            "host `{name}`: disableCertificateVerification lets anybody on the way read the password"
        ));
    }
    if host.address().is_some_and(|address| address.is_plain()) {
        found.push(format!("host `{name}`: +http sends the password as plain text"));
    }
    let other = host.spec.image.as_ref().filter(|image| !image.is_live());
    if let Some(image) = other {
        found.push(format!(
            "host `{name}`: spec.image of format `{}` has no effect; only live-iso is attached",
            image.format
        ));
    }
    found
}

/// No two hosts have one boot address or one controller.
pub fn are_different(state: &State) -> Result<(), Refusal> {
    if state.hosts.difference().next().is_none() {
        return Ok(());
    }
    let (mut macs, mut bmcs) = (HashMap::new(), HashMap::new());
    for host in state.hosts.rows() {
        let mac = Some(host.spec.boot_mac_address.to_lowercase()).filter(|mac| !mac.is_empty());
        let bmc = host.address().map(|address| address.controller());
        let other = mac.clone().and_then(|mac| macs.insert(mac, host.key()));
        let (what, other) = match other {
            Some(other) => ("bootMACAddress", other),
            None => match bmc.clone().and_then(|bmc| bmcs.insert(bmc, host.key())) {
                Some(other) => ("bmc.address", other),
                None => continue,
            },
        };
        let value = if what == "bmc.address" { bmc } else { mac }.unwrap_or_default();
        return Err(Refusal::conflict(format!(
            "hosts `{other}` and `{}` would be one machine: both have {what} {value}",
            host.key()
        )));
    }
    Ok(())
}
