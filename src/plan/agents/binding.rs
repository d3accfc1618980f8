//! Which cluster a host belongs to: what its spec wishes for is followed when the host is ready
//! for it, and otherwise said why not.

use crate::model::agent::{
    Agent, ClusterReference, DAY1, DAY2, DeprovisionInfo, HostState, Role, SKIP_CLEANUP,
};
use crate::model::cluster::Cluster;
use crate::model::condition::{Condition, set_unprobed};
use crate::model::event::Event;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::plan::vips;
use crate::rules;
use crate::rules::validations::eligible_disks;

use super::clusters::{self, Stage, architecture, plain, stage, word};
use super::conditions::SPEC_SYNCED;
use super::refresh::failing;
use super::{PASS, about, enter, joining, note, returning};

/// The machine config pool of those that join.
const DAY2_POOL: &str = "worker";
const BINDING: &str = "Host is waiting to be bound to the cluster";
/// Which clusters take hosts.
pub const OPEN: &str = "Host can register only in one of the following states: [insufficient ready pending-for-input adding-hosts]";

const MISSING: &str = "Missing InfraEnv: the one that its label names is not there";

/// Why a wish is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Time may help; else the wish itself is wrong.
    pub waits: bool,
    pub why: String,
}

fn wrong(why: impl Into<String>) -> Blocked {
    Blocked { waits: false, why: why.into() }
}

fn waits(why: impl Into<String>) -> Blocked {
    Blocked { waits: true, why: why.into() }
}

/// Makes it so, or says why not.
pub fn follow(state: &mut State, at: usize, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    if agent.metadata.deletion_timestamp.is_some() {
        return goes(state, at, tick);
    }
    let done = match (agent.bound_to(), agent.wanted()) {
        (None, None) => match agent.infra_env().and_then(|key| state.infra_envs.by_key(&key)) {
            Some(_) => Ok(()),
            None => Err(waits(MISSING)),
        },
        (None, Some(cluster)) => bind(state, at, &cluster, tick),
        (Some(_), None) => unbind(state, at, tick),
        (Some(bound), Some(wanted)) if bound == wanted => Ok(()),
        (Some(_), Some(wanted)) => follow_to(state, at, &wanted, tick),
    };
    let Some(agent) = state.agents.get(at) else { return };
    let done = done.and_then(|()| match unusable(agent) {
        Some(why) => Err(wrong(why)),
        None => Ok(()),
    });
    let new = match done {
        Ok(()) => {
            let text = "The Spec has been successfully applied";
            Condition::new(SPEC_SYNCED, "True", "SyncOK", text)
        }
        Err(blocked) => {
            let (reason, kind) = if blocked.waits {
                ("BackendError", "a backend")
            } else {
                ("InputError", "an input")
            };
            let text = format!("The Spec could not be synced due to {kind} error: {}", blocked.why);
            Condition::new(SPEC_SYNCED, "False", reason, text)
        }
    };
    state.agents.update(at, |one| set_unprobed(&mut one.status.conditions, new, tick.now));
}

/// What of a host's wishes does not fit what was found in it.
fn unusable(agent: &Agent) -> Option<String> {
    let spec = &agent.spec;
    if !agent.state().takes_wishes() {
        return None;
    }
    if let Some(why) = rules::agents::input(agent) {
        return Some(why);
    }
    if !spec.hostname.is_empty()
        && let Some(why) = rules::validations::hostname_problem(&spec.hostname)
    {
        return Some(why);
    }
    if let Some(why) = arbiter(agent) {
        return Some(why);
    }
    let disk = [&spec.installation_disk_id, &spec.installation_disk_path];
    let asked = disk.into_iter().find(|one| !one.is_empty())?;
    let found = agent.status.inventory.as_ref()?;
    let bound = agent.bound_to().map(|_| (agent.role(), false));
    let known = eligible_disks(found, bound).into_iter().any(|one| one.is_called(asked));
    (!known).then(|| "Requested installation disk is not part of the host's valid disks".into())
}

