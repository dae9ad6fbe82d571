//! A blocking TLS connection to an agent or broker on another machine, with the handshake done and the peer's
//! role checked.

use crate::error::Error;
use crate::identity::{CertificateRole, Identity};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Timeout of the TCP connection, and of each silence of the peer during the handshake.
const PATIENCE: Duration = Duration::from_secs(3);

/// An established TLS connection.
pub type Dialled = StreamOwned<ClientConnection, TcpStream>;

/// Connects to a peer that must have this role. Every address of the host is tried.
///
/// # Errors
/// No peer answers, or its certificate is not valid for this host and role. A refusal of *our* certificate
/// comes only with the peer's first answer (TLS 1.3 does not wait for it).
pub fn dial(host: &str, port: u16, config: Arc<ClientConfig>, role: CertificateRole) -> io::Result<Dialled> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let mut last = io::Error::other("this name has no address");
    let stream = (host, port)
        .to_socket_addrs()?
        .find_map(|address| TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| last = error).ok());
    let Some(mut stream) = stream else { return Err(last) };
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(in_time)?;
    }
    is_a(role, connection.peer_certificates()).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

/// Checks that the peer of a handshake showed a certificate of this role.
///
/// # Errors
/// [`Error::Refused`]: it showed none, or one of another role.
pub fn is_a(role: CertificateRole, shown: Option<&[CertificateDer<'_>]>) -> Result<Identity, Error> {
    let end = shown.and_then(<[_]>::first).ok_or_else(|| Error::Refused("it shows no certificate".to_owned()))?;
    let identity = Identity::of(end)?;
    if identity.role == role { Ok(identity) } else { Err(Error::Refused(format!("{identity} is no {role}"))) }
}

/// Turns a socket's `WouldBlock` into `TimedOut`.
fn in_time(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}
