//! `metrics`: writes numbers of all pools as OpenMetrics text for Prometheus, under Hive's names
//! where Hive has one. It only reads the state.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use crate::causes;
use crate::model::claim::Claim;
use crate::model::condition::ConditionType;
use crate::model::ip_pool::IpPool;
use crate::model::ip_supply::SupplyLevel;
use crate::model::meta::Key;
use crate::model::pool::{CLAIM_DELAY_BOUNDS, ClusterPool, PoolStatus};
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::model::time::{Span, Time};
use crate::store::{Store, copies};

use crate::commands::{Context, RunCommand};

/// Arguments of `metrics`. A text file is replaced whole, so that a reader never sees half of it.
#[derive(Args)]
pub struct Metrics {
    /// Write to a file that everybody may read, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
}

impl RunCommand for Metrics {
    const NAME: &'static str = "metrics";
    const ABOUT: &'static str = "Print metrics of all pools as OpenMetrics text";
    const EXAMPLE: &'static str = "poolctl metrics --textfile \"$HOME/poolctl.prom\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        store.begin_read()?;
        let exposition = write_metrics(&store, context.world.now());
        store.rollback();
        let exposition = exposition?;
        match self.textfile {
            Some(path) => Ok(copies::write_public_file(&path, exposition.as_bytes())?),
            None => context.print(&exposition),
        }
    }
}

/// A number of every pool, declared once.
struct Metric {
    name: &'static str,
    /// The type in OpenMetrics: gauge, histogram or counter.
    kind: &'static str,
    /// What it tells, without the full stop at its end.
    help: &'static str,
    values: Values,
}

/// Where the values of a metric come from.
enum Values {
    /// Counted in the status of a pool.
    Count(fn(&PoolStatus) -> u32),
    /// Counted in the status of a pool that has an inventory. There is no line for any other pool.
    Inventory(fn(&PoolStatus) -> u32),
    /// The claim that has waited longest.
    OldestClaim,
    /// The history of a pool's claims.
    AssignmentDelays,
    /// The history of a pool's clusters.
    StaleDeleted,
    /// The condition Degraded.
    Degraded,
    /// What `why` says of a pool.
    Obstacle,
    /// Counted in the status of an IPPool.
    Addresses(fn(&IpPool) -> u128),
    /// The claims that wait for an address of an IPPool.
    WaitingIpClaims,
}

const fn address_gauge(
    name: &'static str,
    help: &'static str,
    count: fn(&IpPool) -> u128,
) -> Metric {
    Metric { name, kind: "gauge", help, values: Values::Addresses(count) }
}

const fn inventory_gauge(
    name: &'static str,
    help: &'static str,
    count: fn(&PoolStatus) -> u32,
) -> Metric {
    Metric { name, kind: "gauge", help, values: Values::Inventory(count) }
}

const fn gauge(name: &'static str, help: &'static str, count: fn(&PoolStatus) -> u32) -> Metric {
    Metric { name, kind: "gauge", help, values: Values::Count(count) }
}

