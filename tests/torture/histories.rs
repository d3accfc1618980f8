//! Commands that run at the same time, and what each of them was told: clusters of a pool, and
//! addresses of another. Some order of them, one after the other, must explain all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sandbox::{Ran, Sandbox};
use crate::sim::dice::Dice;

use super::linear::{Event, Model, has_order};
use super::{Tally, points_of_each};

/// People who type at the same time, and how many commands each of them types.
const PEOPLE: u64 = 6;
const COMMANDS: usize = 8;
const CLUSTERS: usize = 6;
/// The pool has the addresses from 10.0.0.1 to this one.
const LAST_ADDRESS: u8 = 6;
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Lease,
    GiveBack,
    List,
}

/// What somebody was told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// This address or cluster.
    Leased(String),
    /// It waits for one.
    Waits,
    GivenBack,
    Names(BTreeSet<String>),
    Refused(i32),
}

#[derive(Clone, Debug)]
pub struct Deed {
    wish: Wish,
    name: &'static str,
    answer: Answer,
}

/// Addresses of a pool, of which the lowest free one is leased.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Addresses(BTreeMap<&'static str, u8>);

impl Model for Addresses {
    type Deed = Deed;

    fn after(&self, deed: &Deed) -> Option<Self> {
        let mut next = self.clone();
        let answer = match (deed.wish, self.0.get(deed.name)) {
            (Wish::List, _) => Answer::Names(self.0.keys().map(|name| (*name).into()).collect()),
            // Who asks again is told again.
            (Wish::Lease, Some(address)) => Answer::Leased(format!("10.0.0.{address}")),
            (Wish::Lease, None) => {
                let leased: BTreeSet<u8> = self.0.values().copied().collect();
                let free = (1..=LAST_ADDRESS).find(|address| !leased.contains(address));
                match free {
                    Some(address) => {
                        next.0.insert(deed.name, address);
                        Answer::Leased(format!("10.0.0.{address}"))
                    }
                    None => Answer::Refused(6),
                }
            }
            (Wish::GiveBack, Some(_)) => {
                next.0.remove(deed.name);
                Answer::GivenBack
            }
            (Wish::GiveBack, None) => Answer::Refused(3),
        };
        if answer == deed.answer { Some(next) } else { None }
    }
}

/// Clusters of a pool, each of which is used once. A claim stays until its cluster is destroyed,
/// which takes longer than a history.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Clusters {
    ready: BTreeSet<String>,
    claims: BTreeMap<&'static str, Option<String>>,
}

impl Model for Clusters {
    type Deed = Deed;

    fn after(&self, deed: &Deed) -> Option<Self> {
        let mut next = self.clone();
        let is_explained = match (deed.wish, self.claims.get(deed.name), &deed.answer) {
            (Wish::List, _, Answer::Names(names)) => {
                self.claims.keys().all(|name| names.contains(*name))
                    && names.len() == self.claims.len()
            }
            (Wish::Lease, Some(_), answer) => *answer == Answer::Refused(4),
            // It does not matter which, but it must be a free one.
            (Wish::Lease, None, Answer::Leased(cluster)) => {
                next.claims.insert(deed.name, Some(cluster.clone()));
                next.ready.remove(cluster)
            }
            (Wish::Lease, None, Answer::Waits) => {
                next.claims.insert(deed.name, None);
                self.ready.is_empty()
            }
            (Wish::GiveBack, Some(cluster), Answer::GivenBack) => {
                if cluster.is_none() {
                    next.claims.remove(deed.name);
                }
                true
            }
            (Wish::GiveBack, None, answer) => *answer == Answer::Refused(3),
            _ => false,
        };
        if is_explained { Some(next) } else { None }
    }
}

/// What is leased, and by which commands.
#[derive(Clone, Copy, Debug)]
enum Thing {
    Address,
    Cluster,
}

impl Thing {
    fn command(self, wish: Wish, name: &str) -> String {
        match (self, wish) {
            (Self::Address, Wish::Lease) => format!("ip claim lan {name}"),
            (Self::Address, Wish::GiveBack) => format!("ip release {name}"),
            (Self::Address, Wish::List) => "get ipclaim -o name".into(),
            (Self::Cluster, Wish::Lease) => format!("claim lab {name}"),
            (Self::Cluster, Wish::GiveBack) => format!("release {name}"),
            (Self::Cluster, Wish::List) => "get claim -o name".into(),
        }
    }

    /// What a command was told.
    fn read_answer(self, wish: Wish, ran: &Ran) -> Answer {
        if ran.code != 0 {
            return Answer::Refused(ran.code);
        }
        match (self, wish) {
            (_, Wish::GiveBack) => Answer::GivenBack,
            (_, Wish::List) => {
                let names = ran.out.lines().filter_map(|line| line.split('/').nth(1));
                Answer::Names(names.map(str::to_owned).collect())
            }
            (Self::Address, Wish::Lease) => Answer::Leased(ran.out.trim().to_owned()),
            (Self::Cluster, Wish::Lease) => {
                let cluster = ran.out.split("cluster/").nth(1);
                let cluster = cluster.and_then(|rest| rest.split_whitespace().next());
                cluster.map_or(Answer::Waits, |cluster| Answer::Leased(cluster.to_owned()))
            }
        }
    }
}

/// A state with clusters and addresses.
fn prepare() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", CLUSTERS);
    let range = format!("10.0.0.1-10.0.0.{LAST_ADDRESS}");
    sandbox.ok(&format!("ippool create lan --range {range} --allocation sequential"));
    sandbox
}

