//! Validates IPPools, IPClaims and IPAddresses, and refuses changes of a pool that do not fit its
//! leases or the other pools. Reports every problem at once, each with its path; leases nothing.

use std::collections::{BTreeMap, HashMap};

use crate::model::address::{Addr, IpRange, Subnet};
use crate::model::annotations::{ALLOCATION, OUT_OF_RANGE, OVERLAP, SHARE_WITH};
use crate::model::ip_lease::{IpAddress, IpClaim};
use crate::model::ip_pool::{AllocationStrategy, IpPool, REQUESTED_ADDRESS, Range};
use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::annotations;

const NO_ADDRESS: &str = "is not a valid IP address";
const MAX_PREFIX: i64 = 128;

/// Every problem of a pool.
pub fn check_pool(pool: &IpPool) -> Vec<String> {
    let spec = &pool.spec;
    let mut problems = Vec::new();
    check_optional_address(&mut problems, "spec.gateway", spec.gateway.as_deref());
    check_dns_servers(&mut problems, "spec", &spec.dns_servers);
    if spec.prefix.is_some_and(|prefix| !(0..=MAX_PREFIX).contains(&prefix)) {
        problems.push("spec.prefix: must be between 0 and 128".into());
    }
    let strategy = spec.allocation_strategy.as_deref().unwrap_or_default();
    if !["", "random", "sequential"].contains(&strategy) {
        problems.push(format!(
            "spec.allocationStrategy: `{strategy}` is neither random nor sequential"
        ));
    }
    for (index, range) in spec.pools.iter().enumerate() {
        check_range(&mut problems, &format!("spec.pools[{index}]"), range, pool);
    }
    check_overlaps_within(&mut problems, pool);
    check_pre_allocations(&mut problems, pool);
    check_annotations(&mut problems, pool);
    problems
}

fn check_optional_address(problems: &mut Vec<String>, path: &str, address: Option<&str>) {
    if let Some(address) = address
        && address.parse::<Addr>().is_err()
    {
        problems.push(format!("{path}: `{address}` {NO_ADDRESS}"));
    }
}

fn check_dns_servers(problems: &mut Vec<String>, path: &str, servers: &[String]) {
    for (index, server) in servers.iter().enumerate() {
        check_optional_address(problems, &format!("{path}.dnsServers[{index}]"), Some(server));
    }
}

/// A range whose addresses can be read; what is not given is none.
#[derive(Clone, Copy)]
struct ParsedRange {
    start: Option<Addr>,
    end: Option<Addr>,
    subnet: Option<Subnet>,
}

impl ParsedRange {
    /// The addresses that are written in the range, the subnet's own being the last.
    fn written_addresses(self) -> impl Iterator<Item = Addr> {
        [self.start, self.end, self.subnet.map(Subnet::written_address)].into_iter().flatten()
    }
}

/// Checks one entry of `spec.pools` at a path such as `spec.pools[0]`, in upstream's words where
/// upstream says it, too.
fn check_range(problems: &mut Vec<String>, path: &str, range: &Range, pool: &IpPool) {
    check_optional_address(problems, &format!("{path}.gateway"), range.gateway.as_deref());
    check_dns_servers(problems, path, &range.dns_servers);
    if range.start.is_none() && range.end.is_none() && range.subnet.is_none() {
        problems
            .push(format!("{path}: pool entry must specify at least one of start, end, or subnet"));
        return;
    }
    let Some(parsed) = parse_range(problems, path, range) else { return };
    check_families(problems, path, range, pool, parsed);
    let ParsedRange { start, end, subnet } = parsed;
    if let (Some(start), Some(end)) = (start, end)
        && end < start
        && end.is_v4() == start.is_v4()
    {
        problems.push(format!("{path}: end IP {end} is before start IP {start}"));
    }
    if let Some(subnet) = subnet {
        for (name, address) in [("start", start), ("end", end)] {
            if let Some(address) = address
                && !subnet.contains(address)
            {
                let written = range.subnet.as_deref().unwrap_or_default();
                problems.push(format!("{path}.{name}: {address} is not in subnet {written}"));
            }
        }
    }
    if start.is_none() && subnet.is_none() {
        problems.push(format!(
            "{path}: either Start or Subnet is required: an end alone has no addresses"
        ));
    } else if end.is_none() && subnet.is_none() && pool.strategy() == AllocationStrategy::Random {
        problems.push(format!(
            "{path}: cannot be used with allocationStrategy \"random\": pool with Start requires End \
             or Subnet to determine size"
        ));
    }
}

