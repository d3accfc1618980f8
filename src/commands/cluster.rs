//! `cluster hibernate|resume`: sets the power of a claimed cluster. `cluster retry|logs`: tries a
//! failed installation again, and shows why it failed. `cluster forget` lets a cluster go that
//! nobody but a person could destroy.

pub mod bundle;
pub mod credentials;
pub mod extract;
pub mod forget;
pub mod pxe;
pub mod rotate;

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use crate::edits;
use crate::model::cluster::{Cluster, Power};
use crate::model::event_reason::EventReason;
use crate::model::job::{Job, Verb};
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::model::time::Time;
use crate::output::{Answer, clean_line};
use crate::plan::{self, PauseEnd};
use crate::rules::access::AccessAction;
use crate::store::Store;

use crate::commands::cluster::credentials::find_cluster;
use crate::commands::scope::EditedObject;
use crate::commands::{Audience, Context, RunCommand, job, patch, scope, target};

/// Arguments of `cluster hibernate`. It writes the wish; the next pass stops the machines.
#[derive(Args)]
pub struct Hibernate {
    /// Claim or cluster to hibernate; claim/NAME or cluster/NAME if both have the name
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl RunCommand for Hibernate {
    const NAME: &'static str = "hibernate";
    const ABOUT: &'static str = "Hibernate a claimed cluster: stop its machines";
    const EXAMPLE: &'static str = "poolctl cluster hibernate ci-17";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set_power(context, &self.name, Power::Hibernating, "hibernating")
    }
}

/// Arguments of `cluster resume`. It writes the wish; the next pass starts the machines.
#[derive(Args)]
pub struct Resume {
    /// Claim or cluster to resume; claim/NAME or cluster/NAME if both have the name
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl RunCommand for Resume {
    const NAME: &'static str = "resume";
    const ABOUT: &'static str = "Resume a claimed cluster: start its machines";
    const EXAMPLE: &'static str = "poolctl cluster resume ci-17";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set_power(context, &self.name, Power::Running, "resuming")
    }
}

/// Arguments of `cluster retry`. It ends the waiting time after a failure.
#[derive(Args)]
pub struct Retry {
    /// Claim or cluster that failed; claim/NAME or cluster/NAME if both have the name
    #[arg(value_name = "CLAIM|CLUSTER", required_unless_present = "all")]
    name: Option<String>,
    /// Retry all clusters in the namespace that failed
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

impl RunCommand for Retry {
    const NAME: &'static str = "retry";
    const ABOUT: &'static str = "Retry a failed installation, start, stop or destruction at once";
    const EXAMPLE: &'static str = "poolctl cluster retry CLUSTER";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let clusters = if self.all {
            find_failed_clusters(context, &store)?
        } else {
            let name = self.name.unwrap_or_default();
            vec![find_cluster(context, &store, &name, AccessAction::Change)?]
        };
        if clusters.is_empty() {
            context.hint("no cluster has failed");
            return Ok(());
        }
        let mut edited = Vec::new();
        for cluster in &clusters {
            edited.push(EditedObject::new(Kind::ClusterDeployment, cluster.key()));
        }
        let scope = scope::scope_of(&store, &edited)?;
        let needs = scope::needs_of(&edited);
        let (retries, passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            let retries = clusters.iter().map(|cluster| retry_cluster(state, cluster, tick));
            Ok(retries.collect::<Vec<_>>())
        })?;
        for (object, retry) in edited.iter().zip(retries) {
            context.report_change(object.kind, &object.key, retry.describe())?;
        }
        Ok(context.report_pass(&passed)?)
    }
}

/// The clusters in the namespace whose last installation, start, stop or destruction failed.
fn find_failed_clusters(context: &Context, store: &Store) -> Result<Vec<Cluster>, Refusal> {
    let mut clusters = Vec::new();
    for object in context.select_objects(store, Kind::ClusterDeployment, None)? {
        if let Object::ClusterDeployment(cluster) = &object
            && has_failed(cluster)
        {
            context.check_permission(store, AccessAction::Change, &object)?;
            clusters.push((**cluster).clone());
        }
    }
    Ok(clusters)
}

