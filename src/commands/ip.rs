//! `ip release|reserve|who`: addresses, one by one.

pub mod claim;
pub mod pool;

use clap::Args;
use serde_json::json;

use crate::edits;
use crate::model::address::{Addr, Stretch};
use crate::model::event_reason::EventReason;
use crate::model::ip_pool::{EXCLUDE, IpPool, RESERVED, Tenant};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::output::{Answer, Entry, Name, Row, clean};
use crate::store::{Filter, Need, Store};

use crate::commands::{Context, Verb, delete};

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
        let found: Result<Vec<Object>, Refusal> = self
            .names
            .iter()
            .map(|name| context.find_object(&store, Kind::IpClaim, name))
            .collect();
        let found = found?;
        for one in &found {
            delete::ask(context, &store, one)?;
        }
        delete::delete(context, &store, &found, given_back)
    }
}

/// What another program holds, or a paused pool, goes later.
fn given_back(state: &State, claim: &Object) -> &'static str {
    let waits = state.ip_leases.find(&claim.key()).is_some();
    if waits { "release asked for" } else { "released" }
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
        context.find_object(&store, Kind::IpPool, &self.pool)?;
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
                // All of them are written in one place.
                notes.remove(EXCLUDE);
                if lines.is_empty() {
                    notes.remove(RESERVED);
                } else {
                    notes.insert(RESERVED.into(), lines.join("\n"));
                }
            });
            let what = if self.remove { "is open again" } else { "is reserved" };
            edits::record_event(
                state,
                tick,
                Kind::IpPool,
                key.clone(),
                EventReason::Reserved,
                &format!("{range} {what}"),
            );
            Ok(())
        };
        let ((), passed) = context.door(&store).change(&Scope::Pools(Vec::new()), &needs, edit)?;
        let done = if self.remove { "opened" } else { "reserved" };
        context.changed(Kind::IpPool, &key, &format!("{range} {done}"))?;
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
        if kept.is_empty() && tenants.is_empty() && !context.wants_documents() {
            let (there, next) = match &place {
                Some(name) => (format!("in namespace `{name}`"), "poolctl get ippool"),
                None => ("in any namespace".to_owned(), "poolctl get ippool -A"),
            };
            let what = format!("nobody has or had {address} {there}");
            return Err(Refusal::not_found(what).next(next).into());
        }
        let row = |namespace: &str, [pool, claim, since, until]: [String; 4]| -> Row {
            let place = place.is_none().then(|| ("namespace", namespace.to_owned()));
            let rest = [("pool", pool), ("claim", claim), ("since", since), ("until", until)];
            place.into_iter().chain([("address", address.to_string())]).chain(rest).collect()
        };
        let mut entries: Vec<Entry> = Vec::new();
        for (pool, claim, why) in kept {
            let name = claim.as_ref().map(|claim| claim_name(&pool.namespace, claim));
            let document = json!({"namespace": pool.namespace, "address": address,
                "pool": pool.name, "claim": claim, "kept": why});
            let who = format!("{} ({why})", claim.unwrap_or_default()).trim_start().to_owned();
            let row = row(&pool.namespace, [pool.name, who, String::new(), String::new()]);
            entries.push(Entry { name, row, document });
        }
        for one in tenants {
            let name = Some(claim_name(&one.namespace, &one.claim));
            let document = json!({"namespace": one.namespace, "address": address,
                "pool": one.pool, "claim": one.claim, "since": one.since, "until": one.until});
            let until = one.until.map_or("now".to_owned(), |time| time.to_string());
            let row = row(&one.namespace, [one.pool, one.claim, one.since.to_string(), until]);
            entries.push(Entry { name, row, document });
        }
        context.answer(Answer::list(entries))
    }
}

fn claim_name(namespace: &str, claim: &str) -> Name {
    Name::of(Kind::IpClaim, &Key::new(namespace, claim))
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
    for pool in store.list::<IpPool>(&filter)? {
        let key = pool.metadata.key();
        if tenants.iter().any(|one| one.until.is_none() && one.namespace == key.namespace) {
            continue;
        }
        for (claim, _) in pool.pre_allocated().filter(|(_, pre)| *pre == address) {
            found.push((key.clone(), Some(claim.to_owned()), "pre-allocated".to_owned()));
        }
        for (_, comment) in pool.reserved().into_iter().filter(|(range, _)| range.has(address)) {
            let why = match comment.as_str() {
                "" => "reserved".to_owned(),
                comment => format!("reserved: {comment}"),
            };
            found.push((key.clone(), None, why));
        }
    }
    Ok(found)
}
