//! `doctor --fix --ask-controllers`: asks the management controllers of hosts that no cluster has
//! whether their machines are on, and waits until passes have switched off what is on for nobody.
//! It talks to no controller itself.

use std::collections::BTreeSet;

use crate::commands::doctor::{CheckState, Finding};
use crate::commands::host::read_hosts;
use crate::commands::waiting::{Observation, WaitOutcome, WaitProgress, Waiting};
use crate::commands::{Context, count_of};
use crate::model::host::{BareMetalHost, HostPower};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{HostId, Scope};
use crate::model::time::Span;
use crate::reconcile::Door;
use crate::store::Store;

const CHECK: &str = "power";
/// How long controllers may take to answer, and machines to switch off.
const LIMIT: Span = Span::minutes(10);

/// Asks the controllers, and returns what was found and what became of it. Hosts that are paused,
/// detached or about to be wiped are not asked.
pub(super) fn ask_controllers(context: &Context, store: &Store) -> Result<Vec<Finding>, Refusal> {
    let door = Door { store, world: &context.world, plans_changes: true };
    let host_keys = forget_power_of_nobodys_hosts(&door)?;
    let mut hosts_seen_on: BTreeSet<Key> = BTreeSet::new();
    let waiting = Waiting { context, door: &door, pool: None, limit: LIMIT };
    let ended = waiting.wait_until(|_| {
        let hosts = read_hosts(store, &host_keys)?;
        let on_for_nobody = hosts.iter().filter(|host| is_on_for_nobody(host));
        hosts_seen_on.extend(on_for_nobody.map(BareMetalHost::key));
        let settled = hosts.iter().filter(|host| is_settled(host)).count();
        if settled == hosts.len() {
            return Ok(Observation::Met(()));
        }
        Ok(Observation::NotYet(WaitProgress {
            done: settled as u64,
            total: hosts.len() as u64,
            description: format!("{settled} of {} asked", count_of(hosts.len(), "host")),
            ..WaitProgress::default()
        }))
    })?;
    if let WaitOutcome::Interrupted(exit) = ended {
        return Err(Refusal::new(exit, "interrupted"));
    }
    let mut findings = Vec::new();
    for host in read_hosts(store, &host_keys)? {
        let was_on = hosts_seen_on.contains(&host.key());
        findings.extend(describe_asked_host(context, &host, was_on));
    }
    if findings.is_empty() {
        findings.push(Finding { check: CHECK, state: CheckState::Fine, detail: String::new() });
    }
    Ok(findings)
}

/// Forgets whether machines are on that no cluster has and that are to be off. Passes then ask their
/// controllers. Returns the names of these hosts.
fn forget_power_of_nobodys_hosts(door: &Door<'_>) -> Result<Vec<Key>, Refusal> {
    let (host_keys, _) = door.change(&Scope::Whole, &[], |state, _| {
        let hosts = state.hosts.iter();
        let nobodys_hosts = hosts.filter(|(_, host)| is_nobodys(host) && !host.spec.online);
        let host_ids: Vec<HostId> = nobodys_hosts.map(|(host_id, _)| host_id).collect();
        let mut host_keys = Vec::new();
        for host_id in host_ids {
            host_keys.extend(state.hosts.get(host_id).map(BareMetalHost::key));
            state.hosts.update(host_id, |host| {
                host.forget_power();
                host.status.error_count = 0;
                host.status.clear_error();
            });
        }
        Ok(host_keys)
    })?;
    Ok(host_keys)
}

/// Whether no cluster and no other object has a host, and passes may switch it off now.
fn is_nobodys(host: &BareMetalHost) -> bool {
    let is_passed_over = host.is_left_alone() || host.metadata.deletion_timestamp.is_some();
    host.lease().is_none() && !is_passed_over && !host.is_to_be_wiped()
}

/// Whether a machine was seen on that is to be off and that nobody has.
pub(super) fn is_on_for_nobody(host: &BareMetalHost) -> bool {
    is_nobodys(host) && !host.spec.online && host.power() == HostPower::On
}

/// Whether a wait for a host is over: it is off or may be on, its controller has failed, or somebody
/// has taken it meanwhile.
fn is_settled(host: &BareMetalHost) -> bool {
    if !is_nobodys(host) || !host.status.error_message.is_empty() {
        return true;
    }
    match host.power() {
        HostPower::Off => true,
        HostPower::On => host.spec.online || host.spec.disable_power_off,
        HostPower::Unknown => false,
    }
}

/// What is said of a host that was asked; none if its machine was off. `was_on` tells whether it
/// was seen on meanwhile.
fn describe_asked_host(context: &Context, host: &BareMetalHost, was_on: bool) -> Option<Finding> {
    let name = context.short_name(&host.key());
    let (state, detail) = match host.power() {
        HostPower::Off if was_on => {
            let detail = format!("host `{name}` was on, and no cluster has it: it is off now");
            (CheckState::Fixed, detail)
        }
        HostPower::On if is_on_for_nobody(host) => {
            let why = describe_obstacle(context, host, "it is still on");
            (CheckState::Wrong, format!("host `{name}` is on, and no cluster has it: {why}"))
        }
        HostPower::Unknown if is_nobodys(host) => {
            let why = describe_obstacle(context, host, "its controller has not answered");
            (CheckState::Wrong, format!("host `{name}` may be on, and no cluster has it: {why}"))
        }
        HostPower::Off | HostPower::On | HostPower::Unknown => return None,
    };
    Some(Finding { check: CHECK, state, detail })
}

/// Why the machine of a host is not off, and what helps. `delay` says what has not happened if
/// nothing has failed.
fn describe_obstacle(context: &Context, host: &BareMetalHost, delay: &str) -> String {
    let name = &host.metadata.name;
    let option = context.namespace_option(&host.metadata.namespace);
    let error = &host.status.error_message;
    if host.spec.disable_power_off && error.is_empty() {
        return format!(
            "disablePowerOff forbids to switch it off; poolctl edit host {name}{option}"
        );
    }
    let limit = LIMIT.to_short_text();
    let why = if error.is_empty() { format!("{delay} after {limit}") } else { error.clone() };
    format!("{why}; poolctl why host/{name}{option}")
}
