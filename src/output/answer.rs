//! What a command answers, as values: rows, lines, names and documents become text here, in the
//! format that was asked for. It never prints, and never reads the state.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde_json::{Value, json};

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::text::escape_json;
use crate::yaml;

use super::clean::clean_line;
use super::columns::Row;
use super::custom_columns::{draw_custom_columns, items_of};
use super::fit::{Layout, fit_rows};
use super::table::draw_rows;
use super::tone::{CellTones, paint_lines};
use super::{Format, jsonpath};

/// The name of what an answer is about: `clusterpool/lab`, or `lab` where names alone are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The kind, as commands print it; none if the name is of no object.
    word: Option<&'static str>,
    key: Key,
}

impl Name {
    /// The name of an object.
    pub fn of(kind: Kind, key: &Key) -> Self {
        Self { word: Some(kind.word()), key: key.clone() }
    }

    /// The name of something that is no object: a file, a driver, a check.
    pub fn plain(name: impl Into<String>) -> Self {
        Self { word: None, key: Key::new("", name) }
    }

    fn without_kind(&self) -> String {
        clean_line(&self.key.name).into_owned()
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

/// One entry of a list. Parts that the format of the answer does not show may be left empty.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// None if `-o name` leaves the entry out.
    pub name: Option<Name>,
    /// Shown to people.
    pub row: Row,
    /// Shown to programs.
    pub document: Value,
}

/// A part of what people see of an answer.
#[derive(Debug)]
enum Part {
    /// Lines with their ends, nothing hostile in them.
    Text(String),
    Table(TablePart),
}

/// The rows at the indexes `shown`, below their headers. Columns are as wide as all rows ask for,
/// also those that are not shown.
#[derive(Debug, Default)]
struct TablePart {
    rows: Vec<Row>,
    shown: Vec<usize>,
    has_headers: bool,
    /// Where it is shown, which says what it leaves out unless wide tables are asked for; none if
    /// it leaves out nothing.
    layout: Option<Layout>,
    /// How the states in each row are, if they are coloured.
    tones: Vec<CellTones>,
}

/// How the documents of an answer are put together. When answers are joined, the shape that comes
/// last in this order holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    /// A single document is printed alone; several are a List.
    #[default]
    Single,
    /// However many they are, they are a List.
    List,
    /// They are printed one after another, for more of them may come later.
    Stream,
}

/// The answer of a command in every format at once: text and tables for people, names, and
/// documents for programs. `render` makes text of it.
#[must_use = "it is printed by `Context::answer`"]
#[derive(Debug, Default)]
pub struct Answer {
    /// In the order in which people read them.
    parts: Vec<Part>,
    names: Vec<Name>,
    documents: Vec<Value>,
    /// What was committed, a sentence for each. It is told otherwise if nothing can be printed.
    changes: Vec<String>,
    shape: Shape,
    is_verbatim: bool,
}

