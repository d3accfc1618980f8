//! `cluster hibernate` and `cluster resume`: the power of a cluster that somebody has.

use clap::Args;

use crate::model::cluster::Power;
use crate::model::kind::Kind;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::store::{Filter, Store};

use super::{Context, Verb, patch};

#[derive(Args)]
pub struct Hibernate {
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl Verb for Hibernate {
    const NAME: &'static str = "hibernate";
    const ABOUT: &'static str = "Stop the machines of a claimed cluster";
    const EXAMPLE: &'static str = "poolctl cluster hibernate ci-17";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set(context, &self.name, Power::Hibernating, "hibernating")
    }
}

#[derive(Args)]
pub struct Resume {
    #[arg(value_name = "CLAIM|CLUSTER")]
    name: String,
}

impl Verb for Resume {
    const NAME: &'static str = "resume";
    const ABOUT: &'static str = "Start the machines of a claimed cluster";
    const EXAMPLE: &'static str = "poolctl cluster resume ci-17";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        set(context, &self.name, Power::Running, "resuming")
    }
}

fn set(context: &Context, name: &str, power: Power, done: &str) -> anyhow::Result<()> {
    let store = context.look()?;
    let name = &cluster_of(context, &store, name)?;
    let Object::Cluster(found) = context.find(&store, Kind::ClusterDeployment, name)? else {
        return Ok(());
    };
    if let Some(pool) = found.pool.as_ref().filter(|_| found.claim.is_none()) {
        let what = format!("cluster `{name}` is unclaimed: its pool says who runs");
        let at = context.in_namespace(&pool.namespace);
        return Err(Refusal::conflict(what)
            .next(format!("poolctl pool scale {} --running-count N{at}", pool.name))
            .into());
    }
    if found.powerless {
        return Err(
            Refusal::conflict(format!("the driver of cluster `{name}` cannot stop it")).into()
        );
    }
    patch::change(context, &store, Kind::ClusterDeployment, name, done, |document| {
        document["spec"]["powerState"] = power.wire().into();
        Ok(())
    })
}

/// The name of a claim's cluster, or the name itself.
fn cluster_of(context: &Context, store: &Store, name: &str) -> Result<String, Refusal> {
    let key = context.key(Kind::ClusterClaim, name)?;
    let filter = Filter { namespace: Some(key.namespace), name: Some(key.name), whole: false };
    match store.objects(Kind::ClusterClaim, &filter)?.into_iter().next() {
        Some(Object::Claim(claim)) => claim.cluster.ok_or_else(|| {
            Refusal::conflict(format!("claim `{name}` has no cluster yet"))
                .next(format!("poolctl why claim/{name}"))
        }),
        _ => Ok(name.to_owned()),
    }
}
