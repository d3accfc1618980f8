//! Deadlines of jobs: what takes longer has failed.

use std::collections::BTreeMap;

use crate::model::annotations::{INSTALL_TIMEOUT, duration_of};
use crate::model::job::{Job, Outcome, Report, Verb};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};

/// How long a job may take.
fn limit(verb: Verb, annotations: &BTreeMap<String, String>) -> Span {
    match verb {
        Verb::Provision => duration_of(annotations, INSTALL_TIMEOUT),
        Verb::Deprovision => Span::hours(2),
        Verb::State | Verb::Eject | Verb::Inspect => Span::minutes(5),
        Verb::Attach => Span::minutes(30),
        Verb::AddNodes => Span::minutes(90),
        Verb::Wipe => Span::hours(6),
        _ => Span::minutes(20),
    }
}

pub fn deadline(job: &Job, annotations: &BTreeMap<String, String>) -> Time {
    job.started.plus(limit(job.verb, annotations))
}

/// The report of a job that its driver says nothing of, when it has taken too long. A clock that
/// was moved lets nobody be late.
pub fn overdue(job: &Job, annotations: &BTreeMap<String, String>, tick: &Tick) -> Option<Report> {
    let late = !tick.jumped && tick.now >= deadline(job, annotations);
    late.then(|| Report {
        job: job.id,
        object: job.object.clone(),
        outcome: Outcome::failed(format!("not over after {}", limit(job.verb, annotations))),
    })
}
