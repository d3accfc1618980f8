//! `-o custom-columns=NAME:.metadata.name,...`: a table whose columns are paths into documents. It
//! knows no kinds.

use serde_json::Value;

use crate::model::refusal::Refusal;

use super::jsonpath::{print_value, select_values};
use super::table::draw_table;

/// What a cell shows of a document that does not have the value.
const NO_VALUE: &str = "<none>";

/// Draws a row for each document. `columns` are headers with their paths: `NAME:.metadata.name`,
/// separated by commas.
pub fn draw_custom_columns(
    columns: &str,
    documents: &[Value],
    has_headers: bool,
) -> Result<String, Refusal> {
    let mut headers = Vec::new();
    let mut paths = Vec::new();
    for column in columns.split(',') {
        let Some((header, path)) = column.split_once(':') else {
            return Err(Refusal::usage(format!("`{column}` is not HEADER:PATH"))
                .next("poolctl get pool -o custom-columns=NAME:.metadata.name,SIZE:.spec.size"));
        };
        headers.push(header);
        paths.push(path);
    }
    let mut rows = Vec::new();
    for document in documents {
        let mut cells = Vec::new();
        for path in &paths {
            let values = select_values(path, document)?;
            let shown: Vec<String> = values.into_iter().map(print_value).collect();
            cells.push(if shown.is_empty() { NO_VALUE.to_owned() } else { shown.join(",") });
        }
        rows.push(cells);
    }
    let table = draw_table(&headers, &rows);
    if has_headers {
        return Ok(table);
    }
    Ok(table.split_once('\n').map_or_else(String::new, |(_, body)| body.to_owned()))
}

/// The documents in a List, or a document that is none.
pub fn items_of(document: &Value) -> Vec<Value> {
    match document["items"].as_array() {
        Some(items) if document["kind"] == "List" => items.clone(),
        _ => vec![document.clone()],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_paths() {
        let list = json!({"kind": "List", "items": [
            {"metadata": {"name": "lab"}, "spec": {"size": 2}},
            {"metadata": {"name": "office"}},
        ]});
        let columns = "NAME:.metadata.name,SIZE:{.spec.size}";
        let table = draw_custom_columns(columns, &items_of(&list), true).unwrap();
        assert_eq!(table, "NAME    SIZE\nlab     2\noffice  <none>\n");
        let body = draw_custom_columns(columns, &items_of(&list), false).unwrap();
        assert_eq!(body, "lab     2\noffice  <none>\n");
        assert!(draw_custom_columns(".metadata.name", &[], true).is_err());
    }
}
