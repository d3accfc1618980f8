//! `apply`: creates the objects of manifests, or changes them to what the manifests say, all or
//! none.

use clap::Args;

use crate::edits::{PutMode, PutOutcome, put_object};
use crate::model::agent::Agent;
use crate::model::documents::Settings;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::output::{Answer, Name};
use crate::store::Store;
use crate::{plan, rules};

use crate::commands::agent::confirm_leaving_cluster;
use crate::commands::manifest_files::{DryRun, ManifestFiles};
use crate::commands::scope::EditedObject;
use crate::commands::{Context, RunCommand, customization_warnings, data_warnings, scope};
use crate::manifest::Manifests;

/// Arguments of `apply`. All objects are put in one transaction, or none is.
#[derive(Args)]
pub struct Apply {
    #[command(flatten)]
    files: ManifestFiles,
    /// Warn about unknown fields instead of refusing them
    #[arg(long)]
    lenient: bool,
    /// Show what would be changed, and change nothing
    #[arg(
        long,
        value_enum,
        value_name = "client|server|none",
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = "client",
        hide_default_value = true,
        hide_possible_values = true
    )]
    dry_run: DryRun,
}

impl RunCommand for Apply {
    const NAME: &'static str = "apply";
    const ABOUT: &'static str = "Create or change objects, so that they match manifests";
    const EXAMPLE: &'static str = "poolctl apply -f examples/pool";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let manifests = self.files.read(context, self.lenient)?;
        put_manifests(context, manifests, Precondition::Anything, self.dry_run)
    }
}

/// What a command requires of the objects before it puts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// `apply`: they may exist or not.
    Anything,
    /// `create`: none exists.
    Absent,
    /// `replace`: all exist.
    Present,
}

impl Precondition {
    /// Refuses an object that is not as required.
    pub fn check(self, state: &State, object: &Object) -> Result<(), Refusal> {
        if self == Self::Anything {
            return Ok(());
        }
        let word = object.kind().word();
        let name = object.key().name;
        match (self, state.find_object(object)) {
            (Self::Absent, Some(_)) => {
                Err(Refusal::conflict(format!("there is a {word} `{name}` already"))
                    .next("poolctl apply -f FILE"))
            }
            (Self::Present, None) => {
                Err(Refusal::not_found(format!("there is no {word} `{name}`"))
                    .next("poolctl create -f FILE"))
            }
            _ => Ok(()),
        }
    }
}

/// Puts the objects of manifests into the state, all or none, and answers what became of each. A
/// dry run answers what would become of them.
pub fn put_manifests(
    context: &Context,
    manifests: Manifests,
    precondition: Precondition,
    dry_run: DryRun,
) -> anyhow::Result<()> {
    let mut manifests = leave_out_settings(manifests);
    for warning in &manifests.warnings {
        context.warn(warning);
    }
    if manifests.are_all_skipped() {
        context.hint("nothing was applied; the kinds that are kept: poolctl api-resources");
        return Ok(());
    }
    if manifests.objects.is_empty() && manifests.hive_configs.is_empty() {
        return Err(Refusal::invalid("there is nothing to apply").into());
    }
    if let Some(remark) = dry_run.remark() {
        return rehearse(context, manifests, precondition, remark);
    }
    let store = context.open_or_create_state()?;
    let settings = settings_with_hive_configs(Some(&store), &manifests)?;
    manifests.objects.extend(settings);
    for object in &manifests.objects {
        confirm_moved_agent(context, &store, object)?;
    }
    put_objects(context, &store, manifests.objects, precondition)
}