fn has_failed(cluster: &Cluster) -> bool {
    if cluster.deleting.is_some() {
        return cluster.undo_failed_at.is_some();
    }
    if cluster.is_installed() { cluster.power.has_failed() } else { cluster.failed_at.is_some() }
}

/// What became of the wish to try a cluster again.
#[derive(Clone, Copy)]
pub enum RetryOutcome {
    Again,
    /// Its pool has been changed since it was made, so the pool makes another one instead.
    Replaced,
    NothingFailed,
}

impl RetryOutcome {
    /// The end of a sentence that begins with the cluster.
    fn describe(self) -> &'static str {
        match self {
            Self::Again => "tried again",
            Self::Replaced => "is of an older version of its pool: it is replaced",
            Self::NothingFailed => "has nothing to retry",
        }
    }
}

/// Lets a failed installation, start, stop or destruction begin again at once. A cluster that its
/// pool replaces anyway stays as it is.
pub fn retry_cluster(state: &mut State, cluster: &Cluster, tick: &Tick) -> RetryOutcome {
    let Some(cluster_id) = state.find_cluster(&cluster.name) else {
        return RetryOutcome::NothingFailed;
    };
    let pool_id = cluster.pool.as_deref().and_then(|key| state.pools.find(key));
    if let Some(pool_id) = pool_id
        && !cluster.is_installed()
        && cluster.deleting.is_none()
    {
        // The pool may have paused its installations because they kept failing.
        plan::end_pause(state, pool_id, PauseEnd::Request, tick);
        let pool = state.pools.get(pool_id);
        if pool.is_some_and(|pool| plan::is_failed_stale(state, pool, cluster)) {
            return RetryOutcome::Replaced;
        }
    }
    let is_changed = state.clusters.update(cluster_id, |cluster| {
        cluster.undo_blocked = None;
        cluster.undo_failed_at = None;
        if cluster.deleting.is_some() {
            return;
        }
        if !cluster.is_installed() {
            // A cluster that was given up has all its attempts again.
            if cluster.stopped {
                cluster.restarts = 0;
            }
            cluster.stopped = false;
            cluster.stopped_at = None;
            cluster.failed_at = None;
            cluster.failure = None;
            cluster.failure_class = None;
            cluster.failure_reason = None;
            cluster.uncounted_failures = 0;
        } else if cluster.power.has_failed() {
            cluster.power_since = None;
        }
    });
    if !is_changed {
        return RetryOutcome::NothingFailed;
    }
    let reason = EventReason::Retry;
    let message = "Tried again as asked";
    edits::record_event(state, tick, Kind::ClusterDeployment, cluster.key(), reason, message);
    RetryOutcome::Again
}

/// Arguments of `cluster logs`, which reads the folders of the attempts.
#[derive(Args)]
pub struct Logs {
    /// Claim or cluster; the cluster may have been deleted already
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
    /// Show only this attempt; the first is 1
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Copy what is kept of the last failed attempt, with its log, to this new or empty directory
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
}

