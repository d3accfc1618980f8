//! Acts: one file per provider. Reports what became of jobs, decides nothing.

mod fake;
pub mod process;

use std::collections::BTreeMap;

use crate::model::cluster::Driver;
use crate::model::job::{Health, Job, Report};
use crate::model::meta::{Steering, is_true};
use crate::model::time::{Span, Time};

/// A live job, with what its driver goes by.
pub struct Work<'a> {
    pub job: &'a Job,
    pub cluster_name: &'a str,
    pub base_domain: &'a str,
    pub annotations: BTreeMap<String, String>,
}

/// What became of a job, if it is over.
pub fn collect(work: &Work<'_>, now: Time) -> Option<Report> {
    match work.job.driver {
        Driver::Fake => fake::collect(work, now),
        Driver::Missing => None,
    }
}

/// On a cluster, as a label: it counts as running before its operators do.
const SKIP_OPERATORS: &str = "hive.openshift.io/resume-skips-cluster-operators";

/// How a cluster does that was told to start or stop.
pub fn health(driver: Driver, steering: &Steering, name: &str) -> Option<Health> {
    let health = match driver {
        Driver::Fake => fake::health(&steering.annotations, name),
        Driver::Missing => return None,
    };
    let skips = steering.labels.get(SKIP_OPERATORS).is_some_and(|value| is_true(value));
    if skips {
        return Some(Health { operators_ready: true, settle: Span::default(), ..health });
    }
    Some(health)
}

/// When a job will be over, if its driver knows.
pub fn due(work: &Work<'_>) -> Option<Time> {
    match work.job.driver {
        Driver::Fake => Some(fake::due(work)),
        Driver::Missing => None,
    }
}
