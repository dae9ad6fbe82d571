//! The XDP features of a device's driver: the generic netlink family `netdev` (Linux 6.3; `linux/netdev.h`).
//! They are read, not tried: attaching a program would interrupt another program's.

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
/// The length of `struct genlmsghdr`: command, version, two reserved bytes.
const HEADER: usize = 4;

/// `NETDEV_XDP_ACT_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XdpFeatures(pub u64);

impl XdpFeatures {
    /// True if programs run in the driver (native XDP).
    pub fn is_native(self) -> bool {
        self.0 & 1 != 0
    }

    /// True if the device accepts frames that a program redirects to it.
    pub fn takes_redirected(self) -> bool {
        self.0 & 4 != 0
    }
}

/// Reads the features of devices in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Netdev {
    socket: Socket,
    family: u16,
}

impl Netdev {
    /// Looks up the family.
    ///
    /// # Errors
    /// ENOENT: the kernel is older than Linux 6.3.
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

    /// The XDP features of a device's driver.
    ///
    /// # Errors
    /// There is no such device.
    pub fn xdp_features(&mut self, index: IfIndex) -> Result<XdpFeatures> {
        let ask =
            NetlinkMessage::new(self.family, 0, &[NETDEV_CMD_DEV_GET, 1, 0, 0]).attr_u32(NETDEV_A_DEV_IFINDEX, index.0);
        let answer = self.socket.get("ask what a device does for XDP", ask)?;
        Ok(XdpFeatures(Attributes::after(&answer.body, HEADER).u64(NETDEV_A_DEV_XDP_FEATURES).unwrap_or(0)))
    }
}
