//! `ip who`: tells what an address is: who has or had it, or why nobody does. Also which addresses
//! a claim, a cluster, a host or a machine has. It only reads.

use std::collections::HashSet;

use clap::Args;
use serde_json::{Value, json};

use crate::model::address::{Addr, IpRange};
use crate::model::hardware::check_mac_address;
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{IpPool, Tenant};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::output::{Answer, Entry, Name, Row};
use crate::store::{Filter, Store};

use crate::commands::ip::export::list_leases;
use crate::commands::ip::pool::{PoolPart, find_parts_within};
use crate::commands::{Context, RunCommand};

/// Arguments of `ip who`, which reads leases and their history.
#[derive(Args)]
pub struct Who {
    /// Address, range, network, or the name of a claim, cluster, host or machine
    #[arg(value_name = "ADDRESS|NAME")]
    target: String,
}

/// What is asked about.
enum Question {
    Address(Addr),
    Range(IpRange),
    /// A name of a claim, a cluster, a host or a machine in DNS, or a MAC.
    Name(String),
}

impl RunCommand for Who {
    const NAME: &'static str = "who";
    const ABOUT: &'static str = "Show who has or had an address, or what a claim or cluster has";
    const EXAMPLE: &'static str = "poolctl ip who 192.168.100.1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let question = parse_question(&self.target)?;
        let store = context.open_existing_state()?;
        let namespace = context.namespace_filter()?;
        let entries = store.read_snapshot(|| match question {
            Question::Address(address) => explain_address(context, &store, address),
            Question::Range(range) => explain_range(context, &store, range),
            Question::Name(name) => find_leases_of(context, &store, &name),
        })?;
        if entries.is_empty() && !context.wants_documents() {
            let (place, next) = match &namespace {
                Some(name) => (format!("in namespace `{name}`"), "poolctl get ippool"),
                None => ("in any namespace".to_owned(), "poolctl get ippool -A"),
            };
            let problem = match self.target.parse::<Addr>() {
                Ok(address) => format!("no claim has or had {address} {place}"),
                Err(_) => format!("no address belongs to `{}` {place}", self.target),
            };
            let refusal = Refusal::not_found(problem);
            if self.is_name_of_pool(context, &store)? {
                let problem = format!("`{}` is an IPPool", self.target);
                let next = format!("poolctl ippool map {}", self.target);
                return Err(refusal.because(problem).next(next).into());
            }
            return Err(refusal.next(next).into());
        }
        context.answer(Answer::list(entries))
    }
}

impl Who {
    /// Whether a pool of the namespace has the name that was asked about.
    fn is_name_of_pool(&self, context: &Context, store: &Store) -> Result<bool, Refusal> {
        let key = Key::new(context.namespace()?, &*self.target);
        Ok(store.find::<IpPool>(&key)?.is_some())
    }
}

/// What is meant by the argument. What looks like an address must be one.
fn parse_question(target: &str) -> Result<Question, Refusal> {
    if let Ok(address) = target.parse() {
        return Ok(Question::Address(address));
    }
    if let Ok(range) = target.parse() {
        return Ok(Question::Range(range));
    }
    let is_mac = check_mac_address(&target.replace('-', ":")).is_ok();
    let has_letters_of_names = target.bytes().any(|byte| byte.is_ascii_alphabetic());
    if is_mac || (has_letters_of_names && !target.contains(['/', ':'])) {
        return Ok(Question::Name(target.to_owned()));
    }
    if target.contains(['/', '-']) {
        return Err(Refusal::usage(target.parse::<IpRange>().err().unwrap_or_default()));
    }
    Err(Refusal::usage(target.parse::<Addr>().err().unwrap_or_default()))
}

