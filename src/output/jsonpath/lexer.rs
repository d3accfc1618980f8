//! Cuts a template into tokens. It knows where each token ends; what tokens mean together is for
//! the parser.

use super::tree::DEEPEST_NESTING;

/// The letters that operators are made of.
const OPERATOR_SIGNS: &str = "=!<>~&|";

/// The smallest part of a template that means something.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub kind: TokenKind,
    /// As it is spelled in the template, with quotes and escapes.
    pub raw: &'a str,
}

/// The tokens of kubectl's JSONPath: texts outside of braces, and the parts of expressions in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Everything outside of braces, up to the next one.
    Text,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    /// `?(`
    OpenFilter,
    /// `)`
    CloseFilter,
    Dot,
    /// `..`
    Descent,
    /// `*`
    Wildcard,
    /// `$`
    Root,
    /// `@`
    Current,
    Comma,
    Colon,
    /// All operator signs that stand together, also those that make no operator.
    Operator,
    /// A string, with its quotes.
    Quoted,
    /// Everything that begins like a number, also if it is none: `1x`.
    Number,
    /// The name of a field, a keyword, or a value.
    Word,
}

/// The brackets that the next token is directly inside of: they decide what ends a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enclosure {
    Brace,
    Bracket,
    Filter,
}

struct Lexer<'a> {
    /// What is not read yet.
    rest: &'a str,
    /// Outermost first; none outside of braces.
    enclosures: Vec<Enclosure>,
    tokens: Vec<Token<'a>>,
}

/// The tokens of a template. Every action in it is closed: for each `{` there is a `}`.
pub fn read_tokens(template: &str) -> Result<Vec<Token<'_>>, String> {
    let mut lexer = Lexer { rest: template, enclosures: Vec::new(), tokens: Vec::new() };
    while !lexer.rest.is_empty() {
        match lexer.enclosures.last().copied() {
            None => lexer.read_text(),
            Some(enclosure) => lexer.read_token(enclosure)?,
        }
    }
    if lexer.enclosures.is_empty() { Ok(lexer.tokens) } else { Err("a `{` is not closed".into()) }
}

