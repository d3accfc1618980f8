//! kubectl's jsonpath: text with `{expressions}`; ranges, filters, slices, unions, recursion.

use std::fmt::Write;

use serde_json::Value;

use crate::model::refusal::Refusal;
use crate::model::text::safe_json;

use super::clean::clean_lines;

/// A piece of a template.
enum Piece<'a> {
    Text(String),
    Path(&'a str),
    Range(&'a str, Vec<Piece<'a>>),
}

pub fn evaluate(template: &str, document: &Value) -> Result<String, Refusal> {
    let wrong = |why: String| {
        Refusal::usage(format!("jsonpath `{template}` cannot be read"))
            .because(why)
            .next("poolctl get pool -o jsonpath='{.items[*].metadata.name}'")
    };
    // A path alone may come without braces, as kubectl allows.
    let braced =
        if template.contains('{') { template.to_owned() } else { format!("{{{template}}}") };
    let mut rest = braced.as_str();
    let pieces = parse(&mut rest, false).map_err(wrong)?;
    let mut out = String::new();
    write(&pieces, document, document, &mut out).map_err(wrong)?;
    Ok(out)
}

/// What a single path leads to, with or without braces and the leading dot.
pub fn find<'a>(path: &str, document: &'a Value) -> Result<Vec<&'a Value>, Refusal> {
    let bare = path.trim().trim_start_matches('{').trim_end_matches('}').trim();
    select(bare, document, document).map_err(|why| {
        Refusal::usage(format!("jsonpath `{path}` cannot be read"))
            .because(why)
            .next("poolctl get pool --sort-by='{.metadata.creationTimestamp}'")
    })
}

fn parse<'a>(rest: &mut &'a str, inside: bool) -> Result<Vec<Piece<'a>>, String> {
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let Some(start) = rest.find('{') else {
            pieces.push(Piece::Text((*rest).to_owned()));
            *rest = "";
            break;
        };
        if start > 0 {
            pieces.push(Piece::Text(rest[..start].to_owned()));
        }
        let end = closing(&rest[start..]).ok_or("a `{` is not closed")? + start;
        let expression = rest[start + 1..end].trim();
        *rest = &rest[end + 1..];
        if expression == "end" {
            return if inside { Ok(pieces) } else { Err("`end` without `range`".into()) };
        } else if let Some(path) = expression.strip_prefix("range ") {
            let body = parse(rest, true)?;
            pieces.push(Piece::Range(path.trim(), body));
        } else if let Some(text) = quoted(expression) {
            pieces.push(Piece::Text(text));
        } else {
            pieces.push(Piece::Path(expression));
        }
    }
    if inside { Err("`range` without `end`".into()) } else { Ok(pieces) }
}

/// Where the brace that opens `text` is closed, quotes respected.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (at, letter) in text.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (quote, letter) {
            (Some(_), '\\') => escaped = true,
            (None, '}') => return Some(at),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    None
}

fn quoted(text: &str) -> Option<String> {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let inner = inner('"').or_else(|| inner('\''))?;
    Some(inner.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\""))
}

fn write(pieces: &[Piece<'_>], root: &Value, here: &Value, out: &mut String) -> Result<(), String> {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Range(path, body) => {
                for one in select(path, root, here)? {
                    write(body, root, one, out)?;
                }
            }
            Piece::Path(path) => {
                for (at, value) in select(path, root, here)?.into_iter().enumerate() {
                    let space = if at > 0 { " " } else { "" };
                    let _ = write!(out, "{space}{}", shown(value));
                }
            }
        }
    }
    Ok(())
}

/// As templates print it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => clean_lines(text),
        Value::Null => String::new(),
        other => safe_json(&other.to_string()),
    }
}

