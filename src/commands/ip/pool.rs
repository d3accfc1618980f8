//! `ippool create`: makes pools of addresses. `ippool map`: draws the addresses of a pool, a letter
//! each, or lists its ranges for programs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write;

use clap::Args;
use serde_json::{Value, json};

use crate::edits::{PutMode, put_object};
use crate::model::address::{Addr, IpRange, Subnet};
use crate::model::annotations::{ALLOCATION, REUSE_DELAY};
use crate::model::ip_pool::{IpPool, IpPoolSpec, Range};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::output::{Answer, Name, clean_line};
use crate::rules;
use crate::store::Store;

use crate::commands::list_printer::ListPrinter;
use crate::commands::scope::EditedObject;
use crate::commands::{Context, RunCommand, scope};

/// Arguments of `ippool create`.
#[derive(Args)]
pub struct Create {
    /// Name of the pool
    #[arg(value_name = "NEW")]
    name: String,
    /// Range: FIRST-LAST, ADDRESS or NETWORK/PREFIX; may be repeated
    #[arg(long, value_name = "RANGE", required = true)]
    range: Vec<String>,
    /// Gateway of the network; it is never leased
    #[arg(long)]
    gateway: Option<String>,
    /// Prefix length of the network in bits; by default that of the range
    #[arg(long)]
    prefix: Option<i64>,
    /// DNS server; may be repeated
    #[arg(long)]
    dns: Vec<String>,
    /// How addresses are chosen: random, sequential or least-recently-used
    #[arg(long, value_name = "STRATEGY")]
    allocation: Option<String>,
    /// How long a released address is not leased again, such as 5m
    #[arg(long, value_name = "DURATION")]
    reuse_delay: Option<Span>,
}

impl RunCommand for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Create a pool of IP addresses";
    const EXAMPLE: &'static str =
        "poolctl ippool create dmz --range 192.168.200.0/24 --gateway 192.168.200.1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::IpPool, &self.name)?;
        let object = Object::IpPool(Box::new(self.make_pool(&key)?));
        rules::check_object(&object)?;
        for warning in rules::object_warnings(&object) {
            context.warn(&warning);
        }
        let store = context.open_or_create_state()?;
        let edited = [EditedObject::new(Kind::IpPool, key.clone())];
        let scope = scope::scope_of(&store, &edited)?;
        let needs = scope::needs_of(&edited);
        let (_, passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            if state.ip_pools.find(&key).is_some() {
                let problem = format!("there is an IPPool `{}` already", key.name);
                let next = format!("poolctl edit ippool {}", key.name);
                return Err(Refusal::conflict(problem).next(next));
            }
            put_object(state, object, PutMode::Apply, tick)
        })?;
        context.report_change(Kind::IpPool, &key, "created")?;
        Ok(context.report_pass(&passed)?)
    }
}

impl Create {
    fn make_pool(&self, key: &Key) -> Result<IpPool, Refusal> {
        let mut metadata =
            Meta { name: key.name.clone(), namespace: key.namespace.clone(), ..Meta::default() };
        if let Some(allocation) = &self.allocation {
            metadata.annotations.insert(ALLOCATION.to_owned(), allocation.clone());
        }
        if let Some(delay) = self.reuse_delay {
            metadata.annotations.insert(REUSE_DELAY.to_owned(), delay.to_string());
        }
        let spec = IpPoolSpec {
            pools: self.range.iter().map(|range| parse_range(range)).collect::<Result<_, _>>()?,
            prefix: self.prefix,
            gateway: self.gateway.clone(),
            dns_servers: self.dns.clone(),
            ..IpPoolSpec::default()
        };
        Ok(IpPool { metadata, spec, ..IpPool::default() })
    }
}

