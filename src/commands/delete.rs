//! `delete`: marks objects for deletion. The pass deletes them once what they have is given back,
//! and clusters once they are destroyed.

use std::cell::RefCell;

use anyhow::bail;
use clap::Args;

use crate::edits::{self, DeleteOutcome};
use crate::model::cluster::Cluster;
use crate::model::event_reason::EventReason;
use crate::model::host::BareMetalHost;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{AgentId, Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::reconcile::{Door, PassOutcome};
use crate::rules;
use crate::store::{Filter, Store};

use crate::commands::infraenv::images;
use crate::commands::manifest_files::ManifestFiles;
use crate::commands::scope::EditedObject;
use crate::commands::selector::Selector;
use crate::commands::wait::{parse_timeout, wait_for_deletion};
use crate::commands::{Context, RunCommand, scope, target};

/// Arguments of `delete`. Clusters are destroyed by the passes that follow, and only then are their
/// objects gone.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
#[derive(Args)]
pub struct Delete {
    /// Object, such as claim/ci-17; or a kind, such as claim, with names after it
    #[arg(
        value_name = "KIND/NAME",
        required_unless_present_any = ["filename", "kustomize"],
        conflicts_with_all = ["filename", "kustomize"]
    )]
    kind: Option<String>,
    /// Names of objects of the kind, or further objects such as claim/ci-18
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Delete all objects of the kind in the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    selector: Option<Selector>,
    /// Delete an InfraEnv together with its agents
    #[arg(long)]
    force: bool,
    /// Do not fail if an object does not exist
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    files: ManifestFiles,
    /// Wait until the objects are gone
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        action = clap::ArgAction::Set
    )]
    wait: bool,
    /// Maximum time of --wait; 0 waits without limit, as with kubectl
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = parse_timeout)]
    timeout: Span,
}

impl RunCommand for Delete {
    const NAME: &'static str = "delete";
    const ABOUT: &'static str = "Delete objects; clusters are destroyed first";
    const EXAMPLE: &'static str = "poolctl delete claim ci-17";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let objects = self.find_objects(context, &store)?;
        if objects.is_empty() && (self.all || self.selector.is_some()) {
            context.hint("nothing to delete");
            return Ok(());
        }
        for object in &objects {
            match &self.kind {
                Some(kind) if self.all => {
                    let command = format!("poolctl delete {kind} --all");
                    confirm_deletion_by(context, &store, object, &command)?;
                }
                _ => confirm_deletion(context, &store, object)?,
            }
            if self.force {
                confirm_agents(context, &store, object)?;
            }
        }
        for part in split_by_dependence(objects.clone()) {
            self.delete_together(context, &store, &part)?;
        }
        images::hint_left_images(context, &store, &objects)?;
        if self.wait {
            let limit =
                if self.timeout == Span::default() { Span::hours(24 * 365) } else { self.timeout };
            let keys = objects.iter().map(|object| (object.kind(), object.key())).collect();
            wait_for_deletion(context, &store, keys, limit)?;
        }
        Ok(())
    }
}

/// Objects in the order in which they are deleted: those of a part in one transaction. A pool of
/// addresses is deleted only after the claims and addresses that are deleted with it.
fn split_by_dependence(objects: Vec<Object>) -> Vec<Vec<Object>> {
    let has_leases =
        objects.iter().any(|object| matches!(object.kind(), Kind::IpClaim | Kind::IpAddress));
    if !has_leases {
        return vec![objects];
    }
    let (pools, dependents): (Vec<Object>, Vec<Object>) =
        objects.into_iter().partition(|object| object.kind() == Kind::IpPool);
    if pools.is_empty() { vec![dependents] } else { vec![dependents, pools] }
}

impl Delete {
    /// Deletes objects in one transaction, and reports each.
    fn delete_together(
        &self,
        context: &Context,
        store: &Store,
        objects: &[Object],
    ) -> anyhow::Result<()> {
        let refused_infra_env = RefCell::new(None);
        let deleted = request_deletion(context, store, objects, |state, infra_env_key, tick| {
            let prepared = if self.force {
                delete_agents(state, infra_env_key, tick)
            } else {
                refuse_with_agents(state, infra_env_key, tick)
            };
            prepared.inspect_err(|_| *refused_infra_env.borrow_mut() = Some(infra_env_key.clone()))
        });
        if let (Err(refusal), Some(infra_env_key)) = (&deleted, refused_infra_env.take()) {
            record_refusal(context, store, infra_env_key, refusal)?;
        }
        let (outcomes, passed) = deleted?;
        report_deleted(context, objects, outcomes, &passed, |_, _| "deleted")?;
        Ok(())
    }

