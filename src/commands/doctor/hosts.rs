//! Checks that no machine is on for a cluster that no longer has it. A pass switches such machines
//! off by itself; what is found here are those that it may not switch off, or could not.

use crate::commands::Context;
use crate::commands::doctor::Problems;
use crate::commands::doctor::power::is_on_for_nobody;
use crate::model::host::BareMetalHost;
use crate::model::refusal::Refusal;
use crate::model::state::{HostId, Scope};
use crate::plan;
use crate::reconcile::Door;

/// Everything that is wrong with hosts.
pub fn find_problems(context: &Context, door: &Door<'_>) -> Problems {
    // The last scope has all hosts.
    let scope = door.scopes_of_everything()?.pop().unwrap_or(Scope::Whole);
    let (state, _) = door.load_for_dry_run(&scope, &[])?;
    let mut problems = Vec::new();
    for (host_id, cluster) in plan::find_lost_hosts(&state) {
        if let Some(host) = state.hosts.get(host_id) {
            problems.push(format!(
                "host `{}` was switched on for cluster `{cluster}`, which does not have it any \
                 more: poolctl reconcile",
                host.key()
            ));
        }
    }
    for host in state.hosts.rows() {
        problems.extend(describe_stuck_host(context, host));
    }
    Ok(problems)
}

/// Why a host that has left its cluster, or that no cluster has, is not switched off; none if the
/// next pass does it, or if it is off.
fn describe_stuck_host(context: &Context, host: &BareMetalHost) -> Option<String> {
    let problem = match &host.status.may_run_for {
        Some(cluster) => format!("may still be on for cluster `{cluster}`, which it has left"),
        None if may_be_switched_off(host) => "is on, and no cluster has it".to_owned(),
        None => return None,
    };
    let name = &host.metadata.name;
    let option = context.namespace_option(&host.metadata.namespace);
    let (why, next) = if host.spec.bmc.is_none() {
        let why = "it has no management controller".to_owned();
        (why, format!("switch it off, then: poolctl delete host {name} -y{option}"))
    } else if host.is_left_alone() {
        let why = "it is paused or detached".to_owned();
        (why, format!("poolctl why host/{name}{option}"))
    } else if host.spec.disable_power_off {
        (
            "disablePowerOff forbids to switch it off".to_owned(),
            format!("poolctl edit host {name}{option}"),
        )
    } else if host.status.error_message.is_empty() {
        return None;
    } else {
        (host.status.error_message.clone(), format!("poolctl doctor --fix{option}"))
    };
    Some(format!("host `{}` {problem}: {why}; {next}", host.key()))
}

/// Whether a machine is on for nobody, and nobody has forbidden to switch it off.
fn may_be_switched_off(host: &BareMetalHost) -> bool {
    is_on_for_nobody(host) && !host.spec.disable_power_off
}

/// Lets a pass try at once what it would only try later, and gives back what nobody has given back.
pub fn switch_off(door: &Door<'_>) -> Result<(), Refusal> {
    let door_with_pass = Door { plans_changes: true, store: door.store, world: door.world };
    door_with_pass.change(&Scope::Whole, &[], |state, _| {
        let host_ids: Vec<HostId> = state.hosts.iter().map(|(host_id, _)| host_id).collect();
        for host_id in host_ids {
            state.hosts.update(host_id, |host| {
                if host.status.may_run_for.is_some() || may_be_switched_off(host) {
                    host.status.error_count = 0;
                }
            });
        }
        Ok(())
    })?;
    Ok(())
}
