//! Shows: pure functions from rows and documents to text. Never reads the state.

mod clean;
mod columns;
mod difference;
mod jsonpath;
mod progress;
mod table;
mod unified;

pub use clean::{clean, clean_lines};
pub use columns::{Place, Row, View, event_row, job_row, row};
pub use difference::lines;
pub use jsonpath::{find, shown};
pub use progress::Progress;
pub use table::{render, table};
pub use unified::unified;

use serde_json::{Value, json};

use crate::model::refusal::Refusal;
use crate::model::text::safe_json;
use crate::yaml;

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

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "table" => Self::Table,
            "wide" => Self::Wide,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "name" => Self::Name,
            other => match other.strip_prefix("jsonpath=") {
                Some(path) => Self::JsonPath(path.to_owned()),
                None => {
                    return Err("it is none of table, wide, json, yaml, name, jsonpath=...".into());
                }
            },
        })
    }
}

impl Format {
    /// Whether whole documents are shown, not columns.
    pub fn whole(&self) -> bool {
        matches!(self, Self::Json | Self::Yaml | Self::JsonPath(_))
    }
}

/// Documents in one of the whole formats: one as it is, several as a List.
pub fn documents(format: &Format, mut all: Vec<Value>, single: bool) -> Result<String, Refusal> {
    let document = if single && all.len() == 1 {
        all.remove(0)
    } else {
        json!({"apiVersion": "v1", "kind": "List", "items": all})
    };
    document_text(format, &document)
}

/// Lines, each with its end.
pub fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// One document in one of the whole formats.
pub fn document_text(format: &Format, document: &Value) -> Result<String, Refusal> {
    match format {
        Format::JsonPath(template) => jsonpath::evaluate(template, document),
        Format::Yaml => yaml::text(document).map_err(|wrong| Refusal::invalid(wrong.to_string())),
        _ => Ok(safe_json(&format!("{document:#}\n"))),
    }
}
