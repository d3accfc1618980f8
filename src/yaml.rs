//! Reads and writes YAML: text becomes trees that know line and column, and documents become text.
//! It knows no kinds. In what it writes, every string is quoted that another reader would take for
//! a number or a boolean.

mod error;
mod json;
mod parts;

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use crate::model::text::{escape_json, has_hostile_letters};

pub use error::YamlError;
pub use json::{visit_json_of, visit_json_within};
pub use parts::visit_yaml_of;

/// The largest text that is read, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// The largest part of a text that is held in memory at once, in bytes: an object of a state, or a
/// text that cannot be read in parts.
pub const LARGEST_PART: usize = 16 << 20;

/// How many values such a part may have. Values take far more memory than their text: a list of
/// millions of numbers would fill all of it. A server of Kubernetes stores objects of 1.5 MB at most:
/// an IPPool of that size, which lists its leases, has an estimated 150,000.
const MOST_VALUES: usize = 400_000;

/// How many bytes the values of a text may have in all once its aliases are expanded, unless the
/// text itself may have more.
const MAX_SCALAR_BYTES: usize = 64 << 20;

/// A value, and where it stands in its text. Line and column begin at 1; line 0 is no place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub tree: Tree,
    pub line: u64,
    pub column: u64,
}

/// A value whose parts know where they stand.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Anything that is neither a list nor a mapping.
    Scalar(Value),
    List(Vec<Node>),
    /// Keys and values in the order of the text.
    Map(Vec<(Node, Node)>),
}

/// A part of a text that is read part by part.
pub struct Part {
    pub role: PartRole,
    pub node: Node,
    /// The bytes of the text that it is, if only its own place is known, and not those of its values.
    pub byte_range: Option<Range<u64>>,
}

/// What a part of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartRole {
    /// An item of the list `items` of a document.
    Item,
    /// A document whose items were handed on before, without them.
    RestOfList,
    /// A document without such a list.
    Document,
}

/// The documents of a text that has at most `MAX_BYTES` bytes. Empty documents are left out. JSON
/// documents may follow each other without `---` between them.
pub fn parse_documents(content: &str) -> Result<Vec<Node>, YamlError> {
    parse_documents_within(content, MAX_BYTES)
}

/// As `parse_documents`, of a text that has at most `limit` bytes.
pub fn parse_documents_within(content: &str, limit: usize) -> Result<Vec<Node>, YamlError> {
    let mut documents = Vec::new();
    for part in split_json_documents(content, limit).unwrap_or_else(|| vec![content]) {
        documents.extend(parse_yaml_documents(part, limit)?);
    }
    Ok(documents)
}

/// The parts of a text that is several JSON documents and nothing else.
fn split_json_documents(content: &str, limit: usize) -> Option<Vec<&str>> {
    if !content.trim_start().starts_with('{') || content.len() > limit {
        return None;
    }
    let mut parts = Vec::new();
    let mut start = 0;
    let mut stream = serde_json::Deserializer::from_str(content).into_iter::<de::IgnoredAny>();
    while let Some(document) = stream.next() {
        document.ok()?;
        parts.push(&content[start..stream.byte_offset()]);
        start = stream.byte_offset();
    }
    if parts.len() > 1 { Some(parts) } else { None }
}

/// Parses all documents of a text of at most `limit` bytes; empty documents are left out. The error
/// has the place, but never the text around it.
fn parse_yaml_documents(content: &str, limit: usize) -> Result<Vec<Node>, YamlError> {
    let size = content.len();
    if size > limit {
        let message = format!("the text has {size} bytes; the limit is {limit}");
        return Err(YamlError::without_place(message));
    }
    // No snippets: what stands around a mistake may be a secret. The limits on nodes and events
    // stop documents that are small as text, and huge once their aliases are expanded.
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_documents: limit,
            max_nodes: (limit / 4).min(MOST_VALUES),
            max_events: limit.min(4 * MOST_VALUES),
            // Without aliases there cannot be more bytes in values than in the text.
            max_total_scalar_bytes: limit.max(MAX_SCALAR_BYTES),
        },
    };
    let documents: Result<Vec<Spanned<Raw>>, _> =
        serde_saphyr::from_multiple_with_options(content, options);
    match documents {
        Ok(documents) => {
            Ok(documents.into_iter().map(place_node).filter(|node| !node.is_null()).collect())
        }
        Err(error) => Err(YamlError::of_parser(&error)),
    }
}

/// The value of a part of a text that begins at a place of it. None if it cannot be read alone.
pub fn parse_part_at(content: &str, line: u64, column: u64) -> Option<Node> {
    let mut documents = parse_yaml_documents(content, LARGEST_PART).ok()?;
    let mut node = if documents.len() == 1 { documents.pop()? } else { return None };
    node.move_by(line.saturating_sub(1), column.saturating_sub(1));
    Some(node)
}

/// The value of a text with one document; of a text with none it is null.
pub fn parse_value(content: &str) -> Result<Value, YamlError> {
    let documents = parse_documents(content)?;
    match documents.as_slice() {
        [] => Ok(Value::Null),
        [document] => Ok(document.to_value()),
        [.., last_document] => {
            let Node { line, column, .. } = *last_document;
            let message = "more than one document".into();
            Err(YamlError { message, line, column, is_too_much: false })
        }
    }
}

