//! When a pass has to look again at a pool, at an object that has a row of its own, or at what belongs
//! to none of them. A plan computes it, and the store keeps it, so that a pass looks at what is due and not at
//! all that is kept.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::Kind;
use super::meta::Key;
use super::time::{Span, Time};

/// Documents keep times in whole seconds. A time computed from a document that was read again may be up
/// to this much earlier than the one computed before it was written.
const PRECISION_OF_DOCUMENTS: Span = Span::seconds(1);

/// What a scope waits for when a plan has settled it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// When something is next to be done by itself.
    pub at: Option<Time>,
    /// Whether every pass asks for news of it: of jobs that run, of clusters that wake.
    pub is_polled: bool,
    /// Whether it lacks what other scopes may give back: names, addresses, hosts, customizations. Only
    /// pools wait: other scopes are marked when what they lack comes back.
    pub waits: bool,
}

impl Due {
    /// Something is to be done at this instant.
    pub fn add_instant(&mut self, instant: Time) {
        self.at = Some(self.at.map_or(instant, |at| at.min(instant)));
    }

    /// Adds what another part of the same scope waits for.
    pub fn add(&mut self, other: Self) {
        if let Some(at) = other.at {
            self.add_instant(at);
        }
        self.is_polled |= other.is_polled;
        self.waits |= other.waits;
    }

    /// Whether passes look at a scope that is stored with this at least as early as `needed` demands.
    pub fn is_no_later_than(self, needed: Self) -> bool {
        let is_in_time = needed.at.is_none_or(|needed_at| {
            self.at.is_some_and(|instant| instant < needed_at.plus(PRECISION_OF_DOCUMENTS))
        });
        self.is_polled || (is_in_time && !needed.is_polled && (self.waits || !needed.waits))
    }
}

/// An object that a pass looks at without a pool, together with what the object belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DueObject {
    pub kind: Kind,
    pub key: Key,
}

impl DueObject {
    /// An Agent that is to be looked at.
    pub fn agent(key: Key) -> Self {
        Self { kind: Kind::Agent, key }
    }

    /// A host that is to be looked at.
    pub fn host(key: Key) -> Self {
        Self { kind: Kind::BareMetalHost, key }
    }

    /// A cluster without a pool that is to be looked at.
    pub fn cluster(key: Key) -> Self {
        Self { kind: Kind::ClusterDeployment, key }
    }

    /// A pool of addresses that is to be looked at, with the claims that wait for it.
    pub fn ip_pool(key: Key) -> Self {
        Self { kind: Kind::IpPool, key }
    }

    /// Whether other scopes load only a part of it: a cluster without its hosts, an IPPool without the
    /// leases that end by themselves. Only a pass that looks at the object itself may settle it.
    pub fn is_loaded_in_parts(&self) -> bool {
        matches!(self.kind, Kind::ClusterDeployment | Kind::IpPool)
    }
}

/// What the scopes of a state wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueScopes {
    pub pools: BTreeMap<Key, Due>,
    /// The Agents, each with what its own silence and its own limits are due for, the hosts, with their
    /// jobs and what is tried again, the clusters that were applied by hand, and the pools of addresses,
    /// with the ends of their leases.
    pub objects: BTreeMap<DueObject, Due>,
    /// What else belongs to no pool: what is left of pools that do not exist any more.
    pub rest: Due,
}

/// Which of the scopes that wait may have what they wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HelpedScopes {
    #[default]
    Nobody,
    /// All pools that wait.
    Pools,
}

/// What a commit says of scopes, beside the objects that it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueChanges {
    /// When the commit is made.
    pub now: Time,
    /// What was planned to the end. Without `is_whole` this is everything about the pools and the
    /// objects, and only a part of the rest.
    pub settled: DueScopes,
    /// Whether everything was planned to the end, so that nothing else is due.
    pub is_whole: bool,
    /// Whether all that belongs to no pool was planned to the end.
    pub is_rest_settled: bool,
    /// The pools that were changed and not planned.
    pub dirty_pools: BTreeSet<Key>,
    /// The pool whose claim was answered, and nothing else of it planned. It is due like one of
    /// `dirty_pools`, at the price of no page.
    pub answered_pool: Option<Key>,
    /// The objects that were changed and not planned.
    pub dirty_objects: BTreeSet<DueObject>,
    /// What objects wait for of which only a part was planned, beside what is known of them.
    pub partly_settled: BTreeMap<DueObject, Due>,
    /// The objects of which nothing has changed but when they are due.
    pub postponed: BTreeMap<DueObject, Due>,
    /// Whether something that belongs to no pool was changed and not planned.
    pub is_rest_dirty: bool,
    /// Which scopes may have waited for what was changed.
    pub helped: HelpedScopes,
}

impl DueChanges {
    /// Whether a pool was planned to the end.
    pub fn settles(&self, pool: &Key) -> bool {
        self.is_whole || self.settled.pools.contains_key(pool)
    }

    /// The commit has planned objects to the end. One that does not exist any more has nothing to do.
    pub fn settle(&mut self, objects: &[DueObject]) {
        for object in objects {
            // Agents and hosts may be marked because they have moved, and then stay marked.
            if object.is_loaded_in_parts() {
                self.dirty_objects.remove(object);
            }
            let due = self.partly_settled.remove(object);
            self.settled.objects.entry(object.clone()).or_insert(due.unwrap_or_default());
        }
    }

    /// The commit answers a claim. If that concerns one pool alone, the pool need not be marked.
    pub fn answer_pool(&mut self) {
        if self.dirty_pools.len() == 1 {
            self.answered_pool = self.dirty_pools.pop_first();
        }
    }
}

/// What the next pass has to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DueNow {
    Nothing,
    /// These pools, and these objects with all that they belong to.
    Part {
        pools: Vec<Key>,
        objects: Vec<DueObject>,
    },
    Everything,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Due = Due { at: None, is_polled: false, waits: false };
    const POLLED: Due = Due { is_polled: true, ..NOTHING };
    const WAITING: Due = Due { waits: true, ..NOTHING };

    fn at(microseconds: i64) -> Due {
        Due { at: Some(Time(microseconds)), ..NOTHING }
    }

    #[test]
    fn what_is_stored_is_looked_at_in_time_or_too_late() {
        for (stored, needed, expected) in [
            (NOTHING, NOTHING, true),
            (POLLED, at(1), true),
            (POLLED, WAITING, true),
            (at(1), POLLED, false),
            (NOTHING, POLLED, false),
            (NOTHING, WAITING, false),
            (WAITING, NOTHING, true),
            (at(0), at(1), true),
            (at(900_000), at(0), true),
            (at(1_000_000), at(0), false),
            (NOTHING, at(0), false),
            (at(0), NOTHING, true),
        ] {
            assert_eq!(stored.is_no_later_than(needed), expected, "{stored:?} for {needed:?}");
        }
    }
}
