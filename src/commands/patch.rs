//! `patch`: changes fields of an object.

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::edits::{Verdict, put};
use crate::model::agent::{Agent, ClusterReference};
use crate::model::claim::OWNER;
use crate::model::customization;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::render::patch::{self, Rules};
use crate::rules;
use crate::store::Store;
use crate::yaml;

use crate::commands::agent::ask_to_leave;
use crate::commands::misfits;
use crate::commands::{Context, Verb, scope, target};
use crate::manifest;

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    /// RFC 7386: fields given replace, null removes
    Merge,
    /// RFC 6902: a list of operations
    Json,
}

#[derive(Args)]
pub struct Patch {
    /// Kind, or KIND/NAME
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[arg(long = "type", value_enum, default_value = "merge")]
    how: Type,
    /// The patch, as JSON or YAML
    #[arg(short = 'p', long = "patch", value_name = "PATCH")]
    changes: String,
}

impl Verb for Patch {
    const NAME: &'static str = "patch";
    const ABOUT: &'static str = "Change fields of an object";
    const EXAMPLE: &'static str =
        "poolctl patch pool lab --type merge -p '{\"spec\": {\"maxSize\": 5}}'";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, name) = target::one(&self.kind, self.name.as_deref(), Self::EXAMPLE)?;
        let changes = yaml::value(&self.changes).map_err(|wrong| {
            Refusal::usage("the patch cannot be read").because(wrong.to_string())
        })?;
        let apply = |document: &mut Value| match self.how {
            Type::Merge if changes.is_object() => {
                json_patch::merge(document, &changes);
                Ok(())
            }
            Type::Merge => Err(Refusal::usage("a merge patch is a mapping")),
            Type::Json => {
                let operations: Vec<customization::Patch> = serde_json::from_value(changes.clone())
                    .map_err(|error| {
                        Refusal::usage("the patch is not a list of operations")
                            .because(error.to_string())
                    })?;
                patch::apply(document, &operations, Rules { strict: true, allowed: None })
                    .map_err(|why| Refusal::invalid("the patch does not apply").because(why))?;
                Ok(())
            }
        };
        let store = context.look()?;
        change(context, &store, kind, &name, "patched", apply)
    }
}

/// Edits an object as a document, checks it like one that is applied, and puts it back.
pub fn change(
    context: &Context,
    store: &Store,
    kind: Kind,
    name: &str,
    done: &str,
    apply: impl Fn(&mut Value) -> Result<(), Refusal>,
) -> anyhow::Result<()> {
    let object = context.find_object(store, kind, name)?;
    if let Object::Agent(agent) = &object {
        ask(context, agent, &apply)?;
    }
    let what = [(kind, object.key(), None)];
    let scope = scope::scope_of(store, &what)?;
    let edit = |state: &mut State, tick: &Tick| {
        let Some(found) = state.object(&object) else {
            return Err(Refusal::not_found(format!(
                "there is no {} `{name}` any more",
                kind.word()
            )));
        };
        let mut document = found.to_wire();
        let status = document.get("status").cloned();
        apply(&mut document)?;
        let owner = |document: &Value| document["metadata"]["annotations"][OWNER].clone();
        let is_claim = kind == Kind::ClusterClaim;
        if is_claim && owner(&document) != owner(&found.to_wire()) {
            return Err(Refusal::conflict(format!("{OWNER} says who made the claim")));
        }
        if let (Some(fields), Some(status)) = (document.as_object_mut(), status) {
            // Only the spec and the metadata are the user's.
            fields.insert("status".into(), status);
        }
        let changed = manifest::recheck(kind, &document)?;
        if changed.key() != found.key() {
            return Err(Refusal::conflict("name and namespace of an object cannot be changed"));
        }
        let warnings = rules::warnings(&changed);
        Ok((put(state, changed, false, tick)?, warnings))
    };
    let ((verdict, warnings), passed) =
        context.door(store).change(&scope, &scope::needs_of(&what), edit)?;
    let said = match verdict {
        Verdict::Unchanged => format!("{done} (no change)"),
        _ => done.to_owned(),
    };
    context.changed(kind, &object.key(), &said)?;
    for warning in &warnings {
        context.warn(warning);
    }
    misfits::warn(context, &passed.state, &[(kind, object.key())]);
    Ok(context.finish(&passed)?)
}

/// A host that is a node does not leave its cluster by the way.
fn ask(
    context: &Context,
    agent: &Agent,
    apply: &impl Fn(&mut Value) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut document = Object::Agent(Box::new(agent.clone())).to_wire();
    apply(&mut document)?;
    let wanted = document["spec"]["clusterDeploymentName"].clone();
    // What is no reference is refused later.
    let Ok(wanted) = serde_json::from_value::<Option<ClusterReference>>(wanted) else {
        return Ok(());
    };
    let wanted = wanted.as_ref().map(ClusterReference::key);
    if wanted == agent.wanted() {
        return Ok(());
    }
    let name = &agent.metadata.name;
    let command = match wanted {
        None => format!("poolctl agent unbind {name}"),
        Some(_) => format!("poolctl patch agent {name} -p PATCH"),
    };
    ask_to_leave(context, agent, wanted.as_ref(), &command)
}
