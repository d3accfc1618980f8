//! Holds what was leased after a backup, in the copy of the backup that is about to be put in
//! place. Nobody gets it before a person gives it back.

use crate::model::address::Addr;
use crate::model::agent::Agent;
use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase};
use crate::model::customization::Customization;
use crate::model::event_reason::EventReason;
use crate::model::host::{BareMetalHost, DETACHED, HOLD};
use crate::model::ip_lease::{IpLease, address_name};
use crate::model::ip_pool::{IpPool, IpPoolStatus, RESERVED};
use crate::model::kinds::Kind;
use crate::model::lease::{ClusterHolder, Holder, Lease, Resource};
use crate::model::meta::{Key, Meta};
use crate::model::pool::PAUSED;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::plan;
use crate::plan::leases::command_to_free_host;

use super::events::record_event;
use super::losses::{Loss, Snapshot, find_agents, find_host};

/// What a copy of a backup is compared with, and how commands name a namespace.
pub struct Holding<'a> {
    /// The state that is in place.
    pub now: &'a Snapshot,
    /// ` -n NAMESPACE`, or nothing where that is the usual one.
    pub namespace_option: &'a dyn Fn(&str) -> String,
}

impl Holding<'_> {
    /// Objects that are held and not loaded with everything: documents, and leases of addresses.
    pub fn objects_to_load(&self, losses: &[Loss], gone: &[&Cluster]) -> Vec<(Kind, Key)> {
        let mut objects = Vec::new();
        for cluster in gone {
            objects.push((Kind::ClusterDeployment, cluster.key()));
        }
        for loss in losses {
            let (lease, before) = match loss {
                Loss::Lease(lease, before) => (lease, before),
                Loss::Pause(name) => {
                    let cluster = self.now.cluster(name);
                    objects.extend(cluster.map(|cluster| (Kind::ClusterDeployment, cluster.key())));
                    continue;
                }
            };
            if let Resource::Cluster(name) = &lease.resource {
                let cluster = self.now.cluster(name);
                objects.extend(cluster.map(|cluster| (Kind::ClusterDeployment, cluster.key())));
            }
            if let Resource::Address { .. } = &lease.resource {
                for holder in [Some(&lease.holder), before.as_ref()].into_iter().flatten() {
                    if let Holder::Claim(claim) = holder {
                        objects.push((Kind::IpClaim, claim.clone()));
                    }
                }
            }
        }
        objects
    }

    /// Holds all that would be lost. Says of each how it is held and what gives it back.
    pub fn hold(
        &self,
        state: &mut State,
        losses: &[Loss],
        gone: &[&Cluster],
        tick: &Tick,
    ) -> Vec<String> {
        let mut sentences = Vec::new();
        for cluster in gone {
            let sentence = hold_gone_cluster(state, cluster, self.now);
            record_event(
                state,
                tick,
                Kind::ClusterDeployment,
                cluster.key(),
                EventReason::Held,
                &sentence,
            );
            sentences.push(sentence);
        }
        for loss in losses {
            sentences.extend(match loss {
                Loss::Lease(lease, _) => self.hold_lease(state, lease, tick),
                Loss::Pause(name) => self.now.cluster(name).map(|cluster| {
                    pause(state, name);
                    let sentence = format!("cluster `{name}` is paused: {}", going_on(cluster));
                    record(state, tick, Kind::ClusterDeployment, cluster.key(), sentence)
                }),
            });
        }
        sentences.extend(keep_by_hand(state, self.now));
        sentences
    }

    fn hold_lease(&self, state: &mut State, lease: &Lease, tick: &Tick) -> Option<String> {
        let now = &self.now.state;
        let (kind, key, sentence) = match &lease.resource {
            Resource::DnsName(dns_name) => {
                return hold_name(state, self.now, lease.holder.cluster()?, dns_name);
            }
            Resource::Cluster(name) => {
                let cluster = self.now.cluster(name)?;
                (Kind::ClusterDeployment, cluster.key(), self.hold_claimed(state, cluster))
            }
            Resource::Customization(key) => {
                let customization = now.customizations.by_key(key)?;
                let sentence = self.hold_customization(state, customization)?;
                (Kind::Customization, key.clone(), sentence)
            }
            Resource::Address { namespace, address } => {
                let lease = self.now.address(namespace, *address)?;
                (Kind::IpClaim, lease.key(), self.hold_address(state, lease, *address)?)
            }
            Resource::Host(key) => {
                let sentence = self.hold_host(state, now.hosts.by_key(key)?, &lease.holder);
                (Kind::BareMetalHost, key.clone(), sentence)
            }
            Resource::Agent(key) => {
                let sentence = self.hold_agent(state, now.agents.by_key(key)?, tick);
                (Kind::Agent, key.clone(), sentence)
            }
        };
        Some(record(state, tick, kind, key, sentence))
    }

    /// The claim goes on as it is. A cluster that was not installed when the backup was made is
    /// paused besides: what the backup knows of it would have it cleaned up and installed again.
    fn hold_claimed(&self, state: &mut State, cluster: &Cluster) -> String {
        let claim_key = cluster.claim_key().unwrap_or_default();
        let claim_name = match self.now.claim(&claim_key) {
            Some(claim) => put_claim(state, claim, cluster),
            None => claim_key.name,
        };
        let mut is_paused = false;
        if let Some(cluster_id) = state.cluster(&cluster.name) {
            let in_backup = state.clusters.get(cluster_id);
            is_paused = in_backup.is_some_and(|cluster| cluster.phase() != Phase::Installed);
            state.clusters.update(cluster_id, |held| {
                held.claim = Some(claim_name.clone());
                held.claimed_at = cluster.claimed_at;
                held.power_wanted = cluster.power_wanted;
            });
        }
        if is_paused {
            pause(state, &cluster.name);
        }
        let option = (self.namespace_option)(&claim_key.namespace);
        let name = &cluster.name;
        let sentence = format!(
            "cluster `{name}` has claim `{claim_name}`: poolctl release {claim_name}{option}"
        );
        if !is_paused {
            return sentence;
        }
        format!(
            "{sentence}; the backup does not have it installed, so it is paused: poolctl annotate \
             cluster {name} {PAUSED}-{option}"
        )
    }

    /// The lease of a cluster that the backup does not have is that of one that was left running.
    fn hold_customization(
        &self,
        state: &mut State,
        customization: &Customization,
    ) -> Option<String> {
        let holder = customization.holder.as_ref()?;
        let key = customization.key();
        let cluster_name = &holder.cluster;
        let in_backup = state.cluster(cluster_name).and_then(|id| state.clusters.get(id));
        let preserved =
            in_backup.is_none_or(|cluster| cluster.customization.as_ref() != Some(&key.name));
        let mut held = customization.clone();
        held.holder = Some(ClusterHolder { preserved, ..holder.clone() });
        held.status.preserved = preserved;
        held.status.preserved_name = match self.now.cluster(cluster_name) {
            _ if !preserved => String::new(),
            Some(cluster) => format!("{}.{}", cluster.cluster_name, cluster.base_domain),
            None => customization.status.preserved_name.clone(),
        };
        if let Some(customization_id) = state.customizations.find(&key) {
            state.customizations.update(customization_id, |customization| {
                customization.holder = held.holder;
                customization.status = held.status;
            });
        } else {
            held.metadata.id = 0;
            state.customizations.insert(held);
        }
        let entry = &key.name;
        if !preserved {
            return Some(format!("customization `{entry}` goes with cluster `{cluster_name}`"));
        }
        let option = (self.namespace_option)(&key.namespace);
        Some(format!(
            "customization `{entry}` is kept by cluster `{cluster_name}`: poolctl customization \
             reset {entry}{option}"
        ))
    }

    /// The lease as it is now. Whoever had its address or its claim in the backup has given it back.
    fn hold_address(&self, state: &mut State, lease: &IpLease, address: Addr) -> Option<String> {
        let pool = self.now.state.ip_pools.by_key(&lease.pool_key())?;
        if state.ip_pools.find(&pool.metadata.key()).is_none() {
            let metadata = Meta { id: 0, ..pool.metadata.clone() };
            let status = IpPoolStatus::default();
            state.ip_pools.insert(IpPool { metadata, spec: pool.spec.clone(), status });
        }
        let former = state.ip_leases.iter().find(|(_, former)| {
            former.namespace == lease.namespace
                && former.address == lease.address
                && former.claim != lease.claim
        });
        if let Some((lease_id, _)) = former {
            state.ip_leases.remove(lease_id);
        }
        let mut held = lease.clone();
        let cluster = lease.cluster().filter(|name| state.cluster(name).is_some());
        if cluster.is_none() {
            held.keep_without_cluster();
        }
        if let Some(lease_id) = state.ip_leases.find(&lease.key()) {
            state.ip_leases.update(lease_id, |lease| *lease = IpLease { id: lease.id, ..held });
        } else {
            state.ip_leases.insert(held);
        }
        if let Some(cluster) = cluster {
            return Some(format!("address {address} goes with cluster `{cluster}`"));
        }
        let claim = &lease.claim;
        let option = (self.namespace_option)(&lease.namespace);
        if lease.claimed {
            return Some(format!(
                "address {address} is leased to IPClaim `{claim}`: poolctl ip release \
                 {claim}{option}"
            ));
        }
        let name = address_name(pool, lease);
        Some(format!(
            "address {address} is leased for IPClaim `{claim}`: poolctl delete ipaddress \
             {name}{option}"
        ))
    }

    /// The host stays as it is now, powered and used, and nobody picks it.
    fn hold_host(&self, state: &mut State, host: &BareMetalHost, holder: &Holder) -> String {
        let mut held = host.clone();
        held.metadata
            .annotations
            .entry(HOLD.into())
            .or_insert_with(|| format!("used by {holder} since the backup"));
        let mut key = host.key();
        if let Some(host_id) = find_host(state, host) {
            key = state.hosts.get(host_id).map_or(key, BareMetalHost::key);
            state.hosts.update(host_id, |in_backup| {
                // It is the machine of now under the name that the backup has for it.
                let Meta { name, namespace, uid, id, .. } = in_backup.metadata.clone();
                held.metadata = Meta { name, namespace, uid, id, ..held.metadata };
                *in_backup = held;
            });
        } else {
            held.metadata.id = 0;
            state.hosts.insert(held);
        }
        let option = (self.namespace_option)(&key.namespace);
        let name = &key.name;
        let sentence = format!("host `{name}` is held: poolctl host unhold {name}{option}");
        if holder.cluster().is_some_and(|cluster| state.cluster(cluster).is_none()) {
            return format!("{sentence}, and {}", command_to_free_host(name, &option));
        }
        sentence
    }

    /// Nobody gets the host of an Agent that goes on in a cluster, and nothing is done to it.
    fn hold_agent(&self, state: &mut State, agent: &Agent, tick: &Tick) -> String {
        let mut agent_ids = find_agents(state, agent);
        if agent_ids.is_empty() {
            let metadata = Meta { id: 0, ..agent.metadata.clone() };
            agent_ids.push(state.agents.insert(Agent { metadata, ..agent.clone() }));
        }
        for agent_id in &agent_ids {
            if let Some(cluster) = agent.bound_to() {
                plan::agents::retire(state, *agent_id, &cluster.name, tick);
            } else {
                plan::leases::retire_agent(state, *agent_id);
                state.agents.update(*agent_id, |retired| {
                    retired.status.debug_info.clone_from(&agent.status.debug_info);
                    retired.status.state_since = agent.status.state_since;
                });
            }
        }
        let mut commands = Vec::new();
        for retired in agent_ids.iter().filter_map(|agent_id| state.agents.get(*agent_id)) {
            let option = (self.namespace_option)(&retired.metadata.namespace);
            commands.push(format!("poolctl delete agent {}{option}", retired.metadata.name));
        }
        format!("agent `{}` is retired: {}", agent.metadata.name, commands.join(", "))
    }
}

