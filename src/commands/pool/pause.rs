//! `pool pause` and `pool resume`: a paused pool makes, hands over and removes no clusters; those
//! that are there go on.

use clap::Args;
use serde_json::{Map, Value};

use crate::model::kinds::Kind;
use crate::model::pool::PAUSED;
use crate::model::refusal::Refusal;

use crate::commands::{Context, Verb, patch};

#[derive(Args)]
pub struct Pause {
    #[arg(value_name = "POOL")]
    name: String,
}

impl Verb for Pause {
    const NAME: &'static str = "pause";
    const ABOUT: &'static str = "Let a pool make no clusters, hand over none and remove none";
    const EXAMPLE: &'static str = "poolctl pool pause lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set(context, &self.name, true)
    }
}

#[derive(Args)]
pub struct Resume {
    #[arg(value_name = "POOL")]
    name: String,
}

impl Verb for Resume {
    const NAME: &'static str = "resume";
    const ABOUT: &'static str = "End a pause";
    const EXAMPLE: &'static str = "poolctl pool resume lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set(context, &self.name, false)
    }
}

fn set(context: &Context, name: &str, paused: bool) -> anyhow::Result<()> {
    let done = if paused { "paused" } else { "resumed" };
    let store = context.look()?;
    patch::change(context, &store, Kind::ClusterPool, name, done, |document| {
        let metadata = document["metadata"].as_object_mut();
        let metadata = metadata.ok_or_else(|| Refusal::invalid("the pool has no metadata"))?;
        let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
        let Value::Object(annotations) = annotations else { return Ok(()) };
        if paused {
            annotations.insert(PAUSED.into(), "true".into());
        } else {
            annotations.remove(PAUSED);
        }
        Ok(())
    })
}
