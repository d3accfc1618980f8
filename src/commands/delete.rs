//! `delete`: asks for the deletion of objects.

use clap::Args;

use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::store::{Filter, Need, Store};

use super::edit;
use super::events::kind_of;
use super::{Context, Verb};

#[derive(Args)]
pub struct Delete {
    /// Kind, or KIND/NAME
    kind: String,
    names: Vec<String>,
    /// Every object of the kind in the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

impl Verb for Delete {
    const NAME: &'static str = "delete";
    const ABOUT: &'static str = "Delete objects; clusters are destroyed first";
    const EXAMPLE: &'static str = "poolctl delete claim ci-17";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, mut names) = match self.kind.split_once('/') {
            Some((kind, name)) => (kind_of(kind)?, vec![name.to_owned()]),
            None => (kind_of(&self.kind)?, Vec::new()),
        };
        names.extend(self.names.clone());
        let store = context.look()?;
        let objects = if self.all {
            let namespace = if kind.namespaced() { context.namespaces()? } else { None };
            store.objects(kind, &Filter { namespace, name: None, whole: false })?
        } else {
            names.iter().map(|name| context.find(&store, kind, name)).collect::<Result<_, _>>()?
        };
        if objects.is_empty() {
            return if self.all {
                Ok(())
            } else {
                Err(Refusal::usage("delete needs names, or --all").into())
            };
        }
        for object in &objects {
            ask(context, object)?;
        }
        let keys: Vec<Key> = objects.iter().map(Object::key).collect();
        delete(context, &store, kind, &keys, "deleted")
    }
}

/// A claimed cluster is somebody's.
fn ask(context: &Context, object: &Object) -> anyhow::Result<()> {
    let Object::Cluster(cluster) = object else {
        return Ok(());
    };
    let Some(claim) = &cluster.claim else {
        return Ok(());
    };
    let loss =
        format!("cluster `{}` is in use by claim `{claim}` and would be destroyed", cluster.name);
    Ok(context.confirm(&loss, &format!("poolctl delete cluster {}", cluster.name))?)
}

pub fn delete(
    context: &Context,
    store: &Store,
    kind: Kind,
    keys: &[Key],
    done: &str,
) -> anyhow::Result<()> {
    let what: Vec<(Kind, Key, Option<String>)> =
        keys.iter().map(|key| (kind, key.clone(), None)).collect();
    let scope = edit::scope_of(store, &what)?;
    let needs: Vec<Need> = edit::needs_of(&what);
    let (found, passed) = context.door(store).change(&scope, &needs, |state, tick| {
        Ok(keys.iter().map(|key| edit::delete(state, kind, key, tick)).collect::<Vec<_>>())
    })?;
    for (key, found) in keys.iter().zip(found) {
        if !found {
            return Err(Refusal::not_found(format!(
                "there is no {} `{}` any more",
                kind.word(),
                key.name
            ))
            .into());
        }
        context.changed(kind, &key.name, done)?;
    }
    Ok(passed.check()?)
}
