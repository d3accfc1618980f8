//! Fills a state with what a file holds: its objects, completed with what an older or another program
//! does not write, its jobs and its events. Links of which only one end was written are completed.

use std::collections::{HashMap, HashSet};

use crate::edits;
use crate::manifest::{Manifests, ObjectPlaces, RepeatedObject};
use crate::model::cluster::{Cluster, Power};
use crate::model::documents::DEFAULT_NAMESPACE;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::plan;

use crate::commands::export::{clusters_being_installed, mark_interrupted};

/// Puts everything into a state, and says which of its links were completed.
pub fn fill_state(
    state: &mut State,
    manifests: Manifests,
    tick: &Tick,
) -> Result<Vec<String>, Refusal> {
    insert_manifests(state, manifests, tick)?;
    let imported_count = state.events.len();
    plan::restore_inventory_history(state);
    plan::repair_links(state, tick);
    plan::restore_counts(state, tick);
    Ok(describe_repairs(state, imported_count))
}

/// What was repaired since there were so many events.
pub fn describe_repairs(state: &State, event_count: usize) -> Vec<String> {
    let mut repairs = Vec::new();
    for (event, _) in &state.events[event_count..] {
        repairs.push(format!("{} {}: {}", event.kind, event.object, event.message));
    }
    repairs
}

/// Inserts the objects of a file, with its jobs and events.
pub fn insert_manifests(
    state: &mut State,
    manifests: Manifests,
    tick: &Tick,
) -> Result<(), Refusal> {
    let Manifests { objects, jobs, events, places, last_spooled_record, .. } = manifests;
    // Live jobs broke off when the state was moved: after everything that the file knows of.
    let starts = jobs.iter().map(|job| job.started);
    let last_events = events.iter().map(|event| event.time).chain(last_spooled_record);
    let last_known = starts.chain(last_events).max();
    let interrupted_at = last_known.unwrap_or_default().max(tick.now);
    let installing = clusters_being_installed(&jobs);
    let job_counts = count_jobs_of_objects(&jobs);
    let mut objects = without_implied_namespaces(objects);
    // What an object refers to comes before it: the name of an address follows from its pool.
    objects.sort_by_key(Object::kind);
    for mut object in objects {
        mark_interrupted(&mut object, &installing);
        if state.find_object(&object).is_some() {
            return Err(refuse_repeated(&object, &places));
        }
        insert_object(state, object, &job_counts, tick)?;
    }
    edits::restore_indexes(state, tick);
    let mut job_ids = HashSet::new();
    for mut job in jobs {
        if !job_ids.insert(job.id) {
            return Err(Refusal::invalid(format!("the file has job `{}` twice", job.id)));
        }
        if job.started == Time::default() {
            // The file has lost the status of the job, which says when it started.
            job.started = interrupted_at;
        }
        job.interrupt(interrupted_at);
        state.jobs.insert(job);
    }
    for event in events {
        state.record_event(event);
    }
    Ok(())
}

/// Refuses an object of which the file has another one before.
fn refuse_repeated(object: &Object, places: &ObjectPlaces) -> Refusal {
    let name = format!("{} `{}`", object.kind().word(), object.key());
    let refusal = Refusal::invalid(format!("the file has {name} twice"));
    match places.find_repeated(object.kind(), &object.key()) {
        None => refusal,
        Some(RepeatedObject { first_place, second_place, .. }) => refusal
            .because(format!("{first_place} has it first, and {second_place} has it again"))
            .advise("delete one of the two where the file comes from"),
    }
}

/// How many jobs each object has.
fn count_jobs_of_objects(jobs: &[Job]) -> HashMap<String, u32> {
    let mut counts: HashMap<String, u32> = HashMap::new();
    for job in jobs {
        *counts.entry(job.object.clone()).or_default() += 1;
    }
    counts
}

/// Inserts one object of the file, completed with what an older or another program does not write.
/// How many jobs of a cluster are in the file tells how far it had come.
pub fn insert_object(
    state: &mut State,
    mut object: Object,
    job_counts: &HashMap<String, u32>,
    tick: &Tick,
) -> Result<(), Refusal> {
    complete_metadata(&mut object, tick);
    if let Object::ClusterDeployment(cluster) = &mut object {
        let job_count = job_counts.get(&cluster.name).copied().unwrap_or_default();
        take_over_cluster(cluster, job_count, tick);
    }
    edits::import_object(state, object, tick)
}

/// Completes the facts of a cluster that was installed, or was being installed, somewhere else, so
/// that what there is of it can be destroyed.
fn take_over_cluster(cluster: &mut Cluster, job_count: u32, tick: &Tick) {
    cluster.ordinal = job_count;
    let has_metadata =
        cluster.body.as_ref().is_some_and(|body| body.spec.cluster_metadata.is_some());
    if let Some(installed_at) = cluster.installed_at {
        // A deleted cluster that only a finalizer of another program holds has been destroyed.
        if cluster.deleting.is_none() || !cluster.held {
            cluster.started_at.get_or_insert(installed_at);
        }
        if cluster.power == Power::Unset {
            cluster.power = cluster.wanted_power();
            cluster.power_since.get_or_insert(tick.now);
            cluster.awake_since.get_or_insert(tick.now);
        }
    } else if has_metadata {
        cluster.started_at.get_or_insert(cluster.created);
    }
    let was_installing = cluster.started_at.is_some()
        && !(cluster.is_installed() || cluster.stopped || job_count > 0)
        && cluster.failed_at.is_none()
        && cluster.deleting.is_none();
    // The program that was installing it, wherever that ran, does not go on here.
    cluster.interrupted |= was_installing;
}

/// Fills in the identity and the age that a manifest written by hand leaves out.
fn complete_metadata(object: &mut Object, tick: &Tick) {
    let kind = object.kind();
    match object {
        Object::ClusterClaim(claim) if claim.created == Time::default() => {
            claim.created = tick.now;
        }
        Object::ClusterDeployment(cluster) if cluster.created == Time::default() => {
            cluster.created = tick.now;
        }
        // A lease has the identity and the age of its row. Secrets that come with a cluster have no
        // identity of their own.
        Object::IpClaim(_) | Object::IpAddress(_) | Object::Secret(_) => return,
        _ => {}
    }
    let Some(metadata) = object.meta_mut() else { return };
    let imported = metadata.clone();
    edits::initialize_metadata(metadata, kind, tick);
    if !imported.uid.is_empty() {
        metadata.uid = imported.uid;
    }
    metadata.generation = imported.generation.max(1);
    if matches!(kind, Kind::ClusterClaim | Kind::ClusterDeployment) {
        // These keep their age as a fact of their own.
        metadata.creation_timestamp = None;
    } else if imported.creation_timestamp.is_some() {
        metadata.creation_timestamp = imported.creation_timestamp;
    }
}

/// Leaves out the namespaces that every state has and those that clusters bring along: they are listed
/// with their clusters, and come and go with them.
fn without_implied_namespaces(mut objects: Vec<Object>) -> Vec<Object> {
    let mut own_namespaces = HashSet::from([DEFAULT_NAMESPACE.to_owned()]);
    for object in &objects {
        if let Object::ClusterDeployment(cluster) = object
            && cluster.namespace == cluster.name
        {
            own_namespaces.insert(cluster.name.clone());
        }
    }
    objects.retain(|object| match object {
        Object::Namespace(namespace) => {
            !namespace.is_implied() || !own_namespaces.contains(&namespace.metadata.name)
        }
        _ => true,
    });
    objects
}
