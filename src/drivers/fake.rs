//! Simulated clusters, in process, timed by the clock of the run: a job is done when its duration
//! is over. Annotations of the cluster steer durations and failures.

use std::collections::BTreeMap;

use serde_json::json;

use crate::model::annotations::{
    FAKE_DEPROVISION_DURATION, FAKE_FAIL_EVERY, FAKE_HEALTH, FAKE_INSTALL_DURATION,
    FAKE_RESUME_DURATION, FAKE_STOP_DURATION, duration_of,
};
use crate::model::documents::SecretValue;
use crate::model::job::{Health, Installation, Outcome, Report, Verb};
use crate::model::power::SETTLE;
use crate::model::time::{Span, Time};

use super::Work;

pub fn completion_time(work: &Work<'_>) -> Time {
    let name = match work.job.verb {
        Verb::Provision | Verb::AddNodes => FAKE_INSTALL_DURATION,
        Verb::Deprovision => FAKE_DEPROVISION_DURATION,
        Verb::Start => FAKE_RESUME_DURATION,
        Verb::Stop
        | Verb::Health
        | Verb::Cycle
        | Verb::State
        | Verb::Attach
        | Verb::Eject
        | Verb::Inspect
        | Verb::Wipe => FAKE_STOP_DURATION,
    };
    let duration = duration_of(&work.annotations, name);
    // Never over in the pass that started it, however short.
    work.job.started.plus(duration.max(Span(1)))
}

pub fn collect_report(work: &Work<'_>, now: Time) -> Option<Report> {
    if now < completion_time(work) {
        return None;
    }
    let outcome = match work.job.verb {
        Verb::Provision if fails(work) => Outcome::failed(format!(
            "simulated failure of provision job {} of its pool",
            work.job.ordinal
        )),
        Verb::Provision => Outcome::Installed(installation(work)),
        Verb::Start if steered(&work.annotations, "start-fails") => failed("start"),
        Verb::Stop if steered(&work.annotations, "stop-fails") => failed("stop"),
        Verb::Deprovision
        | Verb::Start
        | Verb::Stop
        | Verb::Health
        | Verb::Cycle
        | Verb::State
        | Verb::Attach
        | Verb::Eject
        | Verb::Inspect
        | Verb::AddNodes
        | Verb::Wipe => Outcome::Done,
    };
    Some(Report { job: work.job.id, object: work.job.object.clone(), outcome })
}

fn failed(what: &str) -> Outcome {
    Outcome::failed(format!("simulated failure to {what} machines"))
}

fn steered(annotations: &BTreeMap<String, String>, how: &str) -> bool {
    annotations.get(FAKE_HEALTH).is_some_and(|value| value == how)
}

/// Simulated machines do what they are told, unless `poolctl.dev/fake-health` says otherwise.
pub fn simulated_health(annotations: &BTreeMap<String, String>, name: &str) -> Health {
    let is = |how| steered(annotations, how);
    let machines = if is("machines") {
        vec![format!("{name}-master-0"), format!("{name}-worker-1")]
    } else {
        Vec::new()
    };
    let settle = if is("settle") { SETTLE } else { Span::default() };
    Health { machines, nodes_ready: !is("nodes"), operators_ready: !is("operators"), settle }
}

fn fails(work: &Work<'_>) -> bool {
    let every = work.annotations.get(FAKE_FAIL_EVERY);
    let every = every.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    every > 0 && work.job.ordinal > 0 && work.job.ordinal.is_multiple_of(every)
}

/// What an installation would leave: a kubeconfig, a password and metadata.json.
fn installation(work: &Work<'_>) -> Installation {
    let (name, id) = (work.cluster_name, format!("{:032x}", work.job.id.0));
    let infra_id = format!("{name}-{}", &id[..5]);
    let cluster_id = work.job.id.to_string();
    let server = format!("https://api.{name}.{}:6443", work.base_domain);
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "contexts": [{"name": "admin", "context": {"cluster": name, "user": "admin"}}],
        "current-context": "admin",
        "users": [{"name": "admin", "user": {"token": format!("fake-{id}")}}],
    });
    let metadata = json!({"clusterName": name, "clusterID": cluster_id, "infraID": infra_id});
    let password = [&id[..5], &id[5..10], &id[10..15], &id[15..20]].join("-");
    Installation {
        infra_id,
        cluster_id,
        kubeconfig: Some(SecretValue::new(format!("{kubeconfig:#}\n"))),
        password: Some(SecretValue::new(password)),
        metadata: Some(SecretValue::new(metadata.to_string())),
        nodes: None,
    }
}
