//! `label` and `annotate`: change the labels or annotations of objects.

use clap::Args;
use serde_json::{Map, Value};

use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;

use crate::commands::{Context, Verb, patch, target};

#[derive(Args)]
pub struct Change {
    /// KIND NAME or KIND/NAME, several of them, then KEY=VALUE to set and KEY- to remove
    #[arg(required = true, num_args = 1.., value_name = "KIND/NAME|KEY=VALUE|KEY-")]
    words: Vec<String>,
    /// Change values that are there already
    #[arg(long)]
    overwrite: bool,
}

#[derive(Args)]
pub struct Label {
    #[command(flatten)]
    change: Change,
}

impl Verb for Label {
    const NAME: &'static str = "label";
    const ABOUT: &'static str = "Set or remove labels";
    const EXAMPLE: &'static str = "poolctl label pool lab team=ci old-";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        self.change.run(context, "labels", "labeled", Self::EXAMPLE)
    }
}

#[derive(Args)]
pub struct Annotate {
    #[command(flatten)]
    change: Change,
}

impl Verb for Annotate {
    const NAME: &'static str = "annotate";
    const ABOUT: &'static str = "Set or remove annotations";
    const EXAMPLE: &'static str = "poolctl annotate pool lab poolctl.dev/refresh=fast --overwrite";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        self.change.run(context, "annotations", "annotated", Self::EXAMPLE)
    }
}

impl Change {
    fn run(&self, context: &Context, field: &str, done: &str, example: &str) -> anyhow::Result<()> {
        let is_change = |word: &&String| word.contains('=') || word.ends_with('-');
        let changes: Vec<(&str, Option<&str>)> =
            self.words.iter().filter(is_change).map(|word| change(word)).collect();
        let mut names = self.words.iter().filter(|word| !is_change(word)).cloned();
        let kind = names.next().unwrap_or_default();
        let names: Vec<String> = names.collect();
        let objects = target::several(&kind, &names)?;
        if changes.iter().any(|(key, _)| key.is_empty()) {
            return Err(Refusal::usage("a key is empty").next(example).into());
        }
        if objects.is_empty() || changes.is_empty() {
            return Err(Refusal::usage("needed: objects, and KEY=VALUE or KEY-")
                .next(example)
                .into());
        }
        let store = context.look()?;
        for (kind, name) in objects {
            patch::change(context, &store, kind, &name, done, |document| {
                self.apply(document, field, &changes, kind, &name)
            })?;
        }
        Ok(())
    }

    fn apply(
        &self,
        document: &mut Value,
        field: &str,
        changes: &[(&str, Option<&str>)],
        kind: Kind,
        name: &str,
    ) -> Result<(), Refusal> {
        let wrong = || Refusal::invalid("the object has no metadata");
        let metadata = document["metadata"].as_object_mut().ok_or_else(wrong)?;
        let known = metadata.entry(field).or_insert_with(|| Map::new().into());
        let known = known.as_object_mut().ok_or_else(wrong)?;
        for (key, value) in changes {
            let Some(value) = value else {
                known.remove(*key);
                continue;
            };
            let old = known.insert((*key).to_owned(), (*value).into());
            if let Some(old) = old.filter(|old| old != value && !self.overwrite) {
                let word = kind.word();
                return Err(Refusal::conflict(format!("{word} `{name}` has {key}={old} already"))
                    .because("--overwrite changes what is there"));
            }
        }
        Ok(())
    }
}

/// `KEY=VALUE`, or `KEY-` to remove.
fn change(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (word.trim_end_matches('-'), None),
    }
}
