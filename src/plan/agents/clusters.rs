//! What a cluster is to its hosts: whether it takes any, and how many of which role. It binds and
//! releases none.

use serde_json::Value;

use crate::model::agent::needs::Needs;
use crate::model::agent::{Agent, HostState, Role};
use crate::model::cluster::{
    Cluster, INSUFFICIENT_AGENTS, Phase, UNAPPROVED_AGENTS, UNSYNCED_AGENTS,
};
use crate::model::condition::Shortage;
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::job::Verb;
use crate::model::meta::Key;
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::render::install_config;
use crate::rules::validations::ignored;

use super::{conditions, note, roles};

/// Which clusters take hosts, in assisted-service's words.
pub const ONLY_OPEN_CLUSTERS: &str = "Host can register only in one of the following states: [insufficient ready pending-for-input adding-hosts]";
/// What no cluster of this build has.
const ARBITERS: u64 = 0;

/// Where a cluster is, as its hosts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before its installation.
    Open,
    Installing,
    Failed,
    /// Hosts may join it.
    Installed,
    /// It is being deleted.
    Ending,
}

pub fn stage(state: &State, cluster: &Cluster) -> Stage {
    let live = state.live_job(&cluster.name).map(|(_, job)| job.verb);
    match cluster.phase() {
        Phase::Deprovisioning => Stage::Ending,
        Phase::Installed => Stage::Installed,
        _ if live == Some(Verb::Provision) => Stage::Installing,
        Phase::Retrying | Phase::Broken => Stage::Failed,
        Phase::Installing if cluster.started_at.is_some() => Stage::Failed,
        Phase::Installing => Stage::Open,
    }
}

/// The cluster of a reference, in its own namespace or that of its pool.
pub fn at<'a>(state: &'a State, key: &Key) -> Option<&'a Cluster> {
    let cluster = state.clusters.get(state.cluster(&key.name)?)?;
    let spaces = [Some(&cluster.namespace), cluster.pool.as_ref().map(|pool| &pool.namespace)];
    spaces.into_iter().flatten().any(|one| *one == key.namespace).then_some(cluster)
}

/// What assisted-service calls it.
pub fn word(stage: Stage) -> &'static str {
    match stage {
        Stage::Open => "insufficient",
        Stage::Installing => "installing",
        Stage::Failed => "error",
        Stage::Installed => "adding-hosts",
        Stage::Ending => "cancelled",
    }
}

/// What its install-config asks of hosts. Needs its document.
pub fn needs(state: &State, cluster: &Cluster) -> Needs {
    let template = cluster.install_config().and_then(|key| state.templates.get(&key));
    let read = template.and_then(|one| install_config::document(one).ok());
    let mut needs = read.map(of_document).unwrap_or_default();
    needs.day2 = cluster.installed();
    needs.version = version(state, cluster);
    let body = cluster.body.as_ref();
    if needs.platform.is_empty() {
        needs.platform = body.map(|one| one.spec.platform.name().to_owned()).unwrap_or_default();
    }
    needs.user_managed |= needs.platform == "none";
    needs.ignored = body.and_then(|one| ignored(&one.metadata.annotations));
    needs
}

