//! What makes a pool of addresses, a claim of one and a lease; every problem is said at once.

use std::collections::{BTreeMap, HashMap};

use crate::model::address::{Addr, Stretch, Subnet};
use crate::model::ip_lease::{IpAddress, IpClaim};
use crate::model::ip_pool::{ALLOCATION, IpPool, OUT_OF_RANGE, OVERLAP, Range, Strategy, WANTED};
use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::annotations;

const NO_ADDRESS: &str = "is not a valid IP address";
const MOST_BITS: i64 = 128;

/// Everything that is wrong with a pool, each with its path.
pub fn pool(pool: &IpPool) -> Vec<String> {
    let (spec, mut wrong) = (&pool.spec, Vec::new());
    let random = pool.strategy() == Strategy::Random;
    server(&mut wrong, "spec.gateway", spec.gateway.as_deref());
    for (at, text) in spec.dns_servers.iter().enumerate() {
        server(&mut wrong, &format!("spec.dnsServers[{at}]"), Some(text));
    }
    if spec.prefix.is_some_and(|prefix| !(0..=MOST_BITS).contains(&prefix)) {
        wrong.push("spec.prefix: must be between 0 and 128".into());
    }
    let written = spec.allocation_strategy.as_deref().filter(|text| !text.is_empty());
    if let Some(other) = written.filter(|text| !["random", "sequential"].contains(text)) {
        wrong.push(format!("spec.allocationStrategy: `{other}` is neither random nor sequential"));
    }
    for (at, one) in spec.pools.iter().enumerate() {
        range(&mut wrong, &format!("spec.pools[{at}]"), one, pool, random);
    }
    overlaps(&mut wrong, pool);
    pre_allocations(&mut wrong, pool);
    notes(&mut wrong, pool);
    wrong
}

fn server(wrong: &mut Vec<String>, path: &str, text: Option<&str>) {
    if text.is_some_and(|text| text.parse::<Addr>().is_err()) {
        wrong.push(format!("{path}: `{}` {NO_ADDRESS}", text.unwrap_or_default()));
    }
}

fn range(wrong: &mut Vec<String>, path: &str, one: &Range, pool: &IpPool, random: bool) {
    server(wrong, &format!("{path}.gateway"), one.gateway.as_deref());
    for (at, text) in one.dns_servers.iter().enumerate() {
        server(wrong, &format!("{path}.dnsServers[{at}]"), Some(text));
    }
    let known = wrong.len();
    if one.start.is_none() && one.end.is_none() && one.subnet.is_none() {
        wrong
            .push(format!("{path}: pool entry must specify at least one of start, end, or subnet"));
        return;
    }
    let mut read = |name: &str, text: &Option<String>| -> Option<Addr> {
        let found = text.as_ref()?.parse().ok();
        if found.is_none() {
            let text = text.as_deref().unwrap_or_default();
            wrong.push(format!("{path}: invalid {name} IP \"{text}\""));
        }
        found
    };
    let (start, end) = (read("Start", &one.start), read("End", &one.end));
    let subnet = one.subnet.as_ref().map(|text| text.parse::<Subnet>());
    if let Some(Err(why)) = &subnet {
        wrong.push(format!("{path}: {why}"));
    }
    let subnet = subnet.and_then(Result::ok);
    if wrong.len() > known {
        return;
    }
    families(wrong, path, one, pool, [start, end, subnet.map(Subnet::written)]);
    if let (Some(start), Some(end)) = (start, end)
        && end < start
        && end.is_v4() == start.is_v4()
    {
        wrong.push(format!("{path}: end IP {end} is before start IP {start}"));
    }
    if let Some(subnet) = subnet {
        for (name, address) in [("start", start), ("end", end)] {
            if let Some(address) = address.filter(|address| !subnet.contains(*address)) {
                let text = one.subnet.as_deref().unwrap_or_default();
                wrong.push(format!("{path}.{name}: {address} is not in subnet {text}"));
            }
        }
    }
    if start.is_none() && subnet.is_none() {
        wrong.push(format!(
            "{path}: either Start or Subnet is required: an end alone has no addresses"
        ));
    } else if random && end.is_none() && subnet.is_none() {
        wrong.push(format!(
            "{path}: cannot be used with allocationStrategy \"random\": pool with Start requires End \
             or Subnet to determine size"
        ));
    }
}

