//! `pool advise`: the size and runningCount that a pool's own history asks for.

use clap::Args;
use serde_json::json;

use crate::model::claim::Claim;
use crate::model::job::{Job, SUCCEEDED, Verb as JobVerb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::output::{Answer, Name, joined};
use crate::store::Store;

use crate::commands::{Context, Verb};

/// Less history than this tells nothing.
const LEAST: usize = 3;
/// The pool's last jobs, which tell how long things take.
const JOBS: u32 = 2_000;

#[derive(Args)]
pub struct Advise {
    #[arg(value_name = "POOL")]
    name: String,
    /// Look back this far
    #[arg(long, value_name = "DURATION", default_value = "2w")]
    since: Span,
}

impl Verb for Advise {
    const NAME: &'static str = "advise";
    const ABOUT: &'static str = "Say which size and runningCount the pool's history asks for";
    const EXAMPLE: &'static str = "poolctl pool advise lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let pool = context.find::<ClusterPool>(&store, &self.name)?;
        let (name, now) = (&pool.metadata.name, context.world.now());
        // A pool that is younger than that has no longer history.
        let since = pool.metadata.creation_timestamp.unwrap_or_default();
        let since = since.max(Time(now.0 - self.since.0));
        let history = History::read(&store, &pool.key(), since)?;
        let (many, span) = (history.claims.len(), now.since(since).short());
        let own_name = Name::of(Kind::ClusterPool, &pool.key());
        if many < LEAST && !context.wants_documents() {
            let text = format!("{many} claims in {span}: fewer than {LEAST} tell nothing\n");
            context.answer(Answer::text(text).with_name(own_name))?;
            context.hint(&format!("next: poolctl pool advise {name} --since 8w"));
            return Ok(());
        }
        let (install, wake) = (history.usual(JobVerb::Provision), history.usual(JobVerb::Start));
        let pace = history.pace(now);
        // While an installation takes nobody knows how long, one is a start.
        let running = install.map_or(1, |takes| ceiling(takes, pace));
        let peak = install.map_or(1, |takes| history.most_within(takes));
        let size = peak.max(running);
        let usually = |takes: Option<Span>| takes.map_or("unknown".into(), Span::short);
        let (every, takes) = (pace.short(), usually(install));
        let document = json!({
            "size": size, "runningCount": running, "peak": peak, "claims": many,
            "claimEvery": every, "installTakes": takes, "wakingTakes": usually(wake),
        });
        let (old, wake) = (&pool.spec, usually(wake));
        let text = joined(&[
            format!("{many} claims in {span}, one every {every}; an installation takes {takes}"),
            format!(
                "runningCount {} -> {running}: as many claims come on average while one is installed \
                 ({peak} at the busiest; waking takes {wake})",
                old.running_count
            ),
            format!("size {} -> {size}: for the busiest time", old.size),
        ]);
        context.answer(Answer::text(text).with_name(own_name).with_document(document))?;
        if context.wants_documents() {
            return Ok(());
        }
        if let Some(most) =
            old.max_size.filter(|most| usize::try_from(*most).is_ok_and(|most| most < size))
        {
            context
                .hint(&format!("maxSize is {most}: raise it, or the pool has no more than that"));
        }
        let at = context.in_namespace(&pool.metadata.namespace);
        context.hint(&format!(
            "next: poolctl pool scale {name} --size {size} --running-count {running}{at}"
        ));
        Ok(())
    }
}

/// Claim frequency times the time one takes, rounded up: seed 002's formula.
fn ceiling(takes: Span, pace: Span) -> usize {
    let many = (takes.0 + pace.0 - 1) / pace.0;
    usize::try_from(many).unwrap_or(1).max(1)
}

struct History {
    since: Time,
    /// When claims came, in order.
    claims: Vec<Time>,
    jobs: Vec<Job>,
}

impl History {
    /// Claims are gone when they are over: events tell when they came.
    fn read(store: &Store, pool: &Key, since: Time) -> Result<Self, Refusal> {
        let mut jobs = store.last_jobs_of_pool(pool, JobVerb::Provision, JOBS)?;
        jobs.extend(store.last_jobs_of_pool(pool, JobVerb::Start, JOBS)?);
        let asks = Claim::asks(&pool.name);
        let events = store.events_since(since)?;
        let came = events
            .iter()
            .filter(|one| one.object.namespace == pool.namespace && one.message == asks);
        let mut claims: Vec<Time> = came.map(|one| one.time).collect();
        claims.sort();
        Ok(Self { since, claims, jobs })
    }

    /// What nine of ten jobs of a kind took at most.
    fn usual(&self, verb: JobVerb) -> Option<Span> {
        let done = self.jobs.iter().filter(|job| job.verb == verb);
        let done = done.filter(|job| job.outcome.as_deref() == Some(SUCCEEDED));
        let mut took: Vec<Span> =
            done.filter_map(|job| Some(job.ended?.since(job.started))).collect();
        took.sort();
        took.get((took.len() * 9).div_ceil(10).checked_sub(1)?).copied()
    }

    /// The most claims that came within a time.
    fn most_within(&self, time: Span) -> usize {
        let from = |(before, at): (usize, &Time)| {
            self.claims.partition_point(|one| one.since(*at) < time) - before
        };
        self.claims.iter().enumerate().map(from).max().unwrap_or(1)
    }

    /// Time between claims, on average.
    fn pace(&self, now: Time) -> Span {
        let many = i64::try_from(self.claims.len()).unwrap_or(i64::MAX).max(1);
        Span((now.since(self.since).0 / many).max(1))
    }
}
