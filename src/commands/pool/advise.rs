//! `pool advise`: says which size and runningCount a pool's own history asks for. It changes
//! nothing.

use clap::Args;
use serde_json::{Value, json};

use crate::model::job::{Job, SUCCEEDED, Verb};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::output::{Answer, Name, join_lines};
use crate::store::Store;

use crate::commands::{Context, RunCommand, count_of};

/// Fewer claims than this say nothing about a pool.
const FEWEST_CLAIMS: usize = 3;
/// How many of a pool's last jobs are read, to see how long installing and waking take.
const RECENT_JOBS: u32 = 2_000;

/// Arguments of `pool advise`, which only reads the history of the pool.
#[derive(Args)]
pub struct Advise {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    name: String,
    /// Length of the history to read, such as 2w
    #[arg(long, value_name = "DURATION", default_value = "2w")]
    since: Span,
}

impl RunCommand for Advise {
    const NAME: &'static str = "advise";
    const ABOUT: &'static str = "Suggest a size and a runningCount from the pool's history";
    const EXAMPLE: &'static str = "poolctl pool advise lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let pool = context.find::<ClusterPool>(&store, &self.name)?;
        let now = context.world.now();
        // A pool that was created later than that has a shorter history.
        let created = pool.metadata.creation_timestamp.unwrap_or_default();
        let since = created.max(Time(now.0 - self.since.0));
        let history = History::read(&store, &pool.key(), since)?;
        let advice = Advice::from_history(&history, now);
        let is_too_short = history.claims.len() < FEWEST_CLAIMS;
        if is_too_short && !context.wants_documents() {
            return answer_too_short(context, &pool, &advice);
        }
        let answer = Answer::text(join_lines(&advice.lines(&pool)))
            .with_name(Name::of(Kind::ClusterPool, &pool.key()))
            .with_document(advice.document());
        context.answer(answer)?;
        if !context.wants_documents() {
            hint_next(context, &pool, &advice);
        }
        Ok(())
    }
}

/// Answers that there were too few claims to advise anything, and hints at a longer span.
fn answer_too_short(context: &Context, pool: &ClusterPool, advice: &Advice) -> anyhow::Result<()> {
    let line = format!(
        "{} in {}: advice needs {FEWEST_CLAIMS} claims or more\n",
        count_of(advice.claim_count, "claim"),
        advice.span.to_short_text()
    );
    let name = Name::of(Kind::ClusterPool, &pool.key());
    context.answer(Answer::text(line).with_name(name))?;
    context.hint_next(&format!("poolctl pool advise {} --since 8w", pool.metadata.name));
    Ok(())
}

/// Hints at the command that follows the advice, and at `maxSize` if it would stop the pool from
/// growing.
fn hint_next(context: &Context, pool: &ClusterPool, advice: &Advice) {
    let Advice { size, running_count, .. } = advice;
    if let Some(max_size) = pool.spec.max_size
        && usize::try_from(max_size).is_ok_and(|max_size| max_size < *size)
    {
        context.hint(&format!(
            "maxSize is {max_size}: raise it too, because it limits the clusters of the pool"
        ));
    }
    let Meta { name, namespace, .. } = &pool.metadata;
    let namespace_option = context.namespace_option(namespace);
    context.hint_next(&format!(
        "poolctl pool scale {name} --size {size} --running-count \
         {running_count}{namespace_option}"
    ));
}

/// What the history of a pool asks for, and the numbers that say why.
struct Advice {
    size: usize,
    running_count: usize,
    /// The most claims that came while one cluster is installed.
    peak: usize,
    claim_count: usize,
    /// The time that the history spans.
    span: Span,
    /// The time between two claims, on average.
    claim_interval: Span,
    /// How long an installation takes, and how long waking; none while no job has shown it.
    install_time: Option<Span>,
    wake_time: Option<Span>,
}

