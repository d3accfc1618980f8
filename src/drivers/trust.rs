//! Decides which certificates of management controllers are accepted, and explains why one was not.
//! Never sends anything: a connection that is not accepted carries no request.

use std::sync::{Arc, Mutex};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::model::hash::sha256;

/// Which certificates of a controller are accepted: by default those that an authority of the
/// system has signed.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// SHA-256 of the only certificate that is accepted, in hexadecimal, lower case without colons.
    pub pin: Option<String>,
    /// PEM of the authorities that count instead of the system's, or of the certificate itself.
    pub authority: Option<String>,
    /// PEM of the authorities that count beside the system's; empty for none.
    pub site_authorities: String,
    /// Accepts every certificate.
    pub insecure: bool,
}

/// The SHA-256 of the last certificate that a controller has shown, accepted or not.
pub type SeenCertificate = Arc<Mutex<Option<String>>>;

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    /// Accepted as they are, whatever name and time of validity is in them.
    own_certificates: Vec<CertificateDer<'static>>,
    /// None if no authority matters: any certificate is accepted, or only the pinned one.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    seen_certificate: SeenCertificate,
}

impl Trust {
    /// The configuration of TLS that accepts these certificates, and where to read which one was
    /// shown last. The error is for people: a CA file that cannot be used.
    pub fn client_config(&self) -> Result<(Arc<ClientConfig>, SeenCertificate), String> {
        let provider = Arc::new(ring::default_provider());
        let seen_certificate = SeenCertificate::default();
        let own_certificates = self.read_own_certificates()?;
        let authorities = if self.insecure || self.pin.is_some() {
            None
        } else {
            Some(build_verifier(&own_certificates, &self.site_authorities, &provider)?)
        };
        let verifier = Verifier {
            trust: self.clone(),
            own_certificates,
            authorities,
            provider: Arc::clone(&provider),
            seen_certificate: Arc::clone(&seen_certificate),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok((Arc::new(config), seen_certificate))
    }

    /// Reads the certificates of ca.crt, none if it is not given.
    fn read_own_certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let Some(pem) = &self.authority else { return Ok(Vec::new()) };
        let mut certificates = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            certificates.push(certificate.map_err(|error| format!("ca.crt is not PEM: {error}"))?);
        }
        if certificates.is_empty() {
            return Err("ca.crt contains no certificate".into());
        }
        Ok(certificates)
    }

    /// Whether not even the signatures of the handshake matter.
    fn accepts_anything(&self) -> bool {
        self.insecure && self.pin.is_none()
    }
}

/// Checks certificates against these authorities. If there are none, those of the system and of the
/// site count.
fn build_verifier(
    own_certificates: &[CertificateDer<'static>],
    site_authorities: &str,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    if own_certificates.is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        // What is no certificate is left out, as it is in the bundle that programs get.
        let certificates = CertificateDer::pem_slice_iter(site_authorities.as_bytes());
        roots.add_parsable_certificates(certificates.flatten());
    } else {
        roots.add_parsable_certificates(own_certificates.iter().cloned());
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| format!("no certificate authority can be trusted: {error}"))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let fingerprint = sha256(certificate.as_ref());
        let is_accepted = match &self.trust.pin {
            Some(pin) => *pin == fingerprint,
            None if self.trust.insecure => true,
            None => self.own_certificates.iter().any(|own| own.as_ref() == certificate.as_ref()),
        };
        if let Ok(mut seen) = self.seen_certificate.lock() {
            *seen = Some(fingerprint);
        }
        if is_accepted {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.authorities {
            Some(verifier) => {
                verifier.verify_server_cert(certificate, intermediates, name, ocsp, now)
            }
            None => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.trust.accepts_anything() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.trust.accepts_anything() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a certificate was not accepted, and what would make it so, for people. `fingerprint` is the
/// SHA-256 of the certificate.
pub fn explain_refusal(error: &CertificateError, trust: &Trust, fingerprint: &str) -> String {
    match error {
        CertificateError::ApplicationVerificationFailure => {
            let pin = trust.pin.as_deref().unwrap_or_default();
            format!(
                "its certificate has SHA-256 {fingerprint}, but the pin is {pin}: the certificate was \
                 changed, or this is another machine"
            )
        }
        // A certificate that signed itself is its own authority: `Other` says so.
        CertificateError::UnknownIssuer | CertificateError::Other(_) => format!(
            "no known authority has signed its certificate (SHA-256 {fingerprint}); put the \
             authority into ca.crt of its Secret, or pin this certificate with annotation \
             {}={fingerprint}",
            crate::model::annotations::PIN
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired (SHA-256 {fingerprint})")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is for another name (SHA-256 {fingerprint})")
        }
        _ => format!("its certificate is not trusted: {error:?} (SHA-256 {fingerprint})"),
    }
}
