//! Random histories of a pool of addresses, compared with a plain map: no address is leased twice
//! or lost, and every count is exact, however addresses are spelled.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::sandbox::{Sandbox, jsonpath};

/// A step of a history. Addresses are counted from the first one of the subnet.
#[derive(Clone, Debug)]
enum Step {
    /// A claim takes any address.
    Claim(u8),
    /// A claim asks for this address.
    Wanted(u8, u8),
    Release(u8),
    /// From this address so many more are reserved.
    Reserve(u8, u8),
    /// The last reservation is removed.
    Open,
}

#[derive(Clone, Debug)]
struct History {
    v6: bool,
    strategy: &'static str,
    /// First and last of each range, counted from the subnet's first address.
    ranges: Vec<(u8, u8)>,
    gateway: u8,
    steps: Vec<Step>,
}

fn histories() -> impl Strategy<Value = History> {
    let step = prop_oneof![
        6 => (0..12_u8).prop_map(Step::Claim),
        3 => (0..12_u8, 0..64_u8).prop_map(|(name, address)| Step::Wanted(name, address)),
        4 => (0..12_u8).prop_map(Step::Release),
        1 => (0..64_u8, 0..5_u8).prop_map(|(first, count)| Step::Reserve(first, count)),
        1 => Just(Step::Open),
    ];
    let strategy = prop_oneof![Just("random"), Just("sequential"), Just("least-recently-used")];
    let ranges = prop_oneof![
        Just(vec![(0, 7)]),
        Just(vec![(4, 6), (16, 20), (63, 63)]),
        Just(vec![(0, 63)]),
        Just(vec![(30, 33), (2, 3)]),
    ];
    let steps = prop::collection::vec(step, 1..30);
    (any::<bool>(), strategy, ranges, 0..8_u8, steps).prop_map(
        |(v6, strategy, ranges, gateway, steps)| History { v6, strategy, ranges, gateway, steps },
    )
}

/// What the pool should be: addresses by the number of their claim, and reserved ranges.
struct Model {
    history: History,
    held: BTreeMap<u8, u8>,
    reserved: Vec<(u8, u8)>,
}

impl Model {
    fn text(&self, address: u8) -> String {
        if self.history.v6 {
            return Ipv6Addr::from((0x2001_0db8_u128 << 96) + u128::from(address)).to_string();
        }
        Ipv4Addr::from(0x0a00_0000 + u32::from(address)).to_string()
    }

    /// The same address in an unusual spelling, if there is one.
    fn unusual_text(&self, address: u8) -> String {
        if self.history.v6 {
            return format!("2001:0DB8:0:0:0000:0:0:{address:04X}");
        }
        self.text(address)
    }

    /// Whether an address is in a range, and neither the gateway nor one that no host may have.
    fn is_usable(&self, address: u8) -> bool {
        // Of the 64 addresses of the subnet the first is that of the network; in IPv4 the last is
        // the broadcast address.
        let is_special = address == 0 || (!self.history.v6 && address == 63);
        address != self.history.gateway
            && !is_special
            && is_in_ranges(&self.history.ranges, address)
    }

    fn is_open(&self, address: u8) -> bool {
        self.is_usable(address) && !is_in_ranges(&self.reserved, address)
    }

    fn is_held(&self, address: u8) -> bool {
        self.held.values().any(|held| *held == address)
    }

    fn free(&self) -> Vec<u8> {
        let addresses = self.history.ranges.iter().flat_map(|(first, last)| *first..=*last);
        addresses.filter(|address| self.is_open(*address) && !self.is_held(*address)).collect()
    }

    /// The numbers of usable, leased, reserved and free addresses, as `get ippool` shows them.
    fn counts(&self) -> String {
        let usable: Vec<u8> = (0..64).filter(|address| self.is_usable(*address)).collect();
        let mut reserved = usable.clone();
        reserved.retain(|address| !self.is_open(*address) && !self.is_held(*address));
        format!("{} {} {} {}", usable.len(), self.held.len(), reserved.len(), self.free().len())
    }
}

fn is_in_ranges(ranges: &[(u8, u8)], address: u8) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&address))
}