/// Every value that a path leads to. What is not there is nothing, not an error.
fn select<'a>(path: &str, root: &'a Value, here: &'a Value) -> Result<Vec<&'a Value>, String> {
    let (mut rest, start) = match path.strip_prefix('$') {
        Some(rest) => (rest, root),
        None => (path.strip_prefix('@').unwrap_or(path), here),
    };
    let mut found = vec![start];
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            let mut all = Vec::new();
            for one in found {
                descend(one, &mut all);
            }
            found = all;
            rest = after;
            if rest.starts_with('[') {
                continue;
            }
            found = step_name(&mut rest, found);
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            if !rest.is_empty() && !rest.starts_with('[') {
                found = step_name(&mut rest, found);
            }
        } else if rest.starts_with('[') {
            let end = bracket(rest).ok_or("a `[` is not closed")?;
            found = subscript(rest[1..end].trim(), root, &found)?;
            rest = &rest[end + 1..];
        } else if found.len() == 1 && std::ptr::eq(found[0], start) {
            found = step_name(&mut rest, found);
        } else {
            return Err(format!("`{rest}` is not understood"));
        }
    }
    Ok(found)
}

fn step_name<'a>(rest: &mut &str, found: Vec<&'a Value>) -> Vec<&'a Value> {
    let mut name = String::new();
    let mut letters = rest.char_indices();
    let mut end = rest.len();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            '.' | '[' => {
                end = at;
                break;
            }
            letter => name.push(letter),
        }
    }
    *rest = &rest[end..];
    if name == "*" {
        return found.into_iter().flat_map(children).collect();
    }
    found.into_iter().filter_map(|one| one.get(&name)).collect()
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, all: &mut Vec<&'a Value>) {
    all.push(value);
    for child in children(value) {
        descend(child, all);
    }
}

/// Where the bracket that opens `text` is closed.
fn bracket(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0_usize);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) => quote = quote.filter(|_| open != letter),
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// What is in the brackets: all, a filter, or a union of names, indices and slices.
fn subscript<'a>(
    inner: &str,
    root: &'a Value,
    here: &[&'a Value],
) -> Result<Vec<&'a Value>, String> {
    let mut found = Vec::new();
    if inner == "*" {
        return Ok(here.iter().copied().flat_map(children).collect());
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|inner| inner.strip_suffix(')')) {
        for one in here.iter().copied().flat_map(children) {
            if holds(filter, root, one)? {
                found.push(one);
            }
        }
        return Ok(found);
    }
    for part in inner.split(',').map(str::trim) {
        for one in here.iter().copied() {
            match (quoted(part), one) {
                (Some(name), one) => match one.get(&name) {
                    Some(value) => found.push(value),
                    // kubectl takes whole paths between the quotes.
                    None => found.extend(select(&name, root, one)?),
                },
                (None, Value::Array(items)) => found.extend(slice(part, items)?),
                (None, one) => found.extend(one.get(part)),
            }
        }
    }
    Ok(found)
}

/// `3`, `-1`, `1:4`, `::2`.
fn slice<'a>(part: &str, items: &'a [Value]) -> Result<Vec<&'a Value>, String> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let number = |text: &str, default: i64| match text.trim() {
        "" => Ok(default),
        text => text.parse::<i64>().map_err(|_| format!("`{part}` is not an index")),
    };
    let from_end = |at: i64| if at < 0 { at + length } else { at };
    let place = |at: i64| usize::try_from(at).ok().and_then(|at| items.get(at));
    let parts: Vec<&str> = part.split(':').collect();
    if part.is_empty() {
        return Err("an index is missing".into());
    }
    if let [only] = parts[..] {
        return Ok(place(from_end(number(only, 0)?)).into_iter().collect());
    }
    let start = from_end(number(parts[0], 0)?);
    let end = from_end(number(parts[1], length)?);
    let step = number(parts.get(2).unwrap_or(&""), 1)?;
    if step < 1 {
        return Err(format!("a step of {step} leads nowhere"));
    }
    let mut found = Vec::new();
    let mut at = start.max(0);
    while at < end.min(length) {
        found.extend(place(at));
        at += step;
    }
    Ok(found)
}

