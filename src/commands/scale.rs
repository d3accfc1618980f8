//! `scale`: kubectl's spelling of `pool scale`.

use clap::Args;

use crate::model::kind::Kind;
use crate::model::refusal::Refusal;

use super::events::kind_of;
use super::{Context, Verb, pool};

#[derive(Args)]
pub struct Scale {
    /// pool, or pool/NAME
    kind: String,
    name: Option<String>,
    /// The new size
    #[arg(long)]
    replicas: u32,
}

impl Verb for Scale {
    const NAME: &'static str = "scale";
    const ABOUT: &'static str = "Set the size of a pool";
    const EXAMPLE: &'static str = "poolctl scale pool lab --replicas=3";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (kind, name) = match (self.kind.split_once('/'), &self.name) {
            (Some((kind, name)), None) => (kind.to_owned(), name.to_owned()),
            (None, Some(name)) => (self.kind.clone(), name.clone()),
            _ => {
                return Err(Refusal::usage("scale needs a kind and a name")
                    .next(Self::EXAMPLE)
                    .into());
            }
        };
        if kind_of(&kind)? != Kind::ClusterPool {
            return Err(
                Refusal::usage(format!("a {kind} has no size; only pools can be scaled")).into()
            );
        }
        pool::scale(context, &name, Some(self.replicas), None)
    }
}
