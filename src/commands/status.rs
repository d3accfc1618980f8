//! `status`: shows all pools at a glance, and what is wrong with what. It only reads.

mod agents;
mod unwiped;

use std::collections::HashSet;
use std::fmt::Write;

use clap::Args;
use serde_json::json;

use crate::model::agent::Agent;
use crate::model::annotations::HOLD;
use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase};
use crate::model::condition::{Condition, ConditionType};
use crate::model::host::BareMetalHost;
use crate::model::ip_pool::IpPool;
use crate::model::ip_supply::SupplyLevel;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::refusal::Refusal;
use crate::output::{Answer, Name, clean_line};
use crate::plan;
use crate::store::{Filter, Store};

use crate::commands::doctor::find_orphaned_claims;
use crate::commands::status::agents::WaitingAgents;
use crate::commands::status::unwiped::UnwipedHosts;
use crate::commands::{Audience, Context, RunCommand, count_of};

#[derive(Args)]
pub struct Status {}

impl RunCommand for Status {
    const NAME: &'static str = "status";
    const ABOUT: &'static str = "Show all pools at a glance, and their problems";
    const EXAMPLE: &'static str = "poolctl status";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        // In one snapshot, so that what others commit meanwhile looks like no fault.
        store.read_snapshot(|| show_status(context, &store))
    }
}

/// Shows what the person may see of the state.
fn show_status(context: &Context, store: &Store) -> anyhow::Result<()> {
    // An overview is of all namespaces, unless `-n` names one: POOLCTL_NAMESPACE does not count.
    let filter = Filter { namespace: context.globals.namespace.clone(), ..Filter::default() };
    let mut pools = Vec::new();
    for pool in store.list::<ClusterPool>(&filter)? {
        pools.push(context.redact_pool(pool));
    }
    if !context.wants_rows() {
        let names = pools.iter().map(|pool| Name::of(Kind::ClusterPool, &pool.key()));
        let documents = pools.iter().map(|pool| {
            json!({"namespace": pool.metadata.namespace, "name": pool.metadata.name,
                   "size": pool.spec.size, "status": pool.status})
        });
        return context.answer(Answer::default().with_names(names).with_list(documents));
    }
    if context.guest().is_some() {
        show_to_guest(context, store, &filter, &pools)
    } else {
        show_to_owner(context, store, &filter, &pools)
    }
}

/// Shows the pools with their problems, then the problems of everything else, then the totals.
fn show_to_owner(
    context: &Context,
    store: &Store,
    filter: &Filter,
    pools: &[ClusterPool],
) -> anyhow::Result<()> {
    let agents = AgentSummary::read(store, filter)?;
    if pools.is_empty() && agents.count == 0 {
        context.hint("no pools; next: poolctl pool create demo --fake");
    }
    let mut lines = String::new();
    for pool in pools {
        let _ = writeln!(lines, "{}", pool_line(pool));
        for problem in pool_problems(pool) {
            let _ = writeln!(lines, "  ! {}", clean_line(&problem));
        }
    }
    let mut problems = find_orphaned_claims(store)?;
    problems.extend(cluster_problems(store, &agents.clusters_with_lost_hosts)?);
    let mut host_count = 0;
    let mut unwiped_hosts = UnwipedHosts::default();
    store.visit_resources::<BareMetalHost>(filter.namespace.as_deref(), &mut |host| {
        host_count += 1;
        problems.extend(host_problem(context, &host));
        unwiped_hosts.count(pools, &host);
        Ok(())
    })?;
    problems.extend(agents.waiting.lines(context, store)?);
    problems.extend(unwiped_hosts.lines(context, store)?);
    let ip_pools = store.list::<IpPool>(filter)?;
    for ip_pool in &ip_pools {
        let IpPool { metadata, .. } = ip_pool;
        let supply = ip_pool.supply().describe();
        let _ = writeln!(lines, "ippool {}/{} {supply}", metadata.namespace, metadata.name);
        problems.extend(ip_pool_problem(context, store, ip_pool)?);
    }
    for problem in problems {
        let _ = writeln!(lines, "! {}", clean_line(&problem));
    }
    let _ = write!(lines, "{}, ", count_of(pools.len(), "pool"));
    if !ip_pools.is_empty() {
        let _ = write!(lines, "{}, ", count_of(ip_pools.len(), "IPPool"));
    }
    if host_count > 0 {
        let _ = write!(lines, "{}, ", count_of(host_count, "host"));
    }
    if agents.count > 0 {
        let _ = write!(lines, "{}, ", count_of(agents.count, "agent"));
    }
    let _ = writeln!(lines, "{} running", count_of(store.live_jobs()?.len(), "job"));
    context.answer(Answer::text(lines))
}