impl RunCommand for Logs {
    const NAME: &'static str = "logs";
    const ABOUT: &'static str = "Show the results of the installation attempts of a cluster";
    const EXAMPLE: &'static str = "poolctl cluster logs CLUSTER";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let name = name_of_cluster(context, &store, &self.name)?;
        if context.guest().is_some() {
            context.find_object(&store, Kind::ClusterDeployment, &name)?;
        }
        let mut jobs = store.jobs_of_object(&name)?;
        jobs.retain(|job| job.verb == Verb::Provision);
        jobs.retain(|job| self.attempt.is_none_or(|attempt| job.attempt == attempt));
        if jobs.is_empty() {
            let problem = match self.attempt {
                Some(attempt) => format!("cluster `{name}` has no installation attempt {attempt}"),
                None => format!("nothing was installed under the name `{name}`"),
            };
            return Err(Refusal::not_found(problem).next("poolctl job list --all").into());
        }
        if let Some(directory) = &self.bundle {
            return bundle::write_bundle(context, &store, &name, &jobs, directory);
        }
        for job in jobs {
            let answer = Answer::text(describe_outcome(&job, context.world.now()));
            let document = if context.guest().is_some() {
                job::document(&job)
            } else {
                job::document_with_evidence(context, &store, &job)
            };
            context.answer(answer.with_name(job::name(&job)).with_list([document]))?;
            let has_log = job.driver.is_supervised() && context.guest().is_none();
            if has_log && !context.wants_documents() {
                context.hint(&format!("whole log: poolctl job logs {}", job.id));
                job::hint_evidence(context, &store, &job);
            }
        }
        Ok(())
    }
}

/// The name of the cluster that is meant: that of a claim, or a name of a cluster, which may have been
/// deleted already.
fn name_of_cluster(context: &Context, store: &Store, typed_name: &str) -> Result<String, Refusal> {
    let kind = typed_name.split_once('/').and_then(|(word, _)| Kind::from_word(word));
    let name = target::without_kind(Kind::ClusterDeployment, typed_name);
    if kind == Some(Kind::ClusterDeployment) || !store.jobs_of_object(&name)?.is_empty() {
        return Ok(name);
    }
    let claim_name = target::without_kind(Kind::ClusterClaim, typed_name);
    match context.find_object(store, Kind::ClusterClaim, &claim_name) {
        Ok(Object::ClusterClaim(claim)) => claim.cluster.clone().ok_or_else(|| {
            Refusal::conflict(format!("claim `{claim_name}` has no cluster yet"))
                .next(format!("poolctl why claim/{claim_name}"))
        }),
        Err(refusal) if kind.is_some() => Err(refusal),
        // The cluster of this name is looked for, and what is said of it if there is none.
        _ => Ok(name),
    }
}

/// How an installation ended and what its driver reported, in lines for people.
fn describe_outcome(job: &Job, now: Time) -> String {
    let duration = job.ended.unwrap_or(now).since(job.started).to_short_text();
    let mut lines = match job.outcome.as_deref() {
        Some(outcome) => {
            format!("attempt {} started {}: {outcome} after {duration}\n", job.attempt, job.started)
        }
        None => format!("attempt {} started {}: still running\n", job.attempt, job.started),
    };
    for line in job.message.as_deref().unwrap_or_default().lines() {
        let _ = writeln!(lines, "  {}", clean_line(line));
    }
    lines
}

/// Asks for the power of a claimed cluster, or of one without a pool, as `hibernate` and `resume`
/// do. `result` is what the answer says of the cluster.
fn set_power(context: &Context, name: &str, power: Power, result: &str) -> anyhow::Result<()> {
    let store = context.open_existing_state()?;
    let cluster = find_cluster(context, &store, name, AccessAction::Change)?;
    let name = &cluster.name;
    if cluster.deleting.is_some() {
        return Err(edits::refuse_deleted(Kind::ClusterDeployment, &cluster.key()).into());
    }
    if let Some(pool) = &cluster.pool
        && cluster.claim.is_none()
    {
        let problem = format!("cluster `{name}` is unclaimed: its pool decides which clusters run");
        let namespace_option = context.namespace_option(&pool.namespace);
        let scale = format!("poolctl pool scale {} --running-count N{namespace_option}", pool.name);
        return Err(Refusal::conflict(problem).advise(scale).into());
    }
    // Where the driver has no power over a cluster, the controllers of its hosts may have it.
    if cluster.powerless && !store.uses_hosts(name)? {
        let problem = format!("the driver of cluster `{name}` cannot stop clusters");
        return Err(Refusal::conflict(problem).into());
    }
    patch::change_object(context, &store, Kind::ClusterDeployment, name, result, |document| {
        document["spec"]["powerState"] = power.to_wire().into();
        Ok(())
    })
}
