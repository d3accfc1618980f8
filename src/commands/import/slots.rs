//! `import --from csv`: reads a table with a line for each cluster slot of a pool: its name, its
//! addresses and its hosts. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::manifest;
use crate::model::address::Addr;
use crate::model::refusal::{Refusal, nearest_name};
use crate::output::clean_line;
use crate::rules;
use crate::yaml::MAX_BYTES;

/// Columns of the table, in any order. The first is required.
const COLUMNS: [&str; 6] = ["name", "apiVIP", "ingressVIP", "hosts", "secret", "labels"];

/// A place for a cluster.
pub struct Slot {
    pub line: u64,
    pub name: String,
    /// Addresses of its API and of its ingress: none, one, or one of each family.
    pub api_vips: Vec<Addr>,
    pub ingress_vips: Vec<Addr>,
    pub hosts: Vec<SlotHost>,
}

/// A host in a line. Without a controller it has to be in the state already.
pub struct SlotHost {
    pub name: String,
    pub mac: String,
    /// The address of its management controller; empty if the table has none.
    pub controller: String,
    /// The Secret with the credentials of the controller.
    pub secret: String,
    pub labels: BTreeMap<String, String>,
}

/// What is wrong with a table.
pub struct TableProblem {
    /// The line that it is about; 0 if it is about all of the table.
    line: u64,
    sentence: String,
}

impl TableProblem {
    /// A problem of a line. Lines are counted from 1; 0 stands for the whole table.
    pub fn new(line: u64, sentence: impl Into<String>) -> Self {
        Self { line, sentence: sentence.into() }
    }
}

/// Reads a table. The refusal tells of every problem of every line.
pub fn read_slots(file: &Path) -> Result<Vec<Slot>, Refusal> {
    let mut texts = manifest::read_texts(file, MAX_BYTES)?;
    let (_, table) = texts.pop().unwrap_or_default();
    let mut problems = Vec::new();
    let slots = read_table(&table, &mut problems);
    refuse_problems(file, problems)?;
    Ok(slots)
}

/// Refuses a file of which something is wrong, with all that is, in the order of its lines.
pub fn refuse_problems(file: &Path, mut problems: Vec<TableProblem>) -> Result<(), Refusal> {
    if problems.is_empty() {
        return Ok(());
    }
    let shown = clean_line(&file.display().to_string()).into_owned();
    let sentence = format!("{shown}: nothing is imported, problems: {}", problems.len());
    let mut refusal = Refusal::invalid(sentence);
    problems.sort_by_key(|problem| problem.line);
    for TableProblem { line, sentence } in problems {
        let cause = if line == 0 { sentence } else { format!("line {line}: {sentence}") };
        refusal = refusal.because(cause);
    }
    Err(refusal)
}

fn read_table(text: &str, problems: &mut Vec<TableProblem>) -> Vec<Slot> {
    // Some spreadsheets mark their text as Unicode.
    let table = text.trim_start_matches('\u{feff}');
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter_of(table))
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .flexible(true)
        .from_reader(table.as_bytes());
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => {
            problems.push(TableProblem::new(1, error.to_string()));
            return Vec::new();
        }
    };
    let columns = read_header(&header, problems);
    if !problems.is_empty() {
        return Vec::new();
    }
    let mut slots: Vec<Slot> = Vec::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                problems.push(TableProblem::new(line, error.to_string()));
                continue;
            }
        };
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() > columns.len() {
            let count = record.len();
            let sentence = format!("it has {count} fields, for {}", columns.len());
            problems.push(TableProblem::new(line, sentence));
            continue;
        }
        let cells = columns.iter().copied().zip(&record).filter(|(_, value)| !value.is_empty());
        let row: BTreeMap<&str, &str> = cells.collect();
        slots.push(read_row(line, &row, problems));
    }
    if slots.is_empty() && problems.is_empty() {
        problems.push(TableProblem::new(0, "there are no lines after the header"));
    }
    find_repeated_values(&slots, problems);
    slots
}

/// What separates the fields: a semicolon where spreadsheets have the comma in numbers.
fn delimiter_of(table: &str) -> u8 {
    let header = table.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    if header.contains(';') && !header.contains(',') { b';' } else { b',' }
}

