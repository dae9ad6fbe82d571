//! Switching segmentation offloads off, so that one packet in a queue is one packet on the wire.
//!
//! A veth device passes packets of up to 64 KB as one; a policer with a bucket of 8 KB then drops them all,
//! and one "packet" delays others by 64 KB. Features are switched by name (`ETHTOOL_SFEATURES`,
//! linux/ethtool.h). TCP, which segments its packets itself if the device does not, is limited to one segment
//! by `IFLA_GSO_MAX_SEGS`.

use crate::error::SystemError;
use crate::ethtool::Device;
use crate::netlink::{NetlinkMessage, Socket};
use terms::IfIndex;

const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const IFLA_GSO_MAX_SEGS: u16 = 40;

/// Switches off every segmentation and receive-merging offload of a link in this thread's network namespace.
///
/// # Errors
/// The device refuses.
pub fn segmentation_off(socket: &mut Socket, name: &str, index: IfIndex) -> Result<(), SystemError> {
    let device = Device::open(name)?;
    let names = device.feature_names()?;
    let blocks = names.len().div_ceil(32);
    let mut request = vec![0u32; 2 + 2 * blocks];
    request[0] = ETHTOOL_SFEATURES;
    request[1] = blocks as u32;
    for bit in names.iter().enumerate().filter(|(_, name)| is_merging(name)).map(|(bit, _)| bit) {
        request[2 + 2 * (bit / 32)] |= 1 << (bit % 32); // valid; "requested" stays 0
    }
    device.call(&mut request, "switch segmentation offloads off")?;
    let mut message = [0; 16]; // struct ifinfomsg
    message[4..8].copy_from_slice(&index.0.to_ne_bytes());
    let message = NetlinkMessage::new(libc::RTM_NEWLINK, 0, &message).attr_u32(IFLA_GSO_MAX_SEGS, 1);
    let what = "hold packets to one segment";
    socket.request(what, message).map_err(SystemError::netlink(format!("{what} on {name}")))
}

/// The segmentation and merging features of a link that are on.
///
/// # Errors
/// There is no such link.
pub fn segmentation_features(name: &str) -> Result<Vec<String>, SystemError> {
    let device = Device::open(name)?;
    let names = device.feature_names()?;
    let blocks = names.len().div_ceil(32);
    // struct ethtool_gfeatures: per block available, requested, active, never_changed.
    let mut answer = vec![0u32; 2 + 4 * blocks];
    answer[0] = ETHTOOL_GFEATURES;
    answer[1] = blocks as u32;
    device.call(&mut answer, "read the features")?;
    let active = |bit: usize| answer[2 + 4 * (bit / 32) + 2] & (1 << (bit % 32)) != 0;
    let on = names.into_iter().enumerate().filter(|(bit, name)| active(*bit) && is_merging(name));
    Ok(on.map(|(_, name)| name).collect())
}

fn is_merging(feature: &str) -> bool {
    feature.ends_with("-segmentation")
        || feature.starts_with("rx-gro")
        || feature == "rx-lro"
        || feature == "rx-udp-gro-forwarding"
}
