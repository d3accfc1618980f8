//! Text: characters that move the cursor of a terminal or change the direction of text, which are
//! shown as escapes and never sent to a terminal; and the order of names with numbers.

/// Whether a character is a control character or one that changes the direction of text. Newlines
/// and tabs count.
pub fn is_hostile(letter: char) -> bool {
    let is_bidirectional = matches!(letter, '\u{061c}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    letter.is_control() || is_bidirectional
}

/// A word as a shell reads it: in quotes if it has letters that mean something else without.
pub fn quote_word(word: &str) -> String {
    let mut letters = word.chars();
    let is_safe = letters.all(|letter| letter.is_alphanumeric() || "/._-+:@=,%".contains(letter));
    if is_safe && !word.is_empty() {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A part of a name by which names are sorted: numbers by their value, and before letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamePart<'a> {
    /// Digits without leading zeros. More of them are a larger number.
    Number {
        digit_count: usize,
        digits: &'a str,
    },
    Letters(&'a str),
}

/// The numbers of a name and what is between them, in order.
pub fn parts_of_name(name: &str) -> Vec<NamePart<'_>> {
    let mut parts = Vec::new();
    let mut remainder = name;
    while let Some(first) = remainder.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = remainder.find(|letter: char| letter.is_ascii_digit() != is_number);
        let (part, rest) = remainder.split_at(end.unwrap_or(remainder.len()));
        let digits = part.trim_start_matches('0');
        parts.push(if is_number {
            NamePart::Number { digit_count: digits.len(), digits }
        } else {
            NamePart::Letters(part)
        });
        remainder = rest;
    }
    parts
}

/// Escapes these characters in JSON text, which then still means the same: outside of strings only
/// newlines occur, and these stay. Most texts have none of them and are given back as they are.
pub fn escape_json(json: String) -> String {
    if !has_hostile_letters(&json) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + json.len() / 8);
    for letter in json.chars() {
        if is_escaped(letter) {
            escaped.extend(format!("\\u{:04x}", u32::from(letter)).chars());
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Whether a text of several lines has any of these characters beside its newlines.
pub fn has_hostile_letters(text: &str) -> bool {
    // Texts are long and nearly always plain ASCII.
    !text.bytes().all(is_plain) && text.chars().any(is_escaped)
}

/// Whether a byte of a text is a printable ASCII character or a newline.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\n' | b' '..=b'~')
}

fn is_escaped(letter: char) -> bool {
    letter != '\n' && is_hostile(letter)
}