/// Records how something is held, and hands on what was said of it.
fn record(state: &mut State, tick: &Tick, kind: Kind, key: Key, sentence: String) -> String {
    let message = format!("Leased after the backup that was restored: {sentence}");
    record_event(state, tick, kind, key, EventReason::Held, &message);
    sentence
}

/// A cluster that the backup brings back may not exist any more, and what it used may be somebody's:
/// nobody gets it, and nothing is done to it or to its hosts, which are as they are now.
fn hold_gone_cluster(state: &mut State, cluster: &Cluster, now: &Snapshot) -> String {
    let name = &cluster.name;
    pause(state, name);
    for at in state.hosts_of(name) {
        let present = state.hosts.get(at).and_then(|host| now.host(host));
        let online = present.map(|host| host.spec.online);
        state.hosts.update(at, |host| {
            let why = format!("the backup brought back cluster {name}, which was gone");
            let notes = &mut host.metadata.annotations;
            notes.entry(HOLD.into()).or_insert(why);
            match online {
                Some(online) => host.spec.online = online,
                None => drop(notes.insert(DETACHED.into(), String::new())),
            }
        });
    }
    let lift = going_on(cluster);
    format!(
        "the backup brings back cluster `{name}`, which was gone; it is paused, and its hosts are \
         held. If it is gone: poolctl delete cluster {name}, then {lift}"
    )
}

