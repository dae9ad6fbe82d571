//! Certificates, keys and revocation lists as files: PEM, read with limits, written whole or not at all.

use crate::error::Error;
use crate::source::{CertificateSource, MAX_FILE};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads a file of at most [`MAX_FILE`] bytes.
pub(crate) fn read(source: &dyn CertificateSource, path: &Path) -> Result<Vec<u8>, Error> {
    let text = source.read(path).map_err(Error::file(path))?;
    if text.len() as u64 > MAX_FILE {
        return Err(Error::content(path, format!("larger than {MAX_FILE} bytes")));
    }
    Ok(text)
}

/// All certificates of a file, at least one.
pub(crate) fn certificates(source: &dyn CertificateSource, path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(source, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(Error::content(path, "there is no certificate (PEM) in it")),
        Err(error) => Err(Error::content(path, error)),
    }
}

/// The private key of a file.
pub(crate) fn key(source: &dyn CertificateSource, path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(&read(source, path)?)
        .map_err(|error| Error::content(path, format!("no private key: {error}")))
}

/// All revocation lists of a file, at least one.
pub(crate) fn revoked(
    source: &dyn CertificateSource,
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    let text = read(source, path)?;
    let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(Error::content(path, "there is no revocation list (PEM) in it")),
        Err(error) => Err(Error::content(path, error)),
    }
}

/// Writes a file atomically: readers see the old one or the whole new one. `mode` as in chmod; keys are 0600
/// from their first byte.
pub(crate) fn write(path: &Path, mode: u32, text: &str) -> Result<(), Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    let _ = fs::remove_file(new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(new).map_err(Error::file(new))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(Error::file(new))?;
    fs::rename(new, path).map_err(Error::file(path))
}
