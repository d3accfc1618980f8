//! Reads JSON as JSON, part by part: document by document, and a list item by item. It takes a
//! hundredth of the time that the reader of YAML takes, and knows no places within a part.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};

use serde::{Deserializer, de};
use serde_json::Value;

use super::error::{TOO_LARGE_AT_ONCE, TOO_MANY_VALUES, YamlError, too_large_part};
use super::{LARGEST_PART, MOST_VALUES, Node, Part, PartRole, Tree};

/// So many bytes of a text are read at once.
const BUFFER: u64 = 16 << 10;

/// Hands on the documents of a text that consists of JSON objects and nothing else, and the items of
/// a list one by one: a whole one as nodes would take many times the memory of its text. No place is
/// known. None if it is no such text, if it has more than `limit` bytes, or if a part is not taken,
/// which `take` says by false: `parse_documents_within` says what is wrong with it, and where.
pub fn visit_json_within(
    content: &str,
    limit: usize,
    take: &mut dyn FnMut(Part) -> bool,
) -> Option<()> {
    if !content.trim_start().starts_with('{') || content.len() > limit {
        return None;
    }
    visit_documents(&mut serde_json::Deserializer::from_str(content), None, take).ok()
}

/// As `visit_json_within`, of a text of any size. No more of it than a part is held in memory. The
/// place of each part is known, and which bytes of the text it is.
pub fn visit_json_of(
    source: impl Read,
    take: &mut dyn FnMut(Part) -> bool,
) -> Result<(), YamlError> {
    let cursor = Cell::new(Cursor::default());
    let source = PlacedSource::new(source, &cursor);
    let mut deserializer = serde_json::Deserializer::from_reader(source);
    visit_documents(&mut deserializer, Some(&cursor), take).map_err(|error| {
        let is_too_much = cursor.get().is_at_limit();
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        YamlError { message, line: error.line() as u64, column: error.column() as u64, is_too_much }
    })
}

fn visit_documents<'de, R: serde_json::de::Read<'de>>(
    deserializer: &mut serde_json::Deserializer<R>,
    cursor: Option<&Cell<Cursor>>,
    take: &mut dyn FnMut(Part) -> bool,
) -> serde_json::Result<()> {
    // The parser looks at what is not the end: the cursor is on the first byte of a document then.
    while deserializer.end().is_err() {
        let visitor = DocumentVisitor { take: &mut *take, cursor };
        Deserializer::deserialize_any(&mut *deserializer, visitor)?;
    }
    Ok(())
}

/// The byte of a text that was read last.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// How many bytes were read.
    count: u64,
    /// After how many bytes the part began that is being read.
    start_of_part: u64,
    line: u64,
    column: u64,
    ends_line: bool,
}

impl Cursor {
    fn advance(&mut self, byte: u8) {
        if self.ends_line || self.line == 0 {
            self.line += 1;
            self.column = 0;
        }
        // The bytes of a letter after its first one are no columns of their own.
        if byte & 0b1100_0000 != 0b1000_0000 {
            self.column += 1;
        }
        self.count += 1;
        self.ends_line = byte == b'\n';
    }

    /// Whether the part that is being read has as many bytes as a part may have.
    fn is_at_limit(self) -> bool {
        self.count - self.start_of_part >= LARGEST_PART as u64
    }
}

/// The byte that was read last, if that is known.
fn last_byte(cursor: Option<&Cell<Cursor>>) -> Option<Cursor> {
    cursor.map(Cell::get)
}

/// Begins a part with the byte that was read last, which is returned if it is known.
fn begin_part(cursor: Option<&Cell<Cursor>>) -> Option<Cursor> {
    let cursor = cursor?;
    let mut begin = cursor.get();
    begin.start_of_part = begin.count;
    cursor.set(begin);
    Some(begin)
}

/// A text whose reader is told where it is. It has a buffer of its own: the parser reads single bytes, and each would
/// ask the source for each of them.
struct PlacedSource<'a, R> {
    source: R,
    buffer: Vec<u8>,
    /// How many bytes of the buffer were read.
    position: usize,
    cursor: &'a Cell<Cursor>,
}

