//! Keeps hosts from everybody whose disks are to be wiped when they come back from a cluster.
//! Nobody gets them before that is done. One whose disks could not be wiped is held, and tried again
//! later and later. It starts no job itself.

use crate::model::agent::INFRA_ENV_LABEL;
use crate::model::annotations::{HOLD, WIPE};
use crate::model::condition::{
    Condition, ConditionReason, ConditionType, set_condition_without_probe,
};
use crate::model::event_reason::EventReason;
use crate::model::host::wipe::{
    NO_WIPE, QUICK_WIPE, Wipe, WipeHold, WipeState, WrittenDisk, asked_wipe,
};
use crate::model::host::{BareMetalHost, HostPower};
use crate::model::infra_env::InfraEnv;
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

/// What is known of the use of a host that has ended.
#[derive(Default)]
pub struct LastUse {
    /// The InfraEnv that the host goes back to.
    pub infra_env: Option<Key>,
    /// The pool of the cluster that had it.
    pub pool: Option<Key>,
    /// The disks that the installation was told to write.
    pub written_disks: Vec<WrittenDisk>,
}

/// Notes that a host comes back with what its cluster has left on its disks, and how they are
/// wiped.
pub fn mark_for_wiping(state: &mut State, host_id: HostId, last_use: &LastUse, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let wipe = choose_wipe(state, host, last_use).map(|driver| Wipe {
        since: tick.now,
        driver,
        disks: last_use.written_disks.clone(),
        infra_env: last_use.infra_env.as_ref().map(|key| key.name.clone()).unwrap_or_default(),
        ..Wipe::default()
    });
    state.hosts.update(host_id, |host| {
        if let Some(cluster) = host.status.switched_on_for.as_ref() {
            host.status.unwiped_from = Some(cluster.clone());
        }
        let is_wanted = wipe.is_some();
        host.status.wipe = wipe;
        if is_wanted {
            set_wiped(host, "False", ConditionReason::WipePending, "", tick.now);
        } else {
            forget_wiped(host);
        }
    });
}

/// How a host is wiped: as annotations say, else by an image if its cluster was a pool's and such an
/// image can be made and booted. Hosts that were there before poolctl could do that are left alone.
fn choose_wipe(state: &State, host: &BareMetalHost, last_use: &LastUse) -> Option<String> {
    let infra_env = last_use.infra_env.as_ref().and_then(|key| state.infra_envs.by_key(key));
    let pool = last_use.pool.as_ref().and_then(|key| state.pools.by_key(key));
    if let Some(asked) = asked_wipe(host, infra_env, pool.map(|pool| &pool.metadata)) {
        return (asked != NO_WIPE).then(|| asked.to_owned());
    }
    let can_be_wiped = infra_env.is_some_and(InfraEnv::has_own_image)
        && host.can_boot_images()
        && !host.is_left_alone()
        && !host.spec.disable_power_off;
    let is_default = last_use.pool.is_some() && !host.status.known_before_wiping && can_be_wiped;
    is_default.then(|| QUICK_WIPE.to_owned())
}

/// Ends a wipe that is not wanted any more, or that nobody can do; and begins one that failed anew
/// when its time has come.
pub fn advance_wipe(state: &mut State, host_id: HostId, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let Some(wipe) = &host.status.wipe else { return begin_asked_wipe(state, host_id, tick) };
    if wipe.state == WipeState::Done || state.live_job(&host.key().to_string()).is_some() {
        return;
    }
    let problem = why_impossible(host, wipe);
    let is_unwanted = host.metadata.annotation(WIPE) == Some(NO_WIPE);
    match (wipe.state, problem) {
        (WipeState::Pending, _) if is_unwanted => {
            state.hosts.update(host_id, |host| {
                host.status.wipe = None;
                forget_wiped(host);
                end_own_hold(host);
                // The image that wipes it may have switched it on.
                host.forget_power();
            });
        }
        // It is held only because its disks could not be wiped, which nobody wants any more.
        (WipeState::Failed, _) if is_unwanted => {
            state.hosts.update(host_id, |host| {
                host.status.wipe = None;
                forget_wiped(host);
                end_own_hold(host);
            });
        }
        (WipeState::Pending, Some(problem)) => fail_wipe(state, host_id, problem, tick),
        (WipeState::Failed, None) if is_retry_due(host, wipe, tick) => {
            state.hosts.update(host_id, |host| begin_again(host, tick.now));
        }
        _ => {}
    }
}

