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
use crate::output::{Answer, Entry, Name, clean_line};
use crate::reconcile::Door;
use crate::rules;
use crate::store::{NeededObject, Store};

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
    const EXAMPLE: &'static str = "printf 'IP Address,DNS Name\\n192.168.100.77/24,scanner\\n' | \
         poolctl ip import - --dry-run";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let mut texts = manifest::read_texts(&self.file, MAX_BYTES)?;
        let (_, table) = texts.pop().unwrap_or_default();
        let store = context.open_existing_state()?;
        let (lines, mut problems) = read_table(&table);
        let mut claims = Vec::new();
        let mut entries = Vec::new();
        for line in lines {
            let decision = self.decide(context, &store, &line)?;
            entries.push(entry_of_line(context, &line, &decision)?);
            match decision {
                Decision::New(claim) => claims.push(*claim),
                Decision::Problem(why) => problems.push(format!("line {}: {why}", line.number)),
                Decision::Unchanged { .. } | Decision::Skipped(_) => {}
            }
        }
        if !problems.is_empty() {
            return Err(refuse_file(&self.file.display().to_string(), problems).into());
        }
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

fn refuse_file(file: &str, mut problems: Vec<String>) -> Refusal {
    let file = clean_line(file);
    let what = format!("{file}: nothing is imported, problems: {}", problems.len());
    problems.truncate(MAX_PROBLEMS);
    let mut refusal = Refusal::invalid(what);
    refusal.causes = problems;
    refusal
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

/// A row of the answer: an address, its pool and its claim, and what becomes of it.
fn entry_of_line(context: &Context, line: &Line, decision: &Decision) -> Result<Entry, Refusal> {
    let (pool, result) = match decision {
        Decision::New(claim) => (claim.spec.pool.name.clone(), "leased".to_owned()),
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

impl Import {
    /// What becomes of a line in the state as it is now.
    fn decide(&self, context: &Context, store: &Store, line: &Line) -> Result<Decision, Refusal> {
        if let Some(why) = &line.skipped {
            return Ok(Decision::Skipped(why.clone()));
        }
        let namespace = context.namespace()?;
        let address = line.address;
        let pool = self.find_pool(store, &namespace, line)?;
        let address_namespace = pool.as_ref().map_or(&namespace, |pool| &pool.metadata.namespace);
        if let Some(lease) = store.find_lease_of_address(address_namespace, address)? {
            if lease.claim == line.claim && lease.namespace == namespace {
                return Ok(Decision::Unchanged { pool: lease.pool });
            }
            let holder = describe_holder(&lease);
            return Ok(Decision::Problem(format!("{address} belongs to claim {holder}")));
        }
        let Some(pool) = pool else {
            return Ok(Decision::Problem(format!("{address} is in no IPPool")));
        };
        if let Some(reason) = pool.unusable_reason(address) {
            return Ok(Decision::Skipped(format!("{reason} of IPPool {}", pool.metadata.name)));
        }
        let mut annotations = line.annotations.clone();
        annotations.insert(REQUESTED_ADDRESS.to_owned(), address.to_string());
        let pool_namespace = pool.namespace_for_claim(&namespace).unwrap_or_default();
        let metadata = Meta { name: line.claim.clone(), namespace, annotations, ..Meta::default() };
        let pool = Reference {
            name: pool.metadata.name,
            namespace: pool_namespace,
            ..Reference::default()
        };
        let spec = IpClaimSpec { pool, owner: None };
        let claim = IpClaim { metadata, spec, ..IpClaim::default() };
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
    fn find_pool(
        &self,
        store: &Store,
        namespace: &str,
        line: &Line,
    ) -> Result<Option<IpPool>, Refusal> {
        let pools = store.list_pools_serving(namespace)?;
        if let Some(name) = line.pool.as_ref().or(self.pool.as_ref()) {
            return Ok(pools.into_iter().find(|pool| pool.metadata.name == *name));
        }
        let address = line.address;
        Ok(pools.into_iter().find(|pool| {
            pool.ranges().any(|(_, range)| range.contains(address))
                || pool.unusable_reason(address).is_some()
        }))
    }
}

/// The lines of a table, and what is wrong with those that cannot be read.
fn read_table(table: &str) -> (Vec<Line>, Vec<String>) {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(table.as_bytes());
    let columns: Vec<String> = match reader.headers() {
        Ok(header) => header.iter().map(normalize_column).collect(),
        Err(error) => return (Vec::new(), vec![format!("line 1: {error}")]),
    };
    if !columns.iter().any(|column| ADDRESS_COLUMNS.contains(&column.as_str())) {
        let problem = format!("line 1: no column is called {}", ADDRESS_COLUMNS.join(", "));
        return (Vec::new(), vec![problem]);
    }
    let mut lines = Vec::new();
    let mut problems = Vec::new();
    let mut claims: BTreeSet<String> = BTreeSet::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                problems.push(error.to_string());
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
            Err(problem) => problems.push(format!("line {number}: {problem}")),
        }
    }
    (lines, problems)
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
    let bare_address = address.split_once('/').map_or(address, |(bare, _)| bare);
    let address: Addr = bare_address.parse()?;
    let names: Vec<String> = value_of(row, &NAME_COLUMNS)
        .unwrap_or_default()
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
    let claim = match (row.get("claim"), names.first()) {
        (Some(claim), _) => (*claim).to_owned(),
        (None, Some(name)) => name.clone(),
        (None, None) => format!("ip-{}", address.to_dashed_text()),
    };
    let pool = row.get("pool").map(|pool| (*pool).to_owned());
    Ok(Line { number, address, pool, claim, annotations, skipped })
}
