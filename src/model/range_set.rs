//! Many ranges of addresses at once, such as the gaps between pre-allocated addresses: an address is
//! found in them, and one is drawn from them, in logarithmic time.

use super::address::{Addr, IpRange};

/// Ranges that have no address in common, each with the position of the entry of a pool that it is
/// part of.
#[derive(Debug)]
pub struct RangeSet {
    /// Each range with its entry, by address.
    by_address: Vec<(IpRange, usize)>,
    /// The ranges in the order in which they were given.
    in_order: Vec<IpRange>,
    /// How many addresses there are up to the end of each range, in the same order.
    counts: Vec<u128>,
}

impl RangeSet {
    /// Sorts the ranges of a pool. Each comes with the position of its entry in the pool, from 0.
    /// They may not overlap.
    pub fn new(ranges: Vec<(usize, IpRange)>) -> Self {
        let mut by_address: Vec<(IpRange, usize)> =
            ranges.iter().map(|(entry, range)| (*range, *entry)).collect();
        by_address.sort_unstable();
        let in_order: Vec<IpRange> = ranges.into_iter().map(|(_, range)| range).collect();
        let mut counts = Vec::with_capacity(in_order.len());
        let mut count: u128 = 0;
        for range in &in_order {
            count = count.saturating_add(range.address_count());
            counts.push(count);
        }
        Self { by_address, in_order, counts }
    }

    /// Whether the pool has no ranges.
    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// How many addresses there are.
    pub fn address_count(&self) -> u128 {
        self.counts.last().copied().unwrap_or_default()
    }

    /// The entry of the range that has an address; none if no range has it.
    pub fn entry_of(&self, address: Addr) -> Option<usize> {
        let following = self.by_address.partition_point(|(range, _)| range.start <= address);
        let (range, entry) = self.by_address.get(following.checked_sub(1)?)?;
        range.contains(address).then_some(*entry)
    }

    /// Whether an address is in any of the ranges.
    pub fn contains(&self, address: Addr) -> bool {
        self.entry_of(address).is_some()
    }

    /// The address at a place, counted from 0 over all ranges in the order in which they were given.
    pub fn address_at(&self, place: u128) -> Option<Addr> {
        let position = self.counts.partition_point(|count| *count <= place);
        let range = self.in_order.get(position)?;
        let before = position.checked_sub(1).and_then(|previous| self.counts.get(previous));
        Some(Addr(range.start.0 + (place - before.copied().unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[&str]) -> RangeSet {
        RangeSet::new(ranges.iter().map(|range| range.parse().unwrap()).enumerate().collect())
    }

    fn address(address: &str) -> Addr {
        address.parse().unwrap()
    }

    #[test]
    fn an_address_is_found_in_the_range_that_has_it() {
        let ranges = set(&["10.0.0.8-10.0.0.9", "10.0.0.1-10.0.0.3", "2001:db8::1"]);
        for (wanted, entry) in [
            ("10.0.0.0", None),
            ("10.0.0.1", Some(1)),
            ("10.0.0.3", Some(1)),
            ("10.0.0.4", None),
            ("10.0.0.9", Some(0)),
            ("10.0.0.10", None),
            ("2001:db8::1", Some(2)),
            ("2001:db8::2", None),
            ("::", None),
        ] {
            assert_eq!(ranges.entry_of(address(wanted)), entry, "{wanted}");
        }
        assert!(!set(&[]).contains(address("10.0.0.1")) && set(&[]).is_empty());
    }

    #[test]
    fn each_place_is_one_address_in_the_order_of_the_ranges() {
        let ranges = set(&["10.0.0.8-10.0.0.9", "10.0.0.1", "2001:db8::1-2001:db8::2"]);
        assert_eq!(ranges.address_count(), 5);
        let places: Vec<String> =
            (0..6).filter_map(|place| Some(ranges.address_at(place)?.to_string())).collect();
        assert_eq!(places.join(" "), "10.0.0.8 10.0.0.9 10.0.0.1 2001:db8::1 2001:db8::2");
    }
}
