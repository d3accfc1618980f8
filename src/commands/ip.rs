//! `ip claim|release|reserve|who`: addresses, one by one.

use clap::Args;
use serde_json::json;

use crate::model::address::{Addr, Stretch};
use crate::model::ip_lease::{IpClaim, IpClaimSpec, IpLease, Reference};
use crate::model::ip_pool::{RESERVED, Tenant, WANTED};
use crate::model::kind::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::output::{self, clean};
use crate::reconcile::Door;
use crate::rules;
use crate::store::{Filter, Need, Store};

use super::delete;
use super::put::put;
use super::{Context, Verb, edit};

/// The most that one command claims.
const MOST: u32 = 100_000;

#[derive(Args)]
pub struct Claim {
    /// IPPools, separated by commas: one address of each, all or none
    #[arg(value_name = "IPPOOL[,IPPOOL]")]
    pools: String,
    /// Name of the claim; the actor's name and a number, unless given
    #[arg(value_name = "NEW")]
    name: Option<String>,
    /// This address, and no other
    #[arg(long)]
    address: Option<String>,
    /// So many, as NAME-0, NAME-1 and so on, all or none
    #[arg(long, default_value_t = 1, conflicts_with = "address")]
    count: u32,
}

impl Verb for Claim {
    const NAME: &'static str = "claim";
    const ABOUT: &'static str = "Lease an address of a pool, or none at all";
    const EXAMPLE: &'static str = "poolctl ip claim lan web-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open()?;
        let base = match &self.name {
            Some(name) => name.clone(),
            None => free_name(context, &store)?,
        };
        let claims = self.claims(context, &base)?;
        let needs: Vec<Need> = claims
            .iter()
            .flat_map(|one| {
                let pool = Key::new(&*one.metadata.namespace, &*one.spec.pool.name);
                [
                    Need { kind: Kind::IpClaim, key: one.metadata.key() },
                    Need { kind: Kind::IpPool, key: pool },
                ]
            })
            .collect();
        let keys: Vec<Key> = claims.iter().map(|one| one.metadata.key()).collect();
        // Served at once or refused: nobody waits for an address with a prompt before them.
        let door = Door { pass: true, ..context.door(&store) };
        let edit = |state: &mut State, tick: &Tick| {
            for one in claims {
                let pool = Key::new(&*one.metadata.namespace, &*one.spec.pool.name);
                if state.ip_pools.find(&pool).is_none() {
                    return Err(Refusal::not_found(format!("there is no IPPool `{pool}`"))
                        .next("poolctl get ippool -A"));
                }
                put(state, Object::IpClaim(Box::new(one)), true, tick)?;
            }
            Ok(())
        };
        let leased = |state: &State| leased(state, &keys);
        let (found, passed) = door.change_if(&Scope::Pools(Vec::new()), &needs, edit, leased)?;
        show(context, &found)?;
        Ok(context.finish(&passed)?)
    }
}

/// What every claim has got; the first that has nothing refuses all.
fn leased(state: &State, keys: &[Key]) -> Result<Vec<IpLease>, Refusal> {
    let mut found = Vec::new();
    for key in keys {
        let Some(one) = state.ip_leases.by_key(key) else { continue };
        if one.address.is_none() {
            let why = Some(&one.error).filter(|why| !why.is_empty());
            let why = why.map_or("its pool is paused", String::as_str);
            let what = format!("IPPool `{}` has no address for claim `{}`", one.pool, one.claim);
            let rests = why.contains("can be leased again at");
            let exit = if rests { Exit::Timeout } else { Exit::Exhausted };
            let next = format!("poolctl ippool map {}", one.pool);
            let mut refusal = Refusal::new(exit, what).because(why);
            if keys.len() > 1 {
                let row = |key: &Key| state.ip_leases.by_key(key).and_then(|one| one.address);
                let (many, all) = (keys.iter().filter_map(row).count(), keys.len());
                refusal = refusal.because(format!("{many} of {all} were free; none is leased"));
            }
            return Err(refusal.next(next));
        }
        found.push(one.clone());
    }
    Ok(found)
}