impl<'a, R: Read> PlacedSource<'a, R> {
    fn new(source: R, cursor: &'a Cell<Cursor>) -> Self {
        Self { source, buffer: Vec::new(), position: 0, cursor }
    }

    fn fill_buffer(&mut self) -> io::Result<()> {
        self.buffer.clear();
        self.position = 0;
        self.source.by_ref().take(BUFFER).read_to_end(&mut self.buffer)?;
        Ok(())
    }
}

impl<R: Read> Read for PlacedSource<'_, R> {
    /// Reads one byte at a time, so that the cursor is never beyond the byte that is looked at.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut cursor = self.cursor.get();
        if cursor.is_at_limit() {
            return Err(io::Error::other(too_large_part()));
        }
        if self.position == self.buffer.len() {
            self.fill_buffer()?;
        }
        let Some(&byte) = self.buffer.get(self.position) else { return Ok(0) };
        let Some(place) = buffer.first_mut() else { return Ok(0) };
        *place = byte;
        self.position += 1;
        cursor.advance(byte);
        self.cursor.set(cursor);
        Ok(1)
    }
}

/// Builds nodes from what the parser of JSON meets, without their places, and counts them.
#[derive(Clone, Copy)]
struct NodeSeed<'a> {
    /// How many values the part may still have.
    values_left: &'a Cell<usize>,
}

impl NodeSeed<'_> {
    fn build<E: de::Error>(self, tree: Tree) -> Result<Node, E> {
        let values_left = self.values_left.get();
        if values_left == 0 {
            return Err(E::custom(TOO_MANY_VALUES));
        }
        self.values_left.set(values_left - 1);
        Ok(Node { tree, line: 0, column: 0 })
    }

    fn build_scalar<E: de::Error>(self, value: impl Into<Value>) -> Result<Node, E> {
        self.build(Tree::Scalar(value.into()))
    }
}

impl<'de> de::DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for NodeSeed<'_> {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        self.build_scalar(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
        self.build_scalar(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Node, E> {
        self.build_scalar(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
        self.build_scalar(value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        self.build_scalar(value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        self.build_scalar(value)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut sequence: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(self)? {
            items.push(item);
        }
        self.build(Tree::List(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key_seed(self)? {
            entries.push((key, map.next_value_seed(self)?));
        }
        if has_duplicate_key(&entries) {
            return Err(de::Error::custom("duplicate mapping key"));
        }
        self.build(Tree::Map(entries))
    }
}

/// Whether a mapping has a key twice. Keys of JSON are strings.
fn has_duplicate_key(entries: &[(Node, Node)]) -> bool {
    let mut names: Vec<Option<&str>> = entries.iter().map(|(key, _)| key.as_str()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Hands on a document of JSON.
struct DocumentVisitor<'a> {
    take: &'a mut dyn FnMut(Part) -> bool,
    cursor: Option<&'a Cell<Cursor>>,
}

impl<'de> de::Visitor<'de> for DocumentVisitor<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON object")
    }

    /// What the parser says of a string shows it, and it may be a secret.
    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Err(E::custom("a JSON object is expected"))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let begin = begin_part(self.cursor);
        let values_left = Cell::new(MOST_VALUES);
        let seed = NodeSeed { values_left: &values_left };
        let mut entries = Vec::new();
        let mut is_list = false;
        while let Some(key) = map.next_key_seed(seed)? {
            let is_items = key.as_str() == Some("items");
            if !is_items || is_of_other_kind(&entries) {
                entries.push((key, map.next_value_seed(seed)?));
            } else if is_list {
                return Err(de::Error::custom("duplicate mapping key"));
            } else {
                let visitor = ItemsVisitor { take: &mut *self.take, cursor: self.cursor };
                map.next_value_seed(visitor)?;
                is_list = true;
                begin_part(self.cursor);
            }
        }
        if has_duplicate_key(&entries) {
            return Err(de::Error::custom("duplicate mapping key"));
        }
        let role = if is_list { PartRole::RestOfList } else { PartRole::Document };
        let node = seed.build::<A::Error>(Tree::Map(entries))?;
        hand_on(self.take, role, node, begin, last_byte(self.cursor))
    }
}

/// Whether a document says that it is no List before it comes to its items.
fn is_of_other_kind(entries: &[(Node, Node)]) -> bool {
    entries
        .iter()
        .any(|(key, value)| key.as_str() == Some("kind") && value.as_str() != Some("List"))
}

/// Hands on the items of a list.
struct ItemsVisitor<'a> {
    take: &'a mut dyn FnMut(Part) -> bool,
    cursor: Option<&'a Cell<Cursor>>,
}

impl<'de> de::DeserializeSeed<'de> for ItemsVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for ItemsVisitor<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    /// What the parser says of a string shows it, and it may be a secret.
    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Err(E::custom("a list is expected"))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        let seed = ItemSeed { cursor: self.cursor };
        while let Some((item, begin)) = sequence.next_element_seed(seed)? {
            let end = last_byte(self.cursor);
            hand_on::<A::Error>(&mut *self.take, PartRole::Item, item, begin, end)?;
        }
        Ok(())
    }
}

/// Builds an item, and remembers where it begins.
#[derive(Clone, Copy)]
struct ItemSeed<'a> {
    cursor: Option<&'a Cell<Cursor>>,
}

impl<'de> de::DeserializeSeed<'de> for ItemSeed<'_> {
    type Value = (Node, Option<Cursor>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let begin = begin_part(self.cursor);
        let values_left = Cell::new(MOST_VALUES);
        let seed = NodeSeed { values_left: &values_left };
        let node = de::DeserializeSeed::deserialize(seed, deserializer)?;
        Ok((node, begin))
    }
}

