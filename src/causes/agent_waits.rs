//! Explains what Agents wait for that a person can do: those that wait for the same together, with
//! what to type next.

use std::collections::BTreeMap;

use super::chain::Chain;
use super::infra_env::command_to_make_image;
use crate::model::agent::HostState;
use crate::model::agent::facts::AgentFacts;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;

/// The most agents that a sentence names.
const MOST_NAMED: usize = 3;

/// What an agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    Approval,
    /// Its machine is to be booted from the discovery image.
    DiscoveryBoot,
    /// Its machine is to be booted in the middle of the installation.
    InstallationBoot,
    /// It is bound, and its machine reports no more.
    Report,
    /// Its machine lacks hardware that is required.
    Hardware,
    /// The spec of its cluster lacks something.
    ClusterSpec,
    /// Somebody must look why the installation failed, or try again.
    Repair,
    /// It is retired and can be deleted.
    Deletion,
    /// Another agent is the same machine.
    Duplicate,
}

/// What Agents have in common that wait for the same: what they wait for, their namespace, and the
/// InfraEnv whose image boots them or the Agent that is the same machine.
type Group = (Wait, String, Option<Key>);

/// Agents that wait for a person, by what they wait for.
#[derive(Default)]
pub struct WaitingAgents {
    names_by_group: BTreeMap<Group, Vec<String>>,
}

/// Agents that wait for the same.
pub struct AgentGroup {
    wait: Wait,
    pub namespace: String,
    subject: Option<Key>,
    names: Vec<String>,
}

impl WaitingAgents {
    /// Adds an agent to all that it waits for.
    pub fn add(&mut self, agent: &AgentFacts) {
        if agent.deleting.is_some() {
            return;
        }
        for wait in waits_of(agent) {
            let subject = match wait {
                Wait::DiscoveryBoot => agent.infra_env_key(),
                Wait::Duplicate => agent.duplicate_of.as_ref().map(|name| Key::new("", &**name)),
                _ => None,
            };
            let group = (wait, agent.namespace.clone(), subject);
            self.names_by_group.entry(group).or_default().push(agent.name.clone());
        }
    }

    /// The groups, what is to be done first before the rest.
    pub fn into_groups(self) -> impl Iterator<Item = AgentGroup> {
        self.names_by_group.into_iter().map(|((wait, namespace, subject), names)| AgentGroup {
            wait,
            namespace,
            subject,
            names,
        })
    }
}

impl AgentGroup {
    /// The InfraEnv whose image helps the Agents, if an image does.
    pub fn infra_env_key(&self) -> Option<&Key> {
        if self.wait == Wait::DiscoveryBoot { self.subject.as_ref() } else { None }
    }

    /// What the Agents wait for: `2 agents (node-1, node-2) are not approved`. `infra_env` is that
    /// whose image helps them, if it exists.
    pub fn explain(&self, infra_env: Option<&InfraEnv>, namespace_option: &str) -> Chain {
        let names = &self.names;
        let first_name = names.first().map(String::as_str).unwrap_or_default();
        let mut description = describe_wait(self.wait).to_owned();
        let mut next = format!("poolctl why agent/{first_name}{namespace_option}");
        match (self.wait, &self.subject) {
            (Wait::Approval, _) => {
                let named = names[..names.len().min(MOST_NAMED)].join(" ");
                next = format!("poolctl agent approve {named}{namespace_option}");
            }
            (Wait::DiscoveryBoot, Some(key)) => {
                next = match infra_env.and_then(InfraEnv::image_url) {
                    Some(url) => format!("boot from {url}"),
                    None => command_to_make_image(&key.name, namespace_option),
                };
            }
            (Wait::Duplicate, Some(same_agent)) => {
                description = format!("{description} {}", same_agent.name);
            }
            _ => {}
        }
        let verb = if names.len() == 1 { "is" } else { "are" };
        Chain::new(format!("{} {verb} {description}", count_and_names(names)), next)
    }
}

/// What an agent waits for that a person can do, none if nothing. An agent may wait for approval
/// and for something else.
fn waits_of(agent: &AgentFacts) -> Vec<Wait> {
    let is_duplicate = agent.duplicate_of.is_some();
    let is_unbound_duplicate = is_duplicate && agent.bound.is_none();
    let wait =
        if is_unbound_duplicate { Some(Wait::Duplicate) } else { wait_in_state(agent.state) };
    let mut waits = Vec::new();
    // Approval helps neither a machine that is too weak nor one that is another agent already.
    if !agent.approved && !is_duplicate && wait != Some(Wait::Hardware) {
        waits.push(Wait::Approval);
    }
    waits.extend(wait);
    waits
}

/// What a person can do for an agent in this state. None for states that end by themselves.
fn wait_in_state(state: HostState) -> Option<Wait> {
    Some(match state {
        HostState::UnbindingPendingUserAction | HostState::ResettingPendingUserAction => {
            Wait::DiscoveryBoot
        }
        HostState::InstallingPendingUserAction => Wait::InstallationBoot,
        HostState::Disconnected => Wait::Report,
        HostState::Insufficient | HostState::InsufficientUnbound => Wait::Hardware,
        HostState::PendingForInput => Wait::ClusterSpec,
        HostState::Error => Wait::Repair,
        HostState::DisabledUnbound => Wait::Deletion,
        _ => return None,
    })
}

fn describe_wait(wait: Wait) -> &'static str {
    match wait {
        Wait::Approval => "not approved",
        Wait::DiscoveryBoot => "waiting to be booted from the discovery image",
        Wait::InstallationBoot => "waiting to be booted for the installation",
        Wait::Report => "bound, without a report for three minutes",
        Wait::Hardware => "below the requirements",
        Wait::ClusterSpec => "bound to a cluster whose spec is incomplete",
        Wait::Repair => "in state error after a failed installation",
        Wait::Deletion => "retired",
        Wait::Duplicate => "the same machine as",
    }
}

/// `4 agents (node-1, node-2, node-3, ...)`
fn count_and_names(names: &[String]) -> String {
    let count = names.len();
    let ellipsis = if count > MOST_NAMED { ", ..." } else { "" };
    let noun = if count == 1 { "agent" } else { "agents" };
    format!("{count} {noun} ({}{ellipsis})", names[..count.min(MOST_NAMED)].join(", "))
}