impl Lexer<'_> {
    /// Reads up to the next brace, and that brace.
    fn read_text(&mut self) {
        let end = self.rest.find('{').unwrap_or(self.rest.len());
        if end > 0 {
            self.take(TokenKind::Text, end);
        }
        if !self.rest.is_empty() {
            self.take(TokenKind::OpenBrace, 1);
            self.enclosures.push(Enclosure::Brace);
        }
    }

    /// Reads one token inside braces. What a letter means depends on what it is enclosed in: `:` is
    /// a sign only between brackets, and comparisons only in filters.
    fn read_token(&mut self, enclosure: Enclosure) -> Result<(), String> {
        self.rest = self.rest.trim_start();
        let Some(letter) = self.rest.chars().next() else { return Ok(()) };
        match letter {
            // Whether the brackets inside were closed is for the parser to say.
            '}' => {
                self.take(TokenKind::CloseBrace, 1);
                self.enclosures.clear();
            }
            '[' => {
                self.take(TokenKind::OpenBracket, 1);
                self.enter(Enclosure::Bracket)?;
            }
            '?' if self.rest.starts_with("?(") => {
                self.take(TokenKind::OpenFilter, 2);
                self.enter(Enclosure::Filter)?;
            }
            ']' => {
                self.take(TokenKind::CloseBracket, 1);
                self.leave(Enclosure::Bracket);
            }
            ')' if enclosure == Enclosure::Filter => {
                self.take(TokenKind::CloseFilter, 1);
                self.leave(Enclosure::Filter);
            }
            '.' if self.rest.starts_with("..") => self.take(TokenKind::Descent, 2),
            '.' => self.take(TokenKind::Dot, 1),
            '$' => self.take(TokenKind::Root, 1),
            '@' => self.take(TokenKind::Current, 1),
            ',' => self.take(TokenKind::Comma, 1),
            ':' if enclosure == Enclosure::Bracket => self.take(TokenKind::Colon, 1),
            '"' | '\'' => self.take(TokenKind::Quoted, quoted_length(self.rest, letter)?),
            _ if enclosure == Enclosure::Filter && OPERATOR_SIGNS.contains(letter) => {
                let end = self.rest.find(|letter: char| !OPERATOR_SIGNS.contains(letter));
                self.take(TokenKind::Operator, end.unwrap_or(self.rest.len()));
            }
            _ if enclosure != Enclosure::Brace && self.number_begins(letter) => {
                let end = self.rest.find(|letter: char| !is_part_of_number(letter));
                self.take(TokenKind::Number, end.unwrap_or(self.rest.len()));
            }
            _ => self.read_word(enclosure)?,
        }
        Ok(())
    }

    /// Reads a name or a `*`. The error names the text that no token begins with.
    fn read_word(&mut self, enclosure: Enclosure) -> Result<(), String> {
        match word_length(self.rest, enclosure) {
            0 => Err(format!("`{}` is not understood", self.rest)),
            1 if self.rest.starts_with('*') => {
                self.take(TokenKind::Wildcard, 1);
                Ok(())
            }
            length => {
                self.take(TokenKind::Word, length);
                Ok(())
            }
        }
    }

    /// Makes a token of the next `length` bytes, which must end at the end of a letter.
    fn take(&mut self, kind: TokenKind, length: usize) {
        let (raw, rest) = self.rest.split_at(length);
        self.tokens.push(Token { kind, raw });
        self.rest = rest;
    }

    /// Opens a bracket or a filter. Refused deeper than `DEEPEST_NESTING`, which bounds the
    /// recursion of the parser.
    fn enter(&mut self, enclosure: Enclosure) -> Result<(), String> {
        self.enclosures.push(enclosure);
        if self.enclosures.len() > DEEPEST_NESTING {
            return Err(format!("brackets are nested deeper than {DEEPEST_NESTING} levels"));
        }
        Ok(())
    }

    /// A closing sign that closes something else changes nothing: the parser refuses it.
    fn leave(&mut self, enclosure: Enclosure) {
        if self.enclosures.last() == Some(&enclosure) {
            self.enclosures.pop();
        }
    }

    /// Whether a number begins here. After a dot, digits are the name of a field.
    fn number_begins(&self, letter: char) -> bool {
        let follows_dot = self
            .tokens
            .last()
            .is_some_and(|token| matches!(token.kind, TokenKind::Dot | TokenKind::Descent));
        !follows_dot && (letter.is_ascii_digit() || matches!(letter, '-' | '+'))
    }
}

fn is_part_of_number(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '+')
}

/// How many bytes the quoted string has that `rest` begins with, both quotes included.
fn quoted_length(rest: &str, quote: char) -> Result<usize, String> {
    let mut is_escaped = false;
    for (index, letter) in rest.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if letter == '\\' {
            is_escaped = true;
        } else if letter == quote {
            return Ok(index + 1);
        }
    }
    Err(format!("a `{quote}` is not closed"))
}

/// How many bytes the word has that `rest` begins with; a letter after a backslash does not end it.
fn word_length(rest: &str, enclosure: Enclosure) -> usize {
    let mut is_escaped = false;
    for (index, letter) in rest.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if letter == '\\' {
            is_escaped = true;
        } else if ends_word(letter, enclosure) {
            return index;
        }
    }
    rest.len()
}

fn ends_word(letter: char, enclosure: Enclosure) -> bool {
    let ends_everywhere = letter.is_whitespace() || ".,[]$@{}".contains(letter);
    match enclosure {
        Enclosure::Brace => ends_everywhere,
        Enclosure::Bracket => ends_everywhere || ":\"'".contains(letter),
        Enclosure::Filter => {
            ends_everywhere || "()\"'".contains(letter) || OPERATOR_SIGNS.contains(letter)
        }
    }
}
