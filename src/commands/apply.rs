//! `apply`: makes objects what the manifests say.

use std::path::PathBuf;

use clap::Args;

use crate::edits::{Verdict, put};
use crate::model::agent::Agent;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::store::Store;

use crate::commands::agent::ask_to_leave;
use crate::commands::misfits;
use crate::commands::{Context, Verb, scope};
use crate::manifest::{self, Reading};

#[derive(Args)]
pub struct Apply {
    /// File, folder, or - for stdin; YAML or JSON, several documents each
    #[arg(short, long, required = true, value_name = "FILE|DIR|-")]
    filename: Vec<PathBuf>,
    /// Warn about unknown fields instead of refusing
    #[arg(long)]
    lenient: bool,
}

impl Verb for Apply {
    const NAME: &'static str = "apply";
    const ABOUT: &'static str = "Make objects what manifests say";
    const EXAMPLE: &'static str = "poolctl apply -f examples/pool";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let namespace = context.namespace()?;
        let reading = Reading { namespace: &namespace, lenient: self.lenient, moved: false };
        let read = without_settings(manifest::read(&self.filename, &reading)?);
        for warning in &read.warnings {
            context.warn(warning);
        }
        if read.objects.is_empty() {
            return Err(Refusal::invalid("there is nothing to apply").into());
        }
        let pool = |object: &Object| match object {
            Object::ClusterClaim(claim) => Some(claim.pool.clone()),
            _ => None,
        };
        let what: Vec<(Kind, Key, Option<String>)> =
            read.objects.iter().map(|one| (one.kind(), one.key(), pool(one))).collect();
        let store = context.open()?;
        for object in &read.objects {
            ask(context, &store, object)?;
        }
        let scope = scope::scope_of(&store, &what)?;
        let (verdicts, passed) =
            context.door(&store).change(&scope, &scope::needs_of(&what), |state, tick| {
                let (mut verdicts, mut wrong) = (Vec::new(), Vec::new());
                for object in read.objects {
                    match put(state, object, true, tick) {
                        Ok(verdict) => verdicts.push(verdict),
                        Err(refusal) => wrong.push(refusal),
                    }
                }
                Refusal::of_all(wrong)?;
                Ok(verdicts)
            })?;
        let mut changed = Vec::new();
        for ((kind, key, _), verdict) in what.iter().zip(verdicts) {
            if verdict != Verdict::Unchanged {
                changed.push((*kind, key.clone()));
            }
            let said = match verdict {
                Verdict::Created => "created".into(),
                Verdict::Configured(what) if what.is_empty() => "configured".into(),
                Verdict::Configured(what) => format!("configured ({what})"),
                Verdict::Unchanged => "unchanged".into(),
            };
            context.changed(*kind, key, &said)?;
        }
        misfits::warn(context, &passed.state, &changed);
        Ok(context.finish(&passed)?)
    }
}

/// A host that is a node does not leave its cluster by the way; one that is applied without a
/// cluster stays where it is.
fn ask(context: &Context, store: &Store, object: &Object) -> Result<(), Refusal> {
    let Object::Agent(applied) = object else { return Ok(()) };
    let Some(wanted) = applied.wanted() else { return Ok(()) };
    match store.one::<Agent>(&applied.key())? {
        Some(agent) if agent.wanted().as_ref() != Some(&wanted) => {
            ask_to_leave(context, &agent, Some(&wanted), "poolctl apply -f FILE")
        }
        _ => Ok(()),
    }
}

/// Settings choose what runs: they are applied alone, not carried along by a folder.
pub fn without_settings(mut read: manifest::Manifests) -> manifest::Manifests {
    if read.objects.len() < 2 {
        return read;
    }
    let before = read.objects.len();
    read.objects.retain(|one| one.kind() != Kind::Settings);
    if read.objects.len() < before {
        read.warnings
            .push("Settings are applied only when they are the only object; skipped".into());
    }
    read
}
