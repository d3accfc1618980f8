//! `logs`: the log of a cluster's, a host's or a job's program, by the words that kubectl takes.

use clap::Args;

use crate::model::refusal::Refusal;

use crate::commands::{Context, RunCommand, job};

/// Arguments of `logs`, as kubectl has them.
#[derive(Args)]
pub struct Logs {
    /// Cluster, claim, host or job, such as cluster/lab-x7k2
    #[arg(value_name = "JOB|CLUSTER|HOST")]
    name: String,
    /// Keep printing until the job ends
    #[arg(short, long)]
    follow: bool,
    /// Print the log of the job before the last
    #[arg(short, long)]
    previous: bool,
}

impl RunCommand for Logs {
    const NAME: &'static str = "logs";
    const ABOUT: &'static str = "Print the log of the last job of a cluster, with secrets hidden";
    const EXAMPLE: &'static str = "poolctl logs CLUSTER";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let jobs = job::find_jobs(context, &store, &self.name)?;
        let skipped = usize::from(self.previous);
        let Some(job) = jobs.iter().rev().nth(skipped) else {
            let problem = format!("there is no earlier job of `{}`", self.name);
            return Err(Refusal::not_found(problem).next("poolctl job list --all").into());
        };
        job::print_log(context, &store, &jobs, job, self.follow)
    }
}
