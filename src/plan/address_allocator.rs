//! Chooses addresses of an IPPool, for one claim after the other. It never writes down who has
//! them: it only remembers what it has given, so that nobody else gets it in the same pass.

use std::cell::OnceCell;
use std::collections::{HashSet, VecDeque};

use crate::model::address::{Addr, IpRange};
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::{AllocationStrategy, IpPool};
use crate::model::range_set::RangeSet;
use crate::model::state::{AddressBook, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};

/// Draws before the free addresses of a random pool are counted: with one address of a thousand
/// free it takes about that many.
const DRAWS: u64 = 8192;
const EXHAUSTED: &str = "Exhausted IP Pools";
const NOT_AVAILABLE: &str = "Requested IP not available";

/// Gives out the addresses of one pool during one step of a pass. What the store knows is read from
/// the book, a part at a time and only as far as it is needed.
pub struct AddressAllocator<'a> {
    pool: &'a IpPool,
    book: &'a dyn AddressBook,
    tick: &'a Tick,
    /// What anybody may be given: neither reserved nor pre-allocated.
    open_ranges: RangeSet,
    /// Given in this pass, by this pool or another of the namespace.
    taken: HashSet<Addr>,
    /// Given back in this pass.
    freed: HashSet<Addr>,
    /// Free ranges that were read from the book and not looked at yet.
    free_ranges: std::vec::IntoIter<IpRange>,
    /// What is left of the free range that is looked at now.
    current_range: Option<IpRange>,
    /// The end of the last free range that was read from the book.
    read_until: Option<Addr>,
    /// The book has no more free ranges.
    is_book_read: bool,
    /// Released addresses that have rested, in the order in which they are leased again.
    rested: VecDeque<Addr>,
    /// The last rested address that was read from the book, and when it was released.
    last_rested: Option<(Addr, Time)>,
    /// All that is free of a random pool, once little is.
    counted_ranges: Option<Vec<IpRange>>,
    /// Whether few addresses are left, as the book says it.
    is_scarce: OnceCell<bool>,
    first_resting: OnceCell<Option<(Time, Addr)>>,
    /// When the first address will have rested that a claim was refused because it rests.
    pub resting_until: Option<Time>,
}

impl<'a> AddressAllocator<'a> {
    /// Begins with the leases that this plan has made or ended. The others are read from `book` bit
    /// by bit, because a pool may have a hundred thousand.
    pub fn new(pool: &'a IpPool, book: &'a dyn AddressBook, state: &State, tick: &'a Tick) -> Self {
        let namespace = &pool.metadata.namespace;
        let mut taken: HashSet<Addr> = HashSet::new();
        let mut freed: HashSet<Addr> = HashSet::new();
        for change in state.ip_leases.difference() {
            let before = change.before.filter(|lease| lease.address_namespace() == namespace);
            let after = change.after.filter(|lease| lease.address_namespace() == namespace);
            let address_before = before.and_then(|lease| lease.address);
            let address_after = after.and_then(|lease| lease.address);
            taken.extend(address_after);
            if address_before != address_after {
                freed.extend(address_before);
            }
        }
        Self {
            pool,
            book,
            tick,
            open_ranges: RangeSet::new(pool.leasable_ranges()),
            taken,
            freed,
            free_ranges: Vec::new().into_iter(),
            current_range: None,
            read_until: None,
            is_book_read: false,
            rested: VecDeque::new(),
            last_rested: None,
            counted_ranges: None,
            is_scarce: OnceCell::new(),
            first_resting: OnceCell::new(),
            resting_until: None,
        }
    }

    /// Keeps addresses from being given: they have been chosen already.
    pub fn reserve(&mut self, addresses: impl Iterator<Item = Addr>) {
        for address in addresses {
            self.mark_taken(address);
        }
    }

