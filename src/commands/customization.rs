//! `customization create|test|reset`: makes customizations, which patch the install-config of one
//! cluster at a time, tries them without leasing them, and gives them their attempts again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::edits::{self, PutMode, put_object};
use crate::model::annotations::QUARANTINE;
use crate::model::customization::{Customization, CustomizationSpec, Patch, PatchOperation};
use crate::model::event_reason::EventReason;
use crate::model::inventory::{CUSTOMIZATION_ATTEMPTS, EntryStatus, InventoryStatus};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{PoolId, State};
use crate::model::tick::Tick;
use crate::output::{self, Answer};
use crate::render::patch::PatchRules;
use crate::render::{manifests, redact};
use crate::store::{Filter, Store};
use crate::{plan, rules, yaml};

use crate::commands::cluster::{RetryOutcome, retry_cluster};
use crate::commands::pool::render::TrialRender;
use crate::commands::scope::EditedObject;
use crate::commands::{Context, RunCommand, customization_warnings, scope, target};
use crate::manifest;

/// Arguments of `customization create`.
#[derive(Args)]
pub struct Create {
    /// Name of the customization
    name: String,
    /// Replace the value at this JSON pointer with a string; may be repeated
    #[arg(long, required_unless_present = "set_json", value_name = "PATH=TEXT")]
    set: Vec<String>,
    /// Replace the value at this JSON pointer with any JSON value; may be repeated
    #[arg(long, value_name = "PATH=JSON")]
    set_json: Vec<String>,
}

impl RunCommand for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Create a customization of the install-config";
    const EXAMPLE: &'static str = "poolctl customization create bar --set /metadata/name=bar";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::Customization, &self.name)?;
        let object = Object::Customization(Box::new(self.make_customization(&key)?));
        rules::check_object(&object)?;
        for warning in rules::object_warnings(&object) {
            context.warn(&warning);
        }
        let store = context.open_or_create_state()?;
        let edited = [EditedObject::new(Kind::Customization, key.clone())];
        let scope = scope::scope_of(&store, &edited)?;
        let needs = scope::needs_of(&edited);
        let (_, passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            if state.customizations.find(&key).is_some() {
                let problem = format!("there is a customization `{}` already", key.name);
                let next = format!("poolctl edit customization {}", key.name);
                return Err(Refusal::conflict(problem).next(next));
            }
            put_object(state, object, PutMode::Apply, tick)
        })?;
        context.report_change(Kind::Customization, &key, "created")?;
        customization_warnings::warn_about_customizations(
            context,
            &passed.state,
            &[(Kind::Customization, key)],
        );
        Ok(context.report_pass(&passed)?)
    }
}

impl Create {
    /// The customization that the options describe: a patch for each `--set PATH=STRING`, then one
    /// for each `--set-json PATH=JSON`. Whether the paths exist is seen only when a pool renders
    /// it.
    fn make_customization(&self, key: &Key) -> Result<Customization, Refusal> {
        if let Some(empty) = self.set_json.iter().find(|option| option.ends_with('=')) {
            return Err(Refusal::usage(format!("`{empty}` has no JSON after `=`")));
        }
        let mut install_config_patches = Vec::new();
        for option in &self.set {
            let (path, value) = split_option(option)?;
            install_config_patches.push(Patch {
                op: PatchOperation::Replace,
                path: path.into(),
                from: None,
                value: Some(value.into()),
                value_json: None,
            });
        }
        for option in &self.set_json {
            let (path, value) = split_option(option)?;
            install_config_patches.push(Patch {
                op: PatchOperation::Replace,
                path: path.into(),
                from: None,
                value: None,
                value_json: Some(value.to_owned()),
            });
        }
        let metadata =
            Meta { name: key.name.clone(), namespace: key.namespace.clone(), ..Meta::default() };
        let spec = CustomizationSpec { install_config_patches, ..CustomizationSpec::default() };
        Ok(Customization { metadata, spec, ..Customization::default() })
    }
}

/// Path and value of `PATH=VALUE`; the first `=` ends the path.
fn split_option(option: &str) -> Result<(&str, &str), Refusal> {
    option.split_once('=').filter(|(path, _)| !path.is_empty()).ok_or_else(|| {
        Refusal::usage(format!("`{option}` is not PATH=VALUE"))
            .advise("write it like --set /metadata/name=foo")
    })
}

