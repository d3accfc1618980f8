//! Says how long each claim in the queue of a pool will probably wait, and for what. It only
//! estimates: the pass decides which claim gets which cluster.

use std::fmt;

use super::cluster::is_late_to_wake;
use super::pool::{describe_dead_end, is_stuck_standby};
use crate::model::cluster::{Cluster, Phase, Power};
use crate::model::condition::ConditionType;
use crate::model::job::{Job, SUCCEEDED, Verb};
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::state::State;
use crate::model::time::{Span, Time};
use crate::plan;

/// A position is cut in tables after so many letters; `why` has it whole.
const TABLE_WIDTH: usize = 60;
/// Of an instant within this span it is also told how far away it is.
const SOON: Span = Span::hours(1);
/// An instant within this span is shown as a time of day.
const DAY: Span = Span::hours(24);

/// The place of a claim in the queue of its pool, and when it may get a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// Counted from 1.
    pub number: usize,
    pub expected: Expected,
    /// When this was expected.
    pub now: Time,
}

/// When a claim may get a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Something is on its way, and the history of the pool does not tell how long it takes.
    Unknown,
    /// After about this time.
    After(Span),
    /// Not before an instant, at which something is tried or ends: `attempt 6 of lab-x`.
    NotBefore(Time, String),
    /// Nothing that is on its way helps this claim, for this cause. A person has to do something.
    Never(String),
}

impl QueuePosition {
    /// A position of which nothing more is known.
    pub fn at(number: usize, now: Time) -> Self {
        Self { number, expected: Expected::Unknown, now }
    }

    /// The place alone, with what is told of it that does not move with the clock.
    pub fn to_lasting_text(&self) -> String {
        match &self.expected {
            Expected::After(_) => Self::at(self.number, self.now).to_string(),
            Expected::NotBefore(time, event) => {
                let instant = describe_instant(*time, self.now);
                format!("#{}, not before {instant}: {event}", self.number)
            }
            _ => self.to_string(),
        }
    }

    /// When a cluster is expected, in words that change with the clock: `expected in ~8m`. Empty if
    /// that is not known, or if it is told with the place.
    pub fn moving_estimate(&self) -> String {
        match &self.expected {
            Expected::After(wait) => format!("expected in ~{}", wait.to_short_text()),
            _ => String::new(),
        }
    }

    /// The position as it fits a table.
    pub fn to_table_text(&self) -> String {
        let text = self.to_string();
        if text.chars().count() <= TABLE_WIDTH {
            return text;
        }
        let kept: String = text.chars().take(TABLE_WIDTH - 3).collect();
        format!("{}...", kept.trim_end())
    }
}

impl fmt::Display for QueuePosition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "#{}", self.number)?;
        match &self.expected {
            Expected::Unknown => Ok(()),
            Expected::After(wait) => write!(out, ", ~{}", wait.to_short_text()),
            Expected::NotBefore(time, event) => {
                write!(out, ", not before {}", describe_instant(*time, self.now))?;
                let wait = time.since(self.now);
                if wait < SOON {
                    write!(out, ", in {}", wait.to_short_text())?;
                }
                write!(out, ": {event}")
            }
            Expected::Never(cause) => write!(out, ", no end in sight: {cause}"),
        }
    }
}

/// An instant of the next day as a time of day in UTC, and any other one whole.
fn describe_instant(time: Time, now: Time) -> String {
    let instant = time.to_string();
    match instant.get(11..16) {
        Some(time_of_day) if time.since(now) < DAY => time_of_day.to_owned(),
        _ => instant,
    }
}

/// How long jobs of a pool usually take, as far as its history tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsualDurations {
    install: Option<Span>,
    wake: Option<Span>,
}

impl UsualDurations {
    /// The medians of the jobs that succeeded.
    pub fn of_jobs(jobs: &[Job]) -> Self {
        Self {
            install: usual_duration(jobs, Verb::Provision),
            wake: usual_duration(jobs, Verb::Start),
        }
    }
}

/// The median of the jobs of a verb that succeeded.
pub fn usual_duration(jobs: &[Job], verb: Verb) -> Option<Span> {
    let mut durations = Vec::new();
    for job in jobs {
        if job.verb == verb
            && job.outcome.as_deref() == Some(SUCCEEDED)
            && let Some(ended) = job.ended
        {
            durations.push(ended.since(job.started));
        }
    }
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied()
}

