//! `ip claim`: leases addresses of pools, all or none. It answers at once: a claim without a free
//! address is refused and not stored.

use clap::Args;
use serde_json::Value;

use crate::edits::{PutMode, put_object};
use crate::model::address::Addr;
use crate::model::ip_lease::{IpClaim, IpClaimSpec, IpLease, Reference};
use crate::model::ip_pool::REQUESTED_ADDRESS;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::output::{Answer, Name};
use crate::reconcile::Door;
use crate::rules;
use crate::store::{NeededObject, Store};

use crate::commands::{Context, RunCommand};

/// The most addresses that one command claims of a pool.
const MAX_COUNT: u32 = 100_000;

#[derive(Args)]
pub struct Claim {
    /// IPPools, separated by commas; one address of each pool is leased, or none
    #[arg(value_name = "IPPOOL[,IPPOOL]")]
    pools: String,
    /// Name of the claim; by default your user name and a number
    #[arg(value_name = "NEW")]
    name: Option<String>,
    /// Lease exactly this address
    #[arg(long)]
    address: Option<String>,
    /// Number of addresses; the claims are NAME-0, NAME-1, ...; all or none
    #[arg(long, default_value_t = 1, conflicts_with = "address")]
    count: u32,
}

impl RunCommand for Claim {
    const NAME: &'static str = "claim";
    const ABOUT: &'static str = "Lease addresses from pools, all or none";
    const EXAMPLE: &'static str = "poolctl ip claim lan web-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_or_create_state()?;
        let base_name = self.name.clone().unwrap_or_else(|| default_claim_name(context));
        let claims = self.make_claims(context, &base_name)?;
        let mut needs = Vec::new();
        for claim in &claims {
            needs.push(NeededObject { kind: Kind::IpClaim, key: claim.metadata.key() });
            needs.push(NeededObject { kind: Kind::IpPool, key: pool_key_of(claim) });
        }
        // The pass runs even with --no-reconcile: people wait for the address.
        let door = Door { plans_changes: true, ..context.door(&store) };
        let (leases, passed) = door.change_if_accepted(
            &Scope::Pools(Vec::new()),
            &needs,
            |state, tick| {
                // Under the lock, so that no other command makes up the same name.
                let claims = match self.name {
                    Some(_) => claims,
                    None => self.make_unused_claims(context, &store, &base_name)?,
                };
                let claim_keys: Vec<Key> =
                    claims.iter().map(|claim| claim.metadata.key()).collect();
                for claim in claims {
                    let pool_key = pool_key_of(&claim);
                    if state.ip_pools.find(&pool_key).is_none() {
                        return Err(Refusal::not_found(format!("there is no IPPool `{pool_key}`"))
                            .advise("poolctl get ippool -A"));
                    }
                    if let Some(lease) = state.ip_leases.by_key(&claim.metadata.key()) {
                        check_existing(lease, &claim)?;
                    }
                    put_object(state, Object::IpClaim(Box::new(claim)), PutMode::Apply, tick)?;
                }
                Ok(claim_keys)
            },
            |state, claim_keys| read_leases(state, &claim_keys),
        )?;
        context.answer(list_leases(context, &leases))?;
        Ok(context.report_pass(&passed)?)
    }
}

fn pool_key_of(claim: &IpClaim) -> Key {
    Key::new(&*claim.metadata.namespace, &*claim.spec.pool.name)
}

/// A lease, and the name of the IPAddress that it is shown as.
struct NamedLease {
    lease: IpLease,
    address_name: String,
}

/// Returns the leases of claims in their order. The first claim that has no address refuses all.
fn read_leases(state: &State, claim_keys: &[Key]) -> Result<Vec<NamedLease>, Refusal> {
    let mut leases = Vec::new();
    for claim_key in claim_keys {
        let Some(lease) = state.ip_leases.by_key(claim_key) else { continue };
        if lease.address.is_none() {
            return Err(refuse_without_address(state, lease, claim_keys));
        }
        let address_name = state.address_name_of(lease);
        leases.push(NamedLease { lease: lease.clone(), address_name });
    }
    Ok(leases)
}

/// Why there is no address for a claim, and how many there were for all of them.
fn refuse_without_address(state: &State, lease: &IpLease, claim_keys: &[Key]) -> Refusal {
    let IpLease { pool, claim, error, .. } = lease;
    let why = if error.is_empty() { "its pool is paused" } else { error.as_str() };
    // An address that rests is free again later, so that trying again helps.
    let is_resting = state.resting_until.contains_key(&lease.pool_key());
    let exit = if is_resting { Exit::Timeout } else { Exit::Exhausted };
    let problem = format!("IPPool `{pool}` has no address for claim `{claim}`");
    let mut refusal = Refusal::new(exit, problem).because(why);
    let total = claim_keys.len();
    if total > 1 {
        let leases = claim_keys.iter().filter_map(|key| state.ip_leases.by_key(key));
        let free = leases.filter(|lease| lease.address.is_some()).count();
        refusal = refusal.because(format!("{free} of {total} were free; none is leased"));
    }
    refusal.next(format!("poolctl ippool map {pool}"))
}

