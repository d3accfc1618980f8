//! `ip import`: leases the addresses of a CSV file, as NetBox, phpIPAM and `ip export` write it, all
//! or none. What each line becomes is shown before anything is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::edits::{PutMode, put_object};
use crate::model::address::Addr;
use crate::model::annotations::{COMMENT, DNS_NAME, MAC, UNTIL};
use crate::model::ip_lease::{IpClaim, IpClaimSpec, Reference};
use crate::model::ip_pool::{IpPool, REQUESTED_ADDRESS};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::time::Time;
use crate::output::{Answer, Entry, Name, clean_line};
use crate::reconcile::Door;
use crate::rules;
use crate::store::{NeededObject, Store};

use crate::commands::ip::claim::wanted::find_keeper;
use crate::commands::ip::who::describe_holder;
use crate::commands::{Context, RunCommand, count_of};
use crate::manifest;

/// A list of a whole company fits.
const MAX_BYTES: usize = 64 << 20;
/// Problems that are told of a file.
const MAX_PROBLEMS: usize = 20;

/// The names of a column: those of NetBox's and phpIPAM's exports, old and new, and our own; small
/// letters and digits only.
const ADDRESS_COLUMNS: [&str; 4] = ["address", "ipaddress", "ipaddr", "ip"];
const NAME_COLUMNS: [&str; 3] = ["dnsname", "hostname", "dns"];
const MAC_COLUMNS: [&str; 2] = ["mac", "macaddress"];
const COMMENT_COLUMNS: [&str; 3] = ["comment", "description", "note"];
const STATE_COLUMNS: [&str; 4] = ["status", "tag", "ipstate", "state"];
/// What the states of addresses are called that nobody has.
const FREE_STATES: [&str; 2] = ["available", "free"];
/// States of addresses that may be in use or not. They are leased, so that nobody else gets them.
const DOUBTFUL_STATES: [&str; 4] = ["deprecated", "reserved", "offline", "dhcp"];

/// Arguments of `ip import`. All rows are leased in one transaction, or none is.
#[derive(Args)]
pub struct Import {
    /// CSV file with a header, as NetBox, phpIPAM or `ip export --as csv` writes it; - for stdin
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// IPPool of addresses that the file names no pool for; by default the one that has them
    #[arg(long, value_name = "IPPOOL")]
    pool: Option<String>,
    /// Only show what each line becomes
    #[arg(long)]
    dry_run: bool,
}

/// An address of the file.
struct Line {
    number: u64,
    address: Addr,
    pool: Option<String>,
    claim: String,
    annotations: BTreeMap<String, String>,
    /// Why it is no lease of a claim, if the file says so.
    skipped: Option<String>,
    /// The length of its prefix, as the file has it.
    prefix: Option<u8>,
    /// What the file says of it that a lease cannot say.
    warnings: Vec<String>,
}

/// A line that cannot be taken, by its number in the file, and why.
struct LineProblem {
    number: u64,
    why: String,
}

/// What becomes of a line.
enum Decision {
    New(Box<IpClaim>),
    /// The claim has the address already.
    Unchanged {
        pool: String,
    },
    Skipped(String),
    Problem(String),
}

