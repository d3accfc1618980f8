//! `edit`: an object in the user's editor, and back.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};
use tempfile::NamedTempFile;

use crate::drivers::process::Foreground;
use crate::model::kinds::Kind;
use crate::model::refusal::{Exit, Refusal};
use crate::{output, yaml};

use crate::commands::{Context, Verb, patch, target};
use crate::manifest;

/// What of the metadata is the user's.
const THEIRS: [&str; 5] = ["name", "namespace", "labels", "annotations", "finalizers"];

#[derive(Args)]
pub struct Edit {
    /// Kind, or KIND/NAME
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

impl Verb for Edit {
    const NAME: &'static str = "edit";
    const ABOUT: &'static str = "Edit an object in $VISUAL or $EDITOR";
    const EXAMPLE: &'static str = "EDITOR='sed -i s/size:.*/size:\\ 3/' poolctl edit pool lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, name) = target::one(&self.kind, self.name.as_deref(), Self::EXAMPLE)?;
        let store = context.look()?;
        let document = context.find_object(&store, kind, &name)?.to_wire();
        let shown = theirs(&document);
        let text = yaml::text(&shown).map_err(|wrong| Refusal::invalid(wrong.to_string()))?;
        let (file, path) = temporary(&format!("{}-{name}-", kind.word()), &text)?;
        let (mut last, mut refused) = (text, None);
        loop {
            let edited = edited(context, &path)?;
            if (edited == last && refused.is_none()) || edited.trim().is_empty() {
                context.hint("nothing was changed");
                return Ok(());
            }
            let refusal = match refused.take().filter(|_| edited == last) {
                Some(refusal) => refusal,
                None => match put_back(context, &store, kind, &name, &document, &edited) {
                    Ok(()) => return Ok(()),
                    Err(refusal) => refusal,
                },
            };
            // Whoever saves the same text again gives up.
            let again = context.at_terminal() && refusal.exit == Exit::Failed && edited != last;
            if !again {
                let kept = file.into_temp_path().keep();
                let kept = kept.map(|path| format!("your text is in {}", path.display()));
                return Err(refusal.because(kept.unwrap_or_default()).into());
            }
            let why = refusal.to_string();
            let why: Vec<String> =
                why.lines().map(|line| format!("# {}", output::clean(line))).collect();
            last = output::joined(&why) + &without_comments(&edited);
            std::fs::write(&path, &last).map_err(|error| Refusal::unwritable(&path, &error))?;
            refused = Some(refusal);
        }
    }
}

/// A file with a text in it, for its owner alone.
fn temporary(name: &str, text: &str) -> Result<(NamedTempFile, PathBuf), Refusal> {
    let made = tempfile::Builder::new().prefix(name).suffix(".yaml").tempfile();
    let mut file = made.map_err(|error| Refusal::unwritable(Path::new(name), &error))?;
    let path = file.path().to_owned();
    file.write_all(text.as_bytes()).map_err(|error| Refusal::unwritable(&path, &error))?;
    Ok((file, path))
}

/// Whether deletion was asked for.
fn going(document: &Value) -> bool {
    !document["metadata"]["deletionTimestamp"].is_null()
}

/// The document without what is poolctl's.
fn theirs(document: &Value) -> Value {
    let mut shown = document.clone();
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| THEIRS.contains(&name.as_str()));
    }
    shown
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().skip_while(|line| line.starts_with('#'));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Starts the editor on a file and returns what is in it then.
fn edited(context: &Context, path: &Path) -> Result<String, Refusal> {
    let editor = context.world.variable("VISUAL").or_else(|| context.world.variable("EDITOR"));
    let editor = editor.unwrap_or("vi");
    // An editor may be named with arguments.
    let script = format!("{editor} \"$1\"");
    let arguments: Vec<OsString> = vec!["-c".into(), script.into(), "sh".into(), path.into()];
    let shell = Foreground {
        program: "/bin/sh".into(),
        arguments,
        variables: Vec::new(),
        umask: context.world.umask,
    };
    let failed = |why: String| {
        Refusal::invalid(format!("the editor `{editor}` failed: {why}"))
            .advise("set EDITOR to an editor that is installed")
    };
    // What is typed in the editor is the editor's.
    context.world.catch_signals();
    let unheard = || {
        context.world.interrupted();
        None
    };
    let code = shell.attend(unheard).map_err(|error| failed(error.to_string()))?;
    if code != 0 {
        return Err(failed(format!("exit code {code}")));
    }
    std::fs::read_to_string(path).map_err(|error| manifest::io("a temporary file", &error))
}

fn put_back(
    context: &Context,
    store: &crate::store::Store,
    kind: Kind,
    name: &str,
    shown: &Value,
    text: &str,
) -> Result<(), Refusal> {
    let edited = yaml::value(text)
        .map_err(|wrong| Refusal::invalid("the text cannot be read").because(wrong.to_string()))?;
    let apply = |document: &mut Value| {
        if theirs(document) != theirs(shown) || going(document) != going(shown) {
            return Err(Refusal::conflict(format!(
                "{} `{name}` was changed by somebody meanwhile",
                kind.word()
            )));
        }
        let Value::Object(mut edited) = edited.clone() else {
            return Err(Refusal::invalid("the text is not an object"));
        };
        if ["apiVersion", "kind"].iter().any(|field| edited.get(*field) != document.get(*field)) {
            return Err(Refusal::conflict("apiVersion and kind of an object cannot be changed"));
        }
        let known = document.as_object_mut().and_then(|fields| fields.remove("metadata"));
        let mut metadata = known.and_then(|known| known.as_object().cloned()).unwrap_or_default();
        metadata.retain(|name, _| !THEIRS.contains(&name.as_str()));
        let theirs = edited.remove("metadata");
        metadata.extend(theirs.and_then(|new| new.as_object().cloned()).unwrap_or_else(Map::new));
        edited.insert("metadata".into(), metadata.into());
        *document = edited.into();
        Ok(())
    };
    patch::change(context, store, kind, name, "edited", apply).map_err(|error| {
        error.downcast().unwrap_or_else(|error| Refusal::invalid(format!("{error:#}")))
    })
}
