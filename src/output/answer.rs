//! What a command answers, as values: rows, lines, names and documents become text here, in the
//! format that was asked for. It never prints, and never reads the state.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Value, json};

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::text::safe_json;
use crate::yaml;

use super::clean::clean;
use super::columns::Row;
use super::table::render;
use super::{Format, jsonpath};

/// What something is called: `clusterpool/lab`, or `lab` where names alone are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The kind, as commands print it; none for what is no object.
    word: Option<&'static str>,
    key: Key,
}

impl Name {
    pub fn of(kind: Kind, key: &Key) -> Self {
        Self { word: Some(kind.word()), key: key.clone() }
    }

    /// The name of what is no object: a file, a driver, a check.
    pub fn plain(name: impl Into<String>) -> Self {
        Self { word: None, key: Key::new("", name) }
    }

    fn without_kind(&self) -> String {
        clean(&self.key.name).into_owned()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(word) = self.word {
            write!(out, "{word}/")?;
        }
        out.write_str(&self.without_kind())
    }
}

/// One thing of a list. What its format does not show may be left empty.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// None for what is listed for people and programs only.
    pub name: Option<Name>,
    pub row: Row,
    pub document: Value,
}

/// What people see.
#[derive(Debug)]
enum Part {
    /// Lines with their ends, nothing hostile in them.
    Text(String),
    /// Rows below their headers. Columns are as wide as all rows ask for, whichever are shown.
    Table { rows: Vec<Row>, shown: Vec<usize>, headers: bool },
}

/// What documents are together. When answers are joined, the last of their shapes holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    /// One is itself; several are a List.
    #[default]
    Single,
    List,
    /// One after another, each as it comes.
    Stream,
}

/// What a command answers.
#[must_use = "it is printed by `Context::answer`"]
#[derive(Debug, Default)]
pub struct Answer {
    parts: Vec<Part>,
    names: Vec<Name>,
    documents: Vec<Value>,
    shape: Shape,
    is_verbatim: bool,
}

impl Answer {
    /// Text for people: lines with their ends, nothing hostile in them.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())], ..Self::default() }
    }

    /// A document that people see as YAML.
    pub fn document(document: Value) -> Result<Self, Refusal> {
        Ok(Self::text(yaml_text(&document)?).with_document(document))
    }

    /// What became of an object: `clusterpool/lab scaled`.
    pub fn change(kind: Kind, key: &Key, what: &str) -> Self {
        let name = Name::of(kind, key);
        let mut document = json!({"kind": kind.name()});
        if !key.namespace.is_empty() {
            document["namespace"] = key.namespace.as_str().into();
        }
        document["name"] = key.name.as_str().into();
        document["result"] = what.into();
        let text = format!("{name} {}\n", clean(what));
        Self::text(text).with_name(name).with_document(document)
    }

    /// A table, also of a single thing or of nothing.
    pub fn list(entries: Vec<Entry>) -> Self {
        let shown: Vec<usize> = (0..entries.len()).collect();
        Self::some_of(entries, &shown)
    }

    /// Some things of a list, in columns as wide as those of the whole list.
    pub fn some_of(entries: Vec<Entry>, shown: &[usize]) -> Self {
        let mut rows = Vec::with_capacity(entries.len());
        let mut names = Vec::new();
        let mut documents = Vec::new();
        let mut next = shown.iter().peekable();
        for (index, entry) in entries.into_iter().enumerate() {
            rows.push(entry.row);
            if next.next_if(|shown| **shown == index).is_some() {
                names.extend(entry.name);
                documents.push(entry.document);
            }
        }
        let table = Part::Table { rows, shown: shown.to_vec(), headers: true };
        Self { parts: vec![table], names, documents, shape: Shape::List, is_verbatim: false }
    }

    /// More text for people.
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    pub fn with_name(mut self, name: Name) -> Self {
        self.names.push(name);
        self
    }

    pub fn with_names(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        self.names.extend(names);
        self
    }

    pub fn with_document(mut self, document: Value) -> Self {
        self.documents.push(document);
        self
    }

    /// A field more in each of its documents.
    pub fn with_field(mut self, name: &str, value: &str) -> Self {
        for document in &mut self.documents {
            document[name] = value.into();
        }
        self
    }

    /// Documents that are a List, however many they are.
    pub fn with_list(mut self, documents: impl IntoIterator<Item = Value>) -> Self {
        self.documents.extend(documents);
        self.shape = Shape::List;
        self
    }

    /// Its only document is itself, not a List of one.
    pub fn single(mut self) -> Self {
        self.shape = Shape::Single;
        self
    }

    /// Its documents are printed at once, one after another: the command does not end by itself.
    pub fn streamed(mut self) -> Self {
        self.shape = Shape::Stream;
        self
    }

    /// What people see is a value for programs: it is printed as it is, hostile or not.
    pub fn verbatim(mut self) -> Self {
        self.is_verbatim = true;
        self
    }

    pub fn with_headers(mut self, with_headers: bool) -> Self {
        for part in &mut self.parts {
            if let Part::Table { headers, .. } = part {
                *headers = with_headers;
            }
        }
        self
    }

    /// Behind an empty line, for people.
    pub fn after_gap(mut self) -> Self {
        self.parts.insert(0, Part::Text("\n".into()));
        self
    }

    pub fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
        self.names.extend(other.names);
        self.documents.extend(other.documents);
        self.shape = self.shape.max(other.shape);
        self.is_verbatim |= other.is_verbatim;
    }

    pub fn is_verbatim(&self) -> bool {
        self.is_verbatim
    }

    pub fn is_stream(&self) -> bool {
        self.shape == Shape::Stream
    }

    /// The answer as text. `quiet` asks for names alone, unless whole documents are asked for.
    pub fn render(self, format: &Format, quiet: bool) -> Result<String, Refusal> {
        match format {
            Format::Json | Format::Yaml | Format::JsonPath(_) => self.document_text(format),
            _ if quiet => Ok(self.name_lines(Name::without_kind)),
            Format::Name => Ok(self.name_lines(Name::to_string)),
            Format::Table | Format::Wide => Ok(self.parts.iter().map(Part::text).collect()),
        }
    }

    fn document_text(mut self, format: &Format) -> Result<String, Refusal> {
        match (self.shape, self.documents.len()) {
            (Shape::Stream, _) => {
                self.documents.iter().map(|document| document_text(format, document)).collect()
            }
            (Shape::Single, 0) => Ok(String::new()),
            (Shape::Single, 1) => document_text(format, &self.documents.remove(0)),
            _ => {
                let mut list = json!({"apiVersion": "v1", "kind": "List"});
                list["items"] = Value::Array(self.documents);
                document_text(format, &list)
            }
        }
    }

    /// Every name once, in the order of the answer.
    fn name_lines(&self, format_name: fn(&Name) -> String) -> String {
        let mut seen = HashSet::new();
        let names = self.names.iter().filter(|name| seen.insert(*name));
        names.map(|name| format_name(name) + "\n").collect()
    }
}