    /// Chooses the address of a claim: the one that the pool has pre-allocated for it, the one that
    /// it wants, or any. The error says why it gets none, in metal3's words where metal3 has some.
    pub fn allocate(&mut self, lease: &IpLease) -> Result<Addr, String> {
        let pre_allocated = self.pool.pre_allocated_address_of(&lease.name_in_pool());
        let wanted = wanted_address(lease)?;
        let address = match (pre_allocated, wanted) {
            (Some(pre_allocated), Some(wanted)) if pre_allocated != wanted => {
                return Err("PreAllocation and requested ip address are conflicting".into());
            }
            (Some(pre_allocated), _) => self.allocate_pre_allocated(pre_allocated)?,
            (None, Some(wanted)) => self.allocate_wanted(wanted)?,
            (None, None) => self.allocate_any(lease)?,
        };
        self.mark_taken(address);
        Ok(address)
    }

    /// Remembers that an address was given, so that no later claim of this pass gets it.
    fn mark_taken(&mut self, address: Addr) {
        self.taken.insert(address);
        let Some(ranges) = &mut self.counted_ranges else { return };
        if let Some(index) = ranges.iter().position(|range| range.contains(address)) {
            let range = ranges.swap_remove(index);
            ranges.extend(range.subtract(&[IpRange::single(address)]));
        }
    }

    /// Gives out the address that the pool keeps for the name of this claim. It may be reserved,
    /// but must lie in a range of the pool. The error is for people.
    fn allocate_pre_allocated(&mut self, address: Addr) -> Result<Addr, String> {
        if self.pool.range_index_of(address).is_none() {
            return Err("Pre-allocated IP out of bounds".into());
        }
        if !self.is_free(address) {
            return Err(NOT_AVAILABLE.into());
        }
        self.refuse_resting(address)
    }

    /// Gives out the address that a claim asks for by its annotation. It must be one that anybody
    /// may be given. The error is for people.
    fn allocate_wanted(&mut self, address: Addr) -> Result<Addr, String> {
        if !self.pool.ranges().any(|(_, range)| range.contains(address)) {
            return Err(format!("requested IP {address} is outside the pool"));
        }
        if !self.is_open(address) || !self.is_free(address) {
            return Err(NOT_AVAILABLE.into());
        }
        self.refuse_resting(address)
    }

    /// Returns the address, unless it was released so recently that it still rests.
    fn refuse_resting(&mut self, address: Addr) -> Result<Addr, String> {
        match self.rests_until(address) {
            Some(until) => Err(self.note_resting(address, until)),
            None => Ok(address),
        }
    }

    fn is_open(&self, address: Addr) -> bool {
        self.open_ranges.contains(address)
    }

    fn is_free(&self, address: Addr) -> bool {
        if self.taken.contains(&address) {
            return false;
        }
        let was_freed = self.freed.contains(&address) && !self.pool.remembers_releases();
        was_freed || self.book.holder(&self.pool.metadata.namespace, address).is_none()
    }

    /// When an address that was released may be leased again; none if it may be leased now.
    fn rests_until(&self, address: Addr) -> Option<Time> {
        let delay = self.pool.reuse_delay();
        if delay.0 == 0 {
            return None;
        }
        let until = self.book.released_at(self.pool, address)?.plus(delay);
        (until > self.tick.now).then_some(until)
    }

    /// Chooses an address by the strategy of the pool; one that was given back in this pass only if
    /// no other is left. The error is for people: when the next address has rested, or that there
    /// is none.
    fn allocate_any(&mut self, lease: &IpLease) -> Result<Addr, String> {
        let address = match self.pool.strategy() {
            AllocationStrategy::Random => self.draw(lease),
            AllocationStrategy::Sequential => self.next_in_order(),
            AllocationStrategy::LeastRecent => self.next_in_order().or_else(|| self.next_rested()),
        };
        if let Some(address) = address.or_else(|| self.just_freed()) {
            return Ok(address);
        }
        match self.first_resting() {
            Some((until, address)) => Err(self.note_resting(address, until)),
            None => Err(EXHAUSTED.into()),
        }
    }