/// The clusters that can be claimed.
fn ready_clusters(sandbox: &Sandbox) -> BTreeSet<String> {
    let names = sandbox.ok("get cluster -q -o name");
    names.lines().map(|name| name.rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

/// Lets people type at the same time, as the seed says.
fn record(sandbox: &Sandbox, thing: Thing, seed: u64) -> Vec<Event<Deed>> {
    let clock = AtomicU64::new(0);
    let events = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for person in 0..PEOPLE {
            let (clock, events) = (&clock, &events);
            let mut dice = Dice::new(seed * PEOPLE + person);
            scope.spawn(move || {
                for _ in 0..COMMANDS {
                    let wishes = [Wish::Lease, Wish::Lease, Wish::GiveBack, Wish::List];
                    let (wish, name) = (dice.pick(&wishes), dice.pick(&NAMES));
                    let started = clock.fetch_add(1, Ordering::SeqCst);
                    let ran = sandbox.run(&thing.command(wish, name));
                    let ended = clock.fetch_add(1, Ordering::SeqCst);
                    let deed = Deed { wish, name, answer: thing.read_answer(wish, &ran) };
                    events.lock().unwrap().push(Event { started, ended, deed });
                }
            });
        }
    });
    events.into_inner().unwrap()
}

/// Whether what was told of a thing in a history has an order.
fn is_explained(thing: Thing, ready: BTreeSet<String>, events: &[Event<Deed>]) -> bool {
    match thing {
        Thing::Address => has_order(&Addresses::default(), events),
        Thing::Cluster => has_order(&Clusters { ready, claims: BTreeMap::new() }, events),
    }
}

#[test]
fn what_commands_at_the_same_time_were_told_has_an_order() {
    let rounds = points_of_each(2).min(60) as u64;
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for seed in 0..rounds {
        for thing in [Thing::Address, Thing::Cluster] {
            let sandbox = prepare();
            let ready = ready_clusters(&sandbox);
            let mut events = record(&sandbox, thing, seed);
            let doctor = sandbox.run("doctor -q");
            let held = is_explained(thing, ready, &events) && doctor.code == 0;
            tally.points += events.len();
            tally.fired += events.len();
            tally.held += if held { events.len() } else { 0 };
            if !held {
                events.sort_by_key(|event| event.started);
                failures.push(format!("{thing:?} {seed} {}: {events:#?}", doctor.out));
            }
        }
    }
    tally.note("commands at the same time");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// An event of a claim that was told of a cluster; None if it was told of none.
fn event_of_claim(name: &'static str, out: &str, started: u64, ended: u64) -> Option<Event<Deed>> {
    let ran = Ran { code: 0, out: out.to_owned(), err: String::new() };
    match Thing::Cluster.read_answer(Wish::Lease, &ran) {
        Answer::Waits => None,
        answer => Some(Event { started, ended, deed: Deed { wish: Wish::Lease, name, answer } }),
    }
}

/// An event of listing the claims when all is over.
fn event_of_list(sandbox: &Sandbox) -> Event<Deed> {
    let ran = sandbox.run(&Thing::Cluster.command(Wish::List, ""));
    let answer = Thing::Cluster.read_answer(Wish::List, &ran);
    Event { started: 8, ended: 9, deed: Deed { wish: Wish::List, name: "", answer } }
}

/// A claim stops in the middle of its commit, another one comes and goes, and the first goes on.
#[test]
fn a_claim_that_is_stopped_in_its_commit_keeps_others_from_its_cluster() {
    if !crate::sandbox::has_program("strace") {
        return;
    }
    let sandbox = prepare();
    let ready = ready_clusters(&sandbox);
    let ran = sandbox.shell(
        "strace -qq -o /dev/null -e trace=pwrite64 -e inject=pwrite64:signal=STOP:when=12 \
             poolctl claim lab a > $HOME/a.out 2>&1 &
         stopped=
         for try in $(seq 100); do
             read pid rest < $HOME/state.db.lock || true
             grep -q '(poolctl) [tT] ' /proc/$pid/stat 2>/dev/null && stopped=yes && break
             sleep 0.1
         done
         poolctl claim lab b --lock-timeout 1s > $HOME/b.out 2>&1
         [ -z \"$stopped\" ] || kill -CONT $pid
         wait; echo $stopped; cat $HOME/a.out; echo; echo BOTH; cat $HOME/b.out",
    );
    assert!(ran.out.starts_with("yes"), "nothing was stopped: {}{}", ran.out, ran.err);
    let (first, second) = ran.out.split_once("BOTH").unwrap();
    let mut events = vec![event_of_list(&sandbox)];
    events.extend(event_of_claim("a", first, 0, 3));
    events.extend(event_of_claim("b", second, 1, 2));
    assert!(events.len() > 1 && is_explained(Thing::Cluster, ready, &events), "{}", ran.out);
}

/// Whether the history of a program that takes no lock shows it. Two such programs read the same
/// state, and the one that writes last writes over what the other has written.
pub fn is_missing_lock_found() -> bool {
    let overwritten = prepare();
    let sandbox = overwritten.copy();
    let ready = ready_clusters(&sandbox);
    let (first, second) = (overwritten.ok("claim lab a"), sandbox.ok("claim lab b"));
    let mut events = vec![event_of_list(&sandbox)];
    events.extend(event_of_claim("a", &first, 0, 3));
    events.extend(event_of_claim("b", &second, 1, 2));
    !is_explained(Thing::Cluster, ready, &events)
}