/// A range of addresses as the spec of a pool has it: a subnet, or its ends.
fn parse_range(range: &str) -> Result<Range, Refusal> {
    if let Ok(subnet) = range.parse::<Subnet>() {
        let prefix = Some(i64::from(subnet.prefix_length()));
        return Ok(Range { subnet: Some(range.into()), prefix, ..Range::default() });
    }
    let IpRange { start, end } = range.parse::<IpRange>().map_err(Refusal::usage)?;
    Ok(Range { start: Some(start.to_string()), end: Some(end.to_string()), ..Range::default() })
}

/// Arguments of `ippool map`, which only reads the state.
#[derive(Args)]
pub struct Map {
    /// IPPool to draw
    #[arg(value_name = "IPPOOL")]
    name: String,
}

/// Addresses in a line.
const LINE_WIDTH: u128 = 64;
/// A range with more lines is not drawn whole.
const MAX_LINES: u128 = 32;
/// Lines that are drawn of such a range.
const MAX_BUSY_LINES: usize = 64;
/// Addresses out of the ranges that are drawn.
const MAX_OUTSIDE: usize = 64;
/// How many leases are read at once for programs.
const LEASES_OF_PORTION: usize = 1024;
/// How many leases fill all lines that are drawn of a range: 64 lines of 64 addresses.
const LEASES_OF_DRAWING: usize = 64 * MAX_BUSY_LINES;
/// The letter of a leased address.
const LEASED: char = '#';
/// The letter of a reserved address.
const RESERVED: char = 'r';
/// The states of an address: the letter that is drawn, and the word for programs.
const LETTERS: [(char, &str); 8] = [
    ('.', "free"),
    (LEASED, "leased"),
    ('~', "resting"),
    ('p', "pre-allocated"),
    (RESERVED, "reserved"),
    ('g', "gateway"),
    ('-', "never"),
    ('!', "conflict"),
];
/// So many letters are explained on a line.
const LETTERS_OF_LINE: usize = 4;

impl RunCommand for Map {
    const NAME: &'static str = "map";
    const ABOUT: &'static str = "Draw the addresses of a pool: free, leased, reserved, in conflict";
    const EXAMPLE: &'static str = "poolctl ippool map lan";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let pool = context.find_row::<IpPool>(&store, &self.name)?;
        let now = context.world.now();
        if ListPrinter::fits(&context.globals.output) {
            let mut printer = ListPrinter::new(context);
            store.read_snapshot(|| {
                visit_ranges(&pool, &store, now, &mut |range| printer.add(range))
            })?;
            return Ok(printer.finish()?);
        }
        let answer = if context.wants_documents() {
            let mut ranges = Vec::new();
            store.read_snapshot(|| {
                visit_ranges(&pool, &store, now, &mut |range| {
                    ranges.push(range);
                    Ok(())
                })
            })?;
            Answer::default().with_list(ranges)
        } else {
            Answer::text(draw_pool(&pool, &store, now)?)
        };
        context.answer(answer.with_name(Name::of(Kind::IpPool, &pool.metadata.key())))
    }
}

/// A pool for people: its addresses as letters, and their counts.
fn draw_pool(pool: &IpPool, store: &Store, now: Time) -> Result<String, Refusal> {
    let mut out = String::new();
    let ends = pool.ranges().flat_map(|(_, range)| [range.start, range.end]);
    let width = ends.map(|address| address.to_string().len()).max().unwrap_or_default();
    for (_, range) in pool.ranges() {
        let states = AddressStates::load(pool, range, LEASES_OF_DRAWING, store, now)?;
        draw_range(&mut out, &states, range, width);
    }
    for OutsideAddress { address, letter, claim } in
        find_outside_addresses(pool, store)?.iter().take(MAX_OUTSIDE)
    {
        let _ = writeln!(out, "{address}  {letter} {}, outside of the ranges", clean_line(claim));
    }
    for (range, comment) in pool.reserved_ranges() {
        let _ = writeln!(out, "reserved {range} {}", clean_line(&comment));
    }
    let counts = pool.status.ip_addresses.clone().unwrap_or_default();
    let out_of_range = match count_of(&counts, "outOfRange").as_str() {
        "0" => String::new(),
        count => format!(", {count} out of range"),
    };
    let resting = match count_of(&counts, "resting").as_str() {
        "0" => String::new(),
        count => format!("{count} resting, "),
    };
    let _ = writeln!(
        out,
        "{} addresses: {} used, {} reserved, {resting}{} free{out_of_range}",
        count_of(&counts, "total"),
        count_of(&counts, "used"),
        count_of(&counts, "reserved"),
        count_of(&counts, "free"),
    );
    for letters in LETTERS.chunks(LETTERS_OF_LINE) {
        let legend: Vec<String> =
            letters.iter().map(|(letter, word)| format!("{letter} {word}")).collect();
        let _ = writeln!(out, "{}", legend.join("  "));
    }
    Ok(out)
}

