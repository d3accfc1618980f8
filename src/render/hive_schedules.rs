//! Schedules of pools as CronJobs of Kubernetes: a Hive has no schedules itself. It writes no files.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::model::annotations::SCHEDULE;
use crate::model::pool::ClusterPool;
use crate::model::schedule::{Schedule, ScheduleLine};

use super::hive_objects::runs_all_clusters;

/// The account that the CronJobs of a namespace run as.
const ACCOUNT: &str = "clusterpool-scaler";
/// An image with `oc`. People may have to name their own mirror.
const IMAGE: &str = "quay.io/openshift/origin-cli:latest";
/// The name of a CronJob has at most 52 letters, of which its number needs some.
const LONGEST_BASE: usize = 45;

/// A CronJob for each line of all schedules, after what lets them change pools.
pub fn render_schedules<'a>(pools: impl Iterator<Item = &'a ClusterPool>) -> Vec<Value> {
    let mut namespaces: BTreeSet<&str> = BTreeSet::new();
    let mut jobs = Vec::new();
    for pool in pools {
        let annotation = pool.metadata.annotation(SCHEDULE);
        let Some(schedule) = annotation.and_then(|lines| lines.parse::<Schedule>().ok()) else {
            continue;
        };
        namespaces.insert(&pool.metadata.namespace);
        for (position, line) in schedule.lines().iter().enumerate() {
            jobs.push(render_line(pool, &schedule, line, position + 1));
        }
    }
    let mut documents: Vec<Value> = namespaces.into_iter().flat_map(render_permissions).collect();
    documents.extend(jobs);
    documents
}

/// An account that may change the pools of a namespace, and nothing else.
fn render_permissions(namespace: &str) -> [Value; 3] {
    let metadata = json!({"name": ACCOUNT, "namespace": namespace});
    let group = "rbac.authorization.k8s.io";
    let version = "rbac.authorization.k8s.io/v1";
    let rule = json!({
        "apiGroups": ["hive.openshift.io"],
        "resources": ["clusterpools"],
        "verbs": ["get", "patch"],
    });
    let role = json!({"apiGroup": group, "kind": "Role", "name": ACCOUNT});
    let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace});
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]}),
        json!({
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        }),
    ]
}

/// The CronJob that does what a line says. `number` makes its name differ.
fn render_line(
    pool: &ClusterPool,
    schedule: &Schedule,
    line: &ScheduleLine,
    number: usize,
) -> Value {
    let pool_name = &pool.metadata.name;
    let base: String = pool_name.chars().take(LONGEST_BASE).collect();
    let patch = json!({"spec": scaled_fields(pool, line)}).to_string();
    let container = json!({
        "name": "scale",
        "image": IMAGE,
        "command": ["oc", "patch", "clusterpool", pool_name, "--type=merge", "-p", patch],
    });
    let pod = json!({
        "serviceAccountName": ACCOUNT,
        "restartPolicy": "OnFailure",
        "containers": [container],
    });
    let mut spec = json!({
        "schedule": line.cron_fields(),
        "concurrencyPolicy": "Replace",
        "jobTemplate": {"spec": {"template": {"spec": pod}}},
    });
    if let Some(zone) = schedule.zone_name() {
        spec["timeZone"] = zone.into();
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": format!("{}-{number}", base.trim_end_matches('-')),
            "namespace": pool.metadata.namespace,
        },
        "spec": spec,
    })
}

/// The fields of a pool that a line sets.
fn scaled_fields(pool: &ClusterPool, line: &ScheduleLine) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut running_count = line.running_count;
    if let Some(size) = line.size {
        fields.insert("size".into(), size.into());
        if runs_all_clusters(pool) {
            running_count = Some(size);
        }
    }
    if let Some(running_count) = running_count {
        fields.insert("runningCount".into(), running_count.into());
    }
    fields
}
