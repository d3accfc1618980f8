//! Draws tables as kubectl does: headers in upper case, two spaces between columns, no borders,
//! lines that are never wrapped. It knows no kinds of objects, and never which columns they have.

use comfy_table::{ContentArrangement, Table, presets::NOTHING};

use super::clean::clean_line;
use super::columns::Row;

/// Draws rows of cells below their header. Cells are cleaned; an empty one is shown as `-`.
pub fn draw_table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|cell| cell.to_uppercase()));
    for row in rows {
        table.add_row(
            row.iter()
                .map(|cell| clean_line(if cell.is_empty() { "-" } else { cell }).into_owned()),
        );
    }
    let columns = table.column_count();
    for (index, column) in table.column_iter_mut().enumerate() {
        let is_last = index + 1 == columns;
        column.set_padding((0, if is_last { 0 } else { 2 }));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Draws rows that carry the names of their columns: those of the first row are the header. Without
/// rows there is no header either.
pub fn draw_rows(rows: &[Row]) -> String {
    let Some(first_row) = rows.first() else {
        return String::new();
    };
    let header: Vec<&str> = first_row.iter().map(|(column, _)| *column).collect();
    let mut cells: Vec<Vec<String>> = Vec::with_capacity(rows.len());
    for row in rows {
        cells.push(row.iter().map(|(_, cell)| cell.clone()).collect());
    }
    draw_table(&header, &cells)
}
