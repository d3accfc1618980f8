//! What keeps a pool from having more clusters ready.

use crate::commands::why::causes::Around;
use crate::commands::why::{Chain, losses};
use crate::model::cluster::{Cluster, Phase};
use crate::model::pool::{ClusterPool, InstallPause, PAUSED};
use crate::model::refusal::Refusal;

impl Around<'_> {
    /// What keeps a pool from having more clusters ready, the strongest reason first.
    pub fn pool(&self, one: &ClusterPool) -> Result<Chain, Refusal> {
        let (name, at, status) = (&one.metadata.name, &self.at, &one.status);
        let first = format!(
            "pool {name} has {} ready, {} standby, {} installing, {} broken of size {}; {} claimed, {} deprovisioning",
            status.ready,
            status.standby,
            status.installing,
            status.broken,
            one.spec.size,
            status.claimed,
            status.deleting
        );
        let says = |kind: &str, is: &str| {
            one.condition(kind)
                .filter(|found| found.status == is)
                .map(|found| found.message.clone())
        };
        let reason = if one.metadata.deletion_timestamp.is_some() {
            self.leaving(one)?
        } else if one.metadata.annotated(PAUSED) {
            Chain::of("it is paused", format!("poolctl pool resume {name}{at}"))
        } else if let Some(message) = says("MissingDependencies", "True") {
            let next = "poolctl apply -f FILE with what is missing, then poolctl reconcile";
            Chain::of(format!("it cannot make clusters: {message}"), next)
        } else if let Some(text) = paused_text(one) {
            Chain::of(text, format!("poolctl events pool/{name}{at}"))
        } else if let Some(most) = full(one) {
            let next = if most == 0 {
                format!("poolctl patch pool {name} -p '{{\"spec\": {{\"maxConcurrent\": 1}}}}'{at}")
            } else {
                "poolctl reconcile --wait".into()
            };
            Chain::of(format!("maxConcurrent {most} lets no more be made or destroyed now"), next)
        } else if let Some(cluster) = self.worst(one) {
            self.cluster(cluster)?
        } else if let Some(cluster) = self.on_the_way(one).filter(|one| one.power.waking()) {
            self.cluster(cluster)?
        } else if let Some(text) = inventory(one) {
            Chain::of(text, format!("poolctl get customization{at}"))
        } else if let Some(message) = says("CapacityAvailable", "False") {
            let most = one.spec.max_size.unwrap_or(0).saturating_add(1);
            let reason = one.condition("CapacityAvailable").map(|one| one.reason.clone());
            let next = match reason.as_deref() {
                Some("HostsExhausted") => format!("poolctl get agent{at}"),
                Some("AddressesExhausted") => format!("poolctl get ippool{at}"),
                _ if status.claimed > 0 => format!("poolctl get claim{at}"),
                _ => {
                    format!(
                        "poolctl patch pool {name} -p '{{\"spec\": {{\"maxSize\": {most}}}}}'{at}"
                    )
                }
            };
            Chain::of(format!("there is no room for more: {message}"), next)
        } else if let Some(chain) = losses::of(self.store, one, self.now, at)? {
            chain
        } else if let Some(cluster) = self.on_the_way(one) {
            self.cluster(cluster)?
        } else {
            self.at_rest(one)
        };
        Ok(reason.behind(first))
    }

    /// A pool that is being deleted.
    fn leaving(&self, one: &ClusterPool) -> Result<Chain, Refusal> {
        let (name, at) = (&one.metadata.name, &self.at);
        let text = "it is being deleted and gives no more clusters";
        if one.spec.max_concurrent == Some(0) {
            let patch = "-p '{\"spec\": {\"maxConcurrent\": 1}}'";
            let text = format!("{text}; maxConcurrent 0 lets nothing go");
            return Ok(Chain::of(text, format!("poolctl patch pool {name} {patch}{at}")));
        }
        let stays =
            |one: &&Cluster| one.deleting.is_some() && (one.protected || one.held || one.paused);
        Ok(match self.members(one).into_iter().find(stays) {
            Some(cluster) => self.cluster(cluster)?.behind(text.into()),
            None => Chain::of(text, format!("poolctl get claim,cluster{at}")),
        })
    }

    /// A pool that lacks nothing and does nothing.
    fn at_rest(&self, one: &ClusterPool) -> Chain {
        let (name, at, status) = (&one.metadata.name, &self.at, &one.status);
        let running = one.spec.running_count;
        let claim = format!("poolctl claim {name}{at}");
        if status.ready > 0 {
            Chain::of("it has what it should", claim)
        } else if status.standby > 0 {
            let text = "its clusters stand by: a claim wakes one";
            Chain::of(format!("{text}; runningCount is {running}"), claim)
        } else if one.spec.size == 0 {
            let text = "its size is 0: it makes clusters only for claims";
            Chain::of(text, format!("poolctl pool scale {name} --size 1{at}"))
        } else {
            let text = format!("a pass decides what comes next; runningCount is {running}");
            Chain::of(text, "poolctl reconcile --wait")
        }
    }

    fn members(&self, pool: &ClusterPool) -> Vec<&Cluster> {
        let members = self.state.members(&pool.key()).clusters.into_iter();
        members.filter_map(|at| self.state.clusters.get(at)).collect()
    }

    /// A cluster that is broken or whose installation failed.
    fn worst(&self, pool: &ClusterPool) -> Option<&Cluster> {
        let bad = |one: &&Cluster| matches!(one.phase(), Phase::Broken | Phase::Retrying);
        self.members(pool).into_iter().find(bad)
    }

    /// The cluster that is likely to be ready first.
    fn on_the_way(&self, pool: &ClusterPool) -> Option<&Cluster> {
        let rank = |one: &&Cluster| match (one.phase(), one.power) {
            _ if one.claim.is_some() => None,
            (Phase::Installed, power) if power.waking() => Some(0),
            (Phase::Installing, _) => Some(1),
            (Phase::Deprovisioning, _) => Some(2),
            _ => None,
        };
        self.members(pool).into_iter().filter(|one| rank(one).is_some()).min_by_key(rank)
    }
}

