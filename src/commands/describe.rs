//! `describe`: shows one object with its conditions, its latest events, and what to do next.

use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use crate::causes;
use crate::model::agent::{Agent, HostState};
use crate::model::condition::Condition;
use crate::model::event::Event;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::output::{self, Answer, Name, clean_line};
use crate::plan;
use crate::store::Store;

use crate::commands::agent::fit;
use crate::commands::infraenv::iso as infraenv_iso;
use crate::commands::selector::Selector;
use crate::commands::why::evidence;
use crate::commands::{Audience, Context, RunCommand, events, target};

/// Events that are shown.
const RECENT_EVENTS: usize = 10;
/// The results that a check of a host may have.
const CHECK_RESULTS: [&str; 5] = ["success", "failure", "error", "pending", "disabled"];

#[derive(Args)]
pub struct Describe {
    /// Object, such as pool/lab; or a kind, such as pool, whose objects are all shown
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    /// Names of objects of the kind, or further objects such as claim/ci-17
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only objects of the kind with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<Selector>,
}

impl RunCommand for Describe {
    const NAME: &'static str = "describe";
    const ABOUT: &'static str = "Show an object with its conditions, events and what to do next";
    const EXAMPLE: &'static str = "poolctl describe pool lab";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let objects = self.find_objects(context, &store)?;
        if objects.is_empty() && context.is_for_people() {
            context.hint("nothing to describe");
        }
        for (index, object) in objects.iter().enumerate() {
            let answer = describe(context, &store, object)?;
            context.answer(if index > 0 { answer.after_gap() } else { answer })?;
        }
        Ok(())
    }
}

impl Describe {
    /// The objects that are named, or those of the kind that the asking person may see.
    fn find_objects(&self, context: &Context, store: &Store) -> Result<Vec<Object>, Refusal> {
        if self.names.is_empty() && !self.kind.contains('/') {
            let kind = target::parse_kind(&self.kind)?;
            if kind.is_record() {
                let next = format!("poolctl get {}", kind.word());
                return Err(Refusal::usage("a kind and a name are needed").next(next));
            }
            if !matches!(kind, Kind::ClusterClaim | Kind::ClusterDeployment) {
                context.refuse_guest(&format!("every {}", kind.word()))?;
            }
            let objects = context.select_objects(store, kind, self.selector.as_ref())?;
            return context.filter_visible(store, objects);
        }
        let mut objects = Vec::new();
        for (kind, name) in target::parse_objects(&self.kind, &self.names)? {
            objects.push(context.find_object(store, kind, &name)?);
        }
        Ok(objects)
    }
}

/// The answer about an object: its fields, conditions and latest events, and what to do next.
fn describe(context: &Context, store: &Store, object: &Object) -> Result<Answer, Refusal> {
    let key = object.key();
    let mut recent_events = store.list_events(Some((object.kind(), &key)), RECENT_EVENTS)?;
    recent_events.retain(|event| event.time >= context.visible_since(object));
    recent_events.reverse();
    let chain = causes::explain(&evidence::gather_evidence(context, store, object)?, object);
    let next = context.next_for_person(&chain.next);
    let document = json!({
        "object": object.to_wire(),
        "events": recent_events.iter().map(events::event_document).collect::<Vec<_>>(),
        "causes": chain.causes,
        "next": next,
    });
    let mut description = describe_object(context, store, object, &recent_events)?;
    description += "\nwhy:\n";
    for (depth, cause) in chain.causes.iter().enumerate() {
        let _ = writeln!(description, "{}{}", "  ".repeat(depth.min(4) + 1), clean_line(cause));
    }
    let _ = writeln!(description, "\nNext: {next}");
    let name = Name::of(object.kind(), &key);
    Ok(Answer::text(description).with_name(name).with_document(document))
}

/// An object for people: its fields, its conditions, what its kind has beside them, its events.
fn describe_object(
    context: &Context,
    store: &Store,
    object: &Object,
    recent_events: &[Event],
) -> Result<String, Refusal> {
    let mut out = String::new();
    let mut document = object.to_wire();
    if let Some(fields) = document.as_object_mut() {
        fields.remove("apiVersion");
        // These two are told below in fewer words.
        if let Some(status) = fields.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("conditions");
            status.remove("validationsInfo");
        }
    }
    write_fields(&mut out, &document, 0);
    if let Object::Secret(secret) = object {
        let keys: Vec<&str> = secret.values.keys().map(String::as_str).collect();
        let _ = writeln!(out, "keys: {} (values are never shown)", keys.join(", "));
    }
    let conditions = conditions_of(object);
    if !conditions.is_empty() {
        out += "\nconditions:\n";
        out += &condition_table(&conditions);
    }
    match object {
        Object::ClusterPool(pool) => describe_pool(&mut out, context, pool),
        Object::Agent(agent) => describe_agent(&mut out, agent),
        Object::InfraEnv(infra_env) if infraenv_iso::is_image_stale(store, infra_env)? => {
            let _ = writeln!(out, "\nimage: older than its spec or its NMStateConfigs");
        }
        _ => {}
    }
    if !recent_events.is_empty() {
        let now = context.world.now().max(store.read_mark()?.now);
        out += "\nevents:\n";
        let rows: Vec<_> =
            recent_events.iter().map(|event| events::event_table_row(event, now)).collect();
        out += &output::draw_rows(&rows);
    }
    Ok(out)
}

