//! Holds what was leased after a backup, in the copy of the backup that is about to be put in
//! place. Nobody gets it before a person gives it back.

use crate::causes::command_to_free_host;
use crate::commands::Context;
use crate::commands::backup::leases::{Lease, Leases, User, find_agents, find_host};
use crate::edits;
use crate::model::address::Addr;
use crate::model::agent::Agent;
use crate::model::claim::Claim;
use crate::model::cluster::{Cluster, Phase};
use crate::model::customization::{Customization, Holder};
use crate::model::host::{BareMetalHost, DETACHED, HOLD};
use crate::model::ip_lease::{IpLease, WITH_CLUSTER, address_name};
use crate::model::ip_pool::{IpPool, IpPoolStatus, RESERVED};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::pool::PAUSED;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::plan;
use crate::reconcile::Door;
use crate::store::{Need, Store};

/// Holds all of them in one transaction. Says of each how it is held and what gives it back.
pub fn hold(
    context: &Context,
    copy: &Store,
    leases: &[Lease<'_>],
    gone: &[&Cluster],
    now: &Leases,
) -> Result<Vec<String>, Refusal> {
    let door = Door { store: copy, world: &context.world, pass: false };
    let mut needs = needs(leases);
    let kind = Kind::ClusterDeployment;
    needs.extend(gone.iter().map(|cluster| Need { kind, key: cluster.key() }));
    door.change_copy(&needs, |state, tick| {
        let mut said = Vec::new();
        for cluster in gone {
            let text = hold_gone(state, cluster, now);
            edits::record_event(state, tick, kind, cluster.key(), "Held", &text);
            said.push(text);
        }
        for lease in leases {
            said.extend(hold_lease(context, state, lease, tick));
        }
        said.extend(keep_by_hand(state, now));
        Ok(said)
    })
}

/// What of the copy is not loaded with everything: documents, and leases of addresses.
fn needs(leases: &[Lease<'_>]) -> Vec<Need> {
    let mut needs = Vec::new();
    for lease in leases {
        match lease {
            Lease::ClaimedCluster { cluster, .. } | Lease::PausedCluster { cluster } => {
                needs.push(Need { kind: Kind::ClusterDeployment, key: cluster.key() });
            }
            Lease::Address { lease, before, .. } => {
                needs.push(Need { kind: Kind::IpClaim, key: lease.key() });
                let before = before.map(|claim| Key::new(&*lease.namespace, claim));
                needs.extend(before.map(|key| Need { kind: Kind::IpClaim, key }));
            }
            _ => {}
        }
    }
    needs
}

fn hold_lease(
    context: &Context,
    state: &mut State,
    lease: &Lease<'_>,
    tick: &Tick,
) -> Option<String> {
    let (kind, key, said) = match lease {
        Lease::ClaimedCluster { cluster, claim } => {
            let said = hold_claimed(context, state, cluster, *claim);
            (Kind::ClusterDeployment, cluster.key(), said)
        }
        Lease::PausedCluster { cluster } => {
            pause(state, &cluster.name);
            let said = format!("cluster `{}` is paused: {}", cluster.name, going_on(cluster));
            (Kind::ClusterDeployment, cluster.key(), said)
        }
        Lease::NewCluster { cluster, names_drawn, .. } => {
            return hold_name(state, cluster, *names_drawn);
        }
        Lease::Customization { customization, holder, cluster, .. } => {
            let said = hold_customization(context, state, customization, holder, *cluster);
            (Kind::Customization, customization.key(), said)
        }
        Lease::Address { lease, address, pool, .. } => {
            (Kind::IpClaim, lease.key(), hold_address(context, state, lease, *address, pool))
        }
        Lease::Host { host, user, .. } => {
            (Kind::BareMetalHost, host.key(), hold_host(context, state, host, *user))
        }
        Lease::Agent { agent, .. } => {
            (Kind::Agent, agent.key(), hold_agent(context, state, agent, tick))
        }
    };
    let text = format!("Leased after the backup that was restored: {said}");
    edits::record_event(state, tick, kind, key, "Held", &text);
    Some(said)
}

/// A cluster that the backup brings back may not exist any more, and what it used may be somebody's:
/// nobody gets it, and nothing is done to it or to its hosts, which are as they are now.
fn hold_gone(state: &mut State, cluster: &Cluster, now: &Leases) -> String {
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
fn keep_by_hand(state: &mut State, now: &Leases) -> Vec<String> {
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

/// The claim goes on as it is. A cluster that was not installed when the backup was made is
/// paused besides: what the backup knows of it would have it cleaned up and installed again.
fn hold_claimed(
    context: &Context,
    state: &mut State,
    cluster: &Cluster,
    claim: Option<&Claim>,
) -> String {
    let name = match claim {
        Some(claim) => put_claim(state, claim, cluster),
        None => cluster.claim.clone().unwrap_or_default(),
    };
    let mut paused = false;
    if let Some(at) = state.cluster(&cluster.name) {
        paused = state.clusters.get(at).is_some_and(|known| known.phase() != Phase::Installed);
        state.clusters.update(at, |known| {
            known.claim = Some(name.clone());
            known.claimed_at = cluster.claimed_at;
            known.power_wanted = cluster.power_wanted;
            if let Some(body) = known.body.as_mut().filter(|_| paused) {
                known.paused = true;
                body.metadata.annotations.insert(PAUSED.into(), "true".into());
            }
        });
    }
    let namespace = cluster.claim_key().map(|key| key.namespace).unwrap_or_default();
    let (cluster, option) = (&cluster.name, context.in_namespace(&namespace));
    let mut said =
        format!("cluster `{cluster}` has claim `{name}`: poolctl release {name}{option}");
    if paused {
        said = format!(
            "{said}; the backup does not have it installed, so it is paused: poolctl annotate \
             cluster {cluster} {PAUSED}-{option}"
        );
    }
    said
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
fn hold_name(state: &mut State, cluster: &Cluster, names_drawn: u64) -> Option<String> {
    let Some(pool) = cluster.pool.as_deref() else {
        let Cluster { name, cluster_name, base_domain, .. } = cluster;
        return Some(format!(
            "the name {cluster_name}.{base_domain} of cluster `{name}` cannot be held: let no \
             other cluster have it"
        ));
    };
    if let Some(at) = state.pools.find(pool) {
        state.pools.update(at, |pool| {
            pool.status.ordinal = pool.status.ordinal.max(names_drawn);
        });
    }
    None
}

/// The lease of a cluster that the backup does not have is that of one that was left running.
fn hold_customization(
    context: &Context,
    state: &mut State,
    customization: &Customization,
    holder: &Holder,
    cluster: Option<&Cluster>,
) -> String {
    let (key, name) = (customization.key(), &holder.cluster);
    let known = state.cluster(name).and_then(|at| state.clusters.get(at));
    let preserved = known.is_none_or(|known| known.customization.as_ref() != Some(&key.name));
    let mut held = customization.clone();
    held.holder = Some(Holder { preserved, ..holder.clone() });
    held.status.preserved = preserved;
    held.status.preserved_name = match cluster {
        _ if !preserved => String::new(),
        Some(cluster) => format!("{}.{}", cluster.cluster_name, cluster.base_domain),
        None => customization.status.preserved_name.clone(),
    };
    if let Some(at) = state.customizations.find(&key) {
        state.customizations.update(at, |known| {
            (known.holder, known.status) = (held.holder, held.status);
        });
    } else {
        held.metadata.id = 0;
        state.customizations.insert(held);
    }
    let (entry, option) = (&key.name, context.in_namespace(&key.namespace));
    if preserved {
        format!(
            "customization `{entry}` is kept by cluster `{name}`: poolctl customization reset \
             {entry}{option}"
        )
    } else {
        format!("customization `{entry}` goes with cluster `{name}`")
    }
}

/// The lease as it is now. Whoever had its address or its claim in the backup has given it back.
fn hold_address(
    context: &Context,
    state: &mut State,
    lease: &IpLease,
    address: Addr,
    pool: &IpPool,
) -> String {
    if state.ip_pools.find(&pool.metadata.key()).is_none() {
        let metadata = Meta { id: 0, ..pool.metadata.clone() };
        let (spec, status) = (pool.spec.clone(), IpPoolStatus::default());
        state.ip_pools.insert(IpPool { metadata, spec, status });
    }
    let former = state.ip_leases.iter().find(|(_, known)| {
        known.namespace == lease.namespace
            && known.address == lease.address
            && known.claim != lease.claim
    });
    let former = former.map(|(at, _)| at);
    if let Some(at) = former {
        state.ip_leases.remove(at);
    }
    let mut held = lease.clone();
    let cluster = held.cluster().filter(|name| state.cluster(name).is_some()).map(str::to_owned);
    if let Some(notes) = held.notes.as_mut().filter(|_| cluster.is_none()) {
        notes.claim.finalizers.retain(|finalizer| finalizer != WITH_CLUSTER);
    }
    if let Some(at) = state.ip_leases.find(&lease.key()) {
        state.ip_leases.update(at, |known| *known = IpLease { id: known.id, ..held });
    } else {
        state.ip_leases.insert(held);
    }
    let (claim, option) = (&lease.claim, context.in_namespace(&lease.namespace));
    if let Some(cluster) = cluster {
        return format!("address {address} goes with cluster `{cluster}`");
    }
    let (what, back) = if lease.claimed {
        ("leased to", format!("poolctl ip release {claim}{option}"))
    } else {
        let name = address_name(pool, lease);
        ("leased for", format!("poolctl delete ipaddress {name}{option}"))
    };
    format!("address {address} is {what} IPClaim `{claim}`: {back}")
}

/// The host stays as it is now, powered and used, and nobody picks it.
fn hold_host(context: &Context, state: &mut State, host: &BareMetalHost, user: User<'_>) -> String {
    let mut held = host.clone();
    held.metadata
        .annotations
        .entry(HOLD.into())
        .or_insert_with(|| format!("used by {user} since the backup"));
    let mut key = host.key();
    if let Some(at) = find_host(state, host) {
        key = state.hosts.get(at).map_or(key, BareMetalHost::key);
        state.hosts.update(at, |known| {
            // It is the machine of now under the name that the backup has for it.
            let Meta { name, namespace, uid, id, .. } = known.metadata.clone();
            held.metadata = Meta { name, namespace, uid, id, ..held.metadata };
            *known = held;
        });
    } else {
        held.metadata.id = 0;
        state.hosts.insert(held);
    }
    let (name, option) = (&key.name, context.in_namespace(&key.namespace));
    let mut said = format!("host `{name}` is held: poolctl host unhold {name}{option}");
    if user.cluster().is_some_and(|cluster| state.cluster(cluster).is_none()) {
        said = format!("{said}, and {}", command_to_free_host(name, &option));
    }
    said
}

/// Nobody gets the host of an Agent that goes on in a cluster, and nothing is done to it.
fn hold_agent(context: &Context, state: &mut State, agent: &Agent, tick: &Tick) -> String {
    let mut places = find_agents(state, agent);
    if places.is_empty() {
        let metadata = Meta { id: 0, ..agent.metadata.clone() };
        places.push(state.agents.insert(Agent { metadata, ..agent.clone() }));
    }
    for at in &places {
        if let Some(cluster) = agent.bound_to() {
            plan::agents::retire(state, *at, &cluster.name, tick);
        } else {
            state.agents.update(*at, |known| {
                known.spec.cluster_deployment_name = None;
                known.status.bound_to = None;
                known.status.debug_info.clone_from(&agent.status.debug_info);
                known.status.state_since = agent.status.state_since;
            });
        }
    }
    let mut commands = Vec::new();
    for known in places.iter().filter_map(|at| state.agents.get(*at)) {
        let option = context.in_namespace(&known.metadata.namespace);
        commands.push(format!("poolctl delete agent {}{option}", known.metadata.name));
    }
    format!("agent `{}` is retired: {}", agent.metadata.name, commands.join(", "))
}