/// All of them, in the order in which they are written. The first are Hive's.
const METRICS: [Metric; 23] = [
    gauge(
        "hive_clusterpool_clusterdeployments_assignable",
        "Unclaimed clusters that run",
        |status| status.ready,
    ),
    gauge("hive_clusterpool_clusterdeployments_claimed", "Claimed clusters", |status| {
        status.claimed
    }),
    gauge(
        "hive_clusterpool_clusterdeployments_deleting",
        "Clusters being deprovisioned",
        |status| status.deleting,
    ),
    // In Hive a cluster is being installed until it is installed, also between two attempts.
    gauge("hive_clusterpool_clusterdeployments_installing", "Clusters being installed", |status| {
        status.installing + status.retrying
    }),
    gauge(
        "hive_clusterpool_clusterdeployments_unclaimed",
        "Unclaimed clusters that are not broken",
        |status| status.size.saturating_sub(status.broken),
    ),
    gauge(
        "hive_clusterpool_clusterdeployments_standby",
        "Unclaimed clusters that hibernate",
        |status| status.standby,
    ),
    gauge(
        "hive_clusterpool_clusterdeployments_stale",
        "Unclaimed clusters of an older version",
        |status| status.stale,
    ),
    gauge(
        "hive_clusterpool_clusterdeployments_broken",
        "Unclaimed clusters that are broken",
        |status| status.broken,
    ),
    gauge("poolctl_claims_pending", "Claims that wait for a cluster", |status| status.pending),
    inventory_gauge("poolctl_customizations_free", "Customizations that can be used", |status| {
        status.free_customizations
    }),
    inventory_gauge(
        "poolctl_customizations_broken",
        "Customizations that cannot be used",
        |status| {
            let broken = status.inventory.values().filter(|entry| entry.status.is_broken());
            u32::try_from(broken.count()).unwrap_or(u32::MAX)
        },
    ),
    Metric {
        name: "poolctl_claim_oldest_pending_seconds",
        kind: "gauge",
        help: "How long the oldest waiting claim has waited",
        values: Values::OldestClaim,
    },
    Metric {
        name: "hive_clusterclaim_assignment_delay_seconds",
        kind: "histogram",
        help: "How long claims waited for their clusters",
        values: Values::AssignmentDelays,
    },
    Metric {
        name: "hive_clusterpool_stale_clusterdeployments_deleted",
        kind: "counter",
        help: "Clusters of an older version that were replaced",
        values: Values::StaleDeleted,
    },
    Metric {
        name: "poolctl_clusterpool_degraded",
        kind: "gauge",
        help: "1 for each pool whose clusters cannot be installed or destroyed, by the class of \
               the cause",
        values: Values::Degraded,
    },
    Metric {
        name: "poolctl_clusterpool_obstacle",
        kind: "gauge",
        help: "1 for each pool that something keeps from having more ready clusters, by what \
               poolctl why explains",
        values: Values::Obstacle,
    },
    address_gauge("poolctl_ippool_addresses", "Addresses of an IPPool", |pool| pool.supply().total),
    address_gauge("poolctl_ippool_leased", "Leased addresses", |pool| pool.supply().used),
    address_gauge("poolctl_ippool_resting", "Addresses that rest after their last use", |pool| {
        pool.supply().resting
    }),
    address_gauge("poolctl_ippool_free", "Addresses that can be leased", |pool| pool.supply().free),
    address_gauge("poolctl_ippool_exhausted", "Whether no address can be leased", |pool| {
        u128::from(pool.supply().free == 0)
    }),
    address_gauge(
        "poolctl_ippool_low",
        "Whether fewer addresses are free than the pool's annotation wants",
        |pool| u128::from(pool.supply_level() == SupplyLevel::Low),
    ),
    Metric {
        name: "poolctl_ippool_claims_pending",
        kind: "gauge",
        help: "Claims that wait for an address",
        values: Values::WaitingIpClaims,
    },
];

/// Name, type and help of every metric, in the order in which they are written.
pub fn describe_metrics() -> Vec<(&'static str, &'static str, &'static str)> {
    METRICS.into_iter().map(|metric| (metric.name, metric.kind, metric.help)).collect()
}

/// All metrics of all pools as OpenMetrics text.
fn write_metrics(store: &Store, now: Time) -> Result<String, Refusal> {
    let pools = store.list_all::<ClusterPool>()?;
    let claims = store.list_all::<Claim>()?;
    let ip_pools = store.list_all::<IpPool>()?;
    let mut out = String::new();
    for Metric { name, kind, help, values } in METRICS {
        let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}.");
        match values {
            Values::Count(count) => {
                for pool in &pools {
                    let _ =
                        writeln!(out, "{name}{{{}}} {}", pool_labels(pool), count(&pool.status));
                }
            }
            Values::Inventory(count) => {
                for pool in pools.iter().filter(|pool| pool.spec.inventory.is_some()) {
                    let _ =
                        writeln!(out, "{name}{{{}}} {}", pool_labels(pool), count(&pool.status));
                }
            }
            Values::OldestClaim => write_oldest_claims(&mut out, name, &pools, &claims, now),
            Values::AssignmentDelays => write_assignment_delays(&mut out, name, &pools),
            Values::StaleDeleted => write_stale_deleted(&mut out, name, &pools),
            Values::Degraded => write_degraded_pools(&mut out, name, &pools),
            Values::Obstacle => write_obstacles(&mut out, name, &pools, store, now)?,
            Values::Addresses(count) => {
                for pool in &ip_pools {
                    let _ = writeln!(out, "{name}{{{}}} {}", ip_pool_labels(pool), count(pool));
                }
            }
            Values::WaitingIpClaims => {
                for pool in &ip_pools {
                    let waiting = store.count_waiting_ip_claims(pool)?;
                    let _ = writeln!(out, "{name}{{{}}} {waiting}", ip_pool_labels(pool));
                }
            }
        }
    }
    Ok(out + "# EOF\n")
}

