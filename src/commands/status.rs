//! `status`: shows all pools at a glance, who waits, what is wrong with what, and whether somebody
//! looks after the state. It only reads.

mod bar;
mod document;
mod overview;
mod problems;
mod screen;
mod unwiped;
mod watch;

use clap::Args;

use crate::model::kinds::Kind;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::output::{Answer, Name};
use crate::store::{Filter, Store};

use crate::commands::status::document::overview_document;
use crate::commands::status::overview::Overview;
use crate::commands::status::screen::draw_overview;
use crate::commands::{Audience, Context, RunCommand};

/// Arguments of `status`.
#[derive(Args)]
pub struct Status {
    /// Show it again whenever it changes, until q or Ctrl-C is typed
    #[arg(short, long)]
    watch: bool,
}

impl RunCommand for Status {
    const NAME: &'static str = "status";
    const ABOUT: &'static str = "Show all pools at a glance, and their problems";
    const EXAMPLE: &'static str = "poolctl status";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        if self.watch {
            return watch::watch_status(context, &store);
        }
        let (answer, is_empty) = answer_status(context, &store)?;
        if is_empty {
            context.hint("no pools; next: poolctl pool create demo --fake");
        }
        context.answer(answer)
    }
}

/// The answer in the format that was asked for, and whether there is nothing to show.
fn answer_status(context: &Context, store: &Store) -> Result<(Answer, bool), Refusal> {
    // In one snapshot, so that what others commit meanwhile looks like no fault.
    store.read_snapshot(|| {
        // An overview is of all namespaces, unless `-n` names one: POOLCTL_NAMESPACE does not count.
        let filter = Filter { namespace: context.globals.namespace.clone(), ..Filter::default() };
        let mut pools = Vec::new();
        for pool in store.list::<ClusterPool>(&filter)? {
            pools.push(context.redact_pool(pool));
        }
        if !context.wants_rows() && !context.wants_documents() {
            let names = pools.iter().map(|pool| Name::of(Kind::ClusterPool, &pool.key()));
            return Ok((Answer::default().with_names(names), false));
        }
        let overview = Overview::read(context, store, &filter, pools)?;
        let is_empty = overview.is_without_objects() && context.wants_rows();
        if context.wants_documents() {
            let answer = Answer::default().with_document(overview_document(&overview));
            return Ok((answer, is_empty));
        }
        Ok((Answer::text(draw_overview(context, &overview)), is_empty))
    })
}
