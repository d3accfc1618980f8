//! Shows the difference of a pass in lines: what would be made, changed and removed. It never shows
//! a value of a Secret, and reads nothing but the state that it is given.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use crate::model::agent::Agent;
use crate::model::condition::ConditionType;
use crate::model::documents::{Secret, StoredValue};
use crate::model::host::BareMetalHost;
use crate::model::ip_lease::IpLease;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::state::{ChangedObject, State};
use crate::model::table::{Change, Row};

use super::answer::Name;
use super::clean::clean_line;

/// Fields that are not told of, because they follow from others: a time, and the counters of a
/// pool. What a Secret, a host or an Agent hides is said by `told_fields`.
const UNTOLD_FIELDS: [&str; 3] = ["status.createdTime", "status.ordinal", "status.provisions"];
const CONDITIONS: &str = "status.conditions";
/// What fields begin with that follow from other changes, such as counters and conditions.
const STATUS: &str = "status.";
/// Fields of a status that people decide by.
const ESSENTIAL_STATUS_FIELDS: [&str; 1] = ["status.powerState"];
/// What fields of a spec begin with that an installation fills in.
const INSTALLED_METADATA: &str = "spec.clusterMetadata";
/// Fields of a condition that are not told of: its times move with what is told.
const TIMES_OF_CONDITION: [&str; 2] = ["lastProbeTime", "lastTransitionTime"];

/// A line of a difference, without its end.
#[derive(Debug)]
pub struct DifferenceLine {
    /// The object that changes, on the first of its lines.
    pub name: Option<Name>,
    pub text: String,
    /// Whether it follows from other lines, so that a summary leaves it out.
    pub is_detail: bool,
}

impl DifferenceLine {
    /// The first line about an object.
    pub fn new(name: Name, line: String) -> Self {
        Self { name: Some(name), text: line, is_detail: false }
    }

    /// A line about no object, or one more about the object above.
    fn unnamed(line: String) -> Self {
        Self { name: None, text: line, is_detail: false }
    }
}

/// A field that changes, and how a line tells of it.
struct ChangedField {
    path: String,
    text: String,
}

impl ChangedField {
    /// Whether the field follows from what else changes.
    fn is_detail(&self) -> bool {
        let is_essential = ESSENTIAL_STATUS_FIELDS.contains(&self.path.as_str());
        self.path.starts_with(INSTALLED_METADATA)
            || (self.path.starts_with(STATUS) && !is_essential)
    }
}

/// Lines that begin with `+` for what is made, `~` for what is changed, and `-` for what is
/// removed; a changed object has a line more for each changed field. Where nothing changes, a line
/// that begins with `!` is an event that is recorded.
pub fn difference_lines(state: &State) -> Vec<DifferenceLine> {
    let mut lines = Vec::new();
    let mut changed_objects = state.changed_objects();
    // Claims, clusters and pools first: other objects change because of them.
    changed_objects.sort_by_key(|changed| std::cmp::Reverse(changed.kind()));
    let changed_clusters = find_changed_clusters(state);
    for changed in &changed_objects {
        let cluster_key = find_cluster_of_secret(changed);
        let cluster_change = cluster_key.and_then(|key| changed_clusters.get(&key));
        // The Secrets of a new cluster go without saying.
        if changed.before.is_none() && cluster_change == Some(&ClusterChange::Made) {
            continue;
        }
        let first_line = lines.len();
        add_object_lines(changed, &mut lines);
        if cluster_change.is_some() {
            for line in lines.iter_mut().skip(first_line) {
                line.is_detail = true;
            }
        }
    }
    lines.extend(state.ip_leases.difference().filter_map(|change| lease_line(&change)));
    lines.extend(state.jobs.difference().filter_map(|change| job_line(&change)));
    if lines.is_empty() {
        // A pass may record what has happened and change nothing else.
        for (event, _) in &state.events {
            let message = clean_line(&event.message);
            lines.push(DifferenceLine::unnamed(format!("! {}: {message}", event.reason)));
        }
    }
    lines
}

/// What becomes of a cluster.
#[derive(PartialEq, Eq)]
enum ClusterChange {
    Made,
    ChangedOrRemoved,
}

