//! `ippool create|map`: pools of addresses, and a picture of one.

use std::collections::HashMap;
use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use crate::edits::put;
use crate::model::address::{Addr, Stretch, Subnet};
use crate::model::ip_pool::{ALLOCATION, IpPool, IpPoolSpec, REUSE_DELAY, Range};
use crate::model::kinds::Kind;
use crate::model::meta::Meta;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::output::{Answer, Name, clean};
use crate::rules;
use crate::store::Store;

use crate::commands::{Context, Verb, scope};

#[derive(Args)]
pub struct Create {
    /// Name of the pool
    #[arg(value_name = "NEW")]
    name: String,
    /// A-B, A or A/LENGTH; once for each
    #[arg(long, value_name = "RANGE", required = true)]
    range: Vec<String>,
    /// Gateway, never leased
    #[arg(long)]
    gateway: Option<String>,
    /// Length of the network prefix; that of the subnet, unless given
    #[arg(long)]
    prefix: Option<i64>,
    /// DNS server; once for each
    #[arg(long)]
    dns: Vec<String>,
    /// random, sequential or least-recently-used
    #[arg(long, value_name = "STRATEGY")]
    allocation: Option<String>,
    /// How long an address rests that was released
    #[arg(long, value_name = "DURATION")]
    reuse_delay: Option<Span>,
}

impl Verb for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Make a pool of addresses";
    const EXAMPLE: &'static str =
        "poolctl ippool create dmz --range 192.168.200.0/24 --gateway 192.168.200.1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::IpPool, &self.name)?;
        let pools: Result<Vec<Range>, Refusal> =
            self.range.iter().map(|text| range(text)).collect();
        let notes = [
            (ALLOCATION, self.allocation.clone()),
            (REUSE_DELAY, self.reuse_delay.map(|delay| delay.to_string())),
        ];
        let notes = notes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let metadata = Meta {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            annotations: notes.collect(),
            ..Meta::default()
        };
        let spec = IpPoolSpec {
            pools: pools?,
            prefix: self.prefix,
            gateway: self.gateway.clone(),
            dns_servers: self.dns.clone(),
            ..IpPoolSpec::default()
        };
        let made = Object::IpPool(Box::new(IpPool { metadata, spec, ..IpPool::default() }));
        rules::check(&made)?;
        for warning in rules::warnings(&made) {
            context.warn(&warning);
        }
        let store = context.open()?;
        let what = [(Kind::IpPool, key.clone(), None)];
        let scope = scope::scope_of(&store, &what)?;
        let edit = |state: &mut State, tick: &Tick| {
            if state.ip_pools.find(&key).is_some() {
                return Err(Refusal::conflict(format!(
                    "there is an IPPool `{}` already",
                    key.name
                ))
                .next(format!("poolctl edit ippool {}", key.name)));
            }
            put(state, made, true, tick)
        };
        let (_, passed) = context.door(&store).change(&scope, &scope::needs_of(&what), edit)?;
        context.changed(Kind::IpPool, &key, "created")?;
        Ok(context.finish(&passed)?)
    }
}

fn range(text: &str) -> Result<Range, Refusal> {
    if let Ok(subnet) = text.parse::<Subnet>() {
        let prefix = Some(i64::from(subnet.prefix_length()));
        return Ok(Range { subnet: Some(text.into()), prefix, ..Range::default() });
    }
    let found: Stretch = text.parse().map_err(Refusal::usage)?;
    let (start, end) = (Some(found.start.to_string()), Some(found.end.to_string()));
    Ok(Range { start, end, ..Range::default() })
}

#[derive(Args)]
pub struct Map {
    /// IPPool
    #[arg(value_name = "IPPOOL")]
    name: String,
}

