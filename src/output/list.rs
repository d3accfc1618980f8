//! Writes a List of documents item by item, as `document_text` writes the whole: a long list is
//! never in memory. It prints nothing.

use serde_json::{Value, json};

use crate::model::refusal::Refusal;
use crate::model::text::escape_json;
use crate::yaml;

use super::Format;
use super::answer::document_text;

/// Bytes of a long list that are written together.
pub const PORTION: usize = 1 << 16;

/// What the fields of a List are called and hold beside its items, in JSON.
const JSON_HEAD: &str = "{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n";
const JSON_TAIL: &str = "\n  ],\n  \"kind\": \"List\"\n}\n";
/// The same in YAML.
const YAML_HEAD: &str = "apiVersion: v1\nitems:\n";
const YAML_TAIL: &str = "kind: List\n";

/// The text of a List, as far as its items are known.
pub struct ListText {
    format: Format,
    item_count: usize,
    /// The items, if the format needs all of them at once.
    collected: Vec<Value>,
}

impl ListText {
    /// A list without items, for a format that `-o` named.
    pub fn new(format: &Format) -> Self {
        Self { format: format.clone(), item_count: 0, collected: Vec::new() }
    }

    /// Whether the text of a format can be made item by item.
    pub fn fits(format: &Format) -> bool {
        matches!(format, Format::Json | Format::Yaml)
    }

    /// The text that comes with the next item.
    pub fn add(&mut self, item: Value) -> Result<String, Refusal> {
        self.item_count += 1;
        let is_first = self.item_count == 1;
        match self.format {
            Format::JsonPath(_) | Format::CustomColumns(_) => {
                self.collected.push(item);
                Ok(String::new())
            }
            Format::Json => {
                let item_text = escape_json(format!("{item:#}")).replace('\n', "\n    ");
                let head = if is_first { JSON_HEAD } else { ",\n" };
                Ok(format!("{head}    {item_text}"))
            }
            Format::Yaml | Format::Table | Format::Wide | Format::Name => {
                let head = if is_first { YAML_HEAD } else { "" };
                Ok(format!("{head}{}", yaml_item(item)?))
            }
        }
    }

    /// The text after the last item.
    pub fn finish(self) -> Result<String, Refusal> {
        if self.item_count == self.collected.len() {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": self.collected});
            return document_text(&self.format, &list);
        }
        let tail = if matches!(self.format, Format::Json) { JSON_TAIL } else { YAML_TAIL };
        Ok(tail.to_owned())
    }
}

/// An item of a list in YAML. One that cannot be shown as YAML is shown as JSON, which is YAML too.
fn yaml_item(item: Value) -> Result<String, Refusal> {
    let mut list = json!({});
    list["items"] = Value::Array(vec![item]);
    let list_text = yaml::to_text(&list).map_err(|error| Refusal::invalid(error.to_string()))?;
    if let Some(item_text) = list_text.strip_prefix("items:\n") {
        return Ok(item_text.to_owned());
    }
    Ok(format!("- {}\n", escape_json(list["items"][0].to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, items: &[Value]) {
        let format: Format = format.parse().unwrap();
        let mut list_text = ListText::new(&format);
        let mut written = String::new();
        for item in items {
            written += &list_text.add(item.clone()).unwrap();
        }
        written += &list_text.finish().unwrap();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        assert_eq!(written, document_text(&format, &list).unwrap());
    }

    #[test]
    fn a_list_is_the_same_item_by_item() {
        let item = json!({"a": {"b": [1, "x\ny\n", {}], "c": []}, "z": "no"});
        for format in ["json", "yaml", "jsonpath={.items[*].z}"] {
            check(format, &[]);
            check(format, std::slice::from_ref(&item));
            check(format, &[item.clone(), json!({"kind": "Job"}), item.clone()]);
        }
    }
}
