//! Shows: pure functions from rows and documents to text. Never reads the state.

mod answer;
mod clean;
mod columns;
mod difference;
mod jsonpath;
mod progress;
mod table;
mod unified;

pub use answer::{Answer, Entry, Name, document_text};
pub use clean::{clean, clean_lines};
pub use columns::{Place, Row, View, event_row, job_row, row};
pub use difference::{DifferenceLine, difference_lines};
pub use jsonpath::{find, shown};
pub use progress::Progress;
pub use table::{render, table};
pub use unified::unified;

/// What `-o` asks for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    JsonPath(String),
}

/// The formats that are a word.
const WORDS: [(&str, Format); 5] = [
    ("table", Format::Table),
    ("wide", Format::Wide),
    ("json", Format::Json),
    ("yaml", Format::Yaml),
    ("name", Format::Name),
];
/// Before a template.
const JSONPATH: &str = "jsonpath=";

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(template) = text.strip_prefix(JSONPATH) {
            return Ok(Self::JsonPath(template.to_owned()));
        }
        let known = WORDS.into_iter().find(|(word, _)| *word == text);
        known
            .map(|(_, format)| format)
            .ok_or_else(|| format!("it is none of {}...", Self::names().join(", ")))
    }
}

impl Format {
    /// All formats, as they are typed.
    pub fn names() -> Vec<&'static str> {
        WORDS.into_iter().map(|(word, _)| word).chain([JSONPATH]).collect()
    }

    /// What `--help` says of `-o`.
    pub fn help() -> String {
        let words = WORDS.map(|(word, _)| word).join(", ");
        format!("{words} or {JSONPATH}TEMPLATE")
    }

    /// Whether whole documents are shown, not columns.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Json | Self::Yaml | Self::JsonPath(_))
    }

    /// Whether tables have all columns.
    pub fn is_wide(&self) -> bool {
        *self == Self::Wide
    }

    /// Whether people read it: it has lines and tables.
    pub fn is_for_people(&self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// Lines, each with its end.
pub fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}
