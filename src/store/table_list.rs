//! The list of tables of a file in which it is damaged: what is left of it is read from the pages of
//! the file, and it is written anew, so that SQLite reads the tables. A table that it does not name
//! any more is sought where states of the same making have it. Only ever changes a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::model::refusal::Refusal;

use super::pages::{FILE_HEADER_SIZE, Page, PageKind};

/// The size of the pages of nearly all states.
const USUAL_PAGE_SIZE: u32 = 4096;

/// The tables of a state by name.
pub struct TableList(BTreeMap<String, ListedTable>);

struct ListedTable {
    /// The number of its first page.
    root: u32,
    /// The statement that makes it.
    sql: String,
    /// How many values a row has.
    value_count: u32,
}

impl TableList {
    /// Reads the list of a state in which it is whole.
    pub fn read(conn: &Connection) -> Result<Self, Refusal> {
        let sql = "SELECT name, rootpage, sql, \
                   (SELECT count(*) FROM pragma_table_xinfo(t.name) WHERE hidden = 0) \
                   FROM sqlite_schema t WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_'";
        let mut statement = conn.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut tables = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let table =
                ListedTable { root: row.get(1)?, sql: row.get(2)?, value_count: row.get(3)? };
            tables.insert(row.get(0)?, table);
        }
        Ok(Self(tables))
    }

    /// Whether SQLite finds all of these tables in a file.
    pub fn is_known_to(&self, conn: &Connection) -> bool {
        self.0.keys().all(|name| conn.prepare(&format!("SELECT 1 FROM {name}")).is_ok())
    }
}

/// What the pages of a file tell of its tables.
#[derive(Default)]
struct Traces {
    /// Where tables begin, by what is left of the list. Pages that are free may have an older list.
    roots: BTreeMap<String, BTreeSet<u32>>,
    /// Pages of the list, and those with which a table or an index begins by the list.
    taken: BTreeSet<u32>,
    /// Pages that are below others.
    children: BTreeSet<u32>,
    /// The first of the pages below each inner page of a table.
    first_child: BTreeMap<u32, u32>,
    /// How many values the first row of each leaf of a table has.
    value_counts: BTreeMap<u32, u32>,
    kinds: BTreeMap<u32, PageKind>,
}