/// Arguments of `customization test`, which only reads the state.
#[derive(Args)]
pub struct Test {
    /// Customization to try
    #[arg(value_name = "CUSTOMIZATION")]
    name: String,
    /// Pool whose install-config template is patched
    #[arg(long, value_name = "POOL")]
    pool: String,
    /// Directory with the output of `openshift-install create manifests`; it is only read
    #[arg(long, value_name = "DIR")]
    manifests: Option<PathBuf>,
}

impl RunCommand for Test {
    const NAME: &'static str = "test";
    const ABOUT: &'static str = "Try a customization on the template of a pool, without leasing it";
    const EXAMPLE: &'static str = "poolctl customization test foo --pool lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let tried = TrialRender::load(context, &store, &self.pool, Some(&self.name))?;
        let rendered = tried.render(context)?;
        let mut diff = tried.diff(context, &rendered)?;
        if let Some(folder) = &self.manifests {
            diff += &self.diff_manifests(context, &tried, folder)?;
        }
        let result = format!(
            "makes cluster {}.{} for pool {}",
            rendered.cluster_name,
            rendered.base_domain,
            tried.pool()?.metadata.name
        );
        let name = target::without_kind(Kind::Customization, &self.name);
        let key = context.key(Kind::Customization, &name)?;
        let answer = Answer::change(Kind::Customization, &key, &result);
        context.answer(answer.with_field("difference", &diff).with_text(diff))
    }
}

impl Test {
    /// What the manifest patches of pool and customization change, as a unified difference.
    fn diff_manifests(
        &self,
        context: &Context,
        tried: &TrialRender,
        folder: &Path,
    ) -> Result<String, Refusal> {
        let before = read_manifests(folder)?;
        // The paths that a pool allows are those of the install-config.
        let rules = PatchRules { allowed: None, ..PatchRules::of_pool(tried.pool()?) };
        // The pool-wide customization comes first, so that the other one can overrule it.
        let mut patches = Vec::new();
        for spec in [tried.poolwide_spec()?, tried.customization_spec()].into_iter().flatten() {
            patches.extend(spec.installer_manifest_patches.iter().cloned());
        }
        let after = manifests::patch_manifests(&before, &patches, rules).map_err(|why| {
            let name = &self.name;
            let problem = format!("customization `{name}` does not apply to the manifests");
            Refusal::invalid(problem).because(why)
        })?;
        let mut diff = String::new();
        for (path, document) in &before {
            let text_before = redacted_yaml(document);
            let text_after = redacted_yaml(&after[path]);
            diff += &output::unified_diff(path, &text_before, &text_after, context.style());
        }
        Ok(diff)
    }
}

/// A document as YAML, with its secrets hidden.
fn redacted_yaml(document: &Value) -> String {
    let mut document = document.clone();
    redact::redact(&mut document);
    yaml::to_text(&document).unwrap_or_default()
}

/// The YAML files below a folder, by their paths. Links are left out: they may lead out of it.
fn read_manifests(folder: &Path) -> Result<BTreeMap<String, Value>, Refusal> {
    let mut manifests = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner).map_err(|error| refuse_unreadable(&inner, &error))? {
            let entry = entry.map_err(|error| refuse_unreadable(&inner, &error))?;
            let path = entry.path();
            let file_type = entry.file_type().map_err(|error| refuse_unreadable(&path, &error))?;
            if file_type.is_dir() {
                folders.push(path);
            } else if file_type.is_file() && is_yaml(&path) {
                let bytes = fs::read(&path).map_err(|error| refuse_unreadable(&path, &error))?;
                let content = String::from_utf8(bytes).ok();
                // A file that is no YAML is no manifest.
                if let Some(document) = content.and_then(|content| yaml::parse_value(&content).ok())
                {
                    let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                    manifests.insert(name, document);
                }
            }
        }
    }
    Ok(manifests)
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

fn refuse_unreadable(path: &Path, error: &std::io::Error) -> Refusal {
    manifest::refuse_unreadable(&path.display().to_string(), error)
}

