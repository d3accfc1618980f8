//! `describe`: one object with its conditions, its events, and what to do next.

use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use crate::causes;
use crate::model::agent::{Agent, HostState};
use crate::model::condition::Condition;
use crate::model::event::Event;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::output::{self, Answer, Name, clean};
use crate::plan;
use crate::store::Store;

use crate::commands::agent::fit;
use crate::commands::infraenv::iso as infraenv_iso;
use crate::commands::why::evidence;
use crate::commands::{Context, Verb, events, target};

/// Events shown.
const RECENT: usize = 10;
/// What checks of hosts come to.
const RESULTS: [&str; 5] = ["success", "failure", "error", "pending", "disabled"];

#[derive(Args)]
pub struct Describe {
    /// Kind, or KIND/NAME
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

impl Verb for Describe {
    const NAME: &'static str = "describe";
    const ABOUT: &'static str = "Show an object with its conditions, events and what to do next";
    const EXAMPLE: &'static str = "poolctl describe pool lab";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, name) = target::one(&self.kind, self.name.as_deref(), Self::EXAMPLE)?;
        let store = context.look()?;
        let object = context.find_object(&store, kind, &name)?;
        let mut recent = store.events(Some((kind, &object.key())), RECENT)?;
        recent.retain(|one| one.time >= context.since(&object));
        recent.reverse();
        let chain = causes::explain(&evidence::gather(context, &store, &object)?, &object);
        let next = context.step(&chain.next);
        let document = json!({
            "object": object.to_wire(),
            "events": recent.iter().map(events::document).collect::<Vec<_>>(),
            "next": next,
        });
        let text = text(context, &store, &object, &recent, &next)?;
        let name = Name::of(kind, &object.key());
        context.answer(Answer::text(text).with_name(name).with_document(document))
    }
}

/// The object for people: its fields, its conditions, what it says beside them, its events.
fn text(
    context: &Context,
    store: &Store,
    object: &Object,
    recent: &[Event],
    next: &str,
) -> Result<String, Refusal> {
    let mut out = String::new();
    let mut wire = object.to_wire();
    let conditions = conditions(object);
    if let Some(fields) = wire.as_object_mut() {
        fields.remove("apiVersion");
        if let Some(status) = fields.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("conditions");
            status.remove("validationsInfo");
        }
    }
    fields(&mut out, &wire, 0);
    if let Object::Secret(secret) = object {
        let keys: Vec<&str> = secret.values.keys().map(String::as_str).collect();
        let _ = writeln!(out, "keys: {} (values are never shown)", keys.join(", "));
    }
    if !conditions.is_empty() {
        out += "\nconditions:\n";
        out += &table(&conditions);
    }
    match object {
        Object::ClusterPool(one) => of_pool(&mut out, context, one),
        Object::Agent(one) => of_agent(&mut out, one),
        _ => {}
    }
    if let Object::InfraEnv(one) = object
        && infraenv_iso::is_stale(store, one)?
    {
        let _ = writeln!(out, "\nimage: older than its spec or its NMStateConfigs");
    }
    if !recent.is_empty() {
        let now = context.world.now().max(store.mark()?.1.now);
        out += "\nevents:\n";
        let rows: Vec<_> = recent.iter().map(|one| events::row(one, now)).collect();
        out += &output::render(&rows, true);
    }
    let _ = writeln!(out, "\nNext: {next}");
    Ok(out)
}

fn of_pool(out: &mut String, context: &Context, pool: &ClusterPool) {
    if let Some(summary) = plan::inventory_summary(pool) {
        let _ = writeln!(out, "\ninventory: {}", clean(&summary));
    }
    if let Some(schedule) = plan::schedule_of(pool)
        && let Some((time, line)) = schedule.next(context.world.now())
    {
        let number = |name: &str, to: Option<u32>| to.map(|to| format!(" {name} {to}"));
        let [size, running] =
            [number("size", line.size), number("runningCount", line.running_count)];
        let what = size.unwrap_or_default() + &running.unwrap_or_default();
        let _ = writeln!(out, "\nscheduled next: {time}{what}");
    }
}

/// What a host was checked for and is not, by category; and while it is free, what it is good for.
fn of_agent(out: &mut String, agent: &Agent) {
    let many = |status: &str| agent.validations().filter(|one| one.status == status).count();
    let counts = RESULTS.into_iter().map(|status| (many(status), status));
    let counts = counts.filter(|(many, _)| *many > 0);
    let counts: Vec<String> = counts.map(|(many, status)| format!("{many} {status}")).collect();
    if !counts.is_empty() {
        let _ = writeln!(out, "\nvalidations: {}", counts.join(", "));
    }
    for (category, all) in &agent.status.validations_info {
        let bad = all.iter().filter(|one| matches!(one.status.as_str(), "failure" | "error"));
        let lines: Vec<String> =
            bad.map(|one| format!("    {}: {}\n", clean(&one.id), clean(&one.message))).collect();
        if !lines.is_empty() {
            let _ = write!(out, "  {}:\n{}", clean(category), lines.concat());
        }
    }
    if let Some(left) = agent.status.deprovision_info.as_ref().filter(|_| agent.state().is_free()) {
        let _ = writeln!(out, "\nleft behind: {}", clean(&left.message));
    }
    let failed = agent.state() == HostState::Error;
    if let Some(again) = agent.status.join_again_at.filter(|_| failed) {
        let _ = writeln!(out, "\ntried again: {again}");
    }
    let fit = if agent.bound_to().is_none() { fit::lines(agent) } else { Vec::new() };
    if !fit.is_empty() {
        *out += "\nfit:\n";
    }
    for line in fit {
        let _ = writeln!(out, "  {}", clean(&line));
    }
}

fn conditions(object: &Object) -> Vec<Condition> {
    match object {
        Object::ClusterPool(one) => one.status.conditions.clone(),
        Object::ClusterClaim(one) => one.conditions(),
        Object::ClusterDeployment(one) => one.conditions(),
        Object::Customization(one) => one.status.conditions.clone(),
        Object::BareMetalHost(one) => one.status.conditions.clone(),
        Object::InfraEnv(one) => one.status.conditions.clone(),
        Object::Agent(one) => one.status.conditions.clone(),
        _ => Vec::new(),
    }
}

fn table(conditions: &[Condition]) -> String {
    let row = |one: &Condition| {
        vec![one.kind.clone(), one.status.clone(), one.reason.clone(), one.message.clone()]
    };
    let rows: Vec<_> = conditions.iter().map(row).collect();
    output::table(&["type", "status", "reason", "message"], &rows)
}

/// Fields, indented, in the order of the document.
fn fields(out: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let Value::Object(map) = value else { return };
    for (name, value) in map {
        match value {
            Value::Object(_) => {
                let _ = writeln!(out, "{indent}{}:", clean(name));
                fields(out, value, depth + 1);
            }
            Value::Array(items) => {
                let _ = writeln!(out, "{indent}{}:", clean(name));
                for item in items {
                    let _ = writeln!(out, "{indent}  - {}", clean(&plain(item)));
                }
            }
            scalar => {
                let _ = writeln!(out, "{indent}{}: {}", clean(name), clean(&plain(scalar)));
            }
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let pair = |(name, value): (&String, &Value)| format!("{name}: {}", plain(value));
            map.iter().map(pair).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}
