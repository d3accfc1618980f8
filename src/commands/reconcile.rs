//! `reconcile`: one pass over everything, for cron. What the pass does is decided in `plan`.

use anyhow::bail;
use clap::Args;

use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::Scope;
use crate::model::time::Span;
use crate::output;
use crate::reconcile::{Door, Notes};
use crate::store::try_pass_lock;

use crate::commands::waiting::Waiting;
use crate::commands::{Context, RunCommand, plan};

/// Arguments of `reconcile`, which cron or systemd runs every minute.
#[derive(Args)]
pub struct Reconcile {
    /// Repeat passes until no job is running, at most this long (1h without a value)
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1h"
    )]
    wait: Option<Span>,
    /// Reconcile only this pool
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Look at everything, also at what is not due and was not changed
    #[arg(long, conflicts_with_all = ["wait", "pool"])]
    all: bool,
    /// Only print what a pass over everything would change
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Exit with code 7 if another pass is running
    #[arg(long, conflicts_with = "wait")]
    strict: bool,
}

impl RunCommand for Reconcile {
    const NAME: &'static str = "reconcile";
    const ABOUT: &'static str =
        "Run one pass: read the results of jobs, decide what to do, start jobs";
    const DESCRIPTION: &'static str = "\
poolctl has no daemon: cron or a timer runs this command every minute. A pass looks only at what is \
due, was changed, or has jobs that ended. It waits for jobs only with --wait. Two passes never \
overlap: the second ends at once, with exit code 0, or with 7 if --strict is given.

Every command that changes an object runs a pass for that object by itself. `poolctl plan` says \
what the next pass would do.";
    const EXAMPLE: &'static str = "poolctl reconcile --wait=10m";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        store.allow_reserve();
        let door = Door { store: &store, world: &context.world, plans_changes: true };
        let pool = match &self.pool {
            Some(name) => Some(context.find::<ClusterPool>(&store, name)?.key()),
            None => None,
        };
        let scope = pool.clone().map_or(Scope::Whole, Scope::pool);
        if self.dry_run {
            let (state, _) = door.preview_pass(&scope, Notes::Trust)?;
            let changes = output::difference_lines(&state);
            return context.answer(plan::changes_answer(context, changes));
        }
        if let Some(limit) = self.wait {
            let waiting = Waiting { context, door: &door, pool: pool.as_ref(), limit };
            return Ok(waiting.wait_until_idle()?);
        }
        let Some(_lock) = try_pass_lock(store.path())? else {
            if self.strict {
                bail!(Refusal::new(Exit::Busy, "another pass is running"));
            }
            context.hint("another pass is running; this command changed nothing");
            return Ok(());
        };
        let passed = match pool {
            Some(_) => door.run_pass(&scope)?,
            None if self.all => door.run_whole_pass_before_exit()?,
            None => door.run_due_pass()?,
        };
        if pool.is_none() {
            store.note_pass(context.world.now());
        }
        Ok(context.report_pass(&passed)?)
    }
}
