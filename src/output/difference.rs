//! The difference of a pass, in lines: what would be made, changed and removed.

use serde_json::{Value, json};

use crate::model::agent::Agent;
use crate::model::ip_lease::IpLease;
use crate::model::job::Job;
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::state::State;
use crate::model::table::{Change, Row};

/// `+` made, `~` changed, `-` removed; a changed object has a line for each changed field.
pub fn lines(state: &State) -> Vec<String> {
    let mut all = Vec::new();
    each(&mut all, state.pools.difference(), |one| Object::Pool(Box::new(one.clone())));
    each(&mut all, state.clusters.difference(), |one| Object::Cluster(Box::new(one.clone())));
    each(&mut all, state.claims.difference(), |one| Object::Claim(Box::new(one.clone())));
    each(&mut all, state.customizations.difference(), |one| {
        Object::Customization(Box::new(one.clone()))
    });
    each(&mut all, state.infra_envs.difference(), |one| Object::InfraEnv(Box::new(one.clone())));
    each(&mut all, state.nmstate_configs.difference(), |one| {
        Object::NMStateConfig(Box::new(one.clone()))
    });
    each(&mut all, state.agents.difference(), |one| Object::Agent(Box::new(one.clone())));
    all.extend(state.ip_leases.difference().filter_map(|change| lease(&change)));
    for change in state.jobs.difference() {
        all.extend(job(&change));
    }
    all
}

fn each<'a, T: Row + 'a>(
    all: &mut Vec<String>,
    changes: impl Iterator<Item = Change<'a, T>>,
    wrap: impl Fn(&T) -> Object,
) {
    for change in changes {
        let (before, after) = (change.before.map(&wrap), change.after.map(&wrap));
        let Some(one) = after.as_ref().or(before.as_ref()) else {
            continue;
        };
        let name = name(one.kind(), &one.key());
        match (&before, &after) {
            (Some(before), Some(after)) => {
                let mut fields = Vec::new();
                fields_of("", &told(before), &told(after), &mut fields);
                if !fields.is_empty() {
                    all.push(format!("~ {name}"));
                }
                all.extend(fields.into_iter().map(|field| format!("    {field}")));
            }
            (None, _) => all.push(format!("+ {name}{}", about(one))),
            (_, None) => all.push(format!("- {name}")),
        }
    }
}

fn name(kind: Kind, key: &Key) -> String {
    format!("{}/{}", kind.word(), key.name)
}

/// What of an object is compared: of a host what becomes of it, not all that was found in it.
fn told(object: &Object) -> Value {
    if let Object::Agent(one) = object { agent(one) } else { object.to_wire() }
}

fn agent(one: &Agent) -> Value {
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

fn about(object: &Object) -> String {
    let cluster = match object {
        Object::Cluster(cluster) => cluster,
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
fn lease(change: &Change<'_, IpLease>) -> Option<String> {
    let one = change.after.or(change.before)?;
    let name = name(Kind::IpClaim, &one.key());
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
    Some(format!("{mark} {name}{what}"))
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
