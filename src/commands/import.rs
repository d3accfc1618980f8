//! `import`: fills an empty state with all objects, jobs and events of a file, and completes links
//! of which only one end was written. It never changes a state that is not empty, unless it adds what
//! another tool keeps (`--from`). It runs no pass.

mod adopt;
mod check;
mod currency;
mod fill;
mod inventory;
mod kcli;
mod large;
mod leases;
mod secrets;
mod slots;
mod sources;
mod warnings;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::model::documents::{Settings, StoredValue};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, Resource};
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::text::quote_word;
use crate::model::tick::Tick;
use crate::output::Answer;
use crate::reconcile::Door;
use crate::rules;
use crate::store::{Filter, Store};

use crate::commands::export::{clusters_being_installed, mark_interrupted};
use crate::commands::{Context, RunCommand, count_of};
use crate::manifest::{Manifests, ReadOptions, Spool, StateText};

use adopt::{Placement, adopt_from_kcli};
use currency::UnknownCurrency;
use fill::fill_state;
use inventory::add_slots;
use large::import_in_portions;
use sources::{Intent, Source};

/// Arguments of `import`. Everything that is read is put in one transaction, or nothing is.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
#[derive(Args)]
pub struct Import {
    /// File written by export, kubectl or oc; - for stdin. With --from, its file or folder
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Add the clusters of kcli or the cluster slots of a CSV file, also to a state with objects
    #[arg(
        long,
        value_enum,
        value_name = "SOURCE",
        conflicts_with_all = ["lenient", "settings", "skip", "current", "stale"]
    )]
    from: Option<Source>,
    /// With --from: the pool of the clusters, each of which gets a claim of its name; or of the slots
    #[arg(long, value_name = "POOL", requires = "from")]
    pool: Option<String>,
    /// With --from kcli --pool: nobody uses the clusters; the next claims of the pool get them
    #[arg(long, requires = "pool")]
    idle: bool,
    /// Warn about unknown fields instead of refusing them
    #[arg(long)]
    lenient: bool,
    /// Import the Settings too; they decide which programs run
    #[arg(long)]
    settings: bool,
    /// Skip objects of KIND or KIND.GROUP that hold leases unknown to poolctl; may be repeated
    #[arg(long, value_name = "KIND")]
    skip: Vec<String>,
    /// Say what would be imported, and what the first pass would do; import nothing
    #[arg(long)]
    check: bool,
    /// Keep clusters of a Hive of which the file does not tell whether they are current
    #[arg(long, conflicts_with = "stale")]
    current: bool,
    /// Let pools replace clusters of a Hive of which the file does not tell whether they are current
    #[arg(long)]
    stale: bool,
}

/// What became of the state.
enum ImportOutcome {
    /// It was empty and has everything now; `repairs` says which links were completed.
    Imported { repairs: Vec<String> },
    /// It had the same objects already.
    Unchanged,
}

impl RunCommand for Import {
    const NAME: &'static str = "import";
    const ABOUT: &'static str =
        "Import objects from export, kubectl or oc, or what other tools keep";
    const DESCRIPTION: &'static str = "\
FILE is what `poolctl export` wrote, or a dump of a Hive on Kubernetes: `oc get clusterpool,\
clusterclaim,clusterdeployment,clusterdeploymentcustomization,clusterimageset,secret,namespace -A \
-o yaml`. It is imported into an empty state: all of it or nothing. No cluster that is current is \
made again. What poolctl does not model is left out, and named once for each kind.

`--check` imports nothing. It says what the first pass would create, destroy and interrupt.

`--from kcli` and `--from csv` add to a state that may have objects already: the clusters of kcli, \
or a slot of a pool for each line of a table.";
    const EXAMPLE: &'static str =
        "poolctl export | poolctl --state \"$(mktemp -d)/state.db\" import -";

    /// No pass follows: people look at what was imported before anything is decided about it.
    fn run(self, context: &Context) -> anyhow::Result<()> {
        if let Some(source) = self.from {
            return self.add_from(source, context);
        }
        let namespace = context.namespace()?;
        let reading = ReadOptions {
            namespace: &namespace,
            is_lenient: self.lenient,
            moves_state: true,
            ..ReadOptions::default()
        };
        let folder = self.folder_for_spool(context)?;
        let source = StateText::open(&self.file, &folder)?;
        if self.may_import_in_portions(&source, context)?
            && let Some((manifests, mut spool)) = source.read_to_spool(&reading, &folder)?
            && large::rehearse_parts(context, &mut spool, &reading)
        {
            let manifests = self.prepare(context, manifests, Some(&spool))?;
            rehearse_import(context, manifests.clone())?;
            let object_count = manifests.objects.len() + spool.object_count();
            let repairs = import_in_portions(context, manifests, spool, &reading)?;
            return report_import(context, object_count, &ImportOutcome::Imported { repairs });
        }
        let manifests = self.prepare(context, source.read(&reading)?, None)?;
        rehearse_import(context, manifests.clone())?;
        if self.check {
            return check::check_import(context, manifests);
        }
        let object_count = manifests.objects.len();
        let store = context.open_or_create_state()?;
        let door = Door { store: &store, world: &context.world, plans_changes: false };
        let (outcome, _) = door.change(&Scope::Whole, &[], |state, tick| {
            import_into(&store, state, manifests, self.settings, tick)
        })?;
        report_import(context, object_count, &outcome)
    }
}