impl RunCommand for Import {
    const NAME: &'static str = "import";
    const ABOUT: &'static str = "Lease the addresses in a CSV file, all or none";
    const EXAMPLE: &'static str = "\
printf 'IP Address,DNS Name\\n192.168.100.77/24,scanner\\n' | \\
  poolctl ip import - --dry-run";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let mut texts = manifest::read_texts(&self.file, MAX_BYTES)?;
        let (_, table) = texts.pop().unwrap_or_default();
        let store = context.open_existing_state()?;
        let pools = store.list_pools_serving(&context.namespace()?)?;
        if let Some(name) = &self.pool
            && !pools.iter().any(|pool| is_called(pool, name))
        {
            let problem = format!("there is no IPPool `{name}`");
            return Err(Refusal::not_found(problem).next("poolctl get ippool -A").into());
        }
        let (lines, mut problems) = read_table(&table);
        let mut claims = Vec::new();
        let mut entries = Vec::new();
        let mut warnings = Vec::new();
        let mut line_numbers: BTreeMap<Addr, u64> = BTreeMap::new();
        for line in lines {
            let pool = self.find_pool(&pools, &line);
            let decision = match line_numbers.get(&line.address) {
                Some(number) if line.is_taken() => {
                    Decision::Problem(format!("{} is in line {number}, too", line.address))
                }
                _ => self.decide(context, &store, &line, pool)?,
            };
            if line.is_taken() {
                line_numbers.entry(line.address).or_insert(line.number);
            }
            entries.push(self.entry_of_line(context, &line, &decision)?);
            match decision {
                Decision::New(claim) => {
                    warnings.extend(describe_doubts(&line, pool));
                    claims.push(*claim);
                }
                Decision::Problem(why) => problems.push(LineProblem { number: line.number, why }),
                Decision::Unchanged { .. } | Decision::Skipped(_) => {}
            }
        }
        if !problems.is_empty() {
            return Err(refuse_file(&self.file.display().to_string(), problems).into());
        }
        warn_of_doubts(context, &warnings);
        if self.dry_run || claims.is_empty() {
            return context.answer(Answer::list(entries));
        }
        let count = count_of(claims.len(), "new lease");
        let file = self.file.display();
        let loss = format!("{count} of {file}");
        context.confirm(&loss, &format!("poolctl ip import {file}"))?;
        lease_all(context, &store, claims)?;
        context.answer(Answer::list(entries))
    }
}

/// Refuses the file with its problems in the order of its lines.
fn refuse_file(file: &str, mut problems: Vec<LineProblem>) -> Refusal {
    problems.sort_by_key(|problem| problem.number);
    let mut refusal = Refusal::invalid(format!(
        "{}: nothing is imported, problems: {}",
        clean_line(file),
        problems.len()
    ));
    for LineProblem { number, why } in problems.into_iter().take(MAX_PROBLEMS) {
        refusal.causes.push(format!("line {number}: {why}"));
    }
    refusal
}

/// Says what is lost of lines that become leases.
fn warn_of_doubts(context: &Context, warnings: &[String]) {
    for warning in warnings.iter().take(MAX_PROBLEMS) {
        context.warn(warning);
    }
    if warnings.len() > MAX_PROBLEMS {
        let count = warnings.len() - MAX_PROBLEMS;
        context.warn(&format!("warnings beside these: {count}"));
    }
}

/// What the file says of an address that its lease will not say, or that its pool says otherwise.
fn describe_doubts(line: &Line, pool: Option<&IpPool>) -> Vec<String> {
    let mut doubts = line.warnings.clone();
    if let (Some(pool), Some(length)) = (pool, line.prefix) {
        let pool_length = pool.network_of_range(pool.range_index_of(line.address)).prefix;
        // A prefix of one address says nothing about the network.
        if pool_length > 0 && length != pool_length && length != line.address.bits() {
            let name = &pool.metadata.name;
            doubts.push(format!("/{length} is not the prefix of IPPool {name}, /{pool_length}"));
        }
    }
    let number = line.number;
    doubts.into_iter().map(|doubt| format!("line {number}: {doubt}")).collect()
}

/// Whether a pool is meant by a name, with its namespace or without.
fn is_called(pool: &IpPool, name: &str) -> bool {
    pool.metadata.name == name || pool.metadata.key().to_string() == name
}

/// Leases the addresses of all claims, or none.
fn lease_all(context: &Context, store: &Store, claims: Vec<IpClaim>) -> Result<(), Refusal> {
    let mut needs = Vec::new();
    for claim in &claims {
        let pool_key = claim.spec.pool.key_from(&claim.metadata.namespace);
        needs.push(NeededObject { kind: Kind::IpClaim, key: claim.metadata.key() });
        needs.push(NeededObject { kind: Kind::IpPool, key: pool_key });
    }
    let door = Door { plans_changes: true, ..context.door(store) };
    let ((), passed) = door.change_if_accepted(
        &Scope::Pools(Vec::new()),
        &needs,
        |state, tick| {
            let mut claim_keys = Vec::new();
            for claim in claims {
                claim_keys.push(claim.metadata.key());
                put_object(state, Object::IpClaim(Box::new(claim)), PutMode::Apply, tick)?;
            }
            Ok(claim_keys)
        },
        |state, claim_keys| check_all_leased(state, &claim_keys),
    )?;
    context.report_pass(&passed)
}

