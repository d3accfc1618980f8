//! Reads YAML part by part: document by document, and a List item by item. As one document a List
//! would take many times the memory of its text, and the state of a year is one such document.

use std::io::ErrorKind::InvalidData;
use std::io::{self, BufRead, Read};

use super::error::{TOO_LARGE_AT_ONCE, YamlError, too_large_part};
use super::{LARGEST_PART, Node, Part, PartRole, Tree, parse_yaml_documents};

/// The line before the items of a List in block style, as `export`, kubectl and oc write it.
const ITEMS: &str = "items:";

/// So many bytes of small parts are parsed together, because the parser takes long to begin.
const BATCH: usize = 64 << 10;

/// Hands on the documents of a text. A List in block style is handed on item by item, and then
/// without its items. No more of the text than a part is held in memory. Refuses a part that is too
/// large, what is no YAML, and what only the whole text can tell, such as an alias of something far
/// above; also a text of which `take` says by false that it does not take a part. Parts may have been
/// handed on before that is known.
pub fn visit_yaml_of(
    source: impl BufRead,
    take: &mut dyn FnMut(Part) -> bool,
) -> Result<(), YamlError> {
    let mut lines = Lines::new(source);
    let mut waiting_documents = Passage::default();
    let mut document = Passage::default();
    // Only the first `items` of a document can be its list.
    let mut may_have_list = true;
    let mut follows_items = false;
    while lines.read_next()? {
        if is_document_mark(&lines.line) {
            end_part(&mut waiting_documents, &mut document, hand_on_documents, take)?;
            may_have_list = true;
            follows_items = false;
        }
        // What follows the end of a document is another one.
        may_have_list &= !is_mark("...", &lines.line);
        if follows_items
            && may_have_list
            && let Some(indent) = indent_of_item(&lines.line)
        {
            may_have_list = false;
            if let Some(head) = head_of_list(&document) {
                hand_on_documents(&mut waiting_documents, take)?;
                document.clear();
                visit_list(&mut lines, head, indent, take)?;
                continue;
            }
        }
        follows_items = lines.line.trim_end() == ITEMS;
        document.push(&lines.line, lines.number)?;
    }
    end_part(&mut waiting_documents, &mut document, hand_on_documents, take)?;
    hand_on_documents(&mut waiting_documents, take)
}

/// The lines of a text, one at a time.
struct Lines<R> {
    source: R,
    /// The line that was read last, with its line feed.
    line: String,
    /// Its number. The first line has 1.
    number: u64,
    /// Whether this line is to be read again.
    is_put_back: bool,
}

impl<R: BufRead> Lines<R> {
    fn new(source: R) -> Self {
        Self { source, line: String::new(), number: 0, is_put_back: false }
    }

    /// Reads the next line. False if there is none.
    fn read_next(&mut self) -> Result<bool, YamlError> {
        if std::mem::take(&mut self.is_put_back) {
            return Ok(true);
        }
        let mut bytes = std::mem::take(&mut self.line).into_bytes();
        bytes.clear();
        let mut source = self.source.by_ref().take(LARGEST_PART as u64 + 1);
        source.read_until(b'\n', &mut bytes).map_err(|error| YamlError::of_reading(&error))?;
        self.number += 1;
        // The limit may cut a letter in two.
        if bytes.len() > LARGEST_PART {
            return Err(refuse_part(self.number));
        }
        self.line = String::from_utf8(bytes)
            .map_err(|error| YamlError::of_reading(&io::Error::new(InvalidData, error)))?;
        Ok(!self.line.is_empty())
    }
}

/// Lines that follow each other in a text.
#[derive(Default)]
struct Passage {
    content: String,
    /// The number of the first of them.
    first_line: u64,
}

impl Passage {
    fn clear(&mut self) {
        self.content.clear();
    }

    /// Adds lines, the first of which has that number. Refuses more than a part may have.
    fn push(&mut self, lines: &str, number: u64) -> Result<(), YamlError> {
        if self.content.is_empty() {
            self.first_line = number;
        }
        self.content.push_str(lines);
        if self.content.len() > LARGEST_PART {
            return Err(refuse_part(self.first_line));
        }
        Ok(())
    }