/// Reads the addresses of a range. Reports each that cannot be read, and then returns none.
fn parse_range(problems: &mut Vec<String>, path: &str, range: &Range) -> Option<ParsedRange> {
    let problems_before = problems.len();
    let start = parse_bound(problems, path, "Start", range.start.as_deref());
    let end = parse_bound(problems, path, "End", range.end.as_deref());
    let subnet = match range.subnet.as_ref().map(|written| written.parse::<Subnet>()) {
        None => None,
        Some(Ok(subnet)) => Some(subnet),
        Some(Err(why)) => {
            problems.push(format!("{path}: {why}"));
            None
        }
    };
    (problems.len() == problems_before).then_some(ParsedRange { start, end, subnet })
}

/// Parses the start or the end of an entry. One that is not given is no problem.
fn parse_bound(
    problems: &mut Vec<String>,
    path: &str,
    name: &str,
    written: Option<&str>,
) -> Option<Addr> {
    let written = written?;
    let address = written.parse::<Addr>().ok();
    if address.is_none() {
        problems.push(format!("{path}: invalid {name} IP \"{written}\""));
    }
    address
}

/// Checks that the addresses of a range and its gateway are of one family, and that its prefix fits
/// that family and its subnet.
fn check_families(
    problems: &mut Vec<String>,
    path: &str,
    range: &Range,
    pool: &IpPool,
    parsed: ParsedRange,
) {
    let Some(first) = parsed.written_addresses().next() else { return };
    if parsed.written_addresses().any(|address| address.is_v4() != first.is_v4()) {
        problems.push(format!("{path}: start, end and subnet are of mixed IP families"));
        return;
    }
    if gateway_of(range, pool).is_some_and(|gateway| gateway.is_v4() != first.is_v4()) {
        problems.push(format!("{path}: gateway and addresses are of mixed IP families"));
    }
    let own_prefix = range.prefix.filter(|prefix| *prefix != 0);
    let prefix = own_prefix.or(pool.spec.prefix).unwrap_or_default();
    let bits = first.bits();
    if !(0..=i64::from(bits)).contains(&prefix) {
        problems.push(format!(
            "{path}.prefix: {prefix} is not between 0 and {bits}, the limits for {first}"
        ));
    } else if let Some(length) = range.subnet().map(Subnet::prefix_length)
        && prefix > i64::from(length)
    {
        problems.push(format!(
            "{path}.prefix: {prefix} is longer than the prefix of its subnet, /{length}"
        ));
    }
}

/// The gateway of a range: its own, or else the pool's.
fn gateway_of(range: &Range, pool: &IpPool) -> Option<Addr> {
    range.gateway.as_ref().or(pool.spec.gateway.as_ref())?.parse().ok()
}

/// Refuses entries of one pool that have addresses in common: such an address would be counted
/// twice.
fn check_overlaps_within(problems: &mut Vec<String>, pool: &IpPool) {
    let ranges: Vec<(usize, IpRange)> = pool.ranges().collect();
    for (place, (index, range)) in ranges.iter().enumerate() {
        for (earlier_index, earlier) in ranges.iter().take(place) {
            if range.overlaps(*earlier) {
                problems.push(format!(
                    "spec.pools[{index}]: {range} overlaps spec.pools[{earlier_index}], {earlier}"
                ));
            }
        }
    }
}

