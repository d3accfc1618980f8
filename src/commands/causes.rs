//! Why objects are as they are: one chain of causes for each kind, the strongest reason first.

use crate::model::claim::{Claim, ClusterRunning};
use crate::model::cluster::{Cluster, Driver, POWER_PAUSED, Phase, Power};
use crate::model::customization::Customization;
use crate::model::kind::Kind;
use crate::model::object::Object;
use crate::model::pool::{ClusterPool, PAUSED};
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::time::Time;
use crate::plan;
use crate::store::{Filter, Need, Store};

use super::why::Chain;
use super::{Context, losses, queue};

/// What an object is seen with.
struct Around<'a> {
    store: &'a Store,
    state: State,
    now: Time,
    /// ` -n NAMESPACE`, where it is needed.
    at: String,
}

pub fn chain(context: &Context, store: &Store, object: &Object) -> Result<Chain, Refusal> {
    let key = object.key();
    let pool = match object {
        Object::Pool(_) => Some(key.clone()),
        Object::Claim(one) => Some(one.pool_key()),
        Object::Cluster(one) => one.pool.as_deref().cloned(),
        Object::Customization(one) => one.holder.as_ref().and_then(|holder| holder.pool.clone()),
        _ => None,
    };
    let mut needs = vec![Need { kind: object.kind(), key: key.clone() }];
    if let Object::Cluster(one) = object {
        // Its claim may have been sent to another pool.
        let claim = one.claim_key().map(|key| Need { kind: Kind::ClusterClaim, key });
        needs.extend(claim);
    }
    let scope = Scope::Pools(pool.into_iter().collect());
    let (state, _) = context.door(store).imagine(&scope, &needs)?;
    let now = context.world.now().max(store.mark()?.1.now);
    let own = key.namespace == key.name;
    let at = if own { String::new() } else { context.in_namespace(&key.namespace) };
    let around = Around { store, state, now, at };
    Ok(match object {
        Object::Pool(one) => around.pool(one)?,
        Object::Claim(one) => around.claim(one)?,
        Object::Cluster(one) => around.cluster(one),
        Object::Customization(one) => around.customization(one)?,
        other => around.other(other),
    })
}

