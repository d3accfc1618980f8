//! `customization create|test|reset`: patches for one cluster at a time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::edits::{self, put};
use crate::model::customization::{Customization, CustomizationSpec, Op, Patch};
use crate::model::event_reason::EventReason;
use crate::model::inventory::{ATTEMPTS, EntryStatus, InventoryStatus};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{PoolId, State};
use crate::model::tick::Tick;
use crate::output::{self, Answer};
use crate::render::patch::Rules;
use crate::render::{manifests, redact};
use crate::{plan, rules, yaml};

use crate::commands::pool::render::Tried;
use crate::commands::{Context, Verb, misfits, scope, target};
use crate::manifest;

#[derive(Args)]
pub struct Create {
    name: String,
    /// Replace what is at this JSON pointer with a string; once for each
    #[arg(long, required_unless_present = "set_json", value_name = "PATH=TEXT")]
    set: Vec<String>,
    /// The same with any JSON value
    #[arg(long, value_name = "PATH=JSON")]
    set_json: Vec<String>,
}

impl Verb for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Make a customization of the install-config";
    const EXAMPLE: &'static str = "poolctl customization create bar --set /metadata/name=bar";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::Customization, &self.name)?;
        let metadata =
            Meta { name: key.name.clone(), namespace: key.namespace.clone(), ..Meta::default() };
        let texts = self.set.iter().map(|one| patch(one, |text| (Some(text.into()), None)));
        if let Some(empty) = self.set_json.iter().find(|one| one.ends_with('=')) {
            return Err(Refusal::usage(format!("`{empty}` has no JSON after `=`")).into());
        }
        let values = self.set_json.iter().map(|one| patch(one, |text| (None, Some(text))));
        let install_config_patches = texts.chain(values).collect::<Result<_, _>>()?;
        let spec = CustomizationSpec { install_config_patches, ..CustomizationSpec::default() };
        let made = Customization { metadata, spec, ..Customization::default() };
        let made = Object::Customization(Box::new(made));
        rules::check(&made)?;
        for warning in rules::warnings(&made) {
            context.warn(&warning);
        }
        let store = context.open()?;
        let what = [(Kind::Customization, key.clone(), None)];
        let scope = scope::scope_of(&store, &what)?;
        let edit = |state: &mut State, tick: &Tick| {
            if state.customizations.find(&key).is_some() {
                let what = format!("there is a customization `{}` already", key.name);
                return Err(Refusal::conflict(what)
                    .next(format!("poolctl edit customization {}", key.name)));
            }
            put(state, made, true, tick)
        };
        let (_, passed) = context.door(&store).change(&scope, &scope::needs_of(&what), edit)?;
        context.changed(Kind::Customization, &key, "created")?;
        misfits::warn(context, &passed.state, &[(Kind::Customization, key)]);
        Ok(context.finish(&passed)?)
    }
}

/// `PATH=VALUE`; the first `=` ends the path.
fn patch(
    text: &str,
    value: impl FnOnce(String) -> (Option<Value>, Option<String>),
) -> Result<Patch, Refusal> {
    let Some((path, given)) = text.split_once('=').filter(|(path, _)| !path.is_empty()) else {
        return Err(Refusal::usage(format!("`{text}` is not PATH=VALUE"))
            .advise("like --set /metadata/name=foo"));
    };
    let (value, value_json) = value(given.to_owned());
    Ok(Patch { op: Op::Replace, path: path.into(), from: None, value, value_json })
}

#[derive(Args)]
pub struct Test {
    #[arg(value_name = "CUSTOMIZATION")]
    name: String,
    /// The pool whose template is patched
    #[arg(long, value_name = "POOL")]
    pool: String,
    /// Directory in which `openshift-install create manifests` was run; nothing is written
    #[arg(long, value_name = "DIR")]
    manifests: Option<PathBuf>,
}

impl Verb for Test {
    const NAME: &'static str = "test";
    const ABOUT: &'static str = "Apply a customization to a pool's template without leasing it";
    const EXAMPLE: &'static str = "poolctl customization test foo --pool lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let tried = Tried::load(context, &store, &self.pool, Some(&self.name))?;
        let rendered = tried.render(context)?;
        let mut diff = tried.diff(context, &rendered)?;
        if let Some(folder) = &self.manifests {
            diff += &self.manifests(context, &tried, folder)?;
        }
        let (name, domain) = (&rendered.cluster_name, &rendered.base_domain);
        let what =
            format!("makes cluster {name}.{domain} for pool {}", tried.pool()?.metadata.name);
        let key =
            context.key(Kind::Customization, &target::bare(Kind::Customization, &self.name))?;
        let answer = Answer::change(Kind::Customization, &key, &what);
        context.answer(answer.with_field("difference", &diff).with_text(diff))
    }
}

