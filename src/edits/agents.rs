//! Edits of Agents: what hosts said of themselves and what poolctl did with them stays.

use crate::model::agent::{Agent, HostState, INFRA_ENV, report};
use crate::model::event::Event;
use crate::model::event_reason::EventReason;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::plan::agents;
use crate::plan::agents::stages::STAGES;
use crate::rules;

use super::documents::{EditedDocument, mark_for_deletion, put_document};
use super::verdict::Verdict;

/// What an Agent was elsewhere, for one that comes without a status.
const STATE: &str = "agent.agent-install.openshift.io/state";
const ROLE: &str = "agent.agent-install.openshift.io/role";
const INVENTORY: &str = "agent.agent-install.openshift.io/inventory";
const STAGE: &str = "agent.agent-install.openshift.io/current-stage";

impl EditedDocument for Agent {
    fn carry_over(old: &Self, new: &mut Self, merge: bool, _: &Tick) -> bool {
        new.status.clone_from(&old.status);
        new.secret.clone_from(&old.secret);
        // A manifest that names no cluster leaves the Agent with the cluster that it has.
        if merge && new.spec.cluster_deployment_name.is_none() {
            new.spec.cluster_deployment_name.clone_from(&old.spec.cluster_deployment_name);
        }
        old.spec != new.spec
    }

    fn put(state: &mut State, mut new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let key = new.key();
        let old = state.agents.by_key(&key);
        let was_approved = old.map(|old| old.spec.approved);
        if let Some(old) = old {
            check_change(old, &new, merge)?;
        } else {
            check_new(&new)?;
            restore_status(&mut new, tick);
        }
        let verdict = put_document(state, new, merge, tick)?;
        if let Some(agent) = state.agents.by_key(&key)
            && was_approved.is_some_and(|was_approved| was_approved != agent.spec.approved)
        {
            let event = approval_event(agent, tick);
            state.event(event);
        }
        Ok(verdict)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        mark_for_deletion::<Self>(state, key, tick.now)
    }

    fn prepare_import(&mut self, tick: &Tick) -> Result<(), Refusal> {
        self.secret = self.status.secret_hash.take();
        restore_status(self, tick);
        Ok(())
    }
}

fn check_new(new: &Agent) -> Result<(), Refusal> {
    if new.metadata.labels.contains_key(INFRA_ENV) {
        return Ok(());
    }
    let name = &new.metadata.name;
    Err(Refusal::conflict(format!("Agent `{name}`: Missing InfraEnv name label"))
        .because(format!("label {INFRA_ENV} says which InfraEnv it is of"))
        .next("poolctl agent register --infraenv NAME --id ID"))
}

fn check_change(old: &Agent, new: &Agent, merge: bool) -> Result<(), Refusal> {
    let name = &new.metadata.name;
    let old_label = old.metadata.labels.get(INFRA_ENV);
    let new_label = new.metadata.labels.get(INFRA_ENV);
    if old_label != new_label && (!merge || new_label.is_some()) {
        return Err(Refusal::conflict(format!(
            "Agent `{name}`: label {INFRA_ENV} says which InfraEnv it is of, and stays"
        )));
    }
    rules::agents::check_change(old, new)
        .map_err(|why| Refusal::conflict(format!("Agent `{name}`: {why}")))
}

/// Somebody has said whether a host is installed.
pub fn approval_event(agent: &Agent, tick: &Tick) -> Event {
    let name = agent.hostname();
    let approved = agent.spec.approved;
    let text = format!("Host {name}: updated approved to {approved}");
    agents::about(agent, EventReason::HostApprovedUpdated, false, text, &tick.actor, tick)
}

/// Gives a status to an Agent that was lost and is made again from its manifest: that which its
/// annotations say, or that of a free host. An Agent that has reported itself keeps its own.
fn restore_status(agent: &mut Agent, tick: &Tick) {
    let Agent { metadata, spec, status, .. } = agent;
    if !status.host_id.is_empty() || status.found {
        return;
    }
    let own_state = Some(status.debug_info.state).filter(|state| *state != HostState::default());
    let annotated_state =
        metadata.annotation(STATE).and_then(|state| state.parse::<HostState>().ok());
    let former_state = annotated_state.or(own_state);
    if let Some(cluster) = &spec.cluster_deployment_name
        && former_state.is_some_and(is_bound)
    {
        status.bound_to.get_or_insert_with(|| cluster.clone());
    }
    let role = metadata.annotation(ROLE);
    if let Some(role) = role.and_then(|role| serde_json::from_value(role.into()).ok()) {
        status.role = role;
    }
    if status.inventory.is_none() {
        let report = metadata.annotation(INVENTORY).and_then(|text| report::read(text).ok());
        status.inventory = report.and_then(|report| report.inventory);
    }
    let stage = metadata.annotation(STAGE).filter(|stage| STAGES.contains(stage));
    status.progress.current_stage = stage.unwrap_or_default().to_owned();
    status.host_id.clone_from(&metadata.name);
    let has_cluster = status.bound_to.is_some();
    status.debug_info.state = match former_state {
        // A host without a cluster is not in the middle of anything.
        Some(noted) if is_bound(noted) == has_cluster => noted,
        _ if has_cluster => HostState::Known,
        _ => HostState::DiscoveringUnbound,
    };
    status.state_since = Some(tick.now);
    // It is believed for as long as it takes to hear of it.
    status.last_contact_time.get_or_insert(tick.now);
}

/// Whether only a bound host is in this state.
fn is_bound(state: HostState) -> bool {
    !state.is_free() && !state.is_returning()
}
