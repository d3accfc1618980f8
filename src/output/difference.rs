//! The difference of a pass, in lines: what would be made, changed and removed. It shows no value
//! of a Secret, and never reads anything but the state that it is given.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::model::agent::Agent;
use crate::model::cluster::Cluster;
use crate::model::documents::{Secret, Stored};
use crate::model::host::BareMetalHost;
use crate::model::ip_lease::IpLease;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::state::{ChangedObject, State};
use crate::model::table::{Change, Row};

use super::answer::Name;
use super::clean::clean;

/// Fields that are not told of, because they follow from others: a time, and the counters of a
/// pool. What a Secret, a host or an Agent hides is said by `told_fields`.
const UNTOLD_FIELDS: [&str; 3] = ["status.createdTime", "status.ordinal", "status.provisions"];
const CONDITIONS: &str = "status.conditions";
/// Fields of a condition that are not told of: its times move with what is told.
const TIMES_OF_CONDITION: [&str; 2] = ["lastProbeTime", "lastTransitionTime"];

/// A line of a difference, and the object of which it is the first one.
#[derive(Debug)]
pub struct DifferenceLine {
    pub name: Option<Name>,
    pub text: String,
}

impl DifferenceLine {
    /// The first line of an object.
    pub fn new(name: Name, text: String) -> Self {
        Self { name: Some(name), text }
    }

    /// A line that names nothing, or goes on with what is named above.
    fn unnamed(text: String) -> Self {
        Self { name: None, text }
    }
}

/// `+` made, `~` changed, `-` removed; a changed object has a line for each changed field. Where
/// nothing changes, `!` is an event that is recorded.
pub fn difference_lines(state: &State) -> Vec<DifferenceLine> {
    let mut lines = Vec::new();
    let mut changed_objects = state.changed_objects();
    // Claims, clusters and pools first: what they refer to changes because of them.
    changed_objects.sort_by_key(|changed| std::cmp::Reverse(changed.kind()));
    for changed in &changed_objects {
        if !comes_with_cluster(changed, state) {
            add_object_lines(changed, &mut lines);
        }
    }
    lines.extend(state.ip_leases.difference().filter_map(|change| lease_line(&change)));
    lines.extend(state.jobs.difference().filter_map(|change| job_line(&change)));
    if lines.is_empty() {
        // A pass may record what has happened and change nothing else.
        for (event, _) in &state.events {
            let message = super::clean(&event.message);
            lines.push(DifferenceLine::unnamed(format!("! {}: {message}", event.reason)));
        }
    }
    lines
}

/// Whether a Secret is made for a cluster that is made at the same time: then it goes without
/// saying.
fn comes_with_cluster(changed: &ChangedObject, state: &State) -> bool {
    let Some(Object::Secret(secret)) = &changed.after else { return false };
    let cluster = Key::new("", &*secret.metadata.namespace);
    let is_new = |change: Change<'_, Cluster>| {
        change.before.is_none() && change.after.is_some_and(|after| Row::key(after) == cluster)
    };
    changed.before.is_none() && state.clusters.difference().any(is_new)
}

fn add_object_lines(changed: &ChangedObject, lines: &mut Vec<DifferenceLine>) {
    let Some(object) = changed.after.as_ref().or(changed.before.as_ref()) else { return };
    let name = Name::of(object.kind(), &object.key());
    match (&changed.before, &changed.after) {
        (Some(before), Some(after)) => {
            let mut fields = Vec::new();
            add_changed_fields("", &told_fields(before), &told_fields(after), &mut fields);
            if !fields.is_empty() {
                let text = format!("~ {name}");
                lines.push(DifferenceLine::new(name, text));
            }
            let fields = fields.into_iter().map(|field| format!("    {field}"));
            lines.extend(fields.map(DifferenceLine::unnamed));
        }
        (None, _) => {
            let text = format!("+ {name}{}", describe_new_object(object));
            lines.push(DifferenceLine::new(name, text));
        }
        (_, None) => {
            let text = format!("- {name}");
            lines.push(DifferenceLine::new(name, text));
        }
    }
}

/// The fields of an object that are compared and shown.
fn told_fields(object: &Object) -> Value {
    match object {
        Object::Agent(agent) => told_fields_of_agent(agent),
        Object::BareMetalHost(host) => told_fields_of_host(host),
        Object::Secret(secret) => told_fields_of_secret(secret),
        other => other.to_wire(),
    }
}