fn find_changed_clusters(state: &State) -> HashMap<Key, ClusterChange> {
    let mut changed_clusters = HashMap::new();
    for change in state.clusters.difference() {
        let cluster_change = match change.before {
            None => ClusterChange::Made,
            Some(_) => ClusterChange::ChangedOrRemoved,
        };
        if let Some(cluster) = change.after.or(change.before) {
            changed_clusters.insert(Row::key(cluster), cluster_change);
        }
    }
    changed_clusters
}

/// The cluster of a Secret that is made or removed: the namespace of a cluster has its name.
fn find_cluster_of_secret(changed: &ChangedObject) -> Option<Key> {
    let ((Some(Object::Secret(secret)), None) | (None, Some(Object::Secret(secret)))) =
        (&changed.before, &changed.after)
    else {
        return None;
    };
    Some(Key::new("", &*secret.metadata.namespace))
}

/// Adds `+ NAME`, `- NAME` or `~ NAME` for an object, and below a changed one its fields. An object
/// of which only untold fields change gets no line.
fn add_object_lines(changed: &ChangedObject, lines: &mut Vec<DifferenceLine>) {
    let Some(object) = changed.after.as_ref().or(changed.before.as_ref()) else { return };
    let name = Name::of(object.kind(), &object.key());
    match (&changed.before, &changed.after) {
        (Some(before), Some(after)) => {
            let mut fields = Vec::new();
            add_changed_fields("", &told_fields(before), &told_fields(after), &mut fields);
            if !fields.is_empty() {
                let line = format!("~ {name}");
                let is_detail = fields.iter().all(ChangedField::is_detail);
                lines.push(DifferenceLine { is_detail, ..DifferenceLine::new(name, line) });
            }
            for field in fields {
                let is_detail = field.is_detail();
                let line = DifferenceLine::unnamed(format!("    {}", field.text));
                lines.push(DifferenceLine { is_detail, ..line });
            }
        }
        (None, _) => {
            let line = format!("+ {name}{}", describe_new_object(object));
            lines.push(DifferenceLine::new(name, line));
        }
        (_, None) => {
            let line = format!("- {name}");
            lines.push(DifferenceLine::new(name, line));
        }
    }
}

/// The fields of an object that are compared and shown.
fn told_fields(object: &Object) -> Value {
    match object {
        Object::Agent(agent) => told_fields_of_agent(agent),
        Object::BareMetalHost(host) => told_fields_of_host(host),
        Object::Secret(secret) => told_fields_of_secret(secret),
        _ => object.to_wire(),
    }
}

/// What a person decides about an agent, and what becomes of it, without the hardware that it
/// reports.
fn told_fields_of_agent(agent: &Agent) -> Value {
    let mut failing = Vec::new();
    for validation in agent.validations() {
        if validation.status == "failure" {
            failing.push(validation.id.as_str());
        }
    }
    let spec_synced = agent.condition(ConditionType::SpecSynced);
    let refused = spec_synced.filter(|condition| condition.status == "False");
    json!({
        "approved": agent.spec.approved,
        "cluster": agent.bound_cluster().map(|key| key.name),
        "deleted": agent.metadata.deletion_timestamp.is_some(),
        "failing": (!failing.is_empty()).then(|| failing.join(", ")),
        "hostname": agent.hostname(),
        "refused": refused.map(|condition| condition.message.as_str()),
        "role": agent.role().name(),
        "state": agent.state().name(),
        "wanted": agent.requested_cluster().map(|key| key.name),
    })
}

/// What a person decides about a host, and what becomes of it. The many facts that its controller
/// reports each time are left out: they would hide the rest.
fn told_fields_of_host(host: &BareMetalHost) -> Value {
    let status = &host.status;
    json!({
        "metadata": {
            "annotations": host.metadata.annotations,
            "deletionTimestamp": host.metadata.deletion_timestamp,
            "labels": host.metadata.labels,
        },
        "spec": host.spec,
        "state": status.provisioning.state,
        "powered on": status.powered_on,
        "error": status.error_type,
    })
}

