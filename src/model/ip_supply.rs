//! How many addresses a pool has left, in one word and as a condition. It reads the counts of the
//! pool's status, and counts nothing itself.

use serde_json::Value;

use super::condition::{Condition, ConditionReason, ConditionType};
use super::ip_pool::IpPool;

/// The counts in `status.ipAddresses`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressSupply {
    pub total: u128,
    pub used: u128,
    pub reserved: u128,
    pub resting: u128,
    pub free: u128,
}

/// Whether the addresses of a pool suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupplyLevel {
    Sufficient,
    /// Fewer are free than the pool's owner wants.
    Low,
    /// None is free; some will be after their rest.
    Resting,
    /// None is free.
    Exhausted,
}

impl IpPool {
    /// The counts of the pool's addresses; all are 0 if its status was not read.
    pub fn supply(&self) -> AddressSupply {
        let counts = self.status.ip_addresses.as_ref().unwrap_or(&Value::Null);
        AddressSupply {
            total: read_count(&counts["total"]),
            used: read_count(&counts["used"]),
            reserved: read_count(&counts["reserved"]),
            resting: read_count(&counts["resting"]),
            free: read_count(&counts["free"]),
        }
    }

    /// Whether the free addresses suffice.
    pub fn supply_level(&self) -> SupplyLevel {
        let supply = self.supply();
        let limit = self.supply_limit().map(|limit| limit.in_addresses(supply.total));
        match supply.free {
            0 if supply.resting > 0 => SupplyLevel::Resting,
            0 => SupplyLevel::Exhausted,
            free if limit.is_some_and(|limit| free < limit) => SupplyLevel::Low,
            _ => SupplyLevel::Sufficient,
        }
    }

    /// The condition that says whether a claim would get an address.
    pub fn supply_condition(&self) -> Condition {
        let kind = ConditionType::AddressesAvailable;
        if self.is_paused() {
            let message = format!("The pool is paused; {}", self.supply().describe());
            return Condition::new(kind, "False", ConditionReason::IpPoolPaused, message);
        }
        let (status, reason) = match self.supply_level() {
            SupplyLevel::Sufficient => ("True", ConditionReason::AddressesFree),
            SupplyLevel::Low => ("True", ConditionReason::AddressesLow),
            SupplyLevel::Resting => ("False", ConditionReason::AddressesResting),
            SupplyLevel::Exhausted => ("False", ConditionReason::AddressesExhausted),
        };
        Condition::new(kind, status, reason, self.supply().describe())
    }
}

impl AddressSupply {
    /// The counts in a few words: `3 of 13 addresses leased, 1 resting, 9 free`.
    pub fn describe(&self) -> String {
        let resting = match self.resting {
            0 => String::new(),
            resting => format!("{resting} resting, "),
        };
        let reserved = match self.reserved {
            0 => String::new(),
            reserved => format!("{reserved} reserved, "),
        };
        let Self { used, total, free, .. } = self;
        format!("{used} of {total} addresses leased, {reserved}{resting}{free} free")
    }
}

/// A count, which is a string where no JSON number is exact.
fn read_count(count: &Value) -> u128 {
    match count {
        Value::String(digits) => digits.parse().unwrap_or_default(),
        number => number.as_u64().map(u128::from).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::annotations::WARN_BELOW;

    #[test]
    fn a_pool_is_low_below_its_limit_and_exhausted_at_none() {
        for (limit, free, resting, level) in [
            ("", 1, 0, SupplyLevel::Sufficient),
            ("", 0, 0, SupplyLevel::Exhausted),
            ("", 0, 1, SupplyLevel::Resting),
            ("10%", 10, 0, SupplyLevel::Sufficient),
            ("10%", 9, 0, SupplyLevel::Low),
            ("5", 4, 0, SupplyLevel::Low),
            ("5", 5, 9, SupplyLevel::Sufficient),
        ] {
            let mut pool = IpPool::default();
            pool.metadata.annotations.insert(WARN_BELOW.to_owned(), limit.to_owned());
            pool.status.ip_addresses =
                Some(json!({"total": "100", "free": free, "resting": resting}));
            assert_eq!(pool.supply_level(), level, "{limit} {free} {resting}");
        }
    }
}
