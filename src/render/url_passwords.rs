//! Passwords in URLs: `scheme://user:password@host`. Finds where they stand in any text, and never
//! changes what stands around them.

use std::ops::Range;

/// What is shown in the place of a secret.
pub const HIDDEN: &str = "(hidden)";

/// What stands between a scheme and a login: as it is, as JSON with escaped slashes has it, and
/// percent-encoded, as in a URL that is a value in the query of another.
const MARKS: [&str; 3] = ["://", r":\/\/", ENCODED];
const ENCODED: &str = "%3a%2f%2f";
/// How the names of variables and fields end that hold the address of a proxy.
const PROXY: &[u8] = b"proxy";
/// No login is longer. It bounds the work, too: a text may be nothing but marks.
const MAX_LOGIN_LENGTH: usize = 8 << 10;

/// Whether a URL cannot go on with this byte.
pub fn ends_url(byte: u8) -> bool {
    byte <= b' ' || byte == b'"' || byte == 0x7f
}

/// Where the passwords of URLs stand in a text, in their order. A user without a password has
/// none. The address of a proxy needs no scheme: `HTTPS_PROXY=user:password@host` has one, too.
pub fn passwords_in(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut passwords = Vec::new();
    let mut position = 0;
    while let Some(distance) =
        bytes[position..].iter().position(|byte| matches!(byte, b':' | b'=' | b'%'))
    {
        let mark = position + distance;
        position = mark + 1;
        let password = if let Some(written) = mark_at(&bytes[mark..]) {
            position = mark + written.len();
            let encoding =
                if written == ENCODED { UrlEncoding::Percent } else { UrlEncoding::Plain };
            password_at(bytes, position, encoding)
        } else if names_proxy(&bytes[..mark]) {
            let blanks = bytes[position..].iter().take_while(|byte| is_blank(**byte)).count();
            password_at(bytes, position + blanks, UrlEncoding::Plain)
        } else {
            None
        };
        if let Some(password) = password {
            position = password.end;
            passwords.push(password);
        }
    }
    passwords
}

/// A text with every password of a URL hidden.
pub fn without_passwords(bytes: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(bytes.len());
    let mut position = 0;
    for password in passwords_in(bytes) {
        shown.extend_from_slice(&bytes[position..password.start]);
        shown.extend_from_slice(HIDDEN.as_bytes());
        position = password.end;
    }
    shown.extend_from_slice(&bytes[position..]);
    shown
}

/// A text without its percent-encoding.
pub fn percent_decoded(encoded: &str) -> String {
    let (decoded, _) = decode(encoded.as_bytes());
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The mark that a text begins with.
fn mark_at(bytes: &[u8]) -> Option<&'static str> {
    MARKS.into_iter().find(|mark| {
        bytes.get(..mark.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(mark.as_bytes()))
    })
}

/// What may stand between the name of a variable and its value, beside the sign that divides them.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'"' | b'\'' | b'\\')
}

/// Whether a text ends with the name of what holds the address of a proxy, perhaps in quotes.
fn names_proxy(bytes: &[u8]) -> bool {
    let end = bytes.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    end.checked_sub(PROXY.len()).is_some_and(|begin| bytes[begin..end].eq_ignore_ascii_case(PROXY))
}

/// How a URL is written in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlEncoding {
    Plain,
    /// As a parameter of another URL: every special character is percent-encoded, and `&` ends it.
    Percent,
}

/// The password of the login that begins at a position, if there is a login.
fn password_at(bytes: &[u8], start: usize, encoding: UrlEncoding) -> Option<Range<usize>> {
    let is_encoded = encoding == UrlEncoding::Percent;
    let window = &bytes[start..bytes.len().min(start + MAX_LOGIN_LENGTH)];
    let end = window.iter().position(|byte| ends_url(*byte) || (is_encoded && *byte == b'&'));
    let url = &window[..end.unwrap_or(window.len())];
    if !is_encoded {
        let password = password_of(url)?;
        return Some(start + password.start..start + password.end);
    }
    let (decoded, places) = decode(url);
    let password = password_of(&decoded)?;
    // A password is followed by its `@`, so its end has a place as well.
    Some(start + places[password.start]..start + places[password.end])
}

/// The password in what stands behind `://`: between the first colon and the last `@` before the
/// path.
fn password_of(url: &[u8]) -> Option<Range<usize>> {
    let path = url.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(url.len());
    let authority = &url[..path];
    let last_at_sign = authority.iter().rposition(|byte| *byte == b'@');
    let end = last_at_sign.or_else(|| end_of_unencoded_login(url, authority))?;
    let start = url[..end].iter().position(|byte| *byte == b':')? + 1;
    (start < end).then_some(start..end)
}