/// Answers what putting the objects would do, with the documents that they would be.
fn rehearse(
    context: &Context,
    mut manifests: Manifests,
    precondition: Precondition,
    remark: &str,
) -> anyhow::Result<()> {
    let store = match context.open_existing_state() {
        Err(absent) if absent.exit == Exit::NotFound => None,
        store => Some(store?),
    };
    let settings = settings_with_hive_configs(store.as_ref(), &manifests)?;
    manifests.objects.extend(settings);
    let pairs = imagine_applied(context, store.as_ref(), manifests.objects, precondition)?;
    for (before, after) in pairs {
        let result = match &before {
            None => "created",
            Some(before) if before.to_wire() == after.to_wire() => "unchanged",
            Some(_) => "configured",
        };
        let name = Name::of(after.kind(), &after.key());
        let line = format!("{name} {result} {remark}\n");
        let answer = Answer::text(line).with_name(name).with_document(after.to_wire());
        context.answer(answer)?;
    }
    Ok(())
}

/// Returns each object before and after applying the manifests without keeping the result. The
/// first of each pair is None if the object does not exist yet.
pub fn imagine_applied(
    context: &Context,
    store: Option<&Store>,
    objects: Vec<Object>,
    precondition: Precondition,
) -> Result<Vec<(Option<Object>, Object)>, Refusal> {
    let edited: Vec<EditedObject> = objects.iter().map(EditedObject::from_object).collect();
    let imagine = |state: &mut State, tick: &Tick| -> Result<_, Refusal> {
        let mut pairs = Vec::new();
        let mut refusals = Vec::new();
        for object in objects {
            let before = state.find_object(&object);
            let applied = object.clone();
            let put = precondition
                .check(state, &object)
                .and_then(|()| put_object(state, object, PutMode::Apply, tick));
            refusals.extend(put.err());
            // An object under deletion whose last finalizer the manifest removes is gone after
            // this, so it is not shown.
            if let Some(after) = state.find_object(&applied) {
                pairs.push((before, after));
            }
        }
        Refusal::refuse_all(refusals)?;
        Ok(pairs)
    };
    if let Some(store) = store {
        let scope = scope::scope_of(store, &edited)?;
        return context.door(store).rehearse(&scope, &scope::needs_of(&edited), imagine);
    }
    let mut state = State::default();
    let pairs = imagine(&mut state, &Tick::default())?;
    rules::check_invariants(&state)?;
    plan::check_edited_input(&state)?;
    Ok(pairs)
}

/// Puts objects into the state, all or none, and answers what became of each.
fn put_objects(
    context: &Context,
    store: &Store,
    objects: Vec<Object>,
    precondition: Precondition,
) -> anyhow::Result<()> {
    let edited: Vec<EditedObject> = objects.iter().map(EditedObject::from_object).collect();
    // Whatever of these is not of an existing object refuses the command.
    let kept_problems: Vec<String> =
        objects.iter().filter_map(rules::describe_kept_problems).collect();
    ask_drivers(context, store, &objects)?;
    let named_data = data_warnings::collect_named_data(&objects);
    let scope = scope::scope_of(store, &edited)?;
    let needs = scope::needs_of(&edited);
    let ((outcomes, deleted), passed) =
        context.door(store).change(&scope, &needs, |state, tick| {
            let mut outcomes = Vec::new();
            let mut deleted = Vec::new();
            let mut refusals = Vec::new();
            for object in objects {
                if is_being_deleted(state, &object) {
                    deleted.push((object.kind(), object.key()));
                }
                let put = precondition
                    .check(state, &object)
                    .and_then(|()| put_object(state, object, PutMode::Apply, tick));
                match put {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(refusal) => refusals.push(refusal),
                }
            }
            Refusal::refuse_all(refusals)?;
            Ok((outcomes, deleted))
        })?;
    let mut changed = Vec::new();
    for (EditedObject { kind, key, .. }, outcome) in edited.iter().zip(outcomes) {
        if outcome != PutOutcome::Unchanged {
            changed.push((*kind, key.clone()));
        }
        context.report_change(*kind, key, &describe_outcome(outcome, precondition))?;
    }
    for problems in &kept_problems {
        context.warn(problems);
    }
    for (kind, key) in deleted {
        let object = format!("{} `{}`", kind.word(), key.name);
        context.warn(&format!("{object} is being deleted; its manifest does not keep it"));
    }
    customization_warnings::warn_about_customizations(context, &passed.state, &changed);
    data_warnings::warn_about_missing_data(context, store, &named_data, &edited)?;
    context.report_limits(&passed);
    Ok(context.report_pass(&passed)?)
}

