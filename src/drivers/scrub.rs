//! Takes secrets out of what programs print: those that their job was given, also when they come
//! in pieces, and the passwords of URLs.

use crate::render::url_passwords::{HIDDEN, ends_url, without_passwords};

/// Shorter texts are words, not secrets.
const LEAST: usize = 6;
/// As much of a line as is waited for: a URL may go on.
const LONGEST_LINE: usize = 64 << 10;

/// Texts that are not to be shown.
pub struct Secrets {
    /// By their first byte; longest first, so that one inside another is not left over.
    by_first_byte: Vec<Vec<Vec<u8>>>,
}

impl Secrets {
    /// Each secret is known as it is, as JSON writes it, by its lines, and in base64.
    pub fn new<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        let mut secrets: Vec<Vec<u8>> = Vec::new();
        for value in values {
            let json = serde_json::to_string(value).unwrap_or_default();
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= 16);
            secrets.extend(lines.map(|line| line.as_bytes().to_vec()));
            let json = json.trim_matches('"').to_owned();
            // As Go writes it, and as it stands in a URL.
            let go = ['<', '>', '&'].iter().fold(json.clone(), |text, one| {
                text.replace(*one, &format!("\\u{:04x}", u32::from(*one)))
            });
            let url = value.bytes().map(|one| match one {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    char::from(one).to_string()
                }
                one => format!("%{one:02X}"),
            });
            let forms = [value.to_owned(), value.trim().to_owned(), json, go, url.collect()];
            secrets.extend(forms.into_iter().map(String::into_bytes));
            secrets.push(STANDARD.encode(value).into_bytes());
        }
        secrets.retain(|secret| secret.len() >= LEAST);
        secrets.sort_by_key(|secret| (std::cmp::Reverse(secret.len()), secret.clone()));
        secrets.dedup();
        let mut by_first_byte = vec![Vec::new(); 256];
        for secret in secrets {
            by_first_byte[usize::from(secret[0])].push(secret);
        }
        Self { by_first_byte }
    }

    /// A text that is whole, without secrets.
    pub fn hide_in(&self, text: &[u8]) -> Vec<u8> {
        let mut scrubber = Scrubber::default();
        let mut shown = scrubber.scrub_next(self, text);
        shown.extend(scrubber.scrub_rest(self));
        shown
    }

    fn beginning_with(&self, byte: u8) -> &[Vec<u8>] {
        &self.by_first_byte[usize::from(byte)]
    }
}

/// What of one stream cannot be shown before more of it has come.
#[derive(Default)]
pub struct Scrubber {
    /// The end of what came, which may be the beginning of a secret.
    held: Vec<u8>,
    /// What has no secret any more, but may end in half a URL.
    line: Vec<u8>,
}

impl Scrubber {
    /// What of the stream can be shown so far.
    pub fn scrub_next(&mut self, secrets: &Secrets, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        self.hide_secrets(secrets, false);
        self.take_scrubbed(showable_length(&self.line))
    }

    /// The rest of it.
    pub fn scrub_rest(&mut self, secrets: &Secrets) -> Vec<u8> {
        self.hide_secrets(secrets, true);
        self.take_scrubbed(self.line.len())
    }

    fn hide_secrets(&mut self, secrets: &Secrets, is_end: bool) {
        let mut position = 0;
        while position < self.held.len() {
            let rest = &self.held[position..];
            let begins = rest.iter().position(|byte| !secrets.beginning_with(*byte).is_empty());
            let plain = begins.unwrap_or(rest.len());
            if plain > 0 {
                self.line.extend_from_slice(&rest[..plain]);
                position += plain;
                continue;
            }
            let candidates = secrets.beginning_with(rest[0]);
            // What comes next may make it a longer one.
            if !is_end
                && candidates.iter().any(|one| one.len() > rest.len() && one.starts_with(rest))
            {
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

    fn take_scrubbed(&mut self, length: usize) -> Vec<u8> {
        let shown = without_passwords(&self.line[..length]);
        self.line.drain(..length);
        shown
    }
}

/// In `"httpsProxy":"user:password@proxy"` there are so many ends of words between the name and the
/// value, and one before.
const WORDS_KEPT: usize = 4;

/// How much can be shown without cutting a URL, or the name of a proxy from its value: whole lines. Of
/// a line that is too long, all but its last words; of a word that is too long, what is before its
/// last `://`.
fn showable_length(text: &[u8]) -> usize {
    let line = text.iter().rposition(|byte| matches!(byte, b'\n' | b'\r'));
    let undecided = line.map_or(text, |end| &text[end + 1..]);
    let lines = text.len() - undecided.len();
    if undecided.len() < LONGEST_LINE {
        return lines;
    }
    let ends = undecided.iter().enumerate().rev().filter(|(_, byte)| ends_url(**byte));
    if let Some((end, _)) = ends.take(WORDS_KEPT).last() {
        return lines + end + 1;
    }
    let url = undecided.windows(3).rposition(|bytes| bytes == b"://").filter(|url| *url > 0);
    lines + url.unwrap_or(undecided.len() - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of a text that comes in pieces.
    fn shown(secrets: &[&str], text: &str, size: usize) -> String {
        let secrets = Secrets::new(secrets.iter().copied());
        let mut scrubber = Scrubber::default();
        let mut shown = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            shown.extend(scrubber.scrub_next(&secrets, piece));
        }
        shown.extend(scrubber.scrub_rest(&secrets));
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn a_secret_in_any_pieces_and_forms_is_hidden() {
        let text =
            "pass hunter2\"quoted, json hunter2\\\"quoted, base64 aHVudGVyMiJxdW90ZWQ= hunter";
        for size in 1..text.len() {
            let shown = shown(&["hunter2\"quoted"], text, size);
            assert_eq!(shown, "pass (hidden), json (hidden), base64 (hidden) hunter", "{size}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_not_cut_between_a_proxy_and_its_password() {
        let line = "x ".repeat(LONGEST_LINE / 2 - 12) + r#"{"httpsProxy":"user:hunter2@proxy"} "#;
        for size in [1 << 10, LONGEST_LINE, LONGEST_LINE + 3] {
            let text = line.repeat(3);
            let shown = shown(&[], &text, size);
            assert!(!shown.contains("hunter2"), "{size}");
            assert_eq!(shown.matches("user:").count(), 3, "{size}");
        }
    }

    #[test]
    fn a_secret_inside_another_leaves_nothing_over() {
        let text = "secret-one-two secret-one secret-";
        let shown = shown(&["secret-one", "secret-one-two"], text, text.len());
        assert_eq!(shown, "(hidden) (hidden) secret-");
    }

    #[test]
    fn the_password_of_a_url_in_any_pieces_is_hidden() {
        let text = "a http://user:hunter2@proxy:3128 b\nHTTPS_PROXY=user:pw@proxy\r\nc ftp://u:p@d";
        let expected = "a http://user:(hidden)@proxy:3128 b\nHTTPS_PROXY=user:(hidden)@proxy\r\n\
            c ftp://u:(hidden)@d";
        for size in 1..text.len() {
            assert_eq!(shown(&[], text, size), expected, "{size}");
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
