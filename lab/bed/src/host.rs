//! A host of a testbed, as the experiments use it.

use linux::error::SystemError;
use linux::netns::Namespace;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// A host.
#[derive(Debug)]
pub struct Host {
    /// The host's network namespace.
    pub namespace: Namespace,
    /// Its only interface.
    pub interface: String,
    /// The address of that interface.
    pub address: Ipv4Addr,
}

impl Host {
    /// Opens a UDP socket of this host at `port` (0: any), whose reads time out after `patience`.
    ///
    /// # Errors
    /// The port is taken, or the namespace cannot be entered.
    pub fn udp(&self, port: u16, patience: Duration) -> Result<UdpSocket, SystemError> {
        let place = SocketAddr::from((self.address, port));
        let made = self.namespace.run(|| {
            let socket = UdpSocket::bind(place)?;
            socket.set_read_timeout(Some(patience))?;
            Ok(socket)
        })?;
        made.map_err(SystemError::doing(format!("open UDP {place}")))
    }
}
