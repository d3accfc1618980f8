//! Evaluates a query, as jq does.

use std::cmp::Ordering;

use serde_json::Value;

use super::parse::number_value;
use super::{Expression, Function, Operator};

/// The most values that a part of a query may make.
const MAX_VALUES: usize = 10_000;

/// The values that an expression makes of one. The error is for people.
pub fn evaluate(expression: &Expression, input: &Value) -> Result<Vec<Value>, String> {
    let values = match expression {
        Expression::Identity => vec![input.clone()],
        Expression::Literal(value) => vec![value.clone()],
        Expression::Field(base, name) => {
            map_values(base, input, |value| Ok(vec![field_of(value, name)?]))?
        }
        Expression::Element(base, index) => {
            map_values(base, input, |value| Ok(vec![element_of(value, *index)?]))?
        }
        Expression::Elements(base) => map_values(base, input, elements_of)?,
        Expression::Optional(base) => evaluate(base, input).unwrap_or_default(),
        Expression::Pipe(first, second) => {
            map_values(first, input, |value| evaluate(second, value))?
        }
        Expression::Binary(operator, left, right) => {
            evaluate_binary(*operator, left, right, input)?
        }
        Expression::Array(None) => vec![Value::Array(Vec::new())],
        Expression::Array(Some(elements)) => vec![Value::Array(evaluate(elements, input)?)],
        Expression::Call(function, argument) => call(*function, argument.as_deref(), input)?,
    };
    if values.len() > MAX_VALUES {
        return Err(format!("it makes more than {MAX_VALUES} values"));
    }
    Ok(values)
}

/// The values that a function makes of each value of an expression.
fn map_values(
    base: &Expression,
    input: &Value,
    map: impl Fn(&Value) -> Result<Vec<Value>, String>,
) -> Result<Vec<Value>, String> {
    let mut values = Vec::new();
    for value in evaluate(base, input)? {
        values.extend(map(&value)?);
        if values.len() > MAX_VALUES {
            return Err(format!("it makes more than {MAX_VALUES} values"));
        }
    }
    Ok(values)
}

fn field_of(value: &Value, name: &str) -> Result<Value, String> {
    match value {
        Value::Object(fields) => Ok(fields.get(name).cloned().unwrap_or_default()),
        Value::Null => Ok(Value::Null),
        _ => Err(format!("{} has no field `{name}`", type_name(value))),
    }
}

fn element_of(value: &Value, index: i64) -> Result<Value, String> {
    match value {
        Value::Array(elements) => {
            let length = i64::try_from(elements.len()).unwrap_or(i64::MAX);
            let from_start = if index < 0 { index + length } else { index };
            let position = usize::try_from(from_start).ok();
            let element = position.and_then(|position| elements.get(position));
            Ok(element.cloned().unwrap_or_default())
        }
        Value::Null => Ok(Value::Null),
        _ => Err(format!("{} has no elements", type_name(value))),
    }
}

fn elements_of(value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(elements) => Ok(elements.clone()),
        Value::Object(fields) => Ok(fields.values().cloned().collect()),
        _ => Err(format!("{} has no elements", type_name(value))),
    }
}

/// Every value but false and null counts as true.
fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn evaluate_binary(
    operator: Operator,
    left: &Expression,
    right: &Expression,
    input: &Value,
) -> Result<Vec<Value>, String> {
    map_values(left, input, |left_value| {
        // The right side of `and` and `or` is looked at only if it counts.
        match (operator, is_true(left_value)) {
            (Operator::And, false) => return Ok(vec![Value::Bool(false)]),
            (Operator::Or, true) => return Ok(vec![Value::Bool(true)]),
            _ => {}
        }
        let mut values = Vec::new();
        for right_value in evaluate(right, input)? {
            values.push(combine(operator, left_value, &right_value)?);
        }
        Ok(values)
    })
}

fn combine(operator: Operator, left: &Value, right: &Value) -> Result<Value, String> {
    let order = compare(left, right);
    Ok(Value::Bool(match operator {
        Operator::And | Operator::Or => is_true(right),
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
        Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Divide => {
            return calculate(operator, left, right);
        }
    }))
}

fn calculate(operator: Operator, left: &Value, right: &Value) -> Result<Value, String> {
    match (operator, left, right) {
        (Operator::Add, Value::Null, value) | (Operator::Add, value, Value::Null) => {
            return Ok(value.clone());
        }
        (Operator::Add, Value::String(left), Value::String(right)) => {
            return Ok(Value::String(format!("{left}{right}")));
        }
        _ => {}
    }
    let (Some(left_number), Some(right_number)) = (left.as_f64(), right.as_f64()) else {
        let types = format!("{} and {}", type_name(left), type_name(right));
        return Err(format!("{types} are not numbers"));
    };
    let result = match operator {
        Operator::Subtract => left_number - right_number,
        Operator::Multiply => left_number * right_number,
        Operator::Divide if right_number == 0.0 => return Err("it divides by 0".into()),
        Operator::Divide => left_number / right_number,
        _ => left_number + right_number,
    };
    Ok(number_value(result))
}

