//! `label` and `annotate`: set and remove labels or annotations of objects. Values that are there
//! already are changed only with `--overwrite`.

use clap::Args;
use serde_json::{Map, Value};

use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::rules;
use crate::store::Store;

use crate::commands::manifest_files::{ManifestFiles, Rehearsal};
use crate::commands::selector::Selector;
use crate::commands::{Context, RunCommand, patch, target};

/// The arguments of both commands. They differ in the field of the metadata that they change.
#[derive(Args)]
pub struct Change {
    /// Objects, such as pool/lab or pool lab; then KEY=VALUE to set, or KEY- to remove
    #[arg(required = true, num_args = 1.., value_name = "KIND/NAME|KEY=VALUE|KEY-")]
    words: Vec<String>,
    /// Overwrite existing values
    #[arg(long)]
    overwrite: bool,
    /// Change all objects of the kind in the namespace
    #[arg(long, conflicts_with = "selector")]
    all: bool,
    /// Change the objects of the kind with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    #[command(flatten)]
    files: ManifestFiles,
    #[command(flatten)]
    rehearsal: Rehearsal,
}

/// Arguments of `label`. `KEY-` removes a label; one that exists is replaced only with
/// `--overwrite`.
#[derive(Args)]
pub struct Label {
    #[command(flatten)]
    change: Change,
}

impl RunCommand for Label {
    const NAME: &'static str = "label";
    const ABOUT: &'static str = "Set or remove labels";
    const EXAMPLE: &'static str = "poolctl label pool lab team=ci old-";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        self.change.change_objects(context, "labels", "labeled", Self::EXAMPLE)
    }
}

/// Arguments of `annotate`, which are those of `label`.
#[derive(Args)]
pub struct Annotate {
    #[command(flatten)]
    change: Change,
}

impl RunCommand for Annotate {
    const NAME: &'static str = "annotate";
    const ABOUT: &'static str = "Set or remove annotations";
    const EXAMPLE: &'static str = "poolctl annotate pool lab poolctl.dev/refresh=fast --overwrite";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        self.change.change_objects(context, "annotations", "annotated", Self::EXAMPLE)
    }
}

impl Change {
    /// Changes `labels` or `annotations` of every object that is named. `result` is what the answer
    /// says of each.
    fn change_objects(
        &self,
        context: &Context,
        field: &str,
        result: &str,
        example: &str,
    ) -> anyhow::Result<()> {
        let mut changes = Vec::new();
        let mut object_words = Vec::new();
        for word in &self.words {
            if word.contains('=') || word.ends_with('-') {
                changes.push(parse_change(word));
            } else {
                object_words.push(word.clone());
            }
        }
        let kind = object_words.first().map_or("", String::as_str);
        let names = object_words.get(1..).unwrap_or_default();
        if changes.iter().any(|(key, _)| key.is_empty()) {
            return Err(Refusal::usage("a KEY is empty").next(example).into());
        }
        let selects = self.all || self.selector.is_some();
        if selects && !names.is_empty() {
            return Err(Refusal::usage("--all and -l take a kind without names")
                .next(example)
                .into());
        }
        if self.files.is_given() {
            if !object_words.is_empty() || selects || changes.is_empty() {
                return Err(Refusal::usage("-f takes KEY=VALUE or KEY-, and no other objects")
                    .next(example)
                    .into());
            }
            let store = context.open_existing_state()?;
            let objects = self.files.find_objects(context, &store, false)?;
            return self.change_each(context, &store, &objects, field, result, &changes);
        }
        if kind.is_empty() || changes.is_empty() || (!selects && is_bare_kind(kind, names)) {
            return Err(Refusal::usage("objects, and KEY=VALUE or KEY-, must be given")
                .next(example)
                .into());
        }
        if !selects {
            let named_objects = target::parse_objects(kind, names)?;
            let store = context.open_existing_state()?;
            for (kind, name) in named_objects {
                let object = context.find_object(&store, kind, &name)?;
                self.change_each(context, &store, &[object], field, result, &changes)?;
            }
            return Ok(());
        }
        let kind = target::parse_kind(kind)?;
        let store = context.open_existing_state()?;
        let mut objects = context.select_objects(&store, kind, self.selector.as_ref())?;
        // Namespaces that nobody has created are not meant by "all".
        objects.retain(|object| !self.all || rules::check_editable(object).is_ok());
        if objects.is_empty() {
            context.hint(&format!("no {} found", kind.name()));
        }
        self.change_each(context, &store, &objects, field, result, &changes)
    }

    /// Changes these objects, or answers what would become of them.
    fn change_each(
        &self,
        context: &Context,
        store: &Store,
        objects: &[Object],
        field: &str,
        result: &str,
        changes: &[(&str, Option<&str>)],
    ) -> anyhow::Result<()> {
        for object in objects {
            let kind = object.kind();
            let name = object.key().name;
            match self.rehearsal.dry_run.remark() {
                Some(remark) => {
                    let result = format!("{result} {remark}");
                    patch::rehearse_change(context, store, object, &result, |document| {
                        self.change_document(document, field, changes, kind, &name)
                    })?;
                }
                None => patch::change_found_object(context, store, object, result, |document| {
                    self.change_document(document, field, changes, kind, &name)
                })?,
            }
        }
        Ok(())
    }

    /// Sets and removes entries of `metadata.labels` or `metadata.annotations`, whichever `field`
    /// says. A change without a value removes its entry. A different existing value is refused
    /// unless `--overwrite` is given.
    fn change_document(
        &self,
        document: &mut Value,
        field: &str,
        changes: &[(&str, Option<&str>)],
        kind: Kind,
        name: &str,
    ) -> Result<(), Refusal> {
        let metadata = document["metadata"].as_object_mut().ok_or_else(without_metadata)?;
        let entries = metadata.entry(field).or_insert_with(|| Map::new().into());
        let entries = entries.as_object_mut().ok_or_else(without_metadata)?;
        for (key, value) in changes {
            let Some(value) = value else {
                entries.remove(*key);
                continue;
            };
            let previous = entries.insert((*key).to_owned(), (*value).into());
            if let Some(previous) = previous
                && previous != *value
                && !self.overwrite
            {
                let word = kind.word();
                let verb = if field == "labels" { Label::NAME } else { Annotate::NAME };
                return Err(Refusal::conflict(format!(
                    "{word} `{name}` already has {key}={previous}"
                ))
                .next(format!("poolctl {verb} {word}/{name} {key}='{value}' --overwrite")));
            }
        }
        Ok(())
    }
}

/// Whether a kind is named and none of its objects.
fn is_bare_kind(kind: &str, names: &[String]) -> bool {
    names.is_empty() && !kind.contains('/')
}

fn without_metadata() -> Refusal {
    Refusal::invalid("the object has no metadata")
}

/// The key and the value of `KEY=VALUE`; no value of `KEY-`, which removes it.
fn parse_change(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (word.trim_end_matches('-'), None),
    }
}
