//! The meaning of a template as a tree: the parser builds it, the evaluator walks it. It holds
//! neither the spelling of a template nor a document.

use serde_json::Value;

/// How deep brackets may be nested, and how deep ranges: the limit protects the stack, because
/// trees are walked by recursion.
pub const DEEPEST_NESTING: usize = 64;

/// A piece of a template.
#[derive(Debug)]
pub enum Piece {
    /// Printed as it is.
    Text(String),
    /// Prints the values that it leads to.
    Path(Path),
    /// Prints its body for each value that the path leads to.
    Range { path: Path, body: Vec<Piece> },
}

/// A way through a document: each segment leads on from all values that the one before has reached.
#[derive(Debug)]
pub struct Path {
    /// Whether it begins at the document (`$`), not at the current value (`@`).
    pub from_root: bool,
    /// Each segment has one selector, or several in a union like `[0,2]`.
    pub segments: Vec<Vec<Selector>>,
}

/// Takes some of the values that a value holds.
#[derive(Debug)]
pub enum Selector {
    /// `.a`
    Field(String),
    /// `['a.b']`: the field of that name if there is one; else the path, for kubectl reads a path
    /// between the quotes.
    Quoted {
        name: String,
        path: Option<Path>,
    },
    /// `[0]`; an index below 0 counts from the end.
    Index(i64),
    Slice(Slice),
    /// `*`
    Children,
    /// `..`
    Descendants,
    /// `[?(@.a==1)]`
    Filter(Filter),
}

/// `[start:end:step]`; a bound below 0 counts from the end.
#[derive(Debug)]
pub struct Slice {
    pub start: Option<i64>,
    pub end: Option<i64>,
    /// At least 1.
    pub step: usize,
}

/// A condition: the children for which it holds are taken.
#[derive(Debug)]
pub enum Filter {
    /// Holds if the path leads to any value, be it null or false.
    Exists(Path),
    Compare {
        left: Operand,
        operator: Operator,
        right: Operand,
    },
}

/// One side of a comparison.
#[derive(Debug)]
pub enum Operand {
    Literal(Value),
    Path(Path),
}

/// How a filter compares its two sides.
#[derive(Clone, Copy, Debug)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