impl Part {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Table { rows, shown, headers } if shown.len() == rows.len() => {
                render(rows, *headers)
            }
            Self::Table { rows, shown, headers } => select_lines(rows, shown, *headers),
        }
    }
}

/// The lines of some rows, in columns as wide as those of all rows.
fn select_lines(rows: &[Row], shown: &[usize], headers: bool) -> String {
    let table = render(rows, true);
    let lines: Vec<&str> = table.split_inclusive('\n').collect();
    let header = if headers && !shown.is_empty() { lines.first() } else { None };
    // The first line is the header, and the row of an index is the line after it.
    let row_lines = shown.iter().filter_map(|index| lines.get(index + 1));
    header.into_iter().chain(row_lines).copied().collect()
}

/// One document in a format of whole documents; in any other, which people read, as YAML.
pub fn document_text(format: &Format, document: &Value) -> Result<String, Refusal> {
    match format {
        Format::JsonPath(template) => jsonpath::evaluate(template, document),
        Format::Json => Ok(safe_json(&format!("{document:#}\n"))),
        _ => yaml_text(document),
    }
}

fn yaml_text(document: &Value) -> Result<String, Refusal> {
    yaml::text(document).map_err(|wrong| Refusal::invalid(wrong.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, size: &str) -> Entry {
        Entry {
            name: Some(Name::of(Kind::ClusterPool, &Key::new("default", name))),
            row: vec![("name", name.into()), ("size", size.into())],
            document: json!({"name": name}),
        }
    }

    fn check(answer: Answer, format: &str, quiet: bool, expected: &str) {
        let format: Format = format.parse().unwrap();
        assert_eq!(answer.render(&format, quiet).unwrap(), expected, "{format:?} {quiet}");
    }

    #[test]
    fn a_list_is_a_table_names_or_documents() {
        let list = || Answer::list(vec![pool("lab", "1"), pool("office", "2"), pool("lab", "1")]);
        let table = "NAME    SIZE\nlab     1\noffice  2\nlab     1\n";
        check(list(), "table", false, table);
        check(list().with_headers(false), "wide", false, table.split_once('\n').unwrap().1);
        check(list(), "name", false, "clusterpool/lab\nclusterpool/office\n");
        check(list(), "name", true, "lab\noffice\n");
        check(list(), "table", true, "lab\noffice\n");
        check(list(), "jsonpath={.items[1].name}", true, "office");
        check(list(), "jsonpath={.kind}", false, "List");
    }

    #[test]
    fn some_of_a_list_keep_the_width_of_all() {
        let some = || Answer::some_of(vec![pool("lab", "1"), pool("office", "2")], &[0]);
        check(some(), "table", false, "NAME    SIZE\nlab     1\n");
        check(some().with_headers(false), "table", false, "lab     1\n");
        check(some().streamed(), "jsonpath={.name}", false, "lab");
    }

    #[test]
    fn one_change_is_an_object_and_two_are_a_list() {
        let change = || Answer::change(Kind::ClusterPool, &Key::new("default", "lab"), "scaled");
        check(change(), "table", false, "clusterpool/lab scaled\n");
        check(change(), "table", true, "lab\n");
        let path = "jsonpath={.kind} {.namespace} {.name} {.result}";
        check(change(), path, false, "ClusterPool default lab scaled");
        let mut two = change();
        two.append(change());
        check(two, "jsonpath={.items[*].result}", false, "scaled scaled");
        check(Answer::default(), "json", false, "");
        check(Answer::list(Vec::new()), "jsonpath={.kind}", false, "List");
    }
}
