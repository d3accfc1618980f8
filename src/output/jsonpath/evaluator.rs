//! Walks the tree of a template over a document. A field that is absent is nothing, not an error.
//! It never sees how a template is spelled, and never changes a document.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use super::print_value;
use super::tree::{Filter, Operand, Operator, Path, Piece, Selector, Slice};

/// The values where paths begin.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// `$`: the document.
    pub root: &'a Value,
    /// `@`: the element of the innermost range or filter.
    pub current: &'a Value,
}

/// Why a template has no answer in this document. As in kubectl, an index that counts from the end
/// is reported as it counts from the beginning.
#[derive(Debug)]
pub enum EvaluationError {
    IndexOutOfBounds { index: i64, length: usize },
    ReversedSlice { start: i64, end: i64 },
    SeveralValuesCompared,
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IndexOutOfBounds { index, length } => {
                write!(formatter, "array index out of bounds: index {index}, length {length}")
            }
            Self::ReversedSlice { start, end } => {
                write!(formatter, "starting index {start} is greater than ending index {end}")
            }
            Self::SeveralValuesCompared => {
                formatter.write_str("can only compare one element at a time")
            }
        }
    }
}

/// Adds what the pieces of a template print. The values of one path are parted by spaces.
pub fn write_pieces(
    pieces: &[Piece],
    scope: Scope<'_>,
    printed: &mut String,
) -> Result<(), EvaluationError> {
    for piece in pieces {
        match piece {
            Piece::Text(literal) => printed.push_str(literal),
            Piece::Path(path) => {
                let values: Vec<String> =
                    select(path, scope)?.into_iter().map(print_value).collect();
                printed.push_str(&values.join(" "));
            }
            Piece::Range { path, body } => {
                for current in select(path, scope)? {
                    write_pieces(body, Scope { current, ..scope }, printed)?;
                }
            }
        }
    }
    Ok(())
}

/// The values that a path leads to. Other than for `select`, an element that a list lacks is no
/// error: filters, waits and sort keys look for values that may not be there yet.
pub fn select_present<'a>(
    path: &Path,
    scope: Scope<'a>,
) -> Result<Vec<&'a Value>, EvaluationError> {
    match select(path, scope) {
        Err(EvaluationError::IndexOutOfBounds { .. }) => Ok(Vec::new()),
        result => result,
    }
}

/// The values that a path leads to. An index beyond the end of a list is an error.
fn select<'a>(path: &Path, scope: Scope<'a>) -> Result<Vec<&'a Value>, EvaluationError> {
    let mut values = vec![if path.from_root { scope.root } else { scope.current }];
    for selectors in &path.segments {
        let mut selected = Vec::new();
        // As in kubectl, all that the first part of a union leads to comes first.
        for selector in selectors {
            for value in values.iter().copied() {
                add_selected(selector, Scope { current: value, ..scope }, &mut selected)?;
            }
        }
        values = selected;
    }
    Ok(values)
}

/// Adds the values that a selector takes of the current value.
fn add_selected<'a>(
    selector: &Selector,
    scope: Scope<'a>,
    selected: &mut Vec<&'a Value>,
) -> Result<(), EvaluationError> {
    let value = scope.current;
    match selector {
        Selector::Field(name) => selected.extend(value.get(name)),
        Selector::Quoted { name, path } => match (value.get(name), path) {
            (Some(field), _) => selected.push(field),
            (None, Some(path)) => selected.extend(select(path, scope)?),
            (None, None) => {}
        },
        Selector::Index(index) => {
            if let Value::Array(elements) = value {
                selected.push(element_at(elements, *index)?);
            }
        }
        Selector::Slice(slice) => {
            if let Value::Array(elements) = value {
                selected.extend(elements_in(elements, slice)?.iter().step_by(slice.step));
            }
        }
        Selector::Children => selected.extend(children(value)),
        Selector::Descendants => add_descendants(value, selected),
        Selector::Filter(filter) => {
            for child in children(value) {
                if passes(filter, Scope { current: child, ..scope })? {
                    selected.push(child);
                }
            }
        }
    }
    Ok(())
}