/// The claims that have or had an address, and before them what it is in the pools where no claim
/// has it.
fn explain_address(context: &Context, store: &Store, address: Addr) -> Result<Vec<Entry>, Refusal> {
    let namespace = context.namespace_filter()?;
    let tenants = store.list_tenants(namespace.as_deref(), address)?;
    let mut entries = Vec::new();
    for lease in list_leases_from_shared_pools(store, namespace.as_deref())? {
        if lease.address == Some(address) {
            entries.push(lease_entry(context, &lease)?);
        }
    }
    for pool in list_pools_serving(store, namespace.as_deref())? {
        let pool_key = pool.metadata.key();
        if namespace.as_ref().is_some_and(|namespace| *namespace != pool_key.namespace)
            && let Some(lease) = store.find_lease_of_address(&pool_key.namespace, address)?
        {
            // A lease of this namespace from a shared pool is among the entries already.
            if lease.pool == pool_key.name && Some(&lease.namespace) != namespace.as_ref() {
                entries.push(lease_entry(context, &lease)?);
            }
            continue;
        }
        let is_leased = tenants
            .iter()
            .any(|tenant| tenant.until.is_none() && tenant.namespace == pool_key.namespace);
        if !is_leased {
            for standing in find_standings(context, store, &pool, address)? {
                entries.push(standing_entry(context, &pool_key, address, standing)?);
            }
        }
    }
    for tenant in tenants {
        entries.push(tenant_entry(context, store, &tenant)?);
    }
    Ok(entries)
}

/// The leases of a namespace from pools that other namespaces share with it. Without a namespace all
/// pools are looked at, and these are among their leases.
fn list_leases_from_shared_pools(
    store: &Store,
    namespace: Option<&str>,
) -> Result<Vec<IpLease>, Refusal> {
    match namespace {
        Some(namespace) => store.list_leases_from_shared_pools(namespace),
        None => Ok(Vec::new()),
    }
}

fn list_pools(store: &Store, namespace: Option<&str>) -> Result<Vec<IpPool>, Refusal> {
    let filter = Filter { namespace: namespace.map(str::to_owned), ..Filter::default() };
    store.list::<IpPool>(&filter)
}

/// The pools whose addresses the claims of a namespace may get; without a namespace all pools.
fn list_pools_serving(store: &Store, namespace: Option<&str>) -> Result<Vec<IpPool>, Refusal> {
    match namespace {
        Some(namespace) => store.list_pools_serving(namespace),
        None => list_pools(store, None),
    }
}

/// What an address is in a pool, while no claim has it.
struct Standing {
    /// The claim that it is kept for, if one is named.
    claim: Option<String>,
    why: String,
    /// Whether it is kept from claims by the pool's owner.
    is_kept: bool,
}

/// All that is to be said of an address that no claim has. Nothing if the pool knows nothing of it.
fn find_standings(
    context: &Context,
    store: &Store,
    pool: &IpPool,
    address: Addr,
) -> Result<Vec<Standing>, Refusal> {
    let mut standings = Vec::new();
    for (claim, pre_allocated) in pool.pre_allocated_addresses() {
        if pre_allocated == address {
            let why = "pre-allocated".to_owned();
            standings.push(Standing { claim: Some(claim.to_owned()), why, is_kept: true });
        }
    }
    for (range, comment) in pool.reserved_ranges() {
        if range.contains(address) {
            let why = match comment.as_str() {
                "" => "reserved".to_owned(),
                comment => format!("reserved: {comment}"),
            };
            standings.push(Standing { claim: None, why, is_kept: true });
        }
    }
    if standings.is_empty()
        && let Some(why) = describe_open_address(context, store, pool, address)?
    {
        standings.push(Standing { claim: None, why, is_kept: false });
    }
    Ok(standings)
}

/// What an address is that nobody keeps: `gateway`, `resting until ...`, `free`. None if the pool
/// has neither the address nor its network.
fn describe_open_address(
    context: &Context,
    store: &Store,
    pool: &IpPool,
    address: Addr,
) -> Result<Option<String>, Refusal> {
    if let Some(reason) = pool.unusable_reason(address) {
        return Ok(Some(reason.to_owned()));
    }
    if pool.range_index_of(address).is_none() {
        return Ok(None);
    }
    if !pool.ranges().any(|(_, range)| range.contains(address)) {
        return Ok(Some("outside of the ranges".to_owned()));
    }
    let delay = pool.reuse_delay();
    let rests_until = store.find_release(pool, address)?.map(|released| released.plus(delay));
    Ok(Some(match rests_until {
        Some(until) if until > context.world.now() => format!("resting until {until}"),
        _ => "free".to_owned(),
    }))
}