/// Checks that each pre-allocated address is one of the pool, that it can be used by a machine, and
/// that no two claims have the same.
fn check_pre_allocations(problems: &mut Vec<String>, pool: &IpPool) {
    let never_leased = pool.unusable_addresses();
    let mut claims = BTreeMap::new();
    for (claim, written) in &pool.spec.pre_allocations {
        let path = format!("spec.preAllocations.{claim}");
        let Ok(address) = written.parse::<Addr>() else {
            problems.push(format!("{path}: `{written}` {NO_ADDRESS}"));
            continue;
        };
        if let Some(earlier_claim) = claims.insert(address, claim) {
            problems.push(format!(
                "{path}: IP address is already pre-allocated to claim \"{earlier_claim}\""
            ));
        }
        if pool.range_index_of(address).is_none() {
            problems.push(format!("{path}: {address} is out of bounds of the pools given"));
        } else if never_leased.contains(&address) {
            problems.push(format!(
                "{path}: {address} is a gateway or a reserved address of its network"
            ));
        }
    }
}

/// Checks the annotations of a pool against their declarations and against the spec: the strategy
/// may be given in both, but not differently.
fn check_annotations(problems: &mut Vec<String>, pool: &IpPool) {
    let in_spec = pool.spec.allocation_strategy.as_deref().unwrap_or_default();
    if let Some(annotated) = pool.metadata.annotation(ALLOCATION)
        && let Some(annotated_strategy) = AllocationStrategy::named(annotated)
        && let Some(spec_strategy) = AllocationStrategy::named(in_spec)
        && annotated_strategy != spec_strategy
    {
        problems.push(format!(
            "annotation {ALLOCATION}: `{annotated}` differs from spec.allocationStrategy \
             `{in_spec}`"
        ));
    }
    for (name, value) in &pool.metadata.annotations {
        problems.extend(annotations::check_value(Kind::IpPool, name, value).err());
    }
    for reservation in pool.parse_reservations() {
        match reservation {
            Ok((range, _)) => problems.extend(find_foreign_family(pool, range)),
            Err(problem) => problems.push(problem),
        }
    }
}

/// Why a range cannot be reserved in a pool that has only addresses of the other family.
fn find_foreign_family(pool: &IpPool, reserved: IpRange) -> Option<String> {
    let family = reserved.start.family();
    let mut families = pool.ranges().map(|(_, range)| range.start.family()).peekable();
    families.peek()?;
    if families.any(|pool_family| pool_family == family) {
        return None;
    }
    let name = family.name();
    Some(format!("reserved range {reserved} is {name}; the pool has no {name} addresses"))
}

/// What is accepted, but probably not what was meant.
pub fn warnings(pool: &IpPool) -> Vec<String> {
    let name = &pool.metadata.name;
    let mut warnings = Vec::new();
    warn_of_dns_servers(&mut warnings, pool);
    for (reserved, _) in pool.reserved_ranges() {
        if !pool.ranges().any(|(_, range)| range.overlaps(reserved)) {
            warnings.push(format!(
                "ippool `{name}`: {reserved} is reserved, and is outside of the ranges of the pool"
            ));
        }
    }
    for (index, range) in pool.spec.pools.iter().enumerate() {
        let Some(subnet) = range.subnet() else {
            warnings.extend(warn_of_crossed_border(pool, index, range));
            continue;
        };
        if let Some(gateway) = gateway_of(range, pool)
            && !subnet.contains(gateway)
        {
            warnings.push(format!(
                "ippool `{name}`: gateway {gateway} is not in the subnet of pools[{index}]"
            ));
        }
        let first = subnet.first_address();
        if range.start.is_none() && subnet.written_address() != first {
            let next = Addr(subnet.written_address().0.saturating_add(1));
            warnings.push(format!(
                "ippool `{name}`: pools[{index}] begins at {next}, after the address in its subnet; \
                 write {first}/{} to begin at the first address",
                subnet.prefix_length()
            ));
        }
    }
    warnings
}

/// A range that names no subnet and is in more than one network of its prefix: the last address of
/// each is a broadcast address, and only those of the first network are known.
fn warn_of_crossed_border(pool: &IpPool, index: usize, range: &Range) -> Option<String> {
    let addresses = range.addresses()?;
    let prefix = range.prefix.filter(|prefix| *prefix > 0).or(pool.spec.prefix);
    let Some(prefix) = prefix else { return warn_of_unknown_network(pool, index, range) };
    let length = u8::try_from(prefix).ok().filter(|length| *length > 0)?;
    let network = Subnet::containing(addresses.start, length)?;
    if range.end.is_none() || network.contains(addresses.end) {
        return None;
    }
    let name = &pool.metadata.name;
    let first = network.first_address();
    Some(format!(
        "ippool `{name}`: pools[{index}], {addresses}, goes beyond its network {first}/{length}; \
         write a range for each network"
    ))
}