/// Addresses in a line.
const WIDTH: u128 = 64;
/// Lines of one range that are drawn; the rest is counted.
const LINES: u128 = 32;
/// Addresses beside the ranges that are drawn.
const BESIDE: usize = 64;
/// How an address is drawn, and what it is called.
const LETTERS: [(char, &str); 7] = [
    ('.', "free"),
    ('#', "leased"),
    ('p', "pre-allocated"),
    ('r', "reserved"),
    ('g', "gateway"),
    ('-', "never"),
    ('!', "conflict"),
];

impl Verb for Map {
    const NAME: &'static str = "map";
    const ABOUT: &'static str = "Draw a pool: what is free, leased, kept, in conflict";
    const EXAMPLE: &'static str = "poolctl ippool map lan";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let pool = context.find::<IpPool>(&store, &self.name)?;
        let answer = if context.wants_documents() {
            Answer::default().with_list(stretches(&pool, &store)?)
        } else {
            Answer::text(picture(&pool, &store)?)
        };
        context.answer(answer.with_name(Name::of(Kind::IpPool, &pool.metadata.key())))
    }
}

/// A pool for people: its addresses as letters, and their counts.
fn picture(pool: &IpPool, store: &Store) -> Result<String, Refusal> {
    let mut out = String::new();
    for (_, whole) in pool.ranges() {
        draw(&mut out, pool, whole, store)?;
    }
    for (address, letter, claim) in beside(pool, store)?.iter().take(BESIDE) {
        let claim = clean(claim);
        let _ = writeln!(out, "{address}  {letter} {claim}, beside the ranges");
    }
    for (range, comment) in pool.reserved() {
        let _ = writeln!(out, "reserved {range} {}", clean(&comment));
    }
    let counts = pool.status.ip_addresses.clone().unwrap_or_default();
    let count =
        |name: &str| counts[name].as_str().map_or_else(|| counts[name].to_string(), str::to_owned);
    let _ = writeln!(
        out,
        "{} addresses: {} used, {} reserved, {} free{}",
        count("total"),
        count("used"),
        count("reserved"),
        count("free"),
        match count("outOfRange").as_str() {
            "0" => String::new(),
            many => format!(", {many} out of range"),
        }
    );
    let legend = LETTERS.map(|(letter, word)| format!("{letter} {word}")).join("  ");
    let _ = writeln!(out, "{legend}");
    Ok(out)
}

/// What is known of the addresses of a part of a pool.
struct Known<'a> {
    leases: HashMap<Addr, (String, bool)>,
    never: Vec<Addr>,
    gateways: Vec<Addr>,
    pre: Vec<(&'a str, Addr)>,
    reserved: Vec<(Stretch, String)>,
}

impl<'a> Known<'a> {
    fn of(pool: &'a IpPool, part: Stretch, store: &Store) -> Result<Self, Refusal> {
        let gateways = pool.spec.pools.iter().map(|one| &one.gateway).chain([&pool.spec.gateway]);
        Ok(Self {
            leases: store.leases_between(pool, part)?,
            never: pool.never(),
            gateways: gateways.filter_map(|text| text.as_ref()?.parse().ok()).collect(),
            pre: pool.pre_allocated().collect(),
            reserved: pool.reserved(),
        })
    }

    /// The claim that an address is pre-allocated for.
    fn owner(&self, address: Addr) -> Option<&str> {
        self.pre.iter().find(|(_, one)| *one == address).map(|(claim, _)| *claim)
    }

    /// The claim that has an address, or is to have it.
    fn claim(&self, address: Addr) -> Option<&str> {
        let has = self.leases.get(&address).map(|(claim, _)| claim.as_str());
        has.or_else(|| self.owner(address))
    }

    fn letter(&self, address: Addr) -> char {
        let owner = self.owner(address);
        let kept = || self.reserved.iter().any(|(range, _)| range.has(address));
        match self.leases.get(&address) {
            // Another pool's, another claim's, or nobody's to have.
            Some((_, false)) => '!',
            Some((claim, true)) if owner.is_some_and(|owner| owner != claim) => '!',
            Some(_) if self.never.contains(&address) => '!',
            Some(_) => '#',
            None if self.gateways.contains(&address) => 'g',
            None if self.never.contains(&address) => '-',
            None if owner.is_some() => 'p',
            None if kept() => 'r',
            None => '.',
        }
    }
}

