//! The law of the round trip: every object of a state can be read from its document, and a state
//! that is filled with these objects has the same documents and needs no repair.

use poolctl::edits::import_object;
use poolctl::manifest::check_edited_document;
use poolctl::model::kinds::Kind;
use poolctl::model::object::Object;
use poolctl::model::refusal::Refusal;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::plan;
use poolctl::rules::{check_invariants, check_single_holders};
use poolctl::store::{Filter, Store};
use serde_json::Value;

use super::world::SimWorld;

/// Fields that follow from times within a second, of which documents have only whole ones.
const UNCERTAIN: [&str; 5] =
    ["uid", "creationTimestamp", "claimedTimestamp", "lastProbeTime", "lastTransitionTime"];

/// What is wrong with a round trip, in a sentence; none if nothing is.
type Problem = Option<String>;

/// Fills a state in memory with all objects of the world, and compares them.
pub fn check_round_trip(world: &SimWorld) -> Result<(), String> {
    as_check(import_into_memory(world))
}

/// Fills a new state file with all objects of the world, and compares them: the constraints of the
/// database have a say, too.
pub fn check_import(world: &SimWorld) -> Result<(), String> {
    as_check(import_into_file(world))
}

fn as_check(outcome: Result<Problem, Refusal>) -> Result<(), String> {
    match outcome {
        Ok(None) => Ok(()),
        Ok(Some(problem)) => Err(problem),
        Err(refusal) => Err(format!("what was exported is refused: {refusal}")),
    }
}

/// All objects of a state with their documents.
pub fn export(store: &Store) -> Result<Vec<Object>, Refusal> {
    let mut objects: Vec<Object> = Vec::new();
    for kind in Kind::OBJECTS {
        objects.extend(store.list_objects(*kind, &Filter { whole: true, ..Filter::default() })?);
    }
    Ok(objects)
}

/// Puts all objects into an empty state, each as its document says.
fn import(state: &mut State, objects: &[Object], tick: &Tick) -> Result<(), Refusal> {
    check_single_holders(objects)?;
    for object in objects {
        let object = check_edited_document(object.kind(), &object.to_wire())?;
        import_object(state, object, tick)?;
    }
    Ok(())
}

fn import_into_memory(world: &SimWorld) -> Result<Problem, Refusal> {
    let tick = Tick { now: world.now()?, actor: "simulator".into(), ..Tick::default() };
    let exported = export(world.store())?;
    let mut imported = State::default();
    import(&mut imported, &exported, &tick)?;
    check_invariants(&imported)?;
    plan::repair_links(&mut imported, &tick);
    if let Some((event, _)) = imported.events.first() {
        return Ok(Some(format!("an import would need a repair: {}", event.message)));
    }
    for object in &exported {
        let problem = find_difference(object, imported.find_object(object).as_ref());
        if problem.is_some() {
            return Ok(problem);
        }
    }
    Ok(None)
}

fn import_into_file(world: &SimWorld) -> Result<Problem, Refusal> {
    let exported = export(world.store())?;
    let copy = SimWorld::new(0)?;
    copy.change_without_plan(|state, tick| import(state, &exported, tick))?;
    let imported = export(copy.store())?;
    for object in &exported {
        let mut candidates = imported.iter().filter(|candidate| candidate.key() == object.key());
        let same_object = candidates.find(|candidate| candidate.kind() == object.kind());
        let problem = find_difference(object, same_object);
        if problem.is_some() {
            return Ok(problem);
        }
    }
    Ok(None)
}

/// In what the copy of an object differs from it.
fn find_difference(object: &Object, copy: Option<&Object>) -> Problem {
    let name = format!("{} {}", object.kind().name(), object.key());
    let Some(copy) = copy else { return Some(format!("{name} is lost")) };
    let before = comparable(object.to_wire());
    let after = comparable(copy.to_wire());
    if before == after { None } else { Some(format!("{name} differs: {before} became {after}")) }
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