/// The length of the prefix that most networks of IPv4 have.
const USUAL_PREFIX: u8 = 24;

/// A range of IPv4 without any prefix that goes beyond the usual network: if there is a border in
/// it, the addresses on both sides of the border are leased.
fn warn_of_unknown_network(pool: &IpPool, index: usize, range: &Range) -> Option<String> {
    let addresses = range.addresses()?;
    if range.end.is_none() || !addresses.start.is_v4() {
        return None;
    }
    let network = Subnet::containing(addresses.start, USUAL_PREFIX)?;
    if network.contains(addresses.end) {
        return None;
    }
    let name = &pool.metadata.name;
    let first = network.first_address();
    Some(format!(
        "ippool `{name}`: pools[{index}], {addresses}, has no prefix and goes beyond \
         {first}/{USUAL_PREFIX}; write its prefix, or a range for each network"
    ))
}

/// DNS servers that could be leased to somebody, and then those that are listed twice.
fn warn_of_dns_servers(warnings: &mut Vec<String>, pool: &IpPool) {
    let name = &pool.metadata.name;
    let lists = pool.spec.pools.iter().map(|range| &range.dns_servers);
    let lists: Vec<&Vec<String>> = lists.chain([&pool.spec.dns_servers]).collect();
    let open_ranges = pool.leasable_ranges();
    for server in lists.iter().copied().flatten().filter_map(|server| server.parse().ok()) {
        if open_ranges.iter().any(|(_, range)| range.contains(server)) {
            warnings.push(format!(
                "ippool `{name}`: DNS server {server} could be leased to a claim; reserve it: poolctl \
                 ip reserve {name} {server}"
            ));
        }
    }
    for servers in lists {
        for (index, server) in servers.iter().enumerate() {
            if servers[..index].contains(server) {
                warnings.push(format!(
                    "ippool `{name}`: DNS server {server} is listed twice; it counts once"
                ));
            }
        }
    }
}

/// Every problem of a claim.
pub fn check_claim(claim: &IpClaim) -> Vec<String> {
    let pool = &claim.spec.pool;
    let mut problems = Vec::new();
    if pool.name.is_empty() {
        problems.push("spec.pool.name: cannot be empty".into());
    }
    if !pool.kind.is_empty() && pool.kind != "IPPool" {
        problems.push(format!("spec.pool.kind: `{}` is not IPPool", pool.kind));
    }
    let wanted = claim.metadata.annotation(REQUESTED_ADDRESS).filter(|address| !address.is_empty());
    check_optional_address(&mut problems, "metadata.annotations.ipAddress", wanted);
    problems.extend(annotations::check(Kind::IpClaim, &claim.metadata.annotations).err());
    problems
}

/// Every problem of a lease.
pub fn check_lease(lease: &IpAddress) -> Vec<String> {
    let spec = &lease.spec;
    let mut problems = Vec::new();
    let required = [
        ("pool.name", &spec.pool.name),
        ("claim.name", &spec.claim.name),
        ("address", &spec.address),
    ];
    for (path, value) in required {
        if value.is_empty() {
            problems.push(format!("spec.{path}: cannot be empty"));
        }
    }
    let address = spec.address.parse::<Addr>();
    if address.is_err() && !spec.address.is_empty() {
        problems.push(format!("spec.address: `{}` {NO_ADDRESS}", spec.address));
    }
    let bits = address.as_ref().map_or(MAX_PREFIX, |address| i64::from(address.bits()));
    if spec.prefix.is_some_and(|prefix| !(0..=bits).contains(&prefix)) {
        problems.push(format!("spec.prefix: must be between 0 and {bits}"));
    }
    check_optional_address(&mut problems, "spec.gateway", spec.gateway.as_deref());
    let gateway = spec.gateway.as_ref().and_then(|gateway| gateway.parse::<Addr>().ok());
    if let (Some(gateway), Ok(address)) = (gateway, &address)
        && gateway.is_v4() != address.is_v4()
    {
        problems.push(format!("spec.gateway: {gateway} and {address} are of mixed IP families"));
    }
    check_dns_servers(&mut problems, "spec", &spec.dns_servers);
    let wanted = lease.metadata.annotation(REQUESTED_ADDRESS).filter(|address| !address.is_empty());
    check_optional_address(&mut problems, "metadata.annotations.ipAddress", wanted);
    problems
}

