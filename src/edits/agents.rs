//! Edits Agents. Edits keep what machines reported and what poolctl recorded. Binding and
//! installing happen in a pass.

use std::rc::Rc;

use crate::model::agent::{Agent, HostState, INFRA_ENV_LABEL, report};
use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::plan::agents;
use crate::plan::agents::stages::STAGES;
use crate::rules;

use super::documents::{EditedDocument, mark_for_deletion, put_document};
use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;

// Annotations with the former status of an Agent. They are read when an Agent is recreated from a
// manifest that has no status.
const STATE_ANNOTATION: &str = "agent.agent-install.openshift.io/state";
const ROLE_ANNOTATION: &str = "agent.agent-install.openshift.io/role";
const INVENTORY_ANNOTATION: &str = "agent.agent-install.openshift.io/inventory";
const STAGE_ANNOTATION: &str = "agent.agent-install.openshift.io/current-stage";

impl EditedDocument for Agent {
    fn carry_over(existing: &Self, desired: &mut Self, mode: PutMode, _: &Tick) -> bool {
        desired.status.clone_from(&existing.status);
        desired.secret.clone_from(&existing.secret);
        // A manifest that names no cluster leaves the Agent with its cluster.
        if mode == PutMode::Apply && desired.spec.cluster_deployment_name.is_none() {
            desired.spec.cluster_deployment_name.clone_from(&existing.spec.cluster_deployment_name);
        }
        existing.spec != desired.spec
    }

    fn put(
        state: &mut State,
        mut agent: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        let key = agent.key();
        let existing = state.agents.by_key(&key);
        let was_approved = existing.map(|existing| existing.spec.approved);
        if let Some(existing) = existing {
            check_change(existing, &agent, mode)?;
        } else {
            check_new(&agent)?;
            restore_status(&mut agent, tick);
        }
        let outcome = put_document(state, agent, mode, tick)?;
        if let Some(agent) = state.agents.by_key(&key)
            && was_approved.is_some_and(|was_approved| was_approved != agent.spec.approved)
        {
            let event = approval_event(agent, tick);
            state.record_event(event);
        }
        Ok(outcome)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        mark_for_deletion::<Self>(state, key, tick.now)
    }

    fn prepare_import(&mut self, tick: &Tick) -> Result<(), Refusal> {
        self.secret = self.status.secret_hash.take();
        restore_status(self, tick);
        Ok(())
    }
}

/// Refuses a new Agent that does not say to which InfraEnv it belongs.
fn check_new(agent: &Agent) -> Result<(), Refusal> {
    if agent.metadata.labels.contains_key(INFRA_ENV_LABEL) {
        return Ok(());
    }
    let name = &agent.metadata.name;
    Err(Refusal::conflict(format!("Agent `{name}`: Missing InfraEnv name label"))
        .because(format!("label {INFRA_ENV_LABEL} must name its InfraEnv"))
        .next("poolctl agent register --infraenv NAME --id ID"))
}

/// Refuses to move an Agent to another InfraEnv, and changes that come too late.
fn check_change(existing: &Agent, desired: &Agent, mode: PutMode) -> Result<(), Refusal> {
    let name = &desired.metadata.name;
    let existing_label = existing.metadata.labels.get(INFRA_ENV_LABEL);
    let label = desired.metadata.labels.get(INFRA_ENV_LABEL);
    let is_label_kept = mode == PutMode::Apply && label.is_none();
    if existing_label != label && !is_label_kept {
        return Err(Refusal::conflict(format!(
            "Agent `{name}`: label {INFRA_ENV_LABEL} names its InfraEnv and cannot be changed"
        )));
    }
    rules::agents::check_change(existing, desired)
        .map_err(|why| Refusal::conflict(format!("Agent `{name}`: {why}")))
}

/// The event that a user approved a machine for installation, or withdrew the approval.
pub fn approval_event(agent: &Agent, tick: &Tick) -> Event {
    let name = agent.hostname();
    let approved = agent.spec.approved;
    let message = format!("Host {name}: updated approved to {approved}");
    agents::agent_event(
        agent,
        EventReason::HostApprovedUpdated,
        EventType::Normal,
        message,
        &tick.actor,
        tick,
    )
}

/// Restores the status of an Agent that is recreated from its manifest: from its annotations, or
/// else as that of a free machine. An Agent that has reported itself keeps its own status.
fn restore_status(agent: &mut Agent, tick: &Tick) {
    let Agent { metadata, spec, status, .. } = agent;
    if !status.host_id.is_empty() || status.found_by_controller {
        return;
    }
    let mut former_state: Option<HostState> =
        metadata.annotation(STATE_ANNOTATION).and_then(HostState::named);
    if former_state.is_none() && status.debug_info.state != HostState::default() {
        former_state = Some(status.debug_info.state);
    }
    if let Some(cluster) = &spec.cluster_deployment_name
        && former_state.is_some_and(is_bound_state)
    {
        status.bound_to.get_or_insert_with(|| cluster.clone());
    }
    let annotated_role = metadata.annotation(ROLE_ANNOTATION);
    if let Some(role) = annotated_role.and_then(|role| serde_json::from_value(role.into()).ok()) {
        status.role = role;
    }
    if status.inventory.is_none() {
        let report = metadata
            .annotation(INVENTORY_ANNOTATION)
            .and_then(|json| report::parse_report(json).ok());
        let inventory = report.and_then(|report| report.inventory);
        status.inventory = inventory.map(|inventory| Rc::new(inventory.into()));
    }
    let stage = metadata.annotation(STAGE_ANNOTATION).filter(|stage| STAGES.contains(stage));
    status.progress.current_stage = stage.unwrap_or_default().to_owned();
    status.host_id.clone_from(&metadata.name);
    let has_cluster = status.bound_to.is_some();
    status.debug_info.state = match former_state {
        // The former state must agree with whether the Agent has a cluster. Otherwise it starts
        // again as known, or as discovering-unbound.
        Some(former_state) if is_bound_state(former_state) == has_cluster => former_state,
        _ if has_cluster => HostState::Known,
        _ => HostState::DiscoveringUnbound,
    };
    status.state_since = Some(tick.now);
    // The Agent counts as having just reported, so that it is disconnected only if no report comes.
    status.last_contact_time.get_or_insert(tick.now);
}

/// Whether only a machine that is bound to a cluster can be in this state.
fn is_bound_state(state: HostState) -> bool {
    !state.is_free() && !state.is_returning()
}
