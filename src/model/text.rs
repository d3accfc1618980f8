//! Characters that move the cursor of a terminal or change the direction of text. They are shown as
//! escapes and never sent to a terminal.

/// Whether a character is a control character or one that changes the direction of text. Newlines
/// and tabs count.
pub fn is_hostile(letter: char) -> bool {
    let is_bidirectional = matches!(letter, '\u{061c}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    letter.is_control() || is_bidirectional
}

/// Escapes these characters in JSON text, which then still means the same: outside of strings only
/// newlines occur, and these stay.
pub fn escape_json(json: &str) -> String {
    let escaped_letters = json.chars().map(|letter| {
        if letter != '\n' && is_hostile(letter) {
            format!("\\u{:04x}", u32::from(letter))
        } else {
            letter.to_string()
        }
    });
    escaped_letters.collect()
}
