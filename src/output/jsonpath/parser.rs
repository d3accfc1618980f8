//! Builds the tree of a template from its tokens. It refuses templates that mean nothing, and never
//! sees a document.

use std::iter::Peekable;
use std::vec::IntoIter;

use serde_json::Value;

use super::lexer::{Token, TokenKind, read_tokens};
use super::tree::{DEEPEST_NESTING, Filter, Operand, Operator, Path, Piece, Selector, Slice};

/// An action: what stands between two braces.
enum Action {
    Print(Piece),
    /// `range`: begins a loop.
    Range(Path),
    /// `end`: ends the innermost loop.
    End,
}

struct Parser<'a> {
    /// The tokens that are not read yet.
    tokens: Peekable<IntoIter<Token<'a>>>,
}

/// Parses text with actions in braces. The error is the cause of a refusal, in words.
pub fn parse_template(template: &str) -> Result<Vec<Piece>, String> {
    Parser { tokens: read_tokens(template)?.into_iter().peekable() }.parse_pieces()
}

/// Parses a path alone, without braces. The error is the cause of a refusal, in words.
pub fn parse_path(path: &str) -> Result<Path, String> {
    match <[Piece; 1]>::try_from(parse_template(&format!("{{{path}}}"))?) {
        Ok([Piece::Path(path)]) => Ok(path),
        _ => Err("it is not a single path".to_owned()),
    }
}

impl<'a> Parser<'a> {
    /// Parses the whole template. Ranges are kept on a stack of their own, so that a template
    /// cannot exhaust that of the program.
    fn parse_pieces(&mut self) -> Result<Vec<Piece>, String> {
        let mut pieces = Vec::new();
        // Ranges without their `end` yet, outermost first, each with the pieces before it.
        let mut open_ranges: Vec<(Path, Vec<Piece>)> = Vec::new();
        while let Some(token) = self.tokens.next() {
            if token.kind == TokenKind::Text {
                pieces.push(Piece::Text(token.raw.to_owned()));
                continue;
            }
            // Outside braces there is nothing but text, so this token has opened an action.
            match self.parse_action()? {
                Action::Print(piece) => pieces.push(piece),
                Action::Range(_) if open_ranges.len() == DEEPEST_NESTING => {
                    return Err(format!("ranges are nested deeper than {DEEPEST_NESTING} levels"));
                }
                Action::Range(path) => open_ranges.push((path, std::mem::take(&mut pieces))),
                Action::End => {
                    let (path, outer_pieces) = open_ranges.pop().ok_or("`end` without `range`")?;
                    let body = std::mem::replace(&mut pieces, outer_pieces);
                    pieces.push(Piece::Range { path, body });
                }
            }
        }
        if open_ranges.is_empty() { Ok(pieces) } else { Err("`range` without `end`".into()) }
    }

    /// Parses what is between braces, the closing one included: a text in quotes, `range PATH`,
    /// `end`, or a path.
    fn parse_action(&mut self) -> Result<Action, String> {
        let action = if let Some(token) = self.take(TokenKind::Quoted) {
            Action::Print(Piece::Text(unquote(token.raw)?))
        } else if self.take_word("range") {
            Action::Range(self.parse_path()?)
        } else if self.take_word("end") {
            Action::End
        } else {
            Action::Print(Piece::Path(self.parse_path()?))
        };
        self.expect_close(TokenKind::CloseBrace, "{")?;
        Ok(action)
    }

    /// Parses a path from its optional `$` or `@` up to the first token that does not belong to it.
    /// Each segment is a union of selectors, mostly of one.
    fn parse_path(&mut self) -> Result<Path, String> {
        let from_root = self.take(TokenKind::Root).is_some();
        if !from_root {
            self.take(TokenKind::Current);
        }
        // The dot before the first name may be left out.
        let mut segments: Vec<Vec<Selector>> =
            self.parse_name().into_iter().map(|name| vec![name]).collect();
        loop {
            if self.take(TokenKind::OpenBracket).is_some() {
                segments.push(self.parse_subscript()?);
                continue;
            }
            if self.take(TokenKind::Descent).is_some() {
                if matches!(segments.last().map(Vec::as_slice), Some([Selector::Descendants])) {
                    return Err("`..` follows `..`".to_owned());
                }
                segments.push(vec![Selector::Descendants]);
            } else if self.take(TokenKind::Dot).is_none() {
                return Ok(Path { from_root, segments });
            }
            // A dot without a name leads nowhere: `{.}` is the current object.
            segments.extend(self.parse_name().map(|name| vec![name]));
        }
    }

    /// Parses the name of a field, or `*`. None if the next token is neither, and nothing is taken.
    fn parse_name(&mut self) -> Option<Selector> {
        if self.take(TokenKind::Wildcard).is_some() {
            return Some(Selector::Children);
        }
        self.take(TokenKind::Word).map(|token| Selector::Field(unescape_name(token.raw)))
    }

    /// What is between brackets, the closing one included: a filter, or a union.
    fn parse_subscript(&mut self) -> Result<Vec<Selector>, String> {
        let mut selectors = Vec::new();
        if self.take(TokenKind::OpenFilter).is_some() {
            selectors.push(Selector::Filter(self.parse_filter()?));
            self.expect_close(TokenKind::CloseFilter, "(")?;
        } else {
            selectors.push(self.parse_union_part()?);
            while self.take(TokenKind::Comma).is_some() {
                selectors.push(self.parse_union_part()?);
            }
        }
        self.expect_close(TokenKind::CloseBracket, "[")?;
        Ok(selectors)
    }

