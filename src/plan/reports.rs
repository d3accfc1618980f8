//! Takes in what drivers report of their jobs: each job that is over ends, and its cluster or host
//! becomes what the job made of it. It starts no job.

use std::collections::BTreeMap;

use crate::model::cluster::{Cluster, INSTALLATION_SECRETS, Power};
use crate::model::deployment::ClusterMetadata;
use crate::model::documents::{Secret, SecretValue, StoredValue};
use crate::model::event_reason::EventReason;
use crate::model::failure::{Failure, FailureClass};
use crate::model::job::{
    ClusterHealth, FAILED, INTERRUPTED, Installation, Job, JobOutcome, JobReport, SUCCEEDED, Verb,
};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef, Meta};
use crate::model::state::{ClusterId, JobId, PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::agents::joining;
use super::buckets::is_failed_stale;
use super::life::Removal;
use super::pause::PauseEnd;
use super::power::{note_answer_of_platform, set_power, take_health};
use super::{agents, hosts, life, pause, record_event, record_warning};

/// Takes in how clusters do that are waking or going to sleep, by their names.
pub fn take_healths(state: &mut State, healths: Vec<(String, ClusterHealth)>, tick: &Tick) {
    for (name, health) in healths {
        let Some(cluster_id) = state.find_cluster(&name) else { continue };
        let pool = state.clusters.get(cluster_id).and_then(|cluster| cluster.pool.clone());
        state.act_for(pool);
        take_health(state, cluster_id, &health, tick);
    }
    state.act_for(None);
}

/// Takes in what drivers report of their jobs. Reports of jobs that are not live any more are
/// dropped.
pub fn take_job_reports(state: &mut State, reports: Vec<JobReport>, tick: &Tick) {
    for report in reports {
        let Some((job_id, live_job)) = state.live_job(&report.object) else { continue };
        if live_job.id != report.job {
            continue;
        }
        let job = live_job.clone();
        state.act_for(job.pool.clone());
        if let Some(outcome) = take_interim_report(state, &job, report.outcome, tick) {
            finish_job(state, job_id, &job, outcome, tick);
        }
    }
    state.act_for(None);
}

/// Takes in what is reported of a job that goes on. Any other outcome ends the job and is returned.
fn take_interim_report(
    state: &mut State,
    job: &Job,
    outcome: JobOutcome,
    tick: &Tick,
) -> Option<JobOutcome> {
    let cluster_id = state.find_cluster(&job.object);
    match outcome {
        JobOutcome::Hosts(reports) => hosts::take_reports(state, job, reports, tick),
        JobOutcome::Boots(image) => {
            agents::update_booting_agents(state, job, image.as_deref(), tick);
        }
        JobOutcome::Saved(installation) => {
            if let Some(cluster_id) = cluster_id {
                keep_secrets(state, cluster_id, &installation, tick.now);
            }
        }
        JobOutcome::Progress(progress) => {
            if let Some(cluster_id) = cluster_id {
                state.clusters.update(cluster_id, |cluster| cluster.progress = Some(progress));
            }
        }
        last => return Some(last),
    }
    None
}

/// Ends a job, and tells what came of it to the host and to the cluster that it worked on.
fn finish_job(state: &mut State, job_id: JobId, job: &Job, outcome: JobOutcome, tick: &Tick) {
    let cluster_id = state.find_cluster(&job.object);
    if let Some(cluster_id) = cluster_id {
        state.clusters.update(cluster_id, |cluster| match job.verb {
            Verb::Provision => {
                cluster.progress = None;
                cluster.attempt_since = None;
            }
            Verb::Health => cluster.asked_at = Some(tick.now),
            _ => {}
        });
    }
    let (result, message) = match &outcome {
        JobOutcome::Failed(failure) => (FAILED, Some(failure.message.clone())),
        JobOutcome::BrokeOff(message) => (INTERRUPTED, Some(message.clone())),
        _ => (SUCCEEDED, None),
    };
    state.jobs.update(job_id, |job| {
        job.ended = Some(tick.now);
        job.outcome = Some(result.into());
        job.message = message;
        job.class = class_of_failure(job.verb, &outcome);
    });
    if result != SUCCEEDED {
        hosts::doubt_power_of_returned_hosts(state, job);
    }
    if let Some(host) = job.host() {
        hosts::finish_host_job(state, &host, job.verb, &outcome, tick);
    }
    if let Some(cluster_id) = cluster_id {
        if job.verb == Verb::AddNodes {
            joining::finish_join(state, cluster_id, &outcome, tick);
        }
        apply_outcome(state, cluster_id, job.verb, outcome, tick);
    }
}

/// What kind of cause a failure had. Only where clusters are made and destroyed are causes told
/// apart.
fn class_of_failure(verb: Verb, outcome: &JobOutcome) -> Option<FailureClass> {
    match (verb, outcome) {
        (Verb::Provision | Verb::Deprovision, JobOutcome::Failed(failure)) => Some(failure.class),
        _ => None,
    }
}

/// Makes of a cluster what a job that is over has made of it.
fn apply_outcome(
    state: &mut State,
    cluster_id: ClusterId,
    verb: Verb,
    outcome: JobOutcome,
    tick: &Tick,
) {
    let Some(key) = state.clusters.get(cluster_id).map(Cluster::key) else { return };
    match (verb, outcome) {
        (_, JobOutcome::Failed(failure)) => {
            apply_failure(state, cluster_id, verb, &failure, tick);
        }
        (_, JobOutcome::BrokeOff(message)) => {
            let event = format!("{} was interrupted: {message}", verb.name());
            record_warning(
                state,
                tick,
                Kind::ClusterDeployment,
                key,
                EventReason::JobInterrupted,
                event,
            );
            if verb == Verb::Provision {
                // What it left is cleaned up.
                state.clusters.update(cluster_id, |cluster| cluster.interrupted = true);
            }
        }
        (Verb::Health, JobOutcome::Healthy(health)) => {
            take_health(state, cluster_id, &health, tick);
        }
        (
            Verb::AddNodes
            | Verb::Health
            | Verb::Cycle
            | Verb::State
            | Verb::Attach
            | Verb::Eject
            | Verb::Inspect
            | Verb::Wipe,
            _,
        )
        | (
            _,
            JobOutcome::Saved(_)
            | JobOutcome::Progress(_)
            | JobOutcome::Boots(_)
            | JobOutcome::Healthy(_)
            | JobOutcome::Hosts(_),
        )
        | (Verb::Provision, JobOutcome::Done) => {}
        (Verb::Deprovision, _) => note_deprovision(state, cluster_id, tick),
        (Verb::Provision, JobOutcome::Installed(installation)) => {
            note_installation(state, cluster_id, &installation, tick.now);
            if let Some(pool_id) = pool_of(state, cluster_id) {
                pause::end_pause(state, pool_id, PauseEnd::Success, tick);
            }
            record_event(
                state,
                tick,
                Kind::ClusterDeployment,
                key,
                EventReason::Installed,
                "Cluster is installed and runs".into(),
            );
        }
        // Whether the machines do what they were told is seen by looking.
        (Verb::Start, _) => note_power_order(state, cluster_id, Power::WaitingForMachines, tick),
        (Verb::Stop, _) => note_power_order(state, cluster_id, Power::WaitingForStop, tick),
    }
}

/// Notes that the platform has told the machines of a cluster to start or to stop.
fn note_power_order(state: &mut State, cluster_id: ClusterId, power: Power, tick: &Tick) {
    note_answer_of_platform(state, cluster_id, tick);
    set_power(state, cluster_id, power, None, tick);
}

/// What was made is destroyed: a deleted cluster goes, any other one is installed anew.
fn note_deprovision(state: &mut State, cluster_id: ClusterId, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    if cluster.deleting.is_some() {
        return life::remove_cluster(state, cluster_id, Removal::AfterDeprovision, tick);
    }
    let key = cluster.key();
    let has_failed = cluster.failed_at.is_some();
    state.clusters.update(cluster_id, |cluster| {
        cluster.interrupted = false;
        cluster.undo_failures = 0;
        cluster.undo_failed_at = None;
        cluster.undo_failure = None;
        cluster.undo_class = None;
        cluster.undo_blocked = None;
    });
    let installation = if has_failed { "a failed" } else { "an interrupted" };
    let message = format!("The remains of {installation} installation are gone");
    record_event(state, tick, Kind::ClusterDeployment, key, EventReason::CleanedUp, message);
}

/// Notes a failed job, and gives the cluster up or lets its pool pause where trying again is of no
/// use now.
fn apply_failure(
    state: &mut State,
    cluster_id: ClusterId,
    verb: Verb,
    failure: &Failure,
    tick: &Tick,
) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let key = cluster.key();
    let is_given_up = verb == Verb::Provision && is_of_no_use(cluster, failure);
    note_failure(state, cluster_id, verb, failure, tick);
    // Whether a cluster is healthy is asked again and again.
    if verb != Verb::Health {
        let event = format!("{} failed: {}", verb.name(), failure.message);
        record_warning(state, tick, Kind::ClusterDeployment, key, EventReason::JobFailed, event);
    }
    if verb != Verb::Provision {
        return;
    }
    if is_given_up {
        return life::give_up_cluster(state, cluster_id, tick);
    }
    if failure.pauses_pool()
        && !is_outdated(state, cluster_id)
        && let Some(pool_id) = pool_of(state, cluster_id)
    {
        pause::begin_pause(state, pool_id, failure.class, &failure.message, tick);
    }
}

