//! `host import`: adds or changes the machines of a CSV file, all or none. Every problem of every
//! line is reported at once, and with any of them nothing is imported.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use clap::Args;

use crate::edits::PutOutcome;
use crate::model::annotations::{AS_FOUND, PIN};
use crate::model::documents::SecretValue;
use crate::model::host::{BareMetalHost, Bmc, BootMode, HostSpec, ROLE_ANNOTATION};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::refusal::{Refusal, nearest_name};
use crate::yaml::MAX_BYTES;
use crate::{output, rules};

use crate::commands::host::add::{
    BmcCredentials, ExistingHosts, NewHost, credentials_secret_name, put_hosts,
};
use crate::commands::{Context, RunCommand};
use crate::manifest;

/// Columns of the table, in any order. The first two are required.
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

/// Arguments of `host import`. All rows are put in one transaction, or none is.
#[derive(Args)]
pub struct Import {
    /// CSV file with a header, or - for stdin: name, bmc, mac, username and password or secret,
    /// role, labels (a=b;c=d), pin, insecure, online, legacy, description
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
}

impl RunCommand for Import {
    const NAME: &'static str = "import";
    const ABOUT: &'static str = "Add or change the hosts in a CSV file, all or none";
    const EXAMPLE: &'static str = "\
printf 'name,bmc,mac,secret\\nnode-8,ipmi://192.0.2.8,52:54:00:00:00:08,bmc\\n' | \\
  poolctl host import - --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let mut texts = manifest::read_texts(&self.file, MAX_BYTES)?;
        let (_, table) = texts.pop().unwrap_or_default();
        let (new_hosts, problems) = read_table(&table, &context.namespace()?);
        if !problems.is_empty() {
            let mut refusal = Refusal::invalid(format!(
                "{}: nothing is imported, problems: {}",
                output::clean_line(&self.file.display().to_string()),
                problems.len()
            ));
            refusal.causes = problems;
            return Err(refusal.into());
        }
        let host_keys: Vec<Key> = new_hosts.iter().map(|new_host| new_host.host.key()).collect();
        for new_host in &new_hosts {
            new_host.check(context)?;
        }
        let store = context.open_or_create_state()?;
        let (outcomes, passed) = put_hosts(context, &store, new_hosts, ExistingHosts::Change)?;
        for (host_key, outcome) in host_keys.iter().zip(outcomes) {
            let result = match outcome {
                PutOutcome::Created => "added",
                PutOutcome::Configured(_) => "changed",
                PutOutcome::Unchanged => "unchanged",
            };
            context.report_change(Kind::BareMetalHost, host_key, result)?;
        }
        Ok(context.report_pass(&passed)?)
    }
}

/// The hosts of a table, and the problems of its lines.
fn read_table(table: &str, namespace: &str) -> (Vec<NewHost>, Vec<String>) {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::Headers)
        .comment(Some(b'#'))
        .from_reader(table.as_bytes());
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => return (Vec::new(), vec![format!("line 1: {error}")]),
    };
    let mut problems = header_problems(&header);
    if !problems.is_empty() {
        return (Vec::new(), problems);
    }
    let mut new_hosts = Vec::new();
    let mut lines_of_values = HashMap::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                problems.push(format!("line {line}: {}", describe_error(&error, header.len())));
                continue;
            }
        };
        let line = record.position().map_or(0, csv::Position::line);
        let mut row = BTreeMap::new();
        for (name, value) in header.iter().zip(&record) {
            // A password may begin or end with a space.
            let value = if name == "password" { value } else { value.trim() };
            if !value.is_empty() {
                row.insert(name, value);
            }
        }
        match read_row(&row, namespace) {
            Ok(new_host) => {
                problems.extend(find_repeated_value(&new_host, line, &mut lines_of_values));
                new_hosts.push(new_host);
            }
            Err(row_problems) => {
                problems.extend(row_problems.iter().map(|why| format!("line {line}: {why}")));
            }
        }
    }
    if new_hosts.is_empty() && problems.is_empty() {
        problems.push("there are no lines after the header".into());
    }
    (new_hosts, problems)
}

/// Columns that do not exist, and required ones that are missing.
fn header_problems(header: &csv::StringRecord) -> Vec<String> {
    let mut problems = Vec::new();
    for name in header {
        if !COLUMNS.contains(&name) {
            let hint = match nearest_name(name, COLUMNS) {
                Some(column) => format!("did you mean `{column}`?"),
                None => format!("the columns are {}", COLUMNS.join(", ")),
            };
            problems.push(format!("line 1: no column `{name}`; {hint}"));
        }
    }
    for required in &COLUMNS[..2] {
        if !header.iter().any(|name| name == *required) {
            problems.push(format!("line 1: column `{required}` is missing"));
        }
    }
    problems
}

/// Why a line of the file cannot be read, without the place, which the caller adds.
fn describe_error(error: &csv::Error, columns: usize) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { len, .. } => {
            format!("the number of fields is {len}, the number of columns is {columns}")
        }
        kind => format!("{kind:?}"),
    }
}

