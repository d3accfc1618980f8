//! Acts: one file per provider. Reports what became of jobs, decides nothing.

mod fake;
pub mod process;

use std::collections::BTreeMap;

use crate::model::cluster::Driver;
use crate::model::job::{Health, Job, Report};
use crate::model::time::Time;

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

/// How a cluster does that was told to start or stop.
pub fn health(
    driver: Driver,
    annotations: &BTreeMap<String, String>,
    name: &str,
) -> Option<Health> {
    match driver {
        Driver::Fake => Some(fake::health(annotations, name)),
        Driver::Missing => None,
    }
}

/// When a job will be over, if its driver knows.
pub fn due(work: &Work<'_>) -> Option<Time> {
    match work.job.driver {
        Driver::Fake => Some(fake::due(work)),
        Driver::Missing => None,
    }
}