/// Addresses of an entry are of one family, and its prefix fits.
fn families(
    wrong: &mut Vec<String>,
    path: &str,
    one: &Range,
    pool: &IpPool,
    own: [Option<Addr>; 3],
) {
    let gateway = one.gateway.as_ref().or(pool.spec.gateway.as_ref());
    let Some(first) = own.into_iter().flatten().next() else { return };
    if own.into_iter().flatten().any(|other| other.is_v4() != first.is_v4()) {
        wrong.push(format!("{path}: start, end and subnet are of mixed IP families"));
        return;
    }
    let gateway: Option<Addr> = gateway.and_then(|text| text.parse().ok());
    if gateway.is_some_and(|gateway| gateway.is_v4() != first.is_v4()) {
        wrong.push(format!("{path}: gateway and addresses are of mixed IP families"));
    }
    let prefix = one.prefix.filter(|prefix| *prefix != 0).or(pool.spec.prefix).unwrap_or_default();
    if !(0..=i64::from(first.bits())).contains(&prefix) {
        let bits = first.bits();
        wrong.push(format!(
            "{path}.prefix: {prefix} is not between 0 and {bits}, as {first} needs it"
        ));
    } else if let Some(length) = one.subnet().map(Subnet::prefix_length)
        && prefix > i64::from(length)
    {
        wrong.push(format!("{path}.prefix: {prefix} does not cover its subnet, a /{length}"));
    }
}

fn overlaps(wrong: &mut Vec<String>, pool: &IpPool) {
    let all: Vec<(usize, Stretch)> = pool.ranges().collect();
    for (place, (at, one)) in all.iter().enumerate() {
        for (other, two) in all.iter().take(place) {
            if one.meets(*two) {
                wrong.push(format!("spec.pools[{at}]: {one} overlaps spec.pools[{other}], {two}"));
            }
        }
    }
}

fn pre_allocations(wrong: &mut Vec<String>, pool: &IpPool) {
    let (never, mut seen) = (pool.never(), BTreeMap::new());
    for (claim, text) in &pool.spec.pre_allocations {
        let path = format!("spec.preAllocations.{claim}");
        let Ok(address) = text.parse::<Addr>() else {
            wrong.push(format!("{path}: `{text}` {NO_ADDRESS}"));
            continue;
        };
        if let Some(other) = seen.insert(address, claim) {
            wrong.push(format!("{path}: IP address is already pre-allocated to claim \"{other}\""));
        }
        if pool.entry_of(address).is_none() {
            wrong.push(format!("{path}: {address} is out of bounds of the pools given"));
        } else if never.contains(&address) {
            wrong.push(format!("{path}: {address} is a gateway, or its network's own"));
        }
    }
}

fn notes(wrong: &mut Vec<String>, pool: &IpPool) {
    let note = |name| pool.metadata.annotation(name);
    let written = pool.spec.allocation_strategy.as_deref().and_then(Strategy::named);
    let noted = note(ALLOCATION).and_then(Strategy::named);
    if noted.zip(written).is_some_and(|(noted, written)| noted != written) {
        let (noted, written) = (note(ALLOCATION), pool.spec.allocation_strategy.as_deref());
        let (noted, written) = (noted.unwrap_or_default(), written.unwrap_or_default());
        wrong.push(format!(
            "annotation {ALLOCATION}: `{noted}` is not spec.allocationStrategy, `{written}`"
        ));
    }
    for (name, value) in &pool.metadata.annotations {
        wrong.extend(annotations::check_one(Kind::IpPool, name, value).err());
    }
    wrong.extend(pool.reservations().into_iter().filter_map(Result::err));
}