fn standing_entry(
    context: &Context,
    pool: &Key,
    address: Addr,
    standing: Standing,
) -> Result<Entry, Refusal> {
    let Standing { claim, why, is_kept } = standing;
    let name = claim.as_ref().map(|claim| claim_name(&pool.namespace, claim));
    let mut document = json!({"namespace": pool.namespace, "address": address,
        "pool": pool.name, "claim": claim, "state": why});
    if is_kept {
        document["kept"] = why.as_str().into();
    }
    let holder = format!("{} ({why})", claim.unwrap_or_default());
    let place =
        Place { namespace: &pool.namespace, address: address.to_string(), pool: &pool.name };
    let row = place.row(context, holder.trim_start(), ["", ""])?;
    Ok(Entry { name, row, document })
}

/// A claim that has an address, with the cluster that it goes with; or one that had it.
fn tenant_entry(context: &Context, store: &Store, tenant: &Tenant) -> Result<Entry, Refusal> {
    let lease = match tenant.until {
        None => store.find_lease_of_address(&tenant.namespace, tenant.address)?,
        Some(_) => None,
    };
    if let Some(lease) = &lease {
        return lease_entry(context, lease);
    }
    let name = Some(claim_name(&tenant.namespace, &tenant.claim));
    let document = json!({"namespace": tenant.namespace, "address": tenant.address,
        "pool": tenant.pool, "claim": tenant.claim, "state": "past", "since": tenant.since,
        "until": tenant.until});
    let until = tenant.until.map_or("now".to_owned(), |until| until.to_string());
    let address = tenant.address.to_string();
    let place = Place { namespace: &tenant.namespace, address, pool: &tenant.pool };
    let row = place.row(context, &tenant.claim, [&tenant.since.to_string(), &until])?;
    Ok(Entry { name, row, document })
}

/// A claim that has an address.
fn lease_entry(context: &Context, lease: &IpLease) -> Result<Entry, Refusal> {
    let since = lease.leased.unwrap_or(lease.created);
    let mut document = json!({"namespace": lease.namespace, "address": lease.address,
        "pool": lease.pool, "claim": lease.claim, "state": "leased", "since": since,
        "until": Value::Null});
    for (field, value) in [
        ("poolNamespace", lease.pool_namespace.clone()),
        ("cluster", lease.cluster().map(str::to_owned)),
        ("host", lease.agent().map(str::to_owned)),
        ("mac", lease.mac()),
        ("comment", Some(lease.comment().to_owned()).filter(|comment| !comment.is_empty())),
        ("expires", lease.expires_at().map(|end| end.to_string())),
    ] {
        if let Some(value) = value {
            document[field] = value.into();
        }
    }
    let address = lease.address.map(|address| address.to_string()).unwrap_or_default();
    let place = Place { namespace: lease.address_namespace(), address, pool: &lease.pool };
    let until = lease.expires_at().map_or("now".to_owned(), |end| end.to_string());
    let row = place.row(context, &describe_holder(lease), [&since.to_string(), &until])?;
    Ok(Entry { name: Some(claim_name(&lease.namespace, &lease.claim)), row, document })
}

/// The claim, and in brackets for whom it is: `lab-x7-node-2 (host node-2 of cluster lab-x7)`.
pub fn describe_holder(lease: &IpLease) -> String {
    let claim = lease.claim_for_pool();
    let purpose = match (lease.cluster(), lease.agent()) {
        (Some(cluster), Some(host)) => format!("host {host} of cluster {cluster}"),
        (Some(cluster), None) => format!("cluster {cluster}"),
        (None, _) => lease.comment().to_owned(),
    };
    if purpose.is_empty() { claim.into_owned() } else { format!("{claim} ({purpose})") }
}