impl Answer {
    /// Text for people: lines with their ends, nothing hostile in them.
    pub fn text(lines: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(lines.into())], ..Self::default() }
    }

    /// A document that people see as YAML.
    pub fn document(document: Value) -> Result<Self, Refusal> {
        Ok(Self::text(yaml_text(&document)?).with_document(document))
    }

    /// The result of a command for an object: `clusterpool/lab scaled`.
    pub fn change(kind: Kind, key: &Key, result: &str) -> Self {
        let name = Name::of(kind, key);
        let mut document = json!({"kind": kind.name()});
        if !key.namespace.is_empty() {
            document["namespace"] = key.namespace.as_str().into();
        }
        document["name"] = key.name.as_str().into();
        document["result"] = result.into();
        let change = format!("{name} {}", clean_line(result));
        let answer = Self::text(format!("{change}\n")).with_change(change);
        answer.with_name(name).with_document(document)
    }

    /// A table for people and a List for programs, also of a single entry or of none.
    pub fn list(entries: Vec<Entry>) -> Self {
        let shown: Vec<usize> = (0..entries.len()).collect();
        Self::partial_list(entries, &shown)
    }

    /// The entries of a list at the indexes `shown`, which ascend; in columns as wide as those of
    /// the whole list.
    pub fn partial_list(entries: Vec<Entry>, shown: &[usize]) -> Self {
        let mut rows = Vec::with_capacity(entries.len());
        let mut names = Vec::new();
        let mut documents = Vec::new();
        let mut shown_indexes = shown.iter().peekable();
        for (index, entry) in entries.into_iter().enumerate() {
            rows.push(entry.row);
            if shown_indexes.next_if(|shown_index| **shown_index == index).is_some() {
                names.extend(entry.name);
                documents.push(entry.document);
            }
        }
        let table =
            TablePart { rows, shown: shown.to_vec(), has_headers: true, ..TablePart::default() };
        Self {
            parts: vec![Part::Table(table)],
            names,
            documents,
            shape: Shape::List,
            ..Self::default()
        }
    }

    /// Adds text for people.
    pub fn with_text(mut self, lines: impl Into<String>) -> Self {
        self.parts.push(Part::Text(lines.into()));
        self
    }

    /// Adds a name for `-o name` and `--quiet`.
    pub fn with_name(mut self, name: Name) -> Self {
        self.names.push(name);
        self
    }

    /// Adds names for `-o name` and `--quiet`.
    pub fn with_names(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        self.names.extend(names);
        self
    }

    /// Adds a sentence about what was committed.
    pub fn with_change(mut self, change: impl Into<String>) -> Self {
        self.changes.push(change.into());
        self
    }

    /// Takes the sentences about what was committed.
    pub fn take_changes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.changes)
    }

    /// Adds a document for programs.
    pub fn with_document(mut self, document: Value) -> Self {
        self.documents.push(document);
        self
    }

    /// Sets a field in each of the documents that it has so far.
    pub fn with_field(mut self, name: &str, value: &str) -> Self {
        for document in &mut self.documents {
            document[name] = value.into();
        }
        self
    }

    /// Adds documents for programs, which are a List, however many they are.
    pub fn with_list(mut self, documents: impl IntoIterator<Item = Value>) -> Self {
        self.documents.extend(documents);
        self.shape = Shape::List;
        self
    }

    /// A document that is alone is printed alone, not as a List of one.
    pub fn single(mut self) -> Self {
        self.shape = Shape::Single;
        self
    }

    /// Documents are printed one after another, not as a List: the command does not end by itself,
    /// and more of them may follow.
    pub fn streamed(mut self) -> Self {
        self.shape = Shape::Stream;
        self
    }

    /// Its text is a value that somebody asked for: it is printed as it is, hostile or not.
    pub fn verbatim(mut self) -> Self {
        self.is_verbatim = true;
        self
    }

    /// Leaves out the headers of its tables.
    pub fn without_headers(mut self) -> Self {
        for table in self.tables_mut() {
            table.has_headers = false;
        }
        self
    }

    /// Its tables fit where they are shown, unless wide ones are asked for: what matters least is
    /// left out.
    pub fn fitted(mut self, layout: Layout) -> Self {
        for table in self.tables_mut() {
            table.layout = Some(layout);
        }
        self
    }

    /// Colours the states in its table, whose rows have these tones.
    pub fn with_tones(mut self, tones: &[CellTones]) -> Self {
        for table in self.tables_mut() {
            table.tones = tones.to_vec();
        }
        self
    }

    fn tables_mut(&mut self) -> impl Iterator<Item = &mut TablePart> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Table(table) => Some(table),
            Part::Text(_) => None,
        })
    }

    /// Puts an empty line before it, for people.
    pub fn after_gap(mut self) -> Self {
        self.parts.insert(0, Part::Text("\n".into()));
        self
    }

    /// Adds all of another answer behind this one.
    pub fn append(&mut self, answer: Self) {
        self.parts.extend(answer.parts);
        self.names.extend(answer.names);
        self.documents.extend(answer.documents);
        self.changes.extend(answer.changes);
        self.shape = self.shape.max(answer.shape);
        self.is_verbatim |= answer.is_verbatim;
    }

    /// Whether its text is printed as it is.
    pub fn is_verbatim(&self) -> bool {
        self.is_verbatim
    }

    /// Whether more documents may follow its own.
    pub fn is_stream(&self) -> bool {
        self.shape == Shape::Stream
    }

    /// The answer as text. `quiet` asks for names alone, unless whole documents are asked for.
    pub fn render(self, format: &Format, quiet: bool) -> Result<String, Refusal> {
        if quiet && !format.shows_documents() {
            return Ok(self.name_lines(Name::without_kind));
        }
        match format {
            Format::CustomColumns(columns) => {
                draw_custom_columns(columns, &self.documents, self.has_headers())
            }
            Format::Json | Format::Yaml | Format::JsonPath(_) => self.document_text(format),
            Format::Name => Ok(self.name_lines(Name::to_string)),
            Format::Table | Format::Wide => {
                let is_wide = format.is_wide();
                Ok(self.parts.iter().map(|part| part.text(is_wide)).collect())
            }
        }
    }

    /// Whether none of its tables leaves out its headers.
    fn has_headers(&self) -> bool {
        !self
            .parts
            .iter()
            .any(|part| matches!(part, Part::Table(TablePart { has_headers: false, .. })))
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
    fn text(&self, is_wide: bool) -> String {
        match self {
            Self::Text(lines) => lines.clone(),
            Self::Table(table) => table.text(is_wide),
        }
    }
}