impl Claim {
    /// The claims that are asked for: `count` of each pool.
    fn make_claims(&self, context: &Context, base_name: &str) -> Result<Vec<IpClaim>, Refusal> {
        if self.count == 0 || self.count > MAX_COUNT {
            return Err(Refusal::usage(format!("--count must be from 1 to {MAX_COUNT}")));
        }
        let pools: Vec<&str> = self.pools.split(',').collect();
        for (index, pool) in pools.iter().enumerate() {
            if pools[..index].contains(pool) {
                return Err(Refusal::usage(format!("IPPool `{pool}` is named twice")));
            }
        }
        let mut claims = Vec::new();
        for pool in &pools {
            for number in 0..self.count {
                let mut name = base_name.to_owned();
                if pools.len() > 1 {
                    name = format!("{name}-{pool}");
                }
                if self.count > 1 {
                    name = format!("{name}-{number}");
                }
                claims.push(self.make_claim(context, pool, &name)?);
            }
        }
        Ok(claims)
    }

    fn make_claim(&self, context: &Context, pool: &str, name: &str) -> Result<IpClaim, Refusal> {
        let Key { name, namespace } = context.key(Kind::IpClaim, name)?;
        let mut metadata = Meta { name, namespace, ..Meta::default() };
        if let Some(address) = &self.address {
            metadata.annotations.insert(REQUESTED_ADDRESS.to_owned(), address.clone());
        }
        let pool = Reference { name: pool.to_owned(), ..Reference::default() };
        let spec = IpClaimSpec { pool, owner: None };
        let claim = IpClaim { metadata, spec, ..IpClaim::default() };
        rules::check_object(&Object::IpClaim(Box::new(claim.clone())))?;
        Ok(claim)
    }

    /// Claims whose names are all unused: the base name and a number, at first the revision of the
    /// state.
    fn make_unused_claims(
        &self,
        context: &Context,
        store: &Store,
        base_name: &str,
    ) -> Result<Vec<IpClaim>, Refusal> {
        let mut number = store.read_revision()?;
        loop {
            let claims = self.make_claims(context, &format!("{base_name}-{number}"))?;
            if !is_any_leased(store, &claims)? {
                return Ok(claims);
            }
            number += 1;
        }
    }
}

/// Whether one of these claims has a lease already, with an address or without.
fn is_any_leased(store: &Store, claims: &[IpClaim]) -> Result<bool, Refusal> {
    for claim in claims {
        if store.find_lease_of_claim(&claim.metadata.key())?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The beginning of the name of a claim that was given none: the actor, as far as names allow it.
fn default_claim_name(context: &Context) -> String {
    let mut name = String::new();
    for letter in context.world.actor_name().chars().take(40) {
        name.push(if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' });
    }
    match name.trim_matches('-') {
        "" => "claim".to_owned(),
        name => name.to_owned(),
    }
}

/// Refuses to claim again what exists, unless that changes nothing.
fn check_existing(lease: &IpLease, claim: &IpClaim) -> Result<(), Refusal> {
    let name = &lease.claim;
    if lease.deleting.is_some() {
        let problem = format!("ipclaim `{name}` is being deleted");
        return Err(Refusal::conflict(problem).next(format!("poolctl describe ipclaim {name}")));
    }
    if let Some(cluster) = lease.cluster() {
        let problem = format!("ipclaim `{name}` belongs to cluster `{cluster}`");
        let advice = "poolctl ip claim IPPOOL NAME, with another name";
        return Err(Refusal::conflict(problem).advise(advice));
    }
    let wanted =
        claim.metadata.annotation(REQUESTED_ADDRESS).and_then(|word| word.parse::<Addr>().ok());
    if let (Some(leased), Some(wanted)) = (lease.address, wanted)
        && leased != wanted
    {
        let problem = format!("ipclaim `{name}` already has {leased}, not {wanted}");
        return Err(Refusal::conflict(problem).next(format!("poolctl ip release {name}")));
    }
    Ok(())
}

/// The answer for leases: their IPClaims for programs, a line for each for people.
fn list_leases(context: &Context, leases: &[NamedLease]) -> Answer {
    let names = leases.iter().map(|named| Name::of(Kind::IpClaim, &named.lease.key()));
    let mut answer = Answer::default().with_names(names);
    if context.wants_documents() {
        answer = answer.with_list(leases.iter().map(lease_document));
    } else {
        let lines = leases.iter().map(|named| lease_line(&named.lease, leases.len()));
        answer = answer.with_text(lines.collect::<String>());
    }
    if leases.len() == 1 { answer.single() } else { answer }
}

/// The IPClaim of a lease as a document, whose status also has the address itself, so that scripts
/// need no second look-up.
fn lease_document(named: &NamedLease) -> Value {
    let NamedLease { lease, address_name } = named;
    let mut document = Object::IpClaim(Box::new(lease.to_claim(address_name))).to_wire();
    if let Some(address) = lease.address {
        document["status"]["address"]["address"] = address.to_string().into();
    }
    document
}

/// A line for people; of a single lease it is the bare address, which fits into a variable.
fn lease_line(lease: &IpLease, count: usize) -> String {
    match lease.address {
        None => String::new(),
        Some(address) if count == 1 => format!("{address}\n"),
        Some(address) => format!("{} {address}\n", lease.claim),
    }
}
