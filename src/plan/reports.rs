//! Takes in what drivers say of finished jobs.

use std::collections::BTreeMap;

use crate::model::cluster::{Cluster, LEFT_BY_INSTALLATION, Power};
use crate::model::deployment::ClusterMetadata;
use crate::model::documents::{Secret, SecretValue, Stored};
use crate::model::job::{FAILED, Health, Installation, Outcome, Report, SUCCEEDED, Verb};
use crate::model::meta::{LocalRef, Meta};
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::power::{observe, set_power};
use super::{CLUSTER, life, say, warn};

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
        let (verb, cluster, pool) = (job.verb, state.cluster(&job.object), job.pool.clone());
        state.act_for(pool);
        let failed = match &report.outcome {
            Outcome::Failed { message } => Some(message.clone()),
            _ => None,
        };
        state.jobs.update(at, |job| {
            job.ended = Some(tick.now);
            job.outcome = Some(if failed.is_some() { FAILED } else { SUCCEEDED }.into());
            job.message = failed;
        });
        if let Some(cluster) = cluster {
            apply(state, cluster, verb, report.outcome, tick);
        }
    }
    state.act_for(None);
}

fn apply(state: &mut State, at: usize, verb: Verb, outcome: Outcome, tick: &Tick) {
    let Some(key) = state.clusters.get(at).map(Cluster::key) else {
        return;
    };
    match (verb, outcome) {
        (_, Outcome::Failed { message }) => {
            if verb == Verb::Provision {
                state.clusters.update(at, |cluster| {
                    cluster.restarts += 1;
                    cluster.failed_at = Some(tick.now);
                    cluster.failure = Some(message.clone());
                });
                let failed = state.clusters.get(at).filter(|one| one.attempts_limit.is_none());
                let failed =
                    failed.map(|one| one.restarts).filter(|times| *times >= life::WORRYING);
                if let Some(times) = failed {
                    let text = format!(
                        "Installation failed {times} times, and is tried for ever: set installAttemptsLimit"
                    );
                    warn(state, tick, "InstallKeepsFailing", (CLUSTER, key.clone()), text);
                }
            }
            match verb {
                Verb::Start => {
                    set_power(state, at, Power::FailedToStart, Some(message.clone()), tick);
                }
                Verb::Stop => {
                    set_power(state, at, Power::FailedToStop, Some(message.clone()), tick);
                }
                Verb::Provision | Verb::Deprovision => {}
            }
            warn(
                state,
                tick,
                "JobFailed",
                (CLUSTER, key),
                format!("{} failed: {message}", verb.name()),
            );
        }
        (Verb::Deprovision, _)
            if state.clusters.get(at).is_some_and(|one| one.deleting.is_none()) =>
        {
            state.clusters.update(at, |cluster| cluster.interrupted = false);
            let text = "What an interrupted installation left is gone".into();
            say(state, tick, "CleanedUp", (CLUSTER, key), text);
        }
        (Verb::Deprovision, _) => life::remove(state, at, tick, true),
        (Verb::Provision, Outcome::Installed(installation)) => {
            installed(state, at, installation, tick.now);
            say(state, tick, "Installed", (CLUSTER, key), "Cluster is installed and runs".into());
        }
        (Verb::Provision, Outcome::Done) => {}
        // Whether the machines do what they were told is seen by looking.
        (Verb::Start, _) => set_power(state, at, Power::WaitingForMachines, None, tick),
        (Verb::Stop, _) => set_power(state, at, Power::WaitingForStop, None, tick),
    }
}

fn installed(state: &mut State, at: usize, made: Installation, now: Time) {
    let Some(cluster) = state.clusters.get(at) else {
        return;
    };
    let (name, namespace) = (cluster.name.clone(), cluster.namespace.clone());
    let [kubeconfig, password, metadata_json] =
        LEFT_BY_INSTALLATION.map(|what| format!("{name}-{what}"));
    let metadata = ClusterMetadata {
        infra_id: made.infra_id,
        cluster_id: made.cluster_id,
        admin_kubeconfig_secret_ref: LocalRef::to(&*kubeconfig),
        admin_password_secret_ref: Some(LocalRef::to(&*password)),
        metadata_json_secret_ref: Some(LocalRef::to(&*metadata_json)),
        platform: None,
    };
    let user = SecretValue::new("kubeadmin");
    for (name, values) in [
        (kubeconfig, vec![("kubeconfig", made.kubeconfig)]),
        (password, vec![("username", user), ("password", made.password)]),
        (metadata_json, vec![("metadata.json", made.metadata)]),
    ] {
        let values = values.into_iter().map(|(key, value)| (key.into(), Stored::New(value)));
        let values: BTreeMap<String, Stored> = values.collect();
        let metadata = Meta {
            name,
            namespace: namespace.clone(),
            creation_timestamp: Some(now),
            generation: 1,
            ..Meta::default()
        };
        state.secrets.insert(Secret { metadata, values, ..Secret::default() });
    }
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
