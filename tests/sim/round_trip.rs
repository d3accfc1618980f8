//! The law of the round trip: every object of a state can be read from its document, and a state
//! that is filled with these objects has the same documents and needs no repair.

use poolctl::edits::import_object;
use poolctl::manifest::check_edited_document;
use poolctl::model::kinds::Kind;
use poolctl::model::object::Object;
use poolctl::model::refusal::Refusal;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::model::time::Time;
use poolctl::plan;
use poolctl::rules::{check_invariants, check_single_holders};
use poolctl::store::{Filter, Store};
use serde_json::Value;

/// Fields that follow from times within a second, of which documents have only whole ones.
const UNCERTAIN: [&str; 5] =
    ["uid", "creationTimestamp", "claimedTimestamp", "lastProbeTime", "lastTransitionTime"];

/// What a round trip changes, in a sentence.
pub fn check_round_trip(store: &Store, now: Time) -> Result<(), String> {
    round_trip(store, now).unwrap_or_else(|refusal| Err(refusal.to_string()))
}

fn round_trip(store: &Store, now: Time) -> Result<Result<(), String>, Refusal> {
    let tick = Tick { now, actor: "simulator".into(), ..Tick::default() };
    let mut exported: Vec<Object> = Vec::new();
    for kind in Kind::OBJECTS {
        exported.extend(store.list_objects(*kind, &Filter { whole: true, ..Filter::default() })?);
    }
    check_single_holders(&exported)?;
    let mut imported = State::default();
    for object in &exported {
        let object = check_edited_document(object.kind(), &object.to_wire())?;
        import_object(&mut imported, object, &tick)?;
    }
    check_invariants(&imported)?;
    plan::repair_links(&mut imported, &tick);
    if let Some((event, _)) = imported.events.first() {
        return Ok(Err(format!("an import would need a repair: {}", event.message)));
    }
    for object in &exported {
        let name = format!("{} {}", object.kind().name(), object.key());
        let Some(copy) = imported.find_object(object) else {
            return Ok(Err(format!("{name} is lost")));
        };
        let before = comparable(object.to_wire());
        let after = comparable(copy.to_wire());
        if before != after {
            return Ok(Err(format!("{name} differs: {before} became {after}")));
        }
    }
    Ok(Ok(()))
}

/// A document without what a round trip may change.
fn comparable(mut document: Value) -> Value {
    remove_uncertain_fields(&mut document);
    document
}

fn remove_uncertain_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !UNCERTAIN.contains(&name.as_str()));
            fields.values_mut().for_each(remove_uncertain_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_uncertain_fields),
        _ => {}
    }
}
