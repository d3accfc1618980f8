//! Takes known secrets out of a stream, also those that come in two pieces.

/// What stands where a secret was.
const HIDDEN: &[u8] = b"(hidden)";
/// Shorter texts are words, not secrets.
const LEAST: usize = 6;

pub struct Scrubber {
    /// Longest first, so that one inside another is not left over.
    secrets: Vec<Vec<u8>>,
    /// The end of what came, which may be the beginning of a secret.
    kept: Vec<u8>,
}

impl Scrubber {
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
        Self { secrets, kept: Vec::new() }
    }

    /// Other secrets from here on; what is held back stays.
    pub fn know<'a>(&mut self, values: impl Iterator<Item = &'a str>) {
        self.secrets = Self::new(values).secrets;
    }

    /// What of the stream can be shown so far.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.kept.extend_from_slice(bytes);
        self.flow(false)
    }

    /// The rest of it.
    pub fn finish(&mut self) -> Vec<u8> {
        self.flow(true)
    }

    fn flow(&mut self, end: bool) -> Vec<u8> {
        let mut shown = Vec::with_capacity(self.kept.len());
        let mut at = 0;
        while at < self.kept.len() {
            let rest = &self.kept[at..];
            // What comes next may make it a longer one.
            if !end
                && self.secrets.iter().any(|one| one.len() > rest.len() && one.starts_with(rest))
            {
                break;
            }
            if let Some(secret) = self.secrets.iter().find(|secret| rest.starts_with(secret)) {
                shown.extend_from_slice(HIDDEN);
                at += secret.len();
            } else {
                shown.push(rest[0]);
                at += 1;
            }
        }
        self.kept.drain(..at);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_any_pieces_and_forms_is_hidden() {
        let secret = "hunter2\"quoted";
        let text =
            "pass hunter2\"quoted, json hunter2\\\"quoted, base64 aHVudGVyMiJxdW90ZWQ= hunter";
        for size in 1..text.len() {
            let mut scrubber = Scrubber::new([secret].into_iter());
            let mut shown = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                shown.extend(scrubber.pass(piece));
            }
            shown.extend(scrubber.finish());
            let shown = String::from_utf8(shown).unwrap();
            assert_eq!(shown, "pass (hidden), json (hidden), base64 (hidden) hunter", "{size}");
        }
    }

    #[test]
    fn a_secret_inside_another_leaves_nothing_over() {
        let mut scrubber = Scrubber::new(["secret-one", "secret-one-two"].into_iter());
        let mut shown = scrubber.pass(b"secret-one-two secret-one secret-");
        shown.extend(scrubber.finish());
        assert_eq!(shown, b"(hidden) (hidden) secret-");
    }
}
