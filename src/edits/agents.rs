//! Edits of Agents: what hosts said of themselves and what poolctl did with them stays.

use crate::model::agent::{Agent, HostState, INFRA_ENV, report};
use crate::model::event::Event;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::plan::agents;
use crate::plan::agents::stages::STAGES;
use crate::rules;

use super::documents::{mark_for_deletion, put_document};
use super::edited::Edited;
use super::verdict::Verdict;

/// What an Agent was elsewhere, for one that comes without a status.
const STATE: &str = "agent.agent-install.openshift.io/state";
const ROLE: &str = "agent.agent-install.openshift.io/role";
const FOUND: &str = "agent.agent-install.openshift.io/inventory";
const STAGE: &str = "agent.agent-install.openshift.io/current-stage";

impl Edited for Agent {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_agent(state, new, merge, tick)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        mark_for_deletion(&mut state.agents, key, tick.now)
    }

    fn import(state: &mut State, mut new: Self, tick: &Tick) -> Result<(), Refusal> {
        new.secret = new.status.secret_hash.take();
        restored(&mut new, tick);
        state.agents.insert(new);
        Ok(())
    }
}

fn put_agent(
    state: &mut State,
    mut new: Agent,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let (name, key) = (new.metadata.name.clone(), new.key());
    let before = state.agents.by_key(&key).map(|old| old.spec.approved);
    if let Some(old) = state.agents.by_key(&key) {
        let of = |one: &Agent| one.metadata.labels.get(INFRA_ENV).cloned();
        if of(old) != of(&new) && (!merge || of(&new).is_some()) {
            let what = format!(
                "Agent `{name}`: label {INFRA_ENV} says which InfraEnv it is of, and stays"
            );
            return Err(Refusal::conflict(what));
        }
        rules::agents::check_change(old, &new)
            .map_err(|why| Refusal::conflict(format!("Agent `{name}`: {why}")))?;
    } else {
        if !new.metadata.labels.contains_key(INFRA_ENV) {
            return Err(Refusal::conflict(format!("Agent `{name}`: Missing InfraEnv name label"))
                .because(format!("label {INFRA_ENV} says which InfraEnv it is of"))
                .next("poolctl agent register --infraenv NAME --id ID"));
        }
        restored(&mut new, tick);
    }
    let verdict = put_document(&mut state.agents, new, merge, tick, |old, new| {
        new.status.clone_from(&old.status);
        new.secret.clone_from(&old.secret);
        if merge {
            // Who applies a host without saying whose it is leaves it whose it is.
            let wanted = &mut new.spec.cluster_deployment_name;
            *wanted = wanted.take().or_else(|| old.spec.cluster_deployment_name.clone());
        }
        old.spec != new.spec
    })?;
    let news = |one: &&Agent| before.is_some_and(|was| was != one.spec.approved);
    let event = state.agents.by_key(&key).filter(news).map(|one| approved(one, tick));
    if let Some(event) = event {
        state.event(event);
    }
    Ok(verdict)
}

/// Somebody has said whether a host is installed.
pub fn approved(agent: &Agent, tick: &Tick) -> Event {
    let (name, approved) = (agent.hostname(), agent.spec.approved);
    let text = format!("Host {name}: updated approved to {approved}");
    agents::about(agent, "host_approved_updated", false, text, &tick.actor, tick)
}

/// One that was lost and is made again from its manifest: where its annotation says, or free.
fn restored(new: &mut Agent, tick: &Tick) {
    let noted = new.metadata.annotation(STATE).and_then(|text| text.parse::<HostState>().ok());
    let text = |name: &str| new.metadata.annotation(name).map(str::to_owned);
    let (found, stage, role) = (text(FOUND), text(STAGE), text(ROLE));
    let status = &mut new.status;
    let told = Some(status.debug_info.state).filter(|state| *state != HostState::default());
    let noted = noted.or(told);
    if status.host_id.is_empty() && !status.found {
        if let Some(wanted) = &new.spec.cluster_deployment_name
            && noted.is_some_and(is_bound)
        {
            status.bound_to.get_or_insert_with(|| wanted.clone());
        }
        let role = role.and_then(|text| serde_json::from_value(text.into()).ok());
        status.role = role.unwrap_or(status.role);
        let found = found.and_then(|text| report::read(&text).ok()?.inventory);
        status.inventory = status.inventory.take().or(found);
        let known = stage.filter(|stage| STAGES.contains(&stage.as_str()));
        status.progress.current_stage = known.unwrap_or_default();
        status.host_id.clone_from(&new.metadata.name);
        let default = if status.bound_to.is_some() {
            HostState::Known
        } else {
            HostState::DiscoveringUnbound
        };
        // Who is bound to nobody is not in the middle of anything.
        let fits = |state: &HostState| is_bound(*state) == status.bound_to.is_some();
        status.debug_info.state = noted.filter(fits).unwrap_or(default);
        status.state_since = Some(tick.now);
        // It is believed for as long as it takes to hear of it.
        status.last_contact_time.get_or_insert(tick.now);
    }
}

/// States that only a bound host is in.
fn is_bound(state: HostState) -> bool {
    !state.is_free() && !state.is_returning()
}
