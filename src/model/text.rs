//! Characters that move a cursor or turn text around: shown as escapes, never sent.

/// Control and bidirectional characters, newlines and tabs among them.
pub fn hostile(letter: char) -> bool {
    let bidi = matches!(letter, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}');
    letter.is_control() || bidi
}

/// JSON text that means the same with all of them escaped; between values they do not stand.
pub fn safe_json(text: &str) -> String {
    let escape = |letter: char| match letter {
        '\n' => "\n".into(),
        letter if hostile(letter) => format!("\\u{:04x}", u32::from(letter)),
        letter => String::from(letter),
    };
    text.chars().map(escape).collect()
}
