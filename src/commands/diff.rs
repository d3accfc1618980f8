//! `diff`: shows line by line what `apply` would change. It writes nothing.

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::model::documents::StoredValue;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{self, Answer, Name};
use crate::yaml;

use crate::commands::apply::Precondition;
use crate::commands::manifest_files::ManifestFiles;
use crate::commands::{Context, Quit, RunCommand, apply};

/// Arguments of `diff`, which rehearses an `apply` and changes nothing.
#[derive(Args)]
pub struct Diff {
    #[command(flatten)]
    files: ManifestFiles,
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
        let mut manifests = apply::leave_out_settings(self.files.read(context, self.lenient)?);
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
        let pairs = apply::imagine_applied(
            context,
            store.as_ref(),
            manifests.objects,
            Precondition::Anything,
        )?;
        for (before, after) in pairs {
            answers.extend(diff_object(context, before.as_ref(), &after)?);
        }
        Ok(answers)
    }
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
    let style = context.style();
    let difference = output::unified_diff(&name.to_string(), &text_before, &text_after, style);
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
