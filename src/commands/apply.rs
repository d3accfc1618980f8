//! `apply`: creates the objects of manifests, or changes them to what the manifests say, all or
//! none.

use std::path::PathBuf;

use clap::Args;

use crate::edits::{PutMode, PutOutcome, put_object};
use crate::model::agent::Agent;
use crate::model::documents::Settings;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::rules;
use crate::store::Store;

use crate::commands::agent::confirm_leaving_cluster;
use crate::commands::customization_warnings;
use crate::commands::scope::EditedObject;
use crate::commands::{Context, RunCommand, scope};
use crate::manifest::{self, Manifests, ReadOptions};

#[derive(Args)]
pub struct Apply {
    /// File or folder with manifests in YAML or JSON, or - for stdin
    #[arg(short, long, required = true, value_name = "FILE|DIR|-")]
    filename: Vec<PathBuf>,
    /// Warn about unknown fields instead of refusing them
    #[arg(long)]
    lenient: bool,
}

impl RunCommand for Apply {
    const NAME: &'static str = "apply";
    const ABOUT: &'static str = "Create or change objects, so that they match manifests";
    const EXAMPLE: &'static str = "poolctl apply -f examples/pool";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let namespace = context.namespace()?;
        let options =
            ReadOptions { namespace: &namespace, is_lenient: self.lenient, moves_state: false };
        let mut manifests = leave_out_settings(manifest::read(&self.filename, &options)?);
        for warning in &manifests.warnings {
            context.warn(warning);
        }
        if manifests.are_all_skipped() {
            return Ok(());
        }
        if manifests.objects.is_empty() && manifests.hive_configs.is_empty() {
            return Err(Refusal::invalid("there is nothing to apply").into());
        }
        let store = context.open_or_create_state()?;
        let settings = settings_with_hive_configs(Some(&store), &manifests)?;
        manifests.objects.extend(settings);
        let edited: Vec<EditedObject> =
            manifests.objects.iter().map(EditedObject::from_object).collect();
        // Whatever of these is not of an existing object refuses the command.
        let kept_problems: Vec<String> =
            manifests.objects.iter().filter_map(rules::describe_kept_problems).collect();
        for object in &manifests.objects {
            confirm_moved_agent(context, &store, object)?;
        }
        let scope = scope::scope_of(&store, &edited)?;
        let needs = scope::needs_of(&edited);
        let ((outcomes, deleted), passed) =
            context.door(&store).change(&scope, &needs, |state, tick| {
                let mut outcomes = Vec::new();
                let mut deleted = Vec::new();
                let mut refusals = Vec::new();
                for object in manifests.objects {
                    if is_being_deleted(state, &object) {
                        deleted.push((object.kind(), object.key()));
                    }
                    match put_object(state, object, PutMode::Apply, tick) {
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
            let result = match outcome {
                PutOutcome::Created => "created".into(),
                PutOutcome::Configured(fields) if fields.is_empty() => "configured".into(),
                PutOutcome::Configured(fields) => format!("configured ({fields})"),
                PutOutcome::Unchanged => "unchanged".into(),
            };
            context.report_change(*kind, key, &result)?;
        }
        for problems in &kept_problems {
            context.warn(problems);
        }
        for (kind, key) in deleted {
            let object = format!("{} `{}`", kind.word(), key.name);
            context.warn(&format!("{object} is being deleted; its manifest does not keep it"));
        }
        customization_warnings::warn_about_customizations(context, &passed.state, &changed);
        context.report_limits(&passed);
        Ok(context.report_pass(&passed)?)
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
