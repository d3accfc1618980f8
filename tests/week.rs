//! A week of each trouble of a lab, minute by minute: a pool of five clusters with an inventory
//! comes through it without a person. What was made and is not destroyed is exactly what is
//! installed, no customization is lost, and nothing is made in a loop.

use std::collections::BTreeMap;

use poolctl::model::condition::ConditionType;
use poolctl::model::failure::{Failure, FailureClass};
use poolctl::model::job::{Installation, Job, JobOutcome, JobReport, Verb};
use poolctl::model::meta::Key;
use poolctl::model::pool::ClusterPool;
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::model::time::Span;
use poolctl::plan;

use crate::fixture::{self, NAMESPACE, noon};

const POOL: &str = "size 5 inv[a,b,c,d,e]; cdcs a(fresh) b(fresh) c(fresh) d(fresh) e(fresh)";
const WEEK: i64 = 7 * 24 * 60;
/// The minutes after a trouble in which everything has to be well again: the longest pause, and
/// some.
const RECOVERY: i64 = 3 * 60;

/// What is wrong with the lab.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    /// The platform does not answer; nothing is made, and nothing destroyed.
    Away,
    /// The same, for six hours out of twelve.
    AwayByNight,
    /// It stops answering while machines are made.
    AwayLater,
    /// A network is made, and then there is no room for machines.
    Quota,
    /// The platform's certificate is not trusted.
    Untrusted,
}

impl Trouble {
    fn is_there_at(self, minute: i64) -> bool {
        minute < WEEK && (self != Self::AwayByNight || minute / 360 % 2 == 0)
    }

    /// Whether the platform does nothing at all that it is asked for.
    fn stops_everything(self) -> bool {
        matches!(self, Self::Away | Self::AwayByNight | Self::Untrusted)
    }

    fn class(self) -> FailureClass {
        match self {
            Self::Away | Self::AwayByNight | Self::AwayLater => FailureClass::CloudAway,
            Self::Quota => FailureClass::Capacity,
            Self::Untrusted => FailureClass::SetupMissing,
        }
    }

    /// What the first job that meets it reports, or a later one.
    fn failure(self, is_first: bool) -> Failure {
        let symptom = if is_first { "" } else { "; then no such host" };
        let message = format!("{}{symptom}", self.cause());
        Failure { is_made: !self.stops_everything(), ..Failure::new(self.class(), message) }
    }

    /// The first line that says what is wrong.
    fn cause(self) -> &'static str {
        match self {
            Self::Away | Self::AwayByNight | Self::AwayLater => "keystone: connection refused",
            Self::Quota => "Quota exceeded for cores",
            Self::Untrusted => "x509: certificate signed by unknown authority",
        }
    }
}

/// What is there of clusters, by the names of their objects, and what happened so far.
#[derive(Default)]
struct Platform {
    infrastructure: BTreeMap<String, u32>,
    installations: usize,
}

impl Platform {
    /// How a job ends while there is a trouble, or none.
    fn end_job(&mut self, job: &Job, trouble: Option<Trouble>) -> JobOutcome {
        let is_away = trouble.is_some_and(Trouble::stops_everything);
        let is_first = self.installations == 0;
        match (job.verb, trouble) {
            (Verb::Deprovision, Some(trouble)) if is_away => {
                JobOutcome::Failed(trouble.failure(is_first))
            }
            (Verb::Deprovision, _) => {
                self.infrastructure.remove(&job.object);
                JobOutcome::Done
            }
            (Verb::Provision, Some(trouble)) if is_away => {
                self.installations += 1;
                JobOutcome::Failed(trouble.failure(is_first))
            }
            (Verb::Provision, trouble) => {
                self.installations += 1;
                *self.infrastructure.entry(job.object.clone()).or_default() += 1;
                match trouble {
                    Some(trouble) => JobOutcome::Failed(trouble.failure(is_first)),
                    None => JobOutcome::Installed(Installation::default()),
                }
            }
            _ => JobOutcome::Done,
        }
    }
}

