//! `scale`: `pool scale` as kubectl spells it. Nothing but pools can be scaled.

use clap::Args;

use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;

use crate::commands::{Context, RunCommand, pool, target};

/// Arguments of `scale`, the word of kubectl for `pool scale`.
#[derive(Args)]
pub struct Scale {
    /// Pool, such as pool/lab; or the word pool, with the name after it
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    /// Name of the pool, if only the word pool is given before it
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Number of unclaimed clusters to keep
    #[arg(long, allow_negative_numbers = true)]
    replicas: u32,
    /// Only if the pool has this size now
    #[arg(long, value_name = "SIZE")]
    current_replicas: Option<u32>,
}

impl RunCommand for Scale {
    const NAME: &'static str = "scale";
    const ABOUT: &'static str = "Set the size of a pool";
    const EXAMPLE: &'static str = "poolctl scale pool lab --replicas=3";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, name) = target::parse_object(&self.kind, self.name.as_deref(), Self::EXAMPLE)?;
        if kind != Kind::ClusterPool {
            return Err(Refusal::usage(format!(
                "a {} has no size; only pools can be scaled",
                kind.word()
            ))
            .into());
        }
        pool::scale_pool(context, &name, Some(self.replicas), None, self.current_replicas)
    }
}