/// A document as YAML, with a line feed at its end.
pub fn to_text(document: &Value) -> Result<String, YamlError> {
    let yaml = serde_saphyr::to_string(document)
        .map_err(|error| YamlError::without_place(error.to_string()))?;
    if has_hostile_letters(&yaml) {
        // Only JSON, which is YAML too, has escapes for all letters that a terminal obeys.
        return Ok(escape_json(format!("{document:#}\n")));
    }
    Ok(yaml)
}

impl Node {
    /// Whether it is null, also if the text has nothing there.
    pub fn is_null(&self) -> bool {
        self.tree == Tree::Scalar(Value::Null)
    }

    /// The value without its places.
    pub fn to_value(&self) -> Value {
        match &self.tree {
            Tree::Scalar(value) => value.clone(),
            Tree::List(items) => items.iter().map(Self::to_value).collect(),
            Tree::Map(entries) => {
                let fields = entries.iter().map(|(key, value)| (key.key_name(), value.to_value()));
                Value::Object(fields.collect::<Map<String, Value>>())
            }
        }
    }

    /// The name of a field whose key this is. Keys that are no strings are spelled as in JSON.
    pub fn key_name(&self) -> String {
        match &self.tree {
            Tree::Scalar(Value::String(name)) => name.clone(),
            _ => self.to_value().to_string(),
        }
    }

    /// The field of that name, if this is a mapping that has it.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Tree::Map(entries) = &self.tree else {
            return None;
        };
        entries.iter().find(|(key, _)| key.key_name() == name).map(|(_, value)| value)
    }

    /// Moves the places of a text that is a part of another one: it has so many lines before it, and
    /// so many columns before its first line.
    fn move_by(&mut self, lines: u64, columns: u64) {
        if self.line == 1 {
            self.column += columns;
        }
        self.line += lines;
        match &mut self.tree {
            Tree::Scalar(_) => {}
            Tree::List(items) => items.iter_mut().for_each(|item| item.move_by(lines, columns)),
            Tree::Map(entries) => {
                for (key, value) in entries {
                    key.move_by(lines, columns);
                    value.move_by(lines, columns);
                }
            }
        }
    }

    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.tree {
            Tree::Scalar(Value::String(string)) => Some(string),
            _ => None,
        }
    }
}

/// A value whose parts are placed, and whose own place the parser gives beside it. The parser's
/// places are large: no more of them are kept at once than values are nested.
struct Raw(Tree);

/// The node of a value that the parser has read. What stands behind an alias has the place of the
/// alias.
fn place_node(raw: Spanned<Raw>) -> Node {
    let line = raw.referenced.line();
    let column = raw.referenced.column();
    let Raw(tree) = raw.value;
    Node { tree, line, column }
}

/// The node of a key, with its place.
fn place_key(key: Spanned<String>) -> Node {
    Node {
        line: key.referenced.line(),
        column: key.referenced.column(),
        tree: Tree::Scalar(key.value.into()),
    }
}

/// Builds values from what the parser meets.
struct RawVisitor;

impl<'de> de::Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("YAML")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw(Tree::Scalar(Value::Null)))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw(Tree::Scalar(Value::Null)))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(Self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw(Tree::Scalar(value.into())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw(Tree::Scalar(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw(Tree::Scalar(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw(Tree::Scalar(value.into())))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw(Tree::Scalar(value.into())))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut sequence: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(place_node(item));
        }
        Ok(Raw(Tree::List(items)))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry()? {
            entries.push((place_key(key), place_node(value)));
        }
        Ok(Raw(Tree::Map(entries)))
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_where_is_known() {
        let documents = parse_documents("---\na: 1\n---\nb: [x]\n").unwrap();
        let list = documents[1].get("b").unwrap();
        assert_eq!((list.line, list.column, list.to_value()), (4, 4, serde_json::json!(["x"])));
    }

    #[test]
    fn json_documents_may_follow_each_other() {
        let documents = parse_documents("{\"a\": 1}\n{\"a\": 2} {\"a\": 3}").unwrap();
        let values: Vec<Value> = documents.iter().map(Node::to_value).collect();
        assert_eq!(values, [1, 2, 3].map(|a| serde_json::json!({ "a": a })));
    }

    #[test]
    fn hostile_text_is_refused_at_once() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for level in 1..9 {
            let aliases = vec![format!("*a{}", level - 1); 9].join(",");
            bomb = format!("{bomb}a{level}: &a{level} [{aliases}]\n");
        }
        for (content, cause) in [
            ("[".repeat(100_000), "nested too deeply"),
            (format!("a: {}1{}", "[".repeat(70), "]".repeat(70)), "nested too deeply"),
            ("x".repeat(2 << 20), "the limit is 1048576"),
            (bomb, "aliases expand"),
            ("a: 1\na: 2\n".into(), "duplicate mapping key: a"),
            ("a: [".into(), "unclosed bracket"),
        ] {
            let message = parse_documents(&content).unwrap_err().to_string();
            assert!(message.contains(cause), "{message}");
        }
    }

    #[test]
    fn strings_that_go_would_misread_are_quoted() {
        for string in
            ["no", "yes", "on", "y", "1_000", "012", "4.10", "2020-01-02", "~", "null", "="]
        {
            let yaml = to_text(&serde_json::json!({ "a": string })).unwrap();
            assert_eq!(yaml, format!("a: \"{string}\"\n"));
        }
    }
}
