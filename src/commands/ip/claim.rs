//! `ip claim`: leases addresses of pools, all or none. It answers at once: a claim without a free
//! address is refused and not stored, unless somebody waits for it.

pub mod wanted;

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;

use crate::edits::{PutMode, put_object};
use crate::model::address::Addr;
use crate::model::annotations::{COMMENT, DNS_NAME, MAC, OWNER, UNTIL};
use crate::model::ip_lease::{IpClaim, IpClaimSpec, IpLease, Reference, address_name};
use crate::model::ip_pool::{IpPool, REQUESTED_ADDRESS};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::output::{Answer, Name};
use crate::plan;
use crate::reconcile::{Door, PassOutcome};
use crate::rules;
use crate::store::{Filter, NeededObject, Store};

use crate::commands::claim::extend::parse_end;
use crate::commands::waiting::{Observation, WaitOutcome, WaitProgress, Waiting};
use crate::commands::{Audience, Context, RunCommand, count_of, delete};

use self::wanted::{
    WantedAddress, find_holder, find_pool_of_lease, find_wanted_addresses, name_holders,
};

/// The most addresses that one command claims of a pool.
const MAX_COUNT: u32 = 100_000;

/// Arguments of `ip claim`. All addresses are leased in one transaction, or none is.
#[derive(Args)]
pub struct Claim {
    /// IPPools, separated by commas; one address of each pool is leased, or none. NAMESPACE/IPPOOL
    /// is a pool that another namespace shares
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
    #[command(flatten)]
    purpose: Purpose,
    /// Wait until there are addresses, at most this long (45m without a value); if the time ends
    /// or you interrupt the command, nothing is claimed
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true,
          default_missing_value = "45m")]
    wait: Option<Span>,
    /// Keep the claims waiting if the wait ends without addresses
    #[arg(long, requires = "wait")]
    keep: bool,
}

impl RunCommand for Claim {
    const NAME: &'static str = "claim";
    const ABOUT: &'static str = "Lease addresses from pools, all or none";
    const EXAMPLE: &'static str = "poolctl ip claim lan web-1";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_or_create_state()?;
        let base_name = self.name.clone().unwrap_or_else(|| default_claim_name(context));
        let claims = self.make_claims(context, &base_name)?;
        if self.wait.is_some() {
            context.world.catch_signals();
        }
        let refusal = match self.claim_at_once(context, &store, &base_name, claims.clone()) {
            Ok((leases, passed)) => {
                context.answer(list_leases(context, &leases))?;
                return Ok(context.report_pass(&passed)?);
            }
            Err(refusal) => refusal,
        };
        match self.wait {
            Some(limit) if refusal.exit == Exit::Exhausted => {
                let wanted_addresses = find_wanted_addresses(&store, &claims)?;
                if wanted_addresses.iter().any(WantedAddress::is_never_leased) {
                    return Err(refusal.into());
                }
                match self.claim_and_wait(context, &store, &base_name, claims, limit) {
                    Ok(leases) => context.answer(list_leases(context, &leases)),
                    Err(late) if context.guest().is_some() => Err(late.into()),
                    Err(late) => Err(name_holders(&store, &wanted_addresses, late)?.into()),
                }
            }
            _ => Err(refusal.into()),
        }
    }
}

impl Claim {
    /// Leases all addresses now, or none.
    fn claim_at_once(
        &self,
        context: &Context,
        store: &Store,
        base_name: &str,
        claims: Vec<IpClaim>,
    ) -> Result<(Vec<NamedLease>, PassOutcome), Refusal> {
        let needs = needed_objects(&claims);
        // The pass runs even with --no-reconcile: people wait for the address.
        let door = Door { plans_changes: true, ..context.door(store) };
        door.change_if_accepted(
            &Scope::Pools(Vec::new()),
            &needs,
            |state, tick| self.put_claims(context, store, base_name, claims, state, tick),
            |state, claim_keys| read_leases(context, store, state, &claim_keys),
        )
    }

    /// Stores claims that wait for their addresses.
    fn store_claims(
        &self,
        context: &Context,
        store: &Store,
        base_name: &str,
        claims: Vec<IpClaim>,
    ) -> Result<Vec<Key>, Refusal> {
        let needs = needed_objects(&claims);
        let scope = Scope::Pools(Vec::new());
        let stored = context.door(store).change(&scope, &needs, |state, tick| {
            self.put_claims(context, store, base_name, claims, state, tick)
        })?;
        Ok(stored.0)
    }