    /// The objects that are named, or all of the kind that the options select.
    fn find_objects(&self, context: &Context, store: &Store) -> anyhow::Result<Vec<Object>> {
        if self.files.is_given() {
            return Ok(self.files.find_objects(context, store, self.ignore_not_found)?);
        }
        let word = self.kind.as_deref().unwrap_or_default();
        if self.all || self.selector.is_some() {
            let kind = target::parse_kind(word)?;
            let mut objects = context.select_objects(store, kind, self.selector.as_ref())?;
            // Namespaces that nobody has created are not meant by "all".
            objects.retain(|object| !self.all || rules::check_editable(object).is_ok());
            return Ok(objects);
        }
        if !word.contains('/') && self.names.is_empty() {
            bail!(Refusal::usage("delete needs names, or --all").next(Self::EXAMPLE));
        }
        let mut objects = Vec::new();
        for (kind, name) in target::parse_objects(word, &self.names)? {
            match context.find_object(store, kind, &name) {
                Err(absent) if absent.exit == Exit::NotFound && self.ignore_not_found => {}
                object => objects.push(object?),
            }
        }
        Ok(objects)
    }
}

/// The command that shows who uses the addresses of a cluster: the cluster itself, or a host that
/// has left it and may run on. None if neither exists any more.
fn next_for_user_of_address(
    store: &Store,
    namespace: &str,
    cluster: &str,
) -> Result<Option<String>, Refusal> {
    let by_name = Filter { name: Some(cluster.to_owned()), ..Filter::default() };
    if !store.list::<Cluster>(&by_name)?.is_empty() {
        return Ok(Some(format!("poolctl describe cluster {cluster}")));
    }
    let agents = store.list_agents_that_left(cluster)?;
    let agent = agents.iter().find(|agent| agent.namespace == namespace);
    Ok(agent.map(|agent| format!("poolctl why agent/{}", agent.name)))
}

/// Asks before an object is deleted that somebody uses or that nothing makes again. Refuses an
/// address or a namespace that goes with its cluster.
pub fn confirm_deletion(context: &Context, store: &Store, object: &Object) -> Result<(), Refusal> {
    let verb = match object.kind() {
        Kind::ClusterClaim => "release".to_owned(),
        kind => format!("delete {}", kind.word()),
    };
    let command = format!("poolctl {verb} {}", object.key().name);
    confirm_deletion_by(context, store, object, &command)
}

/// As `confirm_deletion`, for a command that deletes other objects, too.
fn confirm_deletion_by(
    context: &Context,
    store: &Store,
    object: &Object,
    command: &str,
) -> Result<(), Refusal> {
    rules::check_editable(object)?;
    refuse_address_of_cluster(store, object)?;
    refuse_host_in_installation(context, store, object)?;
    let loss = match object {
        Object::ClusterDeployment(cluster) => loss_of_cluster(cluster),
        Object::ClusterClaim(claim)
            if !claim.owner.is_empty() && claim.owner != context.world.actor_name() =>
        {
            Some(format!("belongs to {}", claim.owner))
        }
        Object::IpAddress(address) => {
            Some(format!("is leased to claim `{}`, which is deleted too", address.spec.claim.name))
        }
        Object::Agent(agent) => agent.bound_cluster().map(|cluster| loss_of_agent(&cluster.name)),
        Object::BareMetalHost(host) => loss_of_host(store, host)?,
        _ => None,
    };
    let Some(loss) = loss else { return Ok(()) };
    let word = object.kind().word();
    let name = object.key().name;
    context.confirm(&format!("{word} `{name}` {loss}"), command)
}

/// Refuses to delete an address, or its claim, that a cluster or one of its hosts uses: it would be
/// leased again while they still answer under it.
fn refuse_address_of_cluster(store: &Store, object: &Object) -> Result<(), Refusal> {
    let key = object.key();
    let claim_name = match object {
        Object::IpClaim(_) => &key.name,
        Object::IpAddress(address) => &address.spec.claim.name,
        _ => return Ok(()),
    };
    let Some(lease) = store.find_lease_of_claim(&Key::new(&*key.namespace, &**claim_name))? else {
        return Ok(());
    };
    let Some(cluster) = lease.cluster() else { return Ok(()) };
    if let Some(next) = next_for_user_of_address(store, &key.namespace, cluster)? {
        let word = object.kind().word();
        let problem =
            format!("{word} `{}` belongs to cluster `{cluster}` and is deleted with it", key.name);
        return Err(Refusal::conflict(problem).next(next));
    }
    Ok(())
}

