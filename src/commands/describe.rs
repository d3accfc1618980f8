//! `describe`: shows objects for people: their fields and conditions, the objects that belong to
//! them, their latest events, and what to do next.

mod related;

use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use crate::causes;
use crate::model::agent::{Agent, HostState};
use crate::model::event::Event;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::time::Time;
use crate::output::{self, Answer, Name, clean_line};
use crate::plan;
use crate::store::Store;

use crate::commands::agent::fit;
use crate::commands::describe::related::{
    RelatedObject, draw_related_objects, find_related_objects,
};
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

/// The answer about an object: its fields, conditions, related objects and latest events, and what
/// to do next.
fn describe(context: &Context, store: &Store, object: &Object) -> Result<Answer, Refusal> {
    let key = object.key();
    let now = context.world.now().max(store.read_mark()?.now);
    let mut recent_events = store.list_events(Some((object.kind(), &key)), RECENT_EVENTS)?;
    recent_events.retain(|event| event.time >= context.visible_since(object));
    recent_events.reverse();
    let related = find_related_objects(context, store, object, now)?;
    let chain = causes::explain(&evidence::gather_evidence(context, store, object)?, object);
    let next = context.next_for_person(&chain.next);
    let document = json!({
        "object": object.to_wire(),
        "related": related.iter().map(RelatedObject::document).collect::<Vec<_>>(),
        "events": recent_events.iter().map(events::event_document).collect::<Vec<_>>(),
        "causes": chain.causes,
        "next": next,
    });
    let mut description = describe_object(context, store, object)?;
    if !related.is_empty() {
        description += "\nRelated:\n";
        description += &draw_related_objects(&related);
    }
    description += &draw_events(&recent_events, object, now);
    description += "\nWhy:\n";
    for (depth, cause) in chain.causes.iter().enumerate() {
        let indent = "  ".repeat(depth.min(4) + 1);
        description += &output::wrap_line(&format!("{indent}{}", clean_line(cause)));
        description.push('\n');
    }
    description += "\nNext: ";
    let next_lines = output::break_text(&next, output::WIDTH - "Next: ".len());
    description += &next_lines.join("\n      ");
    description.push('\n');
    let name = Name::of(object.kind(), &key);
    Ok(Answer::text(description).with_name(name).with_document(document))
}

/// An object for people: its fields, its conditions, and what its kind has beside them.
fn describe_object(context: &Context, store: &Store, object: &Object) -> Result<String, Refusal> {
    let mut document = object.to_wire();
    let conditions = conditions_of(&document);
    if let Some(fields) = document.as_object_mut()
        && let Some(status) = fields.get_mut("status").and_then(Value::as_object_mut)
    {
        // These two are told below in fewer words.
        status.remove("conditions");
        status.remove("validationsInfo");
        if status.is_empty() {
            fields.remove("status");
        }
    }
    let mut out = output::describe_document(object.kind(), &document);
    if let Object::Secret(secret) = object {
        let keys: Vec<&str> = secret.values.keys().map(String::as_str).collect();
        let keys = format!("{} (values are never shown)", keys.join(", "));
        out += &output::describe_value("Keys:", &keys);
    }
    if !conditions.is_empty() {
        out += "\nConditions:\n";
        out += &output::draw_with_sentences(&["type", "status", "reason"], &conditions);
    }
    match object {
        Object::ClusterPool(pool) => describe_pool(&mut out, context, pool),
        Object::Agent(agent) => describe_agent(&mut out, agent),
        Object::InfraEnv(infra_env) if infraenv_iso::is_image_stale(store, infra_env)? => {
            let staleness = "older than its spec or its NMStateConfigs";
            push_part(&mut out, "Image:", staleness);
        }
        _ => {}
    }
    Ok(out)
}

/// Adds a value below a gap.
fn push_part(out: &mut String, label: &str, value: &str) {
    out.push('\n');
    out.push_str(&output::describe_value(label, value));
}

/// The last events. Those of other objects, such as the hosts of a cluster, name these.
fn draw_events(recent_events: &[Event], object: &Object, now: Time) -> String {
    if recent_events.is_empty() {
        return "\nEvents:       <none>\n".to_owned();
    }
    let name = object.key().name;
    let mut rows = Vec::new();
    for event in recent_events {
        let is_of_object = event.kind == object.kind().name() && event.object.name == name;
        let sentence = if is_of_object {
            event.message.clone()
        } else {
            let word = Kind::from_name(event.kind).map_or("object", Kind::word);
            format!("{word}/{}: {}", event.object.name, event.message)
        };
        let cells = vec![
            now.since(event.time).to_short_text(),
            event.event_type.name().to_owned(),
            event.reason.clone(),
            event.actor.clone(),
        ];
        rows.push((cells, sentence));
    }
    let table = output::draw_with_sentences(&["age", "type", "reason", "actor"], &rows);
    format!("\nEvents:\n{table}")
}

/// What of a pool is no field of it: a summary of its inventory, and when its schedule acts next.
fn describe_pool(out: &mut String, context: &Context, pool: &ClusterPool) {
    if let Some(summary) = plan::inventory_summary(pool) {
        push_part(out, "Inventory:", &summary);
    }
    if let Some(schedule) = plan::schedule_of(pool)
        && let Some((time, line)) = schedule.next_tick(context.world.now())
    {
        let mut next_tick = time.to_string();
        if let Some(size) = line.size {
            let _ = write!(next_tick, " size {size}");
        }
        if let Some(running_count) = line.running_count {
            let _ = write!(next_tick, " runningCount {running_count}");
        }
        push_part(out, "Scheduled Next:", &next_tick);
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
        push_part(out, "Validations:", &counts.join(", "));
    }
    for (category, checks) in &agent.status.validations_info {
        let mut lines = Vec::new();
        for check in checks {
            if matches!(check.status.as_str(), "failure" | "error") {
                lines.push(format!("    {}: {}", check.id, check.message));
            }
        }
        if !lines.is_empty() {
            push_line(out, &format!("  {category}:"));
        }
        for line in lines {
            push_line(out, &line);
        }
    }
    if agent.state().is_free()
        && let Some(left) = &agent.status.deprovision_info
    {
        push_part(out, "Left Behind:", &left.message);
    }
    if agent.state() == HostState::Error
        && let Some(join_again_at) = agent.status.join_again_at
    {
        push_part(out, "Next Attempt:", &join_again_at.to_string());
    }
    if agent.bound_cluster().is_none() {
        let lines = fit::role_fit_lines(agent);
        if !lines.is_empty() {
            *out += "\nFit:\n";
        }
        for line in lines {
            push_line(out, &format!("  {line}"));
        }
    }
}

/// Adds a line, which goes on in further lines if it is long.
fn push_line(out: &mut String, line: &str) {
    out.push_str(&output::wrap_line(&clean_line(line)));
    out.push('\n');
}

/// The conditions of an object's document, each as its type, status and reason, with its message.
/// Empty for kinds without conditions.
fn conditions_of(document: &Value) -> Vec<(Vec<String>, String)> {
    let mut rows = Vec::new();
    let conditions = document.pointer("/status/conditions").and_then(Value::as_array);
    for condition in conditions.into_iter().flatten() {
        let [kind, status, reason, message] = ["type", "status", "reason", "message"]
            .map(|field| condition[field].as_str().unwrap_or_default().to_owned());
        rows.push((vec![kind, status, reason], message));
    }
    rows
}
