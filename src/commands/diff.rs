//! `diff`: shows line by line what `apply` would change. It writes nothing.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::edits::{PutMode, put_object};
use crate::model::documents::StoredValue;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{self, Answer, Name};
use crate::store::Store;
use crate::yaml;

use crate::commands::scope::EditedObject;
use crate::commands::{Context, Quit, RunCommand, apply, scope};
use crate::manifest::{self, ReadOptions};

#[derive(Args)]
pub struct Diff {
    /// File or folder with manifests in YAML or JSON, or - for stdin
    #[arg(short, long, required = true, value_name = "FILE|DIR|-")]
    filename: Vec<PathBuf>,
    /// Warn about unknown fields instead of refusing them
    #[arg(long)]
    lenient: bool,
}

impl RunCommand for Diff {
    const NAME: &'static str = "diff";
    const ABOUT: &'static str =
        "Show what apply would change; exit code 1 if it would change anything";
    const EXAMPLE: &'static str = "poolctl diff -f examples/pool";

    /// 1 means that there is a difference, so a failure that would exit with 1 exits with 2, as
    /// with kubectl. Other exit codes stay.
    fn run(self, context: &Context) -> anyhow::Result<()> {
        let answers = self.find_differences(context).map_err(|refusal| match refusal.exit {
            Exit::Failed => Refusal { exit: Exit::Usage, ..refusal },
            _ => refusal,
        })?;
        if answers.is_empty() {
            return Ok(());
        }
        for answer in answers {
            context.answer(answer)?;
        }
        bail!(Quit(1))
    }
}

impl Diff {
    /// The answer for each object that applying the manifests would change. Without a state all
    /// objects are new.
    fn find_differences(&self, context: &Context) -> Result<Vec<Answer>, Refusal> {
        let namespace = context.namespace()?;
        let options =
            ReadOptions { namespace: &namespace, is_lenient: self.lenient, moves_state: false };
        let mut manifests = apply::leave_out_settings(manifest::read(&self.filename, &options)?);
        for warning in &manifests.warnings {
            context.warn(warning);
        }
        if manifests.are_all_skipped() {
            return Ok(Vec::new());
        }
        if manifests.objects.is_empty() && manifests.hive_configs.is_empty() {
            return Err(Refusal::invalid("there is nothing to compare"));
        }
        let store = match context.open_existing_state() {
            Err(refusal) if refusal.exit == Exit::NotFound => None,
            result => Some(result?),
        };
        let settings = apply::settings_with_hive_configs(store.as_ref(), &manifests)?;
        manifests.objects.extend(settings);
        let mut answers = Vec::new();
        for (before, after) in imagine_applied(context, store.as_ref(), manifests.objects)? {
            answers.extend(diff_object(context, before.as_ref(), &after)?);
        }
        Ok(answers)
    }
}

/// Returns each object before and after applying the manifests without keeping the result. The
/// first of each pair is None if the object does not exist yet.
fn imagine_applied(
    context: &Context,
    store: Option<&Store>,
    objects: Vec<Object>,
) -> Result<Vec<(Option<Object>, Object)>, Refusal> {
    let edited: Vec<EditedObject> = objects.iter().map(EditedObject::from_object).collect();
    let (mut state, tick) = match store {
        Some(store) => {
            let scope = scope::scope_of(store, &edited)?;
            context.door(store).load_for_dry_run(&scope, &scope::needs_of(&edited))?
        }
        None => Default::default(),
    };
    let mut pairs = Vec::new();
    for object in objects {
        let before = state.find_object(&object);
        let applied = object.clone();
        put_object(&mut state, object, PutMode::Apply, &tick)?;
        // An object under deletion whose last finalizer the manifest removes is gone after this, so
        // it is not shown.
        if let Some(after) = state.find_object(&applied) {
            pairs.push((before, after));
        }
    }
    Ok(pairs)
}

/// Shows what changes in an object, or returns None if nothing does. Text output is a unified diff;
/// JSON output has both documents.
fn diff_object(
    context: &Context,
    before: Option<&Object>,
    after: &Object,
) -> Result<Option<Answer>, Refusal> {
    let document_before = before.map(user_document);
    let document_after = user_document(after);
    if document_before.as_ref() == Some(&document_after) {
        return Ok(None);
    }
    let text_before = document_before.as_ref().map(to_yaml).transpose()?.unwrap_or_default();
    let text_after = to_yaml(&document_after)?;
    let name = Name::of(after.kind(), &after.key());
    let colors = context.uses_colors();
    let difference = output::unified_diff(&name.to_string(), &text_before, &text_after, colors);
    let document = json!({"before": document_before, "after": document_after});
    Ok(Some(Answer::text(difference).with_name(name).with_list([document])))
}

fn to_yaml(document: &Value) -> Result<String, Refusal> {
    yaml::to_text(document).map_err(|error| Refusal::invalid(error.to_string()))
}

/// The part of an object that users write, without the status and the metadata that poolctl writes.
/// For a Secret, each value is replaced by `(hidden)` or by a word that says whether it differs.
fn user_document(object: &Object) -> Value {
    let mut document = object.to_wire();
    if let Some(fields) = document.as_object_mut() {
        fields.remove("status");
        if let Object::Secret(secret) = object {
            let mut data = Map::new();
            for (key, value) in &secret.values {
                let shown = match value {
                    StoredValue::New(_) => "(value differs)",
                    _ => "(hidden)",
                };
                data.insert(key.clone(), shown.into());
            }
            fields.insert("data".into(), Value::Object(data));
        }
    }
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["uid", "generation", "creationTimestamp", "deletionTimestamp"] {
            metadata.remove(name);
        }
    }
    document
}
