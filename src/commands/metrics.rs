//! `metrics`: numbers for Prometheus, under Hive's names where Hive has one.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use crate::model::claim::Claim;
use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, DELAYS, PoolStatus};
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::store::{Store, copies};

use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct Metrics {
    /// Write to a file, whole, for the textfile collector; it is for everybody to read
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
}

impl Verb for Metrics {
    const NAME: &'static str = "metrics";
    const ABOUT: &'static str = "Print numbers of all pools as OpenMetrics text";
    const EXAMPLE: &'static str = "poolctl metrics --textfile \"$HOME/poolctl.prom\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        store.begin_read()?;
        let text = text(&store, context.world.now());
        store.rollback();
        let text = text?;
        match self.textfile {
            Some(path) => Ok(copies::publish(&path, text.as_bytes())?),
            None => context.print(&text),
        }
    }
}

type Count = fn(&PoolStatus) -> u32;

/// Gauges of a pool: name, help, and where it is counted. The first are Hive's.
const GAUGES: [(&str, &str, Count); 11] = [
    ("hive_clusterpool_clusterdeployments_assignable", "Unclaimed clusters that run", |one| {
        one.ready
    }),
    ("hive_clusterpool_clusterdeployments_claimed", "Claimed clusters", |one| one.claimed),
    ("hive_clusterpool_clusterdeployments_deleting", "Clusters being deprovisioned", |one| {
        one.deleting
    }),
    ("hive_clusterpool_clusterdeployments_installing", "Clusters being installed", |one| {
        one.installing
    }),
    (
        "hive_clusterpool_clusterdeployments_unclaimed",
        "Unclaimed clusters that are not broken",
        |one| one.size.saturating_sub(one.broken),
    ),
    ("hive_clusterpool_clusterdeployments_standby", "Unclaimed clusters that hibernate", |one| {
        one.standby
    }),
    (
        "hive_clusterpool_clusterdeployments_stale",
        "Unclaimed clusters of an older version",
        |one| one.stale,
    ),
    ("hive_clusterpool_clusterdeployments_broken", "Unclaimed clusters that are broken", |one| {
        one.broken
    }),
    ("poolctl_claims_pending", "Claims that wait", |one| one.pending),
    ("poolctl_customizations_free", "Customizations that can be used", |one| {
        one.free_customizations
    }),
    ("poolctl_customizations_broken", "Customizations that cannot be used", |one| {
        let broken = one.inventory.values().filter(|entry| entry.status.broken());
        u32::try_from(broken.count()).unwrap_or(u32::MAX)
    }),
];

fn text(store: &Store, now: Time) -> Result<String, Refusal> {
    let pools = store.all::<ClusterPool>()?;
    let claims = store.all::<Claim>()?;
    let mut out = String::new();
    for (name, help, count) in GAUGES {
        head(&mut out, name, "gauge", help);
        for pool in &pools {
            let _ = writeln!(out, "{name}{{{}}} {}", labels(pool), count(&pool.status));
        }
    }
    oldest(&mut out, &pools, &claims, now);
    delays(&mut out, &pools);
    replaced(&mut out, &pools);
    Ok(out + "# EOF\n")
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}.");
}

fn labels(pool: &ClusterPool) -> String {
    let meta = &pool.metadata;
    format!("clusterpool_namespace=\"{}\",clusterpool_name=\"{}\"", meta.namespace, meta.name)
}

fn oldest(out: &mut String, pools: &[ClusterPool], claims: &[Claim], now: Time) {
    let name = "poolctl_claim_oldest_pending_seconds";
    head(out, name, "gauge", "How long the claim has waited that waits longest");
    let mut first: HashMap<Key, Time> = HashMap::new();
    for claim in claims.iter().filter(|claim| claim.waits()) {
        let earliest = first.entry(claim.pool_key()).or_insert(claim.created);
        *earliest = claim.created.min(*earliest);
    }
    for pool in pools {
        let waited = first.get(&pool.key()).map(|since| now.since(*since));
        let seconds = waited.unwrap_or_default().0 / Span::seconds(1).0;
        let _ = writeln!(out, "{name}{{{}}} {seconds}", labels(pool));
    }
}

/// How long claims waited for their clusters.
fn delays(out: &mut String, pools: &[ClusterPool]) {
    let name = "hive_clusterclaim_assignment_delay_seconds";
    head(out, name, "histogram", "How long claims waited for their clusters");
    for pool in pools {
        let (labels, history) = (labels(pool), &pool.status.history);
        let bounds = DELAYS.iter().map(|most| format!("{most}.0")).chain(["+Inf".into()]);
        let mut many = 0;
        for (most, more) in bounds.zip(history.assigned) {
            many += more;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{most}\"}} {many}");
        }
        let sum = history.waited;
        let _ = writeln!(out, "{name}_count{{{labels}}} {many}\n{name}_sum{{{labels}}} {sum}");
    }
}

fn replaced(out: &mut String, pools: &[ClusterPool]) {
    let name = "hive_clusterpool_stale_clusterdeployments_deleted";
    head(out, name, "counter", "Clusters of an older version that were replaced");
    for pool in pools {
        let many = pool.status.history.stale_deleted;
        let _ = writeln!(out, "{name}_total{{{}}} {many}", labels(pool));
    }
}