/// Plays a history by commands, and compares the pool with the model after every step.
fn play(history: &History) {
    let sandbox = Sandbox::new();
    let mut model = Model { history: history.clone(), held: BTreeMap::new(), reserved: Vec::new() };
    let prefix = if history.v6 { "122" } else { "26" };
    let strategy = history.strategy;
    let gateway = model.unusual_text(history.gateway);
    let ranges: Vec<String> = history
        .ranges
        .iter()
        .map(|(first, last)| format!("--range {}-{}", model.text(*first), model.text(*last)))
        .collect();
    sandbox.ok(&format!(
        "ippool create p --prefix {prefix} --allocation {strategy} --gateway {gateway} {}",
        ranges.join(" ")
    ));
    for step in &history.steps {
        do_step(&sandbox, &mut model, step);
        let row = sandbox.ok("get ippool p --no-headers -o wide");
        let words: Vec<&str> = row.split_whitespace().rev().take(6).collect();
        assert_eq!([words[5], words[4], words[3], words[1]].join(" "), model.counts(), "{step:?}");
    }
    let addresses = jsonpath(&sandbox, "ipaddress", "{.items[*].spec.address}");
    let mut listed: Vec<&str> = addresses.split_whitespace().collect();
    let mut held: Vec<String> = model.held.values().map(|address| model.text(*address)).collect();
    listed.sort_unstable();
    held.sort_unstable();
    assert_eq!(listed, held);
    sandbox.ok("doctor");
}

fn do_step(sandbox: &Sandbox, model: &mut Model, step: &Step) {
    match step {
        Step::Claim(name) => claim_address(sandbox, model, *name, None),
        Step::Wanted(name, address) => claim_address(sandbox, model, *name, Some(*address)),
        Step::Release(name) => {
            let ran = sandbox.run(&format!("ip release c{name}"));
            assert_eq!(ran.code, if model.held.remove(name).is_some() { 0 } else { 3 });
        }
        Step::Reserve(first, count) => {
            let last = (first + count).min(63);
            let range = format!("{}-{}", model.unusual_text(*first), model.text(last));
            let is_in_pool =
                model.history.ranges.iter().any(|(start, end)| first <= end && *start <= last);
            let ran = sandbox.run(&format!("ip reserve p {range} --comment kept"));
            assert_eq!(ran.code, if is_in_pool { 0 } else { 2 }, "{}", ran.err);
            if is_in_pool {
                model.reserved.retain(|reserved| *reserved != (*first, last));
                model.reserved.push((*first, last));
            }
        }
        Step::Open => {
            let Some((first, last)) = model.reserved.pop() else { return };
            let range = format!("{}-{}", model.text(first), model.text(last));
            sandbox.ok(&format!("ip reserve p {range} --remove"));
        }
    }
}

/// Claims any address, or the one that is wanted.
fn claim_address(sandbox: &Sandbox, model: &mut Model, name: u8, wanted: Option<u8>) {
    let option = wanted.map(|address| format!("--address {}", model.unusual_text(address)));
    let command = format!("ip claim p c{name} {}", option.unwrap_or_default());
    let ran = sandbox.run(&command);
    if let Some(held) = model.held.get(&name) {
        if wanted.is_some_and(|address| address != *held) {
            // The claim has another address.
            assert_eq!(ran.code, 4, "{command}: {}{}", ran.out, ran.err);
        } else {
            // Claimed again it is the same lease.
            assert_eq!((ran.code, ran.out.trim()), (0, &*model.text(*held)), "{}", ran.err);
        }
        return;
    }
    let free = model.free();
    let is_possible = wanted.map_or(!free.is_empty(), |address| free.contains(&address));
    let code = if is_possible { 0 } else { 6 };
    assert_eq!(ran.code, code, "{command}: {}{}", ran.out, ran.err);
    if !is_possible {
        return;
    }
    let leased = *free.iter().find(|address| model.text(**address) == ran.out.trim()).unwrap();
    assert!(wanted.is_none_or(|address| address == leased));
    if model.history.strategy == "sequential" && wanted.is_none() {
        assert_eq!(leased, free[0], "{free:?}");
    }
    model.held.insert(name, leased);
}

/// Scenarios F30 and F38.
#[test]
fn no_address_is_leased_twice_or_lost() {
    let mut runner =
        TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    runner
        .run(&histories(), |history| {
            play(&history);
            Ok(())
        })
        .unwrap();
}

#[test]
fn addresses_that_are_reserved_twice_count_once() {
    let steps = vec![Step::Claim(3), Step::Reserve(14, 3), Step::Reserve(13, 4)];
    let ranges = vec![(16, 20)];
    play(&History { v6: false, strategy: "sequential", ranges, gateway: 0, steps });
}