/// What of a pool is no field of it: a summary of its inventory, and when its schedule acts next.
fn describe_pool(out: &mut String, context: &Context, pool: &ClusterPool) {
    if let Some(summary) = plan::inventory_summary(pool) {
        let _ = writeln!(out, "\ninventory: {}", clean_line(&summary));
    }
    if let Some(schedule) = plan::schedule_of(pool)
        && let Some((time, line)) = schedule.next_tick(context.world.now())
    {
        let _ = write!(out, "\nscheduled next: {time}");
        if let Some(size) = line.size {
            let _ = write!(out, " size {size}");
        }
        if let Some(running_count) = line.running_count {
            let _ = write!(out, " runningCount {running_count}");
        }
        out.push('\n');
    }
}

/// The checks of a host that failed, by category, and while it is free the roles that it fits.
fn describe_agent(out: &mut String, agent: &Agent) {
    let mut counts = Vec::new();
    for result in CHECK_RESULTS {
        let count = agent.validations().filter(|check| check.status == result).count();
        if count > 0 {
            counts.push(format!("{count} {result}"));
        }
    }
    if !counts.is_empty() {
        let _ = writeln!(out, "\nvalidations: {}", counts.join(", "));
    }
    for (category, checks) in &agent.status.validations_info {
        let mut lines = String::new();
        for check in checks {
            if matches!(check.status.as_str(), "failure" | "error") {
                let _ = writeln!(
                    lines,
                    "    {}: {}",
                    clean_line(&check.id),
                    clean_line(&check.message)
                );
            }
        }
        if !lines.is_empty() {
            let _ = write!(out, "  {}:\n{lines}", clean_line(category));
        }
    }
    if agent.state().is_free()
        && let Some(left) = &agent.status.deprovision_info
    {
        let _ = writeln!(out, "\nleft behind: {}", clean_line(&left.message));
    }
    if agent.state() == HostState::Error
        && let Some(join_again_at) = agent.status.join_again_at
    {
        let _ = writeln!(out, "\nnext attempt: {join_again_at}");
    }
    if agent.bound_cluster().is_none() {
        let lines = fit::role_fit_lines(agent);
        if !lines.is_empty() {
            *out += "\nfit:\n";
        }
        for line in lines {
            let _ = writeln!(out, "  {}", clean_line(&line));
        }
    }
}

/// The conditions of an object, made from facts where they are not stored. Empty for kinds without
/// conditions.
fn conditions_of(object: &Object) -> Vec<Condition> {
    match object {
        Object::ClusterPool(pool) => pool.status.conditions.clone(),
        Object::ClusterClaim(claim) => claim.conditions(),
        Object::ClusterDeployment(cluster) => cluster.conditions(),
        Object::Customization(customization) => customization.status.conditions.clone(),
        Object::BareMetalHost(host) => host.status.conditions.clone(),
        Object::InfraEnv(infra_env) => infra_env.status.conditions.clone(),
        Object::Agent(agent) => agent.status.conditions.clone(),
        Object::IpPool(ip_pool) => ip_pool.status.conditions.clone(),
        Object::IpClaim(claim) => claim.status.conditions.clone(),
        _ => Vec::new(),
    }
}

fn condition_table(conditions: &[Condition]) -> String {
    let mut rows = Vec::new();
    for Condition { kind, status, reason, message, .. } in conditions {
        rows.push(vec![kind.clone(), status.clone(), reason.clone(), message.clone()]);
    }
    output::draw_table(&["type", "status", "reason", "message"], &rows)
}

/// Writes the fields of a mapping, indented, in the order of the document.
fn write_fields(out: &mut String, mapping: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let Value::Object(fields) = mapping else { return };
    for (name, value) in fields {
        match value {
            Value::Object(_) => {
                let _ = writeln!(out, "{indent}{}:", clean_line(name));
                write_fields(out, value, depth + 1);
            }
            Value::Array(items) => {
                let _ = writeln!(out, "{indent}{}:", clean_line(name));
                for item in items {
                    let _ = writeln!(out, "{indent}  - {}", clean_line(&value_in_a_line(item)));
                }
            }
            scalar => {
                let _ = writeln!(
                    out,
                    "{indent}{}: {}",
                    clean_line(name),
                    clean_line(&value_in_a_line(scalar))
                );
            }
        }
    }
}

/// A value of a field on one line: strings without quotes, mappings as `name: value` pairs, lists
/// as JSON.
fn value_in_a_line(value: &Value) -> String {
    match value {
        Value::String(string) => string.clone(),
        Value::Object(fields) => {
            let mut pairs = Vec::new();
            for (name, value) in fields {
                pairs.push(format!("{name}: {}", value_in_a_line(value)));
            }
            pairs.join(", ")
        }
        scalar_or_array => scalar_or_array.to_string(),
    }
}
