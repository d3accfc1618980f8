//! What a template means, as a tree: the parser builds it, the evaluator walks it. It holds no
//! spelling and no document.

use serde_json::Value;

/// How deep brackets, and how deep ranges, may be nested: a tree is walked by recursion.
pub const DEEPEST_NESTING: usize = 64;

/// A piece of a template.
#[derive(Debug)]
pub enum Piece {
    Text(String),
    Path(Path),
    Range { path: Path, body: Vec<Piece> },
}

/// A way through a document: each segment leads on from all that the one before has reached.
#[derive(Debug)]
pub struct Path {
    /// `$`: from the document, not from the current object.
    pub from_root: bool,
    /// A segment has several selectors in a union; else one.
    pub segments: Vec<Vec<Selector>>,
}

/// What of a value is taken.
#[derive(Debug)]
pub enum Selector {
    Field(String),
    /// `['a.b']`: the field of that name; kubectl reads a path between the quotes.
    Quoted {
        name: String,
        path: Option<Path>,
    },
    Index(i64),
    Slice(Slice),
    /// `*`
    Children,
    /// `..`
    Descendants,
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

/// Which children are taken.
#[derive(Debug)]
pub enum Filter {
    Exists(Path),
    Compare { left: Operand, operator: Operator, right: Operand },
}

#[derive(Debug)]
pub enum Operand {
    Literal(Value),
    Path(Path),
}

#[derive(Clone, Copy, Debug)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