fn check_all_leased(state: &State, claim_keys: &[Key]) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    for lease in claim_keys.iter().filter_map(|key| state.ip_leases.by_key(key)) {
        if lease.address.is_none() {
            let wanted = lease.requested_address().unwrap_or_default();
            problems.push(format!("{wanted}, claim {}: {}", lease.claim, lease.error));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let what = format!("nothing is imported, addresses that cannot be leased: {}", problems.len());
    problems.truncate(MAX_PROBLEMS);
    let mut refusal = Refusal::new(Exit::Exhausted, what);
    refusal.causes = problems;
    Err(refusal.next("poolctl get ippool"))
}

impl Line {
    /// Whether the address becomes a lease, as far as the file says.
    fn is_taken(&self) -> bool {
        self.skipped.is_none()
    }
}

impl Import {
    /// A row of the answer: an address, its pool and its claim, and what becomes of it.
    fn entry_of_line(
        &self,
        context: &Context,
        line: &Line,
        decision: &Decision,
    ) -> Result<Entry, Refusal> {
        let leased = if self.dry_run { "would be leased" } else { "leased" };
        let (pool, result) = match decision {
            Decision::New(claim) => (claim.spec.pool.name.clone(), leased.to_owned()),
            Decision::Unchanged { pool } => (pool.clone(), "unchanged".to_owned()),
            Decision::Skipped(why) => (String::new(), format!("skipped: {why}")),
            Decision::Problem(why) => (String::new(), why.clone()),
        };
        let document = json!({"line": line.number, "address": line.address, "pool": pool,
            "claim": line.claim, "result": result});
        let row = vec![
            ("address", line.address.to_string()),
            ("pool", pool),
            ("claim", line.claim.clone()),
            ("result", result),
        ];
        let name = match decision {
            Decision::New(_) | Decision::Unchanged { .. } => {
                Some(Name::of(Kind::IpClaim, &Key::new(context.namespace()?, &*line.claim)))
            }
            Decision::Skipped(_) | Decision::Problem(_) => None,
        };
        Ok(Entry { name, row, document })
    }

    /// What becomes of a line in the state as it is now.
    fn decide(
        &self,
        context: &Context,
        store: &Store,
        line: &Line,
        pool: Option<&IpPool>,
    ) -> Result<Decision, Refusal> {
        if let Some(why) = &line.skipped {
            return Ok(Decision::Skipped(why.clone()));
        }
        let namespace = context.namespace()?;
        let address = line.address;
        let address_namespace = pool.map_or(&namespace, |pool| &pool.metadata.namespace);
        if let Some(lease) = store.find_lease_of_address(address_namespace, address)? {
            if lease.claim == line.claim && lease.namespace == namespace {
                return Ok(Decision::Unchanged { pool: lease.pool });
            }
            let holder = describe_holder(&lease);
            return Ok(Decision::Problem(format!("{address} belongs to claim {holder}")));
        }
        let Some(pool) = pool else {
            return Ok(Decision::Problem(match line.pool.as_ref().or(self.pool.as_ref()) {
                Some(name) => format!("there is no IPPool `{name}`"),
                None => format!("{address} is in no IPPool"),
            }));
        };
        if let Some(reason) = pool.unusable_reason(address) {
            return Ok(Decision::Skipped(format!("{reason} of IPPool {}", pool.metadata.name)));
        }
        if let Some(problem) = find_obstacle(context, store, &namespace, line, pool)? {
            return Ok(Decision::Problem(problem));
        }
        let claim = make_claim(namespace, line, pool);
        if let Err(refusal) = rules::check_object(&Object::IpClaim(Box::new(claim.clone()))) {
            return Ok(Decision::Problem(refusal.what));
        }
        if store.find_lease_of_claim(&claim.metadata.key())?.is_some() {
            let name = &line.claim;
            return Ok(Decision::Problem(format!("there is an ipclaim `{name}` already")));
        }
        Ok(Decision::New(Box::new(claim)))
    }

    /// The pool that the line names, else that of `--pool`, else the first that has the address.
    fn find_pool<'a>(&self, pools: &'a [IpPool], line: &Line) -> Option<&'a IpPool> {
        if let Some(name) = line.pool.as_ref().or(self.pool.as_ref()) {
            return pools.iter().find(|pool| is_called(pool, name));
        }
        let address = line.address;
        pools.iter().find(|pool| {
            pool.ranges().any(|(_, range)| range.contains(address))
                || pool.unusable_reason(address).is_some()
        })
    }
}