impl Advice {
    /// Advises as many running clusters as claims usually come while one is installed, and as large
    /// a pool as the most claims that ever came within that time.
    fn from_history(history: &History, now: Time) -> Self {
        let claim_interval = history.claim_interval(now);
        let install_time = history.usual_time(Verb::Provision);
        // Until it is known how long an installation takes, one running cluster is a start.
        let running_count = install_time.map_or(1, |time| claims_during(time, claim_interval));
        let peak = install_time.map_or(1, |time| history.most_claims_within(time));
        Self {
            size: peak.max(running_count),
            running_count,
            peak,
            claim_count: history.claims.len(),
            span: now.since(history.since),
            claim_interval,
            install_time,
            wake_time: history.usual_time(Verb::Start),
        }
    }

    fn document(&self) -> Value {
        json!({
            "size": self.size,
            "runningCount": self.running_count,
            "peak": self.peak,
            "claims": self.claim_count,
            "claimEvery": self.claim_interval.to_short_text(),
            "installTakes": time_in_words(self.install_time),
            "wakingTakes": time_in_words(self.wake_time),
        })
    }

    /// The advice for people, beside what the pool has now.
    fn lines(&self, pool: &ClusterPool) -> Vec<String> {
        let Self { size, running_count, peak, claim_count, .. } = self;
        vec![
            format!(
                "{claim_count} claims in {}, one every {}; an installation takes {}",
                self.span.to_short_text(),
                self.claim_interval.to_short_text(),
                time_in_words(self.install_time)
            ),
            format!(
                "runningCount {} -> {running_count}: claims that come on average during one \
                 installation ({peak} at the busiest time; waking takes {})",
                pool.spec.running_count,
                time_in_words(self.wake_time)
            ),
            format!("size {} -> {size}: enough for the busiest time", pool.spec.size),
        ]
    }
}

fn time_in_words(time: Option<Span>) -> String {
    time.map_or("unknown".into(), Span::to_short_text)
}

/// How many claims come on average in a time, rounded up; at least one.
fn claims_during(time: Span, claim_interval: Span) -> usize {
    let count = (time.0 + claim_interval.0 - 1) / claim_interval.0;
    usize::try_from(count).unwrap_or(1).max(1)
}

struct History {
    since: Time,
    /// When claims came, in order.
    claims: Vec<Time>,
    jobs: Vec<Job>,
}

impl History {
    /// Reads when claims came, and the jobs that show how long things take. Claims that are over
    /// are no longer kept, so events say when they came.
    fn read(store: &Store, pool: &Key, since: Time) -> Result<Self, Refusal> {
        let mut jobs = store.last_jobs_of_pool(pool, Verb::Provision, RECENT_JOBS)?;
        jobs.extend(store.last_jobs_of_pool(pool, Verb::Start, RECENT_JOBS)?);
        let claims = store.claim_times_of_pool(pool, since)?;
        Ok(Self { since, claims, jobs })
    }

    /// What nine of ten jobs of a kind took at most; none if none of them has succeeded.
    fn usual_time(&self, verb: Verb) -> Option<Span> {
        let mut times = Vec::new();
        for job in &self.jobs {
            let has_succeeded = job.outcome.as_deref() == Some(SUCCEEDED);
            if let Some(ended) = job.ended
                && job.verb == verb
                && has_succeeded
            {
                times.push(ended.since(job.started));
            }
        }
        times.sort_unstable();
        times.get((times.len() * 9).div_ceil(10).checked_sub(1)?).copied()
    }

    /// The most claims that came within a time.
    fn most_claims_within(&self, time: Span) -> usize {
        let mut most = None;
        for (index, first_claim) in self.claims.iter().enumerate() {
            let end = self.claims.partition_point(|claim| claim.since(*first_claim) < time);
            most = most.max(Some(end - index));
        }
        most.unwrap_or(1)
    }

    /// The time between two claims, on average.
    fn claim_interval(&self, now: Time) -> Span {
        let count = i64::try_from(self.claims.len()).unwrap_or(i64::MAX).max(1);
        Span((now.since(self.since).0 / count).max(1))
    }
}