/// `@.a == "b"`, `@.n > 1`, or `@.a` for what is there.
fn holds(filter: &str, root: &Value, here: &Value) -> Result<bool, String> {
    let bare: String = filter.split(['"', '\'']).step_by(2).collect();
    if let Some(unknown) = ["=~", "&&", "||"].into_iter().find(|one| bare.contains(one)) {
        return Err(format!("filters have no `{unknown}`"));
    }
    for operator in ["==", "!=", "<=", ">=", "<", ">"] {
        let Some((left, right)) = filter.split_once(operator) else {
            continue;
        };
        let (left, right) = (operand(left.trim(), root, here)?, operand(right.trim(), root, here)?);
        let order =
            match (left.as_ref().and_then(Value::as_f64), right.as_ref().and_then(Value::as_f64)) {
                (Some(left), Some(right)) => left.partial_cmp(&right),
                _ => left.as_ref().map(shown).partial_cmp(&right.as_ref().map(shown)),
            };
        let Some(order) = order else { return Ok(false) };
        return Ok(match operator {
            "==" => order.is_eq(),
            "!=" => order.is_ne(),
            "<=" => order.is_le() && left.is_some(),
            ">=" => order.is_ge() && left.is_some(),
            "<" => order.is_lt() && left.is_some(),
            _ => order.is_gt() && left.is_some(),
        });
    }
    Ok(!select(filter.trim(), root, here)?.is_empty())
}

fn operand(text: &str, root: &Value, here: &Value) -> Result<Option<Value>, String> {
    if let Some(text) = quoted(text) {
        return Ok(Some(text.into()));
    }
    if text.starts_with(['@', '$', '.']) {
        return Ok(select(text, root, here)?.first().map(|value| (*value).clone()));
    }
    serde_json::from_str(text).map(Some).map_err(|_| format!("`{text}` is not a value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of kubectl's own documentation.
    #[test]
    fn kubectls_examples_work() {
        let document = serde_json::json!({
            "kind": "List",
            "items": [
                {"kind": "None", "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
                 "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]}},
                {"kind": "None", "metadata": {"name": "127.0.0.2"},
                 "status": {"capacity": {"cpu": "8"}, "addresses": [
                     {"type": "LegacyHostIP", "address": "127.0.0.2"}, {"type": "another", "address": "127.0.0.3"}]}},
            ],
            "users": [{"name": "myself", "user": {}},
                      {"name": "e2e", "user": {"username": "admin", "password": "secret"}}],
        });
        for (template, expected) in [
            ("kind is {.kind}", "kind is List"),
            ("{.kind}", "List"),
            (".kind", "List"),
            ("{['kind']}", "List"),
            ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
            ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
            ("{.users[0].name}", "myself"),
            ("{.users[-1].name}", "e2e"),
            ("{.items[0:1].metadata.name}", "127.0.0.1"),
            ("{.items[*]['metadata.name', 'kind']}", "127.0.0.1 127.0.0.2 None None"),
            ("{.users[?(@.name==\"e2e\")].user.password}", "secret"),
            ("{.users[?(@.user.username)].name}", "e2e"),
            (
                "{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}",
                "[127.0.0.1, {\"cpu\":\"4\"}] [127.0.0.2, {\"cpu\":\"8\"}] ",
            ),
            ("{range .items[*]}{.metadata.name}{\"\\n\"}{end}", "127.0.0.1\n127.0.0.2\n"),
            ("{.items[0].metadata.labels.kubernetes\\.io/hostname}", "127.0.0.1"),
            ("{.items[0].nothing}", ""),
        ] {
            assert_eq!(evaluate(template, &document).unwrap(), expected, "{template}");
        }
        for wrong in ["{.kind", "{end}", "{range .items[*]}x", "{.items[x]}", "{.items[0}"] {
            assert!(evaluate(wrong, &document).is_err(), "{wrong}");
        }
    }
}