/// Why a claim of this line would wait for its address, which no claim has.
fn find_obstacle(
    context: &Context,
    store: &Store,
    namespace: &str,
    line: &Line,
    pool: &IpPool,
) -> Result<Option<String>, Refusal> {
    let address = line.address;
    let now = context.world.now();
    let pool_name = &pool.metadata.name;
    let claim = match pool.namespace_for_claim(namespace) {
        Some(_) => format!("{namespace}/{}", line.claim),
        None => line.claim.clone(),
    };
    let pre_allocated = pool.pre_allocated_address_of(&claim);
    if let Some(pre_allocated) = pre_allocated
        && pre_allocated != address
    {
        return Ok(Some(format!("claim {claim} has {pre_allocated} pre-allocated, not {address}")));
    }
    if pre_allocated.is_none()
        && let Some(keeper) = find_keeper(pool, address)
    {
        return Ok(Some(format!("{address} belongs to {keeper}")));
    }
    let is_in_range = pool.ranges().any(|(_, range)| range.contains(address));
    if pre_allocated.is_none() && !is_in_range {
        return Ok(Some(format!("{address} is outside of the ranges of IPPool `{pool_name}`")));
    }
    if pool.is_paused() {
        return Ok(Some(format!("IPPool {pool_name} is paused")));
    }
    let released = store.find_release(pool, address)?;
    let rests_until = released.map(|released| released.plus(pool.reuse_delay()));
    if let Some(until) = rests_until
        && until > now
    {
        return Ok(Some(format!("{address} rests, and can be leased again at {until}")));
    }
    let end = line.annotations.get(UNTIL).and_then(|until| until.parse::<Time>().ok());
    Ok(end.filter(|end| *end <= now).map(|end| format!("its end, {end}, is over already")))
}

/// The claim that a line becomes.
fn make_claim(namespace: String, line: &Line, pool: &IpPool) -> IpClaim {
    let mut annotations = line.annotations.clone();
    annotations.insert(REQUESTED_ADDRESS.to_owned(), line.address.to_string());
    let pool_namespace = pool.namespace_for_claim(&namespace).unwrap_or_default();
    let metadata = Meta { name: line.claim.clone(), namespace, annotations, ..Meta::default() };
    let pool = Reference {
        name: pool.metadata.name.clone(),
        namespace: pool_namespace,
        ..Reference::default()
    };
    let spec = IpClaimSpec { pool, owner: None };
    IpClaim { metadata, spec, ..IpClaim::default() }
}

/// The lines of a table, and what is wrong with those that cannot be read.
fn read_table(table: &str) -> (Vec<Line>, Vec<LineProblem>) {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .delimiter(find_delimiter(table))
        .from_reader(table.as_bytes());
    let columns: Vec<String> = match reader.headers() {
        Ok(header) => header.iter().map(normalize_column).collect(),
        Err(error) => {
            return (Vec::new(), vec![LineProblem { number: 1, why: error.to_string() }]);
        }
    };
    if !columns.iter().any(|column| ADDRESS_COLUMNS.contains(&column.as_str())) {
        let why = format!("no column is called {}", ADDRESS_COLUMNS.join(", "));
        return (Vec::new(), vec![LineProblem { number: 1, why }]);
    }
    let mut lines = Vec::new();
    let mut problems = Vec::new();
    let mut claims: BTreeSet<String> = BTreeSet::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let number = error.position().map_or(0, csv::Position::line);
                problems.push(LineProblem { number, why: error.to_string() });
                continue;
            }
        };
        let number = record.position().map_or(0, csv::Position::line);
        let cells = columns.iter().map(String::as_str).zip(record.iter().map(str::trim));
        let row: BTreeMap<&str, &str> = cells.filter(|(_, value)| !value.is_empty()).collect();
        match read_line(number, &row) {
            Ok(mut line) => {
                // A machine with several addresses has a claim for each.
                if !claims.insert(line.claim.clone()) {
                    line.claim = format!("{}-{}", line.claim, line.address.to_dashed_text());
                    claims.insert(line.claim.clone());
                }
                lines.push(line);
            }
            Err(why) => problems.push(LineProblem { number, why }),
        }
    }
    (lines, problems)
}

