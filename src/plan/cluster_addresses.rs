//! Chooses the addresses of a cluster: of its API and ingress, and of its hosts. It grants nothing
//! and gives nothing back.

use serde_json::{Value, json};

use crate::model::address::{Addr, Subnet};
use crate::model::annotations::VIPS_FROM;
use crate::model::ip_lease::{IpLease, VIPS};
use crate::model::lease::ClusterHolder;
use crate::model::platform::{PLATFORMS, PlatformTraits, VipOrigin};
use crate::model::pool::ClusterPool;
use crate::model::state::{AddressBook, State};
use crate::model::tick::Tick;

use super::address_allocator::AddressAllocator;
use super::addresses;

/// What of a cluster has an address, and the field of its platform.
const ROLES: [(&str, &str); 2] = [(VIPS[0], "apiVIPs"), (VIPS[1], "ingressVIPs")];

/// Chooses the addresses of the API and ingress of a new cluster, from each IPPool that its pool
/// names. Returns the leases, and the install-config with the addresses in it; the error says why
/// there are not enough.
pub fn choose_cluster_addresses(
    state: &State,
    pool: &ClusterPool,
    cluster: &str,
    base: &Value,
    book: &dyn AddressBook,
    tick: &Tick,
) -> Result<(Vec<IpLease>, Value), String> {
    let mut leases: Vec<IpLease> = Vec::new();
    let mut document = base.clone();
    let ip_pools = pool.vip_pools();
    if ip_pools.is_empty() {
        return Ok((leases, document));
    }
    let platform =
        platform_with_vips(&document).ok_or("the platform has no addresses for API and ingress")?;
    for (role, field) in ROLES {
        let mut addresses: Vec<Addr> = Vec::new();
        for ip_pool in &ip_pools {
            let claim = format!("{cluster}-{role}{}", pool_suffix(&ip_pools, ip_pool));
            let request = AddressRequest { cluster, agent: None, claim };
            let lease = choose_address(state, pool, ip_pool, request, &leases, book, tick)
                .map_err(|problem| format!("IPPool {ip_pool}, {role}: {problem}"))?;
            addresses.extend(lease.address);
            leases.push(lease);
        }
        put_primary_family_first(&mut addresses, base);
        let texts: Vec<String> = addresses.iter().map(Addr::to_string).collect();
        document["platform"][platform.name][field] = json!(texts);
    }
    Ok((leases, document))
}

/// The platform of an install-config, if its API and ingress get addresses that the install-config
/// names.
fn platform_with_vips(document: &Value) -> Option<&'static PlatformTraits> {
    let mut platforms = PLATFORMS.iter().filter(|platform| platform.vips == VipOrigin::Given);
    platforms.find(|platform| document["platform"][platform.name].is_object())
}

/// Why addresses that a pool leases have no place in the install-config of its clusters. None if
/// they have one, or if it leases none.
pub fn describe_unplaceable_vips(pool: &ClusterPool, install_config: &Value) -> Option<String> {
    if pool.vip_pools().is_empty() || platform_with_vips(install_config).is_some() {
        return None;
    }
    Some(format!(
        "{VIPS_FROM} is set, but the platform has no addresses for API and ingress; take another \
         platform, or remove the annotation"
    ))
}

/// Whether patches have changed the addresses of the API or the ingress of an install-config. They
/// are applied after the leased addresses were written into it.
pub fn has_patched_vips(unpatched: &Value, patched: &Value) -> bool {
    let Some(platform) = platform_with_vips(patched) else { return false };
    ROLES.iter().any(|(_, field)| {
        patched["platform"][platform.name][*field] != unpatched["platform"][platform.name][*field]
    })
}

/// Puts the addresses of the family first that the networks of the machines begin with: a cluster
/// with addresses of both families expects it.
fn put_primary_family_first(addresses: &mut [Addr], base: &Value) {
    let cidr = base.pointer("/networking/machineNetwork/0/cidr").and_then(Value::as_str);
    let network = cidr.and_then(|cidr| cidr.parse::<Subnet>().ok());
    if let Some(network) = network {
        let primary = network.written_address().family();
        addresses.sort_by_key(|address| address.family() != primary);
    }
}