/// The positions of the first `waiting` claims in the queue of a pool.
pub fn estimate_queue(
    state: &State,
    pool: &ClusterPool,
    usual: UsualDurations,
    waiting: usize,
    now: Time,
) -> Vec<QueuePosition> {
    let gives_clusters = !pool.metadata.has_true_annotation(RECONCILE_PAUSE)
        && pool.metadata.deletion_timestamp.is_none();
    let mut expected = Vec::new();
    if gives_clusters {
        let mut sources = Sources { usual, now, ..Sources::default() };
        sources.add_clusters(state, pool);
        sources.add_new_clusters(pool, waiting);
        expected = sources.into_expected();
    }
    let last = match describe_dead_end(state, pool) {
        Some(cause) if gives_clusters => Expected::Never(cause),
        _ => Expected::Unknown,
    };
    expected.resize(waiting, last);
    let positions = expected.into_iter().enumerate();
    positions.map(|(index, expected)| QueuePosition { number: index + 1, expected, now }).collect()
}

/// Where the clusters for claims come from.
#[derive(Default)]
struct Sources {
    usual: UsualDurations,
    now: Time,
    /// Clusters that are on their way, with the instant by which they are sorted.
    coming: Vec<(Time, Expected)>,
    /// Clusters that the pool begins by itself as soon as it may.
    new: Vec<Expected>,
    /// Clusters that go, or that may be replaced: each leaves the room for another one.
    leaving: usize,
    /// What is tried, or ends, at a known instant.
    later: Vec<(Time, String)>,
    total: usize,
    /// Clusters that are being made or destroyed.
    busy: usize,
}

impl Sources {
    fn add_clusters(&mut self, state: &State, pool: &ClusterPool) {
        for cluster_id in state.members(&pool.key()).clusters {
            let Some(cluster) = state.clusters.get(cluster_id) else { continue };
            self.total += 1;
            let phase = cluster.phase();
            self.busy += usize::from(matches!(phase, Phase::Installing | Phase::Deprovisioning));
            if cluster.deleting.is_some() || cluster.marked || phase == Phase::Broken {
                // One that a person keeps leaves its room only when that person lets it go.
                self.leaving += usize::from(!cluster.is_kept());
            } else if cluster.claim.is_some() {
                self.add_claimed_cluster(state, pool, cluster);
            } else {
                self.add_unclaimed_cluster(state, pool, cluster);
            }
        }
    }

    /// A claimed cluster makes room for another one when its claim expires.
    fn add_claimed_cluster(&mut self, state: &State, pool: &ClusterPool, cluster: &Cluster) {
        let claim = cluster.claim_key().and_then(|key| state.claims.by_key(&key));
        if let Some(claim) = claim
            && let Some(end) = claim.expires_at()
            && may_make_clusters(pool)
        {
            self.later.push((end, format!("claim {} expires", claim.name)));
        }
    }

    fn add_unclaimed_cluster(&mut self, state: &State, pool: &ClusterPool, cluster: &Cluster) {
        // Nobody gets it before its pause ends, and only a person ends that.
        if cluster.paused {
            return;
        }
        let job_started = state.live_job(&cluster.name).map(|(_, job)| job.started);
        let since = job_started.unwrap_or(self.now);
        let paused_until = pause_end(pool);
        match (cluster.phase(), cluster.power) {
            (Phase::Installing, _) if cluster.attempt_since.is_none() && paused_until.is_some() => {
                self.later.extend(paused_until.map(|until| (until, installations_begin())));
            }
            (Phase::Installing, _) => {
                let ready = self.usual.install.map(|duration| since.plus(duration));
                self.add_coming_cluster(ready, Time(i64::MAX));
            }
            (Phase::Retrying, _) => {
                if let Some(next_attempt_at) = plan::next_attempt_at(state, cluster) {
                    let attempt = cluster.restarts + 1;
                    let event = format!("attempt {attempt} of {}", cluster.name);
                    self.later.push((next_attempt_at.max(self.now), event));
                }
            }
            _ if is_stuck_standby(pool, cluster) => {}
            // It may still wake. If not, it is replaced.
            _ if cluster.start_failure().is_some() || cluster.passed_over.is_some() => {
                self.leaving += 1;
            }
            (_, Power::Paused) => {}
            _ if is_late_to_wake(pool, cluster, self.now) => self.leaving += 1,
            (_, power) if power.is_waking() => {
                let called_at = cluster.awake_since.unwrap_or(since);
                let ready = self.usual.wake.map(|duration| called_at.plus(duration));
                // The machines were started long ago: how long the rest takes, nobody knows.
                self.add_coming_cluster(ready.filter(|ready| *ready > self.now), self.now);
            }
            (_, Power::Hibernating) => {
                let ready = self.usual.wake.map(|duration| since.plus(duration));
                self.add_coming_cluster(ready, self.now);
            }
            // It runs already, or is on its way to sleep and is called back.
            _ => self.add_coming_cluster(None, self.now),
        }
    }

