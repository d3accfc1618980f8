//! What a command reads grows with what it changes or shows, not with what is kept: no statement of
//! the store scans a table that grows, but for those that are meant to read everything.
//!
//! The statements are taken out of the code of `src/store`: a string that begins with a verb of SQL
//! is a statement, one that begins with WHERE is the end of one. A constant in braces stands for
//! its text, `{table}` for every table of documents, and `{source}` for such a table with its
//! conditions. A statement that is put together of other parts is covered by its clauses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use poolctl::model::annotations::SHARE_WITH;
use poolctl::model::kinds::Kind;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::architecture::root;

/// Tables that stay small, whatever a lab keeps.
const SMALL_TABLES: [&str; 4] = ["ip_count", "ip_network", "ip_scope", "state"];

/// Parts of the statements that are meant to read everything, or that run only where that does no
/// harm, and where that is.
const READ_EVERYTHING: [(&str, &str); 27] = [
    ("SELECT EXISTS (SELECT 1 FROM infra_env_token)", "export"),
    ("FROM event ORDER BY id", "export"),
    ("FROM claim WHERE running = ?1 AND deleting IS NULL", "status and doctor: nothing is decoded"),
    ("FROM cluster c WHERE claim IS NOT NULL AND pool IS NOT NULL", "status and doctor, the same"),
    ("SELECT rowid FROM job ORDER BY started, rowid", "export"),
    ("SELECT name FROM cluster ORDER BY id", "backup"),
    ("SELECT id FROM job", "backup"),
    ("SELECT id FROM {source}", "export"),
    ("SELECT id, body FROM {source}", "lists, doctor, and a pass over everything"),
    ("WHERE NOT json_valid(body)", "salvage"),
    ("json_each(CASE WHEN json_valid(p.body)", "salvage and doctor"),
    (
        "FROM document WHERE kind = 'ClusterDeploymentCustomization' AND id NOT",
        "a pass over everything",
    ),
    (
        "NOT EXISTS (SELECT 1 FROM document p",
        "a pass over everything: what names no pool that exists",
    ),
    ("FROM claim WHERE owner = ?1", "claims of guests alone: owners have no index"),
    ("SELECT last, first, link FROM event_gap", "doctor"),
    ("coalesce(validations, ''), checksum FROM agent_body", "a migration"),
    ("UPDATE agent SET settled_by = NULL", "doctor --fix, and contents that are accepted"),
    ("l.pool = ?1 ORDER BY l.address", "the map of a pool, and its removal"),
    ("SELECT address FROM ip_lease WHERE pool = ?1", "doctor, and pools that change"),
    ("DELETE FROM {table} WHERE id = ?1", "removal of a pool: SQLite looks for its leases"),
    (
        "INSERT OR REPLACE INTO {table} (id, body, checksum)",
        "bodies alone are written so, never pools",
    ),
    (
        "SELECT 1 FROM ip_pool WHERE body",
        "a cluster is removed: few IPPools and InfraEnvs name one",
    ),
    ("SELECT due, dirty, polled, waits, namespace, pool FROM due_scope", "a pass over everything"),
    ("SELECT due, dirty, polled, kind, namespace, name FROM due_object", "a pass over everything"),
    (
        "SELECT namespace, name FROM document WHERE kind = 'ClusterPool' UNION",
        "a pass pool by pool, after a refusal",
    ),
    ("SELECT namespace, name FROM {source} ORDER BY id", "names, after a look-up has failed"),
    ("SELECT namespace, name, mac, bmc FROM host", "a host is edited: identities have no index"),
];

/// What the clauses of this program may follow.
const BASES: [&str; 7] = [
    "SELECT * FROM cluster",
    "SELECT * FROM claim",
    "SELECT * FROM job",
    "SELECT * FROM agent CROSS JOIN agent_body USING (id)",
    "SELECT * FROM host",
    "SELECT * FROM event",
    "SELECT {LEASE_SELECTION}",
];

#[test]
fn no_statement_scans_what_grows() {
    let schema = Schema::open();
    let code = StoreCode::read();
    let mut unused: BTreeSet<&str> = READ_EVERYTHING.iter().map(|(part, _)| *part).collect();
    let mut scanning = Vec::new();
    for (source, statement) in code.statements(&schema.document_tables()) {
        let Some(scans) = schema.scans_of(&statement) else { continue };
        if !scans.is_empty() && !is_allowed(&source, &mut unused) {
            scanning.push(format!("{statement}\n    {}", scans.join(", ")));
        }
    }
    for clause in code.clauses() {
        let bases = BASES.iter().map(|base| code.resolve(base));
        let scans: Vec<Vec<String>> =
            bases.filter_map(|base| schema.scans_of(&format!("{base} {clause}"))).collect();
        let is_served = scans.is_empty() || scans.iter().any(Vec::is_empty);
        if !is_served && !is_allowed(&clause, &mut unused) {
            scanning.push(format!("{clause}\n    {}", scans.concat().join(", ")));
        }
    }
    assert!(scanning.is_empty(), "these scan tables that grow:\n{}", scanning.join("\n"));
    assert!(unused.is_empty(), "no statement with these scans any more: {unused:?}");
}

