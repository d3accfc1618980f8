//! The members of a pool, and how their order is kept. Nothing here chooses one of them.

use super::claim::Claim;
use super::cluster::Cluster;
use super::table::Id;

/// The clusters and claims of a pool, in the order in which they were made, whatever was loaded
/// first: that order breaks ties between those that were made at the same time.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub clusters: Vec<Id<Cluster>>,
    pub claims: Vec<Id<Claim>>,
}

/// Adds a member before those with a higher number in the store. Those that have none yet come last.
pub fn add_in_order<T: Copy>(members: &mut Vec<T>, added: T, stored_id: impl Fn(T) -> Option<i64>) {
    let number_of = |member| stored_id(member).filter(|id| *id != 0).unwrap_or(i64::MAX);
    let added_number = number_of(added);
    let last_before = members.iter().rposition(|member| number_of(*member) <= added_number);
    members.insert(last_before.map_or(0, |place| place + 1), added);
}