impl Claim {
    fn claims(&self, context: &Context, base: &str) -> Result<Vec<IpClaim>, Refusal> {
        if self.count == 0 || self.count > MOST {
            return Err(Refusal::usage(format!("--count is from 1 to {MOST}")));
        }
        let mut all = Vec::new();
        let pools: Vec<&str> = self.pools.split(',').collect();
        if let Some(twice) = pools.iter().enumerate().find(|(at, one)| pools[..*at].contains(one)) {
            return Err(Refusal::usage(format!("IPPool `{}` is named twice", twice.1)));
        }
        for pool in &pools {
            for number in 0..self.count {
                let mut name = base.to_owned();
                if pools.len() > 1 {
                    name = format!("{name}-{pool}");
                }
                if self.count > 1 {
                    name = format!("{name}-{number}");
                }
                let key = context.key(Kind::IpClaim, &name)?;
                let wanted = self.address.clone().map(|text| (WANTED.to_owned(), text));
                let metadata = Meta {
                    name: key.name,
                    namespace: key.namespace,
                    annotations: wanted.into_iter().collect(),
                    ..Meta::default()
                };
                let pool = Reference { name: (*pool).to_owned(), ..Reference::default() };
                let one = IpClaim {
                    metadata,
                    spec: IpClaimSpec { pool, owner: None },
                    ..IpClaim::default()
                };
                rules::check(&Object::IpClaim(Box::new(one.clone())))?;
                all.push(one);
            }
        }
        Ok(all)
    }
}

/// A name that nobody has: the actor's, and how many changes there were before.
fn free_name(context: &Context, store: &Store) -> Result<String, Refusal> {
    let actor = context.world.actor();
    let letters =
        |one: char| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '-' };
    let base: String = actor.chars().map(letters).take(40).collect();
    let base = base.trim_matches('-');
    let revision = store.mark()?.0;
    Ok(format!("{}-{revision}", if base.is_empty() { "claim" } else { base }))
}

fn show(context: &Context, found: &[IpLease]) -> anyhow::Result<()> {
    let format = &context.globals.output;
    if format.whole() {
        let all = found.iter().map(|one| Object::IpClaim(Box::new(one.to_claim(""))).to_wire());
        return context.print(&output::documents(format, all.collect(), found.len() == 1)?);
    }
    let lines: Vec<String> = found
        .iter()
        .filter_map(|one| {
            let address = one.address?.to_string();
            // One that is asked for alone can be put into a variable.
            Some(if found.len() == 1 { address } else { format!("{} {address}", one.claim) })
        })
        .collect();
    context.print(&output::joined(&lines))
}

#[derive(Args)]
pub struct Release {
    /// Claims of addresses
    #[arg(value_name = "IPCLAIM", required = true)]
    names: Vec<String>,
}

impl Verb for Release {
    const NAME: &'static str = "release";
    const ABOUT: &'static str = "Give addresses back";
    const EXAMPLE: &'static str = "poolctl ip release db-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let found: Result<Vec<Object>, Refusal> =
            self.names.iter().map(|name| context.find(&store, Kind::IpClaim, name)).collect();
        let found = found?;
        for one in &found {
            delete::ask(context, &store, one)?;
        }
        delete::delete(context, &store, &found, "released")
    }
}

#[derive(Args)]
pub struct Reserve {
    /// IPPool
    #[arg(value_name = "IPPOOL")]
    pool: String,
    /// A-B, A or A/LENGTH
    range: String,
    /// What for
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// Open it again
    #[arg(long, conflicts_with = "comment")]
    remove: bool,
}

impl Verb for Reserve {
    const NAME: &'static str = "reserve";
    const ABOUT: &'static str = "Keep a range of a pool from everybody";
    const EXAMPLE: &'static str =
        "poolctl ip reserve lan 192.168.100.40-192.168.100.49 --comment 'printers'";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::IpPool, &self.pool)?;
        let range: Stretch = self.range.parse().map_err(Refusal::usage)?;
        let store = context.look()?;
        context.find(&store, Kind::IpPool, &self.pool)?;
        let needs = [Need { kind: Kind::IpPool, key: key.clone() }];
        let comment = clean(&self.comment).replace('\n', " ");
        let edit = |state: &mut State, tick: &Tick| {
            let Some(at) = state.ip_pools.find(&key) else { return Ok(()) };
            let Some(pool) = state.ip_pools.get(at) else { return Ok(()) };
            if !self.remove && !pool.ranges().any(|(_, one)| one.meets(range)) {
                let what = format!("{range} is in no range of IPPool `{}`", key.name);
                return Err(Refusal::usage(what).next(format!("poolctl ippool map {}", key.name)));
            }
            let mut all = pool.reserved();
            let known = all.len();
            all.retain(|(one, _)| *one != range);
            if self.remove && all.len() == known {
                return Err(Refusal::not_found(format!(
                    "{range} is not reserved in `{}`",
                    key.name
                )));
            }
            if !self.remove {
                all.push((range, comment.clone()));
            }
            let lines: Vec<String> = all
                .iter()
                .map(|(range, comment)| format!("{range} {comment}").trim().to_owned())
                .collect();
            state.ip_pools.update(at, |one| {
                let notes = &mut one.metadata.annotations;
                if lines.is_empty() {
                    notes.remove(RESERVED);
                } else {
                    notes.insert(RESERVED.into(), lines.join("\n"));
                }
            });
            let what = if self.remove { "is open again" } else { "is reserved" };
            edit::say(
                state,
                tick,
                Kind::IpPool,
                key.clone(),
                "Reserved",
                &format!("{range} {what}"),
            );
            Ok(())
        };
        let ((), passed) = context.door(&store).change(&Scope::Pools(Vec::new()), &needs, edit)?;
        let done = if self.remove { "opened" } else { "reserved" };
        context.changed(Kind::IpPool, &key.name, &format!("{range} {done}"))?;
        Ok(context.finish(&passed)?)
    }
}

