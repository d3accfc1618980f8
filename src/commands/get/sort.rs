//! `--sort-by`: sorts what is listed by a column, or by a jsonpath into its documents.

use std::cmp::Ordering;

use serde_json::Value;

use crate::model::refusal::Refusal;
use crate::output::{self, Row};

use crate::commands::suggest;

/// Sorts items by a column's name or a jsonpath, in ascending order. Items without that value come
/// first, and equal items keep their order. A column that the rows do not have is refused.
pub fn sort_by<T>(
    items: &mut Vec<T>,
    column_or_path: &str,
    row: impl Fn(&T) -> Row,
    document: impl Fn(&T) -> Value,
) -> Result<(), Refusal> {
    let is_path = column_or_path.contains(['.', '{', '$']);
    let mut keyed_items = Vec::new();
    for item in items.drain(..) {
        let sort_key = if is_path {
            let document = document(&item);
            let values = output::select_values(column_or_path, &document)?;
            values.into_iter().next().cloned().unwrap_or_default()
        } else if column_or_path.eq_ignore_ascii_case("age") {
            start_time(&document(&item))
        } else {
            cell_value(&row(&item), &column_or_path.to_lowercase())?
        };
        keyed_items.push((sort_key, item));
    }
    keyed_items.sort_by(|(left, _), (right, _)| compare_values(left, right));
    items.extend(keyed_items.into_iter().map(|(_, item)| item));
    Ok(())
}

/// When an object was created, an event happened or a job started: ages are sorted by it.
fn start_time(document: &Value) -> Value {
    let pointers = ["/metadata/creationTimestamp", "/eventTime", "/status/started"];
    pointers.iter().find_map(|pointer| document.pointer(pointer)).cloned().unwrap_or_default()
}

/// What a column of a row shows, as a number if it is one.
fn cell_value(row: &Row, column: &str) -> Result<Value, Refusal> {
    let Some((_, cell)) = row.iter().find(|(name, _)| *name == column) else {
        let names: Vec<&str> = row.iter().map(|(name, _)| *name).collect();
        let cause = suggest(column, names.iter().copied()).unwrap_or_else(|| {
            format!("the columns are {}; a path like .metadata.name works too", names.join(", "))
        });
        return Err(Refusal::usage(format!("there is no column `{column}`")).because(cause));
    };
    Ok(cell.parse::<i64>().map_or_else(|_| Value::from(cell.as_str()), Value::from))
}

/// Orders two values of a column: what has no value first, then numbers by their size, then words.
fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left.total_cmp(&right),
        // Numbers stand before words, and behind what has no value.
        (Some(_), None) if !right.is_null() => Ordering::Less,
        (None, Some(_)) if !left.is_null() => Ordering::Greater,
        _ => output::print_value(left).cmp(&output::print_value(right)),
    }
}