/// A pool for programs: stretches of one state, each lease on its own.
fn stretches(pool: &IpPool, store: &Store) -> Result<Vec<Value>, Refusal> {
    let mut found = Vec::new();
    for (_, whole) in pool.ranges() {
        let known = Known::of(pool, whole, store)?;
        let mut single: Vec<Addr> = known.leases.keys().chain(&known.never).copied().collect();
        single.extend(known.pre.iter().map(|(_, address)| *address));
        single.retain(|address| whole.has(*address));
        single.sort_unstable();
        single.dedup();
        let mut parts: Vec<(Stretch, char)> =
            single.into_iter().map(|one| (Stretch::one(one), known.letter(one))).collect();
        let kept = known.reserved.iter().map(|(range, _)| (*range, 'r'));
        for (range, letter) in kept.chain([(whole, '.')]).filter(|(one, _)| one.meets(whole)) {
            let taken: Vec<Stretch> = parts.iter().map(|(one, _)| *one).collect();
            let (start, end) = (range.start.max(whole.start), range.end.min(whole.end));
            let left = Stretch { start, end }.without(&taken);
            parts.extend(left.into_iter().map(|one| (one, letter)));
        }
        parts.sort_unstable();
        let claim = |one: Stretch| known.claim(one.start);
        found.extend(parts.into_iter().map(|(one, letter)| told(one, letter, claim(one))));
    }
    for (address, letter, claim) in beside(pool, store)? {
        found.push(told(Stretch::one(address), letter, Some(claim.as_str())));
    }
    Ok(found)
}

fn told(one: Stretch, letter: char, claim: Option<&str>) -> Value {
    let word = LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, word)| *word);
    let mut document = json!({"start": one.start, "end": one.end, "state": word});
    if let Some(claim) = claim {
        document["claim"] = claim.into();
    }
    document
}

/// Leases and pre-allocations that are in no range.
fn beside(pool: &IpPool, store: &Store) -> Result<Vec<(Addr, char, String)>, Refusal> {
    let outside = |address: Addr| !pool.ranges().any(|(_, range)| range.has(address));
    let rows = store.leases_of(pool)?.into_iter();
    let leased = rows.filter_map(|one| Some((one.address?, '#', one.claim)));
    let mut found: Vec<(Addr, char, String)> =
        leased.filter(|(address, ..)| outside(*address)).collect();
    let known: Vec<Addr> = found.iter().map(|(address, ..)| *address).collect();
    let pre = pool.pre_allocated().filter(|(_, one)| outside(*one) && !known.contains(one));
    found.extend(pre.map(|(claim, address)| (address, 'p', claim.to_owned())));
    Ok(found)
}

/// Lines of a range that begin with their first address.
fn draw(out: &mut String, pool: &IpPool, whole: Stretch, store: &Store) -> Result<(), Refusal> {
    let lines = whole.size().div_ceil(WIDTH);
    let shown = lines.min(LINES);
    let end = Addr(whole.start.0.saturating_add(shown * WIDTH - 1).min(whole.end.0));
    let known = Known::of(pool, Stretch { start: whole.start, end }, store)?;
    let width = whole.start.to_string().len().max(end.to_string().len());
    for line in 0..shown {
        let first = whole.start.0 + line * WIDTH;
        let last = first.saturating_add(WIDTH - 1).min(whole.end.0);
        let picture: String = (first..=last).map(|one| known.letter(Addr(one))).collect();
        let _ = writeln!(out, "{:<width$}  {picture}", Addr(first).to_string());
    }
    if lines > shown {
        let rest = Stretch { start: Addr(whole.start.0 + shown * WIDTH), end: whole.end };
        let _ = writeln!(out, "{:<width$}  {} more", rest.start.to_string(), rest.size());
    }
    Ok(())
}
