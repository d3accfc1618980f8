//! Says whether a text is a bundle of certificates in PEM. It looks at the form of each certificate
//! and never at who has signed it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// The tag of the sequence that every certificate is.
const SEQUENCE: u8 = 0x30;

/// Why a text is no bundle of certificates; none if it is.
pub fn find_bundle_problem(bundle: &str) -> Option<String> {
    let mut number = 0_usize;
    let mut unread = bundle;
    loop {
        let Some((_, begun)) = unread.split_once(BEGIN) else {
            return Some(if number == 0 {
                format!("has no certificate in PEM, which begins with {BEGIN}")
            } else {
                format!("goes on with something else after certificate {number}")
            });
        };
        number += 1;
        let Some((body, following)) = begun.split_once(END) else {
            return Some(format!("certificate {number} has no {END}"));
        };
        if !is_certificate(body) {
            return Some(format!("certificate {number} is damaged: it is no X.509 certificate"));
        }
        if following.trim().is_empty() {
            return None;
        }
        unread = following;
    }
}

/// Whether the text between the two lines is Base64 of one sequence of DER, and nothing more.
fn is_certificate(body: &str) -> bool {
    let compact: String = body.split_whitespace().collect();
    STANDARD.decode(compact).is_ok_and(|bytes| is_sequence(&bytes))
}

/// Whether bytes are one sequence of DER: its tag, its length, and that many bytes.
fn is_sequence(bytes: &[u8]) -> bool {
    let [SEQUENCE, first_length, following @ ..] = bytes else { return false };
    let size = usize::from(first_length & 0x7f);
    if first_length & 0x80 == 0 {
        return following.len() == size;
    }
    let Some((length, content)) = following.split_at_checked(size) else { return false };
    let length = length.iter().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
    (1..=4).contains(&size) && content.len() == length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(bytes: &[u8]) -> String {
        format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(bytes))
    }

    #[test]
    fn a_bundle_has_whole_certificates_and_nothing_after_them() {
        let short = pem(&[SEQUENCE, 2, 1, 2]);
        let mut long_bytes = vec![SEQUENCE, 0x82, 1, 0];
        long_bytes.resize(4 + 256, 7);
        let long = pem(&long_bytes);
        for bundle in [short.clone(), format!("# lab\n{short}{long}"), format!("{long}\n\n")] {
            assert_eq!(find_bundle_problem(&bundle), None, "{bundle}");
        }
        for (bundle, expected) in [
            (String::new(), "has no certificate in PEM"),
            ("garbage".into(), "has no certificate in PEM"),
            (format!("{short}garbage"), "goes on with something else after certificate 1"),
            (format!("{BEGIN}\nAAAA"), "certificate 1 has no"),
            (pem(&[SEQUENCE, 3, 1, 2]), "certificate 1 is damaged"),
            (format!("{short}{}", pem(b"garbage")), "certificate 2 is damaged"),
            (format!("{BEGIN}\n!\n{END}\n"), "certificate 1 is damaged"),
        ] {
            let problem = find_bundle_problem(&bundle).unwrap();
            assert!(problem.starts_with(expected), "{bundle}: {problem}");
        }
    }
}
