//! Segmentation offloads off, so that one packet in a queue is one packet on the wire.
//!
//! A veth device passes packets of up to 64 KB along as if they were one; a policer of 8 KB then drops them for
//! ever, and a "packet" delays others by 64 KB. Features are switched by name (`ETHTOOL_SFEATURES`, linux/ethtool.h);
//! TCP, which cuts its packets itself where the device does not, is held to one segment by `IFLA_GSO_MAX_SEGS`.

use crate::error::Failed;
use crate::netlink::{Message, Socket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use terms::IfIndex;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;
const IFLA_GSO_MAX_SEGS: u16 = 40;

/// Switches every segmentation and receive-merging offload of a link off, in this thread's network namespace.
///
/// # Errors
/// The device does not let us.
pub fn segmentation_off(socket: &mut Socket, name: &str, index: IfIndex) -> Result<(), Failed> {
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
    let message = Message::new(libc::RTM_NEWLINK, 0, &message).attr_u32(IFLA_GSO_MAX_SEGS, 1);
    let what = "hold packets to one segment";
    socket.request(what, message).map_err(Failed::netlink(format!("{what} on {name}")))
}

/// The segmentation and merging features of a link that are on.
///
/// # Errors
/// There is no such link.
pub fn segmentation_features(name: &str) -> Result<Vec<String>, Failed> {
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

/// A link to ask by ioctl.
struct Device {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Device {
    fn open(name: &str) -> Result<Device, Failed> {
        let mut bytes = [0; libc::IFNAMSIZ];
        for (to, from) in bytes.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Failed::last("open a socket"));
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else has it.
        Ok(Device { socket: unsafe { OwnedFd::from_raw_fd(fd) }, name: bytes })
    }

    /// The features' names, in the order of their bits.
    fn feature_names(&self) -> Result<Vec<String>, Failed> {
        // struct ethtool_sset_info: cmd, reserved, a mask of 64 bits, one count.
        let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
        self.call(&mut info, "count the features")?;
        let count = info[4] as usize;
        // struct ethtool_gstrings: cmd, set, count, then 32 bytes each.
        let mut strings = vec![0u32; 3 + count * ETH_GSTRING_LEN / 4];
        strings[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
        self.call(&mut strings, "name the features")?;
        let bytes: Vec<u8> = strings[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = |raw: &[u8]| String::from_utf8_lossy(raw.split(|&b| b == 0).next().unwrap_or(&[])).into_owned();
        Ok(bytes.chunks_exact(ETH_GSTRING_LEN).map(name).collect())
    }

    fn call(&self, data: &mut [u32], what: &str) -> Result<(), Failed> {
        // SAFETY: all-zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
        // SAFETY: `data` is as long as its own header says, which is what the kernel reads and writes, and outlives
        // the call.
        let rc = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) };
        if rc < 0 {
            let name: Vec<u8> = self.name.iter().take_while(|&&b| b != 0).map(|&b| b as u8).collect();
            return Err(Failed::last(format!("{what} of {}", String::from_utf8_lossy(&name))));
        }
        Ok(())
    }
}