/// Asks the programs that are drivers of pools what they can do, before the pools use them.
fn ask_drivers(context: &Context, store: &Store, objects: &[Object]) -> Result<(), Refusal> {
    let mut pools: Vec<&ClusterPool> = Vec::new();
    for object in objects {
        if let Object::ClusterPool(pool) = object {
            pools.push(pool);
        }
    }
    context.door(store).ask_unknown_drivers(&pools)
}

/// What the answer says of an object that was put.
fn describe_outcome(outcome: PutOutcome, precondition: Precondition) -> String {
    match outcome {
        PutOutcome::Created => "created".into(),
        _ if precondition == Precondition::Present => "replaced".into(),
        PutOutcome::Configured(fields) if fields.is_empty() => "configured".into(),
        PutOutcome::Configured(fields) => format!("configured ({fields})"),
        PutOutcome::Unchanged => "unchanged".into(),
    }
}

/// Whether the object exists and its deletion was asked for. An IPAddress goes with its claim.
fn is_being_deleted(state: &State, object: &Object) -> bool {
    // Addresses have no index by name, so looking for each would take too long.
    object.kind() != Kind::IpAddress
        && state.find_object(object).is_some_and(|existing| existing.deletion_time().is_some())
}

/// Asks before a host that is a node of a cluster goes to another one. A manifest without a cluster
/// leaves the host where it is.
fn confirm_moved_agent(context: &Context, store: &Store, object: &Object) -> Result<(), Refusal> {
    let Object::Agent(applied) = object else { return Ok(()) };
    let Some(wanted) = applied.requested_cluster() else { return Ok(()) };
    match store.find::<Agent>(&applied.key())? {
        Some(agent) if agent.requested_cluster().as_ref() != Some(&wanted) => {
            confirm_leaving_cluster(context, &agent, Some(&wanted), "poolctl apply -f FILE")
        }
        _ => Ok(()),
    }
}

/// The Settings with what configurations of Hives say; none if there is no such configuration.
/// Without a state there are no Settings yet.
pub fn settings_with_hive_configs(
    store: Option<&Store>,
    manifests: &Manifests,
) -> Result<Option<Object>, Refusal> {
    if manifests.hive_configs.is_empty() {
        return Ok(None);
    }
    let key = Key::new("", "default");
    let existing = store.map(|store| store.find::<Settings>(&key)).transpose()?.flatten();
    let mut settings = existing.unwrap_or_default();
    settings.metadata.name = key.name;
    for hive_config in &manifests.hive_configs {
        hive_config.write_to(&mut settings.spec);
    }
    Ok(Some(Object::Settings(Box::new(settings))))
}

/// Leaves Settings out unless they are the only object: they choose which programs run, and must
/// not come along unnoticed in a folder. The same holds for the configuration of a Hive, which is
/// taken into the Settings.
pub fn leave_out_settings(mut manifests: Manifests) -> Manifests {
    if manifests.objects.len() + manifests.hive_configs.len() < 2 {
        return manifests;
    }
    if !manifests.hive_configs.is_empty() {
        manifests.hive_configs.clear();
        manifests.warnings.push("the HiveConfig is skipped; it must be applied alone".into());
    }
    let count_before = manifests.objects.len();
    manifests.objects.retain(|object| object.kind() != Kind::Settings);
    if manifests.objects.len() < count_before {
        manifests.warnings.push("the Settings are skipped; they must be applied alone".into());
    }
    manifests
}