/// Refuses to delete a host that poolctl has switched on for a cluster which is being installed or
/// destroyed: nobody could switch it off any more.
fn refuse_host_in_installation(
    context: &Context,
    store: &Store,
    object: &Object,
) -> Result<(), Refusal> {
    let Object::BareMetalHost(host) = object else { return Ok(()) };
    let Some(name) = host.status.switched_on_for.as_deref() else { return Ok(()) };
    if host.cluster() != Some(name) || host.is_left_alone() {
        return Ok(());
    }
    let by_name = Filter { name: Some(name.to_owned()), whole: true, ..Filter::default() };
    let clusters = store.list::<Cluster>(&by_name)?;
    let Some(cluster) = clusters.first() else { return Ok(()) };
    if cluster.is_installed() && cluster.deleting.is_none() {
        return Ok(());
    }
    let namespace_option = context.namespace_option(&cluster.namespace);
    let activity = if cluster.deleting.is_some() { "destroyed" } else { "installed" };
    let problem = format!(
        "host `{}` is switched on for cluster `{name}`, which is being {activity}",
        host.metadata.name
    );
    Err(Refusal::conflict(problem)
        .because("without the host poolctl could not switch its machine off")
        .next(format!("poolctl delete cluster {name}{namespace_option}")))
}

/// What is lost with a host. Its agent stays in the cluster, if it is one.
fn loss_of_host(store: &Store, host: &BareMetalHost) -> Result<Option<String>, Refusal> {
    if let Some(cluster) = &host.status.may_run_for {
        return Ok(Some(format!(
            "may still be on for cluster `{cluster}`, which it has left: its controller has not \
             reported it off"
        )));
    }
    let Some(cluster) = host.cluster() else { return Ok(None) };
    let agents = store.list_agents_of_host(&host.key())?;
    Ok(Some(match agents.iter().find(|agent| agent.bound_cluster().is_some()) {
        Some(agent) => format!(
            "is used by cluster `{cluster}`; agent `{0}` stays in it and poolctl no longer \
             controls its machine, unless `poolctl agent unbind {0}` is run first",
            agent.metadata.name
        ),
        None => format!("is used by cluster `{cluster}`, which loses it"),
    }))
}

/// What is lost with an agent that is bound to a cluster.
fn loss_of_agent(cluster: &str) -> String {
    format!("is bound to cluster `{cluster}`, which loses it")
}

/// Asks for each bound agent that is deleted with an InfraEnv. Not for agents that are being
/// installed: they are refused anyway.
fn confirm_agents(context: &Context, store: &Store, object: &Object) -> Result<(), Refusal> {
    let Object::InfraEnv(infra_env) = object else { return Ok(()) };
    let infra_env_key = infra_env.key();
    for agent in store.list_agents_of_infra_env(&infra_env_key)? {
        if let Some(cluster) = &agent.bound
            && !agent.state.is_installing()
        {
            let loss = loss_of_agent(cluster);
            let command = format!("poolctl delete infraenv {} --force", infra_env_key.name);
            context.confirm(&format!("agent `{}` {loss}", agent.name), &command)?;
        }
    }
    Ok(())
}

/// What is lost with a cluster that nothing makes again, or that somebody has claimed. None if
/// nobody would miss it.
fn loss_of_cluster(cluster: &Cluster) -> Option<String> {
    if let Some(claim) = &cluster.claim {
        return Some(format!("is in use by claim `{claim}` and would be destroyed"));
    }
    // A cluster of a pool is made again. One without a pool was made by hand.
    if cluster.pool.is_some() || !cluster.is_installed() || cluster.deleting.is_some() {
        return None;
    }
    let loss = if cluster.preserve {
        "is installed; it would keep running, and its credentials would be forgotten"
    } else {
        "is installed and would be destroyed"
    };
    Some(loss.to_owned())
}

/// Marks objects for deletion in one transaction; `prepare` is called before for each InfraEnv.
/// Returns the outcome for each object, in their order, and that of the pass.
pub fn request_deletion(
    context: &Context,
    store: &Store,
    objects: &[Object],
    prepare: impl Fn(&mut State, &Key, &Tick) -> Result<(), Refusal>,
) -> Result<(Vec<DeleteOutcome>, PassOutcome), Refusal> {
    store.allow_reserve();
    let edited: Vec<EditedObject> = objects.iter().map(EditedObject::from_object).collect();
    let scope = scope::scope_of(store, &edited)?;
    let needs = scope::needs_of(&edited);
    context.door(store).change(&scope, &needs, |state, tick| {
        for EditedObject { key, .. } in &edited {
            if let Some(claim) = state.claims.by_key(key) {
                context.check_claim_permission(claim)?;
            }
        }
        for EditedObject { kind, key, .. } in &edited {
            if *kind == Kind::IpClaim
                && let Some(lease) = state.ip_leases.by_key(key)
            {
                context.check_ip_claim_permission(lease)?;
            }
            if *kind == Kind::InfraEnv {
                prepare(state, key, tick)?;
            }
        }
        let mut outcomes = Vec::new();
        for EditedObject { kind, key, .. } in &edited {
            outcomes.push(edits::delete_object(state, *kind, key, tick));
        }
        Ok(outcomes)
    })
}

