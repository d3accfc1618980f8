//! Addresses that claims ask for by name: who has them, for whom a pool keeps them, and whether they
//! can be waited for. Leases nothing.

use crate::model::address::Addr;
use crate::model::ip_lease::{IpClaim, IpLease};
use crate::model::ip_pool::{IpPool, REQUESTED_ADDRESS};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::plan;
use crate::store::Store;

use crate::commands::ip::who::describe_holder;

/// An address that a claim asks for.
pub struct WantedAddress {
    address: Addr,
    pool: IpPool,
    /// The claim, as the pool calls it.
    claim: String,
}

impl WantedAddress {
    /// Whether no wait helps: as long as the pool stays as it is, the claim never gets the address.
    pub fn is_never_leased(&self) -> bool {
        if let Some(pre_allocated) = self.pool.pre_allocated_address_of(&self.claim) {
            return pre_allocated != self.address;
        }
        let is_in_pool = self.pool.ranges().any(|(_, range)| range.contains(self.address));
        !is_in_pool || find_keeper(&self.pool, self.address).is_some()
    }
}

/// The addresses that claims ask for. A claim of a pool that does not exist has none.
pub fn find_wanted_addresses(
    store: &Store,
    claims: &[IpClaim],
) -> Result<Vec<WantedAddress>, Refusal> {
    let mut wanted_addresses = Vec::new();
    for claim in claims {
        let written = claim.metadata.annotation(REQUESTED_ADDRESS);
        let Some(address) = written.and_then(|written| written.parse().ok()) else { continue };
        let namespace = claim.metadata.namespace.as_str();
        let named = &claim.spec.pool;
        // A pool of the claim's own namespace comes first.
        let pool = store.list_pools_serving(namespace)?.into_iter().find(|pool| {
            let is_in_named_namespace =
                named.namespace.is_empty() || pool.metadata.namespace == named.namespace;
            pool.metadata.name == named.name && is_in_named_namespace
        });
        if let Some(pool) = pool {
            let claim = match pool.namespace_for_claim(namespace) {
                Some(_) => claim.metadata.key().to_string(),
                None => claim.metadata.name.clone(),
            };
            wanted_addresses.push(WantedAddress { address, pool, claim });
        }
    }
    Ok(wanted_addresses)
}

/// Adds to a refusal who has the addresses that were waited for.
pub fn name_holders(
    store: &Store,
    wanted_addresses: &[WantedAddress],
    mut refusal: Refusal,
) -> Result<Refusal, Refusal> {
    for WantedAddress { address, pool, .. } in wanted_addresses {
        if let Some(holder) = store.find_lease_of_address(&pool.metadata.namespace, *address)? {
            let holder = describe_holder(&holder);
            refusal = refusal.because(format!("{address} belongs to claim {holder}"));
        }
    }
    Ok(refusal)
}

/// The pool that a claim without an address means.
pub fn find_pool_of_lease<'a>(state: &'a State, lease: &IpLease) -> Option<&'a IpPool> {
    match &lease.pool_namespace {
        Some(_) => state.ip_pools.by_key(&lease.pool_key()),
        None => plan::find_serving_pool(state, &lease.namespace, &lease.pool).unwrap_or_default(),
    }
}

/// Who has an address that a claim asks for, or what it is in the claim's pool.
pub fn find_holder(
    store: &Store,
    state: &State,
    lease: &IpLease,
    wanted: Addr,
) -> Result<Option<String>, Refusal> {
    let Some(pool) = find_pool_of_lease(state, lease) else { return Ok(None) };
    if let Some(holder) = store.find_lease_of_address(&pool.metadata.namespace, wanted)? {
        return Ok(Some(format!("claim {}", describe_holder(&holder))));
    }
    Ok(find_keeper(pool, wanted))
}

/// For whom a pool keeps an address that no claim has: a claim that is named, a reserved range, or
/// nobody.
pub fn find_keeper(pool: &IpPool, wanted: Addr) -> Option<String> {
    let mut pre_allocated = pool.pre_allocated_addresses();
    if let Some((claim, _)) = pre_allocated.find(|(_, address)| *address == wanted) {
        return Some(format!("claim {claim}, for which it is pre-allocated"));
    }
    for (range, comment) in pool.reserved_ranges() {
        if range.contains(wanted) {
            let colon = if comment.is_empty() { "" } else { ": " };
            return Some(format!("the reserved range {range}{colon}{comment}"));
        }
    }
    let reason = pool.unusable_reason(wanted);
    reason.map(|reason| format!("nobody: it is the {reason}"))
}
