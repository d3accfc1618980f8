//! `patch`: changes fields of an object. The result passes the same checks as an applied manifest.
//! It never changes the status of an object.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::edits::{PutMode, PutOutcome, put_object};
use crate::model::agent::{Agent, ClusterReference};
use crate::model::annotations::OWNER;
use crate::model::customization;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::output::Answer;
use crate::render::patch::{self, PatchRules};
use crate::rules;
use crate::store::Store;
use crate::yaml;

use crate::commands::agent::confirm_leaving_cluster;
use crate::commands::customization_warnings;
use crate::commands::manifest_files::Rehearsal;
use crate::commands::scope::EditedObject;
use crate::commands::{Context, RunCommand, scope, target};
use crate::manifest;

#[derive(Clone, Copy, ValueEnum)]
enum PatchType {
    /// JSON merge patch (RFC 7386): given fields are replaced, null removes a field
    Merge,
    /// JSON patch (RFC 6902): a list of operations
    Json,
}

/// Arguments of `patch`, with the three patch types of kubectl.
#[derive(Args)]
pub struct Patch {
    /// Object, such as pool/lab; or its kind, such as pool, with its name after it
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    /// Name of the object, if only its kind is given before it
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Format of PATCH
    #[arg(long = "type", value_enum, value_name = "TYPE", default_value = "merge")]
    format: PatchType,
    /// The patch, as JSON or YAML
    #[arg(
        short = 'p',
        long = "patch",
        value_name = "PATCH",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    changes: Option<String>,
    /// File with the patch, or - for stdin
    #[arg(long = "patch-file", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    rehearsal: Rehearsal,
}

impl RunCommand for Patch {
    const NAME: &'static str = "patch";
    const ABOUT: &'static str = "Change fields of an object";
    const EXAMPLE: &'static str =
        "poolctl patch pool lab --type merge -p '{\"spec\": {\"maxSize\": 5}}'";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, name) = target::parse_object(&self.kind, self.name.as_deref(), Self::EXAMPLE)?;
        let changes = yaml::parse_value(&self.read_changes()?).map_err(|error| {
            Refusal::usage("the patch cannot be read").because(error.to_string())
        })?;
        let store = context.open_existing_state()?;
        if let Some(remark) = self.rehearsal.dry_run.remark() {
            let object = context.find_object(&store, kind, &name)?;
            let result = format!("patched {remark}");
            return rehearse_change(context, &store, &object, &result, |document| {
                self.apply_to(document, &changes)
            });
        }
        change_object(context, &store, kind, &name, "patched", |document| {
            self.apply_to(document, &changes)
        })
    }
}

impl Patch {
    /// The text of the patch.
    fn read_changes(&self) -> Result<String, Refusal> {
        let Some(path) = &self.file else {
            return Ok(self.changes.clone().unwrap_or_default());
        };
        let texts = manifest::read_texts(path, yaml::MAX_BYTES)?;
        Ok(texts.into_iter().map(|(_, content)| content).collect())
    }

    /// Applies the patch to a document in place. A patch that is refused leaves it as it was.
    fn apply_to(&self, document: &mut Value, changes: &Value) -> Result<(), Refusal> {
        match self.format {
            PatchType::Merge if changes.is_object() => {
                json_patch::merge(document, changes);
                Ok(())
            }
            PatchType::Merge => Err(Refusal::usage("a merge patch must be a mapping")),
            PatchType::Json => {
                let operations: Vec<customization::Patch> = serde_json::from_value(changes.clone())
                    .map_err(|error| {
                        Refusal::usage("the patch is not a list of operations")
                            .because(error.to_string())
                    })?;
                patch::apply_patches(
                    document,
                    &operations,
                    PatchRules { strict: true, allowed: None },
                )
                .map_err(|cause| Refusal::invalid("the patch does not apply").because(cause))?;
                Ok(())
            }
        }
    }
}

/// Changes an object by editing its document, and reports the change. `edit_document` may be called
/// several times, each time with the current document. `result` is the word that the answer prints
/// after the name of the object, such as `patched`.
pub fn change_object(
    context: &Context,
    store: &Store,
    kind: Kind,
    name: &str,
    result: &str,
    edit_document: impl Fn(&mut Value) -> Result<(), Refusal>,
) -> anyhow::Result<()> {
    let object = context.find_object(store, kind, name)?;
    change_found_object(context, store, &object, result, edit_document)
}

