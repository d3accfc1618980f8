//! `pool scale`, and the edit that it shares with `scale`: sets how many clusters a pool keeps.

pub mod advise;
pub mod create;
pub mod dns;
pub mod pause;
mod platform_options;
pub mod render;
pub mod scale;

use clap::Args;

use crate::edits::{self, PoolSizes, record_event};
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::object::Resource;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::rules;

use crate::commands::{Context, RunCommand};

/// Arguments of `pool scale`. Clusters that are too many are destroyed by the passes that follow.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("counts").required(true).multiple(true))]
pub struct Scale {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    name: String,
    /// Number of unclaimed clusters to keep
    #[arg(long, group = "counts", allow_negative_numbers = true)]
    size: Option<u32>,
    /// Number of unclaimed clusters that run; the others hibernate
    #[arg(long, group = "counts", allow_negative_numbers = true)]
    running_count: Option<u32>,
}

impl RunCommand for Scale {
    const NAME: &'static str = "scale";
    const ABOUT: &'static str = "Set how many clusters a pool keeps, and how many of them run";
    const EXAMPLE: &'static str = "poolctl pool scale lab --size 3 --running-count 1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        scale_pool(context, &self.name, self.size, self.running_count, None)
    }
}

/// Sets the size, the runningCount or both of a pool. What is not given stays as it is. A pool that
/// does not have the `expected_size` is refused.
pub fn scale_pool(
    context: &Context,
    name: &str,
    size: Option<u32>,
    running_count: Option<u32>,
    expected_size: Option<u32>,
) -> anyhow::Result<()> {
    let store = context.open_existing_state()?;
    let key = context.find::<ClusterPool>(&store, name)?.key();
    let scope = Scope::pool(key.clone());
    let ((), passed) = context.door(&store).change(&scope, &[], |state, tick| {
        let pool_id = state.pools.find(&key).ok_or_else(|| absent_pool(name))?;
        let pool = state.pools.get(pool_id).ok_or_else(|| absent_pool(name))?;
        if pool.metadata.deletion_timestamp.is_some() {
            return Err(edits::refuse_deleted(Kind::ClusterPool, &key));
        }
        let before = PoolSizes::of(pool);
        if let Some(expected_size) = expected_size
            && before.size != expected_size
        {
            let size = before.size;
            return Err(Refusal::conflict(format!("pool `{name}` has size {size}"))
                .because(format!("size {expected_size} was expected")));
        }
        let after = PoolSizes {
            size: size.unwrap_or(before.size),
            running_count: running_count.unwrap_or(before.running_count),
        };
        if after == before {
            return Ok(());
        }
        state.pools.update(pool_id, |pool| {
            pool.spec.size = after.size;
            pool.spec.running_count = after.running_count;
            pool.status.keep_install_pause(pool.metadata.generation);
            pool.metadata.generation += 1;
            pool.skip_past_ticks(tick.now);
        });
        record_event(
            state,
            tick,
            Kind::ClusterPool,
            key.clone(),
            EventReason::Scaled,
            &before.describe_changes(after),
        );
        Ok(())
    })?;
    context.report_change(Kind::ClusterPool, &key, "scaled")?;
    let pool = passed.state.pools.by_key(&key).cloned().map(Resource::into_object);
    if let Some(problems) = pool.as_ref().and_then(rules::describe_kept_problems) {
        context.warn(&problems);
    }
    context.report_limits(&passed);
    Ok(context.report_pass(&passed)?)
}

/// Why a pool that was there when the command began is not found by its edit.
fn absent_pool(name: &str) -> Refusal {
    Refusal::not_found(format!("there is no pool `{name}` any more"))
}
