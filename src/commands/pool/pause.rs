//! `pool pause` and `pool resume`: a paused pool makes, hands over and removes no clusters. Jobs
//! that run go on, and clusters that exist stay as they are.

use clap::Args;
use serde_json::{Map, Value};

use crate::model::kinds::Kind;
use crate::model::pool::RECONCILE_PAUSE;
use crate::model::refusal::Refusal;

use crate::commands::{Context, RunCommand, patch};

/// Arguments of `pool pause`.
#[derive(Args)]
pub struct Pause {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    name: String,
}

impl RunCommand for Pause {
    const NAME: &'static str = "pause";
    const ABOUT: &'static str = "Pause a pool: it installs, gives out and destroys no clusters";
    const EXAMPLE: &'static str = "poolctl pool pause lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        change_pause(context, &self.name, PauseChange::Pause)
    }
}

/// Arguments of `pool resume`.
#[derive(Args)]
pub struct Resume {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    name: String,
}

impl RunCommand for Resume {
    const NAME: &'static str = "resume";
    const ABOUT: &'static str = "Resume a paused pool";
    const EXAMPLE: &'static str = "poolctl pool resume lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        change_pause(context, &self.name, PauseChange::Resume)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PauseChange {
    Pause,
    Resume,
}

/// Sets or removes the annotation that pauses a pool.
fn change_pause(context: &Context, name: &str, change: PauseChange) -> anyhow::Result<()> {
    let result = match change {
        PauseChange::Pause => "paused",
        PauseChange::Resume => "resumed",
    };
    let store = context.open_existing_state()?;
    patch::change_object(context, &store, Kind::ClusterPool, name, result, |document| {
        let Some(metadata) = document["metadata"].as_object_mut() else {
            return Err(Refusal::invalid("the pool has no metadata"));
        };
        let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
        let Value::Object(annotations) = annotations else { return Ok(()) };
        match change {
            PauseChange::Pause => {
                annotations.insert(RECONCILE_PAUSE.into(), "true".into());
            }
            PauseChange::Resume => {
                annotations.remove(RECONCILE_PAUSE);
            }
        }
        Ok(())
    })
}