/// What is accepted but worth a word.
pub fn warnings(pool: &IpPool) -> Vec<String> {
    let (name, mut found) = (&pool.metadata.name, Vec::new());
    let servers = pool.spec.pools.iter().flat_map(|one| &one.dns_servers);
    for server in servers.chain(&pool.spec.dns_servers).filter_map(|text| text.parse().ok()) {
        if pool.open().iter().any(|(_, range)| range.has(server)) {
            found.push(format!(
                "ippool `{name}`: DNS server {server} would be leased: poolctl ip reserve {name} {server}"
            ));
        }
    }
    let lists = pool.spec.pools.iter().map(|one| &one.dns_servers);
    for list in lists.chain([&pool.spec.dns_servers]) {
        let twice = list.iter().enumerate().filter(|(at, text)| list[..*at].contains(text));
        found.extend(twice.map(|(_, text)| {
            format!("ippool `{name}`: DNS server {text} is listed twice; it counts once")
        }));
    }
    for (at, one) in pool.spec.pools.iter().enumerate() {
        let Some(subnet) = one.subnet() else { continue };
        let gateway = one.gateway.as_ref().or(pool.spec.gateway.as_ref());
        let gateway: Option<Addr> = gateway.and_then(|text| text.parse().ok());
        if let Some(gateway) = gateway.filter(|gateway| !subnet.contains(*gateway)) {
            found.push(format!(
                "ippool `{name}`: gateway {gateway} is not in the subnet of pools[{at}]"
            ));
        }
        let first = subnet.first();
        if one.start.is_none() && subnet.written() != first {
            let next = Addr(subnet.written().0.saturating_add(1));
            found.push(format!(
                "ippool `{name}`: pools[{at}] begins with {next}, after the address in its subnet; {first}/{} \
                 begins at the first",
                subnet.prefix_length()
            ));
        }
    }
    found
}

pub fn claim(claim: &IpClaim) -> Vec<String> {
    let (pool, mut wrong) = (&claim.spec.pool, Vec::new());
    if pool.name.is_empty() {
        wrong.push("spec.pool.name: cannot be empty".into());
    }
    if !pool.namespace.is_empty() && pool.namespace != claim.metadata.namespace {
        wrong.push(format!("spec.pool.namespace: `{}` is not the claim's", pool.namespace));
    }
    if !pool.kind.is_empty() && pool.kind != "IPPool" {
        wrong.push(format!("spec.pool.kind: `{}` is not IPPool", pool.kind));
    }
    let wanted = claim.metadata.annotation(WANTED).filter(|text| !text.is_empty());
    server(&mut wrong, "metadata.annotations.ipAddress", wanted);
    wrong
}

pub fn lease(lease: &IpAddress) -> Vec<String> {
    let (spec, mut wrong) = (&lease.spec, Vec::new());
    let names = [
        ("pool.name", &spec.pool.name),
        ("claim.name", &spec.claim.name),
        ("address", &spec.address),
    ];
    for (path, text) in names {
        if text.is_empty() {
            wrong.push(format!("spec.{path}: cannot be empty"));
        }
    }
    let address = spec.address.parse::<Addr>();
    if address.is_err() && !spec.address.is_empty() {
        wrong.push(format!("spec.address: `{}` {NO_ADDRESS}", spec.address));
    }
    let bits = address.as_ref().map_or(MOST_BITS, |address| i64::from(address.bits()));
    if spec.prefix.is_some_and(|prefix| !(0..=bits).contains(&prefix)) {
        wrong.push(format!("spec.prefix: must be between 0 and {bits}"));
    }
    server(&mut wrong, "spec.gateway", spec.gateway.as_deref());
    let gateway = spec.gateway.as_ref().and_then(|text| text.parse::<Addr>().ok());
    if let (Some(gateway), Ok(address)) = (gateway, &address)
        && gateway.is_v4() != address.is_v4()
    {
        wrong.push(format!("spec.gateway: {gateway} and {address} are of mixed IP families"));
    }
    for (at, text) in spec.dns_servers.iter().enumerate() {
        server(&mut wrong, &format!("spec.dnsServers[{at}]"), Some(text));
    }
    let wanted = lease.metadata.annotation(WANTED).filter(|text| !text.is_empty());
    server(&mut wrong, "metadata.annotations.ipAddress", wanted);
    wrong
}

/// What of a changed pool its leases and the other pools forbid.
pub fn invariants(state: &State) -> Result<(), Refusal> {
    once(state)?;
    for change in state.ip_pools.difference() {
        let Some(after) = change.after else {
            let gone = change.before.map(|one| one.metadata.key()).unwrap_or_default();
            let mut refusal = Refusal::conflict(format!("IPPool `{}` has leases", gone.name));
            refusal.causes.extend(state.ip_offenders.get(&gone).into_iter().flatten().cloned());
            if refusal.causes.is_empty() {
                continue;
            }
            return Err(refusal.advise("release them first: poolctl ip release CLAIM"));
        };
        if let Some(before) = change.before {
            kept(before, after)?;
        }
        let offenders = state.ip_offenders.get(&after.metadata.key()).into_iter().flatten();
        let mut refusal = Refusal::conflict(format!(
            "IPPool `{}` does not fit the leases that there are",
            after.metadata.name
        ));
        refusal.causes.extend(offenders.cloned());
        if !refusal.causes.is_empty() && !after.metadata.annotated(OUT_OF_RANGE) {
            let next = format!("release them, or annotate the pool {OUT_OF_RANGE}=true");
            return Err(refusal.advise(next));
        }
        for other in state
            .ip_pools
            .rows()
            .filter(|other| other.metadata.namespace == after.metadata.namespace)
        {
            apart(after, other)?;
        }
    }
    Ok(())
}

