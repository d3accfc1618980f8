//! `import`: a whole state into an empty one, its links made whole.

mod leases;
mod warnings;

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::edits;
use crate::model::cluster::{Cluster, Power};
use crate::model::documents::Stored;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::output::Answer;
use crate::reconcile::Door;
use crate::store::{Filter, Store};
use crate::{plan, rules};

use crate::commands::export::break_off;
use crate::commands::{Context, Verb};
use crate::manifest::{self, Manifests, Reading};

#[derive(Args)]
pub struct Import {
    /// What `export` wrote, or any List of kubectl or oc; - is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Warn about unknown fields instead of refusing
    #[arg(long)]
    lenient: bool,
    /// Take the Settings too: they choose what runs
    #[arg(long)]
    settings: bool,
    /// Leave out leases of KIND, or KIND.GROUP, that cannot be kept; once for each
    #[arg(long, value_name = "KIND")]
    skip: Vec<String>,
}

/// What came of it.
enum Taken {
    Whole {
        repairs: Vec<String>,
    },
    /// It was there already.
    Before,
}

impl Verb for Import {
    const NAME: &'static str = "import";
    const ABOUT: &'static str = "Take a whole state, from export or kubectl, into an empty one";
    const EXAMPLE: &'static str =
        "poolctl export | poolctl --state \"$(mktemp -d)/state.db\" import -";

    /// No pass follows: what was moved is looked at first.
    fn run(self, context: &Context) -> anyhow::Result<()> {
        let namespace = context.namespace()?;
        let reading = Reading { namespace: &namespace, lenient: self.lenient, moved: true };
        let mut read = manifest::read(std::slice::from_ref(&self.file), &reading)?;
        if !self.settings {
            without_settings(&mut read);
        }
        leases::leave_out(&mut read, &self.skip, &self.file)?;
        for warning in read.warnings.iter().chain(&warnings::worth_a_word(&read)) {
            context.warn(warning);
        }
        if read.objects.is_empty() && read.jobs.is_empty() && read.events.is_empty() {
            return Err(Refusal::invalid("there is nothing to import").into());
        }
        rules::one_holder_each(&read.objects)?;
        // Before a state is made for it.
        let rehearsal = Tick { now: context.world.now(), ..Tick::default() };
        let mut imagined = State::default();
        fill(&mut imagined, read.clone(), &rehearsal)?;
        rules::invariants(&imagined)?;
        let many = read.objects.len();
        let store = context.open()?;
        let door = Door { store: &store, world: &context.world, pass: false };
        let (taken, _) = door.change(&Scope::Whole, &[], |state, tick| {
            take(&store, state, read, self.settings, tick)
        })?;
        let answer = |result: &str| {
            let document = json!({"objects": many, "result": result});
            Answer::text(format!("{many} objects {result}\n")).with_document(document)
        };
        match taken {
            Taken::Before => context.answer(answer("unchanged")),
            Taken::Whole { repairs } => {
                for repair in &repairs {
                    context.warn(repair);
                }
                context.answer(answer("imported"))?;
                context.hint("next: poolctl plan, then poolctl reconcile");
                Ok(())
            }
        }
    }
}

/// Settings choose what runs: they come along only when asked for.
fn without_settings(read: &mut Manifests) {
    let before = read.objects.len();
    read.objects.retain(|one| one.kind() != Kind::Settings);
    if read.objects.len() < before {
        read.warnings.push("Settings are left out; --settings takes them too".into());
    }
}

/// Fills an empty state; one that has the same already is left alone.
fn take(
    store: &Store,
    state: &mut State,
    read: Manifests,
    settings: bool,
    tick: &Tick,
) -> Result<Taken, Refusal> {
    let mut known = Vec::new();
    for kind in Kind::OBJECTS.iter().filter(|kind| settings || **kind != Kind::Settings) {
        known.extend(store.objects(*kind, &Filter { whole: true, ..Filter::default() })?);
    }
    let jobs = store.all_jobs()?;
    if known.is_empty() && jobs.is_empty() && store.last_event()? == 0 {
        return Ok(Taken::Whole { repairs: fill(state, read, tick)? });
    }
    let here: HashSet<(Kind, Key)> = known.iter().map(|one| (one.kind(), one.key())).collect();
    let there = read.objects.iter().map(|one| (one.kind(), one.key()));
    let missing = there.into_iter().find(|one| !here.contains(one));
    let missing = missing.map(|(kind, key)| format!("it has no {} `{key}`", kind.word()));
    let mut other = State::default();
    fill(&mut other, read, tick)?;
    let differs = known.iter_mut().find_map(|one| {
        break_off(one, &jobs);
        let name = format!("{} `{}`", one.kind().word(), one.key());
        let Some(new) = other.object(one) else {
            return Some(format!("the file has no {name}"));
        };
        (comparable(&new) != comparable(one)).then(|| format!("{name} is another"))
    });
    match missing.or(differs).or(other_value(store, &other)?) {
        None => Ok(Taken::Before),
        Some(why) => Err(Refusal::conflict("the state is neither empty nor equal to the file")
            .because(why)
            .next("poolctl --state NEW import FILE")),
    }
}

