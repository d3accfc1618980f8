//! Why objects are as they are: one chain of causes for each kind, the strongest reason first.

mod agent;
mod cluster;
mod host;
mod infra_env;
mod pool;

use crate::model::claim::{Claim, ClusterRunning};
use crate::model::customization::Customization;
use crate::model::ip_lease::IpClaim;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::{ClusterPool, PAUSED};
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::time::Time;
use crate::store::{Filter, Need, Store};

use crate::commands::host::hold as host_hold;
use crate::commands::infraenv::{images, iso as infraenv_iso};
use crate::commands::why::Chain;
use crate::commands::{Context, claim};

pub use crate::commands::why::causes::pool::lacks;
pub use crate::commands::why::causes::pool::paused_text;

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
        Object::ClusterPool(_) => Some(key.clone()),
        Object::ClusterClaim(one) => Some(one.pool_key()),
        Object::ClusterDeployment(one) => one.pool.as_deref().cloned(),
        Object::Customization(one) => one.holder.as_ref().and_then(|holder| holder.pool.clone()),
        _ => None,
    };
    let mut needs = vec![Need { kind: object.kind(), key: key.clone() }];
    if let Object::ClusterDeployment(one) = object {
        // Its claim may have been sent to another pool.
        let claim = one.claim_key().map(|key| Need { kind: Kind::ClusterClaim, key });
        needs.extend(claim);
    }
    if let Object::Agent(one) = object {
        // What it belongs to, and what it is to belong to.
        let cluster = one.bound_to().or(one.wanted());
        let cluster = cluster.map(|key| Need { kind: Kind::ClusterDeployment, key });
        let host = one.bmh().map(|key| Need { kind: Kind::BareMetalHost, key });
        let image = one.infra_env().map(|key| Need { kind: Kind::InfraEnv, key });
        needs.extend(cluster.into_iter().chain(host).chain(image));
    }
    let scope = Scope::Pools(pool.into_iter().collect());
    let (state, _) = context.door(store).imagine(&scope, &needs)?;
    let now = context.world.now().max(store.mark()?.1.now);
    let own = key.namespace == key.name;
    let at = if own { String::new() } else { context.in_namespace(&key.namespace) };
    let around = Around { store, state, now, at };
    Ok(match object {
        Object::ClusterPool(one) => around.pool(one)?,
        Object::ClusterClaim(one) => around.claim(one)?,
        Object::ClusterDeployment(one) => around.cluster(one)?,
        Object::Customization(one) => around.customization(one)?,
        Object::BareMetalHost(one) => around.host(one)?,
        Object::Agent(one) => around.agent(one)?,
        Object::InfraEnv(one) => around.infra_env(one)?,
        Object::IpClaim(one) => around.ip_claim(one),
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
                (Some(cluster), _) => self.cluster(cluster)?.behind(first),
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
            return Ok(self.cluster(cluster)?.behind(first));
        }
        let place = claim::place(self.store, self.now, &one.key())?;
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
                Some(cluster) => self.cluster(cluster)?.behind(first),
                None => Chain::of(
                    format!("{first}, which was left running"),
                    format!("poolctl customization reset {name}{at}"),
                ),
            });
        }
        let filter =
            Filter { namespace: Some(one.metadata.namespace.clone()), ..Filter::default() };
        let mut said = Vec::new();
        for pool in self.store.list::<ClusterPool>(&filter)? {
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

    fn ip_claim(&self, one: &IpClaim) -> Chain {
        let (name, pool) = (&one.metadata.name, &one.spec.pool.name);
        let map = format!("poolctl ippool map {pool}{}", self.at);
        if let Some(address) = &one.status.address {
            return Chain::of(format!("ipclaim {name} has {}", address.name), map);
        }
        let first = Chain::of(format!("ipclaim {name} waits for an address of IPPool {pool}"), map);
        match one.status.error_message.as_str() {
            "" => first.after("the pool or its cluster is paused, or no pass was since".into()),
            why => first.after(why.to_owned()),
        }
    }

    fn other(&self, object: &Object) -> Chain {
        let (word, key) = (object.kind().word(), object.key());
        Chain::of(
            format!("{word} {} is as it was applied; nothing happens to it by itself", key.name),
            format!("poolctl get {word} {} -o yaml{}", key.name, self.at),
        )
    }
}