    /// Puts the claims into the state, under the lock: no other command makes up the same name.
    fn put_claims(
        &self,
        context: &Context,
        store: &Store,
        base_name: &str,
        claims: Vec<IpClaim>,
        state: &mut State,
        tick: &Tick,
    ) -> Result<Vec<Key>, Refusal> {
        let claims = match self.name {
            Some(_) => claims,
            None => self.make_unused_claims(context, store, base_name)?,
        };
        let mut new_count = 0;
        for claim in &claims {
            match state.ip_leases.by_key(&claim.metadata.key()) {
                Some(lease) => context.check_ip_claim_permission(lease)?,
                None => new_count += 1,
            }
        }
        context.check_quota_for_addresses(store, new_count)?;
        let mut claim_keys = Vec::new();
        for claim in claims {
            if find_pool(state, &claim)?.is_none() {
                let pool_key = pool_key_of(&claim);
                return Err(Refusal::not_found(format!("there is no IPPool `{pool_key}`"))
                    .advise("poolctl get ippool -A"));
            }
            let claim_key = claim.metadata.key();
            if let Some(lease) = state.ip_leases.by_key(&claim_key) {
                check_existing(lease, &claim)?;
            }
            put_object(state, Object::IpClaim(Box::new(claim)), PutMode::Apply, tick)?;
            claim_keys.push(claim_key);
        }
        Ok(claim_keys)
    }

    /// Stores the claims and waits until all have addresses. If the wait ends before, those that
    /// this command made are deleted.
    fn claim_and_wait(
        &self,
        context: &Context,
        store: &Store,
        base_name: &str,
        claims: Vec<IpClaim>,
        limit: Span,
    ) -> Result<Vec<NamedLease>, Refusal> {
        let mut kept_keys = Vec::new();
        for claim in &claims {
            let claim_key = claim.metadata.key();
            if store.find_lease_of_claim(&claim_key)?.is_some() {
                kept_keys.push(claim_key);
            }
        }
        let claim_keys = self.store_claims(context, store, base_name, claims)?;
        let refusal = match wait_for_addresses(context, store, &claim_keys, limit) {
            Err(refusal) if !self.keep => refusal,
            Err(refusal) if context.guest().is_some() && claim_keys.len() == 1 => {
                // A guest may not look at an IPClaim, but may claim again what waits.
                let name = &claim_keys[0].name;
                return Err(refusal.next(format!("poolctl ip claim {} {name}", self.pools)));
            }
            ended => return ended,
        };
        let mut new_claims = Vec::new();
        for claim_key in claim_keys.iter().filter(|claim_key| !kept_keys.contains(claim_key)) {
            new_claims.extend(store.list_objects(Kind::IpClaim, &Filter::named(claim_key))?);
        }
        delete::request_deletion(context, store, &new_claims, delete::refuse_with_agents)?;
        let consequence = "nothing is claimed; with --keep the claims go on waiting";
        Err(refusal.because(consequence).advise("poolctl get ippool"))
    }
}

/// Waits until all claims have addresses.
fn wait_for_addresses(
    context: &Context,
    store: &Store,
    claim_keys: &[Key],
    limit: Span,
) -> Result<Vec<NamedLease>, Refusal> {
    let door = context.door(store);
    let waiting = Waiting { context, door: &door, pool: None, limit };
    let ended = waiting.wait_until(|_| look_for_addresses(store, claim_keys))?;
    let (exit, problem) = match ended {
        WaitOutcome::Met(leases) => return Ok(leases),
        WaitOutcome::Late => (Exit::Timeout, format!("after {}", limit.to_short_text())),
        WaitOutcome::Interrupted(exit) => (exit, "yet: interrupted".to_owned()),
    };
    let total = count_of(claim_keys.len(), "claim");
    let refusal = Refusal::new(exit, format!("{total} without an address {problem}"));
    Err(match claim_keys.first() {
        Some(claim_key) => refusal.next(format!("poolctl why ipclaim/{}", claim_key.name)),
        None => refusal,
    })
}

/// The claims and their pools, which an edit needs.
fn needed_objects(claims: &[IpClaim]) -> Vec<NeededObject> {
    let mut needs = Vec::new();
    for claim in claims {
        needs.push(NeededObject { kind: Kind::IpClaim, key: claim.metadata.key() });
        needs.push(NeededObject { kind: Kind::IpPool, key: pool_key_of(claim) });
    }
    needs
}

