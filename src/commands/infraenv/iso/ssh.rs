//! Checks whether hosts could log in by SSH with the key and the known hosts that an image gives
//! them. It reads what OpenSSH writes, and connects nowhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::rules::infra_envs::is_ssh_key;

/// The bytes before the name of the cipher in a private key of OpenSSH.
const MAGIC: &[u8] = b"openssh-key-v1\0";

/// Whether a private key needs a passphrase.
pub fn has_passphrase(key: &str) -> bool {
    if key.contains("ENCRYPTED") {
        return true;
    }
    let body: String = key.lines().map(str::trim).filter(|line| !line.contains("-----")).collect();
    let bytes = STANDARD.decode(body).unwrap_or_default();
    let Some(cipher) = bytes.strip_prefix(MAGIC) else { return false };
    cipher_name(cipher) != Some(&b"none"[..])
}

/// A name after its length, which is four bytes, most significant first.
fn cipher_name(bytes: &[u8]) -> Option<&[u8]> {
    let (length, name) = bytes.split_first_chunk()?;
    name.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// Whose keys a file of known hosts has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownHostsMatch {
    /// Those of no host at all.
    NoHost,
    /// Those of other hosts.
    OtherHosts,
    /// Those of this host, as far as one can tell: names may be hashed.
    Host,
}

/// Looks for the keys of a host in the content of a file of known hosts.
pub fn match_known_hosts(content: &str, host: &str, port: u16) -> KnownHostsMatch {
    let host = host.to_ascii_lowercase();
    let names = if port == 22 { vec![host] } else { vec![format!("[{host}]:{port}"), host] };
    let mut best_match = KnownHostsMatch::NoHost;
    for line in content.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        // An authority whose certificates are believed is as good as a key.
        let line = line.strip_prefix("@cert-authority").map_or(line, str::trim_start);
        let Some((hosts, key)) = line.split_once([' ', '\t']) else { continue };
        if hosts.starts_with('@') || key.trim().is_empty() || !is_ssh_key(key) {
            continue;
        }
        if names.iter().any(|name| matches_host(hosts, name)) {
            return KnownHostsMatch::Host;
        }
        best_match = KnownHostsMatch::OtherHosts;
    }
    best_match
}

/// Whether the list of patterns at the beginning of a line matches a name. `!` excludes a pattern;
/// `|1|` begins a hashed name, which may be any.
fn matches_host(patterns: &str, name: &str) -> bool {
    if patterns.starts_with("|1|") {
        return true;
    }
    let mut is_matched = false;
    for pattern in patterns.to_ascii_lowercase().split(',') {
        if let Some(excluded) = pattern.strip_prefix('!')
            && matches_pattern(excluded.as_bytes(), name.as_bytes())
        {
            return false;
        }
        is_matched |= matches_pattern(pattern.as_bytes(), name.as_bytes());
    }
    is_matched
}

/// Patterns of ssh: `*` is any letters, `?` one letter.
fn matches_pattern(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', pattern_rest)), first) => {
            matches_pattern(pattern_rest, name)
                || first.is_some_and(|(_, name_rest)| matches_pattern(pattern, name_rest))
        }
        (Some((b'?', pattern_rest)), Some((_, name_rest))) => {
            matches_pattern(pattern_rest, name_rest)
        }
        (Some((letter, pattern_rest)), Some((name_letter, name_rest))) => {
            letter == name_letter && matches_pattern(pattern_rest, name_rest)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_by_its_names() {
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
        for (hosts, port, expected) in [
            ("192.0.2.1", 22, KnownHostsMatch::Host),
            ("192.0.2.2", 22, KnownHostsMatch::OtherHosts),
            ("a,192.0.2.*", 22, KnownHostsMatch::Host),
            ("192.0.2.?,!192.0.2.1", 22, KnownHostsMatch::OtherHosts),
            ("[192.0.2.1]:2222", 2222, KnownHostsMatch::Host),
            ("[192.0.2.1]:2222", 22, KnownHostsMatch::OtherHosts),
            // ssh looks for it without the port, too.
            ("192.0.2.1", 2222, KnownHostsMatch::Host),
            ("|1|c2FsdA==|aGFzaA==", 22, KnownHostsMatch::Host),
            ("@cert-authority 192.0.2.*", 22, KnownHostsMatch::Host),
            ("@revoked 192.0.2.1", 22, KnownHostsMatch::NoHost),
            ("#192.0.2.1", 22, KnownHostsMatch::NoHost),
        ] {
            let line = format!("{hosts} {key}\n");
            assert_eq!(match_known_hosts(&line, "192.0.2.1", port), expected, "{line}");
        }
    }

    /// A private key whose cipher has this name.
    fn private_key(cipher: &str) -> String {
        let length = u32::try_from(cipher.len()).unwrap().to_be_bytes();
        let body = STANDARD.encode([MAGIC, &length, cipher.as_bytes(), b"more"].concat());
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n")
    }

    #[test]
    fn a_key_with_a_passphrase_is_locked() {
        assert!(!has_passphrase(&private_key("none")));
        assert!(has_passphrase(&private_key("aes256-ctr")));
        assert!(has_passphrase("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
        assert!(has_passphrase("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"));
    }
}