    /// Its documents, placed as in the whole text.
    fn parse(&self) -> Result<Vec<Node>, YamlError> {
        let lines_before = self.first_line.saturating_sub(1);
        match parse_yaml_documents(&self.content, LARGEST_PART) {
            Ok(mut documents) => {
                for document in &mut documents {
                    document.move_by(lines_before, 0);
                }
                Ok(documents)
            }
            Err(mut error) => {
                if error.line > 0 {
                    error.line += lines_before;
                }
                Err(error)
            }
        }
    }
}

/// Refuses a part that begins on a line.
fn refuse_part(line: u64) -> YamlError {
    YamlError { line, column: 1, is_too_much: true, ..YamlError::without_place(too_large_part()) }
}

/// Whether a line begins a document.
fn is_document_mark(line: &str) -> bool {
    is_mark("---", line)
}

/// Whether a line begins or ends a document. YAML allows no such line in a value.
fn is_mark(mark: &str, line: &str) -> bool {
    line.strip_prefix(mark)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// How far an item of a list is indented that begins on a line. None if none does.
fn indent_of_item(line: &str) -> Option<usize> {
    let indent = count_spaces(line);
    let rest = line[indent..].strip_prefix('-')?;
    if rest.trim_end().is_empty() || rest.starts_with([' ', '\t']) { Some(indent) } else { None }
}

fn count_spaces(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Hands on what a passage has, which is empty then.
type HandOn = fn(&mut Passage, &mut dyn FnMut(Part) -> bool) -> Result<(), YamlError>;

/// Puts a part that has been read beside those that are parsed together with it. A large one is parsed
/// alone.
fn end_part(
    waiting_parts: &mut Passage,
    part: &mut Passage,
    hand_on: HandOn,
    take: &mut dyn FnMut(Part) -> bool,
) -> Result<(), YamlError> {
    if part.content.len() >= BATCH {
        hand_on(waiting_parts, take)?;
        return hand_on(part, take);
    }
    waiting_parts.push(&part.content, part.first_line)?;
    part.clear();
    if waiting_parts.content.len() >= BATCH {
        hand_on(waiting_parts, take)?;
    }
    Ok(())
}

/// Hands on the documents of a passage, which is empty then.
fn hand_on_documents(
    passage: &mut Passage,
    take: &mut dyn FnMut(Part) -> bool,
) -> Result<(), YamlError> {
    if passage.content.is_empty() {
        return Ok(());
    }
    for node in passage.parse()? {
        hand_on(PartRole::Document, node, take)?;
    }
    passage.clear();
    Ok(())
}

fn hand_on(
    role: PartRole,
    node: Node,
    take: &mut dyn FnMut(Part) -> bool,
) -> Result<(), YamlError> {
    let is_taken = take(Part { role, node, byte_range: None });
    if is_taken { Ok(()) } else { Err(YamlError::without_place(TOO_LARGE_AT_ONCE.into())) }
}

/// What is before the line `items:` at the end of a passage. None if it says that the document is
/// something else than a List.
fn head_of_list(document: &Passage) -> Option<Passage> {
    let content = document.content.trim_end().strip_suffix(ITEMS)?.to_owned();
    let head = Passage { content, first_line: document.first_line };
    let documents = head.parse().ok()?;
    let kind = documents.first().and_then(|node| node.get("kind"));
    let is_list = documents.len() < 2 && kind.is_none_or(|kind| kind.as_str() == Some("List"));
    if is_list { Some(head) } else { None }
}

/// Hands on the items of a list, the first of which begins on the line that was read last, and what
/// is around them. The mark of the next document is put back.
fn visit_list(
    lines: &mut Lines<impl BufRead>,
    head: Passage,
    indent: usize,
    take: &mut dyn FnMut(Part) -> bool,
) -> Result<(), YamlError> {
    lines.is_put_back = true;
    let mut waiting_items = Passage::default();
    let mut item = Passage::default();
    while lines.read_next()? {
        let line = &lines.line;
        let is_item = indent_of_item(line) == Some(indent);
        let belongs_to_item = count_spaces(line) > indent || is_blank_or_comment(line);
        if !is_item && !belongs_to_item {
            lines.is_put_back = true;
            break;
        }
        if is_item {
            end_part(&mut waiting_items, &mut item, hand_on_items, take)?;
        }
        item.push(&lines.line, lines.number)?;
    }
    end_part(&mut waiting_items, &mut item, hand_on_items, take)?;
    hand_on_items(&mut waiting_items, take)?;
    let mut tail = Passage::default();
    while lines.read_next()? {
        if is_document_mark(&lines.line) {
            lines.is_put_back = true;
            break;
        }
        if is_mark("...", &lines.line) {
            return Err(YamlError::without_place(TOO_LARGE_AT_ONCE.into()));
        }
        tail.push(&lines.line, lines.number)?;
    }
    hand_on_rest(head, &tail, take)
}

fn is_blank_or_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Hands on the items of a passage, which is empty then.
fn hand_on_items(items: &mut Passage, take: &mut dyn FnMut(Part) -> bool) -> Result<(), YamlError> {
    for document in items.parse()? {
        let Tree::List(nodes) = document.tree else {
            return Err(YamlError::without_place(TOO_LARGE_AT_ONCE.into()));
        };
        for node in nodes {
            hand_on(PartRole::Item, node, take)?;
        }
    }
    items.clear();
    Ok(())
}

/// Hands on a list without its items. What is around them is read with an empty list in their place:
/// that refuses what was neither of an item nor a field of the list.
fn hand_on_rest(
    mut head: Passage,
    tail: &Passage,
    take: &mut dyn FnMut(Part) -> bool,
) -> Result<(), YamlError> {
    // Alone first: then the places of its mistakes are those of the whole text.
    tail.parse()?;
    head.push(&format!("{ITEMS} []\n"), head.first_line)?;
    let tail_start = head.first_line + head.content.lines().count() as u64;
    head.push(&tail.content, tail.first_line)?;
    let mut documents = head.parse().map_err(|mut error| {
        if error.line >= tail_start {
            error.line = tail.first_line + (error.line - tail_start);
        }
        error
    })?;
    match documents.pop() {
        Some(mut rest) if documents.is_empty() => {
            if let Tree::Map(entries) = &mut rest.tree {
                entries.retain(|(key, _)| key.as_str() != Some("items"));
            }
            hand_on(PartRole::RestOfList, rest, take)
        }
        _ => Err(YamlError::without_place(TOO_LARGE_AT_ONCE.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::parse_documents;
    use serde_json::Value;

    /// The parts of a text, each with its role and its place.
    fn visited_parts(content: &str) -> Result<Vec<(PartRole, u64, u64, Value)>, YamlError> {
        let mut parts = Vec::new();
        visit_yaml_of(content.as_bytes(), &mut |part| {
            let Node { line, column, .. } = part.node;
            parts.push((part.role, line, column, part.node.to_value()));
            true
        })?;
        Ok(parts)
    }

    fn visited_items(content: &str) -> Option<Vec<Value>> {
        let parts = visited_parts(content).ok()?;
        let items = parts.into_iter().filter(|(role, ..)| *role == PartRole::Item);
        Some(items.map(|(.., value)| value).collect())
    }

    #[test]
    fn the_items_of_a_list_are_those_of_the_whole_document() {
        for content in [
            "apiVersion: v1\nitems:\n- a: 1\n  b: |\n    - x\n\n    y\n- c:\n  - d\nkind: List\n",
            "kind: List\nitems:\n- a: {b: [1, 2]}\n",
            "---\nkind: List\nitems:\n- - nested\n  - list\n- text\nmetadata:\n  resourceVersion: \"\"\n",
            "items:\n- a: \"two\n    lines\"\nkind: List\n",
            "kind: List\nitems:\n  - a:\n    - b\n  -\n    c: 1\n",
            "kind: List\nitems:\n- a\n# why\n- b\n",
            "kind: List\r\nitems:\r\n- a: 1\r\n- b: 2\r\n",
            "kind: List\nitems:\n- &one a\n- *one\n",
            "metadata:\nitems:\n- {a: 1}\n-\t{b: 2}\nkind: List\n",
        ] {
            let documents = parse_documents(content).unwrap();
            let document = documents[0].to_value();
            let items = document["items"].as_array().cloned();
            assert_eq!(visited_items(content), items, "{content}");
        }
    }

    #[test]
    fn documents_and_lists_follow_each_other_in_their_places() {
        let content =
            "a: 1\n---\nkind: List\nitems:\n- b: 2\n\n- c: 3\nmetadata: {}\n---\n---\nd: 4\n";
        let rest = serde_json::json!({"kind": "List", "metadata": {}});
        let expected = vec![
            (PartRole::Document, 1, 1, serde_json::json!({"a": 1})),
            (PartRole::Item, 5, 3, serde_json::json!({"b": 2})),
            (PartRole::Item, 7, 3, serde_json::json!({"c": 3})),
            (PartRole::RestOfList, 3, 1, rest),
            (PartRole::Document, 11, 1, serde_json::json!({"d": 4})),
        ];
        assert_eq!(visited_parts(content), Ok(expected));
    }

    #[test]
    fn many_items_are_parsed_in_portions_and_keep_their_lines() {
        let count = 3 * BATCH / 8;
        let content = format!("kind: List\nitems:\n{}", "- a: 1\n".repeat(count));
        let parts = visited_parts(&content).unwrap();
        assert_eq!(parts.len(), count + 1);
        let lines: Vec<u64> = parts[..count].iter().map(|(_, line, ..)| *line).collect();
        assert_eq!(lines, (3..).take(count).collect::<Vec<u64>>());
        let error = visited_parts(&format!("{content}- a: [\n")).unwrap_err();
        assert!(usize::try_from(error.line).unwrap() >= count + 3, "{error}");
    }

    #[test]
    fn the_end_of_a_document_is_no_field_of_it() {
        let content = "kind: List\n...\nitems:\n- a\n";
        let parts = visited_parts(content).unwrap();
        let values: Vec<Value> = parts.into_iter().map(|(.., value)| value).collect();
        assert_eq!(
            values,
            [serde_json::json!({"kind": "List"}), serde_json::json!({"items": ["a"]})]
        );
    }

    #[test]
    fn what_is_no_list_in_block_style_is_a_document() {
        for content in [
            "kind: List\nitems: []\n",
            "kind: PoolList\nitems:\n- a\n",
            "kind: List\nitems:\n  a: 1\n",
            "items:\nkind: List\n",
        ] {
            let value = parse_documents(content).unwrap()[0].to_value();
            let expected = vec![(PartRole::Document, 1, 1, value)];
            assert_eq!(visited_parts(content), Ok(expected), "{content}");
        }
    }

    #[test]
    fn what_only_the_whole_text_can_tell_is_left_to_it() {
        let far = "- b\n".repeat(BATCH);
        for content in [
            "kind: List\nitems:\n- a\nitems:\n- b\n",
            "kind: List\nitems:\n- a: [1\n",
            "items:\n- a\n...\nkind: List\n",
            "kind: List\nmetadata:\nitems:\n  - a\n x: 1\n",
            "kind: List\nitems:\n- a\nkind: List\n",
            "kind: List\nmetadata:\nitems:\n  - a\n- b\n",
            " kind: List\nitems:\n- a\n",
            &format!("kind: List\nitems:\n- &one a\n{far}- *one\n"),
        ] {
            let visited = visited_parts(content);
            assert!(visited.is_err(), "{visited:?}");
        }
        assert!(visit_yaml_of("a: 1\n".as_bytes(), &mut |_| false).is_err());
    }

    #[test]
    fn mistakes_after_the_items_have_their_places() {
        let error = visited_parts("kind: List\nitems:\n- a\n- b\nkind: List\n").unwrap_err();
        assert_eq!(error.line, 5, "{error}");
    }

    #[test]
    fn a_large_item_after_small_ones_is_read() {
        let large = "b".repeat(LARGEST_PART - 8);
        let content = format!("kind: List\nitems:\n- a\n- {large}\n- c\n");
        assert_eq!(visited_items(&content).unwrap().len(), 3);
        let error = visited_parts(&format!(
            "kind: List\nitems:\n- a\n- {}\n",
            "ä".repeat(LARGEST_PART / 2)
        ));
        let error = error.unwrap_err();
        assert!(error.is_too_much && error.line == 4, "{error}");
    }

    #[test]
    fn a_part_of_too_many_values_or_bytes_is_refused_with_its_line() {
        for (content, line) in [
            (format!("a: 1\n---\nb:\n{}", "- c\n".repeat(600_000)), 0),
            (format!("a: 1\n---\nb: {}\n", "c".repeat(LARGEST_PART)), 3),
        ] {
            let error = visited_parts(&content).unwrap_err();
            assert!(error.is_too_much && (line == 0 || error.line == line), "{error}");
        }
    }
}
