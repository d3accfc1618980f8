//! Chooses what a table shows unless `-o wide` asks for everything. On a terminal it fits: sentences
//! are shortened, and columns that matter least are left out. Elsewhere its columns are always the
//! same ones, and nothing is cut. It knows columns by their names alone, and no kinds.

use super::clean::clean_line;
use super::columns::Row;
use super::wrap::shorten;

/// Spaces between two columns.
const GAP: usize = 2;

/// Where a table is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// On a terminal with so many columns.
    Terminal(usize),
    /// In a pipe or a file, where programs read it: what it shows never depends on its data.
    Pipe,
}

/// Columns that only wide tables have in a pipe. A table is recognised by a column that no other
/// table has, the first of each pair.
const WIDE_IN_PIPES: [(&str, &[&str]); 8] = [
    ("size", &["running", "free-cdc"]),
    ("phase", &["customization", "attempt"]),
    ("attempts-left", &["attempts-left", "last-error"]),
    ("hostname", &["role", "cpu", "mem", "disk", "seen"]),
    ("online", &["online"]),
    ("resting", &["resting"]),
    ("verb", &["try", "started"]),
    ("actor", &["actor"]),
];

/// Columns of long names of which the beginning is enough for every command, and how much of it.
const ABBREVIATED: [(&str, usize); 1] = [("id", 8)];

/// Columns whose cells may be shortened, each with the width that it keeps.
const SHORTENED: [(&str, usize); 10] = [
    ("release", 30),
    ("shortnames", 14),
    ("message", 20),
    ("last-error", 20),
    ("error", 18),
    ("ranges", 20),
    ("macs", 17),
    ("state", 20),
    ("reason", 19),
    ("object", 22),
];

/// Columns that may be left out, the least important first. The first column of a table is always
/// shown.
const LEFT_OUT: [&str; 41] = [
    "namespaced",
    "apiversion",
    "started",
    "try",
    "resting",
    "running",
    "disk",
    "mem",
    "cpu",
    "attempt",
    "attempts-left",
    "reserved",
    "customization",
    "actor",
    "online",
    "free-cdc",
    "age",
    "role",
    "seen",
    "type",
    "power",
    "owner",
    "standby",
    "installing",
    "claimed",
    "consumer",
    "data",
    "index",
    "total",
    "template",
    "iso created at",
    "hosts",
    "used",
    "expires",
    "pool",
    "claim",
    "cluster",
    "error",
    "last-error",
    "hostname",
    "duration",
];

/// The rows with the columns and the letters that are shown there. Rows without columns that may be
/// shortened or left out stay as they are.
pub fn fit_rows(rows: &[Row], layout: Layout) -> Vec<Row> {
    let abbreviated_rows = abbreviate_rows(rows);
    match layout {
        Layout::Terminal(width) => fit_terminal(&abbreviated_rows, width),
        Layout::Pipe => keep_columns(&abbreviated_rows, &fitting_columns(rows, layout)),
    }
}

