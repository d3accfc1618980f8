//! `ip claim`: addresses, all or none.

use clap::Args;
use serde_json::Value;

use crate::edits::put;
use crate::model::address::Addr;
use crate::model::ip_lease::{IpClaim, IpClaimSpec, IpLease, Reference};
use crate::model::ip_pool::WANTED;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::output::{Answer, Name};
use crate::reconcile::Door;
use crate::rules;
use crate::store::{Need, Store};

use crate::commands::{Context, Verb};

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
        let base = self.name.clone().unwrap_or_else(|| actor(context));
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
        // Served at once or refused: nobody waits for an address with a prompt before them.
        let door = Door { pass: true, ..context.door(&store) };
        let edit = |state: &mut State, tick: &Tick| {
            // Under the lock: nobody else makes up the same name.
            let claims = match self.name {
                Some(_) => claims,
                None => self.unheard(context, &store, &base)?,
            };
            let keys: Vec<Key> = claims.iter().map(|one| one.metadata.key()).collect();
            for one in claims {
                let pool = Key::new(&*one.metadata.namespace, &*one.spec.pool.name);
                if state.ip_pools.find(&pool).is_none() {
                    return Err(Refusal::not_found(format!("there is no IPPool `{pool}`"))
                        .advise("poolctl get ippool -A"));
                }
                if let Some(known) = state.ip_leases.by_key(&one.metadata.key()) {
                    fits(known, &one)?;
                }
                put(state, Object::IpClaim(Box::new(one)), true, tick)?;
            }
            Ok(keys)
        };
        let leased = |state: &State, keys: Vec<Key>| leased(state, &keys);
        let (found, passed) = door.change_if(&Scope::Pools(Vec::new()), &needs, edit, leased)?;
        context.answer(answer(context, &found))?;
        Ok(context.finish(&passed)?)
    }
}

/// What every claim has got; the first that has nothing refuses all.
fn leased(state: &State, keys: &[Key]) -> Result<Vec<(IpLease, String)>, Refusal> {
    let mut found = Vec::new();
    for key in keys {
        let Some(one) = state.ip_leases.by_key(key) else { continue };
        if one.address.is_none() {
            let why = Some(&one.error).filter(|why| !why.is_empty());
            let why = why.map_or("its pool is paused", String::as_str);
            let what = format!("IPPool `{}` has no address for claim `{}`", one.pool, one.claim);
            let is_resting = state.resting.contains_key(&one.pool_key());
            let exit = if is_resting { Exit::Timeout } else { Exit::Exhausted };
            let next = format!("poolctl ippool map {}", one.pool);
            let mut refusal = Refusal::new(exit, what).because(why);
            if keys.len() > 1 {
                let row = |key: &Key| state.ip_leases.by_key(key).and_then(|one| one.address);
                let (many, all) = (keys.iter().filter_map(row).count(), keys.len());
                refusal = refusal.because(format!("{many} of {all} were free; none is leased"));
            }
            return Err(refusal.next(next));
        }
        found.push((one.clone(), state.name_of(one)));
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

    /// Claims of names that nobody has: the actor's, and how many changes there were before.
    fn unheard(
        &self,
        context: &Context,
        store: &Store,
        base: &str,
    ) -> Result<Vec<IpClaim>, Refusal> {
        let mut number = store.mark()?.0;
        loop {
            let claims = self.claims(context, &format!("{base}-{number}"))?;
            let mut known = false;
            for one in &claims {
                known = known || store.lease_of(&one.metadata.key())?.is_some();
            }
            if !known {
                return Ok(claims);
            }
            number += 1;
        }
    }
}

/// What claims are called after that were given no name.
fn actor(context: &Context) -> String {
    let actor = context.world.actor();
    let letters =
        |one: char| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '-' };
    let base: String = actor.chars().map(letters).take(40).collect();
    let base = base.trim_matches('-');
    String::from(if base.is_empty() { "claim" } else { base })
}

/// A claim that is there already stays as it is, or nothing happens.
fn fits(known: &IpLease, new: &IpClaim) -> Result<(), Refusal> {
    let name = &known.claim;
    if known.deleting.is_some() {
        let what = format!("ipclaim `{name}` is being deleted");
        return Err(Refusal::conflict(what).next(format!("poolctl describe ipclaim {name}")));
    }
    if let Some(cluster) = known.cluster() {
        let what = format!("ipclaim `{name}` is of cluster `{cluster}`");
        return Err(
            Refusal::conflict(what).advise("poolctl ip claim IPPOOL NAME, with another name")
        );
    }
    let wanted = new.metadata.annotation(WANTED).and_then(|text| text.parse::<Addr>().ok());
    match known.address.zip(wanted) {
        Some((has, wanted)) if has != wanted => {
            let what = format!("ipclaim `{name}` has {has} already, not {wanted}");
            Err(Refusal::conflict(what).next(format!("poolctl ip release {name}")))
        }
        _ => Ok(()),
    }
}

/// Leases, with what their IPAddresses are called.
fn answer(context: &Context, leases: &[(IpLease, String)]) -> Answer {
    let names = leases.iter().map(|(lease, _)| Name::of(Kind::IpClaim, &lease.key()));
    let mut answer = Answer::default().with_names(names);
    if context.wants_documents() {
        answer = answer.with_list(leases.iter().map(|(lease, name)| document(lease, name)));
    } else {
        answer = answer.with_text(
            leases.iter().map(|(lease, _)| line(lease, leases.len())).collect::<String>(),
        );
    }
    if leases.len() == 1 { answer.single() } else { answer }
}

fn document(lease: &IpLease, name: &str) -> Value {
    let mut document = Object::IpClaim(Box::new(lease.to_claim(name))).to_wire();
    if let Some(address) = lease.address {
        document["status"]["address"]["address"] = address.to_string().into();
    }
    document
}

fn line(lease: &IpLease, count: usize) -> String {
    match lease.address {
        None => String::new(),
        // One that is asked for alone can be put into a variable.
        Some(address) if count == 1 => format!("{address}\n"),
        Some(address) => format!("{} {address}\n", lease.claim),
    }
}
