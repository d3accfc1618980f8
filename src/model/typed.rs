//! Reads values as types. Every type is read from text only: a second deserializer of each, for
//! values, would be a part of the program that can be measured.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a value as a type. The error says what is wrong with the value, and not where: nobody has
/// seen the text that is made of it.
pub fn read_value<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_str(&value.to_string()).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        message.strip_suffix(&place).unwrap_or(&message).to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::infra_env::LabelSelector;
    use serde_json::json;

    #[test]
    fn what_is_wrong_with_a_value_is_said_as_of_a_value() {
        for value in [
            json!({"matchLabels": {"rack": "7"}}),
            json!({"matchLabels": {"rack": 7}}),
            json!({"matchLabels": ["rack"]}),
            json!({"matchExpressions": [{"key": 1.5}]}),
            json!("rack"),
            json!(null),
        ] {
            let expected: Result<LabelSelector, String> =
                serde_json::from_value(value.clone()).map_err(|error| error.to_string());
            assert_eq!(read_value(&value), expected, "{value}");
        }
    }
}
