//! `ip who`: tells what an address is: who has or had it, or why nobody does. Also which addresses
//! a claim, a cluster, a host or a machine has. It only reads.

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

use crate::commands::ip::pool::{PoolPart, find_parts_within};
use crate::commands::{Context, RunCommand};

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
            return Err(Refusal::not_found(problem).next(next).into());
        }
        context.answer(Answer::list(entries))
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
    for pool in list_pools(store, namespace.as_deref())? {
        let pool_key = pool.metadata.key();
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
    let row = place.row(context, &describe_holder(lease), [&since.to_string(), "now"])?;
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
        let key = pool.metadata.key();
        for part in find_parts_within(&pool, store, range, context.world.now())? {
            let PoolPart { range, word, claim } = part;
            let name = claim.as_ref().map(|claim| claim_name(&key.namespace, claim));
            let document = json!({"namespace": key.namespace, "start": range.start,
                "end": range.end, "pool": key.name, "claim": claim, "state": word});
            let holder = match &claim {
                Some(claim) if word == "leased" => claim.clone(),
                Some(claim) => format!("{claim} ({word})"),
                None => format!("({word})"),
            };
            let address = range.to_string();
            let place = Place { namespace: &key.namespace, address, pool: &key.name };
            entries.push(Entry { name, row: place.row(context, &holder, ["", ""])?, document });
        }
    }
    Ok(entries)
}

/// The addresses of whatever has this name: a claim, a cluster, a host, a machine.
fn find_leases_of(context: &Context, store: &Store, name: &str) -> Result<Vec<Entry>, Refusal> {
    let namespace = context.namespace_filter()?;
    let mac = name.to_ascii_lowercase().replace('-', ":");
    let mut leases = list_leases_from_shared_pools(store, namespace.as_deref())?;
    for pool in list_pools(store, namespace.as_deref())? {
        leases.extend(store.list_leases_of_pool(&pool)?);
    }
    let mut entries = Vec::new();
    for lease in leases {
        let owners = lease.claim_metadata().owner_references;
        let is_meant = lease.claim == name
            || lease.cluster() == Some(name)
            || lease.agent() == Some(name)
            || lease.dns_names().any(|dns_name| dns_name.eq_ignore_ascii_case(name))
            || lease.mac().is_some_and(|lease_mac| lease_mac == mac)
            || owners.iter().any(|owner| owner.name == name);
        if is_meant {
            entries.push(lease_entry(context, &lease)?);
        }
    }
    Ok(entries)
}
