//! `--sort-by`: a column's name, or a jsonpath into the documents.

use std::cmp::Ordering;

use serde_json::Value;

use crate::model::refusal::Refusal;
use crate::output::{self, Row};

use crate::commands::suggest;

/// What has no such value comes first; what is equal stays as it was.
pub fn by<T>(
    all: &mut Vec<T>,
    what: &str,
    row: impl Fn(&T) -> Row,
    document: impl Fn(&T) -> Value,
) -> Result<(), Refusal> {
    let path = what.contains(['.', '{', '$']);
    let mut keyed = Vec::new();
    for one in all.drain(..) {
        let key = if path {
            output::find(what, &document(&one))?.into_iter().next().cloned().unwrap_or_default()
        } else if what.eq_ignore_ascii_case("age") {
            made(&document(&one))
        } else {
            column(&row(&one), &what.to_lowercase())?
        };
        keyed.push((key, one));
    }
    keyed.sort_by(|(a, _), (b, _)| compare(a, b));
    all.extend(keyed.into_iter().map(|(_, one)| one));
    Ok(())
}

/// When it began: what an age is sorted by.
fn made(document: &Value) -> Value {
    let places = ["/metadata/creationTimestamp", "/eventTime", "/status/started"];
    places.iter().find_map(|place| document.pointer(place)).cloned().unwrap_or_default()
}

/// What is shown, as a number if it is one.
fn column(row: &Row, name: &str) -> Result<Value, Refusal> {
    let known: Vec<&str> = row.iter().map(|(known, _)| *known).collect();
    let Some((_, cell)) = row.iter().find(|(known, _)| *known == name) else {
        let refusal = Refusal::usage(format!("there is no column `{name}`"));
        let hint = suggest(name, known.iter().copied());
        let known = format!("columns are {}; or a path like .metadata.name", known.join(", "));
        return Err(refusal.because(hint.unwrap_or(known)));
    };
    Ok(cell.parse::<i64>().map_or_else(|_| Value::from(cell.as_str()), Value::from))
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        // Numbers before words.
        (Some(_), None) if !b.is_null() => Ordering::Less,
        (None, Some(_)) if !a.is_null() => Ordering::Greater,
        _ => output::shown(a).cmp(&output::shown(b)),
    }
}