impl Test {
    /// What the manifest patches of pool and customization change.
    fn manifests(
        &self,
        context: &Context,
        tried: &Tried,
        folder: &Path,
    ) -> Result<String, Refusal> {
        let before = manifests_in(folder)?;
        // The paths that a pool allows are those of the install-config.
        let rules = Rules { allowed: None, ..Rules::of(tried.pool()?) };
        // The pool-wide customization comes first, so that what the inventory's says holds.
        let specs = [tried.poolwide()?, tried.spec()].into_iter().flatten();
        let patches: Vec<_> =
            specs.flat_map(|spec| spec.installer_manifest_patches.iter().cloned()).collect();
        let after = manifests::patched(&before, &patches, rules).map_err(|why| {
            let what = format!("customization `{}` does not apply to the manifests", self.name);
            Refusal::invalid(what).because(why)
        })?;
        let shown = |document: &Value| {
            let mut document = document.clone();
            redact::redact(&mut document);
            yaml::text(&document).unwrap_or_default()
        };
        let change = |(path, document): (&String, &Value)| {
            output::unified(path, &shown(document), &shown(&after[path]), context.colors())
        };
        Ok(before.iter().map(change).collect())
    }
}

/// YAML files below a directory by their paths; links may lead out of it and are left out.
fn manifests_in(folder: &Path) -> Result<BTreeMap<String, Value>, Refusal> {
    let wrong =
        |path: &Path, error: &std::io::Error| manifest::io(&path.display().to_string(), error);
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner).map_err(|error| wrong(&inner, &error))? {
            let entry = entry.map_err(|error| wrong(&inner, &error))?;
            let (path, kind) = (entry.path(), entry.file_type());
            let kind = kind.map_err(|error| wrong(&path, &error))?;
            let yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && yaml {
                let below = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                let text = fs::read(&path).map_err(|error| wrong(&path, &error))?;
                // What is no YAML is no manifest.
                let document =
                    String::from_utf8(text).ok().and_then(|text| yaml::value(&text).ok());
                found.extend(document.map(|document| (below, document)));
            }
        }
    }
    Ok(found)
}

#[derive(Args)]
pub struct Reset {
    #[arg(required = true, value_name = "CUSTOMIZATION")]
    names: Vec<String>,
}

impl Verb for Reset {
    const NAME: &'static str = "reset";
    const ABOUT: &'static str =
        "Give a customization all its attempts again, or back from a cluster that was left running";
    const EXAMPLE: &'static str = "poolctl customization reset foo";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let mut what = Vec::new();
        for name in &self.names {
            let key = context.find::<Customization>(&store, name)?.key();
            what.push((Kind::Customization, key, None));
        }
        let scope = scope::scope_of(&store, &what)?;
        let edit = |state: &mut State, tick: &Tick| {
            Ok(what.iter().map(|(_, key, _)| reset(state, key, tick)).collect::<Vec<_>>())
        };
        let (said, passed) = context.door(&store).change(&scope, &scope::needs_of(&what), edit)?;
        for ((_, key, _), said) in what.iter().zip(said) {
            context.changed(Kind::Customization, key, said)?;
        }
        Ok(context.finish(&passed)?)
    }
}

/// In every pool that lists it. A lease of a cluster that is there stays.
fn reset(state: &mut State, key: &Key, tick: &Tick) -> &'static str {
    let listing: Vec<PoolId> = state
        .pools
        .iter()
        .filter(|(_, pool)| pool.metadata.namespace == key.namespace)
        .filter(|(_, pool)| pool.status.inventory.contains_key(&key.name))
        .map(|(at, _)| at)
        .collect();
    let mut changed = false;
    for at in listing {
        changed |= state.pools.get(at).is_some_and(|pool| pool.status.install_pause.is_some());
        plan::end_pause(state, at);
        changed |= state.pools.update(at, |pool| {
            if let Some(entry) = pool.status.inventory.get_mut(&key.name) {
                again(entry);
            }
        });
    }
    let mut said = if changed { "reset" } else { "has all its attempts" };
    if let Some(at) = state.customizations.find(key)
        && let Some(holder) = state.customizations.get(at).and_then(|one| one.holder.as_ref())
    {
        said = if holder.preserved { "reset, and free" } else { "reset; its lease stays" };
        if holder.preserved {
            plan::free(state, at, tick);
            changed = true;
        }
    }
    if changed {
        let (kind, text) = (Kind::Customization, "Tried again as asked");
        edits::record_event(state, tick, kind, key.clone(), EventReason::Reset, text);
    }
    said
}

fn again(entry: &mut InventoryStatus) {
    entry.attempts = ATTEMPTS;
    if entry.status.broken() || entry.status == EntryStatus::Unavailable {
        (entry.status, entry.message) = (EntryStatus::Available, String::new());
        entry.name_taken = false;
    }
}