#[derive(Args)]
pub struct Who {
    /// IP address
    address: String,
}

impl Verb for Who {
    const NAME: &'static str = "who";
    const ABOUT: &'static str = "Say who has an address, who had it, and for whom it is kept";
    const EXAMPLE: &'static str = "poolctl ip who 192.168.100.1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let address: Addr = self.address.parse().map_err(Refusal::usage)?;
        let store = context.look()?;
        let place = context.namespaces()?;
        let tenants = store.tenants(place.as_deref(), address)?;
        let kept = kept(&store, place.as_deref(), &tenants, address)?;
        let format = &context.globals.output;
        if format.whole() {
            let kept = kept.iter().map(|(pool, claim, why)| {
                json!({"namespace": pool.namespace, "address": address, "pool": pool.name,
                       "claim": claim, "kept": why})
            });
            let tenants = tenants.iter().map(|one| {
                json!({"namespace": one.namespace, "address": address, "pool": one.pool,
                       "claim": one.claim, "since": one.since, "until": one.until})
            });
            let all = kept.chain(tenants).collect();
            return context.print(&output::documents(format, all, false)?);
        }
        if kept.is_empty() && tenants.is_empty() {
            let (there, next) = match &place {
                Some(name) => (format!("in namespace `{name}`"), "poolctl get ippool"),
                None => ("in any namespace".to_owned(), "poolctl get ippool -A"),
            };
            let what = format!("nobody has or had {address} {there}");
            return Err(Refusal::not_found(what).next(next).into());
        }
        let row = |namespace: &str, [pool, claim, since, until]: [String; 4]| -> output::Row {
            let place = place.is_none().then(|| ("namespace", namespace.to_owned()));
            let rest = [("pool", pool), ("claim", claim), ("since", since), ("until", until)];
            place.into_iter().chain([("address", address.to_string())]).chain(rest).collect()
        };
        let mut rows: Vec<output::Row> = Vec::new();
        for (pool, claim, why) in kept {
            let who = format!("{} ({why})", claim.unwrap_or_default()).trim_start().to_owned();
            rows.push(row(&pool.namespace, [pool.name, who, String::new(), String::new()]));
        }
        for one in tenants {
            let until = one.until.map_or("now".to_owned(), |time| time.to_string());
            rows.push(row(&one.namespace, [one.pool, one.claim, one.since.to_string(), until]));
        }
        context.print(&output::render(&rows, true))
    }
}

/// Why an address that nobody has is not for everybody: its pool, the claim it waits for, and what
/// it is.
fn kept(
    store: &Store,
    namespace: Option<&str>,
    tenants: &[Tenant],
    address: Addr,
) -> Result<Vec<(Key, Option<String>, String)>, Refusal> {
    let filter = Filter { namespace: namespace.map(str::to_owned), ..Filter::default() };
    let mut found = Vec::new();
    for object in store.objects(Kind::IpPool, &filter)? {
        let Object::IpPool(pool) = object else { continue };
        let key = pool.metadata.key();
        if tenants.iter().any(|one| one.until.is_none() && one.namespace == key.namespace) {
            continue;
        }
        for (claim, _) in pool.pre_allocated().filter(|(_, pre)| *pre == address) {
            found.push((key.clone(), Some(claim.to_owned()), "pre-allocated".to_owned()));
        }
        for (_, comment) in pool.reserved().into_iter().filter(|(range, _)| range.has(address)) {
            let why = format!("reserved: {comment}");
            found.push((key.clone(), None, why.trim_end_matches(": ").to_owned()));
        }
    }
    Ok(found)
}
