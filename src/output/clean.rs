//! Strings from outside, made harmless for a terminal.

use std::borrow::Cow;

use crate::model::text::hostile;

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

/// The same, but lines stay lines.
pub fn clean_lines(text: &str) -> String {
    let lines =
        text.split('\n').map(|line| line.split('\t').map(clean).collect::<Vec<_>>().join("\t"));
    lines.collect::<Vec<_>>().join("\n")
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
