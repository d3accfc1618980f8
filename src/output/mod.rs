//! Shows: pure functions from rows and documents to text, in every format that `-o` knows. Never
//! prints, and never reads the state.

mod answer;
mod clean;
mod columns;
mod difference;
mod jsonpath;
mod progress;
mod table;
mod unified;

pub use answer::{Answer, Entry, Name, document_text};
pub use clean::{clean_line, clean_lines};
pub use columns::{QueuePosition, Row, RowContext, event_row, job_row, object_row};
pub use difference::{DifferenceLine, difference_lines};
pub use jsonpath::{print_value, select_values};
pub use progress::Progress;
pub use table::{draw_rows, draw_table};
pub use unified::unified_diff;

/// The format of an answer, as `-o` asks for it.
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

/// The formats that are asked for by a word alone.
const WORDS: [(&str, Format); 5] = [
    ("table", Format::Table),
    ("wide", Format::Wide),
    ("json", Format::Json),
    ("yaml", Format::Yaml),
    ("name", Format::Name),
];
/// What stands before the template of the only other format.
const JSONPATH: &str = "jsonpath=";

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(argument: &str) -> Result<Self, String> {
        if let Some(template) = argument.strip_prefix(JSONPATH) {
            return Ok(Self::JsonPath(template.to_owned()));
        }
        for (word, format) in WORDS {
            if word == argument {
                return Ok(format);
            }
        }
        Err(format!("it is none of {}...", Self::names().join(", ")))
    }
}

impl Format {
    /// All formats, as they are typed; a template is to follow the last one.
    pub fn names() -> Vec<&'static str> {
        WORDS.into_iter().map(|(word, _)| word).chain([JSONPATH]).collect()
    }

    /// What `--help` says of `-o`.
    pub fn help() -> String {
        let words = WORDS.map(|(word, _)| word).join(", ");
        format!("{words} or {JSONPATH}TEMPLATE")
    }

    /// Whether whole documents are shown, for programs, instead of columns.
    pub fn shows_documents(&self) -> bool {
        matches!(self, Self::Json | Self::Yaml | Self::JsonPath(_))
    }

    /// Whether tables have the columns that do not fit a terminal of 80 letters.
    pub fn is_wide(&self) -> bool {
        *self == Self::Wide
    }

    /// Whether people read it: then it has lines of text and tables.
    pub fn is_for_people(&self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// One text of all lines, each ended by a line feed.
pub fn join_lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}