/// Refuses changes of pools and leases that leave an address with two holders, a lease outside of
/// its pool, or two pools with the same addresses.
pub fn check_invariants(state: &State) -> Result<(), Refusal> {
    check_leases_differ(state)?;
    check_pools_are_shared(state)?;
    for change in state.ip_pools.difference() {
        let Some(pool) = change.after else {
            if let Some(deleted) = change.before {
                check_has_no_leases(state, deleted)?;
            }
            continue;
        };
        if let Some(before) = change.before {
            check_fixed_fields(before, pool)?;
        }
        check_leases_fit(state, pool)?;
        for other_pool in state.ip_pools.rows() {
            check_pools_apart(pool, other_pool)?;
        }
    }
    Ok(())
}

/// Refuses a pool beside another one that could lease the same address to claims of one namespace.
pub fn check_pools_apart(pool: &IpPool, other_pool: &IpPool) -> Result<(), Refusal> {
    if other_pool.metadata.namespace == pool.metadata.namespace {
        check_apart(pool, other_pool)
    } else if pool.serves_with(other_pool) {
        check_apart_where_shared(pool, other_pool)
    } else {
        Ok(())
    }
}

/// A pool that is deleted must not have any leases: its offenders are then all of them.
fn check_has_no_leases(state: &State, deleted: &IpPool) -> Result<(), Refusal> {
    let key = deleted.metadata.key();
    let offenders = state.ip_offenders.get(&key).into_iter().flatten();
    let mut refusal = Refusal::conflict(format!("IPPool `{}` has leases", key.name));
    refusal.causes.extend(offenders.cloned());
    if refusal.causes.is_empty() {
        return Ok(());
    }
    let option = if deleted.is_shared() { " -n NAMESPACE" } else { "" };
    Err(refusal.advise(format!("release them first: poolctl ip release CLAIM{option}")))
}

/// Refuses a change after which leased addresses would lie outside of the ranges, or be of claims of
/// namespaces that do not share the pool. The store has found them, because it alone has all leases.
fn check_leases_fit(state: &State, pool: &IpPool) -> Result<(), Refusal> {
    let offenders = state.ip_offenders.get(&pool.metadata.key()).into_iter().flatten();
    let mut refusal =
        Refusal::conflict(format!("IPPool `{}` does not fit its leases", pool.metadata.name));
    refusal.causes.extend(offenders.cloned());
    if refusal.causes.is_empty() || pool.metadata.has_true_annotation(OUT_OF_RANGE) {
        return Ok(());
    }
    Err(refusal.advise(format!("release them, or annotate the pool with {OUT_OF_RANGE}=true")))
}

/// No address has two holders.
fn check_leases_differ(state: &State) -> Result<(), Refusal> {
    if state.ip_leases.is_unchanged() {
        return Ok(());
    }
    let mut claims = HashMap::new();
    for lease in state.ip_leases.rows() {
        let Some(address) = lease.address else { continue };
        let claim = lease.claim_for_pool();
        let resource = (lease.address_namespace(), address);
        if let Some(earlier_claim) = claims.insert(resource, claim.clone()) {
            let problem =
                format!("{address} would be leased to both `{earlier_claim}` and `{claim}`");
            return Err(Refusal::conflict(problem).next(format!("poolctl ip who {address}")));
        }
    }
    Ok(())
}

/// Refuses addresses that are leased by hand to claims of namespaces that their pool is not shared
/// with. A pool that is no longer shared was refused before, for its leases.
fn check_pools_are_shared(state: &State) -> Result<(), Refusal> {
    for change in state.ip_leases.difference() {
        let Some(lease) = change.after.filter(|lease| lease.address.is_some()) else { continue };
        if lease.pool_namespace.is_none()
            || change.before.is_some_and(|before| before.address == lease.address)
        {
            continue;
        }
        let pool = lease.pool_key();
        let namespace = &lease.namespace;
        if !state.ip_pools.by_key(&pool).is_some_and(|pool| pool.serves(namespace)) {
            let problem = format!(
                "IPClaim `{}`: there is no IPPool `{pool}` that is shared with namespace \
                 `{namespace}`",
                lease.key()
            );
            return Err(Refusal::conflict(problem)
                .advise(format!("annotate the pool with {SHARE_WITH}={namespace}")));
        }
    }
    Ok(())
}

