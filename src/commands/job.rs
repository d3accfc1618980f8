//! `job list|show|logs|kill`: looks at the programs that drivers run. Nothing here starts a job;
//! `kill` tells one to end, and the next pass decides what becomes of its cluster or host.

use clap::Args;
use serde_json::Value;

use crate::drivers::cancel::{self, CancelMode};
use crate::drivers::job_folder::{EVIDENCE, JobFolder, JobState};
use crate::drivers::{evidence, log};
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, document_with_kind};
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::output::{Answer, Entry, Name, job_row};
use crate::store::Store;

use crate::commands::{Context, RunCommand};

/// Arguments of `job list`.
#[derive(Args)]
pub struct List {
    /// List finished jobs too
    #[arg(long)]
    all: bool,
}

impl RunCommand for List {
    const NAME: &'static str = "list";
    const ABOUT: &'static str = "List running jobs";
    const EXAMPLE: &'static str = "poolctl job list --all";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let jobs = if self.all { store.all_jobs()? } else { store.live_jobs()? };
        if jobs.is_empty() && context.is_for_people() {
            context.hint("no jobs");
        }
        context.answer(Answer::list(entries(context, &store, &jobs)).fitted(context.table_layout()))
    }
}

/// Jobs as entries of a list, in the order given.
pub fn entries(context: &Context, store: &Store, jobs: &[Job]) -> Vec<Entry> {
    let now = context.world.now();
    let mut entries = Vec::new();
    for job in jobs {
        entries.push(context.entry(
            Some(name(job)),
            || job_row(job, now),
            || document_with_evidence(context, store, job),
        ));
    }
    entries
}

/// The folder of a job, which may be gone.
pub fn folder(context: &Context, store: &Store, job: &Job) -> JobFolder {
    JobFolder::for_job(&context.door(store).jobs_folder(), &job.id.to_string())
}

/// A job as `-o json` shows it, with the files that are kept of its failure.
pub fn document_with_evidence(context: &Context, store: &Store, job: &Job) -> Value {
    let mut wire = job.to_wire();
    let folder = folder(context, store, job);
    for file in evidence::list_files(&folder) {
        let path = folder.file_path(EVIDENCE).join(file);
        wire.status.evidence.push(path.display().to_string());
    }
    document_with_kind(Kind::Job, &wire)
}

/// `job/ID`.
pub fn name(job: &Job) -> Name {
    Name::of(Kind::Job, &Key::new("", job.id.to_string()))
}

/// A job without the names of files that are kept of it on this machine.
pub fn document(job: &Job) -> Value {
    document_with_kind(Kind::Job, &job.to_wire())
}

/// Arguments of `job show`.
#[derive(Args)]
pub struct Show {
    /// Id of a job; or name of a cluster or host, to show all its jobs
    #[arg(value_name = "JOB|CLUSTER|HOST")]
    name: String,
}

impl RunCommand for Show {
    const NAME: &'static str = "show";
    const ABOUT: &'static str = "Show a job, or the jobs of a cluster or host";
    const EXAMPLE: &'static str = "poolctl job show CLUSTER";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let jobs = find_jobs(context, &store, &self.name)?;
        let answer = Answer::list(entries(context, &store, &jobs)).fitted(context.table_layout());
        context.answer(if jobs.len() == 1 { answer.single() } else { answer })
    }
}

/// The jobs of a cluster or of a host, oldest first, or the job of that id. A kind before the name,
/// as in `cluster/lab-x`, is passed over.
pub fn find_jobs(context: &Context, store: &Store, typed_name: &str) -> Result<Vec<Job>, Refusal> {
    let name = typed_name.rsplit('/').next().unwrap_or(typed_name);
    let mut jobs = store.jobs_of_object(name)?;
    if jobs.is_empty() {
        jobs = store.jobs_on_host(&Key::new(context.namespace()?, name).to_string())?;
    }
    if jobs.is_empty() {
        jobs.extend(find_job(store, name)?);
    }
    if jobs.is_empty()
        && let Ok(Object::ClusterClaim(claim)) =
            context.find_object(store, Kind::ClusterClaim, name)
        && let Some(cluster) = &claim.cluster
    {
        jobs = store.jobs_of_object(cluster)?;
    }
    if jobs.is_empty() {
        let what = format!("there is no job `{name}`, nor a cluster or host that had one");
        return Err(Refusal::not_found(what).next("poolctl job list --all"));
    }
    Ok(jobs)
}

/// Letters of an id that name its job: those that tables show.
const LEAST_ID: usize = 8;

/// Whether an id, or the beginning of one as tables show it, names this job.
pub fn is_named_by_id(job: &Job, id: &str) -> bool {
    id.len() >= LEAST_ID && job.id.to_string().starts_with(id)
}

