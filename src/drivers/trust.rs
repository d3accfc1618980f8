//! TLS to management controllers: which certificates are believed. Nothing is sent before one is.

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

/// What is believed: one certificate, those of an authority, or by default those of the system's.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// SHA-256 of the certificate, in hexadecimal, colons or not.
    pub pin: Option<String>,
    /// PEM of authorities, or of the certificate itself.
    pub authority: Option<String>,
    /// Anything at all.
    pub insecure: bool,
}

/// The last certificate that was shown, as its SHA-256.
pub type SeenCertificate = Arc<Mutex<Option<String>>>;

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    /// Believed as they are, whatever they say of themselves.
    own: Vec<CertificateDer<'static>>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    seen: SeenCertificate,
}

impl Trust {
    pub fn client_config(&self) -> Result<(Arc<ClientConfig>, SeenCertificate), String> {
        let provider = Arc::new(ring::default_provider());
        let seen = SeenCertificate::default();
        let own = self.own()?;
        let believes = self.insecure || self.pin.is_some();
        let authorities = if believes { None } else { Some(authorities(&own, &provider)?) };
        let trust = self.clone();
        let verifier = Verifier {
            trust,
            own,
            authorities,
            provider: Arc::clone(&provider),
            seen: Arc::clone(&seen),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok((Arc::new(config), seen))
    }

    fn own(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let Some(text) = &self.authority else { return Ok(Vec::new()) };
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        let all = all.map_err(|error| format!("ca.crt is no PEM: {error}"))?;
        if all.is_empty() { Err("ca.crt has no certificate in it".into()) } else { Ok(all) }
    }
}

fn authorities(
    own: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    if own.is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    } else {
        roots.add_parsable_certificates(own.iter().cloned());
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| format!("there is no authority to believe: {error}"))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = sha256(shown.as_ref());
        let believed = match (&self.trust.pin, &self.authorities) {
            (Some(pin), _) => *pin == found,
            _ if self.trust.insecure => true,
            _ => self.own.iter().any(|one| one.as_ref() == shown.as_ref()),
        };
        if let Ok(mut seen) = self.seen.lock() {
            *seen = Some(found);
        }
        match &self.authorities {
            _ if believed => Ok(ServerCertVerified::assertion()),
            Some(all) => all.verify_server_cert(shown, others, name, ocsp, now),
            None => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.trust.insecure && self.trust.pin.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, shown, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.trust.insecure && self.trust.pin.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, shown, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a certificate was not believed, and what makes it.
pub fn explain_refusal(error: &CertificateError, trust: &Trust, seen: &str) -> String {
    match error {
        CertificateError::ApplicationVerificationFailure => {
            let pin = trust.pin.as_deref().unwrap_or_default();
            format!(
                "its certificate has SHA-256 {seen}, pinned is {pin}: it was changed, or this is another"
            )
        }
        // One that signed itself is its own authority.
        CertificateError::UnknownIssuer | CertificateError::Other(_) => format!(
            "nobody known has signed its certificate (SHA-256 {seen}); ca.crt in its Secret says \
             who may, or annotation {}={seen} pins this one",
            crate::model::host::PIN
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired (SHA-256 {seen})")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is for another name (SHA-256 {seen})")
        }
        other => format!("its certificate is not believed: {other:?} (SHA-256 {seen})"),
    }
}
