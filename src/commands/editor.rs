//! `edit`: opens an object in the user's editor and writes it back, unless it was changed
//! meanwhile.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::drivers::process::ForegroundProgram;
use crate::model::kinds::Kind;
use crate::model::refusal::{Exit, Refusal};
use crate::store::Store;
use crate::{output, yaml};

use crate::commands::{Context, RunCommand, patch, target};
use crate::manifest;

/// The fields of metadata that are the user's; poolctl writes the others.
const USER_METADATA: [&str; 5] = ["name", "namespace", "labels", "annotations", "finalizers"];

/// Arguments of `edit`. The state is not locked while the editor is open; a change of the object
/// meanwhile is refused.
#[derive(Args)]
pub struct Edit {
    /// Object, such as pool/lab; or its kind, such as pool, with its name after it
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    /// Name of the object, if only its kind is given before it
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

impl RunCommand for Edit {
    const NAME: &'static str = "edit";
    const ABOUT: &'static str = "Edit an object in $VISUAL or $EDITOR";
    const EXAMPLE: &'static str = "EDITOR='sed -i s/size:.*/size:\\ 3/' poolctl edit pool lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, name) = target::parse_object(&self.kind, self.name.as_deref(), Self::EXAMPLE)?;
        let store = context.open_existing_state()?;
        let document = context.find_object(&store, kind, &name)?.to_wire();
        let original = yaml::to_text(&user_part(&document))
            .map_err(|error| Refusal::invalid(error.to_string()))?;
        let (file, path) = write_temporary(&format!("{}-{name}-", kind.word()), &original)?;
        let mut last_text = original;
        let mut last_refusal = None;
        loop {
            let edited = run_editor(context, &path)?;
            let is_same = edited == last_text;
            if (is_same && last_refusal.is_none()) || edited.trim().is_empty() {
                context.hint("nothing was changed");
                return Ok(());
            }
            let refusal = match last_refusal.take() {
                Some(refusal) if is_same => refusal,
                _ => match write_back(context, &store, kind, &name, &document, &edited) {
                    Ok(()) => return Ok(()),
                    Err(refusal) => refusal,
                },
            };
            // Saving the same text again means to give up.
            if is_same || refusal.exit != Exit::Failed || !context.is_at_terminal() {
                let place = match file.into_temp_path().keep() {
                    Ok(path) => format!("your text is kept in {}", path.display()),
                    Err(_) => String::new(),
                };
                return Err(refusal.because(place).into());
            }
            last_text = explain_in_comments(&refusal, &edited);
            std::fs::write(&path, &last_text)
                .map_err(|error| Refusal::unwritable(&path, &error))?;
            last_refusal = Some(refusal);
        }
    }
}

/// Writes a text to a new file that only its owner may read. Dropping the value removes the file.
fn write_temporary(prefix: &str, content: &str) -> Result<(NamedTempFile, PathBuf), Refusal> {
    let mut file = tempfile::Builder::new()
        .prefix(prefix)
        .suffix(".yaml")
        .tempfile()
        .map_err(|error| Refusal::unwritable(Path::new(prefix), &error))?;
    let path = file.path().to_owned();
    file.write_all(content.as_bytes()).map_err(|error| Refusal::unwritable(&path, &error))?;
    Ok((file, path))
}

/// The edited text below the refusal in comments, instead of those of an earlier refusal.
fn explain_in_comments(refusal: &Refusal, edited: &str) -> String {
    let message = refusal.to_string();
    let comments = message.lines().map(|line| format!("# {}", output::clean_line(line)));
    let mut content = output::join_lines(&comments.collect::<Vec<_>>());
    for line in edited.lines().skip_while(|line| line.starts_with('#')) {
        content += line;
        content.push('\n');
    }
    content
}

fn is_being_deleted(document: &Value) -> bool {
    !document["metadata"]["deletionTimestamp"].is_null()
}

/// The document without the fields that poolctl writes.
fn user_part(document: &Value) -> Value {
    let mut user_part = document.clone();
    if let Some(fields) = user_part.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = user_part.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| USER_METADATA.contains(&name.as_str()));
    }
    user_part
}

/// Runs the editor on a file and returns the text that is in it afterwards.
fn run_editor(context: &Context, path: &Path) -> Result<String, Refusal> {
    let variable = context.world.variable("VISUAL").or_else(|| context.world.variable("EDITOR"));
    let editor = variable.unwrap_or("vi");
    // The shell splits an editor that is named with arguments.
    let script = format!("{editor} \"$1\"");
    let arguments: Vec<OsString> = vec!["-c".into(), script.into(), "sh".into(), path.into()];
    let shell = ForegroundProgram {
        program: "/bin/sh".into(),
        arguments,
        variables: Vec::new(),
        umask: context.world.umask,
    };
    // Ctrl-C is for the editor: here it is caught and forgotten.
    context.world.catch_signals();
    let exit_code = shell
        .run_to_end(|| {
            context.world.take_signal();
            None
        })
        .map_err(|error| refuse_editor(editor, &error.to_string()))?;
    if exit_code != 0 {
        return Err(refuse_editor(editor, &format!("exit code {exit_code}")));
    }
    std::fs::read_to_string(path)
        .map_err(|error| manifest::refuse_unreadable("a temporary file", &error))
}

fn refuse_editor(editor: &str, why: &str) -> Refusal {
    Refusal::invalid(format!("the editor `{editor}` failed: {why}"))
        .advise("set EDITOR to an editor that is installed")
}

/// Puts the edited text in place of the object. Refuses if the user's part of the object is no
/// longer as in `document`.
fn write_back(
    context: &Context,
    store: &Store,
    kind: Kind,
    name: &str,
    document: &Value,
    edited: &str,
) -> Result<(), Refusal> {
    let edited = yaml::parse_value(edited)
        .map_err(|error| Refusal::invalid("the text cannot be read").because(error.to_string()))?;
    let changed = patch::change_object(context, store, kind, name, "edited", |current| {
        if user_part(current) != user_part(document)
            || is_being_deleted(current) != is_being_deleted(document)
        {
            return Err(Refusal::conflict(format!(
                "{} `{name}` was changed meanwhile",
                kind.word()
            )));
        }
        *current = merge_edited(current, &edited)?;
        Ok(())
    });
    changed.map_err(|error| {
        error.downcast().unwrap_or_else(|error| Refusal::invalid(format!("{error:#}")))
    })
}

/// The edited document with the metadata that poolctl writes.
fn merge_edited(current: &Value, edited: &Value) -> Result<Value, Refusal> {
    let Value::Object(mut merged) = edited.clone() else {
        return Err(Refusal::invalid("the text is not an object"));
    };
    for field in ["apiVersion", "kind"] {
        if merged.get(field) != current.get(field) {
            return Err(Refusal::conflict(
                "the apiVersion and the kind of an object cannot be changed",
            ));
        }
    }
    let mut metadata = current["metadata"].as_object().cloned().unwrap_or_default();
    metadata.retain(|name, _| !USER_METADATA.contains(&name.as_str()));
    if let Some(Value::Object(edited_metadata)) = merged.remove("metadata") {
        metadata.extend(edited_metadata);
    }
    merged.insert("metadata".into(), metadata.into());
    Ok(merged.into())
}
