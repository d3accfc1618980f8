//! What the spec of an object must say, what must not stand beside what, and what cannot be changed
//! later: after Hive's validating webhooks and the limits of its CRDs. Whether a Secret or another
//! object that a spec names exists is not its matter.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model::driver::Driver;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::names::check_dns_label;
use super::problems::refuse_problems;

use Need::{AtMostOneOf, DnsName, OneOf, OnePlatform, Required};
use When::{Set, Unset};

/// What is needed of the spec of some kinds of objects.
struct Rule {
    kinds: &'static [Kind],
    /// The rule holds for a spec that meets all of these.
    when: &'static [When],
    need: Need,
}

/// A condition on one field, named by its path from `spec` on.
enum When {
    Set(&'static str),
    Unset(&'static str),
}

enum Need {
    /// The field is set.
    Required(&'static str),
    /// One of the fields is set.
    OneOf(&'static [&'static str]),
    /// Not several of the fields are set.
    AtMostOneOf(&'static [&'static str]),
    /// Exactly one platform is set.
    OnePlatform,
    /// The field is a name in DNS of at most 63 characters.
    DnsName(&'static str),
}

/// A rule that a spec breaks.
#[derive(PartialEq, Eq)]
enum Problem {
    /// The field is missing; of several, one would do.
    Missing(String),
    /// Any other, in a sentence without a full stop.
    Wrong(String),
}

const fn rule(kinds: &'static [Kind], when: &'static [When], need: Need) -> Rule {
    Rule { kinds, when, need }
}

const CLUSTERS: &[Kind] = &[Kind::ClusterDeployment];
const BOTH: &[Kind] = &[Kind::ClusterPool, Kind::ClusterDeployment];

const AWS: &[When] = &[Set("spec.platform.aws")];
const AWS_LOGINS: &[&str] =
    &["spec.platform.aws.credentialsSecretRef.name", "spec.platform.aws.credentialsAssumeRole"];
const AZURE: &[When] = &[Set("spec.platform.azure")];
const GCP: &[When] = &[Set("spec.platform.gcp")];
const IBMCLOUD: &[When] = &[Set("spec.platform.ibmcloud")];
const NUTANIX: &[When] = &[Set("spec.platform.nutanix")];
const OPENSTACK: &[When] = &[Set("spec.platform.openstack")];
const OVIRT: &[When] = &[Set("spec.platform.ovirt")];
const VSPHERE: &[When] = &[Set("spec.platform.vsphere")];
/// Its settings stand in single fields, as Hive had them first.
const VSPHERE_BY_FIELDS: &[When] =
    &[Set("spec.platform.vsphere"), Unset("spec.platform.vsphere.infrastructure")];
const TO_INSTALL: &[When] = &[Set("spec.provisioning"), Unset("spec.installed")];
const MANIFESTS: &[&str] =
    &["spec.provisioning.manifestsSecretRef", "spec.provisioning.manifestsConfigMapRef"];

/// Every rule, those of the platforms in the order of their names. Two of Hive's are left out: a
/// key for libvirt, because baremetal does without it here, and a domain of the cloud for
/// `manageDNS`, because that has no effect.
const RULES: &[Rule] = &[
    rule(CLUSTERS, &[], OnePlatform),
    rule(
        BOTH,
        &[Set("spec.platform.agentBareMetal")],
        Required("spec.platform.agentBareMetal.agentSelector"),
    ),
    rule(BOTH, AWS, Required("spec.platform.aws.region")),
    rule(BOTH, AWS, OneOf(AWS_LOGINS)),
    rule(BOTH, AWS, AtMostOneOf(AWS_LOGINS)),
    rule(BOTH, AZURE, Required("spec.platform.azure.region")),
    rule(BOTH, AZURE, Required("spec.platform.azure.credentialsSecretRef.name")),
    rule(BOTH, AZURE, Required("spec.platform.azure.baseDomainResourceGroupName")),
    rule(BOTH, GCP, Required("spec.platform.gcp.region")),
    rule(BOTH, GCP, Required("spec.platform.gcp.credentialsSecretRef.name")),
    rule(BOTH, IBMCLOUD, Required("spec.platform.ibmcloud.region")),
    rule(BOTH, IBMCLOUD, Required("spec.platform.ibmcloud.credentialsSecretRef.name")),
    rule(
        CLUSTERS,
        &[Set("spec.platform.ibmcloud"), Set("spec.provisioning"), Unset("spec.installed")],
        OneOf(MANIFESTS),
    ),
    rule(BOTH, NUTANIX, Required("spec.platform.nutanix.credentialsSecretRef.name")),
    rule(BOTH, NUTANIX, Required("spec.platform.nutanix.prismCentral.address")),
    rule(BOTH, OPENSTACK, Required("spec.platform.openstack.credentialsSecretRef.name")),
    rule(BOTH, OPENSTACK, Required("spec.platform.openstack.cloud")),
    rule(
        BOTH,
        &[Set("spec.platform.openstack.certificatesSecretRef")],
        Required("spec.platform.openstack.certificatesSecretRef.name"),
    ),
    rule(BOTH, OVIRT, Required("spec.platform.ovirt.credentialsSecretRef.name")),
    rule(BOTH, OVIRT, Required("spec.platform.ovirt.certificatesSecretRef.name")),
    rule(BOTH, OVIRT, Required("spec.platform.ovirt.ovirt_cluster_id")),
    rule(BOTH, OVIRT, Required("spec.platform.ovirt.storage_domain_id")),
    rule(BOTH, VSPHERE, Required("spec.platform.vsphere.credentialsSecretRef.name")),
    rule(BOTH, VSPHERE, Required("spec.platform.vsphere.certificatesSecretRef.name")),
    rule(BOTH, VSPHERE_BY_FIELDS, Required("spec.platform.vsphere.vCenter")),
    rule(BOTH, VSPHERE_BY_FIELDS, Required("spec.platform.vsphere.datacenter")),
    rule(BOTH, VSPHERE_BY_FIELDS, Required("spec.platform.vsphere.defaultDatastore")),
    rule(CLUSTERS, &[], DnsName("spec.clusterName")),
    rule(
        CLUSTERS,
        &[Unset("spec.installed"), Unset("spec.clusterInstallRef")],
        Required("spec.provisioning"),
    ),
    rule(CLUSTERS, &[], AtMostOneOf(&["spec.provisioning", "spec.clusterInstallRef"])),
    rule(CLUSTERS, TO_INSTALL, Required("spec.provisioning.installConfigSecretRef.name")),
    rule(
        CLUSTERS,
        &[Set("spec.provisioning.sshPrivateKeySecretRef")],
        Required("spec.provisioning.sshPrivateKeySecretRef.name"),
    ),
    rule(CLUSTERS, &[], AtMostOneOf(MANIFESTS)),
];

/// Fields of a cluster that may change, with all that is below them. No other field of its spec
/// may: a cluster is as it was installed.
const CHANGEABLE: [&str; 11] = [
    "spec.certificateBundles",
    "spec.clusterMetadata",
    "spec.clusterPoolRef",
    "spec.controlPlaneConfig",
    "spec.hibernateAfter",
    "spec.ingress",
    "spec.installAttemptsLimit",
    "spec.platform.agentBareMetal.agentSelector",
    "spec.platform.aws.privateLink.additionalAllowedPrincipals",
    "spec.powerState",
    "spec.preserveOnDelete",
];
/// Fields of a cluster that may be set once, when it is installed.
const SET_ONCE: [&str; 3] =
    ["spec.clusterMetadata.clusterID", "spec.clusterMetadata.infraID", "spec.installed"];

impl When {
    fn holds_for(&self, document: &Value) -> bool {
        match self {
            Set(path) => is_set(document, path),
            Unset(path) => !is_set(document, path),
        }
    }
}

impl Need {
    fn find_problem(&self, document: &Value) -> Option<Problem> {
        match self {
            Required(path) if !is_set(document, path) => Some(Problem::Missing((*path).to_owned())),
            OneOf(paths) if !paths.iter().any(|path| is_set(document, path)) => {
                Some(Problem::Missing(paths.join(" or ")))
            }
            AtMostOneOf(paths)
                if paths.iter().filter(|path| is_set(document, path)).count() > 1 =>
            {
                Some(Problem::Wrong(format!("{} exclude each other", paths.join(" and "))))
            }
            OnePlatform => {
                let platforms = document["spec"]["platform"].as_object().into_iter().flatten();
                let names: Vec<&str> = platforms.map(|(name, _)| name.as_str()).collect();
                describe_platform_count(&names).map(Problem::Wrong)
            }
            DnsName(path) => {
                let name = field_at(document, path).and_then(Value::as_str).unwrap_or_default();
                let is_valid = name.len() <= 63
                    && name.split('.').all(|part| check_dns_label("a name", part).is_ok());
                let why = "a name in DNS has at most 63 lower-case letters, digits and dashes";
                (!is_valid).then(|| Problem::Wrong(format!("{path} is `{name}`; {why}")))
            }
            Required(_) | OneOf(_) | AtMostOneOf(_) => None,
        }
    }
}

impl Problem {
    fn message(&self) -> String {
        match self {
            Self::Missing(field) => format!("{field} is missing"),
            Self::Wrong(sentence) => sentence.clone(),
        }
    }
}

/// What is wrong with the names of the platforms that a spec sets, if there is not exactly one.
pub fn describe_platform_count(names: &[&str]) -> Option<String> {
    if names.len() == 1 {
        return None;
    }
    if names.is_empty() {
        return Some("spec.platform needs exactly one platform; it has no platform".to_owned());
    }
    // One platform is called `none`.
    let quoted_names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Some(format!("spec.platform needs exactly one platform; it has {}", quoted_names.join(", ")))
}

/// The field at a path, such as `spec.platform`.
fn field_at<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(document, |field, name| field.get(name))
}

/// Whether a field says anything: an empty string and false are what it is without being set.
fn is_set(document: &Value, path: &str) -> bool {
    field_at(document, path).is_some_and(|field| match field {
        Value::Null | Value::Bool(false) => false,
        Value::String(string) => !string.is_empty(),
        _ => true,
    })
}

/// The rules that an object breaks.
fn find_problems(object: &Object) -> Vec<Problem> {
    let kind = object.kind();
    if !BOTH.contains(&kind) {
        return Vec::new();
    }
    let document = object.to_wire();
    let mut problems = Vec::new();
    for rule in RULES {
        let is_meant = rule.kinds.contains(&kind)
            && rule.when.iter().all(|condition| condition.holds_for(&document));
        if is_meant {
            problems.extend(rule.need.find_problem(&document));
        }
    }
    problems
}

/// Whether no installer reads the platform of an object: its clusters are simulated, or made by a
/// driver of somebody's own, which knows itself what it needs.
fn does_without_platform(object: &Object) -> bool {
    let driver = match object {
        Object::ClusterPool(pool) => pool.driver(),
        Object::ClusterDeployment(cluster) => cluster.driver,
        _ => return false,
    };
    matches!(driver, Driver::Fake | Driver::Exec)
}

/// Refuses an object that breaks a rule, unless the object that it replaces breaks it in the same
/// way. What is missing of an object that does without it is no reason to refuse it.
pub fn check_admission(state: &State, desired: &Object) -> Result<(), Refusal> {
    let mut problems = find_problems(desired);
    if does_without_platform(desired) {
        problems.retain(|problem| matches!(problem, Problem::Wrong(_)));
    }
    if problems.is_empty() {
        return Ok(());
    }
    let existing = state.find_object(desired);
    let old_problems = existing.as_ref().map(find_problems).unwrap_or_default();
    problems.retain(|problem| !old_problems.contains(problem));
    let messages = problems.iter().map(Problem::message).collect();
    let kind = desired.kind();
    refuse_problems(kind, &desired.key().name, messages)
        .map_err(|refusal| refusal.advise(format!("poolctl explain {}.spec", kind.word())))
}

/// The fields that an object lacks and its driver needs, such as `spec.platform.vsphere.vCenter`.
pub fn missing_fields(object: &Object) -> Vec<String> {
    if does_without_platform(object) {
        return Vec::new();
    }
    let mut fields = Vec::new();
    for problem in find_problems(object) {
        if let Problem::Missing(field) = problem {
            fields.push(field);
        }
    }
    fields
}

/// Says what an object lacks that its driver does without and others need.
pub fn describe_tolerated_gaps(object: &Object) -> Option<String> {
    if !does_without_platform(object) {
        return None;
    }
    let mut fields = Vec::new();
    for problem in find_problems(object) {
        if let Problem::Missing(field) = problem {
            fields.push(field);
        }
    }
    let subject = format!("{} `{}`", object.kind().word(), object.key().name);
    let fields = fields.join(", ");
    (!fields.is_empty())
        .then(|| format!("{subject}: its driver does without {fields}, which others need"))
}

/// Says which rules an object breaks that is not refused for it, because it was as it is before, or
/// because it comes with a state that is moved.
pub fn describe_kept_problems(object: &Object) -> Option<String> {
    let problems = find_problems(object);
    if problems.is_empty() || does_without_platform(object) {
        return None;
    }
    let messages: Vec<String> = problems.iter().map(Problem::message).collect();
    let subject = format!("{} `{}`", object.kind().word(), object.key().name);
    Some(format!("{subject}: {}", messages.join("; ")))
}

/// The fields of a cluster that differ between two documents, and are fixed.
pub fn find_fixed_changes(before: &Value, after: &Value) -> Vec<String> {
    let mut changes = changed_fields(before, after);
    changes.retain(|path| {
        if SET_ONCE.contains(&path.as_str()) {
            is_set(before, path)
        } else {
            !is_at_or_below(path, &CHANGEABLE)
        }
    });
    changes
}

fn is_at_or_below(path: &str, fields: &[&str]) -> bool {
    fields.iter().any(|field| {
        path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The paths of the fields in the specs of two documents that differ. A list counts as one field.
fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let mut old_fields = BTreeMap::new();
    collect_fields(&before["spec"], "spec", &mut old_fields);
    let mut new_fields = BTreeMap::new();
    collect_fields(&after["spec"], "spec", &mut new_fields);
    let paths: BTreeSet<&String> = old_fields.keys().chain(new_fields.keys()).collect();
    let mut changes = Vec::new();
    for path in paths {
        if old_fields.get(path) != new_fields.get(path) {
            changes.push(path.clone());
        }
    }
    changes
}

/// Adds the fields at a path and below it that are no mappings, or empty ones.
fn collect_fields<'a>(value: &'a Value, path: &str, fields: &mut BTreeMap<String, &'a Value>) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (name, entry) in entries {
                collect_fields(entry, &format!("{path}.{name}"), fields);
            }
        }
        _ => {
            fields.insert(path.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::model::schemas::{schema_of_kind, without_null};

    use super::*;

    /// Whether a kind has the field at a path. Below a mapping of any keys every path is one.
    fn has_field(kind: Kind, path: &str) -> bool {
        let mut schema = schema_of_kind(kind);
        for name in path.split('.') {
            let mapping = without_null(schema);
            let Some(fields) = mapping.get("properties") else {
                return mapping.get("additionalProperties").is_some();
            };
            let Some(field) = fields.get(name) else { return false };
            schema = field;
        }
        true
    }

    fn paths_of(rule: &Rule) -> Vec<&'static str> {
        let mut paths = match rule.need {
            Required(path) | DnsName(path) => vec![path],
            OneOf(paths) | AtMostOneOf(paths) => paths.to_vec(),
            OnePlatform => vec!["spec.platform"],
        };
        for condition in rule.when {
            let (Set(path) | Unset(path)) = condition;
            paths.push(*path);
        }
        paths
    }

    #[test]
    fn every_rule_is_about_fields_that_its_kinds_have() {
        for rule in RULES {
            for kind in rule.kinds {
                for path in paths_of(rule) {
                    assert!(has_field(*kind, path), "{}: {path}", kind.name());
                }
            }
        }
        for path in CHANGEABLE.iter().chain(&SET_ONCE) {
            assert!(has_field(Kind::ClusterDeployment, path), "{path}");
        }
    }

    #[test]
    fn what_is_filled_in_later_may_be_set_once() {
        let created =
            json!({"spec": {"platform": {"none": {}}, "clusterMetadata": {"infraID": ""}}});
        let installed = json!({"spec": {"platform": {"none": {}}, "installed": true,
            "clusterMetadata": {"infraID": "a", "adminKubeconfigSecretRef": {"name": "k"}}}});
        assert!(find_fixed_changes(&created, &installed).is_empty());
        assert_eq!(
            find_fixed_changes(&installed, &created),
            ["spec.clusterMetadata.infraID", "spec.installed"]
        );
        let moved = json!({"spec": {"platform": {"vsphere": {}}, "powerState": "Running"}});
        assert_eq!(
            find_fixed_changes(&created, &moved),
            ["spec.platform.none", "spec.platform.vsphere"]
        );
    }
}
