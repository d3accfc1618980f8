//! `cluster forget`: lets a cluster go that poolctl cannot destroy, after a person has destroyed it
//! by hand. It never destroys anything.

use clap::Args;

use crate::edits::record_event;
use crate::model::cluster::Cluster;
use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::plan;
use crate::rules::access::AccessAction;

use crate::commands::cluster::credentials::find_cluster;
use crate::commands::scope::EditedObject;
use crate::commands::{Context, RunCommand, scope};

/// Arguments of `cluster forget`. Nothing checks that the machines are gone, so an option must say
/// so.
#[derive(Args)]
pub struct Forget {
    /// Cluster that is being deleted and cannot be destroyed
    #[arg(value_name = "CLUSTER")]
    name: String,
    /// Say that nothing of the cluster is left: machines, disks, load balancers and names in DNS
    #[arg(long)]
    i_have_destroyed_it: bool,
}

impl RunCommand for Forget {
    const NAME: &'static str = "forget";
    const ABOUT: &'static str = "Forget a cluster that could not be destroyed, but by hand";
    const EXAMPLE: &'static str = "poolctl cluster forget CLUSTER --i-have-destroyed-it";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let cluster = find_cluster(context, &store, &self.name, AccessAction::Change)
            .map_err(|refusal| self.explain_missing_cluster(refusal))?;
        if !self.i_have_destroyed_it {
            return Err(self.ask_for_confirmation(context, &cluster).into());
        }
        let key = cluster.key();
        let edited = [EditedObject::new(Kind::ClusterDeployment, key.clone())];
        let scope = scope::scope_of(&store, &edited)?;
        let needs = scope::needs_of(&edited);
        let ((), passed) = context
            .door(&store)
            .change(&scope, &needs, |state, tick| forget_cluster(context, state, &cluster, tick))?;
        context.report_change(Kind::ClusterDeployment, &key, "forgotten")?;
        Ok(context.report_pass(&passed)?)
    }
}

impl Forget {
    /// Whoever has a cluster forgotten knows its name and may not know its namespace.
    fn explain_missing_cluster(&self, refusal: Refusal) -> Refusal {
        if refusal.exit != Exit::NotFound {
            return refusal;
        }
        Refusal::not_found(format!("there is no cluster `{}`", self.name))
            .advise("poolctl get cluster -A")
    }

    fn ask_for_confirmation(&self, context: &Context, cluster: &Cluster) -> Refusal {
        let name = &cluster.name;
        let option = context.namespace_option(&cluster.namespace);
        Refusal::usage(format!(
            "cluster `{}` is forgotten only with --i-have-destroyed-it",
            self.name
        ))
        .because("poolctl destroys nothing of it, and keeps nothing that could find it again")
        .advise(format!("poolctl cluster forget {name}{option} --i-have-destroyed-it"))
    }
}

/// Lets a cluster go, with all that is leased to it. Refused unless an attempt to destroy it has
/// failed: whoever forgot it otherwise would leave its machines behind.
fn forget_cluster(
    context: &Context,
    state: &mut State,
    cluster: &Cluster,
    tick: &Tick,
) -> Result<(), Refusal> {
    let name = &cluster.name;
    let current = state.find_cluster(name).and_then(|id| Some((id, state.clusters.get(id)?)));
    let Some((cluster_id, current)) = current else {
        return Err(Refusal::not_found(format!("cluster `{name}` is gone")));
    };
    let option = context.namespace_option(&cluster.namespace);
    if current.deleting.is_none() {
        let problem = format!("cluster `{name}` is not being deleted");
        return Err(Refusal::conflict(problem)
            .because("poolctl destroys a cluster itself if it can")
            .advise(format!("poolctl delete cluster {name}{option}")));
    }
    if current.undo_blocked.is_none() && current.undo_failed_at.is_none() {
        let problem = format!("no attempt to destroy cluster `{name}` has failed");
        return Err(
            Refusal::conflict(problem).advise(format!("poolctl why cluster/{name}{option}"))
        );
    }
    let infrastructure = match infra_id(current) {
        Some(infra_id) => format!("infrastructure {infra_id}"),
        None => "its infrastructure".to_owned(),
    };
    let message = format!("{} has destroyed {infrastructure} by hand", tick.actor);
    let reason = EventReason::Forgotten;
    record_event(state, tick, Kind::ClusterDeployment, cluster.key(), reason, &message);
    plan::forget_cluster(state, cluster_id, tick);
    Ok(())
}

/// The id by which the platform knows what was made of a cluster.
fn infra_id(cluster: &Cluster) -> Option<&str> {
    let metadata = cluster.body.as_ref()?.spec.cluster_metadata.as_ref()?;
    if metadata.infra_id.is_empty() { None } else { Some(&metadata.infra_id) }
}
