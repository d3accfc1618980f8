//! Holds what was leased after a backup was made, in the copy of the backup that is about to be put
//! in place. Nobody else gets what is held before a person gives it back. Never changes the state
//! that is in place.

use crate::model::address::Addr;
use crate::model::agent::Agent;
use crate::model::annotations::{HOLD, OVERLAP, RESERVED, SHARE_WITH};
use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase};
use crate::model::customization::Customization;
use crate::model::event_reason::EventReason;
use crate::model::host::{BareMetalHost, DETACHED};
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{IpPool, IpPoolStatus};
use crate::model::kinds::Kind;
use crate::model::lease::{ClusterHolder, Holder, Lease, LeasedResource};
use crate::model::meta::{Key, Meta};
use crate::model::pool::RECONCILE_PAUSE;
use crate::model::quarantine::Quarantine;
use crate::model::state::{HostId, State};
use crate::model::tick::Tick;
use crate::plan;
use crate::plan::leases::command_to_free_host;

use super::events::record_event;
use super::host_identities::settle_host_identities;
use super::losses::{RestoreLoss, Snapshot, find_agents, find_host};
use super::quarantine::pause_cluster;

/// Holds what restoring a backup would lose.
pub struct Holding<'a> {
    /// The state that is in place and will be replaced by the backup.
    pub now: &'a Snapshot,
    /// ` -n NAMESPACE`, or nothing where that is the usual one.
    pub namespace_option: &'a dyn Fn(&str) -> String,
}