impl Traces {
    fn read(file: &File, page_size: u32) -> io::Result<Self> {
        let mut traces = Self::default();
        let mut bytes = vec![0; usize::try_from(page_size).unwrap_or_default()];
        for number in 1..=u32::MAX {
            let offset = u64::from(number - 1) * u64::from(page_size);
            match file.read_exact_at(&mut bytes, offset) {
                Ok(()) => traces.add_page(number, &Page::new(&bytes, number)),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
        }
        Ok(traces)
    }

    fn add_page(&mut self, number: u32, page: &Page<'_>) {
        let Some(kind) = page.kind() else { return };
        self.kinds.insert(number, kind);
        self.children.extend(page.children());
        if kind == PageKind::InnerOfTable {
            self.first_child.extend(page.children().first().map(|child| (number, *child)));
        }
        if kind != PageKind::LeafOfTable {
            return;
        }
        let value_count = page.cells().first().and_then(|cell| page.count_values(*cell));
        self.value_counts.extend(value_count.map(|count| (number, count)));
        for cell in page.cells() {
            if let Some(entry) = Entry::read(page, cell) {
                self.taken.extend([number, entry.root]);
                if entry.is_of_table {
                    self.roots.entry(entry.name).or_default().insert(entry.root);
                }
            }
        }
    }

    /// Where each table begins, as far as that is known.
    fn find_roots(&self, tables: &TableList, models: &[TableList]) -> BTreeMap<String, u32> {
        let mut listed = BTreeMap::new();
        for (name, table) in &tables.0 {
            listed.extend(self.listed_root(name, table).map(|root| (name.clone(), root)));
        }
        let mut roots = listed.clone();
        for (name, table) in &tables.0 {
            if !listed.contains_key(name) {
                // The last tables of an earlier copy are where they were; those of another state
                // may be elsewhere.
                let root = models
                    .iter()
                    .find_map(|model| self.root_by(model, name, table, &listed, true))
                    .or_else(|| self.root_by(tables, name, table, &listed, false));
                roots.extend(root.map(|root| (name.clone(), root)));
            }
        }
        let mut unplaced: Vec<(&String, &ListedTable)> = tables.0.iter().collect();
        unplaced.retain(|(name, table)| !roots.contains_key(*name) && !table.is_index());
        for (name, table) in &unplaced {
            // The rows of tables with as many values cannot be told apart.
            let alike = unplaced.iter().filter(|(_, other)| other.value_count == table.value_count);
            if alike.count() == 1 {
                let root = self.root_by_rows(table, &roots);
                roots.extend(root.map(|root| ((*name).clone(), root)));
            }
        }
        roots
    }

    /// Where a table begins that is found in no other way: with the one page with which no other
    /// table begins and whose rows have as many values as those of the table.
    fn root_by_rows(&self, table: &ListedTable, roots: &BTreeMap<String, u32>) -> Option<u32> {
        // The first page is that of the list itself.
        let mut pages = self.kinds.keys().filter(|page| {
            **page > 1
                && self.may_be_root(**page, table)
                && !self.taken.contains(page)
                && !roots.values().any(|root| root == *page)
                && self.value_counts.get(&self.leaf_below(**page)) == Some(&table.value_count)
        });
        let page = pages.next()?;
        if pages.next().is_none() { Some(*page) } else { None }
    }

    /// A leaf of the table that begins with a page.
    fn leaf_below(&self, root: u32) -> u32 {
        let mut page = root;
        // A table has fewer levels; pages of a damaged file may be below each other.
        for _ in 0..20 {
            let Some(child) = self.first_child.get(&page) else { break };
            page = *child;
        }
        page
    }

    /// Where a table begins by the list.
    fn listed_root(&self, name: &str, table: &ListedTable) -> Option<u32> {
        let mut roots = self.roots.get(name)?.clone();
        if roots.len() > 1 {
            roots.retain(|root| self.may_be_root(*root, table));
        }
        if roots.len() == 1 { roots.first().copied() } else { None }
    }

    /// Where a model has a table that is not listed. Tables begin in the order in which they were
    /// made, so this counts only if all listed tables before it, and the next one after it, begin
    /// where the model has them. Whether there must be a next one is up to the caller.
    fn root_by(
        &self,
        model: &TableList,
        name: &str,
        table: &ListedTable,
        listed: &BTreeMap<String, u32>,
        may_be_last: bool,
    ) -> Option<u32> {
        let root = model.0.get(name)?.root;
        let mut neighbours = Vec::new();
        for (listed_name, listed_root) in listed {
            // A model that was made earlier has fewer tables.
            if let Some(ListedTable { root: model_root, .. }) = model.0.get(listed_name) {
                neighbours.push((*model_root, model_root == listed_root));
            }
        }
        neighbours.sort_unstable();
        let next = neighbours.iter().position(|(model_root, _)| *model_root > root);
        let count = next.map_or(neighbours.len(), |next| next + 1);
        let is_alike = neighbours.iter().take(count).all(|(_, is_alike)| *is_alike);
        let is_placed = next.is_some() || (may_be_last && count > 0);
        let is_free = !self.taken.contains(&root) && self.may_be_root(root, table);
        if is_alike && is_placed && is_free { Some(root) } else { None }
    }

    /// Whether a table may begin with a page.
    fn may_be_root(&self, root: u32, table: &ListedTable) -> bool {
        let is_of_kind = match self.kinds.get(&root) {
            Some(PageKind::InnerOfTable | PageKind::LeafOfTable) => !table.is_index(),
            Some(PageKind::InnerOfIndex | PageKind::LeafOfIndex) => table.is_index(),
            None => false,
        };
        is_of_kind && !self.children.contains(&root)
    }
}

impl ListedTable {
    /// Whether its rows are in pages like those of an index.
    fn is_index(&self) -> bool {
        self.sql.contains("WITHOUT ROWID")
    }
}

/// A row of the list.
struct Entry {
    name: String,
    is_of_table: bool,
    root: u32,
}

impl Entry {
    /// Reads a row; none if it is not one of the list, or of something that has no pages.
    fn read(page: &Page<'_>, cell: usize) -> Option<Self> {
        let values = page.read_row(cell, 4)?;
        let [kind, name, _, root] = values.as_slice() else { return None };
        let is_of_table = match kind.text()? {
            "table" => true,
            "index" => false,
            _ => return None,
        };
        let root = u32::try_from(root.number()?).ok()?;
        if root < 2 {
            return None;
        }
        Some(Self { name: name.text()?.to_owned(), is_of_table, root })
    }
}

/// Writes the list of tables of a copy anew. `tables` are those of a new state, and `models` earlier
/// copies of the same state. The copy must not be open, and have no log.
pub fn rebuild_table_list(
    copy: &Path,
    tables: &TableList,
    models: &[TableList],
) -> Result<(), Refusal> {
    let roots = read_and_empty_list(copy, tables, models)
        .map_err(|error| Refusal::unwritable(copy, &error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(copy, flags)?;
    conn.execute_batch("PRAGMA writable_schema = ON; BEGIN")?;
    let sql = "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) \
               VALUES ('table', ?1, ?1, ?2, ?3)";
    let mut insert = conn.prepare(sql)?;
    for (name, root) in &roots {
        let statement = tables.0.get(name).map(|table| table.sql.as_str());
        insert.execute((name, root, statement))?;
    }
    Ok(conn.execute_batch("COMMIT")?)
}

/// Finds where tables begin, and then makes the first page that of an empty list.
fn read_and_empty_list(
    copy: &Path,
    tables: &TableList,
    models: &[TableList],
) -> io::Result<BTreeMap<String, u32>> {
    let file = OpenOptions::new().read(true).write(true).open(copy)?;
    let mut first_bytes = [0; FILE_HEADER_SIZE + 8];
    file.read_exact_at(&mut first_bytes, 0)?;
    let page_size = page_size_of(&first_bytes);
    let roots = Traces::read(&file, page_size)?.find_roots(tables, models);
    let page_count = u32::try_from(file.metadata()?.len() / u64::from(page_size));
    // No log, the size of the file, and no free pages: the list of those may be damaged, too.
    first_bytes[18..20].copy_from_slice(&[1, 1]);
    first_bytes[28..32].copy_from_slice(&page_count.unwrap_or_default().to_be_bytes());
    first_bytes[32..40].fill(0);
    first_bytes.copy_within(24..28, 92);
    // A leaf without rows. A page of 64 KiB has its end at 0.
    let end = u16::try_from(page_size).unwrap_or_default().to_be_bytes();
    first_bytes[FILE_HEADER_SIZE..].copy_from_slice(&[13, 0, 0, 0, 0, end[0], end[1], 0]);
    file.write_all_at(&first_bytes, 0)?;
    Ok(roots)
}

/// The size of the pages of a file by its header, if that has one.
fn page_size_of(header: &[u8]) -> u32 {
    match u32::from(u16::from_be_bytes([header[16], header[17]])) {
        // 64 KiB does not fit into the two bytes of the field.
        1 => 65536,
        size if size.is_power_of_two() && size >= 512 => size,
        _ => USUAL_PAGE_SIZE,
    }
}