/// The cells of these columns alone, whole.
fn keep_columns(rows: &[Row], columns: &[&'static str]) -> Vec<Row> {
    let mut kept_rows = rows.to_vec();
    for row in &mut kept_rows {
        row.retain(|(name, _)| columns.contains(name));
    }
    kept_rows
}

fn abbreviate_rows(rows: &[Row]) -> Vec<Row> {
    let mut abbreviated_rows = rows.to_vec();
    for (name, cell) in abbreviated_rows.iter_mut().flatten() {
        if let Some((_, length)) = ABBREVIATED.iter().find(|(column, _)| *column == *name) {
            *cell = cell.chars().take(*length).collect();
        }
    }
    abbreviated_rows
}

fn fit_terminal(rows: &[Row], total_width: usize) -> Vec<Row> {
    let fitting_columns = leave_out_columns(measure_columns(rows), total_width);
    let widths = share_width(&fitting_columns, total_width);
    let mut fitting_rows = Vec::with_capacity(rows.len());
    for row in rows {
        let mut fitting_row = Row::new();
        for (column, width) in fitting_columns.iter().zip(&widths) {
            if let Some((name, cell)) = row.get(column.index) {
                fitting_row.push((*name, shorten(&clean_line(cell), *width)));
            }
        }
        fitting_rows.push(fitting_row);
    }
    fitting_rows
}

/// The names of the columns that are shown there.
pub fn fitting_columns(rows: &[Row], layout: Layout) -> Vec<&'static str> {
    let columns = measure_columns(&abbreviate_rows(rows));
    match layout {
        Layout::Terminal(width) => {
            leave_out_columns(columns, width).iter().map(|column| column.name).collect()
        }
        Layout::Pipe => {
            let mut names: Vec<&'static str> = columns.iter().map(|column| column.name).collect();
            let wide_columns = WIDE_IN_PIPES.iter().find(|(mark, _)| names.contains(mark));
            names.retain(|name| wide_columns.is_none_or(|(_, wide)| !wide.contains(name)));
            names
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
struct Column {
    name: &'static str,
    /// Its place in the rows.
    index: usize,
    /// The letters of its widest cell or its header.
    width: usize,
    /// The letters that it keeps if it is shortened.
    least_width: usize,
    is_empty: bool,
}

fn measure_columns(rows: &[Row]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let Some(first_row) = rows.first() else { return columns };
    for (index, (name, _)) in first_row.iter().enumerate() {
        let mut width = name.chars().count();
        let mut is_empty = true;
        for (_, cell) in rows.iter().filter_map(|row| row.get(index)) {
            width = width.max(clean_line(cell).chars().count());
            is_empty &= cell.is_empty();
        }
        let shortened = SHORTENED.iter().find(|(shortened_name, _)| shortened_name == name);
        let least_width = shortened.map_or(width, |(_, least_width)| width.min(*least_width));
        columns.push(Column { name, index, width, least_width, is_empty });
    }
    columns
}

/// The columns that fit. Columns without a value in any row are left out first; then others, until
/// the rest fits when what may be shortened is as narrow as it can be.
fn leave_out_columns(mut columns: Vec<Column>, total_width: usize) -> Vec<Column> {
    for name in LEFT_OUT {
        if width_of(&columns, |column| column.width) <= total_width {
            return columns;
        }
        columns.retain(|column| column.index == 0 || column.name != name || !column.is_empty);
    }
    let mut left_out = Vec::new();
    for name in LEFT_OUT {
        if width_of(&columns, |column| column.least_width) <= total_width {
            break;
        }
        let place = columns.iter().position(|column| column.index > 0 && column.name == name);
        left_out.extend(place.map(|place| columns.remove(place)));
    }
    // Where a wide column went, a narrow one may have room again.
    while let Some(column) = left_out.pop() {
        let width = width_of(&columns, |column| column.least_width);
        if width + GAP + column.least_width <= total_width {
            let place = columns.partition_point(|shown| shown.index < column.index);
            columns.insert(place, column);
        }
    }
    columns
}

/// The width of a table with these columns.
fn width_of(columns: &[Column], column_width: fn(&Column) -> usize) -> usize {
    let width: usize = columns.iter().map(|column| column_width(column) + GAP).sum();
    width.saturating_sub(GAP)
}

/// The width of each column. Those that may be shortened share what the others leave, the first
/// ones first.
fn share_width(columns: &[Column], total_width: usize) -> Vec<usize> {
    let mut left = total_width.saturating_sub(width_of(columns, |column| column.least_width));
    let mut widths = Vec::with_capacity(columns.len());
    for column in columns {
        let added_width = (column.width - column.least_width).min(left);
        left -= added_width;
        widths.push(column.least_width + added_width);
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(row: &[(&'static str, &str)], expected: &[(&'static str, &str)]) {
        let rows: Vec<Row> =
            vec![row.iter().map(|(name, cell)| (*name, (*cell).to_owned())).collect()];
        let expected: Row = expected.iter().map(|(name, cell)| (*name, (*cell).into())).collect();
        assert_eq!(fit_rows(&rows, Layout::Terminal(80)), [expected]);
    }

    #[test]
    fn empty_columns_go_first_and_then_those_that_matter_least() {
        let name = "n".repeat(60);
        check(&[("name", "a"), ("age", "3d")], &[("name", "a"), ("age", "3d")]);
        check(
            &[("name", &name), ("attempt", "1"), ("claim", ""), ("age", "3d4h")],
            &[("name", &name), ("attempt", "1"), ("age", "3d4h")],
        );
        check(
            &[("name", &name), ("attempt", "1"), ("claim", "ci-17"), ("age", "3d4h")],
            &[("name", &name), ("claim", "ci-17"), ("age", "3d4h")],
        );
    }

    #[test]
    fn a_pipe_has_the_same_columns_whatever_is_in_them_and_nothing_is_cut() {
        for message in ["m".repeat(9), "m".repeat(200)] {
            let row: Row = vec![
                ("age", "3d4h".to_owned()),
                ("actor", String::new()),
                ("message", message.clone()),
            ];
            let expected: Row = vec![("age", "3d4h".to_owned()), ("message", message)];
            assert_eq!(fit_rows(&[row], Layout::Pipe), [expected]);
        }
        let job: Row = vec![
            ("id", "01bea229-0131-1e4f-1374-7cda0a71a328".to_owned()),
            ("verb", "provision".to_owned()),
        ];
        for layout in [Layout::Pipe, Layout::Terminal(80)] {
            assert_eq!(fit_rows(std::slice::from_ref(&job), layout)[0][0].1, "01bea229");
        }
    }

    #[test]
    fn sentences_are_shortened_and_names_never() {
        let message = "m".repeat(90);
        let shortened = format!("{}...", "m".repeat(71));
        check(
            &[("age", "3d4h"), ("message", &message)],
            &[("age", "3d4h"), ("message", &shortened)],
        );
        let name = "n".repeat(90);
        check(&[("name", &name), ("age", "3d4h")], &[("name", &name)]);
    }
}