/// Nobody needs one.
fn arbiter(agent: &Agent) -> Option<String> {
    let name = agent.hostname();
    (agent.spec.role == Role::Arbiter)
        .then(|| format!("Host {name} is assigned the arbiter role: no cluster here has arbiters"))
}

/// Why a host that is ready would not be taken; in assisted-service's order.
pub fn blocked(state: &State, agent: &Agent, wanted: &Key) -> Option<Blocked> {
    let name = agent.hostname();
    let Some(cluster) = clusters::at(state, wanted) else {
        let Key { namespace, name } = wanted;
        return Some(waits(format!(
            "failed to get clusterDeployment with name {name} in namespace {namespace}: there is \
             none of that name"
        )));
    };
    let Some(environment) = agent.infra_env().and_then(|key| state.infra_envs.by_key(&key)) else {
        return Some(waits(MISSING));
    };
    if environment.cluster().is_some_and(|key| key != *wanted) {
        let of = environment.cluster().map(|key| key.name).unwrap_or_default();
        let its = &environment.metadata.name;
        return Some(wrong(format!("InfraEnv {its} is bound to Cluster {of}")));
    }
    if let Some(why) = other_architecture(environment, architecture(state, cluster).as_deref()) {
        return Some(wrong(format!("InfraEnv's {why}")));
    }
    if let Some(why) = arbiter(agent) {
        return Some(wrong(why));
    }
    if let Some(why) = kept(state, agent) {
        return Some(waits(format!("Host {name} {why}")));
    }
    if cluster.installed() && agent.spec.role == Role::Master {
        let cluster = &cluster.name;
        return Some(wrong(format!(
            "Host {name} is to be a master, and hosts join cluster {cluster}, which is installed, as workers"
        )));
    }
    let at = stage(state, cluster);
    (!matches!(at, Stage::Open | Stage::Installed))
        .then(|| wrong(format!("{OPEN}; cluster {} is {}", cluster.name, word(at))))
}

/// Why an environment's machines run nothing of a cluster.
pub fn other_architecture(environment: &InfraEnv, cluster: Option<&str>) -> Option<String> {
    let its = environment.architecture();
    let cluster = cluster.filter(|one| *one != "multi" && *one != plain(its))?;
    Some(format!("CPU architecture ({its}) doesn't match the cluster ({cluster})"))
}

/// Why nobody gets a host, whoever it is.
pub fn kept(state: &State, agent: &Agent) -> Option<String> {
    if agent.is_duplicate() {
        return Some(format!("is the same machine as Agent {}", agent.status.duplicate_of));
    }
    let host = agent.bmh().and_then(|key| state.hosts.by_key(&key))?;
    if let Some(why) = host.held() {
        return Some(format!("is held: {why}"));
    }
    if let Some(cluster) = returning::may_run_in(state, agent) {
        return Some(format!("is held: {}", returning::not_seen_off(cluster)));
    }
    // One that was left running, though its Agent is another by now.
    let of = agent.bound_to().map(|key| key.name);
    let other = host.cluster().filter(|cluster| of.as_deref() != Some(*cluster))?;
    Some(format!("is kept by cluster {other}"))
}

/// A host that was picked has the cluster from now on.
pub fn give(state: &mut State, at: usize, cluster: &Key, tick: &Tick) {
    state.agents.update(at, |one| {
        one.spec.cluster_deployment_name = Some(ClusterReference::to(cluster));
    });
    // Picked is what can be bound.
    drop(bind(state, at, cluster, tick));
}

