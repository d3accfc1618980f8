//! Reads a query. It evaluates nothing.

use serde_json::{Number, Value};

use super::{Arity, Expression, Function, Operator};

/// How deep parentheses and brackets may be nested.
const MAX_DEPTH: usize = 32;

/// A word or a sign of a query.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A name behind a dot, such as `.cpu`.
    Field(String),
    Word(String),
    Text(String),
    Number(f64),
    Sign(&'static str),
}

/// The signs of the language; of two that begin alike the longer one comes first.
const SIGNS: [&str; 18] =
    ["==", "!=", "<=", ">=", "<", ">", "|", "(", ")", "[", "]", "+", "-", "*", "/", "?", ".", ","];

/// The operators from those that bind least to those that bind most.
const LEVELS: [&[(&str, Operator)]; 5] = [
    &[("or", Operator::Or)],
    &[("and", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide)],
];

/// Reads a query of an AgentClassification. The error says what stands where in the query, for
/// people.
pub fn parse(query: &str) -> Result<Expression, String> {
    let mut parser = Parser { tokens: tokenize(query)?, position: 0, depth: 0 };
    let expression = parser.parse_pipe()?;
    match parser.peek() {
        None => Ok(expression),
        Some(token) => Err(describe_unexpected(token)),
    }
}

fn describe_unexpected(token: &Token) -> String {
    let spelling = match token {
        Token::Field(name) => format!(".{name}"),
        Token::Word(word) => word.clone(),
        Token::Text(text) => format!("\"{text}\""),
        Token::Number(number) => number.to_string(),
        Token::Sign(sign) => (*sign).to_owned(),
    };
    format!("`{spelling}` is not understood there")
}

