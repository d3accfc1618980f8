//! Why a host of a discovery image is as it is.

use crate::model::agent::{Agent, HostState};
use crate::plan::agents::conditions::SPEC_SYNCED;
use crate::rules::validations::{GATES_UNBOUND, holds_up};

use super::{Around, Chain};

impl Around<'_> {
    pub(super) fn agent(&self, agent: &Agent) -> Chain {
        let (name, at) = (&agent.metadata.name, &self.at);
        let state = agent.state();
        let first = format!("agent {name} is {state}: {}", agent.status.debug_info.state_info);
        let image = agent.infra_env().map(|key| key.name).unwrap_or_default();
        let next = match state {
            HostState::UnbindingPendingUserAction
            | HostState::DisconnectedUnbound
            | HostState::Disconnected => {
                format!("boot it from its discovery image: poolctl infraenv iso {image}{at}")
            }
            _ if !agent.spec.approved => format!("poolctl agent approve {name}{at}"),
            HostState::KnownUnbound => format!("poolctl agent bind {name} --cluster NAME{at}"),
            HostState::PendingForInput => match agent.bound_to() {
                Some(cluster) => format!("poolctl edit cluster {}{at}", cluster.name),
                None => format!("poolctl describe agent {name}{at}"),
            },
            _ => format!("poolctl describe agent {name}{at}"),
        };
        let mut chain = Chain::of(first, next);
        if agent.is_duplicate() {
            let other = &agent.status.duplicate_of;
            chain = chain.after(format!("it is the same machine as {other}, and never picked"));
        }
        if !agent.spec.approved {
            chain = chain.after("it is not approved: no cluster is installed on it".into());
        }
        let synced = agent.condition(SPEC_SYNCED).filter(|one| one.status == "False");
        if let Some(one) = synced {
            chain = chain.after(one.message.clone());
        }
        let bound = agent.bound_to().is_some();
        let counts = |id: &str| bound || GATES_UNBOUND.contains(&id);
        let failing = agent
            .validations()
            .filter(|one| counts(&one.id) && one.status == "failure" && holds_up(one));
        for one in failing {
            chain = chain.after(format!("{}: {}", one.id, one.message));
        }
        chain
    }
}