    /// The first of the addresses that rest, and when it can be leased again.
    fn first_resting(&self) -> Option<(Time, Addr)> {
        let delay = self.pool.reuse_delay();
        if delay.0 == 0 {
            return None;
        }
        *self.first_resting.get_or_init(|| self.find_first_resting(delay))
    }

    /// Looks through all released addresses for the one whose rest of `delay` ends first; of two at
    /// the same time the lower address counts.
    fn find_first_resting(&self, delay: Span) -> Option<(Time, Addr)> {
        let mut released = self.released_before(Time(i64::MAX));
        released.extend(self.freed.iter().map(|address| (*address, self.tick.now)));
        let mut first: Option<(Time, Addr)> = None;
        for (address, released_at) in released {
            let until = released_at.plus(delay);
            let is_sooner = first.is_none_or(|first| (until, address) < first);
            if is_sooner
                && until > self.tick.now
                && self.is_open(address)
                && !self.taken.contains(&address)
            {
                first = Some((until, address));
            }
        }
        first
    }

    /// Notes until when a claim waits for an address, and says so. The message names the instant,
    /// not the time that is left, so that it stays the same until then.
    fn note_resting(&mut self, address: Addr, until: Time) -> String {
        let soonest = self.resting_until.map_or(until, |earlier| earlier.min(until));
        self.resting_until = Some(soonest);
        format!("{address} was just released and can be leased again at {until}")
    }

    /// An address that was given back in this pass, for when there is no other. Pools that remember
    /// when an address was released let it rest first.
    fn just_freed(&self) -> Option<Addr> {
        if self.pool.remembers_releases() {
            return None;
        }
        let open = self.freed.iter().copied().filter(|address| self.is_open(*address));
        open.filter(|address| self.is_free(*address)).min()
    }

    /// The next free address in the pool's order. Rested ones are in their places among the others,
    /// but for a pool that prefers those that were never leased.
    fn next_in_order(&mut self) -> Option<Addr> {
        let rested = match self.pool.strategy() {
            AllocationStrategy::LeastRecent => None,
            AllocationStrategy::Random | AllocationStrategy::Sequential => self.next_rested(),
        };
        let Some(fresh) = self.next_fresh() else { return rested };
        let Some(rested) = rested else { return Some(fresh) };
        if self.place_in_order(fresh) <= self.place_in_order(rested) {
            return Some(fresh);
        }
        // The fresh one is not taken, so it comes first next time.
        let end = self.current_range.map_or(fresh, |range| range.end);
        self.current_range = Some(IpRange { start: fresh, end });
        Some(rested)
    }

    fn place_in_order(&self, address: Addr) -> (Option<usize>, Addr) {
        (self.pool.range_index_of(address), address)
    }

    /// The next address in the book's free ranges, which has never been leased or is not
    /// remembered.
    fn next_fresh(&mut self) -> Option<Addr> {
        loop {
            while let Some(range) = self.current_range {
                let address = range.start;
                let next = address.0.checked_add(1).map(Addr);
                let rest = next.map(|start| IpRange { start, ..range });
                self.current_range = rest.filter(|rest| rest.start <= rest.end);
                if !self.taken.contains(&address) {
                    return Some(address);
                }
            }
            if let Some(range) = self.free_ranges.next() {
                self.current_range = Some(range);
                continue;
            }
            if self.is_book_read {
                return None;
            }
            let ranges = self.book.free_ranges(self.pool, self.read_until);
            self.is_book_read = ranges.is_empty();
            self.read_until = ranges.last().map(|range| range.end);
            self.free_ranges = ranges.into_iter();
        }
    }

    /// The first address in the pool's order that was released and has rested long enough.
    fn next_rested(&mut self) -> Option<Addr> {
        if !self.pool.remembers_releases() {
            return None;
        }
        loop {
            while let Some(address) = self.rested.front().copied() {
                if self.is_open(address) && !self.taken.contains(&address) {
                    return Some(address);
                }
                self.rested.pop_front();
            }
            let rested =
                self.book.released_addresses(self.pool, self.rested_since(), self.last_rested);
            self.last_rested = Some(*rested.last()?);
            self.rested.extend(rested.into_iter().map(|(address, _)| address));
        }
    }