/// Marks objects for deletion and reports each with the result that `describe` gives.
pub fn delete_objects(
    context: &Context,
    store: &Store,
    objects: &[Object],
    describe: impl Fn(&State, &Object) -> &'static str,
) -> anyhow::Result<()> {
    let (outcomes, passed) = request_deletion(context, store, objects, refuse_with_agents)?;
    report_deleted(context, objects, outcomes, &passed, describe)
}

/// The agents of an InfraEnv, among those that are loaded.
fn agents_of_infra_env(state: &State, infra_env_key: &Key) -> Vec<AgentId> {
    let mut agent_ids = Vec::new();
    for (agent_id, agent) in state.agents.iter() {
        if agent.infra_env_key().as_ref() == Some(infra_env_key) {
            agent_ids.push(agent_id);
        }
    }
    agent_ids
}

/// Refuses to delete an InfraEnv that has agents.
pub fn refuse_with_agents(state: &mut State, infra_env_key: &Key, _: &Tick) -> Result<(), Refusal> {
    let mut names = Vec::new();
    for agent_id in agents_of_infra_env(state, infra_env_key) {
        names.extend(state.agents.get(agent_id).map(|agent| agent.metadata.name.clone()));
    }
    if names.is_empty() {
        return Ok(());
    }
    let name = &infra_env_key.name;
    let count = names.len();
    let problem =
        format!("failed to deregister infraEnv {name}, {count} hosts are still associated");
    if count > 5 {
        names.truncate(5);
        names.push(format!("and {} more", count - 5));
    }
    Err(Refusal::conflict(problem)
        .because(names.join(", "))
        .next(format!("poolctl delete infraenv {name} --force")))
}

/// Records on an InfraEnv why it was not deleted, in a transaction of its own after the refusal.
fn record_refusal(
    context: &Context,
    store: &Store,
    infra_env_key: Key,
    refusal: &Refusal,
) -> Result<(), Refusal> {
    let door = Door { store, world: &context.world, plans_changes: false };
    door.change(&Scope::Pools(Vec::new()), &[], |state, tick| {
        edits::record_warning(
            state,
            tick,
            Kind::InfraEnv,
            infra_env_key,
            EventReason::InfraEnvDeregisterFailed,
            &refusal.what,
        );
        Ok(())
    })?;
    Ok(())
}

/// Marks the agents of an InfraEnv for deletion, which go before it; refuses if one is being
/// installed.
fn delete_agents(state: &mut State, infra_env_key: &Key, tick: &Tick) -> Result<(), Refusal> {
    for agent_id in agents_of_infra_env(state, infra_env_key) {
        if let Some(agent) = state.agents.get(agent_id)
            && agent.state().is_installing()
        {
            let name = &agent.metadata.name;
            let problem = format!("agent `{name}` is in the middle of an installation");
            // A host that joins a running cluster may leave it. Without one of its first hosts a
            // cluster cannot be installed.
            let next = if agent.is_day2() {
                format!("poolctl agent unbind {name}")
            } else {
                let cluster = agent.bound_cluster().map(|key| key.name).unwrap_or_default();
                format!("poolctl delete cluster {cluster}")
            };
            return Err(Refusal::conflict(problem).next(next));
        }
        state.agents.update(agent_id, |agent| {
            agent.metadata.deletion_timestamp.get_or_insert(tick.now);
        });
    }
    Ok(())
}

/// Reports each deleted object with the result that `describe` gives, and then what the pass could
/// not do. `outcomes` are in the order of `objects`. An object that somebody else deleted meanwhile
/// is refused as not found.
fn report_deleted(
    context: &Context,
    objects: &[Object],
    outcomes: Vec<DeleteOutcome>,
    passed: &PassOutcome,
    describe: impl Fn(&State, &Object) -> &'static str,
) -> anyhow::Result<()> {
    for (object, outcome) in objects.iter().zip(outcomes) {
        let kind = object.kind();
        let key = object.key();
        if outcome == DeleteOutcome::NotFound {
            let problem = format!("there is no {} `{}` any more", kind.word(), key.name);
            bail!(Refusal::not_found(problem));
        }
        context.report_change(kind, &key, describe(&passed.state, object))?;
    }
    Ok(context.report_pass(passed)?)
}