fn bind(state: &mut State, at: usize, wanted: &Key, tick: &Tick) -> Result<(), Blocked> {
    let Some(agent) = state.agents.get(at) else { return Ok(()) };
    if let Some(why) = blocked(state, agent, wanted) {
        return Err(why);
    }
    if agent.state() != HostState::KnownUnbound {
        return Err(waits(not_ready(agent)));
    }
    let day2 = clusters::at(state, wanted).is_some_and(Cluster::installed);
    let found = agent.status.found;
    state.agents.update(at, |one| {
        one.status.bound_to = Some(ClusterReference::to(wanted));
        one.status.deprovision_info = None;
        joins(one, day2);
        let status = &mut one.status;
        (status.progress, status.bootstrap) = Default::default();
        status.images.clear();
        if !found {
            status.inventory = None;
        }
    });
    let name = state.agents.get(at).map(|one| one.hostname().to_owned()).unwrap_or_default();
    enter(state, at, HostState::Binding, BINDING, tick);
    let text = format!("Host {name}: Successfully bound to cluster {}", wanted.name);
    note(state, at, "host_bind_succeeded", false, text, tick);
    if found {
        // Nobody has to come back: what was found of it is known.
        enter(state, at, HostState::Discovering, WAITS, tick);
    }
    Ok(())
}

/// Whether a host is part of an installation, or joins what is installed: as a worker.
pub fn joins(one: &mut Agent, day2: bool) {
    one.status.kind = if day2 { DAY2 } else { DAY1 }.into();
    if day2 {
        one.status.role = Role::Worker;
        if one.spec.machine_config_pool.is_empty() {
            one.spec.machine_config_pool = DAY2_POOL.into();
        }
    }
}

/// What a host does that has said nothing yet.
pub const WAITS: &str = "Waiting for host to send hardware details";

/// A host that is wanted and not free for it: why, and what would help.
pub fn not_ready(agent: &Agent) -> String {
    let (name, state) = (agent.hostname(), agent.state());
    format!("Host {name} is {state}, it is bound once it is known-unbound: {}", why_not(agent))
}

/// What keeps a host from being known-unbound.
pub fn why_not(agent: &Agent) -> String {
    let state = agent.state();
    match state {
        HostState::InsufficientUnbound => failing(agent),
        HostState::DisconnectedUnbound => "it has not been heard of for three minutes".into(),
        HostState::DiscoveringUnbound => "it has not said yet what is in it".into(),
        _ if state.is_returning() => "it has not come back from its last cluster".into(),
        _ => agent.status.debug_info.state_info.clone(),
    }
}

/// Why a host may not leave its cluster.
pub fn refused(state: &State, agent: &Agent) -> Option<String> {
    let name = agent.hostname();
    let Some(bound) = agent.bound_to() else {
        return Some(format!("Host {name} is already unbound"));
    };
    if matches!(agent.state(), HostState::Resetting | HostState::ResettingPendingUserAction) {
        return Some(format!("Cannot unbind Host {name} while it is {}", agent.state()));
    }
    if agent.state().is_installing() && !agent.is_day2() {
        return Some(format!("Cannot unbind Host {name} while it is in the middle of installing."));
    }
    let environment = agent.infra_env().and_then(|key| state.infra_envs.by_key(&key));
    let its = environment.filter(|one| one.cluster().is_some_and(|key| key == bound))?;
    let (its, cluster) = (&its.metadata.name, bound.name);
    Some(format!("Cannot unbind Host {name}. InfraEnv {its} is bound to Cluster {cluster}"))
}

fn unbind(state: &mut State, at: usize, tick: &Tick) -> Result<(), Blocked> {
    let Some(agent) = state.agents.get(at) else { return Ok(()) };
    if let Some(why) = refused(state, agent) {
        return Err(wrong(why));
    }
    leave(state, at, tick);
    Ok(())
}

/// Out of one cluster, and then into another; whoever would not be taken there stays.
fn follow_to(state: &mut State, at: usize, wanted: &Key, tick: &Tick) -> Result<(), Blocked> {
    let Some(agent) = state.agents.get(at) else { return Ok(()) };
    if let Some(why) = refused(state, agent) {
        return Err(wrong(why));
    }
    if let Some(why) = blocked(state, agent, wanted) {
        return Err(why);
    }
    leave(state, at, tick);
    // One that was found is back at once; one that reports comes back by itself.
    Ok(())
}

