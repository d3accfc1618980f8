//! The only YAML: text to trees that know line and column, and documents to text. Every string
//! that another reader would take for a number or a boolean is quoted.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use crate::model::text::{hostile, safe_json};

/// The largest text that is read.
pub const LARGEST: usize = 1 << 20;

/// A value, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub tree: Tree,
    pub line: u64,
    pub column: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Anything that is neither a list nor a mapping.
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// Why a text is not YAML, or not YAML that is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub message: String,
    pub line: u64,
    pub column: u64,
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.message)?;
        if self.line > 0 {
            write!(out, " (line {}, column {})", self.line, self.column)?;
        }
        Ok(())
    }
}

/// Every document of a text, empty ones left out. JSON documents may follow each other.
pub fn documents(text: &str) -> Result<Vec<Node>, Wrong> {
    documents_within(text, LARGEST)
}

/// The same of a text that may have so many bytes.
pub fn documents_within(text: &str, limit: usize) -> Result<Vec<Node>, Wrong> {
    let mut all = Vec::new();
    for part in json_documents(text, limit).unwrap_or_else(|| vec![text]) {
        all.extend(yaml_documents(part, limit)?);
    }
    Ok(all)
}

/// The parts of a text that is several JSON documents and nothing else.
fn json_documents(text: &str, limit: usize) -> Option<Vec<&str>> {
    if !text.trim_start().starts_with('{') || text.len() > limit {
        return None;
    }
    let (mut parts, mut start) = (Vec::new(), 0);
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<de::IgnoredAny>();
    while let Some(read) = stream.next() {
        read.ok()?;
        parts.push(&text[start..stream.byte_offset()]);
        start = stream.byte_offset();
    }
    (parts.len() > 1).then_some(parts)
}

fn yaml_documents(text: &str, limit: usize) -> Result<Vec<Node>, Wrong> {
    let wrong = |message: String| Wrong { message, line: 0, column: 0 };
    if text.len() > limit {
        return Err(wrong(format!("{} bytes are more than the {limit} that are read", text.len())));
    }
    // No snippets: what stands around a mistake may be a secret.
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_documents: limit,
            max_nodes: limit / 4,
            max_events: limit,
        },
    };
    let read: Result<Vec<Spanned<Raw>>, _> =
        serde_saphyr::from_multiple_with_options(text, options);
    match read {
        Ok(documents) => Ok(documents.into_iter().map(node).filter(|one| !one.is_null()).collect()),
        Err(error) => {
            let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
            let message = error.to_string();
            let end = message.find(" at line ").unwrap_or(message.len());
            Err(Wrong { message: plain(&message[..end]), line, column })
        }
    }
}

/// Says in the user's words what the parser says in its own.
fn plain(message: &str) -> String {
    match message {
        message if message.starts_with("duplicate mapping key") => {
            message.split(", set ").next().unwrap_or(message).into()
        }
        message if message.starts_with("budget breached") => {
            "aliases expand to more than is read".into()
        }
        message if message.starts_with("recursion limit") => "nested too deeply".into(),
        message => message.into(),
    }
}

/// A text with one document, without its places.
pub fn value(text: &str) -> Result<Value, Wrong> {
    let mut all = documents(text)?;
    match (all.pop(), all.len()) {
        (Some(only), 0) => Ok(only.value()),
        (None, _) => Ok(Value::Null),
        (Some(second), _) => {
            let (line, column) = (second.line, second.column);
            Err(Wrong { message: "more than one document".into(), line, column })
        }
    }
}

/// A document as text.
pub fn text(document: &Value) -> Result<String, Wrong> {
    let text = serde_saphyr::to_string(document).map_err(|error| Wrong {
        message: error.to_string(),
        line: 0,
        column: 0,
    })?;
    if text.chars().any(|letter| letter != '\n' && hostile(letter)) {
        // Only JSON, which is YAML too, has escapes for all of them.
        return Ok(safe_json(&format!("{document:#}\n")));
    }
    Ok(text)
}

impl Node {
    pub fn is_null(&self) -> bool {
        self.tree == Tree::Scalar(Value::Null)
    }

    pub fn value(&self) -> Value {
        match &self.tree {
            Tree::Scalar(value) => value.clone(),
            Tree::List(items) => items.iter().map(Self::value).collect(),
            Tree::Map(entries) => {
                let pairs = entries.iter().map(|(key, value)| (key.name(), value.value()));
                Value::Object(pairs.collect::<Map<String, Value>>())
            }
        }
    }

    /// The text of a key.
    pub fn name(&self) -> String {
        match &self.tree {
            Tree::Scalar(Value::String(text)) => text.clone(),
            _ => self.value().to_string(),
        }
    }

    /// The value below a key.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Tree::Map(entries) = &self.tree else {
            return None;
        };
        entries.iter().find(|(key, _)| key.name() == name).map(|(_, value)| value)
    }

    pub fn text(&self) -> Option<&str> {
        match &self.tree {
            Tree::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// What the parser gives.
enum Raw {
    Scalar(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn node(raw: Spanned<Raw>) -> Node {
    let (line, column) = (raw.referenced.line(), raw.referenced.column());
    let tree = match raw.value {
        Raw::Scalar(value) => Tree::Scalar(value),
        Raw::List(items) => Tree::List(items.into_iter().map(node).collect()),
        Raw::Map(entries) => {
            let key = |key: Spanned<String>| {
                let (line, column) = (key.referenced.line(), key.referenced.column());
                Node { tree: Tree::Scalar(key.value.into()), line, column }
            };
            Tree::Map(entries.into_iter().map(|(name, value)| (key(name), node(value))).collect())
        }
    };
    Node { tree, line, column }
}

struct Reader;

impl<'de> de::Visitor<'de> for Reader {
    type Value = Raw;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("YAML")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Raw, D::Error> {
        from.deserialize_any(Self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.into()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut from: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut from: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = from.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_where_is_known() {
        let read = documents("---\na: 1\n---\nb: [x]\n").unwrap();
        let item = read[1].get("b").unwrap();
        assert_eq!((item.line, item.column, item.value()), (4, 4, serde_json::json!(["x"])));
    }

    #[test]
    fn json_documents_may_follow_each_other() {
        let read = documents("{\"a\": 1}\n{\"a\": 2} {\"a\": 3}").unwrap();
        let values: Vec<Value> = read.iter().map(Node::value).collect();
        assert_eq!(values, [1, 2, 3].map(|a| serde_json::json!({ "a": a })));
    }

    #[test]
    fn hostile_text_is_refused_at_once() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for at in 1..9 {
            let aliases = vec![format!("*a{}", at - 1); 9].join(",");
            bomb = format!("{bomb}a{at}: &a{at} [{aliases}]\n");
        }
        for (text, says) in [
            ("[".repeat(100_000), "nested too deeply"),
            ("x".repeat(2 << 20), "more than the 1048576"),
            (bomb, "aliases expand"),
            ("a: 1\na: 2\n".into(), "duplicate mapping key: a"),
            ("a: [".into(), "unclosed bracket"),
        ] {
            let wrong = documents(&text).unwrap_err().to_string();
            assert!(wrong.contains(says), "{wrong}");
        }
    }

    #[test]
    fn strings_that_go_would_misread_are_quoted() {
        for text in ["no", "yes", "on", "y", "1_000", "012", "4.10", "2020-01-02", "~", "null", "="]
        {
            let written = super::text(&serde_json::json!({ "a": text })).unwrap();
            assert_eq!(written, format!("a: \"{text}\"\n"));
        }
    }
}
