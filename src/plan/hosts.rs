//! Hosts: what each needs of its management controller, and what became of that. One thing at a
//! time for each host; those of a cluster that is starting or stopping are its cluster's.

use crate::model::condition::{self, Condition, ConditionReason, set_unprobed};
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::host::{
    AS_FOUND, BOOT, BareMetalHost, CIPHER, CredentialsStatus, ErrorReason, INSPECT, INSPECTED,
    Image, POWERED_ON, REBOOT, REGISTERED, REGISTRATION_ERROR, SecretRef,
};
use crate::model::job::{CANCELLED, HostReport, Job, Outcome, Verb};
use crate::model::meta::{Key, Meta};
use crate::model::state::{HostId, JobId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::{HOST, clusters_hosts, probes, say, warn, wiping};

const CREDENTIALS: [&str; 2] = ["username", "password"];

/// Every host does what it needs next; jobs of those that are gone end.
pub fn advance(state: &mut State, tick: &Tick) {
    let gone = |job: &Job| {
        job.ended.is_none() && job.host().is_some_and(|key| state.hosts.was_removed(&key))
    };
    let orphaned: Vec<JobId> =
        state.jobs.iter().filter(|(_, job)| gone(job)).map(|(at, _)| at).collect();
    for at in orphaned {
        state.jobs.update(at, |job| {
            (job.ended, job.outcome) = (Some(tick.now), Some(CANCELLED.into()));
        });
    }
    let (mut busy, probes) = (state.busy_hosts(), probes::of(state));
    let all: Vec<HostId> = state.hosts.iter().map(|(at, _)| at).collect();
    for at in all {
        show(state, at, tick);
        wiping::look(state, at, tick);
        let Some(host) = state.hosts.get(at) else { continue };
        let name = host.key().to_string();
        let later = host.next_attempt_at().is_some_and(|next| tick.now < next);
        // What was put right is tried at once.
        let waits = later && host.status.tried_credentials == credentials(state, host);
        if waits || busy.contains(&name) || is_its_clusters(state, host) {
            continue;
        }
        let due = |at: &Time| *at <= tick.now && is_reachable(state, host);
        let probe = || probes::at(host, &probes).filter(due).map(|_| Verb::Inspect);
        if let Some(verb) = next(state, host).or_else(probe) {
            start(state, at, verb, tick);
            busy.insert(name);
        }
    }
}

/// When hosts are tried again that failed, if there is anything to try, or are asked how they are.
pub fn due(state: &State) -> Option<Time> {
    let probes = probes::of(state);
    let each = |host: &BareMetalHost| {
        let tried = host.next_attempt_at().filter(|_| next(state, host).is_some());
        let asked = probes::at(host, &probes).filter(|_| is_reachable(state, host));
        tried.into_iter().chain(asked).min().filter(|_| !is_its_clusters(state, host))
    };
    state.hosts.rows().filter_map(each).min()
}

/// A cluster that is on its way up or down takes its hosts along.
fn is_its_clusters(state: &State, host: &BareMetalHost) -> bool {
    let Some(name) = host.cluster() else { return false };
    let Some(cluster) = state.cluster(name).and_then(|at| state.clusters.get(at)) else {
        // Beyond the scope it may be doing anything.
        return !state.whole;
    };
    let (power, drives) =
        (cluster.power, || !clusters_hosts::that_drive(state, cluster).is_empty());
    cluster.installed() && (power.waking() || power.stopping() || power.failed()) && drives()
}

/// Whether anything may be done to a host, or asked.
fn is_reachable(state: &State, host: &BareMetalHost) -> bool {
    let leaves = host.is_left_alone() || host.metadata.deletion_timestamp.is_some();
    !leaves && missing(state, host).is_none()
}

fn next(state: &State, host: &BareMetalHost) -> Option<Verb> {
    let meta = &host.metadata;
    if !is_reachable(state, host) {
        return None;
    }
    let again = [INSPECT, AS_FOUND].iter().any(|note| meta.annotated_at_all(note));
    if host.status.good_credentials != credentials(state, host) || again {
        return Some(Verb::Inspect);
    }
    if host.is_to_be_wiped() {
        return Some(wiping::next(host));
    }
    let free = !host.spec.disable_power_off;
    if meta.annotated_at_all(REBOOT) && free {
        return Some(Verb::Cycle);
    }
    let wanted = host.spec.image.as_ref().filter(|image| image.is_live());
    let attached = host.status.provisioning.image.as_ref();
    let url = |image: &Image| image.url.clone();
    if wanted.map(url) != attached.map(url) {
        if wanted.is_none() {
            return Some(Verb::Eject);
        }
        if host.spec.online && free {
            return Some(Verb::Attach);
        }
    }
    match (host.power(), host.spec.online) {
        (None, _) => Some(Verb::State),
        (Some(false), true) if may_start(state, host) => Some(Verb::Start),
        (Some(true), false) if free => Some(Verb::Stop),
        _ => None,
    }
}

/// What is on the disk of a host that is to be installed, or was given back, is not met again: it
/// boots from the image of its cluster alone.
fn may_start(state: &State, host: &BareMetalHost) -> bool {
    let Some(name) = host.cluster() else { return true };
    let cluster = state.cluster(name).and_then(|at| state.clusters.get(at));
    cluster.is_none_or(|one| one.installed() && one.deleting.is_none())
}

/// What it is reached with, if that is there.
fn credentials(state: &State, host: &BareMetalHost) -> Option<CredentialsStatus> {
    let name = host.spec.bmc.as_ref()?.credentials_name.clone();
    let namespace = host.metadata.namespace.clone();
    let secret = state.secrets.by_key(&Key::new(&*namespace, &*name))?;
    let credentials_version = version(&secret.metadata);
    Some(CredentialsStatus { credentials: SecretRef { name, namespace }, credentials_version })
}

/// Which one a Secret is: one that was made anew is another.
pub fn version(secret: &Meta) -> String {
    format!("{}/{}", secret.uid, secret.generation)
}

/// What is missing before anything can be done.
fn missing(state: &State, host: &BareMetalHost) -> Option<(ErrorReason, String)> {
    let name = &host.spec.bmc.as_ref()?.credentials_name;
    let Some(secret) = state.secrets.by_key(&Key::new(&*host.metadata.namespace, &**name)) else {
        return Some((ErrorReason::CredentialsMissing, format!("secret {name} is not there")));
    };
    let missing = CREDENTIALS.into_iter().find(|key| !secret.values.contains_key(*key))?;
    Some((ErrorReason::CredentialsUnusable, format!("secret {name} has no {missing}")))
}

fn start(state: &mut State, at: HostId, verb: Verb, tick: &Tick) {
    let Some(host) = state.hosts.get(at) else { return };
    let (key, name) = (host.key(), host.key().to_string());
    let driver = match verb {
        Verb::Wipe => Driver::Exec,
        _ => host.address().map_or(Driver::Missing, |address| address.driver()),
    };
    let text = format!("{} started", verb.name());
    let tried = credentials(state, host);
    let attempt = host.status.error_count + 1;
    state.hosts.update(at, |host| {
        host.status.tried_credentials = tried;
        // A failure that is not reported by its controller has no reason that is known.
        host.status.error_reason = None;
    });
    state.jobs.insert(Job {
        id: tick.uid("job", &format!("{name} {}", verb.name()), tick.revision),
        verb,
        object: name.clone(),
        hosts: vec![name],
        driver,
        attempt,
        started: tick.now,
        ..Job::default()
    });
    // What only asks is said when the answer is news.
    if !matches!(verb, Verb::State | Verb::Inspect) {
        say(state, tick, EventReason::JobStarted, (HOST, key), text);
    }
}

/// What was found of hosts, by jobs of theirs or of their clusters.
pub fn found(state: &mut State, job: &Job, all: Vec<HostReport>, tick: &Tick) {
    for report in all {
        let Some((namespace, name)) = report.host.split_once('/') else { continue };
        let Some(at) = state.hosts.find(&Key::new(namespace, name)) else { continue };
        // Of another machine, if the host got another controller meanwhile.
        let address = |host: &BareMetalHost| host.spec.bmc.as_ref().map(|bmc| bmc.address.clone());
        if state.hosts.get(at).and_then(address).is_none_or(|now| now != report.address) {
            continue;
        }
        if let Some(on) = report.powered_on {
            power(state, at, Some(on), "", tick);
        }
        let wrong = report.error.clone();
        state.hosts.update(at, |host| take(host, report, tick));
        // What goes wrong in a host's own job is said at its end.
        if job.host().is_none() && !wrong.is_empty() {
            failed(state, at, Verb::Attach, &wrong, tick);
        }
    }
}

fn take(host: &mut BareMetalHost, report: HostReport, tick: &Tick) {
    host.status.last_updated = Some(tick.now);
    if report.error.is_empty() {
        let name = host.spec.bmc.as_ref().map(|bmc| bmc.credentials_name.clone());
        let namespace = host.metadata.namespace.clone();
        let credentials = SecretRef { name: name.unwrap_or_default(), namespace };
        let credentials_version = report.credentials;
        host.status.good_credentials = Some(CredentialsStatus { credentials, credentials_version });
    } else {
        host.status.error_reason = report.reason;
    }
    if let Some(suite) = report.cipher {
        host.metadata.annotations.insert(CIPHER.into(), suite.to_string());
    }
    if let Some(url) = report.image {
        host.status.provisioning.image = Some(Image::live(&url)).filter(|_| !url.is_empty());
    }
    if report.booted {
        host.metadata.annotations.remove(BOOT);
    }
    if let Some(hardware) = report.hardware {
        host.status.hardware = Some(hardware);
    }
}

/// The job of a host is over.
pub fn over(state: &mut State, key: &Key, verb: Verb, outcome: &Outcome, tick: &Tick) {
    let Some(at) = state.hosts.find(key) else { return };
    match outcome {
        Outcome::BrokeOff { message, .. } => {
            state.hosts.update(at, |host| {
                host.status.error_count += 1;
                host.status.last_updated = Some(tick.now);
            });
            let text = format!("{} broke off: {message}", verb.name());
            warn(state, tick, EventReason::JobInterrupted, (HOST, key.clone()), text);
        }
        Outcome::Failed { message, .. } if verb == Verb::Wipe => {
            wiping::failed(state, at, message, tick);
        }
        Outcome::Failed { message, .. } => failed(state, at, verb, message, tick),
        _ => done(state, at, verb, tick),
    }
}

fn done(state: &mut State, at: HostId, verb: Verb, tick: &Tick) {
    let Some(host) = state.hosts.get(at) else { return };
    let key = host.key();
    let again = condition::find(&host.status.conditions, INSPECTED).is_some();
    state.hosts.update(at, |host| {
        let status = &mut host.status;
        (status.error_count, status.last_updated) = (0, Some(tick.now));
        status.clear_error();
        match verb {
            Verb::Inspect => {
                host.metadata.annotations.remove(INSPECT);
                if host.metadata.annotations.remove(AS_FOUND).is_some() {
                    host.spec.online = host.status.powered_on;
                }
                let known = condition::find(&host.status.conditions, REGISTERED);
                if known.is_none_or(|one| one.status != "True") {
                    let new = Condition::new(REGISTERED, "True", ConditionReason::Registered, "");
                    set_unprobed(&mut host.status.conditions, new, tick.now);
                }
                let (status, reason) = match host.status.hardware {
                    Some(_) => ("True", ConditionReason::Inspected),
                    None => ("Unknown", ConditionReason::NotSupported),
                };
                let new = Condition::new(INSPECTED, status, reason, "");
                set_unprobed(&mut host.status.conditions, new, tick.now);
            }
            Verb::Attach | Verb::Eject => status.provisioning_fail_count = 0,
            Verb::Cycle => drop(host.metadata.annotations.remove(REBOOT)),
            Verb::Wipe => wiping::done(host, tick.now),
            _ => {}
        }
    });
    let (reason, text) = match verb {
        Verb::Inspect if again => (EventReason::InspectionComplete, "Hardware was looked at"),
        Verb::Inspect => {
            (EventReason::Registered, "Its management controller takes the credentials")
        }
        Verb::Cycle => (EventReason::PowerCycled, "Host was powered off and on"),
        Verb::Attach => {
            (EventReason::ProvisioningComplete, "Image is attached, host booted from it once")
        }
        Verb::Eject => (EventReason::DeprovisioningComplete, "Image is ejected"),
        Verb::Wipe => (EventReason::Wiped, "Its disks are wiped"),
        _ => return,
    };
    say(state, tick, reason, (HOST, key), text.into());
}

fn failed(state: &mut State, at: HostId, verb: Verb, message: &str, tick: &Tick) {
    let Some(host) = state.hosts.get(at) else { return };
    let key = host.key();
    let (kind, reason) = match verb {
        Verb::Inspect => (REGISTRATION_ERROR, EventReason::RegistrationError),
        Verb::Attach | Verb::Eject => ("provisioning error", EventReason::ProvisioningError),
        _ => ("power management error", EventReason::PowerManagementError),
    };
    let known = host.status.error_message == message && host.status.error_count > 0;
    state.hosts.update(at, |host| {
        let status = &mut host.status;
        status.error_count += 1;
        (status.error_type, status.error_message) = (kind.into(), message.into());
        status.last_updated = Some(tick.now);
        status.provisioning_fail_count += u32::from(reason == EventReason::ProvisioningError);
        if reason == EventReason::RegistrationError {
            let new =
                Condition::new(REGISTERED, "False", ConditionReason::RegistrationError, message);
            set_unprobed(&mut status.conditions, new, tick.now);
        }
    });
    // Who was told in vain is still as it was last seen.
    if matches!(verb, Verb::State | Verb::Inspect) {
        power(state, at, None, message, tick);
    }
    if !known {
        warn(state, tick, reason, (HOST, key), message.into());
    }
}

/// What is known of its power: on, off, or nothing.
fn power(state: &mut State, at: HostId, on: Option<bool>, why: &str, tick: &Tick) {
    let Some(host) = state.hosts.get(at) else { return };
    let (key, before) = (host.key(), host.power());
    let (status, reason) = match on {
        Some(true) => ("True", ConditionReason::PoweredOn),
        Some(false) => ("False", ConditionReason::PoweredOff),
        None => ("Unknown", ConditionReason::PowerManagementError),
    };
    state.hosts.update(at, |host| {
        host.status.powered_on = on.unwrap_or(host.status.powered_on);
        set_unprobed(
            &mut host.status.conditions,
            Condition::new(POWERED_ON, status, reason, why),
            tick.now,
        );
    });
    match on {
        Some(true) if before != on => {
            say(state, tick, EventReason::PowerOn, (HOST, key), "Host is powered on".into());
        }
        Some(false) if before != on => {
            say(state, tick, EventReason::PowerOff, (HOST, key), "Host is powered off".into());
        }
        _ => {}
    }
}

/// metal3's words for where it is.
fn show(state: &mut State, at: HostId, tick: &Tick) {
    let Some(host) = state.hosts.get(at) else { return };
    let (lacks, status) = (missing(state, host), &host.status);
    let wanted = host.spec.image.as_ref().filter(|image| image.is_live());
    let attached = status.provisioning.image.as_ref();
    let place = match () {
        () if host.spec.bmc.is_none() => "unmanaged",
        () if status.good_credentials.is_none() => "registering",
        () if wanted.is_none() && attached.is_some() => "deprovisioning",
        () if wanted.is_some() && attached.map(|one| &one.url) == wanted.map(|one| &one.url) => {
            "provisioned"
        }
        () if wanted.is_some() && host.spec.online => "provisioning",
        () if host.spec.externally_provisioned => "externally provisioned",
        () => "available",
    };
    let operational = match () {
        () if host.spec.bmc.is_none() => "discovered",
        () if host.is_left_alone() => "detached",
        () if lacks.is_some() || status.error_count > 0 => "error",
        () => "OK",
    };
    let uid = host.metadata.uid.clone();
    state.hosts.update(at, |host| {
        let status = &mut host.status;
        place.clone_into(&mut status.provisioning.state);
        operational.clone_into(&mut status.operational_status);
        status.provisioning.id = uid;
        if let Some((reason, lacks)) = lacks {
            // Nobody was asked: it counts as no failure.
            REGISTRATION_ERROR.clone_into(&mut status.error_type);
            status.error_message.clone_from(&lacks);
            status.error_reason = Some(reason);
            let new =
                Condition::new(REGISTERED, "False", ConditionReason::CredentialsMissing, lacks);
            set_unprobed(&mut status.conditions, new, tick.now);
        } else if status.error_count == 0 {
            status.clear_error();
        }
    });
}