/// No address has two tenants.
fn once(state: &State) -> Result<(), Refusal> {
    if state.ip_leases.difference().next().is_none() {
        return Ok(());
    }
    for one in state.ip_leases.difference().filter_map(|change| change.after) {
        let given = one.notes.as_ref().map(|notes| notes.address.name.as_str()).unwrap_or_default();
        if given.is_empty() {
            continue;
        }
        let pools = state.ip_pools.rows().filter(|pool| pool.metadata.namespace == one.namespace);
        let called: Vec<Addr> = pools.flat_map(|pool| pool.addresses_named(given)).collect();
        let own = one.address.is_some_and(|own| called.contains(&own));
        if let Some(other) = called.first().filter(|_| !own) {
            let what = format!("IPAddress `{given}` would be called like that of {other}");
            return Err(Refusal::conflict(what).advise("give it another name"));
        }
    }
    let mut tenants = HashMap::new();
    for one in state.ip_leases.rows() {
        let Some(address) = one.address else { continue };
        if let Some(other) = tenants.insert((&one.namespace, address), &one.claim) {
            let what = format!("{address} would be leased to both `{other}` and `{}`", one.claim);
            return Err(Refusal::conflict(what).next(format!("poolctl ip who {address}")));
        }
    }
    Ok(())
}

fn kept(before: &IpPool, after: &IpPool) -> Result<(), Refusal> {
    let name = &after.metadata.name;
    let wrong =
        |path: &str, why: &str| Err(Refusal::conflict(format!("IPPool `{name}`: {path} {why}")));
    if before.name_of(Addr(1)) != after.name_of(Addr(1)) {
        return wrong("spec.namePrefix", "cannot be modified");
    }
    if before.strategy() != after.strategy() {
        return wrong("spec.allocationStrategy", "cannot be modified after creation");
    }
    Ok(())
}

/// Two pools of a namespace have no address, and no names of leases, in common.
fn apart(one: &IpPool, other: &IpPool) -> Result<(), Refusal> {
    let (name, its) = (&one.metadata.name, &other.metadata.name);
    if name == its {
        return Ok(());
    }
    let refused = |why: String| {
        let next = format!("poolctl ippool map {its}, or annotate both {OVERLAP}=true");
        Err(Refusal::conflict(format!("IPPool `{name}`: {why}")).advise(next))
    };
    let allowed = one.metadata.annotated(OVERLAP) && other.metadata.annotated(OVERLAP);
    let meets = one.ranges().find_map(|(_, range)| {
        let met = other.ranges().find(|(_, its)| its.meets(range));
        met.map(|(_, its)| (range, its))
    });
    if allowed {
        return Ok(());
    }
    if let Some((range, with)) = meets {
        return refused(format!("{range} overlaps {with} of IPPool `{its}`"));
    }
    if let Some(address) = kept_in(other, one) {
        return refused(format!("{address} of its ranges is kept by IPPool `{its}`"));
    }
    match kept_in(one, other) {
        Some(address) => refused(format!("it keeps {address}, which IPPool `{its}` leases")),
        None => Ok(()),
    }
}

/// What one pool leases to nobody, or to one claim only, and another to anybody.
fn kept_in(keeps: &IpPool, leases: &IpPool) -> Option<Addr> {
    let pre = keeps.pre_allocated().map(|(_, address)| address);
    let ranges: Vec<Stretch> = leases.ranges().map(|(_, range)| range).collect();
    let mut near =
        pre.chain(keeps.never()).filter(|address| ranges.iter().any(|range| range.has(*address)));
    near.find(|address| leases.open().iter().any(|(_, range)| range.has(*address)))
}