/// Shows how many clusters the pools have, and the claims that the guest may see.
fn show_to_guest(
    context: &Context,
    store: &Store,
    filter: &Filter,
    pools: &[ClusterPool],
) -> anyhow::Result<()> {
    let claims = context.filter_visible(store, store.list_objects(Kind::ClusterClaim, filter)?)?;
    let mut lines = String::new();
    for pool in pools {
        let _ = writeln!(lines, "{}", pool_line(pool));
    }
    for object in &claims {
        if let Object::ClusterClaim(claim) = object {
            let _ = writeln!(lines, "{}", clean_line(&claim_line(claim)));
        }
    }
    let pool_count = count_of(pools.len(), "pool");
    let _ = writeln!(lines, "{pool_count}, {}", count_of(claims.len(), "claim"));
    context.answer(Answer::text(lines))
}

/// A line about a claim: whether it waits, or which cluster it has and until when.
fn claim_line(claim: &Claim) -> String {
    let state = match (&claim.cluster, claim.expires_at()) {
        _ if claim.deleting.is_some() => "is being released".to_owned(),
        (None, _) => format!("waits for a cluster of pool {}", claim.pool),
        (Some(cluster), None) => format!("has cluster {cluster}"),
        (Some(cluster), Some(end)) => format!("has cluster {cluster} until {end}"),
    };
    format!("claim {}/{} {state}", claim.namespace, claim.name)
}

/// Claims that wait for addresses of a pool, or a pool with fewer free addresses than its owner
/// wants. A pool whose addresses are all in use is as it should be while nobody asks for more.
fn ip_pool_problem(
    context: &Context,
    store: &Store,
    ip_pool: &IpPool,
) -> Result<Option<String>, Refusal> {
    let key = ip_pool.metadata.key();
    let name = &key.name;
    let next = format!("poolctl ippool map {name}{}", context.namespace_option(&key.namespace));
    let waiting = store.count_waiting_ip_claims(ip_pool)?;
    if waiting > 0 {
        let claims = count_of(waiting, "claim");
        let verb = if waiting == 1 { "waits" } else { "wait" };
        return Ok(Some(format!("ippool `{name}`: {claims} {verb} for an address; {next}")));
    }
    let is_short =
        ip_pool.supply_limit().is_some() && ip_pool.supply_level() != SupplyLevel::Sufficient;
    let free = ip_pool.supply().free;
    Ok(is_short.then(|| format!("ippool `{name}` has only {free} free addresses; {next}")))
}

/// What is wrong with a host, or why it is held.
fn host_problem(context: &Context, host: &BareMetalHost) -> Option<String> {
    let name = &host.metadata.name;
    let error = &host.status.error_message;
    if !error.is_empty() {
        return Some(format!("host `{name}`: {error}"));
    }
    let reason = host.metadata.annotation(HOLD)?;
    let namespace_option = context.namespace_option(&host.metadata.namespace);
    Some(format!("host `{name}` is held: {reason}; poolctl host unhold {name}{namespace_option}"))
}

/// What is shown of agents. Their documents are large, and are read one by one.
#[derive(Default)]
struct AgentSummary {
    count: usize,
    waiting: WaitingAgents,
    clusters_with_lost_hosts: HashSet<String>,
}

impl AgentSummary {
    fn read(store: &Store, filter: &Filter) -> Result<Self, Refusal> {
        let mut summary = Self::default();
        store.visit_resources::<Agent>(filter.namespace.as_deref(), &mut |agent| {
            summary.count += 1;
            summary.waiting.add(&agent);
            if agent.state().has_become_unfit() {
                let cluster = agent.bound_cluster().map(|cluster| cluster.name);
                summary.clusters_with_lost_hosts.extend(cluster);
            }
            Ok(())
        })?;
        Ok(summary)
    }
}