impl Around<'_> {
    fn ago(&self, time: Option<Time>) -> String {
        time.map(|time| format!(" for {}", self.now.since(time).short())).unwrap_or_default()
    }

    fn claim(&self, one: &Claim) -> Result<Chain, Refusal> {
        let (name, at) = (&one.name, &self.at);
        let cluster = one.cluster.as_deref().and_then(|name| self.state.cluster(name));
        let cluster = cluster.and_then(|at| self.state.clusters.get(at));
        if let Some(since) = one.deleting {
            let first = format!("claim {name} is being released{}", self.ago(Some(since)));
            let pool = self.state.pools.by_key(&one.pool_key());
            let paused = pool.filter(|pool| pool.metadata.annotated(PAUSED));
            return Ok(match (cluster, paused) {
                (Some(cluster), Some(pool)) if cluster.deleting.is_none() => {
                    self.pool(pool)?.behind(first)
                }
                (Some(cluster), _) => self.cluster(cluster).behind(first),
                (None, _) => Chain::of(first, "poolctl reconcile --wait"),
            });
        }
        if let Some(its) = &one.cluster {
            let first = format!("claim {name} has cluster {its}");
            let Some(cluster) = cluster else {
                return Ok(Chain::of(
                    format!("{first}, which is gone"),
                    format!("poolctl release {name}{at}"),
                ));
            };
            if one.running == ClusterRunning::Running {
                let end = one.expires().map_or("it has no end".into(), |end| {
                    format!("it ends {end}, in {}", end.since(self.now).short())
                });
                let text = format!("{first}, which runs; {end}");
                return Ok(Chain::of(text, format!("poolctl kubeconfig {name}{at}")));
            }
            return Ok(self.cluster(cluster).behind(first));
        }
        let place = queue::places(self.store, self.now)?.get(&one.key()).copied();
        let place = place.map_or("#1".into(), |place| place.to_string());
        let pool = &one.pool;
        let first = format!(
            "claim {name} waits{} in the queue of pool {pool} ({place})",
            self.ago(Some(one.created))
        );
        Ok(match self.state.pools.by_key(&one.pool_key()) {
            Some(pool) => self.pool(pool)?.behind(first),
            None => Chain::of(first, "poolctl get pool -A")
                .after(format!("there is no pool {pool} in namespace {}", one.namespace)),
        })
    }

    /// What keeps a pool from having more clusters ready, the strongest reason first.
    fn pool(&self, one: &ClusterPool) -> Result<Chain, Refusal> {
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
            let none = one.spec.max_concurrent == Some(0);
            let patch = format!(
                "poolctl patch pool {name} -p '{{\"spec\": {{\"maxConcurrent\": 1}}}}'{at}"
            );
            let next = if none { patch } else { format!("poolctl get claim,cluster{at}") };
            let why = if none { "; maxConcurrent 0 lets nothing go" } else { "" };
            Chain::of(format!("it is being deleted and gives no more clusters{why}"), next)
        } else if one.metadata.annotated(PAUSED) {
            Chain::of("it is paused", format!("poolctl pool resume {name}{at}"))
        } else if let Some(message) = says("MissingDependencies", "True") {
            let next = "poolctl apply -f FILE with what is missing, then poolctl reconcile";
            Chain::of(format!("it cannot make clusters: {message}"), next)
        } else if let Some(most) = full(one) {
            let next = if most == 0 {
                format!("poolctl patch pool {name} -p '{{\"spec\": {{\"maxConcurrent\": 1}}}}'{at}")
            } else {
                "poolctl reconcile --wait".into()
            };
            Chain::of(format!("maxConcurrent {most} lets no more be made or destroyed now"), next)
        } else if let Some(cluster) = self.worst(one) {
            self.cluster(cluster)
        } else if let Some(cluster) = self.on_the_way(one).filter(|one| one.power.waking()) {
            self.cluster(cluster)
        } else if let Some(text) = inventory(one) {
            Chain::of(text, format!("poolctl get customization{at}"))
        } else if let Some(message) = says("CapacityAvailable", "False") {
            let next = format!("poolctl get claim{at}");
            Chain::of(format!("there is no room for more: {message}"), next)
        } else if let Some(chain) = losses::of(self.store, one, self.now, at)? {
            chain
        } else if let Some(cluster) = self.on_the_way(one) {
            self.cluster(cluster)
        } else if status.ready > 0 {
            Chain::of("it has what it should", format!("poolctl claim {name}{at}"))
        } else if status.standby > 0 {
            let many = one.spec.running_count;
            let text = format!("its clusters stand by: a claim wakes one; runningCount is {many}");
            Chain::of(text, format!("poolctl claim {name}{at}"))
        } else if one.spec.size == 0 {
            Chain::of(
                "its size is 0: it makes clusters only for claims",
                format!("poolctl pool scale {name} --size 1{at}"),
            )
        } else {
            let text = format!(
                "a pass decides what comes next; runningCount is {}",
                one.spec.running_count
            );
            Chain::of(text, "poolctl reconcile --wait")
        };
        Ok(reason.behind(first))
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

    fn cluster(&self, one: &Cluster) -> Chain {
        let (name, at) = (&one.name, &self.at);
        let job = self.state.live_job(name).map(|(_, job)| job);
        let job = job
            .map(|job| format!("; a {} job runs{}", job.verb.name(), self.ago(Some(job.started))));
        let job = job.unwrap_or_default();
        let show = format!("poolctl cluster logs {name}");
        if one.driver == Driver::Missing && !one.installed() {
            let text = format!("no driver of this build serves the platform of cluster {name}");
            return Chain::of(text, format!("poolctl describe cluster {name}{at}"));
        }
        match one.phase() {
            Phase::Deprovisioning if one.protected => {
                let note = "hive.openshift.io/protected-delete-";
                let next = format!("poolctl annotate cluster {name} {note}{at}");
                Chain::of(
                    format!("cluster {name} is being deleted, and protected against it"),
                    next,
                )
            }
            Phase::Deprovisioning if one.held && (one.started_at.is_none() || one.preserve) => {
                let next = format!(
                    "poolctl get cluster {name} -o jsonpath='{{.metadata.finalizers}}'{at}"
                );
                Chain::of(format!("cluster {name} is held by a finalizer of another program"), next)
            }
            Phase::Deprovisioning => {
                let text =
                    format!("cluster {name} is being destroyed{}{job}", self.ago(one.deleting));
                Chain::of(text, "poolctl reconcile --wait")
            }
            Phase::Broken => {
                let text = format!(
                    "cluster {name} was given up after {} failed installations: {}",
                    one.restarts,
                    one.failure.as_deref().unwrap_or("no reason was given")
                );
                Chain::of(text, show)
            }
            Phase::Retrying => {
                let next = plan::retry_at(one).map(|at| at.since(self.now).short());
                let text = format!(
                    "cluster {name} failed to install {}, the next attempt is in {}{job}: {}",
                    if one.restarts == 1 {
                        "once".into()
                    } else {
                        format!("{} times", one.restarts)
                    },
                    next.unwrap_or_default(),
                    one.failure.as_deref().unwrap_or_default()
                );
                Chain::of(text, show)
            }
            Phase::Installing if one.interrupted => {
                let text = format!(
                    "an installation of cluster {name} broke off; what it left is destroyed first{job}"
                );
                Chain::of(text, "poolctl reconcile --wait")
            }
            Phase::Installing => {
                let text =
                    format!("cluster {name} is being installed{}{job}", self.ago(one.started_at));
                Chain::of(text, "poolctl reconcile --wait")
            }
            Phase::Installed => self.installed(one, &job),
        }
    }

    fn installed(&self, one: &Cluster, job: &str) -> Chain {
        let (name, at) = (&one.name, &self.at);
        let power = one.power.doing();
        let gone = one.claim_key().filter(|claim| self.state.claims.find(claim).is_none());
        if let Some(claim) = gone {
            let text = format!("cluster {name} is held by claim {}, which is gone", claim.name);
            return Chain::of(text, format!("poolctl delete cluster {name}{at}"));
        }
        let whose = match (&one.claim, &one.pool) {
            (Some(claim), _) => format!("claim {claim} has it"),
            (None, Some(pool)) => format!("it waits for a claim in pool {}", pool.name),
            (None, None) => "it belongs to no pool".into(),
        };
        let moves = one.power.waking() || one.power.stopping();
        let mut text =
            format!("cluster {name} is {power}{}; {whose}{job}", self.ago(one.power_since));
        let message = one.power_message.as_deref();
        if moves {
            let [hibernating, ready] = one.power.conditions(message);
            let step = if one.power.stopping() { hibernating } else { ready };
            text = format!("{text}: {}", step.message);
        }
        let next = match one.power {
            _ if moves => "poolctl reconcile --wait".into(),
            Power::Paused => {
                format!("poolctl annotate cluster {name} {POWER_PAUSED}-{at}")
            }
            _ => format!("poolctl credentials {name}{at}"),
        };
        Chain::of(text, next)
    }

    fn customization(&self, one: &Customization) -> Result<Chain, Refusal> {
        let (name, at) = (&one.metadata.name, &self.at);
        if let Some(holder) = &one.holder {
            let of = holder.pool.as_ref().map(|pool| format!(" of pool {}", pool.name));
            let first = format!(
                "customization {name} is leased to cluster {}{}",
                holder.cluster,
                of.unwrap_or_default()
            );
            let cluster =
                self.state.cluster(&holder.cluster).and_then(|at| self.state.clusters.get(at));
            return Ok(match cluster {
                Some(cluster) => self.cluster(cluster).behind(first),
                None => Chain::of(
                    format!("{first}, which was left running"),
                    format!("poolctl delete customization {name}{at}   (frees it)"),
                ),
            });
        }
        let filter =
            Filter { namespace: Some(one.metadata.namespace.clone()), ..Filter::default() };
        let mut said = Vec::new();
        for object in self.store.objects(Kind::ClusterPool, &filter)? {
            let Object::Pool(pool) = object else { continue };
            if let Some(entry) = pool.status.inventory.get(name) {
                let why = if entry.message.is_empty() {
                    String::new()
                } else {
                    format!(": {}", entry.message)
                };
                said.push(format!(
                    "pool {} sees it as {}{why}",
                    pool.metadata.name,
                    entry.status.to_string().to_lowercase()
                ));
            }
        }
        let first = format!("customization {name} is leased to no cluster");
        if said.is_empty() {
            let next = format!("poolctl get pool{at}");
            return Ok(Chain::of(first, next).after("no pool has looked at it".into()));
        }
        let next = format!("poolctl get customization {name} -o yaml{at}");
        Ok(Chain::of(first, next).after(said.join("; ")))
    }

    fn other(&self, object: &Object) -> Chain {
        let (word, key) = (object.kind().word(), object.key());
        Chain::of(
            format!("{word} {} is as it was applied; nothing happens to it by itself", key.name),
            format!("poolctl get {word} {} -o yaml{}", key.name, self.at),
        )
    }
}

/// maxConcurrent, when something is missing and it is used up.
fn full(pool: &ClusterPool) -> Option<u32> {
    let status = &pool.status;
    let most = pool.spec.max_concurrent?;
    let lacks = status.size < pool.spec.size;
    (lacks && status.installing + status.deleting >= most).then_some(most)
}

/// What of the inventory cannot be used, if none of it is free.
fn inventory(pool: &ClusterPool) -> Option<String> {
    let listed = pool.spec.inventory.as_ref()?;
    if pool.status.free_customizations > 0 {
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
