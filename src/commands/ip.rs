//! `ip release|reserve|who`: gives addresses back, keeps ranges of a pool from being leased, and
//! tells who has an address.

pub mod claim;
pub mod export;
pub mod pool;

use clap::Args;
use serde_json::json;

use crate::edits;
use crate::model::address::{Addr, IpRange};
use crate::model::annotations::{EXCLUDE, RESERVED};
use crate::model::event_reason::EventReason;
use crate::model::ip_pool::{IpPool, Tenant};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::output::{Answer, Entry, Name, Row, clean_line};
use crate::store::{Filter, NeededObject, Store};

use crate::commands::{Context, RunCommand, delete};

#[derive(Args)]
pub struct Release {
    /// IPClaims to release
    #[arg(value_name = "IPCLAIM", required = true)]
    names: Vec<String>,
}

impl RunCommand for Release {
    const NAME: &'static str = "release";
    const ABOUT: &'static str = "Release leased addresses";
    const EXAMPLE: &'static str = "poolctl ip release db-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let mut claims = Vec::new();
        for name in &self.names {
            claims.push(context.find_object(&store, Kind::IpClaim, name)?);
        }
        for claim in &claims {
            delete::confirm_deletion(context, &store, claim)?;
        }
        delete::delete_objects(context, &store, &claims, release_result)
    }
}

/// A lease that another program holds, or that is of a paused pool, is released later.
fn release_result(state: &State, claim: &Object) -> &'static str {
    let waits = state.ip_leases.find(&claim.key()).is_some();
    if waits { "release requested" } else { "released" }
}

#[derive(Args)]
pub struct Reserve {
    /// IPPool that contains the range
    #[arg(value_name = "IPPOOL")]
    pool: String,
    /// Range to reserve: FIRST-LAST, ADDRESS or NETWORK/PREFIX
    range: String,
    /// Reason for the reservation
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// Remove the reservation
    #[arg(long, conflicts_with = "comment")]
    remove: bool,
}

impl RunCommand for Reserve {
    const NAME: &'static str = "reserve";
    const ABOUT: &'static str = "Reserve a range of addresses, so that it is not leased";
    const EXAMPLE: &'static str =
        "poolctl ip reserve lan 192.168.100.40-192.168.100.49 --comment 'printers'";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::IpPool, &self.pool)?;
        let range: IpRange = self.range.parse().map_err(Refusal::usage)?;
        let store = context.open_existing_state()?;
        context.find_object(&store, Kind::IpPool, &self.pool)?;
        let needs = [NeededObject { kind: Kind::IpPool, key: key.clone() }];
        let scope = Scope::Pools(Vec::new());
        let ((), passed) = context
            .door(&store)
            .change(&scope, &needs, |state, tick| self.change_range(state, &key, range, tick))?;
        let result = if self.remove { "no longer reserved" } else { "reserved" };
        context.report_change(Kind::IpPool, &key, &format!("{range} {result}"))?;
        Ok(context.report_pass(&passed)?)
    }
}

impl Reserve {
    /// Reserves the range, or with `--remove` opens it again.
    fn change_range(
        &self,
        state: &mut State,
        pool_key: &Key,
        range: IpRange,
        tick: &Tick,
    ) -> Result<(), Refusal> {
        let Some(pool_id) = state.ip_pools.find(pool_key) else { return Ok(()) };
        let Some(pool) = state.ip_pools.get(pool_id) else { return Ok(()) };
        let name = &pool_key.name;
        if !self.remove && !pool.ranges().any(|(_, pool_range)| pool_range.overlaps(range)) {
            let problem = format!("{range} is outside of the ranges of IPPool `{name}`");
            return Err(Refusal::usage(problem).next(format!("poolctl ippool map {name}")));
        }
        let mut reserved = pool.reserved_ranges();
        let count_before = reserved.len();
        reserved.retain(|(reserved_range, _)| *reserved_range != range);
        if self.remove && reserved.len() == count_before {
            return Err(Refusal::not_found(format!("{range} is not reserved in IPPool `{name}`")));
        }
        if !self.remove {
            reserved.push((range, clean_line(&self.comment).replace('\n', " ")));
        }
        let mut lines = Vec::new();
        for (range, comment) in &reserved {
            lines.push(format!("{range} {comment}").trim().to_owned());
        }
        state.ip_pools.update(pool_id, |pool| {
            let annotations = &mut pool.metadata.annotations;
            // The other annotation for the same thing: its ranges are in `reserved` now.
            annotations.remove(EXCLUDE);
            if lines.is_empty() {
                annotations.remove(RESERVED);
            } else {
                annotations.insert(RESERVED.into(), lines.join("\n"));
            }
        });
        let verb = if self.remove { "is no longer reserved" } else { "is reserved" };
        let message = format!("{range} {verb}");
        let reason = EventReason::Reserved;
        edits::record_event(state, tick, Kind::IpPool, pool_key.clone(), reason, &message);
        Ok(())
    }
}

