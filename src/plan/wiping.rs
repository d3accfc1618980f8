//! Keeps hosts from everybody whose disks are to be wiped when they come back from a cluster.
//! Nobody gets them before that is done, and one whose disks could not be wiped is held. It starts
//! no job itself.

use crate::model::annotations::{HOLD, WIPE};
use crate::model::event_reason::EventReason;
use crate::model::host::wipe::{NO_WIPE, Wipe, WipeHold, WipeState, wipe_program};
use crate::model::host::{BareMetalHost, HostPower};
use crate::model::job::Verb;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::state::{HostId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::record_warning;

/// The most letters of a failure that are kept.
const LONGEST: usize = 300;
const FAILED: &str = "wipe failed: ";

/// Notes that a host comes back with what its cluster has left on its disks, and who wipes them.
/// `environment` is the InfraEnv that the host goes back to, which may ask for wiping.
pub fn mark_for_wiping(state: &mut State, host_id: HostId, environment: Option<&Key>, tick: &Tick) {
    let infra_env = environment.and_then(|key| state.infra_envs.by_key(key));
    let Some(host) = state.hosts.get(host_id) else { return };
    let driver = wipe_program(host, infra_env).map(str::to_owned);
    let wipe = driver.map(|driver| Wipe { state: WipeState::Pending, since: tick.now, driver });
    state.hosts.update(host_id, |host| host.status.wipe = wipe);
}

/// Ends a wipe that is not wanted any more, or that nobody can do any more because the host has
/// lost its controller.
pub fn end_impossible_wipe(state: &mut State, host_id: HostId, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    if !host.is_to_be_wiped() || state.live_job(&host.key().to_string()).is_some() {
        return;
    }
    if host.metadata.annotation(WIPE) == Some(NO_WIPE) {
        state.hosts.update(host_id, |host| host.status.wipe = None);
    } else if host.spec.bmc.is_none() {
        fail_wipe(state, host_id, "it has no management controller", tick);
    }
}

/// The next job of a host that is to be wiped: no image, then no power, then the wiper.
pub fn next_wipe_job(host: &BareMetalHost) -> Verb {
    match host.power() {
        _ if host.status.provisioning.image.is_some() => Verb::Eject,
        HostPower::Unknown => Verb::State,
        HostPower::On if !host.spec.disable_power_off => Verb::Stop,
        HostPower::On | HostPower::Off => Verb::Wipe,
    }
}

/// The disks of a host are wiped: it can be had again.
pub fn finish_wipe(host: &mut BareMetalHost, now: Time) {
    end_wipe(host, WipeState::Done, now);
}

/// Holds a host whose disks could not be wiped: nobody gets it until a person lets it go.
pub fn fail_wipe(state: &mut State, host_id: HostId, failure: &str, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let key = host.key();
    // An annotation is one line.
    let one_line = failure.replace(char::is_control, " ");
    let reason: String = one_line.chars().take(LONGEST).collect();
    // The reason why a person held the host before is kept.
    let held_before = reason_of_person(host);
    let annotation = match &held_before {
        Some(held_before) => format!("{held_before}; {FAILED}{reason}"),
        None => format!("{FAILED}{reason}"),
    };
    state.hosts.update(host_id, |host| {
        host.metadata.annotations.insert(HOLD.into(), annotation.clone());
        let status = &mut host.status;
        status.wipe_hold = Some(WipeHold { annotation, held_before });
        status.error_count = 0;
        status.last_updated = Some(tick.now);
        status.clear_error();
        end_wipe(host, WipeState::Failed, tick.now);
    });
    let message = format!("{FAILED}{reason}; it is held: poolctl host unhold {}", key.name);
    record_warning(state, tick, Kind::BareMetalHost, key, EventReason::WipeFailed, message);
}

/// Why a person holds a host, without what was added when its disks could not be wiped.
fn reason_of_person(host: &BareMetalHost) -> Option<String> {
    let annotation = host.metadata.annotation(HOLD).filter(|reason| !reason.is_empty())?;
    match &host.status.wipe_hold {
        Some(hold) if hold.annotation == annotation => hold.held_before.clone(),
        _ => Some(annotation.to_owned()),
    }
}

/// Writes down how a wipe ended. Whoever has wiped the host may have powered it on, so its power is
/// not known any more.
fn end_wipe(host: &mut BareMetalHost, outcome: WipeState, now: Time) {
    if let Some(wipe) = &mut host.status.wipe {
        wipe.state = outcome;
        wipe.since = now;
    }
    host.forget_power();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_failure_replaces_the_first_and_nothing_that_a_person_wrote() {
        let mut state = State::default();
        let mut host = BareMetalHost::default();
        host.metadata.name = "b1".into();
        let annotations = &mut host.metadata.annotations;
        annotations.insert(HOLD.into(), "wipe failed: last year; bad fan".into());
        let host_id = state.hosts.load(host);
        for failure in ["no answer", "no disk"] {
            fail_wipe(&mut state, host_id, failure, &Tick::default());
        }
        let host = state.hosts.get(host_id).unwrap();
        let hold = "wipe failed: last year; bad fan; wipe failed: no disk";
        assert_eq!(host.metadata.annotation(HOLD), Some(hold));
    }
}
