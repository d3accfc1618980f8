//! Hosts whose disks are wiped when they come back from a cluster: nobody gets them before that is
//! done, and one whose disks could not be wiped is held.

use crate::model::event_reason::EventReason;
use crate::model::host::wipe::{NOBODY, WIPE, Wipe, WipeHold, WipeState, wiper};
use crate::model::host::{BareMetalHost, HOLD};
use crate::model::job::Verb;
use crate::model::meta::Key;
use crate::model::state::{HostId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::{HOST, warn};

/// As much is said of why it failed.
const LONGEST: usize = 300;
const FAILED: &str = "wipe failed: ";

/// A host comes back, with what its cluster has left on its disks.
pub fn due(state: &mut State, at: HostId, environment: Option<&Key>, tick: &Tick) {
    let environment = environment.and_then(|key| state.infra_envs.by_key(key));
    let Some(host) = state.hosts.get(at) else { return };
    let driver = wiper(host, environment).map(str::to_owned);
    let wipe = driver.map(|driver| Wipe { state: WipeState::Pending, since: tick.now, driver });
    state.hosts.update(at, |host| host.status.wipe = wipe);
}

/// What cannot be wiped any more, or is not to be, does not wait for it.
pub fn look(state: &mut State, at: HostId, tick: &Tick) {
    let Some(host) = state.hosts.get(at).filter(|one| one.is_to_be_wiped()) else { return };
    if state.live_job(&host.key().to_string()).is_some() {
        return;
    }
    if host.metadata.annotation(WIPE) == Some(NOBODY) {
        state.hosts.update(at, |host| host.status.wipe = None);
    } else if host.spec.bmc.is_none() {
        failed(state, at, "it has no management controller", tick);
    }
}

/// What comes next on the way there: no image, no power, then the wiper.
pub fn next(host: &BareMetalHost) -> Verb {
    match host.power() {
        _ if host.status.provisioning.image.is_some() => Verb::Eject,
        None => Verb::State,
        Some(true) if !host.spec.disable_power_off => Verb::Stop,
        Some(_) => Verb::Wipe,
    }
}

pub fn done(host: &mut BareMetalHost, now: Time) {
    ended(host, WipeState::Done, now);
}

/// Nobody gets it until somebody lets it go.
pub fn failed(state: &mut State, at: HostId, why: &str, tick: &Tick) {
    let Some(host) = state.hosts.get(at) else { return };
    let key = host.key();
    let plain = |one: char| if one.is_control() { ' ' } else { one };
    let why: String = why.chars().take(LONGEST).map(plain).collect();
    // Why a person held it before stays said.
    let held_before = reason_of_person(host);
    let annotation = match &held_before {
        Some(reason) => format!("{reason}; {FAILED}{why}"),
        None => format!("{FAILED}{why}"),
    };
    state.hosts.update(at, |host| {
        host.metadata.annotations.insert(HOLD.into(), annotation.clone());
        let status = &mut host.status;
        status.wipe_hold = Some(WipeHold { annotation, held_before });
        (status.error_count, status.last_updated) = (0, Some(tick.now));
        status.clear_error();
        ended(host, WipeState::Failed, tick.now);
    });
    let text = format!("{FAILED}{why}; it is held: poolctl host unhold {}", key.name);
    warn(state, tick, EventReason::WipeFailed, (HOST, key), text);
}

/// Why a person holds a host, without what was added when its disks could not be wiped.
fn reason_of_person(host: &BareMetalHost) -> Option<String> {
    let annotation = host.metadata.annotation(HOLD).filter(|reason| !reason.is_empty())?;
    match &host.status.wipe_hold {
        Some(hold) if hold.annotation == annotation => hold.held_before.clone(),
        _ => Some(annotation.to_owned()),
    }
}

/// Whoever has wiped it may have powered it on.
fn ended(host: &mut BareMetalHost, how: WipeState, now: Time) {
    if let Some(wipe) = &mut host.status.wipe {
        (wipe.state, wipe.since) = (how, now);
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
        for why in ["no answer", "no disk"] {
            failed(&mut state, host_id, why, &Tick::default());
        }
        let host = state.hosts.get(host_id).unwrap();
        let hold = "wipe failed: last year; bad fan; wipe failed: no disk";
        assert_eq!(host.metadata.annotation(HOLD), Some(hold));
    }
}
