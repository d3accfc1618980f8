//! `release`: gives claimed clusters back. They are destroyed, and their pools make others.

use clap::Args;

use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::rules::access::AccessAction;

use crate::commands::{Audience, Context, RunCommand, delete};

/// Arguments of `release`. The cluster is destroyed by the passes that follow.
#[derive(Args)]
pub struct Release {
    /// Claims to release
    #[arg(required = true, value_name = "CLAIM")]
    claims: Vec<String>,
}

impl RunCommand for Release {
    const NAME: &'static str = "release";
    const ABOUT: &'static str = "Release a claim; its cluster is destroyed";
    const EXAMPLE: &'static str = "poolctl release ci-17";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let mut claims = Vec::new();
        for name in &self.claims {
            let claim = context.find_object(&store, Kind::ClusterClaim, name)?;
            context.check_permission(&store, AccessAction::Change, &claim)?;
            delete::confirm_deletion(context, &store, &claim)?;
            claims.push(claim);
        }
        delete::delete_objects(context, &store, &claims, |_, claim| describe_release(claim))
    }
}

/// What is said of a claim as it was before the command.
fn describe_release(claim: &Object) -> &'static str {
    if claim.deletion_time().is_some() { "is being released already" } else { "released" }
}