    /// What was released before this may be leased again.
    fn rested_since(&self) -> Time {
        Time(self.tick.now.0.saturating_sub(self.pool.reuse_delay().0))
    }

    /// Reads from the book all addresses that were released up to a time, part by part.
    fn released_before(&self, before: Time) -> Vec<(Addr, Time)> {
        let mut released: Vec<(Addr, Time)> = Vec::new();
        loop {
            let part = self.book.released_addresses(self.pool, before, released.last().copied());
            if part.is_empty() {
                return released;
            }
            released.extend(part);
        }
    }

    /// Draws a free address, each as likely as any other.
    fn draw(&mut self, lease: &IpLease) -> Option<Addr> {
        if self.open_ranges.is_empty() {
            return None;
        }
        let owner = lease.key().to_string();
        if self.counted_ranges.is_none()
            && !self.is_scarce()
            && let Some(address) = self.draw_by_trial(&owner)
        {
            return Some(address);
        }
        // Few are left, so they are counted and one of them is drawn.
        if self.counted_ranges.is_none() {
            self.counted_ranges = Some(self.count_free_ranges());
        }
        let ranges = self.counted_ranges.as_deref().unwrap_or_default();
        let total = total_size(ranges);
        let place = self.tick.random_bits("address", &owner, DRAWS).checked_rem(total)?;
        address_at(ranges, place)
    }

    /// Whether so few addresses are left that drawing one takes long. The book does not change during
    /// a step, so it is asked once.
    fn is_scarce(&self) -> bool {
        *self.is_scarce.get_or_init(|| self.book.is_scarce(self.pool))
    }

    /// Draws from all open addresses until one is free; none if that takes too long.
    fn draw_by_trial(&self, owner: &str) -> Option<Addr> {
        let total = self.open_ranges.address_count();
        for attempt in 0..DRAWS {
            let place = self.tick.random_bits("address", owner, attempt).checked_rem(total)?;
            let address = self.open_ranges.address_at(place)?;
            if self.is_free(address) && self.rests_until(address).is_none() {
                return Some(address);
            }
        }
        None
    }

    /// All that is free, with what has rested.
    fn count_free_ranges(&self) -> Vec<IpRange> {
        let mut ranges: Vec<IpRange> = Vec::new();
        let mut read_until = None;
        loop {
            let part = self.book.free_ranges(self.pool, read_until);
            let Some(last) = part.last() else { break };
            read_until = Some(last.end);
            ranges.extend(part);
        }
        if self.pool.remembers_releases() {
            let rested = self.released_before(self.rested_since()).into_iter();
            let open = rested.filter(|(address, _)| self.is_open(*address));
            ranges.extend(open.map(|(address, _)| IpRange::single(address)));
        }
        let taken: Vec<IpRange> = self.taken.iter().copied().map(IpRange::single).collect();
        ranges.into_iter().flat_map(|range| range.subtract(&taken)).collect()
    }
}

/// The address that a claim asks for with its annotation.
fn wanted_address(lease: &IpLease) -> Result<Option<Addr>, String> {
    let Some(annotation) = lease.requested_address() else { return Ok(None) };
    let wanted = annotation.parse::<Addr>().map_err(|_| {
        format!("Invalid ipAddress annotation \"{annotation}\": not a valid IP address")
    })?;
    Ok(Some(wanted))
}

fn total_size(ranges: &[IpRange]) -> u128 {
    ranges.iter().fold(0_u128, |total, range| total.saturating_add(range.address_count()))
}

/// The address at a place, counted from 0 over all ranges.
fn address_at(ranges: &[IpRange], mut place: u128) -> Option<Addr> {
    for range in ranges {
        if place < range.address_count() {
            return Some(Addr(range.start.0 + place));
        }
        place -= range.address_count();
    }
    None
}
