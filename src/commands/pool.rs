//! `pool scale`.

pub mod advise;
pub mod create;
pub mod dns;
pub mod pause;
pub mod render;
pub mod scale;

use clap::Args;

use crate::edits::{describe_sizes, record_event};
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;

use crate::commands::{Context, Verb};

#[derive(Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct Scale {
    #[arg(value_name = "POOL")]
    name: String,
    /// Unclaimed clusters to keep
    #[arg(long, group = "what", allow_negative_numbers = true)]
    size: Option<u32>,
    /// How many of them run; the rest hibernate
    #[arg(long, group = "what", allow_negative_numbers = true)]
    running_count: Option<u32>,
}

impl Verb for Scale {
    const NAME: &'static str = "scale";
    const ABOUT: &'static str = "Set how many clusters a pool keeps, and how many of them run";
    const EXAMPLE: &'static str = "poolctl pool scale lab --size 3 --running-count 1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        scale(context, &self.name, self.size, self.running_count)
    }
}

pub fn scale(
    context: &Context,
    name: &str,
    size: Option<u32>,
    running: Option<u32>,
) -> anyhow::Result<()> {
    let store = context.look()?;
    let key = context.find::<ClusterPool>(&store, name)?.key();
    let gone = || Refusal::not_found(format!("there is no pool `{name}` any more"));
    let ((), passed) =
        context.door(&store).change(&Scope::pool(key.clone()), &[], |state, tick| {
            let at = state.pools.find(&key).ok_or_else(gone)?;
            let old = state.pools.get(at).ok_or_else(gone)?;
            let was = (old.spec.size, old.spec.running_count);
            let now = (size.unwrap_or(was.0), running.unwrap_or(was.1));
            if was != now {
                state.pools.update(at, |pool| {
                    (pool.spec.size, pool.spec.running_count) = now;
                    pool.metadata.generation += 1;
                    pool.scaled_by_hand(tick.now);
                });
                record_event(
                    state,
                    tick,
                    Kind::ClusterPool,
                    key.clone(),
                    EventReason::Scaled,
                    &describe_sizes(was, now),
                );
            }
            Ok(())
        })?;
    context.changed(Kind::ClusterPool, &key, "scaled")?;
    Ok(context.finish(&passed)?)
}
