//! Simulates clusters in process, timed by the clock of the run: a job is done when its duration is
//! over. Annotations of the cluster steer durations and failures. Starts no programs, and never
//! keeps anything of its own: everything follows from the job and the annotations.

use std::collections::BTreeMap;

use serde_json::json;

use crate::model::annotations::{
    FAKE_DEPROVISION_DURATION, FAKE_FAIL_EVERY, FAKE_HEALTH, FAKE_INSTALL_DURATION,
    FAKE_RESUME_DURATION, FAKE_STOP_DURATION, read_duration,
};
use crate::model::documents::SecretValue;
use crate::model::job::{ClusterHealth, Installation, JobOutcome, JobReport, Verb};
use crate::model::power::SETTLE_TIME;
use crate::model::time::{Span, Time};

use super::LiveJob;

/// When a job will be done.
pub fn completion_time(work: &LiveJob<'_>) -> Time {
    let annotation = match work.job.verb {
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
    let duration = read_duration(&work.annotations, annotation);
    // At least a microsecond, so that a job is never done in the pass that started it.
    work.job.started.plus(duration.max(Span(1)))
}

/// How a job ended, if its duration is over.
pub fn collect_report(work: &LiveJob<'_>, now: Time) -> Option<JobReport> {
    if now < completion_time(work) {
        return None;
    }
    let outcome = match work.job.verb {
        Verb::Provision if is_made_to_fail(work) => JobOutcome::failed(format!(
            "simulated failure of provision job {} of its pool",
            work.job.ordinal
        )),
        Verb::Provision => JobOutcome::Installed(simulated_installation(work)),
        Verb::Start if is_steered_to(&work.annotations, "start-fails") => {
            simulated_failure("start")
        }
        Verb::Stop if is_steered_to(&work.annotations, "stop-fails") => simulated_failure("stop"),
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
        | Verb::Wipe => JobOutcome::Done,
    };
    Some(JobReport { job: work.job.id, object: work.job.object.clone(), outcome })
}

fn simulated_failure(verb: &str) -> JobOutcome {
    JobOutcome::failed(format!("simulated failure to {verb} machines"))
}

/// Whether `poolctl.dev/fake-health` has this value.
fn is_steered_to(annotations: &BTreeMap<String, String>, value: &str) -> bool {
    annotations.get(FAKE_HEALTH).is_some_and(|annotation| annotation == value)
}

/// The health of a cluster with this name. Simulated machines do at once what they are told, unless
/// `poolctl.dev/fake-health` names what is to be late: machines, nodes, operators or settle.
pub fn simulated_health(annotations: &BTreeMap<String, String>, name: &str) -> ClusterHealth {
    let machines = if is_steered_to(annotations, "machines") {
        vec![format!("{name}-master-0"), format!("{name}-worker-1")]
    } else {
        Vec::new()
    };
    let settle = if is_steered_to(annotations, "settle") { SETTLE_TIME } else { Span::default() };
    ClusterHealth {
        machines,
        nodes_ready: !is_steered_to(annotations, "nodes"),
        operators_ready: !is_steered_to(annotations, "operators"),
        settle,
    }
}

/// Whether this is one of the provision jobs of its pool that are to fail: every n-th, as
/// `poolctl.dev/fake-fail-every` says.
fn is_made_to_fail(work: &LiveJob<'_>) -> bool {
    let annotation = work.annotations.get(FAKE_FAIL_EVERY);
    let interval = annotation.and_then(|value| value.parse::<u32>().ok()).unwrap_or(0);
    interval > 0 && work.job.ordinal > 0 && work.job.ordinal.is_multiple_of(interval)
}

/// What an installation would leave: a kubeconfig, a password and metadata.json.
fn simulated_installation(work: &LiveJob<'_>) -> Installation {
    let name = work.cluster_name;
    // 128 random bits as 32 digits: whatever has to differ between clusters is cut from them.
    let id = format!("{:032x}", work.job.id.0);
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