/// Two pools of different namespaces have no address in common that claims of one namespace could
/// have of both: such a namespace would have one address twice.
fn check_apart_where_shared(pool: &IpPool, other_pool: &IpPool) -> Result<(), Refusal> {
    let Some((range, other_range)) = find_overlap(pool, other_pool) else { return Ok(()) };
    let other_key = other_pool.metadata.key();
    let problem = format!(
        "IPPool `{}`: {range} overlaps {other_range} of IPPool `{other_key}`, and one of them is \
         shared with a namespace of the other",
        pool.metadata.key()
    );
    Err(Refusal::conflict(problem).advise(format!(
        "poolctl ippool map {} -n {}, or change annotation {SHARE_WITH}",
        other_key.name, other_key.namespace
    )))
}

/// Refuses changes of fields that leases were made by.
fn check_fixed_fields(before: &IpPool, after: &IpPool) -> Result<(), Refusal> {
    let name = &after.metadata.name;
    // Any address does: if the names of one differ, so do the prefixes.
    if before.address_name(Addr(1)) != after.address_name(Addr(1)) {
        let problem = format!("IPPool `{name}`: spec.namePrefix cannot be modified");
        return Err(Refusal::conflict(problem));
    }
    if before.strategy() != after.strategy() {
        let problem =
            format!("IPPool `{name}`: spec.allocationStrategy cannot be modified after creation");
        return Err(Refusal::conflict(problem));
    }
    Ok(())
}

/// Two pools of a namespace have no address, and no names of leases, in common, unless both allow
/// it.
fn check_apart(pool: &IpPool, other_pool: &IpPool) -> Result<(), Refusal> {
    let name = &pool.metadata.name;
    let other_name = &other_pool.metadata.name;
    let may_overlap = pool.metadata.has_true_annotation(OVERLAP)
        && other_pool.metadata.has_true_annotation(OVERLAP);
    if name == other_name || may_overlap {
        return Ok(());
    }
    let why = if let Some((range, other_range)) = find_overlap(pool, other_pool) {
        format!("{range} overlaps {other_range} of IPPool `{other_name}`")
    } else if let Some(address) = find_kept_address(other_pool, pool) {
        format!("it would lease {address}, which IPPool `{other_name}` sets aside")
    } else if let Some(address) = find_kept_address(pool, other_pool) {
        format!("it sets aside {address}, which IPPool `{other_name}` would lease")
    } else {
        return Ok(());
    };
    let next =
        format!("poolctl ippool map {other_name}, or annotate both pools with {OVERLAP}=true");
    Err(Refusal::conflict(format!("IPPool `{name}`: {why}")).advise(next))
}

/// The first two ranges of two pools that have an address in common.
fn find_overlap(pool: &IpPool, other_pool: &IpPool) -> Option<(IpRange, IpRange)> {
    for (_, range) in pool.ranges() {
        for (_, other_range) in other_pool.ranges() {
            if other_range.overlaps(range) {
                return Some((range, other_range));
            }
        }
    }
    None
}

/// The first address that `keeper` leases to nobody, or to a certain claim only, and that `lessor`
/// may lease to any claim.
fn find_kept_address(keeper: &IpPool, lessor: &IpPool) -> Option<Addr> {
    let ranges: Vec<IpRange> = lessor.ranges().map(|(_, range)| range).collect();
    let pre_allocated = keeper.pre_allocated_addresses().map(|(_, address)| address);
    pre_allocated.chain(keeper.unusable_addresses()).find(|address| {
        // Open ranges are costly to compute: most addresses are in no range at all.
        ranges.iter().any(|range| range.contains(*address))
            && lessor.leasable_ranges().iter().any(|(_, range)| range.contains(*address))
    })
}
