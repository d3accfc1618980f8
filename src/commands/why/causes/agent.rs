//! Why a host of a discovery image is as it is.

use crate::model::agent::{Agent, HostState};
use crate::model::cluster::Cluster;
use crate::model::host::{BareMetalHost, HOLD};
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::plan::agents::clusters;
use crate::plan::agents::conditions::SPEC_SYNCED;
use crate::rules::validations::{GATES_UNBOUND, holds_up};

use crate::commands::why::causes::{Around, Chain, images};

impl Around<'_> {
    pub(super) fn agent(&self, agent: &Agent) -> Result<Chain, Refusal> {
        let (name, state) = (&agent.metadata.name, agent.state());
        let first = format!("agent {name} is {state}: {}", agent.status.debug_info.state_info);
        let mut causes = self.in_its_way(agent);
        causes.extend(self.tried_again(agent));
        Ok(match self.its_cluster(agent) {
            // It is as it should be, and its cluster is not there yet.
            Some(cluster) if causes.is_empty() && waits_for_cluster(agent) => {
                self.cluster(cluster)?.behind(first)
            }
            _ => causes.into_iter().fold(Chain::of(first, self.helps(agent)), Chain::after),
        })
    }

    /// When a host that failed to join its cluster does so again.
    fn tried_again(&self, agent: &Agent) -> Option<String> {
        if !has_not_joined(agent) {
            return None;
        }
        let many = agent.status.join_failures;
        let times = if many == 1 { "once".to_owned() } else { format!("{many} times") };
        Some(match agent.status.join_again_at {
            Some(again) if again > self.now => {
                let left = again.since(self.now).short();
                format!("it failed to join {times}, and is tried again in {left}")
            }
            Some(_) => format!("it failed to join {times}, and the next pass tries it again"),
            None => "it is not tried again by itself: unbind it, and bind it again".into(),
        })
    }

    fn its_cluster(&self, agent: &Agent) -> Option<&Cluster> {
        clusters::at(&self.state, &agent.bound_to()?)
    }

    /// What keeps a host from being bound, or installed, first what else would not help without.
    fn in_its_way(&self, agent: &Agent) -> Vec<String> {
        let mut all = Vec::new();
        if agent.metadata.deletion_timestamp.is_some() {
            all.push("it is being deleted".to_owned());
        }
        if agent.is_duplicate() {
            let other = &agent.status.duplicate_of;
            all.push(format!("it is the same machine as {other}, and never picked"));
        }
        let host = agent.bmh().and_then(|key| self.state.hosts.by_key(&key));
        if let Some((host, why)) = host.and_then(|one| Some((&one.metadata.name, one.held()?))) {
            all.push(format!("host {host} is held, no cluster takes it: {why}"));
        }
        if !agent.spec.approved {
            all.push("it is not approved: no cluster is installed on it".into());
        }
        let has = agent.bound_to();
        let wanted = agent.wanted().filter(|wanted| has.as_ref() != Some(wanted));
        all.extend(wanted.map(|key| format!("it is to be bound to cluster {}", key.name)));
        let synced = agent.condition(SPEC_SYNCED).filter(|one| one.status == "False");
        all.extend(synced.map(|one| one.message.clone()));
        let counts = |id: &str| has.is_some() || GATES_UNBOUND.contains(&id);
        let failing = agent
            .validations()
            .filter(|one| counts(&one.id) && one.status == "failure" && holds_up(one));
        all.extend(failing.map(|one| format!("{}: {}", one.id, one.message)));
        // It has come back; its node has not gone.
        let left = agent.status.deprovision_info.as_ref().filter(|_| agent.state().is_free());
        all.extend(left.map(|left| left.message.clone()));
        all
    }

    fn helps(&self, agent: &Agent) -> String {
        let (name, at) = (&agent.metadata.name, &self.at);
        if agent.is_duplicate() && agent.bound_to().is_none() {
            return duplicated(agent, at);
        }
        let wrong = agent.condition(SPEC_SYNCED).filter(|one| one.reason == "InputError");
        let held = agent.bmh().filter(|key| {
            self.state.hosts.by_key(key).is_some_and(|host| host.metadata.annotated_at_all(HOLD))
        });
        let held = held.map(|key| key.name);
        match (agent.state(), agent.bound_to(), agent.wanted()) {
            (HostState::Error, Some(cluster), _) if has_not_joined(agent) => {
                match agent.status.join_again_at {
                    Some(_) => format!("poolctl job logs {}", cluster.name),
                    None => format!("poolctl agent unbind {name}{at}"),
                }
            }
            (HostState::DisconnectedUnbound | HostState::Disconnected, _, _)
                if agent.status.found =>
            {
                let host = agent.bmh().map(|key| key.name).unwrap_or_default();
                format!("poolctl why host/{host}{at}")
            }
            (
                HostState::UnbindingPendingUserAction
                | HostState::DisconnectedUnbound
                | HostState::Disconnected,
                _,
                _,
            ) => self.boots(agent),
            (HostState::DisabledUnbound, _, _) => format!("poolctl delete agent {name}{at}"),
            (HostState::InstallingPendingUserAction, _, _) => {
                format!("boot it as its state says, and look again: poolctl get agent {name}{at}")
            }
            (HostState::Insufficient | HostState::InsufficientUnbound, _, _) => {
                format!("poolctl describe agent {name}{at}")
            }
            (HostState::KnownUnbound, _, _) if self.is_wiped_first(agent) => {
                let host = agent.bmh().map(|key| key.name).unwrap_or_default();
                format!("poolctl why host/{host}{at}")
            }
            _ if !agent.spec.approved => format!("poolctl agent approve {name}{at}"),
            _ if wrong.is_some() => format!("poolctl edit agent {name}{at}"),
            (HostState::KnownUnbound, _, _) if held.is_some() => {
                format!("poolctl host unhold {}{at}", held.unwrap_or_default())
            }
            (HostState::KnownUnbound, _, None) => {
                format!("poolctl agent bind {name} --cluster NAME{at}")
            }
            (HostState::KnownUnbound, None, Some(wanted)) => {
                format!("poolctl why cluster/{}{}", wanted.name, self.at_cluster(agent, &wanted))
            }
            (HostState::PendingForInput, Some(cluster), _) => {
                format!("poolctl edit cluster {}{}", cluster.name, self.at_cluster(agent, &cluster))
            }
            (HostState::Binding | HostState::Unbinding, _, _) => {
                format!("poolctl events agent/{name}{at}")
            }
            (_, Some(cluster), _) => {
                format!("poolctl why cluster/{} -n {}", cluster.name, cluster.namespace)
            }
            _ => format!("poolctl describe agent {name}{at}"),
        }
    }

    /// Where a cluster is, as seen from a host that may be of another namespace.
    fn at_cluster(&self, agent: &Agent, cluster: &Key) -> String {
        if cluster.namespace == agent.metadata.namespace {
            self.at.clone()
        } else {
            format!(" -n {}", cluster.namespace)
        }
    }

    /// Whether its machine still has what its last cluster left there.
    fn is_wiped_first(&self, agent: &Agent) -> bool {
        let host = agent.bmh().and_then(|key| self.state.hosts.by_key(&key));
        host.is_some_and(BareMetalHost::is_to_be_wiped)
    }

    /// From where a host that has gone is booted.
    fn boots(&self, agent: &Agent) -> String {
        let key = agent.infra_env();
        let image = key.as_ref().and_then(|key| self.state.infra_envs.by_key(key));
        if let Some(url) = image.and_then(InfraEnv::image) {
            return format!("boot it from its discovery image, {url}");
        }
        let name = key.map(|key| key.name).unwrap_or_default();
        format!("boot it from its discovery image: {}", images::command(&name, &self.at))
    }
}

/// What shows the Agent that the same machine is.
fn duplicated(agent: &Agent, at: &str) -> String {
    match agent.status.duplicate_of.split_once('/') {
        Some((namespace, name)) => format!("poolctl describe agent {name} -n {namespace}"),
        None => format!("poolctl describe agent {}{at}", agent.status.duplicate_of),
    }
}

/// It is to join a cluster that is installed, and that failed.
fn has_not_joined(agent: &Agent) -> bool {
    agent.is_day2() && agent.state() == HostState::Error
}

/// Whether a host has done its part. What joins an installed cluster does so by itself.
fn waits_for_cluster(agent: &Agent) -> bool {
    let state = agent.state();
    let booted = state != HostState::InstallingPendingUserAction;
    let installs = state == HostState::Error || (state.is_installing() && booted);
    state == HostState::Known || (installs && !agent.is_day2())
}
