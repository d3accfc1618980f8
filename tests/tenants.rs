//! Random histories of a pool of addresses against a plain map: never one address twice, never a lost
//! one, every count exact, however addresses are spelled.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::sandbox::{Sandbox, jsonpath};

#[derive(Clone, Debug)]
enum Step {
    Claim(u8),
    Wanted(u8, u8),
    Release(u8),
    Reserve(u8, u8),
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
        3 => (0..12_u8, 0..64_u8).prop_map(|(name, at)| Step::Wanted(name, at)),
        4 => (0..12_u8).prop_map(Step::Release),
        1 => (0..64_u8, 0..5_u8).prop_map(|(at, many)| Step::Reserve(at, many)),
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

/// The pool as a plain map has it.
struct Model {
    history: History,
    held: BTreeMap<u8, u8>,
    reserved: Vec<(u8, u8)>,
}

impl Model {
    fn text(&self, at: u8) -> String {
        if self.history.v6 {
            return Ipv6Addr::from((0x2001_0db8_u128 << 96) + u128::from(at)).to_string();
        }
        Ipv4Addr::from(0x0a00_0000 + u32::from(at)).to_string()
    }

    /// The same in other words.
    fn spelled(&self, at: u8) -> String {
        if self.history.v6 {
            return format!("2001:0DB8:0:0:0000:0:0:{at:04X}");
        }
        self.text(at)
    }

    fn usable(&self, at: u8) -> bool {
        // The subnet is of 64: its first is the network's own, its last the broadcast.
        let never = at == self.history.gateway || at == 0 || (!self.history.v6 && at == 63);
        !never && self.history.ranges.iter().any(|(from, to)| (*from..=*to).contains(&at))
    }

    fn open(&self, at: u8) -> bool {
        self.usable(at) && !self.reserved.iter().any(|(from, to)| (*from..=*to).contains(&at))
    }

    fn free(&self) -> Vec<u8> {
        let order = self.history.ranges.iter().flat_map(|(from, to)| *from..=*to);
        order.filter(|at| self.open(*at) && !self.held.values().any(|held| held == at)).collect()
    }

    fn counts(&self) -> String {
        let usable: Vec<u8> = (0..64).filter(|at| self.usable(*at)).collect();
        let used = self.held.len();
        let kept = usable.iter().filter(|at| !self.open(**at));
        let kept = kept.filter(|at| !self.held.values().any(|held| held == *at)).count();
        format!("{} {used} {kept} {}", usable.len(), self.free().len())
    }
}

fn replay(history: &History) {
    let sandbox = Sandbox::new();
    let mut model = Model { history: history.clone(), held: BTreeMap::new(), reserved: Vec::new() };
    let ranges = history.ranges.iter().flat_map(|(from, to)| {
        ["--range".to_owned(), format!("{}-{}", model.text(*from), model.text(*to))]
    });
    let prefix = if history.v6 { "122" } else { "26" };
    let mut create: Vec<String> =
        ["ippool", "create", "p", "--prefix", prefix, "--allocation", history.strategy]
            .map(str::to_owned)
            .to_vec();
    create.extend(["--gateway".into(), model.spelled(history.gateway)]);
    create.extend(ranges);
    sandbox.ok(&create.iter().map(String::as_str).collect::<Vec<_>>());
    for step in &history.steps {
        take(&sandbox, &mut model, step);
        let row = sandbox.ok(&["get", "ippool", "p", "--no-headers"]);
        let words: Vec<&str> = row.split_whitespace().rev().take(5).collect();
        assert_eq!([words[4], words[3], words[2], words[1]].join(" "), model.counts(), "{step:?}");
    }
    let listed = jsonpath(&sandbox, "ipaddress", "{.items[*].spec.address}");
    let mut listed: Vec<&str> = listed.split_whitespace().collect();
    let mut held: Vec<String> = model.held.values().map(|at| model.text(*at)).collect();
    listed.sort_unstable();
    held.sort_unstable();
    assert_eq!(listed, held);
    sandbox.ok(&["doctor"]);
}

fn take(sandbox: &Sandbox, model: &mut Model, step: &Step) {
    match step {
        Step::Claim(name) | Step::Wanted(name, _) => {
            let claim = format!("c{name}");
            let mut words = vec!["ip", "claim", "p", &claim];
            let spelled =
                if let Step::Wanted(_, at) = step { model.spelled(*at) } else { String::new() };
            if !spelled.is_empty() {
                words.extend(["--address", &spelled]);
            }
            let ran = sandbox.run(&words);
            let known = model.held.get(name).copied();
            let free = model.free();
            let wanted = if let Step::Wanted(_, at) = step { Some(*at) } else { None };
            if let Some(known) = known {
                if wanted.is_some_and(|at| at != known) {
                    // It has an address, and that is another one.
                    assert_eq!(ran.code, 4, "{step:?}: {}{}", ran.out, ran.err);
                    return;
                }
                // Claimed again it is the same lease.
                assert_eq!((ran.code, ran.out.trim()), (0, &*model.text(known)), "{}", ran.err);
                return;
            }
            let possible = wanted.map_or(!free.is_empty(), |at| free.contains(&at));
            assert_eq!(ran.code, if possible { 0 } else { 6 }, "{step:?}: {}{}", ran.out, ran.err);
            if !possible {
                return;
            }
            let found = *free.iter().find(|at| model.text(**at) == ran.out.trim()).unwrap();
            assert!(wanted.is_none_or(|at| at == found));
            if model.history.strategy == "sequential" && wanted.is_none() {
                assert_eq!(found, free[0], "{free:?}");
            }
            model.held.insert(*name, found);
        }
        Step::Release(name) => {
            let ran = sandbox.run(&["ip", "release", &format!("c{name}")]);
            assert_eq!(ran.code, if model.held.remove(name).is_some() { 0 } else { 3 });
        }
        Step::Reserve(at, many) => {
            let to = (at + many).min(63);
            let range = format!("{}-{}", model.spelled(*at), model.text(to));
            let met = model.history.ranges.iter().any(|(first, last)| at <= last && *first <= to);
            let ran = sandbox.run(&["ip", "reserve", "p", &range, "--comment", "kept"]);
            assert_eq!(ran.code, if met { 0 } else { 2 }, "{}", ran.err);
            if !met {
                return;
            }
            model.reserved.retain(|one| *one != (*at, to));
            model.reserved.push((*at, to));
        }
        Step::Open => {
            let Some((from, to)) = model.reserved.pop() else { return };
            let range = format!("{}-{}", model.text(from), model.text(to));
            sandbox.ok(&["ip", "reserve", "p", &range, "--remove"]);
        }
    }
}

/// F30, F38.
#[test]
fn no_address_is_leased_twice_or_lost() {
    let mut runner =
        TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    runner
        .run(&histories(), |history| {
            replay(&history);
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_is_reserved_twice_counts_once() {
    let steps = vec![Step::Claim(3), Step::Reserve(14, 3), Step::Reserve(13, 4)];
    let (ranges, strategy) = (vec![(16, 20)], "sequential");
    replay(&History { v6: false, strategy, ranges, gateway: 0, steps });
}
