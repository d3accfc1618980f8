//! Keeps files with all certificate authorities that programs of a job trust: those of the system
//! and more. Each is named after its content and never changes, so jobs share it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::model::hash::sha256;

/// Where systems keep their authorities, in the order in which Go looks for them. A program of Go
/// reads the first of these, or the file that `SSL_CERT_FILE` names in its place: so that file has
/// to have the system's, too.
const SYSTEM_BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The path of a file with the authorities of the system and these certificates. It lies below the
/// cache, in the folder `trust`.
pub fn write_bundle(cache: &Path, certificates: &str) -> io::Result<PathBuf> {
    let mut bundle = read_system_bundle();
    if !bundle.is_empty() && !bundle.ends_with('\n') {
        bundle.push('\n');
    }
    bundle.push_str(certificates);
    let folder = cache.join("trust");
    let path = folder.join(format!("{}.pem", sha256(bundle.as_bytes())));
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(&folder)?;
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(bundle.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

/// The authorities of the system; empty if there are none.
fn read_system_bundle() -> String {
    SYSTEM_BUNDLES.iter().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default()
}

/// The certificates in a text, one after another. The text may have anything else in it, a private
/// key or a password, which is left out.
pub fn certificates_in(text: &str) -> String {
    let mut certificates = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(BEGIN) {
        let Some(length) = rest[start..].find(END) else { break };
        let end = start + length + END.len();
        certificates.push_str(&rest[start..end]);
        certificates.push('\n');
        rest = &rest[end..];
    }
    certificates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_are_taken_out_of_a_text() {
        let certificate = format!("{BEGIN}\nMIIB\n{END}\n");
        for (text, expected) in [
            (certificate.clone(), certificate.clone()),
            (format!("# lab\n{certificate}-----BEGIN PRIVATE KEY-----\nx\n"), certificate.clone()),
            (format!("{certificate}{certificate}"), format!("{certificate}{certificate}")),
            (format!("{BEGIN}\nMIIB\n"), String::new()),
            ("password".to_owned(), String::new()),
        ] {
            assert_eq!(certificates_in(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_bundle_is_named_after_its_content() {
        let cache = tempfile::tempdir().unwrap();
        let lab_certificate = format!("{BEGIN}\nLAB\n{END}\n");
        let path = write_bundle(cache.path(), &lab_certificate).unwrap();
        assert_eq!(write_bundle(cache.path(), &lab_certificate).unwrap(), path);
        assert!(fs::read_to_string(&path).unwrap().ends_with(&lab_certificate));
        assert_ne!(write_bundle(cache.path(), "").unwrap(), path);
        assert_eq!(fs::read_dir(cache.path().join("trust")).unwrap().count(), 2);
    }
}
