//! Addresses: claims that wait get one, the oldest first; one that cannot be served is in nobody's
//! way, and says why until it can.

use std::cell::OnceCell;
use std::collections::HashSet;

use crate::model::address::{Addr, Stretch};
use crate::model::event::Event;
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{IpPool, PAUSES, Strategy};
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::state::{AddressBook, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

/// Draws before a random pool is looked through: with one address of a thousand free it takes about
/// that many.
const DRAWS: u64 = 8192;
pub const EXHAUSTED: &str = "Exhausted IP Pools";

/// Every claim that waits is looked at, and those that go, go.
pub fn advance(state: &mut State, book: &dyn AddressBook, tick: &Tick) {
    go(state);
    state.rested = None;
    let pools: Vec<usize> = state.ip_pools.iter().map(|(at, _)| at).collect();
    let mut waiting: Vec<(Time, String, usize)> = state
        .ip_leases
        .iter()
        .filter(|(_, one)| one.address.is_none() && one.deleting.is_none())
        .map(|(at, one)| (one.created, one.claim.clone(), at))
        .collect();
    if waiting.is_empty() {
        return;
    }
    waiting.sort_unstable();
    for at in pools {
        let Some(pool) = state.ip_pools.get(at).cloned() else { continue };
        let key = pool.metadata.key();
        if pauses(state, &pool) || pool.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let mut desk = Desk::new(&pool, book, state, tick);
        for (_, _, lease) in &waiting {
            let Some(one) = state.ip_leases.get(*lease).filter(|one| one.pool_key() == key) else {
                continue;
            };
            if one
                .claim_meta()
                .is_some_and(|meta| PAUSES.iter().any(|note| meta.annotated_at_all(note)))
            {
                continue;
            }
            match desk.serve(one) {
                Ok(address) => give(state, *lease, &pool, address, tick),
                Err(why) => refuse(state, *lease, why, tick),
            }
        }
        state.rested = state.rested.into_iter().chain(desk.due).min();
    }
}

/// A claim that was let go by everybody, and whose pool is not paused.
fn go(state: &mut State) {
    let gone: Vec<usize> = state
        .ip_leases
        .iter()
        .filter(|(_, one)| {
            let held = one.claim_meta().is_some_and(|meta| !meta.finalizers.is_empty());
            let pool = state.ip_pools.by_key(&one.pool_key());
            one.deleting.is_some() && !held && !pool.is_some_and(|pool| pauses(state, pool))
        })
        .map(|(at, _)| at)
        .collect();
    for at in gone {
        state.ip_leases.remove(at);
    }
}

/// Whether a pool, or the cluster that it names, is paused.
pub fn pauses(state: &State, pool: &IpPool) -> bool {
    let cluster = state.cluster(&pool.spec.cluster_name).and_then(|at| state.clusters.get(at));
    pool.is_paused() || cluster.is_some_and(|cluster| cluster.paused)
}

fn give(state: &mut State, at: usize, pool: &IpPool, address: Addr, tick: &Tick) {
    let network = pool.network_of(pool.entry_of(address));
    let Some(waited) = state.ip_leases.get(at) else { return };
    let leased = (waited.created != tick.now).then_some(tick.now);
    let late = !waited.error.is_empty();
    let key = waited.key();
    state.ip_leases.update(at, |one| {
        (one.address, one.network, one.leased) = (Some(address), network, leased);
        one.error.clear();
    });
    if late {
        say(state, tick, false, "Leased", key, format!("It has {address}"));
    }
}

fn refuse(state: &mut State, at: usize, why: String, tick: &Tick) {
    let Some(one) = state.ip_leases.get(at).filter(|one| one.error != why) else { return };
    let key = one.key();
    state.ip_leases.update(at, |one| one.error.clone_from(&why));
    say(state, tick, true, "AllocationFailed", key, why);
}

fn say(state: &mut State, tick: &Tick, warning: bool, reason: &str, object: Key, message: String) {
    let (kind, actor) = (Kind::IpClaim.name(), tick.actor.clone());
    state.event(Event {
        time: tick.now,
        warning,
        reason: reason.into(),
        kind,
        object,
        actor,
        message,
        ..Event::default()
    });
}

/// Where a pool's addresses are given out.
pub struct Desk<'a> {
    pool: &'a IpPool,
    book: &'a dyn AddressBook,
    tick: &'a Tick,
    open: Vec<(usize, Stretch)>,
    /// Given in this pass, by this pool or another of the namespace.
    taken: HashSet<Addr>,
    /// Given back in this pass.
    freed: HashSet<Addr>,
    /// How far a sequential pool was looked through.
    free: std::vec::IntoIter<Stretch>,
    now: Option<Stretch>,
    after: Option<Addr>,
    over: bool,
    soonest: OnceCell<Option<(Time, Addr)>>,
    /// When the first address that was asked for will have rested.
    due: Option<Time>,
}