    /// Adds a cluster that is ready at an instant, if that is known, or else is sorted by another.
    fn add_coming_cluster(&mut self, ready: Option<Time>, or_sorted_by: Time) {
        // A cluster that takes longer than usual may be ready at any moment.
        self.coming.push(match ready.map(|ready| ready.max(self.now)) {
            Some(ready) => (ready, Expected::After(ready.since(self.now))),
            None => (or_sorted_by, Expected::Unknown),
        });
    }

    /// Adds the clusters that can be begun beside those that are there.
    fn add_new_clusters(&mut self, pool: &ClusterPool, waiting: usize) {
        if !may_make_clusters(pool) {
            self.leaving = 0;
            return;
        }
        if let Some(until) = pause_end(pool) {
            let replacements = std::iter::repeat_n((until, installations_begin()), self.leaving);
            self.later.extend(replacements);
            self.leaving = 0;
        }
        let room = pool.max_size().unwrap_or(usize::MAX).saturating_sub(self.total);
        let free_customizations = usize::try_from(pool.status.free_customizations);
        let free = match &pool.spec.inventory {
            Some(_) => free_customizations.unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        for index in 0..room.min(free).min(waiting) {
            if let Some(until) = pause_end(pool) {
                self.later.push((until, installations_begin()));
            } else {
                self.new.push(self.expect_new_cluster(pool, index));
            }
        }
    }

    /// When a cluster may be installed that is begun after so many other new ones.
    fn expect_new_cluster(&self, pool: &ClusterPool, index: usize) -> Expected {
        let limit = pool.max_concurrent().unwrap_or(usize::MAX);
        let rounds = (self.busy + index).checked_div(limit).map_or(1, |rounds| rounds + 1);
        match self.usual.install.zip(i64::try_from(rounds).ok()) {
            Some((duration, rounds)) => Expected::After(Span(duration.0.saturating_mul(rounds))),
            None => Expected::Unknown,
        }
    }

    /// What each claim of the queue may expect: first what is on its way, soonest first, and last
    /// what nobody can be sure of.
    fn into_expected(mut self) -> Vec<Expected> {
        self.coming.sort_by_key(|(ready, _)| *ready);
        self.later.sort_unstable();
        let mut expected: Vec<Expected> =
            self.coming.into_iter().map(|(_, expected)| expected).collect();
        expected.extend(self.new);
        expected.extend(std::iter::repeat_n(Expected::Unknown, self.leaving));
        expected.extend(self.later.into_iter().map(|(at, event)| Expected::NotBefore(at, event)));
        expected
    }
}

/// When installations of a pool begin again, if they pause after failures.
fn pause_end(pool: &ClusterPool) -> Option<Time> {
    pool.status.install_pause.as_ref()?.until
}

fn installations_begin() -> String {
    "installations begin again".to_owned()
}

/// Whether a pool can make clusters at all, now or later, if there is room.
fn may_make_clusters(pool: &ClusterPool) -> bool {
    let lacks_dependencies = pool
        .condition(ConditionType::MissingDependencies)
        .is_some_and(|condition| condition.status == "True");
    pool.max_concurrent() != Some(0) && !lacks_dependencies
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: Expected, text: &str) {
        let position = QueuePosition { number: 1, expected, now: Time(0) };
        assert_eq!(position.to_table_text(), text);
    }

    #[test]
    fn only_the_estimate_of_a_position_moves_with_the_clock() {
        for (expected, lasting_text, moving_estimate) in [
            (Expected::Unknown, "#1", ""),
            (Expected::After(Span::minutes(9)), "#1", "expected in ~9m"),
            (Expected::Never("no host".into()), "#1, no end in sight: no host", ""),
        ] {
            let position = QueuePosition { number: 1, expected, now: Time(0) };
            assert_eq!(position.to_lasting_text(), lasting_text);
            assert_eq!(position.moving_estimate(), moving_estimate);
        }
    }

    #[test]
    fn a_position_fits_a_table_and_says_what_is_expected() {
        let attempt = "attempt 6 of lab-x".to_owned();
        let soon = Time(0).plus(Span::minutes(90));
        let late = Time(0).plus(Span::hours(30));
        check(Expected::Unknown, "#1");
        check(Expected::After(Span::minutes(9)), "#1, ~9m");
        check(
            Expected::NotBefore(soon, attempt.clone()),
            "#1, not before 01:30: attempt 6 of lab-x",
        );
        check(
            Expected::NotBefore(Time(0).plus(Span::seconds(50)), attempt.clone()),
            "#1, not before 00:00, in 50s: attempt 6 of lab-x",
        );
        check(
            Expected::NotBefore(late, attempt),
            "#1, not before 1970-01-02T06:00:00Z: attempt 6 of lab-x",
        );
        check(
            Expected::Never("maxSize 1 is used up by claims without an end".into()),
            "#1, no end in sight: maxSize 1 is used up by claims witho...",
        );
    }
}