/// Hosts that people hold and addresses that they reserve stay as they are now.
fn keep_by_hand(state: &mut State, now: &Snapshot) -> Vec<String> {
    let mut said = Vec::new();
    for (host, why) in now.held_hosts() {
        let Some(at) = find_host(state, host) else { continue };
        if state.hosts.get(at).is_some_and(|known| known.metadata.annotation(HOLD).is_none()) {
            state.hosts.update(at, |known| {
                known.metadata.annotations.insert(HOLD.into(), why.to_owned());
            });
            said.push(format!("host `{}` is held as it is now: {why}", host.key()));
        }
    }
    for (pool, reserved) in now.reservations() {
        let Some(at) = state.ip_pools.find(&pool.metadata.key()) else { continue };
        let known = state.ip_pools.get(at).and_then(|known| known.metadata.annotation(RESERVED));
        if known != Some(reserved) {
            state.ip_pools.update(at, |known| {
                known.metadata.annotations.insert(RESERVED.into(), reserved.to_owned());
            });
            let key = pool.metadata.key();
            said.push(format!("IPPool `{key}` has its reserved addresses as they are now"));
        }
    }
    said
}

fn pause(state: &mut State, cluster: &str) {
    let Some(at) = state.cluster(cluster) else { return };
    state.clusters.update(at, |cluster| {
        cluster.paused = true;
        if let Some(body) = cluster.body.as_mut() {
            body.metadata.annotations.insert(PAUSED.into(), "true".into());
        }
    });
}