/// What installations of a pool fail with, and until when none begins.
pub fn paused_text(pool: &ClusterPool) -> Option<String> {
    let pause = pool.status.install_pause.as_ref()?;
    let next = match pause.until {
        Some(until) => format!("the next one begins {until}"),
        None => "the next one is tried now".to_owned(),
    };
    let InstallPause { since, cause, .. } = pause;
    Some(format!("installations fail since {since}, {next}: {cause}"))
}

/// maxConcurrent, when something is missing and it is used up.
fn full(pool: &ClusterPool) -> Option<u32> {
    let status = &pool.status;
    let most = pool.spec.max_concurrent?;
    let lacks = status.size < pool.spec.size;
    (lacks && status.installing + status.deleting >= most).then_some(most)
}

/// What a pool lacks to make the clusters that it should have.
pub fn lacks(pool: &ClusterPool) -> Option<String> {
    let says = |kind: &str, is: &str| {
        let found = pool.condition(kind).filter(|found| found.status == is)?;
        Some(found.message.clone())
    };
    says("MissingDependencies", "True")
        .or_else(|| inventory(pool))
        .or_else(|| says("CapacityAvailable", "False"))
        .filter(|_| is_short(pool))
}

fn is_short(pool: &ClusterPool) -> bool {
    pool.status.size < pool.spec.size.saturating_add(pool.status.pending)
}

/// What of the inventory cannot be used, if none of it is free and more is needed.
fn inventory(pool: &ClusterPool) -> Option<String> {
    let listed = pool.spec.inventory.as_ref()?;
    if pool.status.free_customizations > 0 || !is_short(pool) {
        return None;
    }
    let said = listed.iter().filter_map(|entry| {
        let known = pool.status.inventory.get(&entry.name)?;
        let why = if known.message.is_empty() { &known.cluster_deployment } else { &known.message };
        Some(format!("{} is {} ({why})", entry.name, known.status.to_string().to_lowercase()))
    });
    let said: Vec<String> = said.collect();
    Some(format!("no customization of its {} is free: {}", listed.len(), said.join("; ")))
}
