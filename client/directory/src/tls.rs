//! TLS to a directory: the authorities that are trusted, and the server's name in its certificate.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// A connection whose handshake is done.
///
/// # Errors
/// A sentence: the file, the certificate or the handshake.
pub(crate) fn connect(
    mut stream: TcpStream,
    host: &str,
    ca: &Path,
) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    let wrong = |what: String| format!("{}: {what}", ca.display());
    let all = CertificateDer::pem_file_iter(ca).map_err(|error| wrong(error.to_string()))?;
    for one in all {
        roots.add(one.map_err(|error| wrong(error.to_string()))?).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate (PEM) in it".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => "it did not answer in time".to_owned(),
            _ => error.to_string(),
        })?;
    }
    Ok(StreamOwned::new(connection, stream))
}