/// The job of an id, or the only one whose id begins so.
fn find_job(store: &Store, id: &str) -> Result<Option<Job>, Refusal> {
    if id.len() < LEAST_ID {
        return Ok(None);
    }
    let mut jobs = store.jobs_with_prefix(id)?;
    if jobs.len() > 1 {
        let problem = format!("{} jobs have ids that begin with `{id}`", jobs.len());
        return Err(Refusal::usage(problem).next("poolctl job list --all -o name"));
    }
    Ok(jobs.pop())
}

/// Arguments of `job logs`, which reads the folder of a job.
#[derive(Args)]
pub struct Logs {
    /// Id of a job; or name of a cluster, claim or host, to print the log of its last job
    #[arg(value_name = "JOB|CLUSTER|HOST")]
    name: String,
    /// Keep printing until the job ends
    #[arg(short, long)]
    follow: bool,
}

impl RunCommand for Logs {
    const NAME: &'static str = "logs";
    const ABOUT: &'static str = "Print the log of a job, with secrets hidden";
    const EXAMPLE: &'static str = "poolctl job logs CLUSTER";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let jobs = find_jobs(context, &store, &self.name)?;
        let Some(job) = jobs.last() else { return Ok(()) };
        print_log(context, &store, &jobs, job, self.follow)
    }
}

/// Prints the log of one of these jobs, as far as it is written or until the job ends. Then it tells
/// where evidence of a failure is.
pub fn print_log(
    context: &Context,
    store: &Store,
    jobs: &[Job],
    job: &Job,
    is_followed: bool,
) -> anyhow::Result<()> {
    if !job.driver.is_supervised() {
        let message = job.message.as_deref().unwrap_or("a simulated job has no log");
        return context.print(&format!("{message}\n"));
    }
    let place = folder(context, store, job);
    context.world.catch_signals();
    let mut position = 0;
    loop {
        // Asked before the log is read: the log of a job that has ended by now is complete.
        let is_over = place.read_state() != JobState::Running;
        for piece in log::read_pieces(place.path(), position) {
            if piece.left_out > 0 {
                let bytes = piece.left_out;
                context.print(&format!(
                    "[{bytes} bytes left out: a log keeps its beginning and its end]\n"
                ))?;
            }
            context.print_value(&piece.text)?;
            position = piece.end;
        }
        if is_over || !is_followed || context.world.take_signal().is_some() {
            if let Some(job) = last_with_evidence(context, store, jobs) {
                hint_evidence(context, store, job);
            }
            return Ok(());
        }
        context.world.sleep(Span::seconds(1));
    }
}

/// The last of these jobs that keeps evidence of its failure; none if nothing is kept.
pub fn last_with_evidence<'a>(
    context: &Context,
    store: &Store,
    jobs: &'a [Job],
) -> Option<&'a Job> {
    let mut last_first = jobs.iter().rev();
    last_first.find(|job| !evidence::list_files(&folder(context, store, job)).is_empty())
}

/// Tells where the evidence of a failed installation is, if any is kept.
pub fn hint_evidence(context: &Context, store: &Store, job: &Job) {
    let folder = folder(context, store, job);
    let count = evidence::list_files(&folder).len();
    if count == 0 {
        return;
    }
    let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let path = folder.file_path(EVIDENCE).display().to_string();
    context.hint(&format!("evidence of the failure: {files} in {path}"));
    let Job { object: cluster, attempt, .. } = job;
    context
        .hint(&format!("copy it: poolctl cluster logs {cluster} --attempt {attempt} --bundle DIR"));
}

/// Arguments of `job kill`. It ends all processes of the job.
#[derive(Args)]
pub struct Kill {
    /// Id of a job; or name of a cluster or host, to kill its running job
    #[arg(value_name = "JOB|CLUSTER|HOST")]
    name: String,
}

impl RunCommand for Kill {
    const NAME: &'static str = "kill";
    const ABOUT: &'static str = "Kill a running job; the next pass cleans up what it made";
    const EXAMPLE: &'static str = "poolctl job kill CLUSTER";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let jobs = find_jobs(context, &store, &self.name)?;
        let Some(job) = jobs.iter().rev().find(|job| job.ended.is_none()) else {
            context.hint(&format!("no job of `{}` is running", self.name));
            return Ok(());
        };
        if !job.driver.is_supervised() {
            return Err(Refusal::conflict("a simulated job has no process")
                .next(format!("poolctl delete cluster {}", job.object))
                .into());
        }
        let place = folder(context, &store, job);
        cancel::cancel_job(&place, CancelMode::Ask);
        context.report_change(Kind::Job, &Key::new("", job.id.to_string()), "was asked to stop")?;
        context.hint_next("poolctl reconcile");
        Ok(())
    }
}
