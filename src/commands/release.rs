//! `release`: gives clusters back; they are destroyed and their pools make others.

use clap::Args;

use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;

use super::{Context, Verb, delete};

#[derive(Args)]
pub struct Release {
    #[arg(required = true)]
    claims: Vec<String>,
}

impl Verb for Release {
    const NAME: &'static str = "release";
    const ABOUT: &'static str = "Give a cluster back; it is destroyed, and its pool makes another";
    const EXAMPLE: &'static str = "poolctl release ci-17";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let actor = context.world.actor();
        let mut keys: Vec<Key> = Vec::new();
        for name in &self.claims {
            let found = context.find(&store, Kind::ClusterClaim, name)?;
            if let Object::Claim(claim) = &found
                && !claim.owner.is_empty()
                && claim.owner != actor
            {
                let loss = format!("claim `{name}` belongs to {}", claim.owner);
                context.confirm(&loss, &format!("poolctl release {name}"))?;
            }
            keys.push(found.key());
        }
        delete::delete(context, &store, Kind::ClusterClaim, &keys, "released")
    }
}