impl Holding<'_> {
    /// The objects that `hold` needs of the backup and that loading everything leaves out: some
    /// documents, and leases of addresses.
    pub fn objects_to_load(
        &self,
        losses: &[RestoreLoss],
        gone_clusters: &[&Cluster],
    ) -> Vec<(Kind, Key)> {
        let mut objects = Vec::new();
        for cluster in gone_clusters {
            objects.push((Kind::ClusterDeployment, cluster.key()));
        }
        for loss in losses {
            let (lease, holder_in_backup) = match loss {
                RestoreLoss::Lease(lease, holder_in_backup) => (lease, holder_in_backup),
                RestoreLoss::Pause(name) => {
                    let cluster = self.now.cluster(name);
                    objects.extend(cluster.map(|cluster| (Kind::ClusterDeployment, cluster.key())));
                    continue;
                }
            };
            if let LeasedResource::Cluster(name) = &lease.resource {
                let cluster = self.now.cluster(name);
                objects.extend(cluster.map(|cluster| (Kind::ClusterDeployment, cluster.key())));
            }
            if let LeasedResource::Address { .. } = &lease.resource {
                for holder in [Some(&lease.holder), holder_in_backup.as_ref()].into_iter().flatten()
                {
                    if let Holder::Claim(claim) = holder {
                        objects.push((Kind::IpClaim, claim.clone()));
                    }
                }
            }
        }
        objects
    }

    /// Holds all that would be lost, in `state`, which is the copy of the backup. `gone_clusters`
    /// are those that only the backup has. Returns a sentence for each loss: how it is held, and
    /// the command that gives it back.
    pub fn hold_losses(
        &self,
        state: &mut State,
        losses: &[RestoreLoss],
        gone_clusters: &[&Cluster],
        tick: &Tick,
    ) -> Vec<String> {
        let mut sentences = Vec::new();
        for cluster in gone_clusters {
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
            let sentence = match loss {
                RestoreLoss::Lease(lease, _) => self.hold_lease(state, lease, tick),
                RestoreLoss::Pause(name) => self.hold_pause(state, name, tick),
            };
            sentences.extend(sentence);
        }
        sentences.extend(keep_manual_holds(state, self.now));
        settle_host_identities(state, self.now);
        forget_power_of_free_hosts(state);
        sentences
    }

    /// Pauses a cluster that is paused now and was not when the backup was made. Returns the
    /// sentence about it; None if the cluster is gone.
    fn hold_pause(&self, state: &mut State, cluster_name: &str, tick: &Tick) -> Option<String> {
        let cluster = self.now.cluster(cluster_name)?;
        pause_cluster(state, cluster_name, None);
        let command = command_to_unpause(cluster);
        let sentence = format!("cluster `{cluster_name}` is paused: {command}");
        Some(record_held(state, tick, Kind::ClusterDeployment, cluster.key(), sentence))
    }

    /// Holds one leased resource for its holder, and records that in an event. Returns the sentence
    /// about it; None if there is nothing that can or must be held.
    fn hold_lease(&self, state: &mut State, lease: &Lease, tick: &Tick) -> Option<String> {
        let now = &self.now.state;
        let (kind, key, sentence) = match &lease.resource {
            LeasedResource::DnsName(dns_name) => {
                return hold_drawn_name(state, self.now, lease.holder.cluster()?, dns_name);
            }
            LeasedResource::Cluster(name) => {
                let cluster = self.now.cluster(name)?;
                let (claim_key, sentence) = self.hold_claimed_cluster(state, cluster);
                // The claim may have another name in the copy than it has now.
                let sentence = record_held(state, tick, Kind::ClusterClaim, claim_key, sentence);
                (Kind::ClusterDeployment, cluster.key(), sentence)
            }
            LeasedResource::Customization(key) => {
                let customization = now.customizations.by_key(key)?;
                let sentence = self.hold_customization(state, customization)?;
                (Kind::Customization, key.clone(), sentence)
            }
            LeasedResource::Address { namespace, address } => {
                let lease = self.now.address(namespace, *address)?;
                (Kind::IpClaim, lease.key(), self.hold_address(state, lease, *address)?)
            }
            LeasedResource::Host(key) => {
                let host = now.hosts.by_key(key)?;
                let (key, sentence) = self.hold_host(state, host, &lease.holder);
                (Kind::BareMetalHost, key, sentence)
            }
            LeasedResource::Agent(key) => {
                let (key, sentence) = self.hold_agent(state, now.agents.by_key(key)?, tick);
                (Kind::Agent, key, sentence)
            }
        };
        Some(record_held(state, tick, kind, key, sentence))
    }

    /// The claim keeps its cluster. A cluster that was not installed when the backup was made is
    /// paused, too: a pass on what the backup knows of it would destroy it and install it again.
    /// Returns the key of the claim in the copy with the sentence.
    fn hold_claimed_cluster(&self, state: &mut State, cluster: &Cluster) -> (Key, String) {
        let claim_key = cluster.claim_key().unwrap_or_default();
        let claim_name = match self.now.claim(&claim_key) {
            Some(claim) => put_claim(state, claim, cluster),
            None => claim_key.name,
        };
        let held_claim = Key::new(&*claim_key.namespace, &*claim_name);
        let mut is_paused = false;
        if let Some(cluster_id) = state.find_cluster(&cluster.name) {
            let in_backup = state.clusters.get(cluster_id);
            is_paused = in_backup.is_some_and(|cluster| cluster.phase() != Phase::Installed);
            state.clusters.update(cluster_id, |held| {
                held.claim = Some(claim_name.clone());
                held.claimed_at = cluster.claimed_at;
                held.power_wanted = cluster.power_wanted;
            });
        }
        if is_paused {
            pause_cluster(state, &cluster.name, Some(Quarantine::LeasedSince));
        }
        let option = (self.namespace_option)(&claim_key.namespace);
        let name = &cluster.name;
        let sentence = format!(
            "cluster `{name}` has claim `{claim_name}`: poolctl release {claim_name}{option}"
        );
        if !is_paused {
            return (held_claim, sentence);
        }
        let sentence = format!(
            "{sentence}; it is not installed in the backup, so it is paused: poolctl annotate \
             cluster {name} {RECONCILE_PAUSE}-{option}"
        );
        (held_claim, sentence)
    }

    /// The customization keeps its holder. If the backup does not have that cluster, or has it with
    /// another customization, the cluster counts as one that was left running.
    fn hold_customization(
        &self,
        state: &mut State,
        customization: &Customization,
    ) -> Option<String> {
        let holder = customization.holder.as_ref()?;
        let key = customization.key();
        let cluster_name = &holder.cluster;
        let in_backup = state.find_cluster(cluster_name).and_then(|id| state.clusters.get(id));
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
        if preserved {
            Quarantine::LeasedSince.mark(&mut held.metadata);
        }
        if let Some(customization_id) = state.customizations.find(&key) {
            state.customizations.update(customization_id, |customization| {
                customization.holder = held.holder;
                customization.status = held.status;
                if preserved {
                    Quarantine::LeasedSince.mark(&mut customization.metadata);
                }
            });
        } else {
            held.metadata.id = 0;
            state.customizations.insert(held);
        }
        let entry = &key.name;
        if !preserved {
            return Some(format!(
                "customization `{entry}` stays leased to cluster `{cluster_name}`"
            ));
        }
        let option = (self.namespace_option)(&key.namespace);
        Some(format!(
            "customization `{entry}` is kept by cluster `{cluster_name}`: poolctl customization \
             reset {entry}{option}"
        ))
    }

    /// The lease stays as it is now. If another claim has its address in the backup, that claim has
    /// given it back since and loses it.
    fn hold_address(&self, state: &mut State, lease: &IpLease, address: Addr) -> Option<String> {
        let pool = self.now.state.ip_pools.by_key(&lease.pool_key())?;
        let pool_in_backup = find_or_add_pool(state, pool, address);
        let lease_of_other_claim = state.ip_leases.iter().find(|(_, in_backup)| {
            in_backup.address_namespace() == lease.address_namespace()
                && in_backup.address == lease.address
                && in_backup.key() != lease.key()
        });
        if let Some((lease_id, _)) = lease_of_other_claim {
            state.ip_leases.remove(lease_id);
        }
        let mut held = IpLease { pool: pool_in_backup.name.clone(), ..lease.clone() };
        share_pool_with_claim(state, &held);
        let cluster = lease.cluster().filter(|name| state.find_cluster(name).is_some());
        if cluster.is_none() {
            held.keep_without_cluster();
            Quarantine::LeasedSince.mark(held.object_meta_mut());
        }
        if let Some(lease_id) = state.ip_leases.find(&lease.key()) {
            state.ip_leases.update(lease_id, |in_backup| {
                *in_backup = IpLease { id: in_backup.id, ..held.clone() };
            });
        } else {
            state.ip_leases.insert(held.clone());
        }
        let claim = &lease.claim;
        let option = (self.namespace_option)(&lease.namespace);
        let sentence = if let Some(cluster) = cluster {
            format!("address {address} stays leased to cluster `{cluster}`")
        } else if lease.claimed {
            format!(
                "address {address} is leased to IPClaim `{claim}`: poolctl ip release \
                 {claim}{option}"
            )
        } else {
            let name = state.address_name_of(&held);
            format!(
                "address {address} is leased for IPClaim `{claim}`: poolctl delete ipaddress \
                 {name}{option}"
            )
        };
        Some(sentence + &pool_in_backup.overlap_sentence())
    }

    /// The host keeps its power state and its user of now, and no cluster picks it. Returns its key
    /// in the copy with the sentence.
    fn hold_host(&self, state: &mut State, host: &BareMetalHost, holder: &Holder) -> (Key, String) {
        let mut held = host.clone();
        Quarantine::LeasedSince.mark(&mut held.metadata);
        held.metadata
            .annotations
            .entry(HOLD.into())
            .or_insert_with(|| format!("used by {holder} since the backup"));
        // The copy may not know its cluster: that is no reason to switch it off.
        held.status.switched_on_for = None;
        let mut key = host.key();
        if let Some(host_id) = find_host(state, host) {
            key = state.hosts.get(host_id).map_or(key, BareMetalHost::key);
            state.hosts.update(host_id, |in_backup| {
                // The backup may have the same machine under another name: that name stays.
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
        if holder.cluster().is_some_and(|cluster| state.find_cluster(cluster).is_none()) {
            let command = command_to_free_host(name, &option);
            return (key, format!("{sentence}, and {command}"));
        }
        (key, sentence)
    }

    /// The Agent is retired: no cluster gets its host, and nothing is done to the host. Returns its
    /// key in the copy with the sentence.
    fn hold_agent(&self, state: &mut State, agent: &Agent, tick: &Tick) -> (Key, String) {
        let mut agent_ids = find_agents(state, agent);
        if agent_ids.is_empty() {
            let metadata = Meta { id: 0, ..agent.metadata.clone() };
            agent_ids.push(state.agents.insert(Agent { metadata, ..agent.clone() }));
        }
        for agent_id in &agent_ids {
            if let Some(cluster) = agent.bound_cluster() {
                plan::agents::retire_agent(state, *agent_id, &cluster.name, tick);
            } else {
                plan::leases::retire_agent(state, *agent_id);
                state.agents.update(*agent_id, |retired| {
                    retired.status.debug_info.clone_from(&agent.status.debug_info);
                    retired.status.state_since = agent.status.state_since;
                });
            }
        }
        for agent_id in &agent_ids {
            state.agents.update(*agent_id, |retired| {
                Quarantine::LeasedSince.mark(&mut retired.metadata);
            });
        }
        let mut key = agent.key();
        let mut commands = Vec::new();
        for retired in agent_ids.iter().filter_map(|agent_id| state.agents.get(*agent_id)) {
            let option = (self.namespace_option)(&retired.metadata.namespace);
            commands.push(format!("poolctl delete agent {}{option}", retired.metadata.name));
            key = retired.key();
        }
        let sentence =
            format!("agent `{}` is retired: {}", agent.metadata.name, commands.join(", "));
        (key, sentence)
    }
}

/// Records in an event how an object is held, and returns the sentence that says so.
fn record_held(state: &mut State, tick: &Tick, kind: Kind, key: Key, sentence: String) -> String {
    let message = format!("Leased after the backup that was restored: {sentence}");
    record_event(state, tick, kind, key, EventReason::Held, &message);
    sentence
}

/// A cluster that only the backup has was probably destroyed since, and what it used may belong to
/// others by now. So it is paused, and its hosts are held as they are now.
fn hold_gone_cluster(state: &mut State, cluster: &Cluster, now: &Snapshot) -> String {
    let name = &cluster.name;
    pause_cluster(state, name, Some(Quarantine::Gone));
    for host_id in state.hosts_of(name) {
        let host_now = state.hosts.get(host_id).and_then(|host| now.host(host));
        let online_now = host_now.map(|host| host.spec.online);
        state.hosts.update(host_id, |host| {
            let why = format!("the backup brought back cluster {name}, which no longer existed");
            let annotations = &mut host.metadata.annotations;
            annotations.entry(HOLD.into()).or_insert(why);
            match online_now {
                Some(online) => host.spec.online = online,
                // The state in place does not know the machine, so it must not be switched.
                None => drop(annotations.insert(DETACHED.into(), String::new())),
            }
            Quarantine::Gone.mark(&mut host.metadata);
        });
    }
    let unpause = command_to_unpause(cluster);
    format!(
        "the backup brings back cluster `{name}`, which no longer existed; it is paused, and its \
         hosts are held. If it was destroyed: poolctl delete cluster {name}, then {unpause}"
    )
}

/// A host that is free in the backup may have been switched on since for a cluster that the backup
/// does not know. Its controller is asked again, so that it is switched off then.
fn forget_power_of_free_hosts(state: &mut State) {
    let free_hosts = state.hosts.iter().filter(|(_, host)| host.cluster().is_none());
    let host_ids: Vec<HostId> = free_hosts.map(|(host_id, _)| host_id).collect();
    for host_id in host_ids {
        state.hosts.update(host_id, BareMetalHost::forget_power);
    }
}

/// Hosts that people hold and addresses that they reserve stay as they are now.
fn keep_manual_holds(state: &mut State, now: &Snapshot) -> Vec<String> {
    let mut sentences = Vec::new();
    for (host, why) in now.held_hosts() {
        let Some(host_id) = find_host(state, host) else { continue };
        let in_backup = state.hosts.get(host_id);
        if in_backup.is_some_and(|in_backup| in_backup.metadata.annotation(HOLD).is_none()) {
            state.hosts.update(host_id, |in_backup| {
                in_backup.metadata.annotations.insert(HOLD.into(), why.to_owned());
            });
            sentences.push(format!("host `{}` stays held: {why}", host.key()));
        }
    }
    for (pool, reserved) in now.reservations() {
        let key = pool.metadata.key();
        let Some(pool_id) = state.ip_pools.find(&key) else { continue };
        let in_backup = state.ip_pools.get(pool_id);
        if in_backup.and_then(|in_backup| in_backup.metadata.annotation(RESERVED)) != Some(reserved)
        {
            state.ip_pools.update(pool_id, |in_backup| {
                in_backup.metadata.annotations.insert(RESERVED.into(), reserved.to_owned());
            });
            sentences.push(format!("IPPool `{key}` keeps its current reserved addresses"));
        }
    }
    sentences
}

fn command_to_unpause(cluster: &Cluster) -> String {
    format!("poolctl annotate cluster {} {RECONCILE_PAUSE}-", cluster.name)
}

/// Puts the claim that has a cluster into the copy of the backup, and returns its name. If the
/// backup has another cluster for a claim of this name, the claim is named like its cluster.
fn put_claim(state: &mut State, claim: &Claim, cluster: &Cluster) -> String {
    let claim_id = state.claims.find(&claim.key());
    let cluster_in_backup =
        claim_id.and_then(|claim_id| state.claims.get(claim_id)?.cluster.as_ref());
    let is_name_taken = cluster_in_backup.is_some_and(|in_backup| *in_backup != cluster.name);
    let mut held = Claim { cluster: Some(cluster.name.clone()), ..claim.clone() };
    if is_name_taken {
        held.name.clone_from(&cluster.name);
    }
    let is_in_backup = cluster_in_backup == Some(&cluster.name);
    if !is_in_backup && let Some(body) = held.body.as_mut() {
        Quarantine::LeasedSince.mark(&mut body.metadata);
    }
    let name = held.name.clone();
    if let Some(claim_id) = claim_id
        && !is_name_taken
    {
        state.claims.update(claim_id, |in_backup| *in_backup = Claim { id: in_backup.id, ..held });
    } else {
        state.insert_claim(Claim { id: 0, ..held });
    }
    name
}

/// The pool of a cluster does not draw the name of that cluster again. The name of a cluster
/// without a pool cannot be held, because users choose such names.
fn hold_drawn_name(
    state: &mut State,
    now: &Snapshot,
    cluster_name: &str,
    dns_name: &str,
) -> Option<String> {
    let Some(pool_key) = now.cluster(cluster_name)?.pool.as_deref() else {
        return Some(format!(
            "the name {dns_name} of cluster `{cluster_name}` cannot be held: give it to no other \
             cluster"
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

/// The IPPool of the copy of the backup in which an address is held.
struct PoolOfHeldAddress {
    name: String,
    /// The pools of the backup that it overlaps. This is allowed to all of them by an annotation.
    overlapped: Vec<String>,
}

impl PoolOfHeldAddress {
    fn without_overlap(name: &str) -> Self {
        Self { name: name.to_owned(), overlapped: Vec::new() }
    }

    /// Says which pools overlap, after the sentence on the address; empty if none do.
    fn overlap_sentence(&self) -> String {
        if self.overlapped.is_empty() {
            return String::new();
        }
        let Self { name, overlapped } = self;
        format!(
            "; IPPool `{name}` overlaps `{}`, so each of them got annotation {OVERLAP}=true",
            overlapped.join("`, `")
        )
    }
}

/// Shares a pool of the backup with the namespace of a claim that has an address of it now.
fn share_pool_with_claim(state: &mut State, lease: &IpLease) {
    let Some(pool_id) = state.ip_pools.find(&lease.pool_key()) else { return };
    if state.ip_pools.get(pool_id).is_none_or(|pool| pool.serves(&lease.namespace)) {
        return;
    }
    state.ip_pools.update(pool_id, |pool| {
        let namespaces = pool.metadata.annotations.entry(SHARE_WITH.into()).or_default();
        if !namespaces.is_empty() {
            namespaces.push(',');
        }
        namespaces.push_str(&lease.namespace);
    });
}

/// Finds the IPPool of the backup in which an address is held: the one of the same name, else the one that
/// has the address, because a range may have moved from one pool to another since. Only if there is
/// none, the pool of now is added; where it overlaps pools of the backup, that is allowed to all of
/// them, as each address is still leased once.
fn find_or_add_pool(state: &mut State, pool: &IpPool, address: Addr) -> PoolOfHeldAddress {
    let Meta { name, namespace, .. } = &pool.metadata;
    if state.ip_pools.find(&pool.metadata.key()).is_some() {
        return PoolOfHeldAddress::without_overlap(name);
    }
    let mut overlapping_ids = Vec::new();
    for (pool_id, in_backup) in state.ip_pools.iter() {
        if in_backup.metadata.namespace != *namespace {
            continue;
        }
        if in_backup.ranges().any(|(_, range)| range.contains(address)) {
            return PoolOfHeldAddress::without_overlap(&in_backup.metadata.name);
        }
        if pool.ranges().any(|(_, own)| in_backup.ranges().any(|(_, range)| own.overlaps(range))) {
            overlapping_ids.push(pool_id);
        }
    }
    let mut metadata = Meta { id: 0, ..pool.metadata.clone() };
    if !overlapping_ids.is_empty() {
        metadata.annotations.insert(OVERLAP.into(), "true".into());
    }
    let mut overlapped = Vec::new();
    for pool_id in overlapping_ids {
        state.ip_pools.update(pool_id, |in_backup| {
            in_backup.metadata.annotations.insert(OVERLAP.into(), "true".into());
            overlapped.push(in_backup.metadata.name.clone());
        });
    }
    let status = IpPoolStatus::default();
    state.ip_pools.insert(IpPool { metadata, spec: pool.spec.clone(), status });
    PoolOfHeldAddress { name: name.clone(), overlapped }
}
