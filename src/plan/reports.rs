//! Takes in what drivers say of finished jobs.

use std::collections::BTreeMap;

use crate::model::cluster::{Cluster, LEFT_BY_INSTALLATION, Power};
use crate::model::deployment::ClusterMetadata;
use crate::model::documents::{Secret, SecretValue, Stored};
use crate::model::event_reason::EventReason;
use crate::model::job::{
    FAILED, Failure, Health, INTERRUPTED, Installation, Outcome, Report, SUCCEEDED, Verb,
};
use crate::model::meta::{LocalRef, Meta};
use crate::model::state::{ClusterId, PoolId, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::agents::joining;
use super::power::{observe, set_power};
use super::{CLUSTER, agents, hosts, life, pause, say, warn};

/// Takes in how clusters do whose driver has done its part.
pub fn look(state: &mut State, healths: Vec<(String, Health)>, tick: &Tick) {
    for (name, health) in healths {
        let Some(at) = state.cluster(&name) else { continue };
        let pool = state.clusters.get(at).and_then(|cluster| cluster.pool.clone());
        state.act_for(pool);
        observe(state, at, &health, tick);
    }
    state.act_for(None);
}

/// Each job ends, and its cluster becomes what the job made of it.
pub fn absorb(state: &mut State, reports: Vec<Report>, tick: &Tick) {
    for report in reports {
        let found = state.live_job(&report.object).filter(|(_, job)| job.id == report.job);
        let Some((at, job)) = found else { continue };
        let (host, job) = (job.host(), job.clone());
        let (verb, cluster, pool) = (job.verb, state.cluster(&job.object), job.pool.clone());
        state.act_for(pool);
        if let Outcome::Hosts(all) = report.outcome {
            hosts::found(state, &job, all, tick);
            continue;
        }
        if let Outcome::Boots(image) = report.outcome {
            agents::boots(state, &job, image.as_deref(), tick);
            continue;
        }
        if let Outcome::Saved(made) = report.outcome {
            if let Some(cluster) = cluster {
                keep(state, cluster, &made, tick.now);
            }
            continue;
        }
        if let Outcome::Progress(said) = report.outcome {
            if let Some(cluster) = cluster {
                state.clusters.update(cluster, |one| one.progress = Some(said));
            }
            continue;
        }
        if let Some(cluster) = cluster {
            state.clusters.update(cluster, |one| match verb {
                Verb::Provision => one.progress = None,
                Verb::Health => one.asked_at = Some(tick.now),
                _ => {}
            });
        }
        let failed = match &report.outcome {
            Outcome::Failed { message, .. } | Outcome::BrokeOff { message, .. } => {
                Some(message.clone())
            }
            _ => None,
        };
        let broke_off = matches!(report.outcome, Outcome::BrokeOff { .. });
        state.jobs.update(at, |job| {
            job.ended = Some(tick.now);
            let outcome = match &failed {
                Some(_) if broke_off => INTERRUPTED,
                Some(_) => FAILED,
                None => SUCCEEDED,
            };
            job.outcome = Some(outcome.into());
            job.message = failed;
        });
        if let Some(host) = &host {
            hosts::over(state, host, verb, &report.outcome, tick);
        }
        if let Some(cluster) = cluster {
            if verb == Verb::AddNodes {
                joining::over(state, cluster, &report.outcome, tick);
            }
            apply(state, cluster, verb, report.outcome, tick);
        }
    }
    state.act_for(None);
}

fn apply(state: &mut State, at: ClusterId, verb: Verb, outcome: Outcome, tick: &Tick) {
    let Some(key) = state.clusters.get(at).map(Cluster::key) else {
        return;
    };
    match (verb, outcome) {
        (_, Outcome::Failed { message, how }) => {
            apply_failure(state, at, verb, (&message, how), tick);
        }
        (_, Outcome::BrokeOff { message, later }) => {
            let text = format!("{} broke off: {message}", verb.name());
            warn(state, tick, EventReason::JobInterrupted, (CLUSTER, key), text);
            if verb == Verb::Provision {
                interrupted(state, at, Some(message).filter(|_| later), tick);
            }
        }
        (Verb::Health, Outcome::Healthy(health)) => observe(state, at, &health, tick),
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
            Outcome::Saved(_)
            | Outcome::Progress(_)
            | Outcome::Boots(_)
            | Outcome::Healthy(_)
            | Outcome::Hosts(_),
        )
        | (Verb::Provision, Outcome::Done) => {}
        (Verb::Deprovision, _)
            if state.clusters.get(at).is_some_and(|one| one.deleting.is_none()) =>
        {
            state.clusters.update(at, |cluster| {
                (cluster.interrupted, cluster.undo_failures) = (false, 0);
                cluster.undo_failed_at = None;
            });
            let text = "What an interrupted installation left is gone".into();
            say(state, tick, EventReason::CleanedUp, (CLUSTER, key), text);
        }
        (Verb::Deprovision, _) => life::remove(state, at, tick, true),
        (Verb::Provision, Outcome::Installed(installation)) => {
            installed(state, at, &installation, tick.now);
            if let Some(pool) = pool_of(state, at) {
                pause::succeeded(state, pool, tick);
            }
            say(
                state,
                tick,
                EventReason::Installed,
                (CLUSTER, key),
                "Cluster is installed and runs".into(),
            );
        }
        // Whether the machines do what they were told is seen by looking.
        (Verb::Start, _) => set_power(state, at, Power::WaitingForMachines, None, tick),
        (Verb::Stop, _) => set_power(state, at, Power::WaitingForStop, None, tick),
    }
}

