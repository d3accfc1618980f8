//! `cluster hibernate` and `resume`: the power of a cluster that somebody has. `cluster retry` and
//! `logs`: what to do when it does not install.

pub mod credentials;
pub mod extract;
pub mod rotate;

use std::fmt::Write;

use clap::Args;

use crate::edits;
use crate::model::cluster::Power;
use crate::model::event_reason::EventReason;
use crate::model::job::{Job, Verb as JobVerb};
use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::output::{Answer, clean};
use crate::plan;
use crate::rules::access::Deed;

use crate::commands::cluster::credentials::cluster_of;
use crate::commands::{Context, Verb, job, patch, scope, target};

#[derive(Args)]
pub struct Hibernate {
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl Verb for Hibernate {
    const NAME: &'static str = "hibernate";
    const ABOUT: &'static str = "Stop the machines of a claimed cluster";
    const EXAMPLE: &'static str = "poolctl cluster hibernate ci-17";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set(context, &self.name, Power::Hibernating, "hibernating")
    }
}

#[derive(Args)]
pub struct Resume {
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl Verb for Resume {
    const NAME: &'static str = "resume";
    const ABOUT: &'static str = "Start the machines of a claimed cluster";
    const EXAMPLE: &'static str = "poolctl cluster resume ci-17";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set(context, &self.name, Power::Running, "resuming")
    }
}

#[derive(Args)]
pub struct Retry {
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl Verb for Retry {
    const NAME: &'static str = "retry";
    const ABOUT: &'static str = "Try a failed installation, start or stop again now";
    const EXAMPLE: &'static str = "poolctl cluster retry CLUSTER";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let found = cluster_of(context, &store, &self.name, Deed::Change)?;
        let (name, what) = (&found.name, [(Kind::ClusterDeployment, found.key(), None)]);
        let scope = scope::scope_of(&store, &what)?;
        let edit = |state: &mut State, tick: &Tick| {
            let Some(at) = state.cluster(name) else { return Ok(false) };
            let changed = state.clusters.update(at, |one| {
                if !one.installed() {
                    // One that was given up has all its attempts again.
                    one.restarts = if one.stopped { 0 } else { one.restarts };
                    (one.stopped, one.failed_at, one.failure) = (false, None, None);
                } else if one.power.failed() {
                    one.power_since = None;
                }
            });
            let pool = found.pool.as_deref().and_then(|key| state.pools.find(key));
            if let Some(pool) = pool.filter(|_| !found.installed()) {
                plan::end_pause(state, pool);
            }
            if changed {
                let (kind, key) = (Kind::ClusterDeployment, what[0].1.clone());
                edits::record_event(
                    state,
                    tick,
                    kind,
                    key,
                    EventReason::Retry,
                    "Tried again as asked",
                );
            }
            Ok(changed)
        };
        let (changed, passed) =
            context.door(&store).change(&scope, &scope::needs_of(&what), edit)?;
        let done = if changed { "tried again" } else { "has nothing to try again" };
        context.changed(Kind::ClusterDeployment, &found.key(), done)?;
        Ok(context.finish(&passed)?)
    }
}

#[derive(Args)]
pub struct Logs {
    /// Also one that is gone
    #[arg(value_name = "CLUSTER")]
    name: String,
    /// Only this attempt, from 1
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
}

impl Verb for Logs {
    const NAME: &'static str = "logs";
    const ABOUT: &'static str = "Show what became of the installations of a cluster";
    const EXAMPLE: &'static str = "poolctl cluster logs CLUSTER";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        if context.guest().is_some() {
            context.find_object(&store, Kind::ClusterDeployment, &self.name)?;
        }
        let name = target::bare(Kind::ClusterDeployment, &self.name);
        let mut jobs = store.jobs_of(&name)?;
        jobs.retain(|job| job.verb == JobVerb::Provision);
        jobs.retain(|job| self.attempt.is_none_or(|attempt| job.attempt == attempt));
        if jobs.is_empty() {
            let what = format!("there is no such installation of a cluster `{name}`");
            return Err(Refusal::not_found(what).next("poolctl job list --all").into());
        }
        for job in jobs {
            let answer = Answer::text(outcome(&job, context.world.now()));
            let answer = answer.with_name(job::name(&job)).with_list([job::document(&job)]);
            context.answer(answer)?;
            let has_log = job.driver.supervised() && context.guest().is_none();
            if has_log && !context.wants_documents() {
                context.hint(&format!("all it said: poolctl job logs {}", job.id));
            }
        }
        Ok(())
    }
}

/// What became of an installation, and what its driver said of that.
fn outcome(job: &Job, now: Time) -> String {
    let took = job.ended.unwrap_or(now).since(job.started).short();
    let outcome = job.outcome.as_deref().unwrap_or("running");
    let mut text =
        format!("attempt {} started {}: {outcome} after {took}\n", job.attempt, job.started);
    for line in job.message.as_deref().unwrap_or_default().lines() {
        let _ = writeln!(text, "  {}", clean(line));
    }
    text
}

fn set(context: &Context, name: &str, power: Power, done: &str) -> anyhow::Result<()> {
    let store = context.look()?;
    let found = cluster_of(context, &store, name, Deed::Change)?;
    let name = &found.name;
    if let Some(pool) = found.pool.as_ref().filter(|_| found.claim.is_none()) {
        let what = format!("cluster `{name}` is unclaimed: its pool says who runs");
        let at = context.in_namespace(&pool.namespace);
        return Err(Refusal::conflict(what)
            .advise(format!("poolctl pool scale {} --running-count N{at}", pool.name))
            .into());
    }
    if found.powerless && !store.has_hosts(name)? {
        return Err(
            Refusal::conflict(format!("the driver of cluster `{name}` cannot stop it")).into()
        );
    }
    patch::change(context, &store, Kind::ClusterDeployment, name, done, |document| {
        document["spec"]["powerState"] = power.wire().into();
        Ok(())
    })
}