/// A count of the status; very large ones are strings.
fn count_of(counts: &Value, name: &str) -> String {
    counts[name].as_str().map_or_else(|| counts[name].to_string(), str::to_owned)
}

/// What determines the states of the addresses in a range of a pool.
struct AddressStates<'a> {
    /// The claim of each leased address, and whether its lease is of this pool.
    leases: BTreeMap<Addr, (String, bool)>,
    never_leased: Vec<Addr>,
    gateways: Vec<Addr>,
    pre_allocated: Vec<(&'a str, Addr)>,
    reserved: Vec<(IpRange, String)>,
    /// Addresses that were released and are not leased again yet.
    resting: HashSet<Addr>,
}

impl<'a> AddressStates<'a> {
    /// Reads the first leases in a range of a pool, `limit` at most, also those of other pools, and
    /// what the pool's spec says about its addresses.
    fn load(
        pool: &'a IpPool,
        range: IpRange,
        limit: usize,
        store: &Store,
        now: Time,
    ) -> Result<Self, Refusal> {
        let gateways =
            pool.spec.pools.iter().map(|range| &range.gateway).chain([&pool.spec.gateway]);
        Ok(Self {
            leases: store.find_leases_in_range(pool, range, limit)?,
            never_leased: pool.unusable_addresses(),
            gateways: gateways.filter_map(|gateway| gateway.as_ref()?.parse().ok()).collect(),
            pre_allocated: pool.pre_allocated_addresses().collect(),
            reserved: pool.reserved_ranges(),
            resting: store.find_resting_addresses(pool, range, now)?,
        })
    }

    /// The claim that an address is pre-allocated for.
    fn pre_allocated_claim(&self, address: Addr) -> Option<&str> {
        let mut pre_allocated = self.pre_allocated.iter();
        let (claim, _) = pre_allocated.find(|(_, pre_allocated)| *pre_allocated == address)?;
        Some(claim)
    }

    /// The claim that has an address, or that it is pre-allocated for.
    fn claim(&self, address: Addr) -> Option<&str> {
        match self.leases.get(&address) {
            Some((claim, _)) => Some(claim),
            None => self.pre_allocated_claim(address),
        }
    }

    /// The letter of an address on the map, one of `LETTERS`. `!` comes before all others, because
    /// it marks what somebody must mend.
    fn letter(&self, address: Addr) -> char {
        let owner = self.pre_allocated_claim(address);
        let is_never_leased = self.never_leased.contains(&address);
        match self.leases.get(&address) {
            // A lease of another pool, a lease of another claim, or one that should not exist.
            Some((_, false)) => '!',
            Some((claim, true)) if owner.is_some_and(|owner| owner != claim) => '!',
            Some(_) if is_never_leased => '!',
            Some(_) => LEASED,
            None if self.gateways.contains(&address) => 'g',
            None if is_never_leased => '-',
            None if owner.is_some() => 'p',
            None if self.reserved.iter().any(|(range, _)| range.contains(address)) => RESERVED,
            None if self.resting.contains(&address) => '~',
            None => '.',
        }
    }
}