/// Hands on a part. `begin` is its first byte, and `end` its last one.
fn hand_on<E: de::Error>(
    take: &mut dyn FnMut(Part) -> bool,
    role: PartRole,
    mut node: Node,
    begin: Option<Cursor>,
    end: Option<Cursor>,
) -> Result<(), E> {
    let mut byte_range = None;
    if let Some(begin) = begin
        && let Some(end) = end
    {
        node.line = begin.line;
        node.column = begin.column;
        byte_range = Some(begin.count.saturating_sub(1)..end.count);
    }
    if take(Part { role, node, byte_range }) { Ok(()) } else { Err(E::custom(TOO_LARGE_AT_ONCE)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{MAX_BYTES, parse_documents, parse_part_at};

    /// The values of the parts of a JSON text, each with what it is.
    fn parts_of(content: &str, limit: usize) -> Option<Vec<(PartRole, Value)>> {
        let mut parts = Vec::new();
        visit_json_within(content, limit, &mut |part| {
            parts.push((part.role, part.node.to_value()));
            true
        })?;
        Some(parts)
    }

    #[test]
    fn json_is_read_alike_with_and_without_places() {
        let content =
            "{\"a\": [1, -2, 2.5, true, null, \"x\\n\"], \"b\": {\"c\": \"no\"}}\n{\"d\": 1}";
        let documents = parse_documents(content).unwrap();
        let expected: Vec<_> =
            documents.iter().map(|document| (PartRole::Document, document.to_value())).collect();
        assert_eq!(parts_of(content, MAX_BYTES), Some(expected));
        assert_eq!(documents.len(), 2);
    }

    #[test]
    fn the_items_of_a_list_are_handed_on_one_by_one() {
        let content = "{\"a\": 1, \"items\": [{\"b\": 2}, 3], \"kind\": \"List\"} {\"d\": 4}";
        let expected = vec![
            (PartRole::Item, serde_json::json!({"b": 2})),
            (PartRole::Item, serde_json::json!(3)),
            (PartRole::RestOfList, serde_json::json!({"a": 1, "kind": "List"})),
            (PartRole::Document, serde_json::json!({"d": 4})),
        ];
        assert_eq!(parts_of(content, MAX_BYTES), Some(expected));
        assert_eq!(visit_json_within(content, MAX_BYTES, &mut |_| false), None);
        let content = "{\"kind\": \"PoolList\", \"items\": [{\"b\": 2}]}";
        let expected = serde_json::json!({"kind": "PoolList", "items": [{"b": 2}]});
        assert_eq!(parts_of(content, MAX_BYTES), Some(vec![(PartRole::Document, expected)]));
    }

    #[test]
    fn what_is_not_quite_json_is_left_to_the_reader_of_yaml() {
        for content in [
            "{a: 1}",
            "{\"a\": 1, \"a\": 2}",
            "{\"items\": [], \"items\": []}",
            "{\"items\": 1}",
            "[1]",
            "a: 1",
            "",
            "{\"a\": 1} # a",
            "{",
        ] {
            assert_eq!(parts_of(content, MAX_BYTES), None, "{content}");
        }
        assert_eq!(parts_of("{\"a\": 1}", 5), None);
    }

    /// A part that is read again alone has the places that it has in the whole text.
    #[test]
    fn parts_know_which_bytes_of_the_text_they_are() {
        let list =
            "{\"items\": [{\"ä\": 1}, {\n  \"b\": [2,\n 3]} ,\n {\"c\":{}}], \"kind\": \"List\"}";
        let documents = parse_documents(list).unwrap();
        let Some(Node { tree: Tree::List(items), .. }) = documents[0].get("items") else {
            panic!("{documents:?}");
        };
        check_places(list, items);
        let document = "\n  {\"d\": [4],\n \"e\": 5}\n";
        check_places(document, &parse_documents(document).unwrap());
    }

    /// Reads each part again, and expects these nodes.
    fn check_places(content: &str, expected: &[Node]) {
        let mut parts = Vec::new();
        visit_json_of(content.as_bytes(), &mut |part| {
            let range = part.byte_range.unwrap();
            let begin = usize::try_from(range.start).unwrap();
            let end = usize::try_from(range.end).unwrap();
            let Node { line, column, .. } = part.node;
            if part.role != PartRole::RestOfList {
                parts.push(parse_part_at(&content[begin..end], line, column).unwrap());
            }
            true
        })
        .unwrap();
        assert_eq!(parts, expected);
    }

    #[test]
    fn an_item_of_too_many_bytes_is_refused_and_many_items_are_not() {
        let letters = "a".repeat(LARGEST_PART / 3);
        let many = format!("\"{letters}\",").repeat(4) + "1";
        let large = format!("\"{}\"", letters.repeat(4));
        for (items, is_too_much) in [(many, false), (large, true)] {
            let content = format!("{{\"items\": [{items}], \"kind\": \"List\"}}");
            let visited = visit_json_of(content.as_bytes(), &mut |_| true);
            assert_eq!(visited.is_err_and(|error| error.is_too_much), is_too_much);
        }
    }

    #[test]
    fn a_string_in_the_place_of_a_list_is_not_told() {
        for content in ["{\"items\": \"a secret\"}", "{} \"a secret\""] {
            let error = visit_json_of(content.as_bytes(), &mut |_| true).unwrap_err();
            assert!(!error.message.contains("secret"), "{error}");
        }
    }

    #[test]
    fn an_item_of_too_many_values_is_refused_and_many_items_are_not() {
        let tiny_items = "{},".repeat(MOST_VALUES);
        let mut count = 0;
        visit_json_of(format!("{{\"items\": [{tiny_items}{{}}]}}").as_bytes(), &mut |_| {
            count += 1;
            true
        })
        .unwrap();
        assert_eq!(count, MOST_VALUES + 2);
        let content = format!("{{\"items\": [[{tiny_items}1]]}}");
        let error = visit_json_of(content.as_bytes(), &mut |_| true).unwrap_err();
        assert_eq!(error.message, TOO_MANY_VALUES);
    }
}