/// Clusters whose installation fails again and again, or waits for hosts that were lost, those that
/// do not wake, and those that only a person can destroy.
fn cluster_problems(
    store: &Store,
    clusters_with_lost_hosts: &HashSet<String>,
) -> Result<Vec<String>, Refusal> {
    let mut problems = Vec::new();
    store.visit_clusters(&mut |cluster| {
        let name = &cluster.name;
        let failures = cluster.restarts;
        // Also while another attempt runs: it has not succeeded yet.
        let is_tried_again = matches!(cluster.phase(), Phase::Installing | Phase::Retrying);
        if failures >= plan::FAILURES_WORTH_A_WARNING && is_tried_again {
            problems.push(format!(
                "cluster `{name}` failed to install {failures} times: poolctl cluster logs {name}"
            ));
        }
        problems.extend(waking_problem(&cluster));
        if cluster.undo_blocked.is_some() {
            problems.push(format!(
                "cluster `{name}` cannot be destroyed by poolctl: poolctl why cluster/{name}"
            ));
        }
        if let Some(end) = plan::waits_for_hosts_until(&cluster)
            && clusters_with_lost_hosts.contains(name)
        {
            problems.push(format!(
                "cluster `{name}` waits until {end} for hosts that were lost: \
                 poolctl delete cluster {name}"
            ));
        }
        Ok(())
    })?;
    Ok(problems)
}

/// Why a cluster that its pool keeps for claims may not be there for them: its machines cannot be
/// started, or it did not run in time when it was called.
fn waking_problem(cluster: &Cluster) -> Option<String> {
    if cluster.pool.is_none() || cluster.claim.is_some() || cluster.deleting.is_some() {
        return None;
    }
    let name = &cluster.name;
    if let Some(failure) = cluster.start_failure() {
        let next = format!("poolctl cluster retry {name}");
        return Some(format!("cluster `{name}` cannot be started: {failure}; {next}"));
    }
    if cluster.passed_over.is_none() || cluster.power.is_running() {
        return None;
    }
    let next = format!("poolctl events cluster/{name}");
    Some(format!("cluster `{name}` did not wake when it was called: {next}"))
}

/// A pool with a bar of its size, filled as far as clusters are installed, and its counts.
fn pool_line(pool: &ClusterPool) -> String {
    let status = &pool.status;
    let counts = [
        (status.ready, "ready"),
        (status.standby, "standby"),
        (status.installing, "installing"),
        (status.retrying, "retrying"),
        (status.broken, "broken"),
        (status.claimed, "claimed"),
        (status.pending, "waiting"),
        (status.deleting, "deprovisioning"),
    ];
    let mut words = Vec::new();
    for (count, word) in counts {
        if count > 0 {
            words.push(format!("{count} {word}"));
        }
    }
    if words.is_empty() {
        words.push("empty".to_owned());
    }
    let bar = size_bar(status.ready + status.standby, pool.spec.size);
    format!("{}/{} {bar} {}", pool.metadata.namespace, pool.metadata.name, words.join(", "))
}

/// A bar of one square for each cluster, of 20 squares at most.
fn size_bar(installed: u32, size: u32) -> String {
    let width = size.clamp(1, 20);
    // Rounded up, so that the bar of a pool with any cluster is not empty.
    let full = (installed.min(size) * width).div_ceil(size.max(1)).min(width);
    (0..width).map(|index| if index < full { '▮' } else { '▯' }).collect()
}

/// What is wrong with a pool, a short text for each: bad conditions, and then its own deletion or
/// pause.
fn pool_problems(pool: &ClusterPool) -> Vec<String> {
    let condition_types = [
        ConditionType::Degraded,
        ConditionType::MissingDependencies,
        ConditionType::InventoryValid,
        ConditionType::InventorySufficient,
        ConditionType::CapacityAvailable,
        ConditionType::AllClustersCurrent,
    ];
    let mut problems = Vec::new();
    for condition_type in condition_types {
        if let Some(condition) = pool.condition(condition_type)
            && condition.status == condition_type.bad_status()
        {
            problems.push(describe_condition(pool, condition));
        }
    }
    if pool.metadata.deletion_timestamp.is_some() {
        problems.push("being deleted".into());
    } else if pool.metadata.has_true_annotation(RECONCILE_PAUSE) {
        problems.push(format!("paused: poolctl pool resume {}", pool.metadata.name));
    }
    problems
}

fn describe_condition(pool: &ClusterPool, condition: &Condition) -> String {
    if condition.kind == ConditionType::InventoryValid
        && let Some(summary) = plan::inventory_summary(pool)
    {
        return format!("inventory: {summary}");
    }
    format!("{}: {}", condition.kind, condition.message)
}