/// The leases of all claims once each has an address.
fn look_for_addresses(
    store: &Store,
    claim_keys: &[Key],
) -> Result<Observation<Vec<NamedLease>>, Refusal> {
    let mut leases = Vec::new();
    for claim_key in claim_keys {
        let Some(lease) = store.find_lease_of_claim(claim_key)? else {
            let problem = format!("ipclaim `{}` was released meanwhile", claim_key.name);
            return Err(Refusal::not_found(problem));
        };
        if lease.address.is_some() {
            let pool = store.find::<IpPool>(&lease.pool_key())?;
            let address_name = pool.map(|pool| address_name(&pool, &lease)).unwrap_or_default();
            leases.push(NamedLease { lease, address_name });
        }
    }
    if leases.len() == claim_keys.len() {
        return Ok(Observation::Met(leases));
    }
    let description = format!("{} of {} addresses", leases.len(), claim_keys.len());
    let done = leases.len() as u64;
    let total = claim_keys.len() as u64;
    let progress = WaitProgress { done, total, description, ..WaitProgress::default() };
    Ok(Observation::NotYet(progress))
}

/// The pool that a claim names, of its own namespace unless it names another one.
fn pool_key_of(claim: &IpClaim) -> Key {
    claim.spec.pool.key_from(&claim.metadata.namespace)
}

/// The pool that a claim means: of its own namespace, or one that another namespace shares with it.
fn find_pool<'a>(state: &'a State, claim: &IpClaim) -> Result<Option<&'a IpPool>, Refusal> {
    let namespace = claim.metadata.namespace.as_str();
    let pool = &claim.spec.pool;
    if !pool.namespace.is_empty() {
        let named_pool = state.ip_pools.by_key(&pool_key_of(claim));
        return Ok(named_pool.filter(|named_pool| named_pool.serves(namespace)));
    }
    plan::find_serving_pool(state, namespace, &pool.name).map_err(|problem| {
        Refusal::conflict(problem).advise(format!("poolctl ip claim NAMESPACE/{}", pool.name))
    })
}

/// A lease, and the name of the IPAddress that it is shown as.
struct NamedLease {
    lease: IpLease,
    address_name: String,
}

/// Returns the leases of claims in their order. The first claim that has no address refuses all.
fn read_leases(
    context: &Context,
    store: &Store,
    state: &State,
    claim_keys: &[Key],
) -> Result<Vec<NamedLease>, Refusal> {
    let mut leases = Vec::new();
    for claim_key in claim_keys {
        let Some(lease) = state.ip_leases.by_key(claim_key) else { continue };
        if lease.address.is_none() {
            return Err(refuse_without_address(context, store, state, lease, claim_keys)?);
        }
        let address_name = state.address_name_of(lease);
        leases.push(NamedLease { lease: lease.clone(), address_name });
    }
    Ok(leases)
}

/// Why there is no address for a claim, who has the one that it asks for, and how many there were
/// for all of the claims.
fn refuse_without_address(
    context: &Context,
    store: &Store,
    state: &State,
    lease: &IpLease,
    claim_keys: &[Key],
) -> Result<Refusal, Refusal> {
    let IpLease { pool, claim, error, .. } = lease;
    let problem = format!("IPPool `{pool}` has no address for claim `{claim}`");
    let mut refusal = Refusal::new(Exit::Exhausted, problem).because(error.as_str());
    if context.guest().is_some() {
        // Guests are not told what other people have, nor how the pool is set up.
        let change = if lease.requested_address().is_some() {
            "without --address, for any address that is free"
        } else {
            "with --wait, until an address is free"
        };
        return Ok(refusal.advise(format!("the same command {change}; or ask an admin")));
    }
    let wanted = lease.requested_address().and_then(|address| address.parse::<Addr>().ok());
    if let Some(wanted) = wanted
        && let Some(holder) = find_holder(store, state, lease, wanted)?
    {
        refusal = refusal.because(format!("{wanted} belongs to {holder}"));
        return Ok(refusal.next(format!("poolctl ip who {wanted}")));
    }
    let total = claim_keys.len();
    if total > 1 {
        let leases = claim_keys.iter().filter_map(|key| state.ip_leases.by_key(key));
        let free = leases.filter(|lease| lease.address.is_some()).count();
        refusal = refusal.because(format!("{free} of {total} were free; none is leased"));
    }
    let serving_pool = find_pool_of_lease(state, lease);
    let next = match serving_pool.and_then(IpPool::pause_annotation) {
        Some(annotation) => format!("poolctl annotate ippool/{pool} {annotation}-"),
        None => format!("poolctl ippool map {pool}"),
    };
    Ok(match serving_pool {
        // The command is not to be typed in the namespace of the claim.
        Some(shared_pool) if shared_pool.metadata.namespace != lease.namespace => {
            refusal.advise(format!("{next} -n {}", shared_pool.metadata.namespace))
        }
        _ => refusal.next(next),
    })
}

