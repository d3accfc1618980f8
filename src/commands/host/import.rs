//! `host import`: many machines from a table. Each line's trouble is said; with any, nothing is
//! imported.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use clap::Args;

use crate::edits::Verdict;
use crate::model::documents::SecretValue;
use crate::model::host::{AS_FOUND, BareMetalHost, Bmc, BootMode, HostSpec, PIN, ROLE};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::refusal::{Refusal, nearest};
use crate::yaml::LARGEST;
use crate::{output, rules};

use crate::commands::host::add::{Made, put_all, secret_of};
use crate::commands::{Context, Verb};
use crate::manifest;

/// Columns, in any order; the first two must be there.
const COLUMNS: [&str; 13] = [
    "name",
    "bmc",
    "mac",
    "username",
    "password",
    "secret",
    "role",
    "labels",
    "pin",
    "insecure",
    "online",
    "legacy",
    "description",
];

#[derive(Args)]
pub struct Import {
    /// Table with a header, - for stdin: name, bmc, mac, username and password or secret, role,
    /// labels (a=b;c=d), pin, insecure, online, legacy, description
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
}

impl Verb for Import {
    const NAME: &'static str = "import";
    const ABOUT: &'static str = "Add or change the machines of a CSV file, all or none";
    const EXAMPLE: &'static str = "printf 'name,bmc,mac,secret\\nnode-8,ipmi://127.0.0.1:9,52:54:00:00:00:08,bmc\\n' | \
         poolctl host import - --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let shown = self.file.display().to_string();
        let mut texts = manifest::texts(&self.file, LARGEST)?;
        let (_, text) = texts.pop().unwrap_or_default();
        let (all, problems) = read(&text, &context.namespace()?);
        if !problems.is_empty() {
            let mut refusal = Refusal::invalid(format!(
                "{}: nothing is imported, problems: {}",
                output::clean(&shown),
                problems.len()
            ));
            refusal.causes = problems;
            return Err(refusal.into());
        }
        let keys: Vec<Key> = all.iter().map(|made| made.host.key()).collect();
        for one in &all {
            one.check(context)?;
        }
        let store = context.open()?;
        let (verdicts, passed) = put_all(context, &store, all, false)?;
        for (key, verdict) in keys.iter().zip(verdicts) {
            let done = match verdict {
                Verdict::Created => "added",
                Verdict::Configured(_) => "changed",
                Verdict::Unchanged => "unchanged",
            };
            context.changed(Kind::BareMetalHost, key, done)?;
        }
        Ok(context.finish(&passed)?)
    }
}

/// The hosts of a table, and what is wrong with its lines.
fn read(text: &str, namespace: &str) -> (Vec<Made>, Vec<String>) {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::Headers)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => return (Vec::new(), vec![format!("line 1: {error}")]),
    };
    let mut problems = Vec::new();
    for name in &header {
        if !COLUMNS.contains(&name) {
            let all = || format!("; there are {}", COLUMNS.join(", "));
            let near = nearest(name, COLUMNS).map(|one| format!("; did you mean `{one}`?"));
            problems.push(format!("line 1: no column `{name}`{}", near.unwrap_or_else(all)));
        }
    }
    for name in &COLUMNS[..2] {
        if !header.iter().any(|one| one == *name) {
            problems.push(format!("line 1: column `{name}` is missing"));
        }
    }
    if !problems.is_empty() {
        return (Vec::new(), problems);
    }
    let (mut found, mut seen) = (Vec::new(), HashMap::new());
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                problems.push(format!("line {line}: {}", problem(&error, header.len())));
                continue;
            }
        };
        let line = record.position().map_or(0, csv::Position::line);
        let row: BTreeMap<&str, &str> = header
            .iter()
            .zip(&record)
            .map(trimmed)
            .filter(|(_, value)| !value.is_empty())
            .collect();
        match host(&row, namespace) {
            Ok(made) => {
                problems.extend(twice(&made, line, &mut seen));
                found.push(made);
            }
            Err(wrong) => {
                problems.extend(wrong.into_iter().map(|why| format!("line {line}: {why}")));
            }
        }
    }
    if found.is_empty() && problems.is_empty() {
        problems.push("there are no lines after the header".into());
    }
    (found, problems)
}