/// Says what became of the state.
fn report_import(
    context: &Context,
    object_count: usize,
    outcome: &ImportOutcome,
) -> anyhow::Result<()> {
    match outcome {
        ImportOutcome::Unchanged => context.answer(result_answer(object_count, "unchanged")),
        ImportOutcome::Imported { repairs } => {
            for repair in repairs {
                context.warn(repair);
            }
            context.answer(result_answer(object_count, "imported"))?;
            context.hint_next("poolctl plan, then poolctl reconcile");
            Ok(())
        }
    }
}

impl Import {
    /// Where the parts of a large state are put aside: beside the state, which they are to be
    /// imported into.
    fn folder_for_spool(&self, context: &Context) -> Result<PathBuf, Refusal> {
        // A check does not look at the state.
        if self.check {
            return Ok(std::env::temp_dir());
        }
        let state = context.state_path()?;
        let folder = match state.parent() {
            // A file name alone is one in the current folder.
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => Path::new("/"),
        };
        Ok(if folder.is_dir() { folder.to_owned() } else { std::env::temp_dir() })
    }

    /// Whether a state is large, and its leases need not be looked at all together: there is nothing
    /// to compare them with, and none are left out.
    fn may_import_in_portions(
        &self,
        source: &StateText,
        context: &Context,
    ) -> Result<bool, Refusal> {
        if !matches!(source, StateText::Large(..)) || self.check || !self.skip.is_empty() {
            return Ok(false);
        }
        if !context.state_path()?.exists() {
            return Ok(true);
        }
        large::is_empty_state(&context.open_existing_state()?)
    }

    /// Completes what was read, leaves out what is not to be imported, and warns of what will
    /// surprise.
    fn prepare(
        &self,
        context: &Context,
        mut manifests: Manifests,
        spool: Option<&Spool>,
    ) -> Result<Manifests, Refusal> {
        if self.settings {
            take_hive_configs(&mut manifests);
        } else {
            leave_out_settings(&mut manifests);
        }
        leases::leave_out_skipped(&mut manifests, &self.skip, &self.file)?;
        secrets::leave_out_foreign_objects(&mut manifests);
        let gaps = warnings::describe_gaps(&manifests, spool);
        for warning in manifests.warnings.iter().chain(&gaps) {
            context.warn(warning);
        }
        if manifests.objects.is_empty()
            && manifests.jobs.is_empty()
            && manifests.events.is_empty()
            && manifests.last_spooled_record.is_none()
            && spool.is_none_or(|spool| spool.object_count() == 0)
        {
            return Err(Refusal::invalid("there is nothing to import"));
        }
        rules::check_single_holders(&manifests.objects)?;
        let unknown = if self.current {
            UnknownCurrency::Current
        } else if self.stale {
            UnknownCurrency::Stale
        } else {
            UnknownCurrency::Refused
        };
        let current_count = currency::translate_versions(&mut manifests, unknown, &self.file)?;
        if current_count > 0 {
            let clusters = count_of(current_count, "cluster");
            context.hint(&format!("{clusters} of a Hive kept: current versions of their pools"));
        }
        Ok(manifests)
    }

    /// Adds what another tool keeps, or what a table lists.
    fn add_from(&self, source: Source, context: &Context) -> anyhow::Result<()> {
        let intent = if self.check { Intent::Check } else { Intent::Add };
        match source {
            Source::Kcli => {
                let pool = self.pool.as_deref().map(|name| context.key(Kind::ClusterPool, name));
                let placement = match pool.transpose()? {
                    None => Placement::WithoutPool,
                    Some(pool) if self.idle => Placement::Idle(pool),
                    Some(pool) => Placement::Claimed(pool),
                };
                adopt_from_kcli(context, &self.file, &placement, intent)
            }
            Source::Csv => {
                if self.idle {
                    return Err(
                        Refusal::usage("--idle is about clusters, and a table has slots").into()
                    );
                }
                let Some(pool) = &self.pool else {
                    let file = quote_word(&self.file.display().to_string());
                    return Err(Refusal::usage("slots belong to a pool")
                        .next(format!("poolctl import {file} --from csv --pool POOL --check"))
                        .into());
                };
                add_slots(context, &self.file, pool, intent)
            }
        }
    }
}

fn result_answer(object_count: usize, result: &str) -> Answer {
    let document = json!({"objects": object_count, "result": result});
    let objects = count_of(object_count, "object");
    Answer::text(format!("{objects} {result}\n")).with_document(document)
}