impl<'a> Desk<'a> {
    pub fn pool(&self) -> &'a IpPool {
        self.pool
    }

    pub fn new(pool: &'a IpPool, book: &'a dyn AddressBook, state: &State, tick: &'a Tick) -> Self {
        let namespace = &pool.metadata.namespace;
        let mine = state.ip_leases.difference().filter_map(|change| change.after);
        let mine = mine.filter(|one| one.namespace == *namespace);
        let taken = mine.filter_map(|one| one.address).collect();
        let gone = state.ip_leases.difference().filter(|change| {
            let address = change.after.and_then(|one| one.address);
            change.before.is_some_and(|one| one.namespace == *namespace && one.address != address)
        });
        let freed = gone.filter_map(|change| change.before?.address).collect();
        Self {
            pool,
            book,
            tick,
            open: pool.open(),
            taken,
            freed,
            free: Vec::new().into_iter(),
            now: None,
            after: None,
            over: false,
            soonest: OnceCell::new(),
            due: None,
        }
    }

    /// These are given already.
    pub fn keep(&mut self, all: impl Iterator<Item = Addr>) {
        self.taken.extend(all);
    }

    pub fn serve(&mut self, one: &IpLease) -> Result<Addr, String> {
        let pre = self.pool.pre_allocated().find(|(claim, _)| *claim == one.claim);
        let pre = pre.map(|(_, address)| address);
        let wanted = match one.wanted() {
            None => None,
            Some(text) => Some(text.parse::<Addr>().map_err(|_| {
                format!("Invalid ipAddress annotation \"{text}\": not a valid IP address")
            })?),
        };
        if pre.is_some_and(|pre| wanted.is_some_and(|wanted| wanted != pre)) {
            return Err("PreAllocation and requested ip address are conflicting".into());
        }
        let address = match (pre, wanted) {
            (Some(address), _) => self.exactly(address, true)?,
            (None, Some(address)) => self.exactly(address, false)?,
            (None, None) => self.any(one)?,
        };
        self.taken.insert(address);
        Ok(address)
    }

    fn exactly(&mut self, address: Addr, pre: bool) -> Result<Addr, String> {
        if pre && self.pool.entry_of(address).is_none() {
            return Err("Pre-allocated IP out of bounds".into());
        }
        if !pre && !self.pool.ranges().any(|(_, range)| range.has(address)) {
            return Err(format!("requested IP {address} is outside the pool"));
        }
        let open = self.open.iter().any(|(_, range)| range.has(address));
        if (!pre && !open) || !self.is_free(address) {
            return Err("Requested IP not available".into());
        }
        match self.rests_until(address) {
            Some(until) => Err(self.rests(address, until)),
            None => Ok(address),
        }
    }

    fn is_free(&self, address: Addr) -> bool {
        let namespace = &self.pool.metadata.namespace;
        let freed = || self.freed.contains(&address) && !self.pool.remembers();
        !self.taken.contains(&address)
            && (freed() || self.book.holder(namespace, address).is_none())
    }

    /// When an address that was released may be leased again.
    fn rests_until(&self, address: Addr) -> Option<Time> {
        let delay = self.pool.reuse_delay();
        if delay.0 == 0 {
            return None;
        }
        let until = self.book.released(self.pool, address)?.plus(delay);
        (until > self.tick.now).then_some(until)
    }

    fn any(&mut self, one: &IpLease) -> Result<Addr, String> {
        let found = match self.pool.strategy() {
            Strategy::Random => self.drawn(one),
            Strategy::Sequential => self.lowest(),
            Strategy::LeastRecent => self.lowest().or_else(|| self.longest_free()),
        };
        if let Some(found) = found.or_else(|| self.just_freed()) {
            return Ok(found);
        }
        match self.soonest() {
            Some((until, address)) => Err(self.rests(address, until)),
            None => Err(EXHAUSTED.into()),
        }
    }

    /// When the first of the addresses that rest can be leased again, and which it is.
    fn soonest(&self) -> Option<(Time, Addr)> {
        let delay = self.pool.reuse_delay();
        if delay.0 == 0 {
            return None;
        }
        *self.soonest.get_or_init(|| {
            let known = self.book.rested(self.pool, Time(i64::MAX), usize::MAX).into_iter();
            let freed = self.freed.iter().map(|address| (*address, self.tick.now));
            let all = known.chain(freed).map(|(address, released)| (released.plus(delay), address));
            let open = |address: Addr| self.open.iter().any(|(_, range)| range.has(address));
            let left = all.filter(|(until, address)| {
                *until > self.tick.now && open(*address) && !self.taken.contains(address)
            });
            left.min()
        })
    }

    /// Said once, not anew each second.
    fn rests(&mut self, address: Addr, until: Time) -> String {
        self.due = self.due.into_iter().chain([until]).min();
        format!("{address} was just released and can be leased again at {until}")
    }

    /// One that was given back in this pass, when there is no other.
    fn just_freed(&self) -> Option<Addr> {
        let open = |address: &Addr| self.open.iter().any(|(_, range)| range.has(*address));
        let freed = self.freed.iter().copied().filter(|one| open(one) && self.is_free(*one));
        freed.min().filter(|_| !self.pool.remembers())
    }

    /// The next free one in order; rested ones among them.
    fn lowest(&mut self) -> Option<Addr> {
        let rested = match self.pool.strategy() {
            Strategy::LeastRecent => None,
            _ => self.rested().min_by_key(|address| (self.pool.entry_of(*address), *address)),
        };
        let Some(found) = self.next() else { return rested };
        let place = |address: Addr| (self.pool.entry_of(address), address);
        match rested.filter(|rested| place(*rested) < place(found)) {
            Some(rested) => {
                // What was not taken comes first next time.
                self.now =
                    Some(Stretch { start: found, end: self.now.map_or(found, |now| now.end) });
                Some(rested)
            }
            None => Some(found),
        }
    }

    fn next(&mut self) -> Option<Addr> {
        loop {
            while let Some(now) = self.now {
                self.now =
                    now.start.0.checked_add(1).map(|next| Stretch { start: Addr(next), ..now });
                self.now = self.now.filter(|now| now.start <= now.end);
                if !self.taken.contains(&now.start) {
                    return Some(now.start);
                }
            }
            if let Some(next) = self.free.next() {
                self.now = Some(next);
                continue;
            }
            if self.over {
                return None;
            }
            let more = self.book.free(self.pool, self.after);
            (self.over, self.after) = (more.is_empty(), more.last().map(|last| last.end));
            self.free = more.into_iter();
        }
    }

    /// Addresses that have rested long enough, first those that were released first.
    fn rested(&self) -> impl Iterator<Item = Addr> {
        let before = Time(self.tick.now.0.saturating_sub(self.pool.reuse_delay().0));
        let most = if self.pool.remembers() { self.taken.len() + 1 } else { 0 };
        let all = self.book.rested(self.pool, before, most);
        let open = |address: &Addr| self.open.iter().any(|(_, range)| range.has(*address));
        let free = all.into_iter().map(|(address, _)| address).filter(open);
        free.filter(|address| !self.taken.contains(address)).collect::<Vec<_>>().into_iter()
    }

    fn longest_free(&self) -> Option<Addr> {
        self.rested().next()
    }

    /// Each free address as likely as any other.
    fn drawn(&mut self, one: &IpLease) -> Option<Addr> {
        let total = self.open.iter().fold(0_u128, |sum, (_, one)| sum.saturating_add(one.size()));
        let owner = one.key().to_string();
        if total == 0 {
            return None;
        }
        if !self.book.is_scarce(self.pool) {
            for attempt in 0..DRAWS {
                let mut place = self.tick.draw("address", &owner, attempt) % total;
                let found = self.open.iter().find_map(|(_, range)| {
                    let here = place < range.size();
                    let found = here.then(|| Addr(range.start.0 + place));
                    place = if here { place } else { place - range.size() };
                    found
                });
                let found = found.filter(|found| self.is_free(*found));
                if let Some(found) = found.filter(|found| self.rests_until(*found).is_none()) {
                    return Some(found);
                }
            }
        }
        // Few are left: they are counted.
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let more = self.book.free(self.pool, after);
            let Some(last) = more.last() else { break };
            after = Some(last.end);
            all.extend(more);
        }
        all.extend(self.rested().map(Stretch::one));
        let gone: Vec<Stretch> = self.taken.iter().copied().map(Stretch::one).collect();
        let left: Vec<Stretch> = all.into_iter().flat_map(|one| one.without(&gone)).collect();
        let total = left.iter().fold(0_u128, |sum, one| sum.saturating_add(one.size()));
        let mut place = self.tick.draw("address", &owner, DRAWS).checked_rem(total)?;
        left.into_iter().find_map(|range| {
            let found = (place < range.size()).then(|| Addr(range.start.0 + place));
            place = place.saturating_sub(range.size());
            found
        })
    }
}
