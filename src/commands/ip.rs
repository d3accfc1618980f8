//! `ip release|reserve`: gives addresses back, and keeps ranges of a pool from being leased.

pub mod claim;
pub mod export;
pub mod import;
pub mod pool;
pub mod who;

use clap::Args;

use crate::edits;
use crate::model::address::IpRange;
use crate::model::annotations::{EXCLUDE, RESERVED};
use crate::model::event_reason::EventReason;
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::IpPool;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::output::clean_line;
use crate::store::{NeededObject, Store};

use crate::commands::{Audience, Context, RunCommand, delete, target};

/// Arguments of `ip release`. Addresses that one claim has are released together.
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
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let mut claims = Vec::new();
        for name in &self.names {
            claims.push(find_own_claim(context, &store, name)?);
        }
        for claim in &claims {
            delete::confirm_deletion(context, &store, claim)?;
        }
        delete::delete_objects(context, &store, &claims, release_result)
    }
}

/// The claim of a name; for a guest only one that the guest has made. A guest is not told which
/// others there are.
fn find_own_claim(context: &Context, store: &Store, name: &str) -> Result<Object, Refusal> {
    if context.guest().is_none() {
        return context.find_object(store, Kind::IpClaim, name);
    }
    let key = context.key(Kind::IpClaim, &target::without_kind(Kind::IpClaim, name))?;
    let lease = store.find_lease_of_claim(&key)?;
    let absent_lease = IpLease { claim: key.name.clone(), ..IpLease::default() };
    context.check_ip_claim_permission(lease.as_ref().unwrap_or(&absent_lease))?;
    Context::load_object_by_key(store, Kind::IpClaim, &key)
}

/// A lease that another program holds, or that is of a paused pool, is released later.
fn release_result(state: &State, claim: &Object) -> &'static str {
    let waits = state.ip_leases.find(&claim.key()).is_some();
    if waits { "release requested" } else { "released" }
}

/// Arguments of `ip reserve`. Addresses that are leased already are refused.
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
        if self.remove {
            warn_of_wider_ranges(context, &store, &key, range)?;
        } else {
            warn_of_leases(context, &store, &key, range)?;
        }
        Ok(context.report_pass(&passed)?)
    }
}

/// Says which other reserved ranges still keep addresses of a range that was opened again.
fn warn_of_wider_ranges(
    context: &Context,
    store: &Store,
    pool_key: &Key,
    range: IpRange,
) -> Result<(), Refusal> {
    let Some(pool) = store.find::<IpPool>(pool_key)? else { return Ok(()) };
    for (reserved, _) in pool.reserved_ranges() {
        if reserved.overlaps(range) {
            context.warn(&format!("{reserved} is still reserved, with addresses of {range}"));
        }
    }
    Ok(())
}

/// Leases in a reserved range that are named; the others are counted.
const MAX_NAMED_LEASES: usize = 5;

/// Says whose the addresses of a reserved range are: they stay leased until they are released.
fn warn_of_leases(
    context: &Context,
    store: &Store,
    pool_key: &Key,
    range: IpRange,
) -> Result<(), Refusal> {
    let Some(pool) = store.find::<IpPool>(pool_key)? else { return Ok(()) };
    let leases = store.find_leases_in_range(&pool, range, usize::MAX)?;
    for (address, (claim, _)) in leases.iter().take(MAX_NAMED_LEASES) {
        context.warn(&format!("{address} stays leased to claim {claim} until it is released"));
    }
    if leases.len() > MAX_NAMED_LEASES {
        let count = leases.len() - MAX_NAMED_LEASES;
        context.warn(&format!("leased addresses beside these: {count}; poolctl ip who {range}"));
    }
    Ok(())
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
