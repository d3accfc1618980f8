//! Strings from outside, made harmless for a terminal.

use std::borrow::Cow;

/// Control and bidirectional characters are shown as escapes, never sent.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(hostile) {
        return text.into();
    }
    let escape = |letter: char| {
        let escaped =
            if hostile(letter) { letter.escape_default().to_string() } else { letter.into() };
        escaped.chars().collect::<Vec<_>>()
    };
    text.chars().flat_map(escape).collect::<String>().into()
}

fn hostile(letter: char) -> bool {
    let bidi = matches!(letter, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}');
    letter.is_control() || bidi
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_moves_the_cursor() {
        let shown = super::clean("a\u{1b}[31mb\nc\u{202e}d\u{7}");
        assert_eq!(shown, "a\\u{1b}[31mb\\nc\\u{202e}d\\u{7}");
        assert_eq!(super::clean("ünïcode ✓"), "ünïcode ✓");
    }
}
