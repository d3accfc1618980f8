//! Decides how long a job may take, and reports those that took longer as failed. It never ends a
//! job itself.

use std::collections::BTreeMap;

use crate::model::annotations::{INSTALL_TIMEOUT, read_duration};
use crate::model::job::{Job, JobOutcome, JobReport, Verb};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};

/// How long a job of a verb may take, given the annotations of its cluster.
fn time_limit(verb: Verb, annotations: &BTreeMap<String, String>) -> Span {
    match verb {
        Verb::Provision => read_duration(annotations, INSTALL_TIMEOUT),
        Verb::Deprovision => Span::hours(2),
        Verb::State | Verb::Eject | Verb::Inspect => Span::minutes(5),
        Verb::Attach => Span::minutes(30),
        Verb::AddNodes => Span::minutes(90),
        Verb::Wipe => Span::hours(6),
        _ => Span::minutes(20),
    }
}

/// When a job has to be over. `annotations` are those of the cluster that it works on.
pub fn deadline(job: &Job, annotations: &BTreeMap<String, String>) -> Time {
    job.started.plus(time_limit(job.verb, annotations))
}

/// The failure to report for a job that is past its deadline and whose driver says nothing. While
/// the clock has jumped no job is late, because nobody knows how much time has really passed.
pub fn overdue_report(
    job: &Job,
    annotations: &BTreeMap<String, String>,
    tick: &Tick,
) -> Option<JobReport> {
    if tick.clock_jumped || tick.now < deadline(job, annotations) {
        return None;
    }
    let limit = time_limit(job.verb, annotations);
    Some(JobReport {
        job: job.id,
        object: job.object.clone(),
        outcome: JobOutcome::failed(format!("not finished after {limit}")),
    })
}