/// Chooses an address for each host of a new cluster, from each IPPool that its pool names for
/// hosts, and adds them to `leases`. The error says why there are not enough.
pub fn choose_node_addresses(
    state: &State,
    pool: &ClusterPool,
    cluster: &str,
    agent_names: &[String],
    leases: &mut Vec<IpLease>,
    book: &dyn AddressBook,
    tick: &Tick,
) -> Result<(), String> {
    let ip_pools = pool.node_address_pools();
    for agent in agent_names {
        for ip_pool in &ip_pools {
            let claim = node_claim_name(cluster, agent, &ip_pools, ip_pool);
            if leases.iter().any(|lease| lease.claim == claim) {
                return Err(format!("host {agent}: claim {claim} already belongs to another host"));
            }
            let request = AddressRequest { cluster, agent: Some(agent), claim };
            let lease = choose_address(state, pool, ip_pool, request, leases, book, tick)
                .map_err(|problem| format!("IPPool {ip_pool}, host {agent}: {problem}"))?;
            leases.push(lease);
        }
    }
    Ok(())
}

/// The name of the claim of a host's address from one of the IPPools: `CLUSTER-AGENT`, with
/// `-IPPOOL` where there are several.
pub fn node_claim_name(cluster: &str, agent: &str, ip_pools: &[&str], ip_pool: &str) -> String {
    format!("{cluster}-{agent}{}", pool_suffix(ip_pools, ip_pool))
}

/// What tells the claims of one cluster or host apart where they are for addresses of several
/// pools.
fn pool_suffix(ip_pools: &[&str], ip_pool: &str) -> String {
    if ip_pools.len() > 1 { format!("-{ip_pool}") } else { String::new() }
}

/// Chooses an address of an IPPool, and none that one of `leases` has already.
fn choose_address(
    state: &State,
    pool: &ClusterPool,
    ip_pool_name: &str,
    request: AddressRequest<'_>,
    leases: &[IpLease],
    book: &dyn AddressBook,
    tick: &Tick,
) -> Result<IpLease, String> {
    let namespace = pool.metadata.namespace.as_str();
    let ip_pool = addresses::find_serving_pool(state, namespace, ip_pool_name)?
        .ok_or("there is no such IPPool")?;
    if addresses::is_paused(state, ip_pool) {
        return Err("it is paused".into());
    }
    let mut allocator = AddressAllocator::new(ip_pool, book, state, tick);
    allocator.reserve(leases.iter().filter_map(|lease| lease.address));
    let mut lease = waiting_lease(pool, ip_pool_name, request, tick);
    lease.pool_namespace = ip_pool.namespace_for_claim(namespace);
    let address = allocator.allocate(&lease)?;
    lease.address = Some(address);
    lease.network = ip_pool.network_of_range(ip_pool.range_index_of(address));
    Ok(lease)
}

/// For whom an address of a cluster is: one of its hosts, by the name of its Agent, or the cluster
/// itself; and what its claim is called.
pub struct AddressRequest<'a> {
    pub cluster: &'a str,
    pub agent: Option<&'a str>,
    pub claim: String,
}

/// The claim of an address that goes with a cluster, and not before. It has no address yet. Its
/// name is for people.
pub fn waiting_lease(
    pool: &ClusterPool,
    ip_pool: &str,
    request: AddressRequest<'_>,
    tick: &Tick,
) -> IpLease {
    let agent = request.agent.map(str::to_owned);
    IpLease {
        namespace: pool.metadata.namespace.clone(),
        claim: request.claim,
        pool: ip_pool.to_owned(),
        created: tick.now,
        claimed: true,
        holder: Some(ClusterHolder { agent, ..ClusterHolder::new(request.cluster) }),
        ..IpLease::default()
    }
}
