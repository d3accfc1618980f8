//! `status`: the pools at a glance.

mod agents;

use std::collections::HashSet;
use std::fmt::Write;

use clap::Args;
use serde_json::json;

use crate::causes::describe_install_pause;
use crate::model::agent::Agent;
use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase};
use crate::model::condition::{Condition, ConditionType};
use crate::model::host::{BareMetalHost, HOLD};
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::{ClusterPool, PAUSED};
use crate::model::refusal::Refusal;
use crate::output::{Answer, Name, clean};
use crate::plan;
use crate::store::{Filter, Store};

use crate::commands::doctor::orphaned;
use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct Status {}

impl Verb for Status {
    const NAME: &'static str = "status";
    const ABOUT: &'static str = "Show all pools at a glance, and what is wrong";
    const EXAMPLE: &'static str = "poolctl status";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let filter = Filter { namespace: context.globals.namespace.clone(), ..Filter::default() };
        let pools = store.list::<ClusterPool>(&filter)?.into_iter();
        let pools: Vec<ClusterPool> = pools.map(|pool| context.visible_pool(pool)).collect();
        if !context.is_for_people() {
            let names = pools.iter().map(|pool| Name::of(Kind::ClusterPool, &pool.key()));
            let documents = pools.iter().map(|pool| {
                json!({"namespace": pool.metadata.namespace, "name": pool.metadata.name,
                       "size": pool.spec.size, "status": pool.status})
            });
            return context.answer(Answer::default().with_names(names).with_list(documents));
        }
        if context.guest().is_some() {
            return show_to_guest(context, &store, &filter, &pools);
        }
        let agents = store.list::<Agent>(&filter)?;
        if pools.is_empty() && agents.is_empty() {
            context.hint("no pools; next: poolctl pool create demo --fake");
        }
        let mut out = String::new();
        for pool in &pools {
            let _ = writeln!(out, "{}", line(pool));
            for problem in problems(pool) {
                let _ = writeln!(out, "  ! {}", clean(&problem));
            }
        }
        let hosts = store.list::<BareMetalHost>(&filter)?;
        let bad = hosts.iter().filter_map(|host| trouble(context, host));
        let waiting = agents::waiting(context, &store, &agents)?;
        let all = orphaned(&store)?
            .into_iter()
            .chain(failing(&store, &agents)?)
            .chain(bad)
            .chain(waiting);
        for problem in all {
            let _ = writeln!(out, "! {}", clean(&problem));
        }
        let jobs = store.live_jobs()?.len();
        let some = |count: usize, what: &str| match count {
            0 => String::new(),
            count => format!("{count} {what}, "),
        };
        let (hosts, agents) = (some(hosts.len(), "hosts"), some(agents.len(), "agents"));
        let _ = writeln!(out, "{} pools, {hosts}{agents}{jobs} jobs running", pools.len());
        context.answer(Answer::text(out))
    }
}

/// How many clusters the pools have, and the claims that the guest may see.
fn show_to_guest(
    context: &Context,
    store: &Store,
    filter: &Filter,
    pools: &[ClusterPool],
) -> anyhow::Result<()> {
    let claims = context.visible(store, store.objects(Kind::ClusterClaim, filter)?)?;
    let mut out = String::new();
    for pool in pools {
        let _ = writeln!(out, "{}", line(pool));
    }
    for object in &claims {
        if let Object::ClusterClaim(claim) = object {
            let _ = writeln!(out, "{}", clean(&claim_line(claim)));
        }
    }
    let _ = writeln!(out, "{} pools, {} claims", pools.len(), claims.len());
    context.answer(Answer::text(out))
}

fn claim_line(claim: &Claim) -> String {
    let state = match (&claim.cluster, claim.expires()) {
        _ if claim.deleting.is_some() => "is being released".to_owned(),
        (None, _) => format!("waits for a cluster of pool {}", claim.pool),
        (Some(cluster), None) => format!("has cluster {cluster}"),
        (Some(cluster), Some(end)) => format!("has cluster {cluster} until {end}"),
    };
    format!("claim {}/{} {state}", claim.namespace, claim.name)
}

fn trouble(context: &Context, host: &BareMetalHost) -> Option<String> {
    let (name, why) = (&host.metadata.name, &host.status.error_message);
    if !why.is_empty() {
        return Some(format!("host `{name}`: {why}"));
    }
    let held = host.metadata.annotation(HOLD)?;
    let at = context.in_namespace(&host.metadata.namespace);
    Some(format!("host `{name}` is held: {held}; poolctl host unhold {name}{at}"))
}

/// Clusters whose installation fails again and again, or waits for hosts that were lost.
fn failing(store: &Store, agents: &[Agent]) -> Result<Vec<String>, Refusal> {
    let lost = agents.iter().filter(|one| one.state().is_lost());
    let lost: HashSet<String> = lost.filter_map(|one| Some(one.bound_to()?.name)).collect();
    let mut found = Vec::new();
    for cluster in store.all::<Cluster>()? {
        let (name, times) = (&cluster.name, cluster.restarts);
        if times >= plan::WORRYING && cluster.phase() == Phase::Retrying {
            found.push(format!(
                "cluster `{name}` failed to install {times} times: poolctl cluster logs {name}"
            ));
        }
        if let Some(end) = plan::waits_until(&cluster).filter(|_| lost.contains(name)) {
            found.push(format!(
                "cluster `{name}` waits until {end} for hosts that were lost: \
                 poolctl delete cluster {name}"
            ));
        }
    }
    Ok(found)
}

/// A bar of the pool's size, and its counts.
fn line(pool: &ClusterPool) -> String {
    let (status, size) = (&pool.status, pool.spec.size);
    let width = size.clamp(1, 20);
    let part = |count: u32| (count.min(size) * width).div_ceil(size.max(1)).min(width);
    let full = part(status.ready + status.standby);
    let bar: String = (0..width).map(|at| if at < full { '▮' } else { '▯' }).collect();
    let counts = [
        (status.ready, "ready"),
        (status.standby, "standby"),
        (status.installing, "installing"),
        (status.broken, "broken"),
        (status.claimed, "claimed"),
        (status.pending, "waiting"),
        (status.deleting, "deprovisioning"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    let counts = if counts.is_empty() { "empty".into() } else { counts.join(", ") };
    format!("{}/{} {bar} {counts}", pool.metadata.namespace, pool.metadata.name)
}

fn problems(pool: &ClusterPool) -> Vec<String> {
    let bad = [
        (ConditionType::MissingDependencies, "True"),
        (ConditionType::InventoryValid, "False"),
        (ConditionType::InventorySufficient, "False"),
        (ConditionType::CapacityAvailable, "False"),
        (ConditionType::AllClustersCurrent, "False"),
    ];
    let found = bad
        .iter()
        .filter_map(|(kind, status)| pool.condition(*kind).filter(|one| one.status == *status));
    let text = |one: &Condition| match plan::inventory_summary(pool) {
        Some(summary) if one.kind == ConditionType::InventoryValid => {
            format!("inventory: {summary}")
        }
        _ => format!("{}: {}", one.kind, one.message),
    };
    let mut all: Vec<String> =
        describe_install_pause(pool).into_iter().chain(found.map(text)).collect();
    if pool.metadata.deletion_timestamp.is_some() {
        all.push("being deleted".into());
    } else if pool.metadata.annotated(PAUSED) {
        all.push(format!("paused: poolctl pool resume {}", pool.metadata.name));
    }
    all
}