/// A document without what an import may fill in.
fn comparable(object: &Object) -> Value {
    let mut document = object.to_wire();
    if let (Object::IpPool(_), Some(fields)) = (object, document.as_object_mut()) {
        // Counted from the leases, which are compared themselves.
        fields.remove("status");
    }
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("uid");
        metadata.remove("creationTimestamp");
    }
    if let Some(pool) = document.pointer_mut("/spec/clusterPoolRef").and_then(Value::as_object_mut)
    {
        pool.remove("claimedTimestamp");
    }
    let conditions = document.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for one in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        one.remove("lastProbeTime");
        one.remove("lastTransitionTime");
    }
    document
}

/// A secret of the file whose values are not those of the state.
fn other_value(store: &Store, other: &State) -> Result<Option<String>, Refusal> {
    for secret in other.secrets.rows() {
        for (key, value) in &secret.values {
            let Stored::New(value) = value else { continue };
            if store.secret_value(&secret.metadata.key(), key)?.as_ref() != Some(value) {
                return Ok(Some(format!("secret `{}` has another {key}", secret.metadata.key())));
            }
        }
    }
    Ok(None)
}

/// Puts everything in, and returns what of its links was made whole.
fn fill(state: &mut State, read: Manifests, tick: &Tick) -> Result<Vec<String>, Refusal> {
    let Manifests { objects, mut jobs, events, .. } = read;
    // What broke off did so after everything that is known of it.
    let known = jobs.iter().map(|job| job.started).chain(events.iter().map(|one| one.time));
    let broke_off = known.max().unwrap_or_default().max(tick.now);
    for mut object in objects {
        break_off(&mut object, &jobs);
        if state.object(&object).is_some() {
            let (word, key) = (object.kind().word(), object.key());
            return Err(Refusal::invalid(format!("the file has {word} `{key}` twice")));
        }
        insert(state, object, &jobs, tick)?;
    }
    let mut ids = HashSet::new();
    for mut job in jobs.drain(..) {
        if !ids.insert(job.id) {
            return Err(Refusal::invalid(format!("the file has job `{}` twice", job.id)));
        }
        if job.started == Time::default() {
            // Its status was dropped.
            job.started = broke_off;
        }
        job.interrupt(broke_off);
        state.jobs.insert(job);
    }
    for event in events {
        state.event(event);
    }
    let known = state.events.len();
    plan::mend(state, tick);
    let repairs = state.events[known..].iter();
    Ok(repairs.map(|(one, _)| format!("{} {}: {}", one.kind, one.object, one.message)).collect())
}

fn insert(state: &mut State, mut object: Object, jobs: &[Job], tick: &Tick) -> Result<(), Refusal> {
    complete(&mut object, tick);
    if let Object::ClusterDeployment(cluster) = &mut object {
        take_over(cluster, jobs, tick);
    }
    edits::import(state, object, tick)
}

/// What a cluster does or was doing elsewhere, and what there is to destroy.
fn take_over(one: &mut Cluster, jobs: &[Job], tick: &Tick) {
    let its = || jobs.iter().filter(|job| job.object == one.name);
    let (many, known) = (its().count(), its().next().is_some());
    one.ordinal = u32::try_from(many).unwrap_or(u32::MAX);
    let made = one.body.as_ref().is_some_and(|body| body.spec.cluster_metadata.is_some());
    if let Some(installed) = one.installed_at {
        // One that only a finalizer of others still holds has been destroyed.
        if one.deleting.is_none() || !one.held {
            one.started_at.get_or_insert(installed);
        }
        if one.power == Power::Unset {
            one.power = one.wants();
            one.power_since.get_or_insert(tick.now);
            one.awake_since.get_or_insert(tick.now);
        }
    } else if made {
        one.started_at.get_or_insert(one.created);
    }
    let in_flight = one.started_at.is_some()
        && !(one.installed() || one.stopped || known)
        && one.failed_at.is_none()
        && one.deleting.is_none();
    // Whoever installed it does so no more, wherever that was.
    one.interrupted |= in_flight;
}

/// What a manifest written by hand leaves out.
fn complete(object: &mut Object, tick: &Tick) {
    let kind = object.kind();
    match object {
        Object::ClusterClaim(one) if one.created == Time::default() => one.created = tick.now,
        Object::ClusterDeployment(one) if one.created == Time::default() => one.created = tick.now,
        _ => {}
    }
    if matches!(object, Object::IpClaim(_) | Object::IpAddress(_)) {
        // Identity and age are those of the row.
        return;
    }
    let facts = matches!(object, Object::ClusterClaim(_) | Object::ClusterDeployment(_));
    // Secrets that come with a cluster have no identity of their own.
    let Some(meta) = object.meta_mut().filter(|_| kind != Kind::Secret) else { return };
    let known = meta.clone();
    edits::initialize_metadata(meta, kind, tick);
    if !known.uid.is_empty() {
        meta.uid = known.uid;
    }
    meta.generation = known.generation.max(1);
    let created = known.creation_timestamp.or(meta.creation_timestamp);
    meta.creation_timestamp = created.filter(|_| !facts);
}