/// Name, MAC and controller must be different in every line: tells which of them an earlier line
/// has. `lines_of_values`: the lines so far, by column and value.
fn find_repeated_value(
    new_host: &NewHost,
    line: u64,
    lines_of_values: &mut HashMap<String, u64>,
) -> Option<String> {
    let host = &new_host.host;
    let controller = host.bmc_address().map(|address| address.canonical_name()).unwrap_or_default();
    let values = [
        ("name", host.metadata.name.clone()),
        ("mac", host.spec.boot_mac_address.to_lowercase()),
        ("bmc", controller),
    ];
    for (column, value) in values {
        let earlier_line = lines_of_values.insert(format!("{column} {value}"), line);
        if let Some(earlier_line) = earlier_line
            && !value.is_empty()
        {
            return Some(format!(
                "line {line}: {column} {value} is already on line {earlier_line}"
            ));
        }
    }
    None
}

/// The host of a row, which maps columns to values that are not empty; or all that is wrong.
fn read_row(row: &BTreeMap<&str, &str>, namespace: &str) -> Result<NewHost, Vec<String>> {
    let mut problems = Vec::new();
    let insecure = read_bool(row, "insecure", &mut problems);
    let online = read_bool(row, "online", &mut problems);
    let legacy = read_bool(row, "legacy", &mut problems);
    let has_credentials = check_credentials(row, &mut problems);
    let labels = read_labels(row, &mut problems);
    let mut annotations = BTreeMap::new();
    for (column, annotation) in [("role", ROLE_ANNOTATION), ("pin", PIN)] {
        if let Some(value) = row.get(column) {
            annotations.insert(annotation.to_owned(), (*value).to_owned());
        }
    }
    if online.is_none() {
        annotations.insert(AS_FOUND.to_owned(), "true".to_owned());
    }
    let name = text_of(row, "name");
    let host_key = Key::new(namespace, &*name);
    let secret = row.get("secret").map(|secret| (*secret).to_owned());
    let host = BareMetalHost {
        spec: HostSpec {
            online: online.unwrap_or_default(),
            boot_mac_address: text_of(row, "mac"),
            boot_mode: legacy.unwrap_or_default().then_some(BootMode::Legacy),
            description: text_of(row, "description"),
            bmc: Some(Bmc {
                address: text_of(row, "bmc"),
                credentials_name: secret.unwrap_or_else(|| credentials_secret_name(&name)),
                disable_certificate_verification: insecure.unwrap_or_default(),
            }),
            ..HostSpec::default()
        },
        metadata: Meta {
            name,
            namespace: namespace.into(),
            labels,
            annotations,
            ..Meta::default()
        },
        ..BareMetalHost::default()
    };
    let mut credentials = None;
    if has_credentials {
        credentials = Some(BmcCredentials {
            user: text_of(row, "username"),
            password: SecretValue::new(text_of(row, "password")),
            ca_certificate: None,
        });
    }
    let object = Object::BareMetalHost(Box::new(host.clone()));
    if let Err(refusal) = rules::check_object(&object) {
        problems.push(refusal.what);
    }
    if problems.is_empty() { Ok(NewHost::new(&host_key, host, credentials)) } else { Err(problems) }
}

/// The value of a column; empty if the row has none.
fn text_of(row: &BTreeMap<&str, &str>, column: &str) -> String {
    row.get(column).copied().unwrap_or_default().to_owned()
}

/// The value of a column that is a switch, None if the row has none. A word that is neither true
/// nor false is added to `problems`.
fn read_bool(row: &BTreeMap<&str, &str>, column: &str, problems: &mut Vec<String>) -> Option<bool> {
    match row.get(column)?.to_lowercase().as_str() {
        "true" | "yes" | "1" => Some(true),
        "false" | "no" | "0" => Some(false),
        word => {
            problems.push(format!("{column}: `{word}` is neither true nor false"));
            None
        }
    }
}

/// Whether the row has credentials; it needs them both, or else the name of a Secret.
fn check_credentials(row: &BTreeMap<&str, &str>, problems: &mut Vec<String>) -> bool {
    let has_user = row.contains_key("username");
    let has_password = row.contains_key("password");
    let has_credentials = has_user || has_password;
    if has_user != has_password {
        problems.push("username and password must be given together".into());
    }
    if has_credentials == row.contains_key("secret") {
        let suffix = if has_credentials { ", not both" } else { "" };
        problems.push(format!("either username and password or secret must be given{suffix}"));
    }
    has_credentials
}

/// The labels `a=b;c=d` of a row.
fn read_labels(row: &BTreeMap<&str, &str>, problems: &mut Vec<String>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for pair in text_of(row, "labels").split(';').filter(|pair| !pair.is_empty()) {
        if let Some((key, value)) = pair.split_once('=') {
            labels.insert(key.to_owned(), value.to_owned());
        } else {
            problems.push(format!("labels: `{pair}` is not KEY=VALUE"));
        }
    }
    labels
}
