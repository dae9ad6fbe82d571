//! What a device's driver does for XDP: the generic netlink family `netdev` (Linux 6.3; `linux/netdev.h`). Read, never tried
//! on the device: hanging a program there would stop what another has there.

use super::message::{Attributes, NetlinkMessage, u16_at};
use super::socket::{Result, Socket};
use terms::IfIndex;

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
/// Length of `struct genlmsghdr`: command, version, two octets of nothing.
const HEADER: usize = 4;

/// `NETDEV_XDP_ACT_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XdpFeatures(pub u64);

impl XdpFeatures {
    /// Whether programs run in the driver (native XDP).
    pub fn is_native(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the device takes frames that a program redirects to it.
    pub fn takes_redirected(self) -> bool {
        self.0 & 4 != 0
    }
}

/// Asks for the features of devices of the network namespace that it was opened in.
#[derive(Debug)]
pub struct Netdev {
    socket: Socket,
    family: u16,
}

impl Netdev {
    /// Finds the family.
    ///
    /// # Errors
    /// ENOENT: a kernel before Linux 6.3.
    pub fn open() -> Result<Netdev> {
        const WHAT: &str = "find the netlink family netdev";
        let mut socket = Socket::generic()?;
        let ask = NetlinkMessage::new(GENL_ID_CTRL, 0, &[CTRL_CMD_GETFAMILY, 1, 0, 0])
            .attr_str(CTRL_ATTR_FAMILY_NAME, "netdev");
        let answer = socket.get(WHAT, ask)?;
        let number = Attributes::after(&answer.body, HEADER).get(CTRL_ATTR_FAMILY_ID).and_then(|id| u16_at(id, 0));
        let family = number.ok_or(super::socket::Error::strange(WHAT))?;
        Ok(Netdev { socket, family })
    }

    /// What a device's driver does for XDP.
    ///
    /// # Errors
    /// No such device.
    pub fn xdp_features(&mut self, index: IfIndex) -> Result<XdpFeatures> {
        let ask =
            NetlinkMessage::new(self.family, 0, &[NETDEV_CMD_DEV_GET, 1, 0, 0]).attr_u32(NETDEV_A_DEV_IFINDEX, index.0);
        let answer = self.socket.get("ask what a device does for XDP", ask)?;
        Ok(XdpFeatures(Attributes::after(&answer.body, HEADER).u64(NETDEV_A_DEV_XDP_FEATURES).unwrap_or(0)))
    }
}