fn pool_labels(pool: &ClusterPool) -> String {
    let meta = &pool.metadata;
    format!("clusterpool_namespace=\"{}\",clusterpool_name=\"{}\"", meta.namespace, meta.name)
}

fn ip_pool_labels(pool: &IpPool) -> String {
    let meta = &pool.metadata;
    format!("ippool_namespace=\"{}\",ippool_name=\"{}\"", meta.namespace, meta.name)
}

/// How many seconds the claim has waited that waits longest, 0 without any.
fn write_oldest_claims(
    out: &mut String,
    name: &str,
    pools: &[ClusterPool],
    claims: &[Claim],
    now: Time,
) {
    let mut earliest_claims: HashMap<Key, Time> = HashMap::new();
    for claim in claims.iter().filter(|claim| claim.is_waiting()) {
        let earliest = earliest_claims.entry(claim.pool_key()).or_insert(claim.created);
        *earliest = claim.created.min(*earliest);
    }
    for pool in pools {
        let waited = earliest_claims.get(&pool.key()).map(|since| now.since(*since));
        let seconds = waited.unwrap_or_default().0 / Span::seconds(1).0;
        let _ = writeln!(out, "{name}{{{}}} {seconds}", pool_labels(pool));
    }
}

/// How long claims waited for their clusters, in buckets of seconds. Each bucket counts those of
/// the buckets before it too, as histograms of OpenMetrics do.
fn write_assignment_delays(out: &mut String, name: &str, pools: &[ClusterPool]) {
    for pool in pools {
        let labels = pool_labels(pool);
        let history = &pool.status.history;
        let bounds =
            CLAIM_DELAY_BOUNDS.iter().map(|bound| format!("{bound}.0")).chain(["+Inf".into()]);
        let mut total = 0;
        for (bound, count) in bounds.zip(history.assigned) {
            total += count;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {total}");
        }
        let sum = history.waited;
        let _ = writeln!(out, "{name}_count{{{labels}}} {total}\n{name}_sum{{{labels}}} {sum}");
    }
}

/// Writes how many unclaimed clusters were replaced because they were made from an older spec.
fn write_stale_deleted(out: &mut String, name: &str, pools: &[ClusterPool]) {
    for pool in pools {
        let total = pool.status.history.stale_deleted;
        let _ = writeln!(out, "{name}_total{{{}}} {total}", pool_labels(pool));
    }
}

/// The pools that are degraded, and why. There is no line for any other.
fn write_degraded_pools(out: &mut String, name: &str, pools: &[ClusterPool]) {
    for pool in pools {
        let condition = pool.condition(ConditionType::Degraded);
        if let Some(condition) = condition.filter(|condition| condition.status == "True") {
            let labels = pool_labels(pool);
            let _ = writeln!(out, "{name}{{{labels},reason=\"{}\"}} 1", condition.reason);
        }
    }
}

/// What keeps pools from having more ready clusters. There is no line for any other pool.
fn write_obstacles(
    out: &mut String,
    name: &str,
    pools: &[ClusterPool],
    store: &Store,
    now: Time,
) -> Result<(), Refusal> {
    for pool in pools {
        let state = store.load(&Scope::pool(pool.key()), &[])?;
        if let Some(obstacle) = causes::name_strongest_trouble(&state, pool, now) {
            let labels = pool_labels(pool);
            let _ = writeln!(out, "{name}{{{labels},obstacle=\"{obstacle}\"}} 1");
        }
    }
    Ok(())
}