/// Leaves out the Settings, because they choose which programs run here.
fn leave_out_settings(manifests: &mut Manifests) {
    let count_before = manifests.objects.len();
    manifests.objects.retain(|object| object.kind() != Kind::Settings);
    if manifests.objects.len() < count_before {
        manifests
            .warnings
            .push("the Settings are not imported; --settings imports them too".into());
    }
    if !manifests.hive_configs.is_empty() {
        manifests
            .warnings
            .push("the HiveConfig is not imported; --settings takes it into the Settings".into());
    }
}

/// Takes the configuration of a Hive into the Settings of the file, or into new ones.
fn take_hive_configs(manifests: &mut Manifests) {
    if manifests.hive_configs.is_empty() {
        return;
    }
    let position = manifests.objects.iter().position(|object| object.kind() == Kind::Settings);
    let object = position.map(|position| manifests.objects.remove(position));
    let mut settings = object.and_then(Settings::from_object).unwrap_or_default();
    settings.metadata.name = "default".into();
    for hive_config in &manifests.hive_configs {
        hive_config.write_to(&mut settings.spec);
    }
    manifests.objects.push(settings.into_object());
}

/// Imports into a state in memory first: a file that is refused must not create a state file.
fn rehearse_import(context: &Context, manifests: Manifests) -> Result<(), Refusal> {
    let tick = Tick { now: context.world.now(), ..Tick::default() };
    let mut state = State::default();
    fill_state(&mut state, manifests, &tick)?;
    rules::check_invariants(&state)
}

/// Fills an empty state. A state that has the same objects already is left alone, any other is
/// refused.
fn import_into(
    store: &Store,
    state: &mut State,
    manifests: Manifests,
    with_settings: bool,
    tick: &Tick,
) -> Result<ImportOutcome, Refusal> {
    let mut stored_objects = Vec::new();
    for kind in Kind::OBJECTS {
        if with_settings || *kind != Kind::Settings {
            let filter = Filter { whole: true, ..Filter::default() };
            stored_objects.extend(store.list_stored_objects(*kind, &filter)?);
        }
    }
    let stored_jobs = store.all_jobs()?;
    if stored_objects.is_empty() && stored_jobs.is_empty() && store.last_event_number()? == 0 {
        return Ok(ImportOutcome::Imported { repairs: fill_state(state, manifests, tick)? });
    }
    let installing = clusters_being_installed(&stored_jobs);
    for stored_object in &mut stored_objects {
        mark_interrupted(stored_object, &installing);
    }
    match first_difference(store, &stored_objects, manifests, tick)? {
        None => Ok(ImportOutcome::Unchanged),
        Some(difference) => {
            Err(Refusal::conflict("the state is neither empty nor equal to the file")
                .because(difference)
                .next("poolctl --state NEW import FILE"))
        }
    }
}

/// In what a state differs from the state that the file would be imported as.
fn first_difference(
    store: &Store,
    stored_objects: &[Object],
    manifests: Manifests,
    tick: &Tick,
) -> Result<Option<String>, Refusal> {
    let stored_keys: HashSet<(Kind, Key)> =
        stored_objects.iter().map(|object| (object.kind(), object.key())).collect();
    for object in &manifests.objects {
        let identity = (object.kind(), object.key());
        if !stored_keys.contains(&identity) {
            return Ok(Some(format!("the state has no {} `{}`", identity.0.word(), identity.1)));
        }
    }
    let mut imported = State::default();
    fill_state(&mut imported, manifests, tick)?;
    for stored_object in stored_objects {
        let name = format!("{} `{}`", stored_object.kind().word(), stored_object.key());
        let Some(imported_object) = imported.find_object(stored_object) else {
            return Ok(Some(format!("the file has no {name}")));
        };
        if comparable_document(&imported_object) != comparable_document(stored_object) {
            return Ok(Some(format!("{name} differs between the state and the file")));
        }
    }
    different_secret_value(store, &imported)
}

/// The document of an object without the fields that an import may fill in.
fn comparable_document(object: &Object) -> Value {
    let mut document = object.to_wire();
    if let (Object::IpPool(_), Some(fields)) = (object, document.as_object_mut()) {
        // It is counted from the leases, which are compared themselves.
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
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.remove("lastProbeTime");
        condition.remove("lastTransitionTime");
    }
    document
}

/// A secret whose values in the file are not those of the state; documents do not show them.
fn different_secret_value(store: &Store, imported: &State) -> Result<Option<String>, Refusal> {
    for secret in imported.secrets.rows() {
        let secret_key = secret.metadata.key();
        for (key, value) in &secret.values {
            let StoredValue::New(value) = value else { continue };
            if store.read_secret_value(&secret_key, key)?.as_ref() != Some(value) {
                return Ok(Some(format!(
                    "key `{key}` of secret `{secret_key}` differs between the state and the file"
                )));
            }
        }
    }
    Ok(None)
}