/// Notes a failed job, and gives the cluster up or lets its pool pause where trying again is of no
/// use now.
fn apply_failure(
    state: &mut State,
    cluster_id: ClusterId,
    verb: Verb,
    (message, how): (&str, Failure),
    tick: &Tick,
) {
    let Some(key) = state.clusters.get(cluster_id).map(Cluster::key) else { return };
    failed(state, cluster_id, verb, (message, how), tick);
    // Whether a cluster is healthy is asked again and again.
    if verb != Verb::Health {
        let text = format!("{} failed: {message}", verb.name());
        warn(state, tick, EventReason::JobFailed, (CLUSTER, key), text);
    }
    if verb != Verb::Provision {
        return;
    }
    match how {
        Failure::Usual => {}
        Failure::Hopeless => {
            // Without a limit it is tried again all the same, later and later.
            let cluster = state.clusters.get(cluster_id);
            if cluster.is_some_and(|cluster| cluster.attempts_limit.is_some()) {
                life::give_up(state, cluster_id, tick);
            }
        }
        Failure::NothingMade => {
            if let Some(pool_id) = pool_of(state, cluster_id) {
                pause::begin(state, pool_id, message, tick);
            }
        }
    }
}

/// What an installation left is cleaned up; what cannot go better at once counts as a failure.
fn interrupted(state: &mut State, at: ClusterId, later: Option<String>, tick: &Tick) {
    state.clusters.update(at, |one| {
        one.interrupted = true;
        if later.is_some() {
            (one.failed_at, one.failure) = (Some(tick.now), later);
        }
    });
}

/// The pool of a cluster.
fn pool_of(state: &State, cluster: ClusterId) -> Option<PoolId> {
    state.pools.find(state.clusters.get(cluster)?.pool.as_deref()?)
}

fn failed(
    state: &mut State,
    at: ClusterId,
    verb: Verb,
    (message, how): (&str, Failure),
    tick: &Tick,
) {
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    let (key, forever) = (cluster.key(), cluster.attempts_limit.is_none());
    let said = Some(message.to_owned());
    match verb {
        Verb::Provision => {
            state.clusters.update(at, |cluster| {
                // What failed before anything existed says nothing of this cluster.
                cluster.restarts += u32::from(how != Failure::NothingMade);
                cluster.failed_at = Some(tick.now);
                cluster.failure = said;
                // Something of it may be there.
                cluster.interrupted |= cluster.driver.supervised();
            });
            let times = state.clusters.get(at).map_or(0, |one| one.restarts);
            if forever && times >= life::WORRYING && how != Failure::NothingMade {
                let text = format!(
                    "Installation failed {times} times, and is tried for ever: set \
                     installAttemptsLimit"
                );
                warn(state, tick, EventReason::InstallKeepsFailing, (CLUSTER, key), text);
            }
        }
        Verb::Deprovision => {
            state.clusters.update(at, |cluster| {
                cluster.undo_failures += 1;
                cluster.undo_failed_at = Some(tick.now);
            });
        }
        Verb::Start => set_power(state, at, Power::FailedToStart, said, tick),
        Verb::Stop => set_power(state, at, Power::FailedToStop, said, tick),
        // Its hosts have it, each.
        Verb::AddNodes => {}
        // Why nobody knows how it does is said where it is said what is waited for.
        _ => drop(state.clusters.update(at, |cluster| cluster.power_message = said)),
    }
}

/// Secrets of a cluster that an installation makes; those that are there already become like it.
fn keep(state: &mut State, at: ClusterId, made: &Installation, now: Time) {
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    let (name, namespace) = (cluster.name.clone(), cluster.namespace.clone());
    let [kubeconfig, password, metadata_json] =
        LEFT_BY_INSTALLATION.map(|what| format!("{name}-{what}"));
    let user = made.password.is_some().then(|| SecretValue::new("kubeadmin"));
    for (name, values) in [
        (kubeconfig, vec![("kubeconfig", made.kubeconfig.clone())]),
        (password, vec![("username", user), ("password", made.password.clone())]),
        (
            metadata_json,
            vec![("metadata.json", made.metadata.clone()), ("nodes.json", made.nodes.clone())],
        ),
    ] {
        let values = values.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let values: BTreeMap<String, Stored> =
            values.map(|(key, value)| (key.into(), Stored::New(value))).collect();
        if values.is_empty() {
            continue;
        }
        let metadata = Meta {
            name,
            namespace: namespace.clone(),
            creation_timestamp: Some(now),
            generation: 1,
            ..Meta::default()
        };
        match state.secrets.find(&metadata.key()) {
            Some(known) => {
                state.secrets.update(known, |secret| secret.values.extend(values));
            }
            None => {
                state.secrets.insert(Secret { metadata, values, ..Secret::default() });
            }
        }
    }
}

fn installed(state: &mut State, at: ClusterId, made: &Installation, now: Time) {
    keep(state, at, made, now);
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    let [kubeconfig, password, metadata_json] =
        LEFT_BY_INSTALLATION.map(|what| format!("{}-{what}", cluster.name));
    let reference =
        |name: String, value: &Option<SecretValue>| value.as_ref().map(|_| LocalRef::to(name));
    let metadata = ClusterMetadata {
        infra_id: made.infra_id.clone(),
        cluster_id: made.cluster_id.clone(),
        admin_kubeconfig_secret_ref: LocalRef::to(kubeconfig),
        admin_password_secret_ref: reference(password, &made.password),
        metadata_json_secret_ref: reference(metadata_json, &made.metadata),
        platform: None,
    };
    state.clusters.update(at, |cluster| {
        cluster.installed_at = Some(now);
        cluster.power = Power::Running;
        (cluster.power_since, cluster.awake_since) = (Some(now), Some(now));
        (cluster.failed_at, cluster.failure) = (None, None);
        if let Some(body) = &mut cluster.body {
            body.spec.cluster_metadata = Some(metadata);
        }
    });
}
