//! Whether hosts could log in by SSH with what an image gives them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::rules::infra_envs::is_key;

/// Before the name of the cipher in a key of OpenSSH.
const MAGIC: &[u8] = b"openssh-key-v1\0";

/// Whether a private key asks for a passphrase, which nobody types on a host.
pub fn is_locked(key: &str) -> bool {
    if key.contains("ENCRYPTED") {
        return true;
    }
    let body: String = key.lines().map(str::trim).filter(|line| !line.contains("-----")).collect();
    let bytes = STANDARD.decode(body).unwrap_or_default();
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return false };
    let cipher = rest.get(..4).and_then(|long| <[u8; 4]>::try_from(long).ok());
    let long = cipher.and_then(|long| usize::try_from(u32::from_be_bytes(long)).ok());
    long.and_then(|long| rest.get(4..)?.get(..long)) != Some(&b"none"[..])
}

/// What a file of host keys says of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Of no place at all.
    Nothing,
    Others,
    /// Perhaps: who it is of may be hashed.
    Place,
}

pub fn known(text: &str, host: &str, port: u16) -> Known {
    let host = host.to_ascii_lowercase();
    let names = if port == 22 { vec![host] } else { vec![format!("[{host}]:{port}"), host] };
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let mut best = Known::Nothing;
    for line in lines {
        // Whose certificates are believed is as good.
        let line = line.strip_prefix("@cert-authority").map_or(line, str::trim_start);
        let Some((hosts, key)) = line.split_once([' ', '\t']) else { continue };
        if hosts.starts_with('@') || key.trim().is_empty() || !is_key(key) {
            continue;
        }
        if names.iter().any(|name| is_of(hosts, name)) {
            return Known::Place;
        }
        best = Known::Others;
    }
    best
}

/// Whether a list of patterns, as a line begins with, has a name.
fn is_of(hosts: &str, name: &str) -> bool {
    let fits = |pattern: &str| fits(pattern.to_ascii_lowercase().as_bytes(), name.as_bytes());
    let but = hosts.split(',').filter_map(|one| one.strip_prefix('!')).any(fits);
    hosts.starts_with("|1|") || (!but && hosts.split(',').any(fits))
}

/// Patterns of ssh: `*` is anything, `?` a character.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), left) => {
            fits(rest, name) || left.is_some_and(|(_, left)| fits(pattern, left))
        }
        (Some((b'?', rest)), Some((_, left))) => fits(rest, left),
        (Some((one, rest)), Some((other, left))) => one == other && fits(rest, left),
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
        for (hosts, port, found) in [
            ("192.0.2.1", 22, Known::Place),
            ("192.0.2.2", 22, Known::Others),
            ("a,192.0.2.*", 22, Known::Place),
            ("192.0.2.?,!192.0.2.1", 22, Known::Others),
            ("[192.0.2.1]:2222", 2222, Known::Place),
            ("[192.0.2.1]:2222", 22, Known::Others),
            // ssh looks for it without the port, too.
            ("192.0.2.1", 2222, Known::Place),
            ("|1|c2FsdA==|aGFzaA==", 22, Known::Place),
            ("@cert-authority 192.0.2.*", 22, Known::Place),
            ("@revoked 192.0.2.1", 22, Known::Nothing),
            ("#192.0.2.1", 22, Known::Nothing),
        ] {
            let line = format!("{hosts} {key}\n");
            assert_eq!(known(&line, "192.0.2.1", port), found, "{line}");
        }
    }

    #[test]
    fn a_key_with_a_passphrase_is_locked() {
        let key = |cipher: &str| {
            let long = u32::try_from(cipher.len()).unwrap().to_be_bytes();
            let body = STANDARD.encode([MAGIC, &long, cipher.as_bytes(), b"more"].concat());
            format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n"
            )
        };
        assert!(!is_locked(&key("none")));
        assert!(is_locked(&key("aes256-ctr")));
        assert!(is_locked("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
        assert!(is_locked("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"));
    }
}