/// Whether a cluster that failed is of an earlier version of its pool, which replaces it. How it
/// failed says nothing of the next one, which may be what was corrected for.
fn is_outdated(state: &State, cluster_id: ClusterId) -> bool {
    let Some(cluster) = state.clusters.get(cluster_id) else { return false };
    let pool = pool_of(state, cluster_id).and_then(|pool_id| state.pools.get(pool_id));
    pool.is_some_and(|pool| is_failed_stale(state, pool, cluster))
}

/// Whether it is of no use to try a cluster again after a failure of its installation: the driver
/// says so, or the same input was refused before, and nothing else has failed since. No cluster is
/// given up for what its site or platform is to blame for. Where nobody but its owner can change a
/// cluster, and has set no limit, it is tried again all the same, later and later.
fn is_of_no_use(cluster: &Cluster, failure: &Failure) -> bool {
    if failure.class != FailureClass::InputWrong && !failure.uses_up_attempt() {
        return false;
    }
    let is_refused_again = failure.input.is_some() && failure.input == cluster.refused_input;
    let has_limit = cluster.attempts_limit.is_some() || cluster.once;
    (failure.is_hopeless && has_limit)
        || (is_refused_again && (has_limit || cluster.pool.is_some()))
}

fn pool_of(state: &State, cluster_id: ClusterId) -> Option<PoolId> {
    state.pools.find(state.clusters.get(cluster_id)?.pool.as_deref()?)
}

