//! `delete`: asks for the deletion of objects.

use std::cell::RefCell;

use anyhow::bail;
use clap::Args;

use crate::edits;
use crate::model::agent::Agent;
use crate::model::cluster::Cluster;
use crate::model::event_reason::EventReason;
use crate::model::host::BareMetalHost;
use crate::model::ip_lease::IpLease;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{AgentId, Scope, State};
use crate::model::tick::Tick;
use crate::reconcile::{Door, Passed};
use crate::store::{Filter, Need, Store};

use crate::commands::host::hold as host_hold;
use crate::commands::infraenv::images;
use crate::commands::selector::Selector;
use crate::commands::{Context, Verb, scope, target};

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
    /// The agents of an InfraEnv go with it
    #[arg(long)]
    force: bool,
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
            match context.find_object(&store, kind, &name) {
                Err(absent) if absent.exit == Exit::NotFound && self.ignore_not_found => {}
                found => objects.push(found?),
            }
        }
        for object in &objects {
            ask(context, &store, object)?;
            if self.force {
                ask_for_agents(context, &store, object)?;
            }
        }
        let stays = RefCell::new(None);
        let edit = |state: &mut State, key: &Key, tick: &Tick| {
            let asked =
                if self.force { forced(state, key, tick) } else { refused(state, key, tick) };
            asked.inspect_err(|_| drop(stays.replace(Some(key.clone()))))
        };
        let found = request(context, &store, &objects, edit);
        if let (Err(refusal), Some(key)) = (&found, stays.take()) {
            note(context, &store, key, refusal)?;
        }
        said(context, &objects, found?, |_, _| "deleted")?;
        images::hint_left(context, &store, &objects)
    }
}

/// What to type about who uses the addresses of a cluster: the cluster itself, or a host that has
/// left it and may run on. None when neither is there any more.
fn next_for_user_of_address(
    store: &Store,
    namespace: &str,
    cluster: &str,
) -> Result<Option<String>, Refusal> {
    let named = Filter { name: Some(cluster.to_owned()), ..Filter::default() };
    if !store.list::<Cluster>(&named)?.is_empty() {
        return Ok(Some(format!("poolctl describe cluster {cluster}")));
    }
    let in_namespace = Filter { namespace: Some(namespace.to_owned()), ..Filter::default() };
    let agents = store.list::<Agent>(&in_namespace)?;
    let has_left = |agent: &&Agent| {
        let left = agent.status.deprovision_info.as_ref();
        left.is_some_and(|left| left.cluster_name == cluster)
    };
    Ok(agents
        .iter()
        .find(has_left)
        .map(|agent| format!("poolctl why agent/{}", agent.metadata.name)))
}

/// A claimed cluster is somebody's, and so is one that no pool made.
pub fn ask(context: &Context, store: &Store, object: &Object) -> Result<(), Refusal> {
    let (key, word) = (object.key(), object.kind().word());
    let claim = match object {
        Object::IpClaim(_) => Some(key.name.as_str()),
        Object::IpAddress(one) => Some(one.spec.claim.name.as_str()),
        _ => None,
    };
    let claim = claim.map(|name| Key::new(&*key.namespace, name));
    let lease = claim.map(|claim| store.lease_of(&claim)).transpose()?.flatten();
    if let Some(cluster) = lease.as_ref().and_then(IpLease::cluster)
        && let Some(next) = next_for_user_of_address(store, &key.namespace, cluster)?
    {
        let what = format!("{word} `{}` is of cluster `{cluster}`, and goes with it", key.name);
        return Err(Refusal::conflict(what).next(next));
    }
    let loss = match object {
        Object::ClusterDeployment(cluster) => cluster_lost(cluster),
        Object::ClusterClaim(claim) if claim.owner != context.world.actor() => {
            let owner = Some(&claim.owner).filter(|owner| !owner.is_empty());
            owner.map(|owner| format!("belongs to {owner}"))
        }
        Object::IpAddress(one) => {
            Some(format!("is leased to claim `{}`, which goes with it", one.spec.claim.name))
        }
        Object::Agent(one) => agent_lost(one),
        Object::BareMetalHost(host) => host_lost(store, host)?,
        _ => None,
    };
    let Some(loss) = loss else { return Ok(()) };
    let is_claim = object.kind() == Kind::ClusterClaim;
    let verb = if is_claim { "release".into() } else { format!("delete {word}") };
    let command = format!("poolctl {verb} {}", key.name);
    context.confirm(&format!("{word} `{}` {loss}", key.name), &command)
}

/// A bound Agent does not go with the host that it is.
fn host_lost(store: &Store, host: &BareMetalHost) -> Result<Option<String>, Refusal> {
    let Some(cluster) = host.cluster() else { return Ok(None) };
    let key = host.key();
    let agents = host_hold::agents_of(store, Some(key.namespace.clone()), &[key])?;
    Ok(Some(match agents.iter().find(|one| one.bound_to().is_some()) {
        Some(one) => format!(
            "is used by cluster `{cluster}`; agent `{0}` stays there, and nothing is done to its \
             machine any more, unless `poolctl agent unbind {0}` comes first",
            one.metadata.name
        ),
        None => format!("is used by cluster `{cluster}`, which loses it"),
    }))
}

fn agent_lost(one: &Agent) -> Option<String> {
    one.bound_to().map(|key| format!("is bound to cluster `{}`, which loses it", key.name))
}

