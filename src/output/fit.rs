//! Fits the rows of a table into a terminal: sentences are shortened, and columns that matter least
//! are left out. `-o wide` has them all. It knows columns by their names alone, and no kinds.

use super::clean::clean_line;
use super::columns::Row;
use super::wrap::shorten;

/// Spaces between two columns.
const GAP: usize = 2;

/// Columns whose cells may be shortened, each with the width that it keeps.
const SHORTENED: [(&str, usize); 10] = [
    ("message", 20),
    ("last-error", 20),
    ("error", 18),
    ("release", 30),
    ("ranges", 20),
    ("macs", 17),
    ("state", 20),
    ("id", 11),
    ("reason", 19),
    ("object", 22),
];

/// Columns that may be left out, the least important first. The first column of a table is always
/// shown.
const LEFT_OUT: [&str; 38] = [
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
];

/// The rows with the columns and the letters that fit so many columns of a terminal. Rows without
/// columns that may be shortened or left out stay as they are.
pub fn fit_rows(rows: &[Row], total_width: usize) -> Vec<Row> {
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

/// The names of the columns that are shown if rows are fitted into a terminal.
pub fn fitting_columns(rows: &[Row], total_width: usize) -> Vec<&'static str> {
    let columns = leave_out_columns(measure_columns(rows), total_width);
    columns.iter().map(|column| column.name).collect()
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
        assert_eq!(fit_rows(&rows, 80), [expected]);
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