/// Writes down with a cluster that a job of it failed, and when it is tried again.
fn note_failure(
    state: &mut State,
    cluster_id: ClusterId,
    verb: Verb,
    failure: &Failure,
    tick: &Tick,
) {
    match verb {
        Verb::Provision => {
            note_failed_installation(state, cluster_id, failure, tick);
        }
        Verb::Deprovision => {
            state.clusters.update(cluster_id, |cluster| {
                cluster.undo_failures += 1;
                cluster.undo_failed_at = Some(tick.now);
                cluster.undo_failure = Some(failure.message.clone());
                cluster.undo_class = Some(failure.class);
                if failure.is_hopeless {
                    cluster.undo_blocked = Some(failure.message.clone());
                }
            });
        }
        Verb::Start => {
            if failure.class == FailureClass::CloudAway {
                // The platform itself did not answer.
                state.clusters.update(cluster_id, |cluster| cluster.platform_answers_since = None);
            }
            let message = Some(failure.message.clone());
            set_power(state, cluster_id, Power::FailedToStart, message, tick);
        }
        Verb::Stop => {
            let message = Some(failure.message.clone());
            set_power(state, cluster_id, Power::FailedToStop, message, tick);
        }
        // It is noted with each of the hosts that were to join.
        Verb::AddNodes => {}
        // Why nobody knows how it does is shown where it is shown what it waits for.
        _ => {
            state.clusters.update(cluster_id, |cluster| {
                cluster.power_message = Some(failure.message.clone());
            });
        }
    }
}