/// People write `/`, `?` and `#` into passwords without encoding them. Then what stands where a
/// port would be is no number, and the login ends further on.
fn end_of_unencoded_login(url: &[u8], authority: &[u8]) -> Option<usize> {
    let colon = authority.iter().position(|byte| *byte == b':')?;
    let port = &authority[colon + 1..];
    // A backslash is the first half of an escaped slash.
    let is_port = port.iter().all(|byte| byte.is_ascii_digit() || *byte == b'\\');
    if is_port || authority.starts_with(b"[") {
        return None;
    }
    let next_url = url.windows(3).position(|window| window == b"://").unwrap_or(url.len());
    url[..next_url].iter().rposition(|byte| *byte == b'@')
}

/// A percent-encoded text as it is without that, and where each of its bytes stood.
fn decode(bytes: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut decoded = Vec::new();
    let mut places = Vec::new();
    let mut position = 0;
    while let Some(byte) = bytes.get(position) {
        let code = decode_byte(&bytes[position..]);
        decoded.push(code.unwrap_or(*byte));
        places.push(position);
        position += if code.is_some() { 3 } else { 1 };
    }
    (decoded, places)
}

/// The byte that a text begins with in percent-encoding, if it does.
fn decode_byte(bytes: &[u8]) -> Option<u8> {
    let [b'%', digits @ ..] = bytes else { return None };
    let digits = std::str::from_utf8(digits.get(..2)?).ok()?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        String::from_utf8(without_passwords(text.as_bytes())).unwrap()
    }

    #[test]
    fn the_password_of_a_url_is_hidden_however_it_is_written() {
        for (text, expected) in [
            ("http://user:SECRET@proxy:3128", "http://user:(hidden)@proxy:3128"),
            ("http://:SECRET@proxy", "http://:(hidden)@proxy"),
            ("(see http://user:SECRET@proxy/a@b?c)", "(see http://user:(hidden)@proxy/a@b?c)"),
            // Encoded, and with what should have been.
            ("http://user:SEC%40RET%2F@proxy", "http://user:(hidden)@proxy"),
            ("http://me@corp:SECRET@proxy", "http://me@corp:(hidden)@proxy"),
            ("http://user:SEC@RET@proxy", "http://user:(hidden)@proxy"),
            ("http://user:SEC/RET?#@proxy:3128", "http://user:(hidden)@proxy:3128"),
            ("http://user:SEC:RET@[fd00::1]:3128/", "http://user:(hidden)@[fd00::1]:3128/"),
            // Quoted, in JSON, YAML and variables.
            ("'https://user:SECRET@proxy'", "'https://user:(hidden)@proxy'"),
            (
                r#"{"proxy":"http://user:SECRET@proxy","mail":"a@b"}"#,
                r#"{"proxy":"http://user:(hidden)@proxy","mail":"a@b"}"#,
            ),
            (r#"msg="at \"http://u:SECRET@proxy\"""#, r#"msg="at \"http://u:(hidden)@proxy\"""#),
            (r"http:\/\/user:SECRET@proxy\/x", r"http:\/\/user:(hidden)@proxy\/x"),
            ("httpsProxy: http://user:SECRET@proxy", "httpsProxy: http://user:(hidden)@proxy"),
            ("HTTPS_PROXY=http://user:SECRET@proxy", "HTTPS_PROXY=http://user:(hidden)@proxy"),
            ("https_proxy=user:SECRET@proxy:1", "https_proxy=user:(hidden)@proxy:1"),
            (r#""httpProxy": "user:SECRET@proxy""#, r#""httpProxy": "user:(hidden)@proxy""#),
            ("map[HTTP_PROXY:user:SECRET@proxy]", "map[HTTP_PROXY:user:(hidden)@proxy]"),
            (
                "get /?to=http%3A%2F%2Fuser%3ASECRET%40proxy%3A3128&mail=a%40b",
                "get /?to=http%3A%2F%2Fuser%3A(hidden)%40proxy%3A3128&mail=a%40b",
            ),
            // More than one.
            (
                "http://a:1,http://u:SECRET@b,ftp://v:SECRET@c",
                "http://a:1,http://u:(hidden)@b,ftp://v:(hidden)@c",
            ),
            // What is hidden already stays as it is.
            ("http://user:(hidden)@proxy", "http://user:(hidden)@proxy"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn what_has_no_password_stays_as_it_is() {
        for text in [
            "http://user@proxy:3128/",
            "http://user:@proxy:3128/",
            "http://proxy:3128/me@example.com",
            "http://[fd00::1]:3128/me@example.com",
            "docker://quay.io:5000/ocp@sha256:0123",
            "proxy: cache.example.com:3128 asked by me@example.com",
            "time=\"2026-03-02T12:00:00Z\" level=info msg=\"me@example.com: hello\"",
            "HTTPS_PROXY=http://proxy:3128 NO_PROXY=.example.com",
            "://",
            "%3A%2F%2F%",
            "",
        ] {
            assert_eq!(shown(text), text);
        }
    }
}