impl TablePart {
    /// Draws all rows, because that is how wide columns are, and keeps the lines of those that are
    /// shown.
    fn text(&self, is_wide: bool) -> String {
        let rows: Cow<'_, [Row]> = match self.layout {
            Some(layout) if !is_wide => Cow::Owned(fit_rows(&self.rows, layout)),
            _ => Cow::Borrowed(&self.rows),
        };
        let plain_table = draw_rows(&rows);
        let table = if self.tones.is_empty() {
            plain_table
        } else {
            paint_lines(&plain_table, &rows, &self.tones)
        };
        let lines: Vec<&str> = table.split_inclusive('\n').collect();
        let header = if self.has_headers && !self.shown.is_empty() { lines.first() } else { None };
        // The first line is the header, and the row of an index is the line after it.
        let row_lines = self.shown.iter().filter_map(|index| lines.get(index + 1));
        header.into_iter().chain(row_lines).copied().collect()
    }
}

/// A single document in a format of whole documents; in the formats of rows or names it is YAML.
pub fn document_text(format: &Format, document: &Value) -> Result<String, Refusal> {
    match format {
        Format::JsonPath(template) => jsonpath::evaluate(template, document),
        Format::CustomColumns(columns) => draw_custom_columns(columns, &items_of(document), true),
        Format::Json => Ok(escape_json(format!("{document:#}\n"))),
        Format::Yaml | Format::Table | Format::Wide | Format::Name => yaml_text(document),
    }
}

fn yaml_text(document: &Value) -> Result<String, Refusal> {
    yaml::to_text(document).map_err(|error| Refusal::invalid(error.to_string()))
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
        check(list().without_headers(), "wide", false, table.split_once('\n').unwrap().1);
        check(list(), "name", false, "clusterpool/lab\nclusterpool/office\n");
        check(list(), "name", true, "lab\noffice\n");
        check(list(), "table", true, "lab\noffice\n");
        check(list(), "jsonpath={.items[1].name}", true, "office");
        check(list(), "jsonpath={.kind}", false, "List");
    }

    #[test]
    fn each_format_shows_the_part_of_an_answer_that_its_declaration_names() {
        for name in Format::names() {
            let argument = match name {
                "custom-columns=" => "custom-columns=IS:.is".to_owned(),
                _ if name.ends_with('=') => format!("{name}{{.is}}"),
                _ => name.to_owned(),
            };
            let format: Format = argument.parse().unwrap();
            let answer = Answer::text("a row\n")
                .with_name(Name::plain("a-name"))
                .with_document(json!({"is": "a document"}));
            let rendered = answer.render(&format, false).unwrap();
            assert_eq!(rendered.contains("a row"), format.shows_rows(), "{name}");
            assert_eq!(rendered.contains("a document"), format.shows_documents(), "{name}");
        }
    }

    #[test]
    fn some_of_a_list_keep_the_width_of_all() {
        let first = || Answer::partial_list(vec![pool("lab", "1"), pool("office", "2")], &[0]);
        check(first(), "table", false, "NAME    SIZE\nlab     1\n");
        check(first().without_headers(), "table", false, "lab     1\n");
        check(first().streamed(), "jsonpath={.name}", false, "lab");
    }

    #[test]
    fn a_fitted_table_is_whole_if_a_wide_one_is_asked_for() {
        let name = "n".repeat(79);
        let answer = || Answer::list(vec![pool(&name, "1")]);
        let mut entry = pool(&name, "1");
        entry.row.push(("age", "3d4h".into()));
        let fitted = || Answer::list(vec![entry.clone()]).fitted(Layout::Terminal(80));
        check(fitted(), "table", false, &answer().render(&Format::Table, false).unwrap());
        assert!(fitted().render(&Format::Wide, false).unwrap().contains("AGE"));
    }

    #[test]
    fn one_change_is_an_object_and_two_are_a_list() {
        let change = || Answer::change(Kind::ClusterPool, &Key::new("default", "lab"), "scaled");
        check(change(), "table", false, "clusterpool/lab scaled\n");
        check(change(), "table", true, "lab\n");
        let path = "jsonpath={.kind} {.namespace} {.name} {.result}";
        check(change(), path, false, "ClusterPool default lab scaled");
        let mut changes = change();
        changes.append(change());
        check(changes, "jsonpath={.items[*].result}", false, "scaled scaled");
        check(Answer::default(), "json", false, "");
        check(Answer::list(Vec::new()), "jsonpath={.kind}", false, "List");
    }
}
