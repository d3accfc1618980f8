//! Chooses the addresses of a cluster: of its API and ingress, and of its hosts. Gives nothing back.

use serde_json::{Value, json};

use crate::model::ip_lease::{IpLease, VIPS};
use crate::model::lease::ClusterHolder;
use crate::model::meta::Key;
use crate::model::platform::{PLATFORMS, Vips};
use crate::model::pool::ClusterPool;
use crate::model::state::{AddressBook, State};
use crate::model::tick::Tick;

use super::addresses;
use super::desk::Desk;

/// What of a cluster has an address, and the field of its platform.
const ROLES: [(&str, &str); 2] = [(VIPS[0], "apiVIPs"), (VIPS[1], "ingressVIPs")];

/// Addresses for a new cluster, and what it is made from with them in it; all of them or why not.
pub fn lease(
    state: &State,
    pool: &ClusterPool,
    cluster: &str,
    base: &Value,
    book: &dyn AddressBook,
    tick: &Tick,
) -> Result<(Vec<IpLease>, Value), String> {
    let (mut leases, mut document) = (Vec::new(), base.clone());
    let names = pool.vips_from();
    if names.is_empty() {
        return Ok((leases, document));
    }
    let given = PLATFORMS.iter().filter(|platform| platform.vips == Vips::Given);
    let platform =
        given.map(|platform| platform.name).find(|name| document["platform"][*name].is_object());
    let platform = platform.ok_or("the platform has no addresses for API and ingress")?;
    let mut found = [Vec::new(), Vec::new()];
    for (place, (role, _)) in ROLES.into_iter().enumerate() {
        for name in &names {
            let many = if names.len() > 1 { format!("-{name}") } else { String::new() };
            let claim = format!("{cluster}-{role}{many}");
            let request = Request { cluster, agent: None, claim };
            let one = desk(state, pool, name, &leases, book, tick)
                .and_then(|desk| leased(desk, pool, name, request, tick))
                .map_err(|why| format!("IPPool {name}, {role}: {why}"))?;
            if let Some(all) = found.get_mut(place) {
                all.extend(one.address.map(|address| address.to_string()));
            }
            leases.push(one);
        }
    }
    for ((_, field), all) in ROLES.into_iter().zip(found) {
        document["platform"][platform][field] = json!(all);
    }
    Ok((leases, document))
}

/// An address for each host of a new cluster, of each pool; or why there is none.
pub fn for_hosts(
    state: &State,
    pool: &ClusterPool,
    (cluster, hosts): (&str, &[String]),
    leases: &mut Vec<IpLease>,
    book: &dyn AddressBook,
    tick: &Tick,
) -> Result<(), String> {
    let names = pool.nodes_from();
    for host in hosts {
        for name in &names {
            let claim = claim_of_host(cluster, host, &names, name);
            if leases.iter().any(|one| one.claim == claim) {
                return Err(format!("host {host}: the claim {claim} is another's already"));
            }
            let request = Request { cluster, agent: Some(host), claim };
            let one = desk(state, pool, name, leases, book, tick)
                .and_then(|desk| leased(desk, pool, name, request, tick))
                .map_err(|why| format!("IPPool {name}, host {host}: {why}"))?;
            leases.push(one);
        }
    }
    Ok(())
}

/// What the claim of a host's address is called.
pub fn claim_of_host(cluster: &str, host: &str, names: &[&str], name: &str) -> String {
    let many = if names.len() > 1 { format!("-{name}") } else { String::new() };
    format!("{cluster}-{host}{many}")
}

fn desk<'a>(
    state: &'a State,
    pool: &ClusterPool,
    name: &str,
    leases: &[IpLease],
    book: &'a dyn AddressBook,
    tick: &'a Tick,
) -> Result<Desk<'a>, String> {
    let key = Key::new(&*pool.metadata.namespace, name);
    let from = state.ip_pools.by_key(&key).ok_or("there is no such IPPool")?;
    if addresses::pauses(state, from) {
        return Err("it is paused".into());
    }
    let mut desk = Desk::new(from, book, state, tick);
    desk.keep(leases.iter().filter_map(|one| one.address));
    Ok(desk)
}

fn leased(
    mut desk: Desk<'_>,
    pool: &ClusterPool,
    name: &str,
    request: Request<'_>,
    tick: &Tick,
) -> Result<IpLease, String> {
    let mut one = waiting(pool, name, request, tick);
    let address = desk.serve(&one)?;
    let from = desk.pool();
    (one.address, one.network) = (Some(address), from.network_of(from.entry_of(address)));
    Ok(one)
}

/// For whom an address of a cluster is: one of its hosts, by the name of its Agent, or the cluster
/// itself; and what its claim is called.
pub struct Request<'a> {
    pub cluster: &'a str,
    pub agent: Option<&'a str>,
    pub claim: String,
}

/// The claim of an address that goes with a cluster, and not before. Its name is for people.
pub fn waiting(pool: &ClusterPool, name: &str, request: Request<'_>, tick: &Tick) -> IpLease {
    let agent = request.agent.map(str::to_owned);
    IpLease {
        namespace: pool.metadata.namespace.clone(),
        claim: request.claim,
        pool: name.to_owned(),
        created: tick.now,
        claimed: true,
        holder: Some(ClusterHolder { agent, ..ClusterHolder::new(request.cluster) }),
        ..IpLease::default()
    }
}