/// The name of the claim of an address, under which the answer lists it.
fn claim_name(namespace: &str, claim: &str) -> Name {
    Name::of(Kind::IpClaim, &Key::new(namespace, claim))
}

/// The first columns of a row.
struct Place<'a> {
    namespace: &'a str,
    address: String,
    pool: &'a str,
}

impl Place<'_> {
    /// A row that begins with the namespace if there may be several. `times` are since when and
    /// until when the claim has the address.
    fn row(self, context: &Context, holder: &str, times: [&str; 2]) -> Result<Row, Refusal> {
        let mut row = Row::new();
        if context.namespace_filter()?.is_none() {
            row.push(("namespace", self.namespace.to_owned()));
        }
        row.push(("address", self.address));
        row.push(("pool", self.pool.to_owned()));
        row.push(("claim", holder.to_owned()));
        row.push(("since", times[0].to_owned()));
        row.push(("until", times[1].to_owned()));
        Ok(row)
    }
}

/// What the addresses of a range are, in every pool that has some of them: a row for each lease and
/// for each stretch of the same kind.
fn explain_range(context: &Context, store: &Store, range: IpRange) -> Result<Vec<Entry>, Refusal> {
    let namespace = context.namespace_filter()?;
    let mut entries = Vec::new();
    for lease in list_leases_from_shared_pools(store, namespace.as_deref())? {
        if lease.address.is_some_and(|address| range.contains(address)) {
            entries.push(lease_entry(context, &lease)?);
        }
    }
    for pool in list_pools(store, namespace.as_deref())? {
        let mut entries_of_pool = list_outside_addresses(context, &pool, range)?;
        for part in find_parts_within(&pool, store, range, context.world.now())? {
            entries_of_pool.push((part.range.start, part_entry(context, store, &pool, &part)?));
        }
        entries_of_pool.sort_by_key(|(first_address, _)| *first_address);
        entries.extend(entries_of_pool.into_iter().map(|(_, entry)| entry));
    }
    Ok(entries)
}

/// The addresses of a range that are in no range of the pool, and that no machine may have because
/// of it: its networks' own, and gateways.
fn list_outside_addresses(
    context: &Context,
    pool: &IpPool,
    within: IpRange,
) -> Result<Vec<(Addr, Entry)>, Refusal> {
    let key = pool.metadata.key();
    let mut addresses = pool.unusable_addresses();
    addresses.sort_unstable();
    addresses.dedup();
    let mut entries = Vec::new();
    for address in addresses {
        let is_in_pool = pool.ranges().any(|(_, range)| range.contains(address));
        if within.contains(address)
            && !is_in_pool
            && let Some(reason) = pool.unusable_reason(address)
        {
            let part = PoolPart::unleased(IpRange::single(address), reason);
            entries.push((address, stretch_entry(context, &key, &part, reason)?));
        }
    }
    Ok(entries)
}

/// A lease, or a stretch of addresses of the same kind that no claim has.
fn part_entry(
    context: &Context,
    store: &Store,
    pool: &IpPool,
    part: &PoolPart,
) -> Result<Entry, Refusal> {
    let key = pool.metadata.key();
    let address = part.range.start;
    if part.is_leased
        && let Some(lease) = store.find_lease_of_address(&key.namespace, address)?
    {
        return lease_entry(context, &lease);
    }
    let mut why = part.word.to_owned();
    let is_single = part.range == IpRange::single(address);
    if part.claim.is_none() && !part.is_reserved && is_single {
        why = describe_open_address(context, store, pool, address)?.unwrap_or(why);
    }
    let mut reserved_ranges = pool.reserved_ranges().into_iter();
    if let Some((_, comment)) = reserved_ranges.find(|(range, _)| range.contains(address))
        && part.is_reserved
        && !comment.is_empty()
    {
        why = format!("{}: {comment}", part.word);
    }
    stretch_entry(context, &key, part, &why)
}

