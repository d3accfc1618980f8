//! `diff`: what `apply` would change, line by line.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::edits::put;
use crate::model::documents::Stored;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{self, Answer, Name};
use crate::store::Store;
use crate::yaml;

use crate::commands::{Context, Quit, Verb, apply, scope};
use crate::manifest::{self, Reading};

#[derive(Args)]
pub struct Diff {
    /// File, folder, or - for stdin; YAML or JSON, several documents each
    #[arg(short, long, required = true, value_name = "FILE|DIR|-")]
    filename: Vec<PathBuf>,
    /// Warn about unknown fields instead of refusing
    #[arg(long)]
    lenient: bool,
}

impl Verb for Diff {
    const NAME: &'static str = "diff";
    const ABOUT: &'static str = "Show what apply would change; exit 1 when there is anything";
    const EXAMPLE: &'static str = "poolctl diff -f examples/pool";

    /// Exit 1 says that there is a difference, so what fails otherwise is 2, as with kubectl.
    fn run(self, context: &Context) -> anyhow::Result<()> {
        let failed = |refusal: Refusal| match refusal.exit {
            Exit::Failed => Refusal { exit: Exit::Usage, ..refusal },
            _ => refusal,
        };
        let answers = self.differences(context).map_err(failed)?;
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
    fn differences(&self, context: &Context) -> Result<Vec<Answer>, Refusal> {
        let namespace = context.namespace()?;
        let reading = Reading { namespace: &namespace, lenient: self.lenient, moved: false };
        let read = apply::without_settings(manifest::read(&self.filename, &reading)?);
        for warning in &read.warnings {
            context.warn(warning);
        }
        if read.objects.is_empty() {
            return Err(Refusal::invalid("there is nothing to compare"));
        }
        let store = match context.look() {
            Err(refusal) if refusal.exit == Exit::NotFound => None,
            store => Some(store?),
        };
        let mut answers = Vec::new();
        for (before, after) in changes(context, store.as_ref(), read.objects)? {
            answers.extend(difference(context, before.as_ref(), &after)?);
        }
        Ok(answers)
    }
}

/// Each object as it is and as it would be.
fn changes(
    context: &Context,
    store: Option<&Store>,
    objects: Vec<Object>,
) -> Result<Vec<(Option<Object>, Object)>, Refusal> {
    let what: Vec<(Kind, Key, Option<String>)> =
        objects.iter().map(|one| (one.kind(), one.key(), None)).collect();
    let (mut state, tick) = match store {
        Some(store) => {
            let scope = scope::scope_of(store, &what)?;
            context.door(store).imagine(&scope, &scope::needs_of(&what))?
        }
        None => Default::default(),
    };
    let mut found = Vec::new();
    for object in objects {
        let before = state.object(&object);
        let like = object.clone();
        put(&mut state, object, true, &tick)?;
        // An object may go when its last finalizer is taken away.
        found.extend(state.object(&like).map(|after| (before, after)));
    }
    Ok(found)
}

/// What changes of an object: for people a unified difference, for programs both documents.
fn difference(
    context: &Context,
    before: Option<&Object>,
    after: &Object,
) -> Result<Option<Answer>, Refusal> {
    let text = |document: &Value| {
        yaml::text(document).map_err(|wrong| Refusal::invalid(wrong.to_string()))
    };
    let (old, new) = (before.map(shown), shown(after));
    if old.as_ref() == Some(&new) {
        return Ok(None);
    }
    let old_text = old.as_ref().map(text).transpose()?.unwrap_or_default();
    let name = Name::of(after.kind(), &after.key());
    let difference = output::unified(&name.to_string(), &old_text, &text(&new)?, context.colors());
    let document = json!({"before": old, "after": new});
    Ok(Some(Answer::text(difference).with_name(name).with_list([document])))
}

/// What is the user's; of a secret the keys, and which of them change.
fn shown(object: &Object) -> Value {
    let mut document = object.to_wire();
    if let Some(fields) = document.as_object_mut() {
        fields.remove("status");
        if let Object::Secret(secret) = object {
            let value = |value: &Stored| match value {
                Stored::New(_) => "(another value)",
                _ => "(hidden)",
            };
            let keys = secret.values.iter().map(|(key, one)| (key.clone(), value(one).into()));
            fields.insert("data".into(), Value::Object(keys.collect()));
        }
    }
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["uid", "generation", "creationTimestamp", "deletionTimestamp"] {
            metadata.remove(name);
        }
    }
    document
}