/// Arguments of `customization reset`.
#[derive(Args)]
pub struct Reset {
    /// Customizations to reset
    #[arg(value_name = "CUSTOMIZATION", required_unless_present = "all")]
    names: Vec<String>,
    /// Reset all customizations in the namespace that no cluster left running has
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

impl RunCommand for Reset {
    const NAME: &'static str = "reset";
    const ABOUT: &'static str =
        "Restore all attempts, or free a customization of a preserved cluster";
    const EXAMPLE: &'static str = "poolctl customization reset foo";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let edited = self.find_customizations(context, &store)?;
        if edited.is_empty() {
            context.hint("there is no customization to reset");
            return Ok(());
        }
        let scope = scope::scope_of(&store, &edited)?;
        let needs = scope::needs_of(&edited);
        let (results, passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            let results = edited.iter().map(|object| reset_customization(state, &object.key, tick));
            Ok(results.collect::<Vec<_>>())
        })?;
        for (object, result) in edited.iter().zip(results) {
            context.report_change(object.kind, &object.key, result)?;
        }
        Ok(context.report_pass(&passed)?)
    }
}

impl Reset {
    /// The customizations to reset. Whoever resets all of them does not mean to free those of
    /// clusters that were left running.
    fn find_customizations(
        &self,
        context: &Context,
        store: &Store,
    ) -> Result<Vec<EditedObject>, Refusal> {
        let mut keys = Vec::new();
        for name in &self.names {
            keys.push(context.find::<Customization>(store, name)?.key());
        }
        if self.all {
            let filter = Filter { namespace: context.namespace_filter()?, ..Filter::default() };
            for customization in store.list::<Customization>(&filter)? {
                let holder = customization.holder.as_ref();
                if holder.is_none_or(|holder| !holder.preserved) {
                    keys.push(customization.key());
                }
            }
        }
        Ok(keys.into_iter().map(|key| EditedObject::new(Kind::Customization, key)).collect())
    }
}

/// Gives a customization all its attempts again in every pool that lists it, and ends the pauses of
/// those pools. The lease of a cluster that was left running ends; the lease of any other cluster
/// stays. Returns what was done.
fn reset_customization(state: &mut State, key: &Key, tick: &Tick) -> &'static str {
    let mut listing_pools: Vec<PoolId> = Vec::new();
    for (pool_id, pool) in state.pools.iter() {
        if pool.metadata.namespace == key.namespace && pool.status.inventory.contains_key(&key.name)
        {
            listing_pools.push(pool_id);
        }
    }
    let mut is_changed = false;
    for pool_id in listing_pools {
        is_changed |=
            state.pools.get(pool_id).is_some_and(|pool| pool.status.install_pause.is_some());
        plan::end_pause(state, pool_id, plan::PauseEnd::Request, tick);
        is_changed |= state.pools.update(pool_id, |pool| {
            if let Some(entry) = pool.status.inventory.get_mut(&key.name) {
                reset_entry(entry);
            }
        });
    }
    let mut result = if is_changed { "reset" } else { "already has all its attempts" };
    if let Some(customization_id) = state.customizations.find(key)
        && let Some(customization) = state.customizations.get(customization_id)
        && let Some(holder) = &customization.holder
    {
        if holder.preserved {
            result = "reset and freed";
            plan::free_customization(state, customization_id, tick);
            state.customizations.update(customization_id, |customization| {
                customization.metadata.annotations.remove(QUARANTINE);
            });
            is_changed = true;
        } else {
            result = "reset; it stays leased";
            let cluster = holder.cluster.clone();
            is_changed |= retry_holder(state, &cluster, tick);
        }
    }
    if is_changed {
        let reason = EventReason::Reset;
        let message = "Tried again as asked";
        edits::record_event(state, tick, Kind::Customization, key.clone(), reason, message);
    }
    result
}

/// Lets a cluster try again at once whose installation with a customization failed. Returns whether
/// there is such a cluster.
fn retry_holder(state: &mut State, name: &str, tick: &Tick) -> bool {
    let cluster_id = state.find_cluster(name);
    let cluster = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id)).cloned();
    let Some(cluster) = cluster else { return false };
    if cluster.is_installed() || cluster.deleting.is_some() || cluster.failed_at.is_none() {
        return false;
    }
    !matches!(retry_cluster(state, &cluster, tick), RetryOutcome::NothingFailed)
}

/// Gives an entry of an inventory all its attempts again. What a pass found out about it is
/// forgotten, because the person has probably mended it.
fn reset_entry(entry: &mut InventoryStatus) {
    entry.attempts = CUSTOMIZATION_ATTEMPTS;
    entry.refusal = None;
    if entry.status.is_broken() || entry.status == EntryStatus::Unavailable {
        entry.status = EntryStatus::Available;
        entry.message = String::new();
        entry.name_taken = false;
    }
}
