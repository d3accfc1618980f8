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