/// A Secret without its values: which keys it has, and which of these get another value.
fn told_fields_of_secret(secret: &Secret) -> Value {
    let mut keys = Map::new();
    for (key, value) in &secret.values {
        let description = match value {
            StoredValue::Kept | StoredValue::Loaded(_) => "as it is",
            StoredValue::New(_) | StoredValue::CopyOf(_) => "another value",
        };
        keys.insert(key.clone(), description.into());
    }
    json!({"metadata": secret.metadata, "type": secret.kind, "data": keys})
}

/// What a line says behind the name of an object that is made.
fn describe_new_object(object: &Object) -> String {
    match object {
        Object::ClusterDeployment(cluster) => {
            let domain = format!(" as {}.{}", cluster.cluster_name, cluster.base_domain);
            match &cluster.customization {
                Some(customization) => format!("{domain} with customization {customization}"),
                None => domain,
            }
        }
        Object::Agent(agent) => {
            let infra_env = agent.infra_env_key();
            infra_env.map(|key| format!(" of infraenv/{}", key.name)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// `~ ipclaim/web -> 10.0.0.7`: the address that a claim gets or gives back, or why it has none.
fn lease_line(change: &Change<'_, IpLease>) -> Option<DifferenceLine> {
    let lease = change.after.or(change.before)?;
    let name = Name::of(Kind::IpClaim, &lease.key());
    let sign = match (change.before, change.after) {
        (None, _) => '+',
        (_, None) => '-',
        _ => '~',
    };
    let old_address = change.before.and_then(|before| before.address);
    let new_address = change.after.and_then(|after| after.address);
    let description = match (old_address, new_address) {
        (_, Some(address)) if old_address != new_address => format!(" -> {address}"),
        (Some(address), None) => format!(" ({address})"),
        _ if lease.error.is_empty() => String::new(),
        _ => format!(": {}", clean_line(&lease.error)),
    };
    let line = format!("{sign} {name}{description}");
    Some(DifferenceLine::new(name, line))
}

/// A line for a job that begins or ends. None for one that is forgotten.
fn job_line(change: &Change<'_, Job>) -> Option<DifferenceLine> {
    let job = change.after?;
    let work = format!("{} of {}", job.verb.name(), job.object_word());
    Some(DifferenceLine::unnamed(match &job.outcome {
        None => format!("+ job: {work}"),
        Some(outcome) => format!("~ job: {work} {outcome}"),
    }))
}

/// Adds a line `path: before -> after` for every field at or below a path that changes.
fn add_changed_fields(path: &str, before: &Value, after: &Value, fields: &mut Vec<ChangedField>) {
    if before == after || UNTOLD_FIELDS.contains(&path) {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let field_before = before.get(name).unwrap_or(&Value::Null);
                let field_after = after.get(name).unwrap_or(&Value::Null);
                add_changed_fields(&path, field_before, field_after, fields);
            }
        }
        // Conditions are compared by type, wherever they stand; one that is gone is not shown.
        (Value::Array(before), Value::Array(after)) if path == CONDITIONS => {
            for condition in after {
                let kind = &condition["type"];
                let path = format!("{path}.{}", kind.as_str().unwrap_or_default());
                let same_type = before.iter().find(|condition| condition["type"] == *kind);
                let condition_before = same_type.map_or(Value::Null, without_times);
                add_changed_fields(&path, &condition_before, &without_times(condition), fields);
            }
        }
        _ => fields.push(ChangedField {
            path: path.to_owned(),
            text: format!("{path}: {} -> {}", format_value(before), format_value(after)),
        }),
    }
}

/// A condition without the instants in it, which change with every pass and tell nothing.
fn without_times(condition: &Value) -> Value {
    let mut condition = condition.clone();
    if let Some(fields) = condition.as_object_mut() {
        fields.retain(|name, _| !TIMES_OF_CONDITION.contains(&name.as_str()));
    }
    condition
}

/// A value as a line shows it; a condition is its status with its reason.
fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(string) => clean_line(string).into_owned(),
        Value::Object(fields) if fields.contains_key("reason") => {
            format!("{} ({})", format_value(&fields["status"]), format_value(&fields["reason"]))
        }
        _ => clean_line(&value.to_string()).into_owned(),
    }
}