/// Answers what a change would make of an object of the state, and changes nothing.
pub fn rehearse_change(
    context: &Context,
    store: &Store,
    object: &Object,
    result: &str,
    edit_document: impl Fn(&mut Value) -> Result<(), Refusal>,
) -> anyhow::Result<()> {
    rules::check_editable(object)?;
    let edited_objects = [EditedObject::new(object.kind(), object.key())];
    let scope = scope::scope_of(store, &edited_objects)?;
    let needs = scope::needs_of(&edited_objects);
    let (edited, _) = context
        .door(store)
        .rehearse(&scope, &needs, |state, tick| put_edited(state, object, &edit_document, tick))?;
    if context.wants_documents() {
        return context.answer(Answer::default().with_document(edited.to_wire()));
    }
    context.report_change(object.kind(), &object.key(), result)
}

/// Changes an object of the state, as `change_object` does.
pub fn change_found_object(
    context: &Context,
    store: &Store,
    object: &Object,
    result: &str,
    edit_document: impl Fn(&mut Value) -> Result<(), Refusal>,
) -> anyhow::Result<()> {
    let kind = object.kind();
    rules::check_editable(object)?;
    if let Object::Agent(agent) = object {
        confirm_leaving(context, agent, &edit_document)?;
    }
    let edited_objects = [EditedObject::new(kind, object.key())];
    let scope = scope::scope_of(store, &edited_objects)?;
    let needs = scope::needs_of(&edited_objects);
    let ((outcome, warnings), passed) =
        context.door(store).change(&scope, &needs, |state, tick| {
            let (edited, outcome) = put_edited(state, object, &edit_document, tick)?;
            let mut warnings = rules::object_warnings(&edited);
            warnings.extend(rules::describe_kept_problems(&edited));
            Ok((outcome, warnings))
        })?;
    let result = match outcome {
        PutOutcome::Unchanged => format!("{result} (no change)"),
        _ => result.to_owned(),
    };
    context.report_change(kind, &object.key(), &result)?;
    for warning in &warnings {
        context.warn(warning);
    }
    customization_warnings::warn_about_customizations(
        context,
        &passed.state,
        &[(kind, object.key())],
    );
    context.report_limits(&passed);
    Ok(context.report_pass(&passed)?)
}

/// Puts an object of the state back with an edit applied to its document. Returns the object as it
/// was put, and what became of it.
fn put_edited(
    state: &mut State,
    object: &Object,
    edit_document: &impl Fn(&mut Value) -> Result<(), Refusal>,
    tick: &Tick,
) -> Result<(Object, PutOutcome), Refusal> {
    let Some(current) = state.find_object(object) else {
        let word = object.kind().word();
        let name = object.key().name;
        return Err(Refusal::not_found(format!("there is no {word} `{name}` any more")));
    };
    let edited = edit_object(&current, edit_document)?;
    let outcome = put_object(state, edited.clone(), PutMode::Replace, tick)?;
    Ok((edited, outcome))
}

/// Returns a copy of an object with an edit applied to its document. The status stays as it was:
/// users may change only the rest. Refuses to change the name, the namespace or a claim's owner.
fn edit_object(
    object: &Object,
    edit_document: &impl Fn(&mut Value) -> Result<(), Refusal>,
) -> Result<Object, Refusal> {
    let document_before = object.to_wire();
    let mut document = document_before.clone();
    edit_document(&mut document)?;
    if object.kind() == Kind::ClusterClaim
        && owner_annotation(&document) != owner_annotation(&document_before)
    {
        return Err(Refusal::conflict(format!(
            "annotation `{OWNER}` of a claim cannot be changed"
        )));
    }
    let status = document_before.get("status").cloned();
    if let (Some(fields), Some(status)) = (document.as_object_mut(), status) {
        fields.insert("status".into(), status);
    }
    let edited = manifest::check_edited_document(object.kind(), &document)?;
    if edited.key() != object.key() {
        return Err(Refusal::conflict("the name and the namespace of an object cannot be changed"));
    }
    Ok(edited)
}

/// The annotation with the account that created a claim, or null if there is none.
fn owner_annotation(document: &Value) -> &Value {
    &document["metadata"]["annotations"][OWNER]
}

/// Asks for confirmation if an edit takes the Agent of a node away from its cluster.
fn confirm_leaving(
    context: &Context,
    agent: &Agent,
    edit_document: &impl Fn(&mut Value) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut document = Object::Agent(Box::new(agent.clone())).to_wire();
    edit_document(&mut document)?;
    let reference = document["spec"]["clusterDeploymentName"].clone();
    // A value that is no reference is refused later, when the edited document is checked.
    let Ok(reference) = serde_json::from_value::<Option<ClusterReference>>(reference) else {
        return Ok(());
    };
    let wanted_cluster = reference.as_ref().map(ClusterReference::key);
    if wanted_cluster == agent.requested_cluster() {
        return Ok(());
    }
    let name = &agent.metadata.name;
    let command = match wanted_cluster {
        None => format!("poolctl agent unbind {name}"),
        Some(_) => format!("poolctl patch agent {name} -p PATCH"),
    };
    confirm_leaving_cluster(context, agent, wanted_cluster.as_ref(), &command)
}
