//! Shows: pure functions from rows and documents to text, in every format that `-o` knows. Never
//! prints, and never reads the state.

mod answer;
mod clean;
mod columns;
mod custom_columns;
mod description;
mod difference;
mod fit;
mod jsonpath;
mod list;
mod progress;
mod style;
mod table;
mod tone;
mod unified;
mod wrap;

pub use answer::{Answer, Entry, Name, document_text};
pub use clean::{clean_line, clean_lines};
pub use columns::{Row, RowContext, event_row, job_row, object_row, state_words};
pub use description::Description;
pub use difference::{DifferenceLine, difference_lines};
pub use fit::{Layout, fitting_columns};
pub use jsonpath::{print_value, select_values};
pub use list::{ListText, PORTION};
pub use progress::{Progress, ProgressWords};
pub use style::{Colors, Letters, Style, Tone};
pub use table::{draw_rows, draw_table};
pub use tone::{CellTones, event_tones, job_tones, state_tones};
pub use unified::unified_diff;
pub use wrap::{WIDTH, break_text, shorten, wrap_line};

/// Declares the formats of `-o`: those that are asked for by a word alone, and those that a template
/// follows. In braces are the traits of each.
macro_rules! formats {
    (
        words: { $(
            $(#[$word_attribute:meta])*
            $Word:ident = $word:literal { $($word_trait:tt)* }
        )* }
        templates: { $(
            $(#[$template_attribute:meta])*
            $Template:ident = $prefix:literal { $($template_trait:tt)* }
        )* }
    ) => {
        /// The format of an answer, as `-o` asks for it.
        #[derive(Clone, Debug, PartialEq, Eq, Default)]
        pub enum Format {
            $( $(#[$word_attribute])* $Word, )*
            $( $(#[$template_attribute])* $Template(String), )*
        }

        /// The formats that are asked for by a word alone.
        const WORDS: &[&str] = &[$($word),*];
        /// What stands before the template of each other format.
        const TEMPLATE_PREFIXES: &[&str] = &[$($prefix),*];

        impl Format {
            fn traits(&self) -> FormatTraits {
                match self {
                    $(Self::$Word => FormatTraits { $($word_trait)* },)*
                    $(Self::$Template(_) => FormatTraits { $($template_trait)* },)*
                }
            }
        }

        impl std::str::FromStr for Format {
            type Err = String;

            fn from_str(argument: &str) -> Result<Self, String> {
                $(if argument == $word {
                    return Ok(Self::$Word);
                })*
                $(if let Some(template) = argument.strip_prefix($prefix) {
                    return Ok(Self::$Template(template.to_owned()));
                })*
                Err(format!("it is none of {}...", Self::names().join(", ")))
            }
        }
    };
}

formats! {
    words: {
        /// Tables that fit a terminal of 80 letters, and lines of text.
        #[default]
        Table = "table" { content: Content::Rows, is_wide: false, is_for_people: true }
        /// The same with all columns.
        Wide = "wide" { content: Content::Rows, is_wide: true, is_for_people: true }
        Json = "json" { content: Content::Documents, is_wide: false, is_for_people: false }
        Yaml = "yaml" { content: Content::Documents, is_wide: false, is_for_people: false }
        /// The names of objects with their kinds, a line each.
        Name = "name" { content: Content::Names, is_wide: false, is_for_people: false }
    }
    templates: {
        /// What a template of JSONPath selects.
        JsonPath = "jsonpath=" {
            content: Content::Documents, is_wide: false, is_for_people: false
        }
        /// A table of what paths select: `HEADER:PATH`, separated by commas.
        CustomColumns = "custom-columns=" {
            content: Content::Documents, is_wide: false, is_for_people: false
        }
    }
}

/// What has to be known of a format before it is written.
#[derive(Clone, Copy, Debug)]
struct FormatTraits {
    content: Content,
    /// Whether tables have the columns that do not fit a terminal of 80 letters.
    is_wide: bool,
    /// Whether people read it, so that colours and hints help.
    is_for_people: bool,
}

/// The part of an answer that a format shows. The other parts need not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Rows of tables, and lines of text.
    Rows,
    /// Whole documents.
    Documents,
    /// Names alone.
    Names,
}

impl Format {
    /// All formats, as they are typed; a template is to follow those that end with `=`.
    pub fn names() -> Vec<&'static str> {
        [WORDS, TEMPLATE_PREFIXES].concat()
    }

    /// What `--help` says of `-o`.
    pub fn help() -> String {
        format!("{}, or a template", WORDS.join(", "))
    }

    /// Whether rows and lines of text are shown.
    pub fn shows_rows(&self) -> bool {
        self.traits().content == Content::Rows
    }

    /// Whether whole documents are shown, for programs, instead of columns.
    pub fn shows_documents(&self) -> bool {
        self.traits().content == Content::Documents
    }

    /// Whether tables have the columns that do not fit a terminal of 80 letters.
    pub fn is_wide(&self) -> bool {
        self.traits().is_wide
    }

    /// Whether people read it, so that colours and hints help.
    pub fn is_for_people(&self) -> bool {
        self.traits().is_for_people
    }
}

/// One text of all lines, each ended by a line feed.
pub fn join_lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}
