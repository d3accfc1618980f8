//! `job list` and `job show`.

use clap::Args;
use serde_json::Value;

use crate::model::job::Job;
use crate::model::kind::Kind;
use crate::model::object::wired;
use crate::model::refusal::Refusal;
use crate::output::{self, Format, job_row};

use super::{Context, Verb};

#[derive(Args)]
pub struct List {
    /// Finished ones too
    #[arg(long)]
    all: bool,
}

impl Verb for List {
    const NAME: &'static str = "list";
    const ABOUT: &'static str = "List running jobs";
    const EXAMPLE: &'static str = "poolctl job list --all";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        show(context, &store.jobs(None, !self.all)?, false, true)
    }
}

/// Jobs in the format that was asked for.
pub fn show(context: &Context, jobs: &[Job], single: bool, headers: bool) -> anyhow::Result<()> {
    let format = &context.globals.output;
    let now = context.world.now();
    if format.whole() {
        let documents = jobs.iter().map(document).collect();
        return context.print(&output::documents(format, documents, single)?);
    }
    if *format == Format::Name {
        return context.print(&output::joined(
            &jobs.iter().map(|job| format!("job/{}", job.id)).collect::<Vec<_>>(),
        ));
    }
    if jobs.is_empty() {
        context.hint("no jobs");
    }
    let rows: Vec<_> = jobs.iter().map(|job| job_row(job, now)).collect();
    context.print(&output::render(&rows, headers))
}

pub fn document(job: &Job) -> Value {
    wired(Kind::Job, &job.to_wire())
}

#[derive(Args)]
pub struct Show {
    /// Job id, or a cluster for its jobs
    #[arg(value_name = "JOB|CLUSTER")]
    name: String,
}

impl Verb for Show {
    const NAME: &'static str = "show";
    const ABOUT: &'static str = "Show a job, or the jobs of a cluster";
    const EXAMPLE: &'static str = "poolctl job show CLUSTER";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let of_cluster = store.jobs(Some(&self.name), false)?;
        let jobs = if of_cluster.is_empty() {
            let all = store.jobs(None, false)?;
            all.into_iter().filter(|job| job.id.to_string() == self.name).collect()
        } else {
            of_cluster
        };
        if jobs.is_empty() {
            let what = format!("there is no job `{}`, nor a cluster that had one", self.name);
            return Err(Refusal::not_found(what).next("poolctl job list --all").into());
        }
        show(context, &jobs, jobs.len() == 1, true)
    }
}