/// The hosts that an `InfraEnv` takes along are asked for one by one; one that is installed now is
/// refused anyway.
fn ask_for_agents(context: &Context, store: &Store, object: &Object) -> Result<(), Refusal> {
    let Object::InfraEnv(infra_env) = object else { return Ok(()) };
    let key = infra_env.key();
    let filter = Filter { namespace: Some(key.namespace.clone()), ..Filter::default() };
    for agent in store.list::<Agent>(&filter)? {
        let goes = agent.infra_env().as_ref() == Some(&key) && !agent.state().is_installing();
        let Some(loss) = agent_lost(&agent).filter(|_| goes) else { continue };
        let command = format!("poolctl delete infraenv {} --force", key.name);
        context.confirm(&format!("agent `{}` {loss}", agent.metadata.name), &command)?;
    }
    Ok(())
}

fn cluster_lost(cluster: &Cluster) -> Option<String> {
    if let Some(claim) = &cluster.claim {
        return Some(format!("is in use by claim `{claim}` and would be destroyed"));
    }
    // Somebody has made it by hand, and no pool makes another.
    let lasts = cluster.pool.is_none() && cluster.installed() && cluster.deleting.is_none();
    let loss = if cluster.preserve {
        "is installed; it would go on, and how to log in to it would be forgotten"
    } else {
        "is installed and would be destroyed"
    };
    lasts.then(|| loss.to_owned())
}

/// Asks for the deletion, and says of each object whether it was still there.
pub fn request(
    context: &Context,
    store: &Store,
    objects: &[Object],
    first: impl Fn(&mut State, &Key, &Tick) -> Result<(), Refusal>,
) -> Result<(Vec<bool>, Passed), Refusal> {
    let what: Vec<(Kind, Key, Option<String>)> =
        objects.iter().map(|one| (one.kind(), one.key(), None)).collect();
    let scope = scope::scope_of(store, &what)?;
    let needs: Vec<Need> = scope::needs_of(&what);
    context.door(store).change(&scope, &needs, |state, tick| {
        for claim in what.iter().filter_map(|(_, key, _)| state.claims.by_key(key)) {
            context.permit_change(claim)?;
        }
        for (_, key, _) in what.iter().filter(|(kind, _, _)| *kind == Kind::InfraEnv) {
            first(state, key, tick)?;
        }
        let each = what.iter().map(|(kind, key, _)| edits::delete(state, *kind, key, tick));
        Ok(each.collect::<Vec<_>>())
    })
}

pub fn delete(
    context: &Context,
    store: &Store,
    objects: &[Object],
    done: impl Fn(&State, &Object) -> &'static str,
) -> anyhow::Result<()> {
    let found = request(context, store, objects, refused)?;
    said(context, objects, found, done)
}

fn agents_of(state: &State, infra_env: &Key) -> Vec<AgentId> {
    let its = |one: &Agent| one.infra_env().as_ref() == Some(infra_env);
    state.agents.iter().filter(|(_, one)| its(one)).map(|(at, _)| at).collect()
}

/// An InfraEnv stays while hosts belong to it.
pub fn refused(state: &mut State, infra_env: &Key, _: &Tick) -> Result<(), Refusal> {
    let hosts: Vec<String> = agents_of(state, infra_env)
        .into_iter()
        .filter_map(|at| state.agents.get(at))
        .map(|one| one.metadata.name.clone())
        .collect();
    if hosts.is_empty() {
        return Ok(());
    }
    let (name, many) = (&infra_env.name, hosts.len());
    let what = format!("failed to deregister infraEnv {name}, {many} hosts are still associated");
    let more = many.checked_sub(5).filter(|more| *more > 0).map(|more| format!("and {more} more"));
    let mut some: Vec<&str> = hosts.iter().take(5).map(String::as_str).collect();
    some.extend(more.as_deref());
    Err(Refusal::conflict(what)
        .because(some.join(", "))
        .next(format!("poolctl delete infraenv {name} --force")))
}

/// An InfraEnv that stays says why.
fn note(context: &Context, store: &Store, key: Key, refusal: &Refusal) -> Result<(), Refusal> {
    let text = refusal.what.clone();
    let door = Door { store, world: &context.world, pass: false };
    door.change(&Scope::Pools(Vec::new()), &[], |state, tick| {
        edits::record_warning(
            state,
            tick,
            Kind::InfraEnv,
            key,
            EventReason::InfraEnvDeregisterFailed,
            &text,
        );
        Ok(())
    })?;
    Ok(())
}

/// Its hosts go first.
fn forced(state: &mut State, infra_env: &Key, tick: &Tick) -> Result<(), Refusal> {
    for at in agents_of(state, infra_env) {
        let busy = state.agents.get(at).filter(|one| one.state().is_installing());
        if let Some(one) = busy {
            let what = format!("agent `{}` is in the middle of an installation", one.metadata.name);
            let cluster = one.bound_to().map(|key| key.name).unwrap_or_default();
            // One that joins a cluster may leave in the middle; the cluster goes on.
            let next = if one.is_day2() {
                format!("poolctl agent unbind {}", one.metadata.name)
            } else {
                format!("poolctl delete cluster {cluster}")
            };
            return Err(Refusal::conflict(what).next(next));
        }
        state.agents.update(at, |one| {
            one.metadata.deletion_timestamp.get_or_insert(tick.now);
        });
    }
    Ok(())
}

fn said(
    context: &Context,
    objects: &[Object],
    (found, passed): (Vec<bool>, Passed),
    done: impl Fn(&State, &Object) -> &'static str,
) -> anyhow::Result<()> {
    for (one, found) in objects.iter().zip(found) {
        let (kind, key) = (one.kind(), one.key());
        if !found {
            let what = format!("there is no {} `{}` any more", kind.word(), key.name);
            bail!(Refusal::not_found(what));
        }
        context.changed(kind, &key, done(&passed.state, one))?;
    }
    Ok(context.finish(&passed)?)
}
