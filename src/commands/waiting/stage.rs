//! How far the job is that a command waits for: how long it runs, how long such jobs of its pool
//! usually take, and what its program said last. It reads, and decides nothing.

use crate::causes::usual_duration;
use crate::model::cluster::Cluster;
use crate::model::job::{Job, Verb};
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::store::{Filter, Store};

/// Jobs of a pool from which it is told how long the next one takes.
const RECENT_JOBS: u32 = 20;
const MINUTE: Span = Span::minutes(1);
/// From here on durations are told in minutes.
const LONG_DURATION: Span = Span::minutes(2);

/// How far a job is, in words. All are empty if no job runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// The cluster that the job works on.
    cluster: String,
    /// `is installing, 18 of about 41 min`.
    activity: String,
    /// The last line of the installer; empty if it has none.
    pub detail: String,
}

impl Stage {
    /// `lab-x is installing, 18 of about 41 min`; empty if no job runs.
    pub fn sentence(&self) -> String {
        if self.activity.is_empty() {
            return String::new();
        }
        format!("{} {}", self.cluster, self.activity)
    }

    /// The stage for guests, to whom the cluster may not belong.
    #[must_use]
    pub fn without_names(self) -> Self {
        Self { cluster: "a cluster".to_owned(), activity: self.activity, detail: String::new() }
    }
}

/// How far the work is that an object waits for: that of its cluster, or else that of its pool.
pub fn find_stage_of_object(store: &Store, object: &Object, now: Time) -> Result<Stage, Refusal> {
    let mut named = object.references();
    named.push((object.kind(), object.key()));
    let cluster = named.iter().find(|(kind, _)| *kind == Kind::ClusterDeployment);
    let pool = named.iter().find(|(kind, _)| *kind == Kind::ClusterPool);
    match (cluster, pool) {
        (Some((_, cluster)), _) => find_stage(store, &store.live_jobs()?, Some(&cluster.name), now),
        (None, Some((_, pool))) => find_stage(store, &store.live_jobs_of_pool(pool)?, None, now),
        (None, None) => Ok(Stage::default()),
    }
}

/// How far the job of a cluster is. Without a cluster it is that of the installation that began
/// first.
pub fn find_stage(
    store: &Store,
    live_jobs: &[Job],
    cluster: Option<&str>,
    now: Time,
) -> Result<Stage, Refusal> {
    let job = if let Some(name) = cluster {
        live_jobs.iter().find(|job| job.cluster() == Some(name))
    } else {
        let installations = live_jobs.iter().filter(|job| job.verb == Verb::Provision);
        installations.min_by_key(|job| job.started)
    };
    let Some(job) = job else { return Ok(Stage::default()) };
    let usual = match job.pool.as_deref() {
        Some(pool) => {
            usual_duration(&store.last_jobs_of_pool(pool, job.verb, RECENT_JOBS)?, job.verb)
        }
        None => None,
    };
    let activity = match job.verb {
        Verb::Provision => "is installing",
        Verb::Deprovision => "is being destroyed",
        Verb::Start => "is waking",
        Verb::Stop => "is being stopped",
        Verb::Health => "is checked",
        Verb::AddNodes => "gets nodes",
        _ => job.verb.name(),
    };
    let duration = describe_duration(now.since(job.started), usual);
    Ok(Stage {
        cluster: job.object.clone(),
        activity: format!("{activity}, {duration}"),
        detail: read_detail(store, job)?,
    })
}

/// What the installer of a job said last; empty for other jobs.
fn read_detail(store: &Store, job: &Job) -> Result<String, Refusal> {
    let Some(name) = job.cluster() else { return Ok(String::new()) };
    let filter = Filter { name: Some(name.to_owned()), ..Filter::default() };
    let cluster = store.list::<Cluster>(&filter)?.pop();
    Ok(cluster.and_then(|cluster| cluster.progress).unwrap_or_default())
}

/// `18 of about 41 min`; without a history `for 18m`.
fn describe_duration(elapsed: Span, usual: Option<Span>) -> String {
    let Some(usual) = usual else { return format!("for {}", elapsed.to_short_text()) };
    let is_late = elapsed > usual;
    if usual < LONG_DURATION {
        let [elapsed_text, usual_text] = [elapsed, usual].map(Span::to_short_text);
        return if is_late {
            format!("for {elapsed_text}, usually {usual_text}")
        } else {
            format!("{elapsed_text} of about {usual_text}")
        };
    }
    let [elapsed_minutes, usual_minutes] = [elapsed, usual].map(|span| span.0 / MINUTE.0);
    if is_late {
        format!("for {elapsed_minutes} min, usually {usual_minutes}")
    } else {
        format!("{elapsed_minutes} of about {usual_minutes} min")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(elapsed: Span, usual: Option<Span>, expected: &str) {
        assert_eq!(describe_duration(elapsed, usual), expected);
    }

    #[test]
    fn a_duration_is_told_beside_the_usual_one() {
        check(Span::minutes(18), Some(Span::minutes(41)), "18 of about 41 min");
        check(Span::minutes(52), Some(Span::minutes(41)), "for 52 min, usually 41");
        check(Span::seconds(5), Some(Span::seconds(60)), "5s of about 60s");
        check(Span::seconds(70), Some(Span::seconds(60)), "for 70s, usually 60s");
        check(Span::minutes(18), None, "for 18m");
    }
}
