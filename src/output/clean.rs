//! Makes strings that come from outside harmless for a terminal. It loses nothing: what is hidden
//! from the terminal is shown as an escape.

use std::borrow::Cow;

use crate::model::text::is_hostile;

/// One line of text, in which control and bidirectional characters are escapes; line feeds and tabs
/// are such characters, too.
pub fn clean_line(line: &str) -> Cow<'_, str> {
    if !line.chars().any(is_hostile) {
        return line.into();
    }
    let mut cleaned = String::new();
    for letter in line.chars() {
        push_harmless(letter, &mut cleaned);
    }
    cleaned.into()
}

/// Several lines of text, cleaned in the same way but for line feeds and tabs, which stay.
pub fn clean_lines(lines: &str) -> String {
    let mut cleaned = String::new();
    for letter in lines.chars() {
        if matches!(letter, '\n' | '\t') {
            cleaned.push(letter);
        } else {
            push_harmless(letter, &mut cleaned);
        }
    }
    cleaned
}

fn push_harmless(letter: char, cleaned: &mut String) {
    if is_hostile(letter) {
        cleaned.extend(letter.escape_default());
    } else {
        cleaned.push(letter);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_moves_the_cursor() {
        let cleaned = super::clean_line("a\u{1b}[31mb\nc\u{202e}d\u{7}");
        assert_eq!(cleaned, "a\\u{1b}[31mb\\nc\\u{202e}d\\u{7}");
        assert_eq!(super::clean_line("ünïcode ✓"), "ünïcode ✓");
    }
}