/// What is between two cells: where numbers have a decimal comma, spreadsheets write semicolons.
fn find_delimiter(table: &str) -> u8 {
    let header = table.lines().next().unwrap_or_default();
    if header.matches(';').count() > header.matches(',').count() { b';' } else { b',' }
}

/// A column's name without capitals, spaces and underscores.
fn normalize_column(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The value of the first of several columns that a row has.
fn value_of<'a>(row: &BTreeMap<&str, &'a str>, columns: &[&str]) -> Option<&'a str> {
    columns.iter().find_map(|column| row.get(*column).copied())
}

fn read_line(number: u64, row: &BTreeMap<&str, &str>) -> Result<Line, String> {
    let address = value_of(row, &ADDRESS_COLUMNS).ok_or("there is no address")?;
    // NetBox writes the length of the prefix behind the address.
    let (bare_address, length) = address.split_once('/').unwrap_or((address, ""));
    let address: Addr = bare_address.parse()?;
    let lengths = [Some(length), row.get("prefix").copied(), length_of_subnet(row)];
    let prefix = lengths.into_iter().flatten().find_map(|length| length.parse::<u8>().ok());
    let name = value_of(row, &NAME_COLUMNS).unwrap_or_default();
    if name.contains(' ') && !row.contains_key("claim") {
        return Err(format!("`{name}` is not usable as a name in DNS"));
    }
    let names: Vec<String> = name
        .split([' ', ','])
        .filter(|name| !name.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut annotations = BTreeMap::new();
    if !names.is_empty() {
        annotations.insert(DNS_NAME.to_owned(), names.join(","));
    }
    for (annotation, columns) in
        [(MAC, &MAC_COLUMNS[..]), (COMMENT, &COMMENT_COLUMNS[..]), (UNTIL, &["until"][..])]
    {
        if let Some(value) = value_of(row, columns) {
            annotations.insert(annotation.to_owned(), value.to_owned());
        }
    }
    let state = value_of(row, &STATE_COLUMNS).unwrap_or_default().to_ascii_lowercase();
    let skipped = match row.get("cluster") {
        Some(cluster) => Some(format!("goes with cluster {cluster}")),
        None if FREE_STATES.contains(&state.as_str()) => Some("nobody has it".to_owned()),
        None => None,
    };
    let mut warnings = Vec::new();
    if DOUBTFUL_STATES.contains(&state.as_str()) {
        warnings.push(format!("its state is {state}; it is leased all the same"));
    }
    if let Some(vrf) = row.get("vrf") {
        warnings.push(format!("it is in VRF {vrf}, which no IPPool knows of"));
    }
    let claim = match (row.get("claim"), names.first()) {
        (Some(claim), _) => (*claim).to_owned(),
        (None, Some(name)) => name.clone(),
        (None, None) => format!("ip-{}", address.to_dashed_text()),
    };
    let pool = row.get("pool").map(|pool| (*pool).to_owned());
    Ok(Line { number, address, pool, claim, annotations, skipped, prefix, warnings })
}

/// The length of the subnet in the column of phpIPAM: `24` of `10.20.0.0/24`.
fn length_of_subnet<'a>(row: &BTreeMap<&str, &'a str>) -> Option<&'a str> {
    let (_, length) = row.get("subnet")?.split_once('/')?;
    Some(length)
}
