//! Keys of organisations and of those who approve: Ed25519, one line of text.

use super::MAX_TOKEN;
use crate::error::Error;
use crate::pem;
use crate::source::DiskSource;
use biscuit_auth::builder::Algorithm;
use biscuit_auth::{KeyPair, PrivateKey, PublicKey};
use std::path::Path;

/// The beginning of a private key's line.
const PRIVATE: &str = "ed25519-private/";
/// The beginning of a public key's line.
const PUBLIC: &str = "ed25519/";

/// A private key.
pub struct TokenKey(KeyPair);

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenPublicKey(PublicKey);

impl TokenKey {
    /// A new key.
    pub fn new() -> TokenKey {
        TokenKey(KeyPair::new_with_algorithm(Algorithm::Ed25519))
    }

    /// Reads the key of a file.
    ///
    /// # Errors
    /// The file cannot be read, or has no private key.
    pub fn read(path: &Path) -> Result<TokenKey, Error> {
        let text = line(path)?;
        let key = text.strip_prefix(PRIVATE).and_then(|hex| PrivateKey::from_bytes_hex(hex, Algorithm::Ed25519).ok());
        let key = key.ok_or_else(|| Error::content(path, format!("no private key: one line, {PRIVATE}HEX")))?;
        Ok(TokenKey(KeyPair::from(&key)))
    }

    /// Writes it, readable for its owner alone.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        pem::write(path, 0o600, &format!("{}\n", self.0.private().to_prefixed_string()))
    }

    /// The pair that signs.
    pub(super) fn pair(&self) -> &KeyPair {
        &self.0
    }

    /// Its public key.
    pub fn public(&self) -> TokenPublicKey {
        TokenPublicKey(self.0.public())
    }
}

impl Default for TokenKey {
    fn default() -> TokenKey {
        TokenKey::new()
    }
}

impl std::fmt::Debug for TokenKey {
    /// The public part only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.public().fmt(f)
    }
}

impl TokenPublicKey {
    /// The key of a text as [`std::fmt::Display`] writes it.
    ///
    /// # Errors
    /// The text is no public key.
    pub fn parse(text: &str) -> Result<TokenPublicKey, Error> {
        let key = text.trim().strip_prefix(PUBLIC);
        let key = key.and_then(|hex| PublicKey::from_bytes_hex(hex, Algorithm::Ed25519).ok());
        // The text is not repeated: it may be a private key.
        key.map(TokenPublicKey).ok_or_else(|| Error::Misuse(format!("no public key: one line, {PUBLIC}HEX")))
    }

    /// Reads the key of a file.
    ///
    /// # Errors
    /// The file cannot be read, or has no public key.
    pub fn read(path: &Path) -> Result<TokenPublicKey, Error> {
        TokenPublicKey::parse(&line(path)?).map_err(|error| Error::content(path, error))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        pem::write(path, 0o644, &format!("{self}\n"))
    }

    /// The key that verifies.
    pub(super) fn key(&self) -> PublicKey {
        self.0
    }

    /// The number by which a token says which key signed it.
    pub(super) fn number(&self) -> u32 {
        self.0.to_bytes().iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
    }
}

impl std::fmt::Display for TokenPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.print())
    }
}

impl std::fmt::Debug for TokenPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The one line of a small file.
fn line(path: &Path) -> Result<String, Error> {
    let text = pem::read(&DiskSource, path)?;
    let text = text.get(..MAX_TOKEN.min(text.len())).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("");
    Ok(text.trim().to_owned())
}