/// Hands on a pool as programs see it: ranges of one state in order, a range of its own for each
/// lease. Leases are read in portions: there may be more than fit into memory.
fn visit_ranges(
    pool: &IpPool,
    store: &Store,
    now: Time,
    visit: &mut dyn FnMut(Value) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    for (_, pool_range) in pool.ranges() {
        let mut remaining = Some(pool_range);
        while let Some(IpRange { start, end }) = remaining {
            let range = IpRange { start, end };
            let states = AddressStates::load(pool, range, LEASES_OF_PORTION, store, now)?;
            // A portion ends at a lease, so that no other range is cut in two.
            let portion_end = match states.leases.last_key_value() {
                Some((last, _)) if states.leases.len() == LEASES_OF_PORTION => *last,
                _ => end,
            };
            for (range, letter) in split_by_state(&states, IpRange { start, end: portion_end }) {
                visit(range_document(range, letter, states.claim(range.start)))?;
            }
            remaining = if portion_end < end {
                Some(IpRange { start: Addr(portion_end.0 + 1), end })
            } else {
                None
            };
        }
    }
    for OutsideAddress { address, letter, claim } in find_outside_addresses(pool, store)? {
        visit(range_document(IpRange::single(address), letter, Some(&claim)))?;
    }
    Ok(())
}

/// Cuts a range of a pool into ranges of one state, in order. It never looks at every address: free
/// and reserved ones may be as many as IPv6 has.
fn split_by_state(states: &AddressStates<'_>, pool_range: IpRange) -> Vec<(IpRange, char)> {
    let mut single: Vec<Addr> = states.leases.keys().chain(&states.never_leased).copied().collect();
    single.extend(states.pre_allocated.iter().map(|(_, address)| *address));
    single.extend(&states.resting);
    single.retain(|address| pool_range.contains(*address));
    single.sort_unstable();
    single.dedup();
    let mut parts = Vec::new();
    for address in single {
        parts.push((IpRange::single(address), states.letter(address)));
    }
    // What is left of a reserved range is reserved, and what is left after those is free.
    let reserved = states.reserved.iter().map(|(range, _)| (*range, RESERVED));
    for (range, letter) in reserved.chain([(pool_range, '.')]) {
        if !range.overlaps(pool_range) {
            continue;
        }
        let taken: Vec<IpRange> = parts.iter().map(|(part, _)| *part).collect();
        let start = range.start.max(pool_range.start);
        let end = range.end.min(pool_range.end);
        for part in (IpRange { start, end }).subtract(&taken) {
            parts.push((part, letter));
        }
    }
    parts.sort_unstable();
    parts
}

/// A part of a pool whose addresses are in one state.
pub struct PoolPart {
    pub range: IpRange,
    /// The state in a word, as `LETTERS` has it.
    pub word: &'static str,
    /// The claim that has its address, or that the address is kept for.
    pub claim: Option<String>,
    pub is_leased: bool,
    pub is_reserved: bool,
}

impl PoolPart {
    /// Addresses that no claim has or gets, and what they are.
    pub fn unleased(range: IpRange, word: &'static str) -> Self {
        Self { range, word, claim: None, is_leased: false, is_reserved: false }
    }
}

/// The parts of a pool that are in a range, in order.
pub fn find_parts_within(
    pool: &IpPool,
    store: &Store,
    within: IpRange,
    now: Time,
) -> Result<Vec<PoolPart>, Refusal> {
    let mut pool_parts = Vec::new();
    for (_, pool_range) in pool.ranges().filter(|(_, range)| range.overlaps(within)) {
        let start = pool_range.start.max(within.start);
        let end = pool_range.end.min(within.end);
        let part = IpRange { start, end };
        let states = AddressStates::load(pool, part, usize::MAX, store, now)?;
        for (range, letter) in split_by_state(&states, part) {
            pool_parts.push(PoolPart {
                claim: states.claim(range.start).map(str::to_owned),
                is_leased: letter == LEASED,
                is_reserved: letter == RESERVED,
                ..PoolPart::unleased(range, word_of(letter))
            });
        }
    }
    Ok(pool_parts)
}