/// Wipes a host that nobody has, because a person asks for it by the host's own annotation.
fn begin_asked_wipe(state: &mut State, host_id: HostId, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let is_asked = host.metadata.annotation(WIPE).is_some_and(|asked| asked != NO_WIPE);
    let is_kept = host.is_left_alone() || host.metadata.has_annotation(HOLD);
    if !is_asked || is_kept || host.old_system().is_none() {
        return;
    }
    let namespace = host.metadata.namespace.as_str();
    let label = host.metadata.labels.get(INFRA_ENV_LABEL);
    let infra_env = label.map(|name| Key::new(namespace, &**name));
    mark_for_wiping(state, host_id, &LastUse { infra_env, ..LastUse::default() }, tick);
}

/// Why nobody can wipe the disks of a host, as it is now.
fn why_impossible(host: &BareMetalHost, wipe: &Wipe) -> Option<&'static str> {
    if host.spec.bmc.is_none() {
        return Some("it has no management controller");
    }
    if wipe.is_by_program() {
        return None;
    }
    if !host.can_boot_images() {
        return Some("its management controller attaches no images; only exec:NAME can wipe it");
    }
    if host.spec.disable_power_off {
        return Some("disablePowerOff forbids to boot the image that wipes it");
    }
    None
}

/// Whether it is time to wipe a host again. Once a person has changed or removed the hold, it is
/// theirs to say.
fn is_retry_due(host: &BareMetalHost, wipe: &Wipe, tick: &Tick) -> bool {
    let hold = host.status.wipe_hold.as_ref().map(|hold| hold.annotation.as_str());
    let is_held_by_us = hold.is_some() && host.metadata.annotation(HOLD) == hold;
    is_held_by_us
        && !tick.clock_jumped
        && wipe.retry_at().is_some_and(|retry_at| retry_at <= tick.now)
}

fn begin_again(host: &mut BareMetalHost, now: Time) {
    if let Some(wipe) = &mut host.status.wipe {
        wipe.state = WipeState::Pending;
        wipe.since = now;
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

/// The disks of a host are wiped: it can be had again, unless a person holds it.
pub fn finish_wipe(host: &mut BareMetalHost, now: Time) {
    if let Some(wipe) = &mut host.status.wipe {
        wipe.failures = 0;
        wipe.message.clear();
    }
    host.status.unwiped_from = None;
    end_wipe(host, WipeState::Done, now);
    set_wiped(host, "True", ConditionReason::Wiped, "", now);
    end_own_hold(host);
}

/// Ends the hold that is there because the disks could not be wiped. What a person has written in
/// its place stays.
fn end_own_hold(host: &mut BareMetalHost) {
    let Some(hold) = host.status.wipe_hold.take() else { return };
    if host.metadata.annotation(HOLD) != Some(&*hold.annotation) {
        return;
    }
    match hold.held_before {
        Some(held_before) => drop(host.metadata.annotations.insert(HOLD.into(), held_before)),
        None => drop(host.metadata.annotations.remove(HOLD)),
    }
}

/// Holds a host whose disks could not be wiped: nobody gets it until they are, or until a person
/// lets it go.
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
        if let Some(wipe) = &mut status.wipe {
            wipe.failures += 1;
            wipe.message.clone_from(&reason);
        }
        end_wipe(host, WipeState::Failed, tick.now);
        set_wiped(host, "False", ConditionReason::WipeFailed, &reason, tick.now);
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

/// Sets the condition that says whether the disks are wiped.
fn set_wiped(
    host: &mut BareMetalHost,
    status: &str,
    reason: ConditionReason,
    message: &str,
    now: Time,
) {
    let condition = Condition::new(ConditionType::Wiped, status, reason, message);
    set_condition_without_probe(&mut host.status.conditions, condition, now);
}

fn forget_wiped(host: &mut BareMetalHost) {
    host.status.conditions.retain(|condition| condition.kind != ConditionType::Wiped);
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
