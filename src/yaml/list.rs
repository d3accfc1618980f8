//! Reads a List item by item. As one document it would take many times the memory of its text, and
//! the state of a year is one such document.

use std::io::BufRead;

use super::{MAX_BYTES, Node, Tree, parse_yaml_documents};

/// The line before the items of a List as `export`, kubectl and oc write it.
const ITEMS: &str = "items:\n";

/// Hands on the items of a text that is one List in block style, with its items in the first column.
/// No more of the text than an item is held in memory. The places of items are not known: they are
/// counted from the line on which each item begins. None if the text is something else, if an item
/// has more than `limit` bytes or cannot be read alone, or if `take` says by false that it does not
/// take one: `parse_documents_within` says what is wrong, and where. Items may have been handed on
/// before that is known.
pub fn visit_list_within(
    mut source: impl BufRead,
    limit: usize,
    take: &mut dyn FnMut(Node) -> bool,
) -> Option<()> {
    let head = read_until_items(&mut source)?;
    let tail = visit_items(&mut source, limit, take)?;
    let list = parse_only_document(&format!("{head}{tail}"), limit)?;
    let is_list = list.get("kind").and_then(Node::as_str) == Some("List");
    if is_list && list.get("items").is_none() { Some(()) } else { None }
}

/// What is before the line `items:`, which is read, too.
fn read_until_items(source: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    loop {
        let line_start = head.len();
        let is_at_end = source.read_line(&mut head).ok()? == 0;
        if is_at_end || head.len() > MAX_BYTES {
            return None;
        }
        if &head[line_start..] == ITEMS {
            head.truncate(line_start);
            return Some(head);
        }
    }
}

/// Hands on the items, and returns what follows them. They end at the first line that begins with
/// something else than a blank or the dash of an item. None if the first line is no item, or for what
/// only the whole text can tell, such as comments and the marks of documents.
fn visit_items(
    source: &mut impl BufRead,
    limit: usize,
    take: &mut dyn FnMut(Node) -> bool,
) -> Option<String> {
    let mut item = String::new();
    source.read_line(&mut item).ok()?;
    if !is_first_line_of_item(&item) {
        return None;
    }
    let mut line = String::new();
    loop {
        line.clear();
        let is_at_end = source.read_line(&mut line).ok()? == 0;
        if !is_at_end && (line.starts_with(' ') || line.trim().is_empty()) {
            item.push_str(&line);
            continue;
        }
        take_item(&item, limit, take)?;
        if is_at_end {
            return Some(line);
        }
        if !is_first_line_of_item(&line) {
            if !line.starts_with(char::is_alphabetic) {
                return None;
            }
            source.read_to_string(&mut line).ok()?;
            return Some(line);
        }
        std::mem::swap(&mut item, &mut line);
    }
}

fn is_first_line_of_item(line: &str) -> bool {
    line.starts_with("- ")
}

/// Hands on an item, whose text has its dash.
fn take_item(item: &str, limit: usize, take: &mut dyn FnMut(Node) -> bool) -> Option<()> {
    let Tree::List(nodes) = parse_only_document(item, limit)?.tree else { return None };
    for node in nodes {
        if !take(node) {
            return None;
        }
    }
    Some(())
}

/// The document of a text. None if it has not exactly one, or cannot be read.
fn parse_only_document(text: &str, limit: usize) -> Option<Node> {
    let mut documents = parse_yaml_documents(text, limit).ok()?;
    if documents.len() == 1 { documents.pop() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::parse_documents;
    use serde_json::Value;

    fn visited_items(content: &str) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        visit_list_within(content.as_bytes(), MAX_BYTES, &mut |item| {
            items.push(item.to_value());
            true
        })?;
        Some(items)
    }

    #[test]
    fn the_items_of_a_list_are_those_of_the_whole_document() {
        for content in [
            "apiVersion: v1\nitems:\n- a: 1\n  b: |\n    - x\n\n    y\n- c:\n  - d\nkind: List\n",
            "kind: List\nitems:\n- a: {b: [1, 2]}\n",
            "---\nkind: List\nitems:\n- - nested\n  - list\n- text\nmetadata:\n  resourceVersion: \"\"\n",
            "items:\n- a: \"two\n    lines\"\nkind: List\n",
        ] {
            let documents = parse_documents(content).unwrap();
            let document = documents[0].to_value();
            let items = document["items"].as_array().cloned();
            assert_eq!(visited_items(content), items, "{content}");
        }
    }

    #[test]
    fn what_is_no_plain_list_is_left_to_the_whole_reader() {
        for content in [
            "kind: List\nitems: []\n",
            "kind: Pool\nitems:\n- a\n",
            "kind: List\nitems:\n- &one a\n- *one\n",
            "kind: List\nitems:\n- a\n# why\n- b\n",
            "kind: List\nitems:\n- a\n---\nkind: List\n",
            "kind: List\nitems:\n- a\nitems:\n- b\n",
            "kind: List\nitems:\n- a: [1\n- b: 2]\n",
            "kind: List\nitems:\n- a: 'b\n- c'\n",
        ] {
            assert_eq!(visited_items(content), None, "{content}");
        }
    }
}