/// The state of an address in a word.
fn word_of(letter: char) -> &'static str {
    let state = LETTERS.iter().find(|(state_letter, _)| *state_letter == letter);
    state.map(|(_, word)| *word).unwrap_or_default()
}

/// A range as a document: its ends, its state in a word, and the claim that has it.
fn range_document(range: IpRange, letter: char, claim: Option<&str>) -> Value {
    let word = word_of(letter);
    let mut document = json!({"start": range.start, "end": range.end, "state": word});
    if let Some(claim) = claim {
        document["claim"] = claim.into();
    }
    document
}

/// An address that is leased or pre-allocated, and is in no range of its pool.
struct OutsideAddress {
    address: Addr,
    letter: char,
    claim: String,
}

/// The addresses of a pool that are outside of its ranges, which happens when a range is made
/// smaller. Leased ones come first.
fn find_outside_addresses(pool: &IpPool, store: &Store) -> Result<Vec<OutsideAddress>, Refusal> {
    let mut outside = Vec::new();
    store.visit_leased_addresses(pool, &mut |address, claim| {
        if !is_in_range(pool, address) {
            outside.push(OutsideAddress { address, letter: LEASED, claim });
        }
    })?;
    let leased: Vec<Addr> = outside.iter().map(|leased| leased.address).collect();
    for (claim, address) in pool.pre_allocated_addresses() {
        if !is_in_range(pool, address) && !leased.contains(&address) {
            outside.push(OutsideAddress { address, letter: 'p', claim: claim.to_owned() });
        }
    }
    Ok(outside)
}

fn is_in_range(pool: &IpPool, address: Addr) -> bool {
    pool.ranges().any(|(_, range)| range.contains(address))
}

/// Draws a range in lines that begin with their first address. Of a range with too many lines only
/// those are drawn in which something is not free; the addresses between them are counted.
fn draw_range(out: &mut String, states: &AddressStates<'_>, range: IpRange, width: usize) {
    let line_count = range.address_count().div_ceil(LINE_WIDTH);
    let drawn_lines: Vec<u128> = if line_count <= MAX_LINES {
        (0..line_count).collect()
    } else {
        find_busy_lines(states, range).into_iter().take(MAX_BUSY_LINES).collect()
    };
    let mut next_line = 0;
    for line in drawn_lines {
        draw_gap(out, range, next_line..line, width);
        draw_line(out, states, range, line, width);
        next_line = line + 1;
    }
    draw_gap(out, range, next_line..line_count, width);
}

/// The numbers of the lines in which an address is neither free nor in a reserved range. The
/// reserved ranges have lines of their own below the drawing.
fn find_busy_lines(states: &AddressStates<'_>, range: IpRange) -> BTreeSet<u128> {
    let mut lines = BTreeSet::new();
    for (part, letter) in split_by_state(states, range) {
        if !matches!(letter, '.' | RESERVED) {
            lines.insert((part.start.0 - range.start.0) / LINE_WIDTH);
        }
    }
    lines
}

fn draw_line(
    out: &mut String,
    states: &AddressStates<'_>,
    range: IpRange,
    line: u128,
    width: usize,
) {
    let first = range.start.0 + line * LINE_WIDTH;
    let last = first.saturating_add(LINE_WIDTH - 1).min(range.end.0);
    let letters: String = (first..=last).map(|address| states.letter(Addr(address))).collect();
    let _ = writeln!(out, "{:<width$}  {letters}", Addr(first).to_string());
}

/// A line that stands for lines that are not drawn; nothing if there are none.
fn draw_gap(out: &mut String, range: IpRange, lines: std::ops::Range<u128>, width: usize) {
    if lines.is_empty() {
        return;
    }
    let start = range.start.0 + lines.start * LINE_WIDTH;
    let end = (range.start.0 + (lines.end - 1) * LINE_WIDTH)
        .saturating_add(LINE_WIDTH - 1)
        .min(range.end.0);
    let count = IpRange { start: Addr(start), end: Addr(end) }.address_count();
    let _ = writeln!(out, "{:<width$}  {count} more", Addr(start).to_string());
}
