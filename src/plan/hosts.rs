//! Decides which job the management controller of each host needs next, and records the results of
//! these jobs. A host has one job at a time. While a cluster starts or stops, its hosts are left to
//! the jobs of the cluster. This module never decides which cluster has a host.

use crate::model::annotations::{AS_FOUND, BOOT, CIPHER};
use crate::model::condition::{self, Condition, ConditionReason, set_condition_without_probe};
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::host::wipe::Wipe;
use crate::model::host::{
    BareMetalHost, CredentialsStatus, ErrorReason, HostPower, INSPECT, INSPECTED, Image,
    POWER_MANAGEMENT_ERROR, POWERED_ON, PROVISIONING_ERROR, REBOOT, REGISTERED, REGISTRATION_ERROR,
    SecretRef,
};
use crate::model::job::{CANCELLED, HostReport, Job, JobOutcome, Verb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::state::{HostId, JobId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::{cluster_hosts, probes, record_event, record_warning, wiping};

/// The keys that a Secret with credentials must have.
const CREDENTIALS: [&str; 2] = ["username", "password"];

/// Starts the job that each host needs next, and ends the jobs of hosts that are gone.
pub fn advance_hosts(state: &mut State, tick: &Tick) {
    cancel_jobs_of_removed_hosts(state, tick);
    let probes = probes::hosts_to_probe(state);
    let host_ids: Vec<HostId> = state.hosts.iter().map(|(host_id, _)| host_id).collect();
    for host_id in host_ids {
        // A host whose job ends below is free from the next round on.
        let host = state.hosts.get(host_id);
        let is_busy = host.is_some_and(|host| state.is_host_busy(&host.key().to_string()));
        update_metal3_status(state, host_id, tick);
        wiping::advance_wipe(state, host_id, tick);
        let Some(host) = state.hosts.get(host_id) else { continue };
        if is_busy || is_driven_by_cluster(state, host) {
            continue;
        }
        // Retry at once if the credentials changed since the last attempt.
        let is_early = host.next_attempt_at().is_some_and(|next| tick.now < next);
        if is_early && host.status.tried_credentials == credentials_status(state, host) {
            continue;
        }
        let job = next_job(state, host).or_else(|| due_probe(state, host, &probes, tick));
        if let Some(verb) = job {
            start_host_job(state, host_id, verb, tick);
        }
    }
}

/// Ends the jobs of hosts whose objects were deleted. Nobody would read what they report.
fn cancel_jobs_of_removed_hosts(state: &mut State, tick: &Tick) {
    let mut orphaned: Vec<JobId> = Vec::new();
    for (job_id, job) in state.jobs.iter() {
        let host = job.host();
        if job.ended.is_none() && host.is_some_and(|key| state.hosts.was_removed(&key)) {
            orphaned.push(job_id);
        }
    }
    for job_id in orphaned {
        state.jobs.update(job_id, |job| {
            job.ended = Some(tick.now);
            job.outcome = Some(CANCELLED.into());
        });
    }
}

/// The query of a host that is due although nothing is to be done to the host.
fn due_probe(
    state: &State,
    host: &BareMetalHost,
    probes: &probes::Probes,
    tick: &Tick,
) -> Option<Verb> {
    let probe_at = probes::next_probe_at(host, probes)?;
    (probe_at <= tick.now && is_reachable(state, host)).then_some(Verb::Inspect)
}

/// When a host is due for a retry, a probe or another wipe.
pub fn due_instants(state: &State, host: &BareMetalHost, probes: &probes::Probes) -> Vec<Time> {
    let mut instants = Vec::new();
    if !is_driven_by_cluster(state, host) {
        instants.extend(host_due_at(state, host, probes));
    }
    instants.extend(host.status.wipe.as_ref().and_then(Wipe::retry_at));
    instants
}

/// When something is due for a host: another attempt at what has failed, or a probe. None for a
/// host that nothing has to be done to.
fn host_due_at(state: &State, host: &BareMetalHost, probes: &probes::Probes) -> Option<Time> {
    let mut due_at = None;
    if let Some(retry_at) = host.next_attempt_at()
        && next_job(state, host).is_some()
    {
        due_at = Some(retry_at);
    }
    if let Some(probe_at) = probes::next_probe_at(host, probes)
        && is_reachable(state, host)
    {
        due_at = Some(due_at.map_or(probe_at, |retry_at| probe_at.min(retry_at)));
    }
    due_at
}

/// Whether the jobs of a cluster work on the host, because the cluster starts, stops or failed to.
/// A host is never loaded without its cluster, if there is one.
fn is_driven_by_cluster(state: &State, host: &BareMetalHost) -> bool {
    let Some(name) = host.cluster() else { return false };
    let Some(cluster) = state.find_cluster(name).and_then(|id| state.clusters.get(id)) else {
        return false;
    };
    let power = cluster.power;
    cluster.is_installed()
        && (power.is_waking() || power.is_stopping() || power.has_failed())
        && !cluster_hosts::power_hosts(state, cluster).is_empty()
}

/// Whether jobs may use the host's controller: the host is not off limits, and the credentials are
/// complete.
fn is_reachable(state: &State, host: &BareMetalHost) -> bool {
    let is_off_limits = host.is_left_alone() || host.metadata.deletion_timestamp.is_some();
    !is_off_limits && credentials_problem(state, host).is_none()
}

/// The job that a host needs next, if it needs any. The order counts: nothing is asked of a
/// controller before it has accepted the credentials, no disk is kept that is to be wiped, a machine
/// that has left its cluster is off before it boots again, and the image comes before the power, so
/// that a host which is switched on boots what it should.
fn next_job(state: &State, host: &BareMetalHost) -> Option<Verb> {
    if !is_reachable(state, host) {
        return None;
    }
    let metadata = &host.metadata;
    let is_inspection_asked = metadata.has_annotation(INSPECT) || metadata.has_annotation(AS_FOUND);
    let has_new_credentials = host.status.good_credentials != credentials_status(state, host);
    if has_new_credentials || is_inspection_asked {
        return Some(Verb::Inspect);
    }
    if host.is_to_be_wiped() {
        return Some(wiping::next_wipe_job(host));
    }
    let may_power_off = !host.spec.disable_power_off;
    // It may run its last cluster, whose addresses others may get: first of all it is off. To ask
    // whether it is would not be enough: a job of that cluster may be about to switch it on, and
    // only one that switches it off waits for the end of that job.
    if host.status.may_run_for.is_some() && may_power_off && host.power() != HostPower::Off {
        return Some(Verb::Stop);
    }
    // What its last cluster has left on its disks must not run: it boots from an image, or not at
    // all.
    let has_old_system = host.old_system().is_some();
    if metadata.has_annotation(REBOOT) && may_power_off && !has_old_system {
        return Some(Verb::Cycle);
    }
    if !is_wanted_image_attached(host) {
        if wanted_image(host).is_none() {
            return Some(Verb::Eject);
        }
        if host.spec.online && may_power_off {
            return Some(Verb::Attach);
        }
    }
    match (host.power(), host.spec.online) {
        (HostPower::Unknown, _) => Some(Verb::State),
        (HostPower::Off, true) if has_old_system => wanted_image(host).map(|_| Verb::Attach),
        (HostPower::Off, true) if may_start(state, host) => Some(Verb::Start),
        (HostPower::On, false) if may_power_off => Some(Verb::Stop),
        _ => None,
    }
}

/// The live image that the host should boot from, if there is one.
fn wanted_image(host: &BareMetalHost) -> Option<&Image> {
    host.spec.image.as_ref().filter(|image| image.is_live())
}

/// Whether the attached image is the wanted one. If none is wanted, none may be attached.
fn is_wanted_image_attached(host: &BareMetalHost) -> bool {
    let attached = host.status.provisioning.image.as_ref();
    // One that no machine has booted yet, because its controller broke off, is attached anew.
    attached.is_none_or(Image::is_live)
        && wanted_image(host).map(|image| &image.url) == attached.map(|image| &image.url)
}

/// Whether a host may be powered on. While its cluster is being installed or deleted, the host must
/// not start what is on its disk: it boots only from the image of the cluster.
fn may_start(state: &State, host: &BareMetalHost) -> bool {
    let Some(name) = host.cluster() else { return true };
    let cluster = state.find_cluster(name).and_then(|id| state.clusters.get(id));
    cluster.is_none_or(|cluster| cluster.is_installed() && cluster.deleting.is_none())
}

/// The name and the version of the Secret with the host's credentials. None if it does not exist.
fn credentials_status(state: &State, host: &BareMetalHost) -> Option<CredentialsStatus> {
    let name = host.spec.bmc.as_ref()?.credentials_name.clone();
    let namespace = host.metadata.namespace.clone();
    let secret = state.secrets.by_key(&Key::new(&*namespace, &*name))?;
    let credentials_version = secret.metadata.version();
    Some(CredentialsStatus { credentials: SecretRef { name, namespace }, credentials_version })
}

/// Why the credentials of a host cannot be used: their Secret or one of its keys is missing.
fn credentials_problem(state: &State, host: &BareMetalHost) -> Option<(ErrorReason, String)> {
    let name = &host.spec.bmc.as_ref()?.credentials_name;
    let Some(secret) = state.secrets.by_key(&Key::new(&*host.metadata.namespace, &**name)) else {
        return Some((ErrorReason::CredentialsMissing, format!("secret {name} does not exist")));
    };
    let missing = CREDENTIALS.into_iter().find(|value| !secret.values.contains_key(*value))?;
    Some((ErrorReason::CredentialsUnusable, format!("secret {name} has no {missing}")))
}

/// Starts a job on one host. The credentials that it tries are remembered, so that a failure is put
/// down to them and not to newer ones.
fn start_host_job(state: &mut State, host_id: HostId, verb: Verb, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let key = host.key();
    let name = key.to_string();
    let is_by_program = host.status.wipe.as_ref().is_some_and(Wipe::is_by_program);
    let driver = match verb {
        Verb::Wipe if is_by_program => Driver::Exec,
        _ => host.bmc_address().map_or(Driver::Missing, |address| address.driver()),
    };
    let tried_credentials = credentials_status(state, host);
    let attempt = host.status.error_count + 1;
    state.hosts.update(host_id, |host| {
        host.status.tried_credentials = tried_credentials;
        // The reason of a failure is known only if the controller reports it in this attempt.
        host.status.error_reason = None;
    });
    state.jobs.insert(Job {
        id: tick.random_uid("job", &format!("{name} {}", verb.name()), tick.revision),
        verb,
        object: name.clone(),
        hosts: vec![name],
        driver,
        attempt,
        started: tick.now,
        ..Job::default()
    });
    // Queries record no event when they start. An event follows if their answer changes something.
    if !matches!(verb, Verb::State | Verb::Inspect) {
        let message = format!("{} started", verb.name());
        record_event(state, tick, Kind::BareMetalHost, key, EventReason::JobStarted, message);
    }
}

/// Records what a job reports about hosts. It may be a job of one host or of a cluster.
pub fn take_reports(state: &mut State, job: &Job, reports: Vec<HostReport>, tick: &Tick) {
    for report in reports {
        let Some((namespace, name)) = report.host.split_once('/') else { continue };
        let Some(host_id) = state.hosts.find(&Key::new(namespace, name)) else { continue };
        // The report is about another machine if the host's controller was changed meanwhile.
        let bmc = state.hosts.get(host_id).and_then(|host| host.spec.bmc.as_ref());
        if bmc.is_none_or(|bmc| bmc.address != report.address) {
            continue;
        }
        if let Some(is_on) = report.powered_on {
            set_host_power(state, host_id, HostPower::from_is_on(is_on), "", tick);
        }
        let failure = report.error.clone();
        state.hosts.update(host_id, |host| take_report(host, report, tick));
        // A failure in a host's own job is recorded when that job ends.
        if job.host().is_none() && !failure.is_empty() {
            note_failure(state, host_id, Verb::Attach, &failure, tick);
        }
    }
}

/// Takes what a controller said into the status of a host. A report without an error proves that
/// the credentials work.
fn take_report(host: &mut BareMetalHost, report: HostReport, tick: &Tick) {
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
        let image = if report.error.is_empty() || report.booted {
            Image::live(&url)
        } else {
            // It has to be ejected one day, but the host did not boot it.
            Image { url: url.clone(), ..Image::default() }
        };
        host.status.provisioning.image = if url.is_empty() { None } else { Some(image) };
    }
    if report.booted {
        host.metadata.annotations.remove(BOOT);
    }
    if let Some(hardware) = report.hardware {
        host.status.hardware = Some(hardware);
    }
}

/// Makes it unknown whether those hosts of a job that failed are on which have left their cluster
/// meanwhile: nobody knows what the job has done to them since they were last asked.
pub fn doubt_power_of_returned_hosts(state: &mut State, job: &Job) {
    for host in &job.hosts {
        let Some((namespace, name)) = host.split_once('/') else { continue };
        let Some(host_id) = state.hosts.find(&Key::new(namespace, name)) else { continue };
        state.hosts.update(host_id, |host| {
            if host.status.may_run_for.is_some() && host.power() == HostPower::Off {
                host.forget_power();
            }
        });
    }
}

/// Records how a host's own job ended.
pub fn finish_host_job(
    state: &mut State,
    key: &Key,
    verb: Verb,
    outcome: &JobOutcome,
    tick: &Tick,
) {
    let Some(host_id) = state.hosts.find(key) else { return };
    match outcome {
        JobOutcome::BrokeOff(message) => {
            state.hosts.update(host_id, |host| {
                host.status.error_count += 1;
                host.status.last_updated = Some(tick.now);
                // Nobody knows how far it has come with the machine.
                if !verb.is_read_only() {
                    host.forget_power();
                }
            });
            let event = format!("{} was interrupted: {message}", verb.name());
            record_warning(
                state,
                tick,
                Kind::BareMetalHost,
                key.clone(),
                EventReason::JobInterrupted,
                event,
            );
        }
        JobOutcome::Failed(failure) if verb == Verb::Wipe => {
            wiping::fail_wipe(state, host_id, &failure.message, tick);
        }
        JobOutcome::Failed(failure) => note_failure(state, host_id, verb, &failure.message, tick),
        JobOutcome::Installed(_)
        | JobOutcome::Saved(_)
        | JobOutcome::Hosts(_)
        | JobOutcome::Progress(_)
        | JobOutcome::Boots(_)
        | JobOutcome::Done
        | JobOutcome::Healthy(_) => note_success(state, host_id, verb, tick),
    }
}

/// Clears the error of a host and records what the job has done, in metal3's words where metal3 has
/// an event for it.
fn note_success(state: &mut State, host_id: HostId, verb: Verb, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let key = host.key();
    let was_inspected = condition::find_condition(&host.status.conditions, INSPECTED).is_some();
    state.hosts.update(host_id, |host| {
        host.status.error_count = 0;
        host.status.last_updated = Some(tick.now);
        host.status.clear_error();
        match verb {
            Verb::Inspect => note_inspection(host, tick),
            Verb::Attach | Verb::Eject => host.status.provisioning_fail_count = 0,
            Verb::Cycle => drop(host.metadata.annotations.remove(REBOOT)),
            Verb::Wipe => wiping::finish_wipe(host, tick.now),
            _ => {}
        }
    });
    let (reason, message) = match verb {
        Verb::Inspect if was_inspected => {
            (EventReason::InspectionComplete, "Hardware was inspected")
        }
        Verb::Inspect => {
            (EventReason::Registered, "Its management controller accepted the credentials")
        }
        Verb::Cycle => (EventReason::PowerCycled, "Host was powered off and on"),
        Verb::Attach => {
            (EventReason::ProvisioningComplete, "Image is attached, host was booted from it once")
        }
        Verb::Eject => (EventReason::DeprovisioningComplete, "Image is ejected"),
        Verb::Wipe => (EventReason::Wiped, "Its disks are wiped"),
        _ => return,
    };
    record_event(state, tick, Kind::BareMetalHost, key, reason, message.into());
}

/// Records that the controller of a host accepted the credentials, and whether it reported
/// hardware.
fn note_inspection(host: &mut BareMetalHost, tick: &Tick) {
    host.metadata.annotations.remove(INSPECT);
    if host.metadata.annotations.remove(AS_FOUND).is_some() {
        host.spec.online = host.status.powered_on;
    }
    let conditions = &mut host.status.conditions;
    let registered = condition::find_condition(conditions, REGISTERED);
    if registered.is_none_or(|registered| registered.status != "True") {
        let registered = Condition::new(REGISTERED, "True", ConditionReason::Registered, "");
        set_condition_without_probe(conditions, registered, tick.now);
    }
    let (status, reason) = match host.status.hardware {
        Some(_) => ("True", ConditionReason::Inspected),
        None => ("Unknown", ConditionReason::NotSupported),
    };
    set_condition_without_probe(
        conditions,
        Condition::new(INSPECTED, status, reason, ""),
        tick.now,
    );
}

/// Counts a failure of a host. An event is recorded only if the failure differs from the last one.
fn note_failure(state: &mut State, host_id: HostId, verb: Verb, message: &str, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let key = host.key();
    let (error_type, reason) = match verb {
        Verb::Inspect => (REGISTRATION_ERROR, EventReason::RegistrationError),
        Verb::Attach | Verb::Eject => (PROVISIONING_ERROR, EventReason::ProvisioningError),
        _ => (POWER_MANAGEMENT_ERROR, EventReason::PowerManagementError),
    };
    let is_known = host.status.error_message == message && host.status.error_count > 0;
    state.hosts.update(host_id, |host| {
        let status = &mut host.status;
        status.error_count += 1;
        status.error_type = error_type.into();
        status.error_message = message.into();
        status.last_updated = Some(tick.now);
        status.provisioning_fail_count += u32::from(reason == EventReason::ProvisioningError);
        if reason == EventReason::RegistrationError {
            let unregistered =
                Condition::new(REGISTERED, "False", ConditionReason::RegistrationError, message);
            set_condition_without_probe(&mut status.conditions, unregistered, tick.now);
        }
    });
    // A failed query leaves the power state unknown; a failed command leaves it unchanged.
    if matches!(verb, Verb::State | Verb::Inspect) {
        set_host_power(state, host_id, HostPower::Unknown, message, tick);
    }
    if !is_known {
        record_warning(state, tick, Kind::BareMetalHost, key, reason, message.into());
    }
}

/// Records whether a host is on. If that is unknown, `why` has the error.
fn set_host_power(state: &mut State, host_id: HostId, power: HostPower, why: &str, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let key = host.key();
    let is_changed = host.power() != power;
    let (status, reason) = match power {
        HostPower::On => ("True", ConditionReason::PoweredOn),
        HostPower::Off => ("False", ConditionReason::PoweredOff),
        HostPower::Unknown => ("Unknown", ConditionReason::PowerManagementError),
    };
    state.hosts.update(host_id, |host| {
        // What was last known stays in the status: metal3 has no unknown there.
        if power != HostPower::Unknown {
            host.status.powered_on = power == HostPower::On;
        }
        let condition = Condition::new(POWERED_ON, status, reason, why);
        set_condition_without_probe(&mut host.status.conditions, condition, tick.now);
    });
    match power {
        HostPower::On if is_changed => {
            record_event(
                state,
                tick,
                Kind::BareMetalHost,
                key,
                EventReason::PowerOn,
                "Host is powered on".into(),
            );
        }
        HostPower::Off if is_changed => {
            record_event(
                state,
                tick,
                Kind::BareMetalHost,
                key,
                EventReason::PowerOff,
                "Host is powered off".into(),
            );
        }
        _ => {}
    }
}

/// Updates the states that metal3 defines, and the error if the credentials cannot be used.
fn update_metal3_status(state: &mut State, host_id: HostId, tick: &Tick) {
    let Some(host) = state.hosts.get(host_id) else { return };
    let problem = credentials_problem(state, host);
    let provisioning_state = provisioning_state(host);
    let operational_status = operational_status(host, problem.is_some());
    let uid = host.metadata.uid.clone();
    state.hosts.update(host_id, |host| {
        let status = &mut host.status;
        provisioning_state.clone_into(&mut status.provisioning.state);
        operational_status.clone_into(&mut status.operational_status);
        status.provisioning.id = uid;
        if let Some((reason, message)) = problem {
            // The controller was not contacted, so this does not count as a failed attempt.
            REGISTRATION_ERROR.clone_into(&mut status.error_type);
            status.error_message.clone_from(&message);
            status.error_reason = Some(reason);
            let unregistered =
                Condition::new(REGISTERED, "False", ConditionReason::CredentialsMissing, message);
            set_condition_without_probe(&mut status.conditions, unregistered, tick.now);
        } else if status.error_count == 0 {
            status.clear_error();
        }
    });
}

/// metal3's `status.provisioning.state`.
fn provisioning_state(host: &BareMetalHost) -> &'static str {
    let is_image_wanted = wanted_image(host).is_some();
    if host.spec.bmc.is_none() {
        "unmanaged"
    } else if host.status.good_credentials.is_none() {
        "registering"
    } else if !is_image_wanted && host.status.provisioning.image.is_some() {
        "deprovisioning"
    } else if is_image_wanted && is_wanted_image_attached(host) {
        "provisioned"
    } else if is_image_wanted && host.spec.online {
        "provisioning"
    } else if host.spec.externally_provisioned {
        "externally provisioned"
    } else {
        "available"
    }
}

/// metal3's `status.operationalStatus`.
fn operational_status(host: &BareMetalHost, has_credentials_problem: bool) -> &'static str {
    if host.spec.bmc.is_none() {
        "discovered"
    } else if host.is_left_alone() {
        "detached"
    } else if has_credentials_problem || host.status.error_count > 0 {
        "error"
    } else {
        "OK"
    }
}
