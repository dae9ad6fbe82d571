//! Signed statements: text that a broker signs with the key of its certificate, so that it can be shown to others
//! who were not there.
//!
//! The signature is ECDSA on P-256 with SHA-256, in ASN.1 (RFC 5480), over `sluice PURPOSE`, a zero and the text.
//! A text that was signed for one purpose proves nothing for another. The signer's certificates travel with it.

use crate::error::Error;
use crate::gate::{MAX_CHAIN, TrustGate};
use crate::identity::{CertificateRole, Identity};
use crate::pem;
use crate::source::{CertificateSource, DiskSource};
use crate::tls::{Files, provider};
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use rustls::sign::SigningKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The only signature scheme of statements.
const SCHEME: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;
/// The longest text, bytes.
pub const MAX_STATEMENT: usize = 1 << 20;
/// The longest certificate, bytes.
const MAX_CERTIFICATE: usize = 16 << 10;
/// The longest signature, bytes: two numbers of 33 bytes, and their frame.
const MAX_SIGNATURE: usize = 72;

/// A text, its signature, and the certificates of the signer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedStatement {
    /// The text.
    pub text: String,
    /// The signer's certificate and those after it, in DER.
    pub chain: Vec<Vec<u8>>,
    /// The signature, in ASN.1.
    pub signature: Vec<u8>,
}

/// Signs statements with the key of a certificate.
#[derive(Clone)]
pub struct StatementSigner {
    key: Arc<dyn SigningKey>,
    chain: Vec<Vec<u8>>,
    identity: Identity,
}

impl std::fmt::Debug for StatementSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StatementSigner").field(&self.identity).finish()
    }
}

impl StatementSigner {
    /// Reads the certificate and the key with which a program also proves its identity over TLS.
    ///
    /// # Errors
    /// A file is missing, or its key is none of ECDSA on P-256.
    pub fn open(files: &Files) -> Result<StatementSigner, Error> {
        StatementSigner::from_source(files, &DiskSource)
    }

    fn from_source(files: &Files, source: &dyn CertificateSource) -> Result<StatementSigner, Error> {
        let chain = pem::certificates(source, &files.certificate)?;
        let identity = Identity::of(&chain[0])?;
        let key = provider().key_provider.load_private_key(pem::key(source, &files.key)?);
        let key = key.map_err(|error| Error::content(&files.key, error))?;
        if key.algorithm() != SignatureAlgorithm::ECDSA || key.choose_scheme(&[SCHEME]).is_none() {
            return Err(Error::content(&files.key, "statements are signed by ECDSA on P-256 only"));
        }
        Ok(StatementSigner { key, chain: chain.iter().map(|one| one.as_ref().to_vec()).collect(), identity })
    }

    /// Signs a text for a purpose.
    ///
    /// # Errors
    /// [`Error::Misuse`]: the text is too long; the key's implementation failed.
    pub fn sign(&self, purpose: &str, text: &str) -> Result<SignedStatement, Error> {
        let wrong = |what: String| Error::Misuse(format!("the statement cannot be signed: {what}"));
        if text.len() > MAX_STATEMENT {
            return Err(wrong(format!("it is longer than {MAX_STATEMENT} bytes")));
        }
        let signer = self.key.choose_scheme(&[SCHEME]).ok_or_else(|| wrong("the key has no such scheme".to_owned()))?;
        let signature = signer.sign(&message(purpose, text)).map_err(|error| wrong(error.to_string()))?;
        Ok(SignedStatement { text: text.to_owned(), chain: self.chain.clone(), signature })
    }

    /// The signer's identity, as of our own domain.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
}

impl TrustGate {
    /// Checks that a broker of a trusted domain signed a statement for this purpose, and returns who. The
    /// certificate must be valid now: a statement that is kept for longer is checked when it comes.
    ///
    /// # Errors
    /// [`Error::Refused`], with the reason: a limit is exceeded, the certificate is not trusted here or is no
    /// broker's, or the signature is not its key's.
    pub fn stated(&self, purpose: &str, statement: &SignedStatement) -> Result<Identity, Error> {
        let refused = |what: &str| Error::Refused(format!("a signed statement is refused: {what}"));
        if statement.text.len() > MAX_STATEMENT || statement.signature.len() > MAX_SIGNATURE {
            return Err(refused("it is longer than any may be"));
        }
        if statement.chain.len() > MAX_CHAIN || statement.chain.iter().any(|one| one.len() > MAX_CERTIFICATE) {
            return Err(refused("its certificates are longer than any may be"));
        }
        let chain: Vec<CertificateDer<'_>> = statement.chain.iter().map(|one| one.as_slice().into()).collect();
        let identity = self.client(Some(&chain))?;
        if identity.role != CertificateRole::Broker {
            return Err(refused(&format!("{identity} is no broker")));
        }
        let (_, certificate) = X509Certificate::from_der(&chain[0]).map_err(|_| refused("no certificate"))?;
        let key = certificate.public_key().subject_public_key.data.as_ref();
        let algorithm = algorithm().ok_or_else(|| refused("signatures cannot be checked here"))?;
        let good = algorithm.verify_signature(key, &message(purpose, &statement.text), &statement.signature);
        good.map_err(|_| refused(&format!("the signature is not that of {identity}")))?;
        Ok(identity)
    }
}

fn message(purpose: &str, text: &str) -> Vec<u8> {
    [b"sluice ", purpose.as_bytes(), &[0], text.as_bytes()].concat()
}

fn algorithm() -> Option<&'static dyn SignatureVerificationAlgorithm> {
    let all = provider().signature_verification_algorithms;
    let (_, ours) = all.mapping.iter().find(|(scheme, _)| *scheme == SCHEME)?;
    ours.iter().copied().find(|one| {
        // The scheme of TLS 1.3 fixes the curve, P-256; its list may have other curves for TLS 1.2.
        one.public_key_alg_id() == rustls::pki_types::alg_id::ECDSA_P256
    })
}
