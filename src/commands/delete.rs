//! `delete`: asks for the deletion of objects.

use anyhow::bail;
use clap::Args;

use crate::model::ip_lease::cluster_of;
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::reconcile::Passed;
use crate::store::{Filter, Need, Store};

use super::edit;
use super::selector::Selector;
use super::{Context, Verb, target};

#[derive(Args)]
pub struct Delete {
    /// Kind, or KIND/NAME
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Every object of the kind in the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Those with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    selector: Option<Selector>,
    /// What is not there is no error
    #[arg(long)]
    ignore_not_found: bool,
}

impl Verb for Delete {
    const NAME: &'static str = "delete";
    const ABOUT: &'static str = "Delete objects; clusters are destroyed first";
    const EXAMPLE: &'static str = "poolctl delete claim ci-17";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let mut objects = Vec::new();
        if self.all || self.selector.is_some() {
            let kind = target::kind_of(&self.kind)?;
            let namespace = if kind.namespaced() { context.namespaces()? } else { None };
            objects = store.objects(kind, &Filter { namespace, name: None, whole: true })?;
            objects
                .retain(|one| self.selector.as_ref().is_none_or(|all| all.matches(&one.labels())));
            if objects.is_empty() {
                context.hint("nothing to delete");
                return Ok(());
            }
        } else if !self.kind.contains('/') && self.names.is_empty() {
            bail!(Refusal::usage("delete needs names, or --all").next(Self::EXAMPLE));
        }
        for (kind, name) in target::several(&self.kind, &self.names)? {
            match context.find(&store, kind, &name) {
                Err(absent) if absent.exit == Exit::NotFound && self.ignore_not_found => {}
                found => objects.push(found?),
            }
        }
        for object in &objects {
            ask(context, object)?;
        }
        delete(context, &store, &objects, "deleted")
    }
}

/// A claimed cluster is somebody's.
pub fn ask(context: &Context, object: &Object) -> Result<(), Refusal> {
    let (key, word) = (object.key(), object.kind().word());
    if let Object::IpClaim(one) = object
        && let Some(cluster) = cluster_of(&one.metadata)
    {
        let what = format!("ipclaim `{}` is of cluster `{cluster}`, and goes with it", key.name);
        return Err(Refusal::conflict(what).next(format!("poolctl describe cluster {cluster}")));
    }
    let loss = match object {
        Object::Cluster(cluster) => {
            let claim = cluster.claim.as_ref();
            claim.map(|claim| format!("is in use by claim `{claim}` and would be destroyed"))
        }
        Object::Claim(claim) if claim.owner != context.world.actor() => {
            let owner = Some(&claim.owner).filter(|owner| !owner.is_empty());
            owner.map(|owner| format!("belongs to {owner}"))
        }
        Object::IpAddress(one) => {
            Some(format!("is leased to claim `{}`, which goes with it", one.spec.claim.name))
        }
        Object::Host(host) => {
            host.cluster().map(|cluster| format!("is used by cluster `{cluster}`, which loses it"))
        }
        _ => None,
    };
    let Some(loss) = loss else { return Ok(()) };
    let verb = if word == "claim" { "release".into() } else { format!("delete {word}") };
    let command = format!("poolctl {verb} {}", key.name);
    context.confirm(&format!("{word} `{}` {loss}", key.name), &command)
}

/// Asks for the deletion, and says of each object whether it was still there.
pub fn request(
    context: &Context,
    store: &Store,
    objects: &[Object],
) -> Result<(Vec<bool>, Passed), Refusal> {
    let what: Vec<(Kind, Key, Option<String>)> =
        objects.iter().map(|one| (one.kind(), one.key(), None)).collect();
    let scope = edit::scope_of(store, &what)?;
    let needs: Vec<Need> = edit::needs_of(&what);
    context.door(store).change(&scope, &needs, |state, tick| {
        for claim in what.iter().filter_map(|(_, key, _)| state.claims.by_key(key)) {
            context.permit_change(claim)?;
        }
        let each = what.iter().map(|(kind, key, _)| edit::delete(state, *kind, key, tick));
        Ok(each.collect::<Vec<_>>())
    })
}

pub fn delete(
    context: &Context,
    store: &Store,
    objects: &[Object],
    done: &str,
) -> anyhow::Result<()> {
    let (found, passed) = request(context, store, objects)?;
    for (one, found) in objects.iter().zip(found) {
        let (kind, key) = (one.kind(), one.key());
        if !found {
            let what = format!("there is no {} `{}` any more", kind.word(), key.name);
            bail!(Refusal::not_found(what));
        }
        context.changed(kind, &key.name, done)?;
    }
    Ok(context.finish(&passed)?)
}