fn told_fields_of_agent(agent: &Agent) -> Value {
    let failing = agent.validations().filter(|validation| validation.status == "failure");
    let failing: Vec<&str> = failing.map(|validation| validation.id.as_str()).collect();
    let refused = agent.condition("SpecSynced").filter(|condition| condition.status == "False");
    json!({
        "approved": agent.spec.approved,
        "cluster": agent.bound_to().map(|key| key.name),
        "deleted": agent.metadata.deletion_timestamp.is_some(),
        "failing": (!failing.is_empty()).then(|| failing.join(", ")),
        "hostname": agent.hostname(),
        "refused": refused.map(|condition| condition.message.as_str()),
        "role": agent.role().name(),
        "state": agent.state().name(),
        "wanted": agent.wanted().map(|key| key.name),
    })
}

/// What a person decides about a host and what becomes of it; what its controller tells of it each
/// time would hide that.
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

/// A Secret without its values: which keys it has, and which of them get another value.
fn told_fields_of_secret(secret: &Secret) -> Value {
    let mut keys = Map::new();
    for (key, value) in &secret.values {
        let description = match value {
            Stored::Kept | Stored::Loaded(_) => "as it is",
            Stored::New(_) | Stored::CopyOf(_) => "another value",
        };
        keys.insert(key.clone(), description.into());
    }
    json!({"metadata": secret.metadata, "type": secret.kind, "data": keys})
}

/// What stands behind the name of an object that is made.
fn describe_new_object(object: &Object) -> String {
    match object {
        Object::ClusterDeployment(cluster) => {
            let text = format!(" as {}.{}", cluster.cluster_name, cluster.base_domain);
            match &cluster.customization {
                Some(customization) => format!("{text} with customization {customization}"),
                None => text,
            }
        }
        Object::Agent(agent) => {
            let infra_env = agent.infra_env();
            infra_env.map(|key| format!(" of infraenv/{}", key.name)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// `~ ipclaim/web -> 10.0.0.7`: what a claim gets, gives back, or waits for.
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
        (_, Some(new)) if old_address != new_address => format!(" -> {new}"),
        (Some(old), None) => format!(" ({old})"),
        _ if lease.error.is_empty() => String::new(),
        _ => format!(": {}", clean(&lease.error)),
    };
    let text = format!("{sign} {name}{description}");
    Some(DifferenceLine::new(name, text))
}

fn job_line(change: &Change<'_, Job>) -> Option<DifferenceLine> {
    let job = change.after?;
    let work = format!("{} of {}", job.verb.name(), job.subject());
    Some(DifferenceLine::unnamed(match &job.outcome {
        None => format!("+ job: {work}"),
        Some(outcome) => format!("~ job: {work} {outcome}"),
    }))
}

/// Adds `path: old -> new` for every field below a path that changes.
fn add_changed_fields(path: &str, before: &Value, after: &Value, fields: &mut Vec<String>) {
    if before == after || UNTOLD_FIELDS.contains(&path) {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let before = before.get(name).unwrap_or(&Value::Null);
                let after = after.get(name).unwrap_or(&Value::Null);
                add_changed_fields(&path, before, after, fields);
            }
        }
        // Conditions are found again by their types; one that is gone is not told of.
        (Value::Array(before), Value::Array(after)) if path == CONDITIONS => {
            for condition in after {
                let same_type = before.iter().find(|old| old["type"] == condition["type"]);
                let path = format!("{path}.{}", condition["type"].as_str().unwrap_or_default());
                let old = same_type.map_or(Value::Null, without_times);
                add_changed_fields(&path, &old, &without_times(condition), fields);
            }
        }
        _ => fields.push(format!("{path}: {} -> {}", format_value(before), format_value(after))),
    }
}

fn without_times(condition: &Value) -> Value {
    let mut condition = condition.clone();
    if let Some(fields) = condition.as_object_mut() {
        fields.retain(|name, _| !TIMES_OF_CONDITION.contains(&name.as_str()));
    }
    condition
}

fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => clean(text).into_owned(),
        Value::Object(fields) if fields.contains_key("reason") => {
            format!("{} ({})", format_value(&fields["status"]), format_value(&fields["reason"]))
        }
        other => clean(&other.to_string()).into_owned(),
    }
}