/// The columns in their order. Notes those that do not exist, and the required one if it is missing.
fn read_header(header: &csv::StringRecord, problems: &mut Vec<TableProblem>) -> Vec<&'static str> {
    let mut columns = Vec::new();
    for name in header {
        let plain_name = plain_letters(name);
        let column = COLUMNS.into_iter().find(|column| plain_letters(column) == plain_name);
        if let Some(column) = column {
            columns.push(column);
            continue;
        }
        let hint = match nearest_name(name, COLUMNS) {
            Some(column) => format!("did you mean `{column}`?"),
            None => format!("the columns are {}", COLUMNS.join(", ")),
        };
        problems.push(TableProblem::new(1, format!("no column `{name}`; {hint}")));
    }
    if !columns.contains(&COLUMNS[0]) {
        problems.push(TableProblem::new(1, format!("column `{}` is missing", COLUMNS[0])));
    }
    columns
}

/// A name without capitals, spaces and underscores: `API VIP` is `apiVIP`.
fn plain_letters(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The slot of a row, which maps columns to values that are not empty.
fn read_row(line: u64, row: &BTreeMap<&str, &str>, problems: &mut Vec<TableProblem>) -> Slot {
    let mut row_problems = Vec::new();
    let name = value_of(row, "name").to_owned();
    if let Err(refusal) = rules::check_dns_label("the name of a cluster", &name) {
        row_problems.push(format!("{}: {}", refusal.what, refusal.causes.join("; ")));
    }
    let labels = read_labels(value_of(row, "labels"), &mut row_problems);
    let secret = value_of(row, "secret");
    let mut hosts = Vec::new();
    for entry in value_of(row, "hosts").split([';', '\n']) {
        let words: Vec<&str> = entry.split_whitespace().collect();
        let [name, mac, controller] = match words[..] {
            [] => continue,
            [name] => [name, "", ""],
            [name, mac, controller] => [name, mac, controller],
            _ => {
                let entry = entry.trim();
                row_problems.push(format!("hosts: `{entry}` is not NAME, or NAME MAC CONTROLLER"));
                continue;
            }
        };
        if !controller.is_empty() && secret.is_empty() {
            row_problems.push(format!("host {name}: column `secret` names no credentials"));
        }
        hosts.push(SlotHost {
            name: name.to_owned(),
            mac: mac.to_owned(),
            controller: controller.to_owned(),
            secret: secret.to_owned(),
            labels: labels.clone(),
        });
    }
    let api_vips = read_addresses(row, "apiVIP", &mut row_problems);
    let ingress_vips = read_addresses(row, "ingressVIP", &mut row_problems);
    problems.extend(row_problems.into_iter().map(|problem| TableProblem::new(line, problem)));
    Slot { line, name, api_vips, ingress_vips, hosts }
}

/// The value of a column; empty if the row has none.
fn value_of<'a>(row: &BTreeMap<&str, &'a str>, column: &str) -> &'a str {
    row.get(column).copied().unwrap_or_default()
}

/// The addresses of a column: one, or one of each family, separated by spaces or semicolons.
fn read_addresses(
    row: &BTreeMap<&str, &str>,
    column: &str,
    problems: &mut Vec<String>,
) -> Vec<Addr> {
    let mut addresses: Vec<Addr> = Vec::new();
    let words = value_of(row, column).split([' ', ';']).filter(|word| !word.is_empty());
    for word in words {
        match word.parse::<Addr>() {
            Ok(address) if addresses.iter().any(|first| first.is_v4() == address.is_v4()) => {
                problems.push(format!("{column}: {address} is a second one of its family"));
            }
            Ok(address) => addresses.push(address),
            Err(why) => problems.push(format!("{column}: {why}")),
        }
    }
    addresses
}

/// The labels `a=b;c=d` of a row.
fn read_labels(pairs: &str, problems: &mut Vec<String>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for pair in pairs.split(';').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((key, value)) => {
                labels.insert(key.trim().to_owned(), value.trim().to_owned());
            }
            None => problems.push(format!("labels: `{pair}` is not KEY=VALUE")),
        }
    }
    labels
}

/// Notes names, addresses and hosts that two lines have, or one line twice.
fn find_repeated_values(slots: &[Slot], problems: &mut Vec<TableProblem>) {
    let mut values: BTreeSet<(&str, String)> = BTreeSet::new();
    for slot in slots {
        let mut slot_values = vec![("name", slot.name.clone())];
        for address in slot.api_vips.iter().chain(&slot.ingress_vips) {
            slot_values.push(("address", address.to_string()));
        }
        for host in &slot.hosts {
            slot_values.push(("host", host.name.clone()));
            slot_values.push(("MAC", host.mac.to_lowercase()));
        }
        for (noun, value) in slot_values {
            let line = slot.line;
            if !value.is_empty() && !values.insert((noun, value.clone())) {
                let sentence = format!("{noun} {value} is in the table twice");
                problems.push(TableProblem::new(line, sentence));
            }
        }
    }
}
