//! Ends leases of addresses whose time is over, and warns before that. It never gives an address
//! back itself: that follows from the deletion of the claim.

use crate::model::event_reason::EventReason;
use crate::model::kinds::Kind;
use crate::model::state::{IpLeaseId, State};
use crate::model::tick::Tick;

use super::{record_event, record_warning};

/// Warns once of each end that is near, and marks the claims whose end has come for deletion.
pub fn expire_leases(state: &mut State, tick: &Tick) {
    if tick.clock_jumped {
        return;
    }
    let mut expiring: Vec<IpLeaseId> = Vec::new();
    for (lease_id, lease) in state.ip_leases.iter() {
        if lease.expiry_instants().any(|instant| tick.now >= instant) {
            expiring.push(lease_id);
        }
    }
    for lease_id in expiring {
        warn_or_end(state, lease_id, tick);
    }
}

/// A lease whose end has come is ended without a warning: it would help nobody any more.
fn warn_or_end(state: &mut State, lease_id: IpLeaseId, tick: &Tick) {
    let Some(lease) = state.ip_leases.get(lease_id) else { return };
    let Some(end) = lease.expires_at() else { return };
    let key = lease.key();
    let pool = lease.pool.clone();
    if tick.now >= end {
        state.ip_leases.update(lease_id, |lease| lease.deleting = Some(tick.now));
        let message = format!("Its time was over at {end}");
        record_event(state, tick, Kind::IpClaim, key, EventReason::AddressExpired, message);
        return;
    }
    state.ip_leases.update(lease_id, |lease| lease.warned_until = Some(end));
    let message = format!(
        "It expires at {end}; to keep it longer: poolctl ip claim {pool} {} --for 8h",
        key.name
    );
    record_warning(state, tick, Kind::IpClaim, key, EventReason::AddressExpiresSoon, message);
}