/// Kinds are written as text in SQL: a misspelt one would silently match nothing.
#[test]
fn statements_name_kinds_that_exist() {
    let mut named = BTreeSet::new();
    for string in &StoreCode::read().strings {
        let parts = string.split("kind = '").skip(1);
        named.extend(parts.filter_map(|part| Some(part.split_once('\'')?.0.to_owned())));
    }
    let unknown: Vec<_> = named.iter().filter(|name| Kind::from_name(name).is_none()).collect();
    assert!(named.contains("Secret") && unknown.is_empty(), "{unknown:?} of {named:?}");
}

#[test]
fn a_scan_is_recognized() {
    let schema = Schema::open();
    for (sql, is_scan) in [
        ("SELECT * FROM event WHERE (?1 IS NULL OR name = ?1)", true),
        ("SELECT e.id FROM event AS e WHERE e.message = ?1", true),
        ("DELETE FROM job WHERE ended < ?1", true),
        ("SELECT * FROM job WHERE ended IS NULL ORDER BY started", false),
        ("SELECT * FROM event WHERE kind = ?1 AND name = ?2", false),
        ("SELECT time FROM event ORDER BY id LIMIT 1", false),
        ("SELECT time FROM event ORDER BY time LIMIT 1", true),
        ("SELECT revision FROM state", false),
        ("SELECT body FROM document WHERE kind = ?1", true),
        ("SELECT d.body FROM state LEFT JOIN document d ON d.kind = 'Secret'", true),
        ("SELECT body FROM document d WHERE kind = ?1 AND namespace = ?2 AND name = ?3", false),
    ] {
        let scans = schema.scans_of(sql).unwrap_or_default();
        assert_eq!(!scans.is_empty(), is_scan, "{sql}: {scans:?}");
    }
}

fn is_allowed(text: &str, unused: &mut BTreeSet<&str>) -> bool {
    let parts = READ_EVERYTHING.iter().map(|(part, _)| *part);
    let allowing: Vec<&str> = parts.filter(|part| text.contains(part)).collect();
    for part in &allowing {
        unused.remove(part);
    }
    !allowing.is_empty()
}

/// The schema of a new state, in memory.
struct Schema {
    conn: Connection,
    tables: BTreeSet<String>,
    /// Indexes of a part of their table, which stay as small as that part.
    partial_indexes: BTreeSet<String>,
}

impl Schema {
    fn open() -> Self {
        let conn = Connection::open_in_memory().unwrap();
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
        conn.pragma_update(None, "foreign_keys", 1).unwrap();
        let folder = root().join("src/store/migrations");
        for number in 1..=std::fs::read_dir(&folder).unwrap().count() {
            let migration = std::fs::read_to_string(folder.join(format!("{number}.sql"))).unwrap();
            conn.execute_batch(&migration).unwrap();
        }
        let names = "SELECT name FROM sqlite_schema WHERE type =";
        let tables = select_names(&conn, &format!("{names} 'table'"));
        let partial_indexes =
            select_names(&conn, &format!("{names} 'index' AND sql LIKE '% WHERE %'"));
        Self { conn, tables, partial_indexes }
    }

    /// The tables whose rows are documents, which have names.
    fn document_tables(&self) -> Vec<&str> {
        let mut tables: Vec<&str> = self.tables.iter().map(String::as_str).collect();
        tables.retain(|table| {
            let sql = format!("SELECT id, body, namespace, name FROM {table}");
            self.conn.prepare(&sql).is_ok()
        });
        tables
    }

    /// The steps of the plan of a statement that scan a table which grows. None if there is no such
    /// statement.
    fn scans_of(&self, sql: &str) -> Option<Vec<String>> {
        let mut statement = self.conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).ok()?;
        let mut steps = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get::<_, String>(3).unwrap());
        }
        let is_sorted_first = steps.iter().any(|step| step.starts_with("USE TEMP B-TREE"));
        if sql.contains("LIMIT") && !is_sorted_first {
            return Some(Vec::new());
        }
        let tables_by_alias = self.tables_by_alias(sql);
        steps.retain(|step| self.is_scan_of_growing_table(step, &tables_by_alias));
        Some(steps)
    }

    fn is_scan_of_growing_table(
        &self,
        step: &str,
        tables_by_alias: &BTreeMap<String, String>,
    ) -> bool {
        let words: Vec<&str> = step.split(' ').collect();
        // One kind may be nearly all of the table that kinds share.
        let reads_kind = words.windows(2).any(|pair| pair == ["document_name", "(kind=?)"]);
        if words.first() == Some(&"SEARCH") && reads_kind {
            return true;
        }
        let ["SCAN", alias, how @ ..] = &words[..] else { return false };
        let Some(table) = tables_by_alias.get(*alias) else { return false };
        let index = how.iter().skip_while(|word| **word != "INDEX").nth(1);
        let is_partial = index.is_some_and(|index| self.partial_indexes.contains(*index));
        !SMALL_TABLES.contains(&table.as_str()) && !is_partial
    }

    /// The tables by the names that a statement has for them, and all by their own.
    fn tables_by_alias(&self, sql: &str) -> BTreeMap<String, String> {
        let mut aliases: BTreeMap<String, String> =
            self.tables.iter().map(|table| (table.clone(), table.clone())).collect();
        let words: Vec<&str> = sql.split([' ', ',', '(', ')']).collect();
        for pair in words.windows(2) {
            let [table, alias] = pair else { continue };
            if self.tables.contains(*table) {
                aliases.entry((*alias).to_owned()).or_insert_with(|| (*table).to_owned());
            }
        }
        for triple in words.windows(3) {
            let [table, "AS", alias] = triple else { continue };
            if self.tables.contains(*table) {
                aliases.insert((*alias).to_owned(), (*table).to_owned());
            }
        }
        aliases
    }
}