/// A row for addresses that no claim has, with what they are.
fn stretch_entry(
    context: &Context,
    pool: &Key,
    part: &PoolPart,
    why: &str,
) -> Result<Entry, Refusal> {
    let PoolPart { range, word, claim, .. } = part;
    let name = claim.as_ref().map(|claim| claim_name(&pool.namespace, claim));
    let document = json!({"namespace": pool.namespace, "start": range.start,
        "end": range.end, "pool": pool.name, "claim": claim, "state": word, "why": why});
    let holder = match claim {
        Some(claim) => format!("{claim} ({why})"),
        None => format!("({why})"),
    };
    let address = range.to_string();
    let place = Place { namespace: &pool.namespace, address, pool: &pool.name };
    Ok(Entry { name, row: place.row(context, &holder, ["", ""])?, document })
}

/// The addresses of whatever has this name: a claim, a cluster, a host, a machine.
fn find_leases_of(context: &Context, store: &Store, name: &str) -> Result<Vec<Entry>, Refusal> {
    let namespace = context.namespace_filter()?;
    let mac = name.to_ascii_lowercase().replace('-', ":");
    let mut leases = list_leases_from_shared_pools(store, namespace.as_deref())?;
    for pool in list_pools(store, namespace.as_deref())? {
        leases.extend(store.list_leases_of_pool(&pool)?);
    }
    let keys_of_dns_name = find_claims_of_dns_name(store, &leases, name)?;
    let mut entries = Vec::new();
    for lease in &leases {
        let owners = lease.claim_metadata().owner_references;
        let is_meant = lease.claim == name
            || lease.cluster() == Some(name)
            || lease.agent() == Some(name)
            || keys_of_dns_name.contains(&lease.key())
            || lease.mac().is_some_and(|lease_mac| lease_mac == mac)
            || owners.iter().any(|owner| owner.name == name);
        if is_meant {
            entries.push(lease_entry(context, lease)?);
        }
    }
    for pool in list_pools_serving(store, namespace.as_deref())? {
        let pool_key = pool.metadata.key();
        // Another namespace's pool knows a claim with its namespace.
        let claim = match &namespace {
            Some(namespace) if *namespace != pool_key.namespace => format!("{namespace}/{name}"),
            _ => name.to_owned(),
        };
        let is_leased = leases
            .iter()
            .any(|lease| lease.pool_key() == pool_key && *lease.name_in_pool() == *claim);
        if let Some(address) = pool.pre_allocated_address_of(&claim)
            && !is_leased
        {
            let why = "pre-allocated".to_owned();
            let standing = Standing { claim: Some(claim), why, is_kept: true };
            entries.push(standing_entry(context, &pool_key, address, standing)?);
        }
    }
    Ok(entries)
}

/// The claims whose addresses have a name in DNS, as `ip export` lists it. A name below a wildcard
/// is one of its names.
fn find_claims_of_dns_name(
    store: &Store,
    leases: &[IpLease],
    name: &str,
) -> Result<HashSet<Key>, Refusal> {
    let wanted_name = name.to_ascii_lowercase();
    let mut claim_keys = HashSet::new();
    for lease in leases {
        if lease.dns_names().any(|dns_name| dns_name.eq_ignore_ascii_case(name)) {
            claim_keys.insert(lease.key());
        }
    }
    // The names of a cluster are in its domain, and its files are read for them.
    if !name.contains('.') {
        return Ok(claim_keys);
    }
    let of_clusters: Vec<IpLease> =
        leases.iter().filter(|lease| lease.cluster().is_some()).cloned().collect();
    for listed in list_leases(store, &of_clusters)? {
        if listed.names.iter().any(|listed_name| covers_name(listed_name, &wanted_name)) {
            claim_keys.insert(Key::new(listed.namespace, listed.claim));
        }
    }
    Ok(claim_keys)
}

/// Whether a listed name, which may begin with a wildcard, is or covers another one.
fn covers_name(listed_name: &str, name: &str) -> bool {
    listed_name.eq_ignore_ascii_case(name)
        || listed_name
            .strip_prefix('*')
            .is_some_and(|suffix| name.ends_with(&suffix.to_ascii_lowercase()))
}