/// Major and minor, by the tag of its release image.
fn version(state: &State, cluster: &Cluster) -> Option<(u64, u64)> {
    let provisioning = cluster.body.as_ref()?.spec.provisioning.as_ref()?;
    let name = &provisioning.image_set_ref.as_ref()?.name;
    let image = &state.image_sets.by_key(&Key::new("", &**name))?.spec.release_image;
    let (_, tag) = image.rsplit_once(':')?;
    let mut parts = tag.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What an install-config asks of hosts.
pub fn of_document(document: &Value) -> Needs {
    // Without a number there are three; what is no number is nothing.
    let replicas = |pool: &Value| match &pool["replicas"] {
        Value::Null => Some(3),
        number => number.as_u64(),
    };
    let compute = document["compute"].as_array();
    let platform = document["platform"].as_object().and_then(|all| all.keys().next().cloned());
    let platform = platform.unwrap_or_default();
    let its = &document["platform"][&platform];
    let there = |field: &str| {
        let value = &its[field];
        value.as_array().is_some_and(|all| !all.is_empty())
            || value.as_str().is_some_and(|text| !text.is_empty())
    };
    let networks = document["networking"]["machineNetwork"].as_array().into_iter().flatten();
    Needs {
        masters: replicas(&document["controlPlane"]).filter(|many| *many > 0),
        workers: compute.map(|all| all.iter().filter_map(replicas).sum()),
        machine_networks: networks.filter_map(|one| one["cidr"].as_str()?.parse().ok()).collect(),
        has_vips: there("apiVIPs") || there("apiVIP"),
        user_managed: platform == "none",
        platform,
        ..Needs::default()
    }
}

/// The processors that its install-config is for.
pub fn architecture(state: &State, cluster: &Cluster) -> Option<String> {
    let template = cluster.install_config().and_then(|key| state.templates.get(&key))?;
    architecture_of(install_config::document(template).ok()?)
}

pub fn architecture_of(document: &Value) -> Option<String> {
    document["controlPlane"]["architecture"].as_str().map(plain)
}

/// One word for each kind of processor.
pub fn plain(architecture: &str) -> String {
    match architecture {
        "amd64" => "x86_64".into(),
        "aarch64" => "arm64".into(),
        other => other.into(),
    }
}

/// The hosts of a cluster, as places.
pub fn hosts_of(state: &State, cluster: &Cluster) -> Vec<AgentId> {
    let its = |one: &Agent| one.bound_to().is_some_and(|key| key.name == cluster.name);
    state.agents.iter().filter(|(_, one)| its(one)).map(|(at, _)| at).collect()
}

/// Which role each host has in a cluster that is not installed yet.
pub fn roles(state: &mut State, tick: &Tick) {
    let open: Vec<(Vec<AgentId>, Needs)> = state
        .clusters
        .rows()
        .map(|one| (hosts_of(state, one), one))
        .filter(|(hosts, one)| {
            let before = matches!(stage(state, one), Stage::Open | Stage::Installed);
            !hosts.is_empty() && before
        })
        .map(|(hosts, one)| (hosts, needs(state, one)))
        .collect();
    for (hosts, needs) in open {
        let all: Vec<&Agent> = hosts.iter().filter_map(|at| state.agents.get(*at)).collect();
        let found = roles::assign(&all, &needs);
        let masters = all.iter().zip(&found).filter(|(_, role)| **role == Role::Master);
        let first =
            masters.map(|(one, _)| *one).min_by_key(|one| (one.hostname(), &one.metadata.name));
        let first = first.map(Agent::key);
        for (at, role) in hosts.into_iter().zip(found) {
            let Some(one) = state.agents.get(at) else { continue };
            // What an installed host is it stays.
            if needs.day2 && one.state().is_over() {
                continue;
            }
            // The masters meet at the first of them, which installs the others.
            let bootstrap = !needs.day2 && first.as_ref() == Some(&one.key());
            if one.status.role == role {
                state.agents.update(at, |one| one.status.bootstrap = bootstrap);
                continue;
            }
            let text = format!("Host {}: calculated role is {}", one.hostname(), role.name());
            state.agents.update(at, |one| {
                (one.status.role, one.status.bootstrap) = (role, bootstrap);
            });
            note(state, at, EventReason::HostRoleUpdated, false, text, tick);
        }
    }
}

/// What a cluster's hosts lack for its installation to begin.
pub fn lacks(state: &State, cluster: &Cluster) -> Option<Shortage> {
    let hosts: Vec<&Agent> =
        hosts_of(state, cluster).into_iter().filter_map(|at| state.agents.get(at)).collect();
    let needs = needs(state, cluster);
    let wanted = state.agents.rows().filter(|one| one.bound_to().is_none());
    let coming = wanted.filter(|one| one.wanted().is_some_and(|key| key.name == cluster.name));
    let (masters, workers) = match (needs.masters, needs.workers) {
        (None, _)
            if cluster.install_config().is_none()
                && hosts.is_empty()
                && coming.count() == 0
                && cluster.driver == Driver::Fake =>
        {
            // Simulated without a word about hosts.
            return None;
        }
        (None, _) => {
            let why = match cluster.install_config() {
                None => "spec.provisioning.installConfigSecretRef is missing".to_owned(),
                Some(key) => format!("Secret {} has none that can be read", key.name),
            };
            let text =
                format!("The cluster has no install-config to say how many hosts it needs: {why}");
            return Some(Shortage::new(INSUFFICIENT_AGENTS, text));
        }
        (Some(masters), workers) => (masters, workers.unwrap_or(0)),
    };
    let known = |one: &&&Agent| is_ready(one);
    let count =
        |role: Role| hosts.iter().filter(known).filter(|one| one.role() == role).count() as u64;
    let (have_masters, have_workers) = (count(Role::Master), count(Role::Worker));
    let all = hosts.len() as u64;
    if (have_masters, have_workers, all) != (masters, workers, masters + workers) {
        let text = format!(
            "The cluster currently requires exactly {masters} master agents, {ARBITERS} arbiter \
             agents and {workers} worker agents, but currently registered {have_masters} master \
             agents, {ARBITERS} arbiter agents and {have_workers} worker agents"
        );
        return Some(Shortage::new(INSUFFICIENT_AGENTS, text));
    }
    let unsynced = hosts.iter().filter(|one| {
        one.condition(conditions::SPEC_SYNCED).is_some_and(|found| found.status == "False")
    });
    let unsynced = unsynced.count();
    if unsynced > 0 {
        let text = format!("The cluster currently has {unsynced} agents with spec error");
        return Some(Shortage::new(UNSYNCED_AGENTS, text));
    }
    let unapproved = hosts.iter().filter(|one| !one.spec.approved).count();
    (unapproved > 0).then(|| {
        let text = format!("The installation is pending on the approval of {unapproved} agents");
        Shortage::new(UNAPPROVED_AGENTS, text)
    })
}

/// Checked and good; one whose installation failed is tried again as it is.
fn is_ready(one: &Agent) -> bool {
    !one.is_duplicate()
        && matches!(
            one.state(),
            HostState::Known
                | HostState::Error
                | HostState::Installing
                | HostState::InstallingInProgress
                | HostState::Installed
        )
}