fn tick_at(minute: i64) -> Tick {
    let noon = noon();
    Tick { now: noon.now.plus(Span::minutes(minute)), ..noon }
}

/// Ends all live jobs, and plans what follows.
fn pass_a_minute(
    state: &mut State,
    platform: &mut Platform,
    trouble: Option<Trouble>,
    tick: &Tick,
) {
    let live_jobs: Vec<Job> =
        state.jobs.rows().filter(|job| job.ended.is_none()).cloned().collect();
    let mut reports = Vec::new();
    for job in &live_jobs {
        let outcome = platform.end_job(job, trouble);
        reports.push(JobReport { job: job.id, object: job.object.clone(), outcome });
    }
    plan::take_job_reports(state, reports, tick);
}

/// Expects that a pool whose installations pause says so, with the class of the first cause and in
/// its words.
fn assert_degraded_for_first_cause(pool: &ClusterPool, trouble: Trouble) {
    let is_degraded = pool.status.install_pause.is_some();
    let condition = pool.condition(ConditionType::Degraded);
    assert_eq!(condition.is_some_and(|condition| condition.status == "True"), is_degraded);
    if let Some(condition) = condition.filter(|condition| condition.status == "True") {
        let cause = trouble.cause();
        assert_eq!(condition.reason, trouble.class().name());
        assert!(condition.message.ends_with(cause), "{trouble:?}: {}", condition.message);
        // So does `why`.
        let explanation = plan::describe_install_pause(pool).unwrap_or_default();
        assert!(explanation.ends_with(cause), "{trouble:?}: {explanation}");
    }
}

#[test]
fn a_pool_comes_through_a_week_of_each_trouble_without_a_person() {
    for trouble in [
        Trouble::Away,
        Trouble::AwayByNight,
        Trouble::AwayLater,
        Trouble::Quota,
        Trouble::Untrusted,
    ] {
        let (mut state, names) = fixture::parse_state(POOL, false);
        let pool_id = state.pools.find(&Key::new(NAMESPACE, "p")).unwrap();
        // Its clusters are made by a program, so that what it left has to be destroyed.
        state.pools.update(pool_id, |pool| pool.spec.annotations.clear());
        let mut platform = Platform::default();
        for minute in 0..WEEK + RECOVERY {
            let tick = tick_at(minute);
            plan::settle(&mut state, &tick, &names).unwrap();
            assert_degraded_for_first_cause(state.pools.get(pool_id).unwrap(), trouble);
            let trouble_now = Some(trouble).filter(|trouble| trouble.is_there_at(minute));
            pass_a_minute(&mut state, &mut platform, trouble_now, &tick);
            let pool = state.pools.get(pool_id).unwrap();
            for (name, entry) in &pool.status.inventory {
                assert_eq!(entry.attempts, 3, "{trouble:?}: {name} after {minute} minutes");
            }
            if let Some(pause) = &pool.status.install_pause {
                assert_eq!((&*pause.cause, pause.class), (trouble.cause(), trouble.class()));
            }
        }
        let cause = trouble.cause();
        let has_event = state.events.iter().any(|(event, _)| event.message.ends_with(cause));
        assert!(has_event, "{trouble:?}: no event has the first cause");
        let installed: Vec<&str> = state
            .clusters
            .rows()
            .filter(|cluster| cluster.is_installed())
            .map(|cluster| &*cluster.name)
            .collect();
        assert_eq!(installed.len(), 5, "{trouble:?}");
        let existing: Vec<&str> = platform.infrastructure.keys().map(|name| &**name).collect();
        assert_eq!(existing.len(), 5, "{trouble:?}: {existing:?}");
        assert!(installed.iter().all(|name| existing.contains(name)), "{trouble:?}");
        // One try of all five an hour, and those of the first hour.
        let most = 5 * (usize::try_from(WEEK / 60).unwrap() + 12);
        assert!(platform.installations <= most, "{trouble:?}: {}", platform.installations);
        assert_eq!(state.pools.get(pool_id).unwrap().status.install_pause, None, "{trouble:?}");
    }
}