/// Notes a failed installation with its cluster. It counts as an attempt only if the cluster may
/// have had a part in it. If nobody has limited the attempts, repeated failures leave a warning.
fn note_failed_installation(
    state: &mut State,
    cluster_id: ClusterId,
    failure: &Failure,
    tick: &Tick,
) {
    let is_counted = failure.uses_up_attempt();
    state.clusters.update(cluster_id, |cluster| {
        if is_counted {
            cluster.restarts += 1;
            cluster.uncounted_failures = 0;
        } else {
            cluster.uncounted_failures += 1;
        }
        cluster.failed_at = Some(tick.now);
        cluster.failure = Some(failure.message.clone());
        cluster.failure_class = Some(failure.class);
        cluster.failure_reason = None;
        cluster.refused_input.clone_from(&failure.input);
        // Something of it may be there.
        cluster.interrupted |= failure.is_made && cluster.driver.is_supervised();
    });
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let times = cluster.restarts;
    if is_counted && times >= life::FAILURES_WORTH_A_WARNING && cluster.attempts_limit.is_none() {
        let key = cluster.key();
        let event = format!(
            "Installation failed {times} times and is retried without end: set installAttemptsLimit"
        );
        record_warning(
            state,
            tick,
            Kind::ClusterDeployment,
            key,
            EventReason::InstallKeepsFailing,
            event,
        );
    }
}

/// Keeps what the installation of a cluster has made so far. Needs its Secrets.
pub fn keep_installation(state: &mut State, cluster: &str, installation: &Installation, now: Time) {
    if let Some(cluster_id) = state.find_cluster(cluster) {
        keep_secrets(state, cluster_id, installation, now);
    }
}

/// Keeps what an installation has made that has to be secret: the kubeconfig, the password of the
/// administrator, and what destroying the cluster needs. Secrets that exist already are
/// overwritten.
fn keep_secrets(state: &mut State, cluster_id: ClusterId, installation: &Installation, now: Time) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let namespace = cluster.namespace.clone();
    let [kubeconfig, password, metadata_json] = secret_names(cluster);
    let user = installation.password.is_some().then(|| SecretValue::new("kubeadmin"));
    for (name, values) in [
        (kubeconfig, vec![("kubeconfig", installation.kubeconfig.clone())]),
        (password, vec![("username", user), ("password", installation.password.clone())]),
        (
            metadata_json,
            vec![
                ("metadata.json", installation.metadata.clone()),
                ("nodes.json", installation.nodes.clone()),
            ],
        ),
    ] {
        let mut stored: BTreeMap<String, StoredValue> = BTreeMap::new();
        for (key, value) in values {
            if let Some(value) = value {
                stored.insert(key.into(), StoredValue::New(value));
            }
        }
        if !stored.is_empty() {
            keep_secret(state, Key::new(&*namespace, name), stored, now);
        }
    }
}

/// Adds values to a Secret, which is made if it is not there.
fn keep_secret(state: &mut State, key: Key, values: BTreeMap<String, StoredValue>, now: Time) {
    if let Some(secret_id) = state.secrets.find(&key) {
        state.secrets.update(secret_id, |secret| secret.values.extend(values));
        return;
    }
    let metadata = Meta {
        name: key.name,
        namespace: key.namespace,
        creation_timestamp: Some(now),
        generation: 1,
        ..Meta::default()
    };
    state.secrets.insert(Secret { metadata, values, ..Secret::default() });
}

/// The names of the Secrets with the kubeconfig, the password and metadata.json.
fn secret_names(cluster: &Cluster) -> [String; 3] {
    INSTALLATION_SECRETS.map(|suffix| format!("{}-{suffix}", cluster.name))
}

/// Notes that a cluster is installed and runs, and keeps what the installation left.
fn note_installation(
    state: &mut State,
    cluster_id: ClusterId,
    installation: &Installation,
    now: Time,
) {
    keep_secrets(state, cluster_id, installation, now);
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let [kubeconfig, password, metadata_json] = secret_names(cluster);
    let password = installation.password.is_some().then(|| LocalRef::to_name(password));
    let metadata_json = installation.metadata.is_some().then(|| LocalRef::to_name(metadata_json));
    let metadata = ClusterMetadata {
        infra_id: installation.infra_id.clone(),
        cluster_id: installation.cluster_id.clone(),
        admin_kubeconfig_secret_ref: LocalRef::to_name(kubeconfig),
        admin_password_secret_ref: password,
        metadata_json_secret_ref: metadata_json,
        platform: None,
    };
    state.clusters.update(cluster_id, |cluster| {
        cluster.installed_at = Some(now);
        cluster.power = Power::Running;
        cluster.power_since = Some(now);
        cluster.awake_since = Some(now);
        cluster.failed_at = None;
        cluster.failure = None;
        cluster.failure_class = None;
        cluster.failure_reason = None;
        cluster.refused_input = None;
        cluster.uncounted_failures = 0;
        if let Some(body) = &mut cluster.body {
            body.spec.cluster_metadata = Some(metadata);
        }
    });
}
