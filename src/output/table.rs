//! Tables as kubectl draws them: upper-case headers, two spaces, no borders, never wrapped.

use comfy_table::{ContentArrangement, Table, presets::NOTHING};

use super::clean::clean;

/// Rows of text below a header.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|cell| cell.to_uppercase()));
    for row in rows {
        table.add_row(
            row.iter().map(|cell| clean(if cell.is_empty() { "-" } else { cell }).into_owned()),
        );
    }
    let columns = table.column_count();
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at + 1 == columns { 0 } else { 2 }));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A table from rows that carry their header.
pub fn render(rows: &[super::Row], headers: bool) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let header: Vec<&str> = first.iter().map(|(name, _)| *name).collect();
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|(_, cell)| cell.clone()).collect()).collect();
    let text = table(&header, &cells);
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    if headers { text } else { body.to_owned() }
}