/// The order of values in jq: null, false, true, numbers, texts, arrays, objects.
fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => {
            let left = left.as_f64().unwrap_or_default();
            left.total_cmp(&right.as_f64().unwrap_or_default())
        }
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let pairs = left.iter().zip(right).map(|(left, right)| compare(left, right));
            let difference = pairs.into_iter().find(|order| order.is_ne());
            difference.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(_), Value::Object(_)) if left == right => Ordering::Equal,
        (Value::Object(_), Value::Object(_)) => left.to_string().cmp(&right.to_string()),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn call(
    function: Function,
    argument: Option<&Expression>,
    input: &Value,
) -> Result<Vec<Value>, String> {
    let value = match function {
        Function::Not => Value::Bool(!is_true(input)),
        Function::Length => number_value(length_of(input)?),
        Function::Select => {
            let results = evaluate_argument(argument, input)?;
            let selected = results.iter().filter(|result| is_true(result));
            return Ok(selected.map(|_| input.clone()).collect());
        }
        Function::Map => Value::Array(map_elements(argument, input)?),
        Function::Any => Value::Bool(map_elements(argument, input)?.iter().any(is_true)),
        Function::All => Value::Bool(map_elements(argument, input)?.iter().all(is_true)),
        Function::Min => extreme_of(input, Ordering::Less)?,
        Function::Max => extreme_of(input, Ordering::Greater)?,
        Function::Add => {
            let mut sum = Value::Null;
            for element in elements_of(input)? {
                sum = calculate(Operator::Add, &sum, &element)?;
            }
            sum
        }
        Function::Keys => match input {
            Value::Object(fields) => fields.keys().cloned().map(Value::String).collect(),
            _ => return Err(format!("{} has no keys", type_name(input))),
        },
        Function::Has | Function::Contains | Function::StartsWith | Function::EndsWith => {
            let mut values = Vec::new();
            for wanted in evaluate_argument(argument, input)? {
                values.push(Value::Bool(holds(function, input, &wanted)?));
            }
            return Ok(values);
        }
        Function::AsciiDowncase => match input {
            Value::String(text) => Value::String(text.to_ascii_lowercase()),
            _ => return Err(format!("{} has no letters", type_name(input))),
        },
    };
    Ok(vec![value])
}

fn evaluate_argument(argument: Option<&Expression>, input: &Value) -> Result<Vec<Value>, String> {
    match argument {
        Some(argument) => evaluate(argument, input),
        None => Ok(vec![input.clone()]),
    }
}

/// The values that an argument makes of the elements of an array; without one the elements.
fn map_elements(argument: Option<&Expression>, input: &Value) -> Result<Vec<Value>, String> {
    let mut values = Vec::new();
    for element in elements_of(input)? {
        values.extend(evaluate_argument(argument, &element)?);
    }
    Ok(values)
}

#[expect(clippy::cast_precision_loss, reason = "no inventory has so many elements")]
fn length_of(value: &Value) -> Result<f64, String> {
    Ok(match value {
        Value::Null => 0.0,
        Value::Bool(_) => return Err("a boolean has no length".into()),
        Value::Number(number) => number.as_f64().unwrap_or_default().abs(),
        Value::String(text) => text.chars().count() as f64,
        Value::Array(elements) => elements.len() as f64,
        Value::Object(fields) => fields.len() as f64,
    })
}

/// The least or the greatest element of an array; null if there is none.
fn extreme_of(value: &Value, wanted: Ordering) -> Result<Value, String> {
    let mut extreme: Option<Value> = None;
    for element in elements_of(value)? {
        if extreme.as_ref().is_none_or(|extreme| compare(&element, extreme) == wanted) {
            extreme = Some(element);
        }
    }
    Ok(extreme.unwrap_or_default())
}

/// Whether a value has, contains, begins or ends with another one.
fn holds(function: Function, value: &Value, wanted: &Value) -> Result<bool, String> {
    match (function, value, wanted) {
        (Function::Has, Value::Object(fields), Value::String(name)) => {
            Ok(fields.contains_key(name))
        }
        (Function::StartsWith, Value::String(text), Value::String(part)) => {
            Ok(text.starts_with(part.as_str()))
        }
        (Function::EndsWith, Value::String(text), Value::String(part)) => {
            Ok(text.ends_with(part.as_str()))
        }
        (Function::Contains, _, _) => Ok(contains(value, wanted)),
        _ => {
            let listed = Function::ALL.into_iter().find(|(_, listed, _)| *listed == function);
            let name = listed.map_or("a function", |(name, _, _)| name);
            Err(format!("{name} is not for {} and {}", type_name(value), type_name(wanted)))
        }
    }
}

/// jq's `contains`: a text has a part, an array has elements that contain those of the other one,
/// and an object has fields that do.
fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(elements), Value::Array(parts)) => {
            parts.iter().all(|part| elements.iter().any(|element| contains(element, part)))
        }
        (Value::Object(fields), Value::Object(parts)) => parts
            .iter()
            .all(|(name, part)| fields.get(name).is_some_and(|field| contains(field, part))),
        _ => compare(value, wanted).is_eq(),
    }
}