/// The elements of a list or the values of a mapping; none of anything else.
fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(elements) => elements.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

/// Adds the value and all that it holds, at any depth. As in kubectl, scalars and empty lists and
/// mappings are not among them.
fn add_descendants<'a>(value: &'a Value, selected: &mut Vec<&'a Value>) {
    let children = children(value);
    if !children.is_empty() {
        selected.push(value);
    }
    for child in children {
        add_descendants(child, selected);
    }
}

/// The element at an index, which counts from the end if it is below 0. Outside of the list it is
/// an error, as in kubectl.
fn element_at(elements: &[Value], index: i64) -> Result<&Value, EvaluationError> {
    let length = elements.len();
    let index = from_beginning(index, length);
    let element = usize::try_from(index).ok().and_then(|index| elements.get(index));
    element.ok_or(EvaluationError::IndexOutOfBounds { index, length })
}

/// The elements between the bounds of a slice, whatever its step is. As in kubectl, bounds outside
/// the list are errors, unless the slice is empty.
fn elements_in<'a>(elements: &'a [Value], slice: &Slice) -> Result<&'a [Value], EvaluationError> {
    let length = elements.len();
    let start = from_beginning(slice.start.unwrap_or(0), length);
    let end = slice.end.map_or_else(|| signed(length), |end| from_beginning(end, length));
    if start == end {
        return Ok(&[]);
    }
    let first = usize::try_from(start)
        .ok()
        .filter(|first| *first < length)
        .ok_or(EvaluationError::IndexOutOfBounds { index: start, length })?;
    let last = end.saturating_sub(1);
    let behind_last = usize::try_from(end)
        .ok()
        .filter(|behind_last| *behind_last <= length)
        .ok_or(EvaluationError::IndexOutOfBounds { index: last, length })?;
    elements.get(first..behind_last).ok_or(EvaluationError::ReversedSlice { start, end })
}

/// An index as it counts from the beginning of a list; below 0, it counts from the end.
fn from_beginning(index: i64, length: usize) -> i64 {
    if index < 0 { index.saturating_add(signed(length)) } else { index }
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Whether a filter selects the value at `@` of the scope.
fn passes(filter: &Filter, scope: Scope<'_>) -> Result<bool, EvaluationError> {
    match filter {
        Filter::Exists(path) => Ok(!select_present(path, scope)?.is_empty()),
        Filter::Compare { left, operator, right } => {
            let left = operand_value(left, scope)?;
            let right = operand_value(right, scope)?;
            // As in kubectl, an absent value is neither equal to another one nor different from it.
            let (Some(left), Some(right)) = (left, right) else { return Ok(false) };
            Ok(accepts(*operator, compare(left, right)))
        }
    }
}

/// Whether an operator holds for two values in this order. Values without an order are different,
/// and nothing else.
fn accepts(operator: Operator, order: Option<Ordering>) -> bool {
    match operator {
        Operator::Equal => order == Some(Ordering::Equal),
        Operator::NotEqual => order != Some(Ordering::Equal),
        Operator::Less => order.is_some_and(Ordering::is_lt),
        Operator::LessOrEqual => order.is_some_and(Ordering::is_le),
        Operator::Greater => order.is_some_and(Ordering::is_gt),
        Operator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}

/// The value of an operand; none if its path leads to none.
fn operand_value<'a>(
    operand: &'a Operand,
    scope: Scope<'a>,
) -> Result<Option<&'a Value>, EvaluationError> {
    let path = match operand {
        Operand::Literal(value) => return Ok(Some(value)),
        Operand::Path(path) => path,
    };
    match select_present(path, scope)?[..] {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(EvaluationError::SeveralValuesCompared),
    }
}

/// The order of two values: numbers are compared as numbers, null with null alone, and everything
/// else as templates print it.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
        _ => Some(print_value(left).cmp(&print_value(right))),
    }
}