/// What is typed for a paused cluster to be looked after again.
fn going_on(cluster: &Cluster) -> String {
    format!("poolctl annotate cluster {} {PAUSED}-", cluster.name)
}

/// The claim in the copy that has the cluster. Where the backup has another cluster for a claim of
/// this name, the claim is called like its cluster.
fn put_claim(state: &mut State, claim: &Claim, cluster: &Cluster) -> String {
    let known = state.claims.find(&claim.key());
    let other = known.and_then(|at| state.claims.get(at)?.cluster.as_ref());
    let is_taken = other.is_some_and(|other| *other != cluster.name);
    let mut held = Claim { cluster: Some(cluster.name.clone()), ..claim.clone() };
    if is_taken {
        held.name.clone_from(&cluster.name);
    }
    let name = held.name.clone();
    if let Some(at) = known.filter(|_| !is_taken) {
        state.claims.update(at, |known| *known = Claim { id: known.id, ..held });
    } else {
        state.insert_claim(Claim { id: 0, ..held });
    }
    name
}

/// A pool does not draw the name of a cluster again that it has made since. The names of other
/// clusters are their users' own.
fn hold_name(
    state: &mut State,
    now: &Snapshot,
    cluster_name: &str,
    dns_name: &str,
) -> Option<String> {
    let Some(pool_key) = now.cluster(cluster_name)?.pool.as_deref() else {
        return Some(format!(
            "the name {dns_name} of cluster `{cluster_name}` cannot be held: let no other cluster \
             have it"
        ));
    };
    let names_drawn = now.state.pools.by_key(pool_key).map_or(0, |pool| pool.status.ordinal);
    if let Some(pool_id) = state.pools.find(pool_key) {
        state.pools.update(pool_id, |pool| {
            pool.status.ordinal = pool.status.ordinal.max(names_drawn);
        });
    }
    None
}