/// A host is its cluster's no more.
pub fn leave(state: &mut State, at: usize, tick: &Tick) {
    let Some(agent) = state.agents.get(at).cloned() else { return };
    let Some(cluster) = agent.bound_to() else { return };
    let name = agent.hostname().to_owned();
    let text = format!("Host {name}: Successfully unbound from cluster");
    // It is nobody's any more, and so is what happens to it.
    let gone = about(&agent, "host_unbind_succeeded", false, text, PASS, tick);
    state.event(Event { cluster: None, ..gone });
    joining::cancel(state, &agent, tick);
    let used = returning::was_used(state, &agent);
    let info = DeprovisionInfo {
        cluster_name: cluster.name.clone(),
        cluster_namespace: cluster.namespace.clone(),
        node_name: name.clone(),
        message: "Waiting for host to unbind to do spoke cleanup".into(),
    };
    let wanted = agent.wanted().filter(|wanted| *wanted != cluster);
    state.agents.update(at, |one| {
        one.spec.cluster_deployment_name = wanted.as_ref().map(ClusterReference::to);
        if agent.is_day2() && one.spec.machine_config_pool == DAY2_POOL {
            one.spec.machine_config_pool.clear();
        }
        reset(one);
        one.status.deprovision_info = Some(info).filter(|_| used);
    });
    // Who is still wanted there keeps its address until it comes.
    if !used && agent.wanted().as_ref() != Some(&cluster) {
        vips::release_host(state, &agent, &cluster.name);
    }
    returning::back(state, at, &agent, used, tick);
}

/// What a host was in its cluster is forgotten; what it is by itself stays.
pub fn reset(one: &mut Agent) {
    let found = one.status.found;
    let status = &mut one.status;
    status.bound_to = None;
    status.node_name.clear();
    status.kind = DAY1.into();
    (status.progress, status.bootstrap, status.role) = Default::default();
    (status.join_failures, status.join_again_at) = Default::default();
    status.installation_disk_id.clear();
    status.images.clear();
    status.peers.clear();
    if !found {
        status.inventory = None;
    }
}

/// Its deletion was asked for: not while it is installed, nor while another program holds it.
fn goes(state: &mut State, at: usize, tick: &Tick) {
    let Some(agent) = state.agents.get(at) else { return };
    if agent.state().is_installing() || !agent.metadata.finalizers.is_empty() {
        return;
    }
    if let Some(why) = left_behind(state, agent) {
        let new = Condition::new("Cleanup", "False", "CleanupFailed", why);
        state.agents.update(at, |one| set_unprobed(&mut one.status.conditions, new, tick.now));
        return;
    }
    let agent = agent.clone();
    if agent.state() == HostState::DisabledUnbound || agent.bound_to().is_some() {
        returning::let_go(state, &agent, None, tick);
    }
    if let Some(cluster) = agent.bound_to() {
        vips::release_host(state, &agent, &cluster.name);
    }
    let text = format!("Host {}: deregistered", agent.hostname());
    note(state, at, "host_deregistered", false, text, tick);
    state.agents.remove(at);
}

/// What a node that is to be deleted would leave behind in its cluster.
fn left_behind(state: &State, agent: &Agent) -> Option<String> {
    let node = matches!(agent.state(), HostState::Installed | HostState::AddedToExistingCluster);
    let cluster = agent.bound_to().filter(|_| node)?;
    let lives = clusters::at(state, &cluster).is_some_and(|one| one.deleting.is_none());
    if !lives || agent.metadata.annotated_at_all(SKIP_CLEANUP) {
        return None;
    }
    let (name, node, of) = (&agent.metadata.name, agent.hostname(), &cluster.name);
    Some(format!(
        "Host {node} is a node of cluster {of} still: oc delete node {node}, then poolctl annotate \
         agent {name} {SKIP_CLEANUP}=done"
    ))
}
