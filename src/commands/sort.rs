//! `--sort-by`: a column's name, or a jsonpath into the documents.

use std::cmp::Ordering;

use serde_json::Value;

use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::output::{self, View};

use super::suggest;

/// What has no such value comes first; what is equal stays as it was.
pub fn by(objects: &mut Vec<Object>, what: &str, view: &View) -> Result<(), Refusal> {
    let path = what.starts_with(['.', '{', '$']);
    let mut keyed = Vec::new();
    for object in objects.drain(..) {
        let key = if path {
            let document = object.to_wire();
            output::find(what, &document)?.into_iter().next().cloned().unwrap_or_default()
        } else {
            column(&object, what, view)?
        };
        keyed.push((key, object));
    }
    keyed.sort_by(|(a, _), (b, _)| compare(a, b));
    objects.extend(keyed.into_iter().map(|(_, object)| object));
    Ok(())
}

/// An age is sorted by when it began, anything else by what is shown.
fn column(object: &Object, name: &str, view: &View) -> Result<Value, Refusal> {
    let row = output::row(object, view);
    let name = name.to_lowercase();
    let known: Vec<&str> = row.iter().map(|(known, _)| *known).collect();
    let Some((_, cell)) = row.iter().find(|(known, _)| *known == name) else {
        let refusal = Refusal::usage(format!("there is no column `{name}`"));
        let hint = suggest(&name, known.iter().copied());
        let known = format!("columns are {}; or a path like .metadata.name", known.join(", "));
        return Err(refusal.because(hint.unwrap_or(known)));
    };
    if name == "age" {
        let created = object.to_wire()["metadata"]["creationTimestamp"].take();
        return Ok(created);
    }
    Ok(cell.parse::<i64>().map_or_else(|_| Value::from(cell.as_str()), Value::from))
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        // Numbers before words.
        (Some(_), None) if !b.is_null() => Ordering::Less,
        (None, Some(_)) if !a.is_null() => Ordering::Greater,
        _ => text(a).cmp(&text(b)),
    }
}

fn text(value: &Value) -> String {
    output::shown(value)
}
