//! Ports on which flows are recognised that never signalled.

/// The ports of an application whose flows are recognised by their packets, and the packets that make a flow of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedPorts {
    /// IP protocol: 17 or 6; others are passed over.
    pub protocol: u8,
    /// The first and the last port.
    pub ports: (u16, u16),
    /// The number of packets.
    pub threshold: u32,
}