fn tokenize(query: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = query.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first == '"' {
            read_text(rest)?
        } else if first.is_ascii_digit() {
            read_number(rest)?
        } else if is_name_start(first) {
            let name = read_name(rest);
            (Token::Word(name.to_owned()), name.len())
        } else if first == '.' && rest[1..].starts_with(is_name_start) {
            let name = read_name(&rest[1..]);
            (Token::Field(name.to_owned()), name.len() + 1)
        } else {
            let known_sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
            let sign = known_sign.ok_or_else(|| format!("`{first}` is not understood"))?;
            (Token::Sign(sign), sign.len())
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn is_name_start(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_'
}

fn read_name(text: &str) -> &str {
    let end = text.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    &text[..end.unwrap_or(text.len())]
}

/// A text in quotation marks at the beginning, as JSON has it, and its length there.
fn read_text(text: &str) -> Result<(Token, usize), String> {
    let mut is_escaped = false;
    for (index, letter) in text.char_indices().skip(1) {
        if letter == '"' && !is_escaped {
            let end = index + 1;
            let content: String = serde_json::from_str(&text[..end])
                .map_err(|_| format!("{} is not a text", &text[..end]))?;
            return Ok((Token::Text(content), end));
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    Err("a text is not closed".into())
}

fn read_number(text: &str) -> Result<(Token, usize), String> {
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
    let digits = &text[..end.unwrap_or(text.len())];
    let number = digits.parse().map_err(|_| format!("`{digits}` is not a number"))?;
    Ok((Token::Number(number), digits.len()))
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position)
    }

    fn take_token(&mut self) -> Result<Token, String> {
        let token = self.peek().cloned().ok_or("it ends too early")?;
        self.position += 1;
        Ok(token)
    }

    /// Takes a sign, if it comes next.
    fn take_sign(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Sign(next)) if *next == sign);
        self.position += usize::from(is_next);
        is_next
    }

    fn expect_sign(&mut self, sign: &str) -> Result<(), String> {
        if self.take_sign(sign) {
            return Ok(());
        }
        match self.peek() {
            Some(token) => Err(describe_unexpected(token)),
            None => Err("it ends too early".into()),
        }
    }

    fn parse_pipe(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("it is nested more than {MAX_DEPTH} times"));
        }
        let mut expression = self.parse_level(0)?;
        while self.take_sign("|") {
            let next = self.parse_level(0)?;
            expression = Expression::Pipe(Box::new(expression), Box::new(next));
        }
        self.depth -= 1;
        Ok(expression)
    }

    /// Reads operators of a level and of those that bind more.
    fn parse_level(&mut self, level: usize) -> Result<Expression, String> {
        let Some(operators) = LEVELS.get(level) else { return self.parse_path() };
        let mut expression = self.parse_level(level + 1)?;
        while let Some(operator) = self.take_operator(operators) {
            let right = self.parse_level(level + 1)?;
            expression = Expression::Binary(operator, Box::new(expression), Box::new(right));
        }
        Ok(expression)
    }

    fn take_operator(&mut self, operators: &[(&str, Operator)]) -> Option<Operator> {
        let spelling = match self.peek()? {
            Token::Sign(sign) => *sign,
            Token::Word(word) => word.as_str(),
            _ => return None,
        };
        let (_, operator) = operators.iter().find(|(word, _)| *word == spelling)?;
        let operator = *operator;
        self.position += 1;
        Some(operator)
    }

    /// Reads a value and what follows it without a space of meaning: fields, elements, `?`.
    fn parse_path(&mut self) -> Result<Expression, String> {
        let mut expression = self.parse_start()?;
        loop {
            if let Some(Token::Field(name)) = self.peek() {
                expression = Expression::Field(Box::new(expression), name.clone());
                self.position += 1;
            } else if self.take_sign("[") {
                expression = self.parse_brackets(expression)?;
            } else if self.take_sign("?") {
                expression = Expression::Optional(Box::new(expression));
            } else {
                return Ok(expression);
            }
        }
    }

    /// Reads what is in the brackets behind a value, and the closing one.
    fn parse_brackets(&mut self, value: Expression) -> Result<Expression, String> {
        let value = Box::new(value);
        if self.take_sign("]") {
            return Ok(Expression::Elements(value));
        }
        let is_negative = self.take_sign("-");
        let expression = match self.take_token()? {
            Token::Text(name) if !is_negative => Expression::Field(value, name),
            Token::Number(number) if number.fract() == 0.0 && number < 1e9 => {
                #[expect(clippy::cast_possible_truncation, reason = "a whole number below 1e9")]
                let index = number as i64;
                Expression::Element(value, if is_negative { -index } else { index })
            }
            token => return Err(describe_unexpected(&token)),
        };
        self.expect_sign("]")?;
        Ok(expression)
    }

    /// Reads the beginning of a value.
    fn parse_start(&mut self) -> Result<Expression, String> {
        match self.take_token()? {
            Token::Field(name) => Ok(Expression::Field(Box::new(Expression::Identity), name)),
            Token::Text(text) => Ok(Expression::Literal(Value::String(text))),
            Token::Number(number) => Ok(Expression::Literal(number_value(number))),
            Token::Sign(".") => Ok(Expression::Identity),
            Token::Sign("-") => {
                let zero = Expression::Literal(number_value(0.0));
                let value = self.parse_path()?;
                Ok(Expression::Binary(Operator::Subtract, Box::new(zero), Box::new(value)))
            }
            Token::Sign("(") => {
                let expression = self.parse_pipe()?;
                self.expect_sign(")")?;
                Ok(expression)
            }
            Token::Sign("[") => {
                if self.take_sign("]") {
                    return Ok(Expression::Array(None));
                }
                let expression = self.parse_pipe()?;
                self.expect_sign("]")?;
                Ok(Expression::Array(Some(Box::new(expression))))
            }
            Token::Word(word) => self.parse_word(&word),
            token @ Token::Sign(_) => Err(describe_unexpected(&token)),
        }
    }

    /// Reads what a word begins: a constant, or the call of a function.
    fn parse_word(&mut self, word: &str) -> Result<Expression, String> {
        let constant = match word {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            "null" => Some(Value::Null),
            _ => None,
        };
        if let Some(constant) = constant {
            return Ok(Expression::Literal(constant));
        }
        let mut functions = Function::ALL.into_iter();
        let (_, function, arity) = functions
            .find(|(name, _, _)| *name == word)
            .ok_or_else(|| format!("`{word}` is not understood"))?;
        let argument = if self.take_sign("(") {
            let argument = self.parse_pipe()?;
            self.expect_sign(")")?;
            Some(Box::new(argument))
        } else {
            None
        };
        match (arity, &argument) {
            (Arity::None, Some(_)) => Err(format!("`{word}` takes no argument")),
            (Arity::One, None) => Err(format!("`{word}` needs an argument")),
            _ => Ok(Expression::Call(function, argument)),
        }
    }
}

/// A number as JSON has it: a whole one without a fraction.
pub fn number_value(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}
