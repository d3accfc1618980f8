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
use crate::output::{Answer, Description, Name};
use crate::plan;
use crate::store::Store;

use crate::commands::agent::fit;
use crate::commands::describe::related::{
    RelatedObject, draw_related_objects, find_related_objects,
};
use crate::commands::infraenv::iso as infraenv_iso;
use crate::commands::manifest_files::ManifestFiles;
use crate::commands::selector::Selector;
use crate::commands::why::evidence;
use crate::commands::{Audience, Context, RunCommand, events, target};

/// Events that are shown.
const RECENT_EVENTS: usize = 10;
/// The results that a check of a host may have.
const CHECK_RESULTS: [&str; 5] = ["success", "failure", "error", "pending", "disabled"];

/// Arguments of `describe`.
#[derive(Args)]
pub struct Describe {
    /// Object, such as pool/lab; or a kind, such as pool, whose objects are all shown
    #[arg(
        value_name = "KIND/NAME",
        required_unless_present_any = ["filename", "kustomize"],
        conflicts_with_all = ["filename", "kustomize"]
    )]
    kind: Option<String>,
    /// Names of objects of the kind, or further objects such as claim/ci-17
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only objects of the kind with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<Selector>,
    #[command(flatten)]
    files: ManifestFiles,
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
        if self.files.is_given() {
            return self.files.find_objects(context, store, false);
        }
        let kind_word = self.kind.as_deref().unwrap_or_default();
        if self.names.is_empty() && !kind_word.contains('/') {
            let kind = target::parse_kind(kind_word)?;
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
        for (kind, name) in target::parse_objects(kind_word, &self.names)? {
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
    // Its first cause says how it is, and the next one why.
    let summary = chain.causes.get(..2).unwrap_or(&chain.causes);
    let mut description = describe_object(context, store, object, summary)?;
    if !related.is_empty() {
        description.add_heading("Related:");
        description.add_lines(&draw_related_objects(&related));
    }
    add_events(&mut description, &recent_events, object, now);
    description.add_heading("Why:");
    for (index, cause) in chain.causes.iter().enumerate() {
        let indent = "  ".repeat(chain.depth_of(index).min(4) + 1);
        description.add_line(&format!("{indent}{cause}"));
    }
    description.add_next(&next);
    let answer = Answer::text(description.into_text());
    Ok(answer.with_name(Name::of(object.kind(), &key)).with_document(document))
}

/// Fields of the status of a pool by which poolctl counts for itself.
const OWN_COUNTS: [&str; 5] = ["history", "wakings", "ordinal", "provisions", "givenUpInARow"];

/// An object for people: its fields, its conditions, and what its kind has beside them.
fn describe_object(
    context: &Context,
    store: &Store,
    object: &Object,
    summary: &[String],
) -> Result<Description, Refusal> {
    let mut document = object.to_wire();
    let conditions = conditions_of(&document);
    if let Some(fields) = document.as_object_mut()
        && let Some(status) = fields.get_mut("status").and_then(Value::as_object_mut)
    {
        // These two are told below in fewer words.
        status.remove("conditions");
        status.remove("validationsInfo");
        if object.kind() == Kind::ClusterPool {
            status.retain(|field, _| !OWN_COUNTS.contains(&field.as_str()));
        }
        if status.is_empty() {
            fields.remove("status");
        }
    }
    let mut description = Description::new(context.style());
    description.add_document(object.kind(), &document, summary);
    if let Object::Secret(secret) = object {
        let keys: Vec<&str> = secret.values.keys().map(String::as_str).collect();
        description.add_value("Keys:", &format!("{} (values are never shown)", keys.join(", ")));
    }
    if !conditions.is_empty() {
        description.add_heading("Conditions:");
        description.add_rows(&["type", "status", "reason"], &conditions);
    }
    match object {
        Object::ClusterPool(pool) => describe_pool(&mut description, context, pool),
        Object::Agent(agent) => describe_agent(&mut description, agent),
        Object::InfraEnv(infra_env) if infraenv_iso::is_image_stale(store, infra_env)? => {
            description.add_part("Image:", "older than its spec or its NMStateConfigs");
        }
        _ => {}
    }
    Ok(description)
}

/// The last events. Those of other objects, such as the hosts of a cluster, name these.
fn add_events(description: &mut Description, recent_events: &[Event], object: &Object, now: Time) {
    if recent_events.is_empty() {
        return description.add_part("Events:", "<none>");
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
    description.add_heading("Events:");
    description.add_rows(&["age", "type", "reason", "actor"], &rows);
}

/// What of a pool is no field of it: a summary of its inventory, and when its schedule acts next.
fn describe_pool(description: &mut Description, context: &Context, pool: &ClusterPool) {
    if let Some(summary) = plan::inventory_summary(pool) {
        description.add_part("Inventory:", &summary);
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
        description.add_part("Scheduled Next:", &next_tick);
    }
}

/// The checks of a host that failed, by category, and while it is free the roles that it fits.
fn describe_agent(description: &mut Description, agent: &Agent) {
    let mut counts = Vec::new();
    for result in CHECK_RESULTS {
        let count = agent.validations().filter(|check| check.status == result).count();
        if count > 0 {
            counts.push(format!("{count} {result}"));
        }
    }
    if !counts.is_empty() {
        description.add_part("Validations:", &counts.join(", "));
    }
    for (category, checks) in agent.status.validations_info.get() {
        let mut lines = Vec::new();
        for check in checks {
            if matches!(check.status.as_str(), "failure" | "error") {
                lines.push(format!("    {}: {}", check.id, check.message));
            }
        }
        if !lines.is_empty() {
            description.add_line(&format!("  {category}:"));
        }
        for line in lines {
            description.add_line(&line);
        }
    }
    if agent.state().is_free()
        && let Some(left) = &agent.status.deprovision_info
    {
        description.add_part("Left Behind:", &left.message);
    }
    if agent.state() == HostState::Error
        && let Some(join_again_at) = agent.status.join_again_at
    {
        description.add_part("Next Attempt:", &join_again_at.to_string());
    }
    if agent.bound_cluster().is_none() {
        let lines = fit::role_fit_lines(agent);
        if !lines.is_empty() {
            description.add_heading("Fit:");
        }
        for line in lines {
            description.add_line(&format!("  {line}"));
        }
    }
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
