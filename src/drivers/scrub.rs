//! Hides secrets in what programs print: those that their job was given or has saved, also when
//! they come in pieces, and the passwords of URLs. Never reads or writes a file.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::render::url_passwords::{HIDDEN, ends_url, without_passwords};

/// Bytes of the shortest text that is hidden: anything shorter is a word that people use.
const SHORTEST_SECRET: usize = 6;
/// Bytes of the shortest line of a secret that is hidden by itself.
const SHORTEST_SECRET_LINE: usize = 16;
/// Bytes of a line that are held back until the line ends, because a URL may go on.
const LONGEST_LINE: usize = 64 << 10;

/// Texts that must not be shown.
pub struct Secrets {
    /// Secrets by their first byte, longest first: a secret that contains another is hidden whole.
    by_first_byte: Vec<Vec<Vec<u8>>>,
}

impl Secrets {
    /// Each value is hidden in all forms that programs print it in: as it is, as JSON and Go write
    /// it, as it stands in a URL, in base64, and each of its longer lines.
    pub fn new<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut secrets: Vec<Vec<u8>> = Vec::new();
        for value in values {
            secrets.extend(forms_of_secret(value).into_iter().map(String::into_bytes));
        }
        secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
        secrets.sort_by_key(|secret| (std::cmp::Reverse(secret.len()), secret.clone()));
        secrets.dedup();
        let mut by_first_byte = vec![Vec::new(); 256];
        for secret in secrets {
            by_first_byte[usize::from(secret[0])].push(secret);
        }
        Self { by_first_byte }
    }

    /// A text that has come whole, with its secrets hidden.
    pub fn hide_in(&self, output: &[u8]) -> Vec<u8> {
        let mut scrubber = Scrubber::default();
        let mut shown = scrubber.scrub_next(self, output);
        shown.extend(scrubber.scrub_rest(self));
        shown
    }

    fn beginning_with(&self, byte: u8) -> &[Vec<u8>] {
        &self.by_first_byte[usize::from(byte)]
    }
}

/// The forms in which programs print a secret: as it is, as JSON, in a URL, in Base64, and line by
/// line if it has long lines.
fn forms_of_secret(value: &str) -> Vec<String> {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    let json = quoted.trim_matches('"').to_owned();
    // Go's encoding/json escapes these letters, too.
    let mut go_json = json.clone();
    for letter in ['<', '>', '&'] {
        go_json = go_json.replace(letter, &format!("\\u{:04x}", u32::from(letter)));
    }
    let base64 = STANDARD.encode(value);
    let mut forms = vec![
        value.to_owned(),
        value.trim().to_owned(),
        json,
        go_json,
        percent_encoded(value),
        base64,
    ];
    let lines = value.lines().map(str::trim);
    forms.extend(lines.filter(|line| line.len() >= SHORTEST_SECRET_LINE).map(str::to_owned));
    forms
}

/// A text as it stands in a URL: all but RFC 3986's unreserved letters is escaped.
fn percent_encoded(value: &str) -> String {
    value
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// Whether more of a stream will come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamState {
    GoesOn,
    Ended,
}

/// Hides the secrets of one stream, of which more and more comes. It holds back what cannot be
/// shown before more has come.
#[derive(Default)]
pub struct Scrubber {
    /// The end of what has come, which may be the beginning of a secret.
    held: Vec<u8>,
    /// What has no secret any more, but may end in the middle of a URL.
    line: Vec<u8>,
}

impl Scrubber {
    /// Takes the next bytes of the stream, and returns what can be shown of it now.
    pub fn scrub_next(&mut self, secrets: &Secrets, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        self.hide_secrets(secrets, StreamState::GoesOn);
        self.take_scrubbed(showable_length(&self.line))
    }

    /// What was held back, when no more will come.
    pub fn scrub_rest(&mut self, secrets: &Secrets) -> Vec<u8> {
        self.hide_secrets(secrets, StreamState::Ended);
        self.take_scrubbed(self.line.len())
    }

    /// Moves what was held to the line, with secrets hidden. As long as the stream goes on, the
    /// beginning of a secret stays held.
    fn hide_secrets(&mut self, secrets: &Secrets, stream: StreamState) {
        let mut position = 0;
        while position < self.held.len() {
            let rest = &self.held[position..];
            let secret_start =
                rest.iter().position(|byte| !secrets.beginning_with(*byte).is_empty());
            let plain_length = secret_start.unwrap_or(rest.len());
            if plain_length > 0 {
                self.line.extend_from_slice(&rest[..plain_length]);
                position += plain_length;
                continue;
            }
            let candidates = secrets.beginning_with(rest[0]);
            // What comes next may make a secret of it, or a longer one.
            let may_go_on = candidates
                .iter()
                .any(|secret| secret.len() > rest.len() && secret.starts_with(rest));
            if may_go_on && stream == StreamState::GoesOn {
                break;
            }
            if let Some(secret) = candidates.iter().find(|secret| rest.starts_with(secret)) {
                self.line.extend_from_slice(HIDDEN.as_bytes());
                position += secret.len();
            } else {
                self.line.push(rest[0]);
                position += 1;
            }
        }
        self.held.drain(..position);
    }

