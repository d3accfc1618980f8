//! The desk where a pool's addresses are given out, to one claim after the other; it never writes down
//! who has them.

use std::cell::OnceCell;
use std::collections::{HashSet, VecDeque};

use crate::model::address::{Addr, Stretch};
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{IpPool, Strategy};
use crate::model::state::{AddressBook, State};
use crate::model::tick::Tick;
use crate::model::time::Time;

/// Draws before a random pool is looked through: with one address of a thousand free it takes about
/// that many.
const DRAWS: u64 = 8192;
const EXHAUSTED: &str = "Exhausted IP Pools";

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
    /// Released ones that may be leased again, and the last of them that was read.
    rested: VecDeque<Addr>,
    last: Option<(Addr, Time)>,
    /// What is left of a random pool, once few are.
    left: Option<Vec<Stretch>>,
    soonest: OnceCell<Option<(Time, Addr)>>,
    /// When the first address that was asked for will have rested.
    pub due: Option<Time>,
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
            rested: VecDeque::new(),
            last: None,
            left: None,
            soonest: OnceCell::new(),
            due: None,
        }
    }

    /// These are given already.
    pub fn keep(&mut self, all: impl Iterator<Item = Addr>) {
        for address in all {
            self.take(address);
        }
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
        self.take(address);
        Ok(address)
    }

    fn take(&mut self, address: Addr) {
        self.taken.insert(address);
        let Some(left) = &mut self.left else { return };
        if let Some(at) = left.iter().position(|one| one.has(address)) {
            let whole = left.swap_remove(at);
            left.extend(whole.without(&[Stretch::one(address)]));
        }
    }

    fn exactly(&mut self, address: Addr, pre: bool) -> Result<Addr, String> {
        if pre && self.pool.entry_of(address).is_none() {
            return Err("Pre-allocated IP out of bounds".into());
        }
        if !pre && !self.pool.ranges().any(|(_, range)| range.has(address)) {
            return Err(format!("requested IP {address} is outside the pool"));
        }
        if (!pre && !self.is_open(address)) || !self.is_free(address) {
            return Err("Requested IP not available".into());
        }
        match self.rests_until(address) {
            Some(until) => Err(self.rests(address, until)),
            None => Ok(address),
        }
    }

    fn is_open(&self, address: Addr) -> bool {
        self.open.iter().any(|(_, range)| range.has(address))
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
            Strategy::LeastRecent => self.lowest().or_else(|| self.rested()),
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
            let known = self.released_before(Time(i64::MAX)).into_iter();
            let freed = self.freed.iter().map(|address| (*address, self.tick.now));
            let all = known.chain(freed).map(|(address, released)| (released.plus(delay), address));
            let left = all.filter(|(until, address)| {
                *until > self.tick.now && self.is_open(*address) && !self.taken.contains(address)
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
        let open = self.freed.iter().copied().filter(|one| self.is_open(*one));
        let freed = open.filter(|one| self.is_free(*one));
        freed.min().filter(|_| !self.pool.remembers())
    }

    /// The next free one in order; rested ones among them.
    fn lowest(&mut self) -> Option<Addr> {
        let rested = match self.pool.strategy() {
            Strategy::LeastRecent => None,
            _ => self.rested(),
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

    /// The first in the pool's order that has rested long enough.
    fn rested(&mut self) -> Option<Addr> {
        if !self.pool.remembers() {
            return None;
        }
        loop {
            while let Some(address) = self.rested.front().copied() {
                if self.is_open(address) && !self.taken.contains(&address) {
                    return Some(address);
                }
                self.rested.pop_front();
            }
            let more = self.book.rested(self.pool, self.long_ago(), self.last);
            self.last = Some(*more.last()?);
            self.rested.extend(more.into_iter().map(|(address, _)| address));
        }
    }

    /// What was released by then may be leased again.
    fn long_ago(&self) -> Time {
        Time(self.tick.now.0.saturating_sub(self.pool.reuse_delay().0))
    }

    fn released_before(&self, before: Time) -> Vec<(Addr, Time)> {
        let mut all: Vec<(Addr, Time)> = Vec::new();
        loop {
            let more = self.book.rested(self.pool, before, all.last().copied());
            if more.is_empty() {
                return all;
            }
            all.extend(more);
        }
    }

    /// Each free address as likely as any other.
    fn drawn(&mut self, one: &IpLease) -> Option<Addr> {
        let total = self.open.iter().fold(0_u128, |sum, (_, one)| sum.saturating_add(one.size()));
        let owner = one.key().to_string();
        if total == 0 {
            return None;
        }
        if self.left.is_none() && !self.book.is_scarce(self.pool) {
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
        let left = self.left.take().unwrap_or_else(|| self.counted());
        let total = left.iter().fold(0_u128, |sum, one| sum.saturating_add(one.size()));
        let place = self.tick.draw("address", &owner, DRAWS).checked_rem(total);
        let found = place.and_then(|mut place| {
            left.iter().find_map(|range| {
                let found = (place < range.size()).then(|| Addr(range.start.0 + place));
                place = place.saturating_sub(range.size());
                found
            })
        });
        self.left = Some(left);
        found
    }

    /// All that is free, those that have rested among them.
    fn counted(&self) -> Vec<Stretch> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let more = self.book.free(self.pool, after);
            let Some(last) = more.last() else { break };
            after = Some(last.end);
            all.extend(more);
        }
        if self.pool.remembers() {
            let rested = self.released_before(self.long_ago()).into_iter();
            let open = rested.map(|(address, _)| address).filter(|one| self.is_open(*one));
            all.extend(open.map(Stretch::one));
        }
        let gone: Vec<Stretch> = self.taken.iter().copied().map(Stretch::one).collect();
        all.into_iter().flat_map(|one| one.without(&gone)).collect()
    }
}