#[derive(Args)]
pub struct Who {
    /// IPv4 or IPv6 address
    address: String,
}

impl RunCommand for Who {
    const NAME: &'static str = "who";
    const ABOUT: &'static str = "Show which claims have or had an address, or why it is reserved";
    const EXAMPLE: &'static str = "poolctl ip who 192.168.100.1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let address: Addr = self.address.parse().map_err(Refusal::usage)?;
        let store = context.open_existing_state()?;
        let namespace = context.namespace_filter()?;
        let tenants = store.list_tenants(namespace.as_deref(), address)?;
        let kept = find_kept(&store, namespace.as_deref(), &tenants, address)?;
        if kept.is_empty() && tenants.is_empty() && !context.wants_documents() {
            let (place, next) = match &namespace {
                Some(name) => (format!("in namespace `{name}`"), "poolctl get ippool"),
                None => ("in any namespace".to_owned(), "poolctl get ippool -A"),
            };
            let problem = format!("no claim has or had {address} {place}");
            return Err(Refusal::not_found(problem).next(next).into());
        }
        let shows_namespaces = namespace.is_none();
        let mut entries: Vec<Entry> = Vec::new();
        for KeptAddress { pool, claim, why } in kept {
            let name = claim.as_ref().map(|claim| claim_name(&pool.namespace, claim));
            let document = json!({"namespace": pool.namespace, "address": address,
                "pool": pool.name, "claim": claim, "kept": why});
            let claim = format!("{} ({why})", claim.unwrap_or_default());
            let mut row = address_row(shows_namespaces, &pool.namespace, address);
            row.extend([
                ("pool", pool.name),
                ("claim", claim.trim_start().to_owned()),
                ("since", String::new()),
                ("until", String::new()),
            ]);
            entries.push(Entry { name, row, document });
        }
        for tenant in tenants {
            let name = Some(claim_name(&tenant.namespace, &tenant.claim));
            let document = json!({"namespace": tenant.namespace, "address": address,
                "pool": tenant.pool, "claim": tenant.claim, "since": tenant.since,
                "until": tenant.until});
            let mut row = address_row(shows_namespaces, &tenant.namespace, address);
            row.extend([
                ("pool", tenant.pool),
                ("claim", tenant.claim),
                ("since", tenant.since.to_string()),
                ("until", tenant.until.map_or("now".to_owned(), |until| until.to_string())),
            ]);
            entries.push(Entry { name, row, document });
        }
        context.answer(Answer::list(entries))
    }
}

/// The first columns of a row: the address, and before it the namespace if there may be several.
fn address_row(shows_namespaces: bool, namespace: &str, address: Addr) -> Row {
    let mut row = Row::new();
    if shows_namespaces {
        row.push(("namespace", namespace.to_owned()));
    }
    row.push(("address", address.to_string()));
    row
}

/// The name of the claim of an address, under which the answer lists it.
fn claim_name(namespace: &str, claim: &str) -> Name {
    Name::of(Kind::IpClaim, &Key::new(namespace, claim))
}

/// An address that no claim has and that is not free for every claim.
struct KeptAddress {
    pool: Key,
    /// The claim that it is kept for, if one is named.
    claim: Option<String>,
    why: String,
}

/// Whether an address is kept, in each pool of the namespace where no tenant has it now.
fn find_kept(
    store: &Store,
    namespace: Option<&str>,
    tenants: &[Tenant],
    address: Addr,
) -> Result<Vec<KeptAddress>, Refusal> {
    let filter = Filter { namespace: namespace.map(str::to_owned), ..Filter::default() };
    let mut kept = Vec::new();
    for pool in store.list::<IpPool>(&filter)? {
        let pool_key = pool.metadata.key();
        let is_leased = tenants
            .iter()
            .any(|tenant| tenant.until.is_none() && tenant.namespace == pool_key.namespace);
        if is_leased {
            continue;
        }
        for (claim, pre_allocated) in pool.pre_allocated_addresses() {
            if pre_allocated == address {
                let why = "pre-allocated".to_owned();
                kept.push(KeptAddress {
                    pool: pool_key.clone(),
                    claim: Some(claim.to_owned()),
                    why,
                });
            }
        }
        for (range, comment) in pool.reserved_ranges() {
            if range.contains(address) {
                let why = match comment.as_str() {
                    "" => "reserved".to_owned(),
                    comment => format!("reserved: {comment}"),
                };
                kept.push(KeptAddress { pool: pool_key.clone(), claim: None, why });
            }
        }
    }
    Ok(kept)
}