    /// Parses one part of a union: a name in quotes, `*`, an index, or a slice.
    fn parse_union_part(&mut self) -> Result<Selector, String> {
        if let Some(token) = self.take(TokenKind::Quoted) {
            return Ok(read_quoted_name(token.raw));
        }
        if self.take(TokenKind::Wildcard).is_some() {
            return Ok(Selector::Children);
        }
        let start = self.parse_index()?;
        if self.take(TokenKind::Colon).is_some() {
            return self.parse_slice(start);
        }
        if let Some(index) = start {
            return Ok(Selector::Index(index));
        }
        Err(match self.take(TokenKind::Word) {
            Some(token) => format!("`{}` is not an index", token.raw),
            None => "an index is missing".to_owned(),
        })
    }

    /// What follows the first colon.
    fn parse_slice(&mut self, start: Option<i64>) -> Result<Selector, String> {
        let end = self.parse_index()?;
        let mut step = 1;
        if self.take(TokenKind::Colon).is_some() {
            step = self.parse_index()?.unwrap_or(1);
        }
        match usize::try_from(step) {
            Ok(step) if step > 0 => Ok(Selector::Slice(Slice { start, end, step })),
            _ => Err(format!("the step {step} is not a positive number")),
        }
    }

    /// Parses an index, which may be negative. None if no number follows, as at an end of a slice.
    fn parse_index(&mut self) -> Result<Option<i64>, String> {
        let Some(token) = self.take(TokenKind::Number) else { return Ok(None) };
        token.raw.parse().map(Some).map_err(|_| format!("`{}` is not an index", token.raw))
    }

    /// Parses a filter: a path that must lead somewhere, or a comparison of two operands.
    fn parse_filter(&mut self) -> Result<Filter, String> {
        let left = self.parse_operand()?;
        let Some(token) = self.take(TokenKind::Operator) else {
            return match left {
                Operand::Path(path) => Ok(Filter::Exists(path)),
                Operand::Literal(_) => Err("a filter without a path is not understood".to_owned()),
            };
        };
        let operator = read_operator(token.raw)?;
        let right = self.parse_operand()?;
        if let Some(second_operator) = self.take(TokenKind::Operator) {
            // An operator that filters do not have is the better cause.
            read_operator(second_operator.raw)?;
            return Err("a filter compares two values, not more".to_owned());
        }
        Ok(Filter::Compare { left, operator, right })
    }

    /// Parses a path, or a literal as JSON spells it.
    fn parse_operand(&mut self) -> Result<Operand, String> {
        let Some(token) = self.tokens.peek().copied() else {
            return Err("a value is missing".to_owned());
        };
        let literal = match token.kind {
            TokenKind::Root
            | TokenKind::Current
            | TokenKind::Dot
            | TokenKind::Descent
            | TokenKind::OpenBracket => return self.parse_path().map(Operand::Path),
            TokenKind::Quoted => Value::String(unquote(token.raw)?),
            // Numbers, `true`, `false` and `null` are spelled as in JSON, which has no `+`.
            _ => serde_json::from_str(token.raw.trim_start_matches('+'))
                .map_err(|_| format!("`{}` is not a value", token.raw))?,
        };
        self.tokens.next();
        Ok(Operand::Literal(literal))
    }

    /// Takes the next token if it is of this kind.
    fn take(&mut self, kind: TokenKind) -> Option<Token<'a>> {
        self.tokens.next_if(|token| token.kind == kind)
    }

    /// Takes the next token if it is this word; says whether it was.
    fn take_word(&mut self, word: &str) -> bool {
        self.tokens.next_if(|token| token.kind == TokenKind::Word && token.raw == word).is_some()
    }

    /// Takes the sign that closes what `opening` has opened.
    fn expect_close(&mut self, closing: TokenKind, opening: &str) -> Result<(), String> {
        match self.tokens.next() {
            Some(token) if token.kind == closing => Ok(()),
            // A brace closes the action, whatever is still open in it.
            Some(token) if token.kind != TokenKind::CloseBrace => {
                Err(format!("`{}` is not understood", token.raw))
            }
            _ => Err(format!("a `{opening}` is not closed")),
        }
    }
}

fn read_operator(raw: &str) -> Result<Operator, String> {
    Ok(match raw {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        unknown => return Err(format!("filters do not support `{unknown}`")),
    })
}

/// The field, or the path, whose name is a quoted token.
fn read_quoted_name(raw: &str) -> Selector {
    let unquoted = &raw[1..raw.len() - 1];
    // Whatever is between the quotes may be the name of a field, also if it is no path.
    Selector::Quoted { name: unescape_name(unquoted), path: parse_path(unquoted).ok() }
}

/// A name without its backslashes: the letter after each stands for itself.
fn unescape_name(raw: &str) -> String {
    let mut name = String::new();
    let mut letters = raw.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            name.extend(letters.next());
        } else {
            name.push(letter);
        }
    }
    name
}

/// The string that a quoted token stands for, without its quotes and escapes.
fn unquote(raw: &str) -> Result<String, String> {
    let mut string = String::new();
    let mut letters = raw[1..raw.len() - 1].chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            string.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => string.push('\n'),
            Some('t') => string.push('\t'),
            Some('r') => string.push('\r'),
            Some(letter @ ('\\' | '"' | '\'')) => string.push(letter),
            _ => {
                return Err(format!(
                    "{raw} has a backslash that is not before n, t, r, \\, \" or '"
                ));
            }
        }
    }
    Ok(string)
}