/// For whom an address is, and until when.
#[derive(Args)]
struct Purpose {
    /// Names of the machine in DNS, separated by commas; by default the name of the claim
    #[arg(long, value_name = "NAME")]
    dns_name: Option<String>,
    /// MAC of the machine, for lists of DHCP servers
    #[arg(long)]
    mac: Option<String>,
    /// What the address is for
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Release the address after this time, such as 8h
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until")]
    lifetime: Option<Span>,
    /// Release the address at a time of day (18:00) or an instant (2026-01-31T18:00:00Z)
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl Purpose {
    /// The purpose as annotations of a claim.
    fn annotations(&self, context: &Context) -> Result<BTreeMap<String, String>, Refusal> {
        let now = context.world.now();
        let end = match (&self.until, self.lifetime) {
            (Some(until), _) => {
                let end = parse_end(context, until).map_err(|refusal| {
                    refusal.advise("poolctl ip claim lan web-1 --until 18:00")
                })?;
                if end <= now {
                    return Err(Refusal::usage(format!("--until {until} is over already")));
                }
                Some(end)
            }
            // An annotation has whole seconds.
            (None, Some(lifetime)) if lifetime < Span::seconds(1) => {
                return Err(Refusal::usage("--for 0s is over already")
                    .advise("poolctl ip claim lan web-1 --for 8h"));
            }
            (None, lifetime) => lifetime.map(|lifetime| now.plus(lifetime)),
        };
        let owner = context.guest().map(|guest| guest.name.clone());
        let mut annotations = BTreeMap::new();
        for (annotation, value) in [
            (OWNER, owner),
            (DNS_NAME, self.dns_name.clone()),
            (MAC, self.mac.clone()),
            (COMMENT, self.comment.clone()),
            (UNTIL, end.map(|end| end.to_string())),
        ] {
            annotations.extend(value.map(|value| (annotation.to_owned(), value)));
        }
        Ok(annotations)
    }
}

impl Claim {
    /// The claims that are asked for: `count` of each pool.
    fn make_claims(&self, context: &Context, base_name: &str) -> Result<Vec<IpClaim>, Refusal> {
        if self.count == 0 || self.count > MAX_COUNT {
            return Err(Refusal::usage(format!("--count must be from 1 to {MAX_COUNT}")));
        }
        if self.address.as_deref() == Some("") {
            return Err(Refusal::usage("--address is empty")
                .advise("leave it out, or name an address of the pool"));
        }
        if self.count > 1 && (self.purpose.dns_name.is_some() || self.purpose.mac.is_some()) {
            return Err(Refusal::usage("--dns-name and --mac are of one machine, not of several"));
        }
        let annotations = self.purpose.annotations(context)?;
        let pools: Vec<&str> = self.pools.split(',').collect();
        let mut pool_names: Vec<&str> = Vec::new();
        for (index, pool) in pools.iter().enumerate() {
            if pools[..index].contains(pool) {
                return Err(Refusal::usage(format!("IPPool `{pool}` is named twice")));
            }
            pool_names.push(pool.split_once('/').map_or(*pool, |(_, pool_name)| pool_name));
        }
        let mut claims = Vec::new();
        for (pool, pool_name) in pools.iter().zip(&pool_names) {
            for number in 0..self.count {
                let mut name = base_name.to_owned();
                let namesakes = pool_names.iter().filter(|namesake| *namesake == pool_name);
                if namesakes.count() > 1 {
                    // Pools of two namespaces may have one name, their claims may not.
                    name = format!("{name}-{}", pool.replace('/', "-"));
                } else if pools.len() > 1 {
                    name = format!("{name}-{pool_name}");
                }
                if self.count > 1 {
                    name = format!("{name}-{number}");
                }
                claims.push(self.make_claim(context, pool, &name, annotations.clone())?);
            }
        }
        Ok(claims)
    }

    fn make_claim(
        &self,
        context: &Context,
        pool: &str,
        name: &str,
        annotations: BTreeMap<String, String>,
    ) -> Result<IpClaim, Refusal> {
        let Key { name, namespace } = context.key(Kind::IpClaim, name)?;
        let mut metadata = Meta { name, namespace, annotations, ..Meta::default() };
        if let Some(address) = &self.address {
            metadata.annotations.insert(REQUESTED_ADDRESS.to_owned(), address.clone());
        }
        let (pool_namespace, pool_name) = pool.split_once('/').unwrap_or(("", pool));
        let pool = Reference {
            name: pool_name.to_owned(),
            namespace: pool_namespace.to_owned(),
            ..Reference::default()
        };
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
    for NamedLease { lease, .. } in leases {
        if let Some(address) = lease.address {
            let name = Name::of(Kind::IpClaim, &lease.key());
            answer = answer.with_change(format!("{name} leases {address}"));
        }
    }
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