    /// Takes that many bytes of the line, with the passwords of URLs hidden.
    fn take_scrubbed(&mut self, length: usize) -> Vec<u8> {
        let shown = without_passwords(&self.line[..length]);
        self.line.drain(..length);
        shown
    }
}

/// Words at the end of a line that are held back. In `"httpsProxy":"user:password@proxy"` so many
/// words end between the name and the value, and one before.
const WORDS_HELD: usize = 4;

/// How many bytes of a text can be shown without cutting a URL, or the name of a proxy from its
/// value: whole lines. Of a line that is too long to be held back, all but its last words; of a
/// word that is too long, what is before its last `://`.
fn showable_length(bytes: &[u8]) -> usize {
    let line_end = bytes.iter().rposition(|byte| matches!(byte, b'\n' | b'\r'));
    let unfinished_line = line_end.map_or(bytes, |end| &bytes[end + 1..]);
    let finished_length = bytes.len() - unfinished_line.len();
    if unfinished_line.len() < LONGEST_LINE {
        return finished_length;
    }
    let word_ends = unfinished_line.iter().enumerate().rev().filter(|(_, byte)| ends_url(**byte));
    if let Some((end, _)) = word_ends.take(WORDS_HELD).last() {
        return finished_length + end + 1;
    }
    let scheme_end = unfinished_line.windows(3).rposition(|window| window == b"://");
    // At the very beginning nothing comes before it. Then all but two bytes, which may be the
    // beginning of another `://`.
    let length = scheme_end.filter(|end| *end > 0).unwrap_or(unfinished_line.len() - 2);
    finished_length + length
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of an output that comes in pieces of a size.
    fn scrub_in_pieces(values: &[&str], output: &str, size: usize) -> String {
        let secrets = Secrets::new(values.iter().copied());
        let mut scrubber = Scrubber::default();
        let mut shown = Vec::new();
        for piece in output.as_bytes().chunks(size) {
            shown.extend(scrubber.scrub_next(&secrets, piece));
        }
        shown.extend(scrubber.scrub_rest(&secrets));
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn a_secret_in_any_pieces_and_forms_is_hidden() {
        let output =
            "pass hunter2\"quoted, json hunter2\\\"quoted, base64 aHVudGVyMiJxdW90ZWQ= hunter";
        for size in 1..output.len() {
            let shown = scrub_in_pieces(&["hunter2\"quoted"], output, size);
            assert_eq!(shown, "pass (hidden), json (hidden), base64 (hidden) hunter", "{size}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_not_cut_between_a_proxy_and_its_password() {
        let line = "x ".repeat(LONGEST_LINE / 2 - 12) + r#"{"httpsProxy":"user:hunter2@proxy"} "#;
        for size in [1 << 10, LONGEST_LINE, LONGEST_LINE + 3] {
            let output = line.repeat(3);
            let shown = scrub_in_pieces(&[], &output, size);
            assert!(!shown.contains("hunter2"), "{size}");
            assert_eq!(shown.matches("user:").count(), 3, "{size}");
        }
    }

    #[test]
    fn a_secret_inside_another_leaves_nothing_over() {
        let output = "secret-one-two secret-one secret-";
        let shown = scrub_in_pieces(&["secret-one", "secret-one-two"], output, output.len());
        assert_eq!(shown, "(hidden) (hidden) secret-");
    }

    #[test]
    fn the_password_of_a_url_in_any_pieces_is_hidden() {
        let output =
            "a http://user:hunter2@proxy:3128 b\nHTTPS_PROXY=user:pw@proxy\r\nc ftp://u:p@d";
        let expected = "a http://user:(hidden)@proxy:3128 b\nHTTPS_PROXY=user:(hidden)@proxy\r\n\
            c ftp://u:(hidden)@d";
        for size in 1..output.len() {
            assert_eq!(scrub_in_pieces(&[], output, size), expected, "{size}");
        }
    }

    #[test]
    fn lines_are_shown_as_they_come_and_long_ones_before_they_end() {
        let secrets = Secrets::new(std::iter::empty());
        let mut scrubber = Scrubber::default();
        assert_eq!(scrubber.scrub_next(&secrets, b"one\ntwo http://u:p"), b"one\n");
        assert_eq!(scrubber.scrub_next(&secrets, b"w@h\nthree"), b"two http://u:(hidden)@h\n");
        assert_eq!(scrubber.scrub_rest(&secrets), b"three");
        // Whatever fills the line before it: a URL is not shown by halves.
        for filler in ["x", "x ", "x\""] {
            for length in [LONGEST_LINE - 20, LONGEST_LINE, 3 * LONGEST_LINE] {
                let mut scrubber = Scrubber::default();
                let mut shown = scrubber.scrub_next(&secrets, filler.repeat(length).as_bytes());
                for byte in b"http://user:hunter2@proxy" {
                    shown.extend(scrubber.scrub_next(&secrets, &[*byte]));
                    assert!(scrubber.line.len() <= LONGEST_LINE);
                }
                shown.extend(scrubber.scrub_rest(&secrets));
                let expected = filler.repeat(length) + "http://user:(hidden)@proxy";
                assert!(shown == expected.as_bytes(), "{filler} {length}");
            }
        }
    }
}
