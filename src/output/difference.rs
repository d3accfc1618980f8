//! The difference of a pass, in lines: what would be made, changed and removed.

use serde_json::{Value, json};

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

/// A line of a difference, and the object of which it is the first one.
#[derive(Debug)]
pub struct DifferenceLine {
    pub name: Option<Name>,
    pub text: String,
}

impl DifferenceLine {
    pub fn of(name: Name, text: String) -> Self {
        Self { name: Some(name), text }
    }

    /// A line that names nothing, or goes on with what is named above.
    fn text(text: String) -> Self {
        Self { name: None, text }
    }
}

/// `+` made, `~` changed, `-` removed; a changed object has a line for each changed field. Where
/// nothing changes, `!` is an event that is recorded.
pub fn lines(state: &State) -> Vec<DifferenceLine> {
    let mut lines = Vec::new();
    let mut changed_objects = state.changed_objects();
    // Claims, clusters and pools first: what they refer to changes because of them.
    changed_objects.sort_by_key(|changed| std::cmp::Reverse(changed.kind()));
    for changed in &changed_objects {
        if !comes_with_cluster(changed, state) {
            object_lines(changed, &mut lines);
        }
    }
    lines.extend(state.ip_leases.difference().filter_map(|change| lease(&change)));
    let jobs = state.jobs.difference().filter_map(|change| job(&change));
    lines.extend(jobs.map(DifferenceLine::text));
    if lines.is_empty() {
        // A pass may record what has happened and change nothing else.
        for (event, _) in &state.events {
            let message = super::clean(&event.message);
            lines.push(DifferenceLine::text(format!("! {}: {message}", event.reason)));
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

fn object_lines(changed: &ChangedObject, lines: &mut Vec<DifferenceLine>) {
    let Some(object) = changed.after.as_ref().or(changed.before.as_ref()) else { return };
    let name = Name::of(object.kind(), &object.key());
    match (&changed.before, &changed.after) {
        (Some(before), Some(after)) => {
            let mut fields = Vec::new();
            fields_of("", &told(before), &told(after), &mut fields);
            if !fields.is_empty() {
                let text = format!("~ {name}");
                lines.push(DifferenceLine::of(name, text));
            }
            let fields = fields.into_iter().map(|field| format!("    {field}"));
            lines.extend(fields.map(DifferenceLine::text));
        }
        (None, _) => {
            let text = format!("+ {name}{}", about(object));
            lines.push(DifferenceLine::of(name, text));
        }
        (_, None) => {
            let text = format!("- {name}");
            lines.push(DifferenceLine::of(name, text));
        }
    }
}

/// What of an object is compared.
fn told(object: &Object) -> Value {
    match object {
        Object::Agent(agent) => told_agent(agent),
        Object::BareMetalHost(host) => told_host(host),
        Object::Secret(secret) => told_secret(secret),
        other => other.to_wire(),
    }
}

fn told_agent(one: &Agent) -> Value {
    let failing = one.validations().filter(|one| one.status == "failure");
    let failing: Vec<&str> = failing.map(|one| one.id.as_str()).collect();
    let refused = one.condition("SpecSynced").filter(|one| one.status == "False");
    json!({
        "approved": one.spec.approved,
        "cluster": one.bound_to().map(|key| key.name),
        "deleted": one.metadata.deletion_timestamp.is_some(),
        "failing": (!failing.is_empty()).then(|| failing.join(", ")),
        "hostname": one.hostname(),
        "refused": refused.map(|one| one.message.as_str()),
        "role": one.role().name(),
        "state": one.state().name(),
        "wanted": one.wanted().map(|key| key.name),
    })
}

/// What a person decides about a host and what becomes of it; what its controller tells of it each
/// time would hide that.
fn told_host(host: &BareMetalHost) -> Value {
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
fn told_secret(secret: &Secret) -> Value {
    let mut keys = serde_json::Map::new();
    for (key, value) in &secret.values {
        let said = match value {
            Stored::Kept | Stored::Loaded(_) => "as it is",
            Stored::New(_) | Stored::CopyOf(_) => "another value",
        };
        keys.insert(key.clone(), said.into());
    }
    json!({"metadata": secret.metadata, "type": secret.kind, "data": keys})
}

fn about(object: &Object) -> String {
    let cluster = match object {
        Object::ClusterDeployment(cluster) => cluster,
        Object::Agent(one) => {
            let of = one.infra_env().map(|key| format!(" of infraenv/{}", key.name));
            return of.unwrap_or_default();
        }
        _ => return String::new(),
    };
    let with = cluster.customization.as_ref().map(|one| format!(" with customization {one}"));
    let dns = format!(" as {}.{}", cluster.cluster_name, cluster.base_domain);
    dns + &with.unwrap_or_default()
}

/// `~ ipclaim/web -> 10.0.0.7`: what a claim gets, gives back, or waits for.
fn lease(change: &Change<'_, IpLease>) -> Option<DifferenceLine> {
    let one = change.after.or(change.before)?;
    let name = Name::of(Kind::IpClaim, &one.key());
    let has = |one: Option<&IpLease>| one.and_then(|one| one.address);
    let (before, after) = (has(change.before), has(change.after));
    let mark = match (change.before, change.after) {
        (None, _) => '+',
        (_, None) => '-',
        _ => '~',
    };
    let what = match (before, after) {
        (_, Some(new)) if before != after => format!(" -> {new}"),
        (Some(old), None) => format!(" ({old})"),
        _ if one.error.is_empty() => String::new(),
        _ => format!(": {}", super::clean(&one.error)),
    };
    let text = format!("{mark} {name}{what}");
    Some(DifferenceLine::of(name, text))
}

fn job(change: &Change<'_, Job>) -> Option<String> {
    let after = change.after?;
    let what = format!("{} of {}", after.verb.name(), after.subject());
    Some(match &after.outcome {
        None => format!("+ job: {what}"),
        Some(outcome) => format!("~ job: {what} {outcome}"),
    })
}

fn fields_of(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    if before == after
        || path.ends_with("Time")
        || path.ends_with("ordinal")
        || path.ends_with("provisions")
    {
        return;
    }
    if let (Value::Object(before), Value::Object(after)) = (before, after) {
        let names: std::collections::BTreeSet<&String> =
            before.keys().chain(after.keys()).collect();
        for name in names {
            let value =
                |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or_default();
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            fields_of(&path, &value(before), &value(after), found);
        }
        return;
    }
    if let (true, Value::Array(before), Value::Array(after)) =
        (path.ends_with("conditions"), before, after)
    {
        for new in after {
            let same = before.iter().find(|old| old["type"] == new["type"]);
            let kind = new["type"].as_str().unwrap_or_default();
            fields_of(&format!("{path}.{kind}"), same.unwrap_or(&Value::Null), new, found);
        }
        return;
    }
    found.push(format!("{path}: {} -> {}", short(before), short(after)));
}

fn short(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => super::clean(text).into_owned(),
        Value::Object(fields) if fields.contains_key("reason") => {
            format!("{} ({})", short(&fields["status"]), short(&fields["reason"]))
        }
        other => super::clean(&other.to_string()).into_owned(),
    }
}