/// A password may begin or end with a space.
fn trimmed<'a>((name, value): (&'a str, &'a str)) -> (&'a str, &'a str) {
    (name, if name == "password" { value } else { value.trim() })
}

fn problem(error: &csv::Error, columns: usize) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { len, .. } => {
            format!("{len} fields under {columns} columns")
        }
        other => format!("{other:?}"),
    }
}

/// What an earlier line has already.
fn twice(made: &Made, line: u64, seen: &mut HashMap<String, u64>) -> Option<String> {
    let spec = &made.host.spec;
    let mac = spec.boot_mac_address.to_lowercase();
    let bmc = made.host.address().map(|bmc| bmc.controller()).unwrap_or_default();
    let name = made.host.metadata.name.clone();
    let mut all = [("name", name), ("mac", mac), ("bmc", bmc)].into_iter();
    all.find_map(|(what, value)| {
        let other = seen.insert(format!("{what} {value}"), line).filter(|_| !value.is_empty())?;
        Some(format!("line {line}: {what} {value} is on line {other} already"))
    })
}

fn host(row: &BTreeMap<&str, &str>, namespace: &str) -> Result<Made, Vec<String>> {
    let mut wrong = Vec::new();
    let text = |name: &str| row.get(name).copied().unwrap_or_default().to_owned();
    let mut yes = |name: &str| match row.get(name).map(|value| value.to_lowercase()).as_deref() {
        None => None,
        Some("true" | "yes" | "1") => Some(true),
        Some("false" | "no" | "0") => Some(false),
        Some(other) => {
            wrong.push(format!("{name}: `{other}` is neither true nor false"));
            None
        }
    };
    let (insecure, online, legacy) = (yes("insecure"), yes("online"), yes("legacy"));
    let name = text("name");
    let given = row.contains_key("username") || row.contains_key("password");
    if given && (!row.contains_key("username") || !row.contains_key("password")) {
        wrong.push("username and password go together".into());
    }
    if given == row.contains_key("secret") {
        let many = if given { ", not all three" } else { "" };
        wrong.push(format!("it needs username and password, or secret{many}"));
    }
    let mut labels = BTreeMap::new();
    for pair in text("labels").split(';').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((key, value)) => drop(labels.insert(key.to_owned(), value.to_owned())),
            None => wrong.push(format!("labels: `{pair}` is not KEY=VALUE")),
        }
    }
    let mut annotations = BTreeMap::new();
    for (column, note) in [("role", ROLE), ("pin", PIN)] {
        annotations.extend(row.get(column).map(|value| (note.to_owned(), (*value).to_owned())));
    }
    annotations.extend(online.is_none().then(|| (AS_FOUND.to_owned(), "true".to_owned())));
    let key = Key::new(namespace, &*name);
    let secret = Some(text("secret")).filter(|name| !name.is_empty());
    let host = BareMetalHost {
        metadata: Meta {
            name: name.clone(),
            namespace: namespace.into(),
            labels,
            annotations,
            ..Meta::default()
        },
        spec: HostSpec {
            online: online.unwrap_or_default(),
            boot_mac_address: text("mac"),
            boot_mode: legacy.unwrap_or_default().then_some(BootMode::Legacy),
            description: text("description"),
            bmc: Some(Bmc {
                address: text("bmc"),
                credentials_name: secret.unwrap_or_else(|| secret_of(&name)),
                disable_certificate_verification: insecure.unwrap_or_default(),
            }),
            ..HostSpec::default()
        },
        ..BareMetalHost::default()
    };
    let (user, password) = (text("username"), SecretValue::new(text("password")));
    let made = Made::new(&key, host, given.then_some((&*user, password, None)));
    let object = crate::model::object::Object::BareMetalHost(Box::new(made.host.clone()));
    if let Err(refusal) = rules::check(&object) {
        wrong.push(refusal.what);
    }
    if wrong.is_empty() { Ok(made) } else { Err(wrong) }
}