fn select_names(conn: &Connection, sql: &str) -> BTreeSet<String> {
    let mut statement = conn.prepare(sql).unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

/// The strings in the code of the store, without its tests.
struct StoreCode {
    strings: Vec<String>,
    constants: BTreeMap<String, String>,
}

impl StoreCode {
    fn read() -> Self {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(root().join("src/store"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
            .collect();
        paths.sort();
        let mut store_code = Self { strings: Vec::new(), constants: BTreeMap::new() };
        // The index of shared pools has the name of their annotation.
        store_code.constants.insert("SHARE_WITH".into(), SHARE_WITH.into());
        for path in paths {
            store_code.add_file(&std::fs::read_to_string(path).unwrap());
        }
        assert!(store_code.constants.contains_key("LEASE_SELECTION"));
        store_code
    }

    fn add_file(&mut self, file: &str) {
        let code = file.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
        let mut rest = code.as_str();
        while let Some((before, after)) = rest.split_once('"') {
            let (string, after) = read_string(after);
            if let Some(name) = constant_that_begins(before) {
                self.constants.insert(name.to_owned(), string.clone());
            }
            self.strings.push(string);
            rest = after;
        }
    }

    /// A text with the constants that it names in braces.
    fn resolve(&self, text: &str) -> String {
        let mut resolved = text.to_owned();
        for _ in 0..3 {
            for (name, value) in &self.constants {
                resolved = resolved.replace(&format!("{{{name}}}"), value);
            }
        }
        resolved
    }

    /// Whole statements as the code has them and as they are run: one over `{table}` once for each
    /// of the tables.
    fn statements(&self, tables: &[&str]) -> Vec<(String, String)> {
        let verbs = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH "];
        let mut statements = Vec::new();
        for string in &self.strings {
            let text = self.resolve(string);
            if !verbs.iter().any(|verb| text.starts_with(verb)) {
                continue;
            }
            let source = text.replace("{T::TABLE}", "{table}");
            if source.contains("{table}") || source.contains("{source}") {
                for table in tables {
                    statements.extend(statements_over(table, &source));
                }
            } else {
                statements.push((source, text));
            }
        }
        assert!(statements.len() > 90, "only {} statements", statements.len());
        statements
    }

    /// What follows the tables in statements that are put together.
    fn clauses(&self) -> Vec<String> {
        let clauses = self.strings.iter().filter(|string| string.starts_with("WHERE "));
        clauses.map(|clause| self.resolve(clause)).collect()
    }
}

/// A statement over `{table}` or `{source}` as it is run for the documents of a table: for all of a
/// kind, and for those of a namespace.
fn statements_over(table: &str, source: &str) -> Vec<(String, String)> {
    let of_kind = if table == "document" { "kind = 'Namespace'" } else { "TRUE" };
    let statement = source.replace("{table}", table).replace("{of_kind}", of_kind);
    let of_all = format!("{table} WHERE {of_kind}");
    let mut statements = vec![(source.to_owned(), statement.replace("{source}", &of_all))];
    if statement.contains("{source}") {
        let of_namespace = format!("{of_all} AND namespace = ?1");
        let source = source.replace("{source}", "{source of a namespace}");
        statements.push((source, statement.replace("{source}", &of_namespace)));
    }
    statements
}

/// A string literal from behind its first quote, and the code after its last one.
fn read_string(code: &str) -> (String, &str) {
    let mut string = String::new();
    let mut letters = code.char_indices();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '"' => return (string, &code[index + 1..]),
            '\\' => match letters.next() {
                // The line goes on after the blanks of the next one.
                Some((_, '\n')) => {
                    let blanks = letters.clone().take_while(|(_, letter)| *letter == ' ').count();
                    letters.by_ref().take(blanks).for_each(drop);
                }
                Some((_, 'n')) => string.push('\n'),
                escaped => string.extend(escaped.map(|(_, letter)| letter)),
            },
            _ => string.push(letter),
        }
    }
    (string, "")
}

/// The constant whose value begins after this code.
fn constant_that_begins(code: &str) -> Option<&str> {
    let declaration = code.trim_end().strip_suffix(": &str =")?;
    declaration.rsplit_once("const ").map(|(_, name)| name)
}
