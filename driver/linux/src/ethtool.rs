//! Requests to a network driver by `ioctl(SIOCETHTOOL)` (linux/ethtool.h).

use crate::error::{SystemError, doing};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::{AsRawFd, OwnedFd};
use terms::Rate;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;

/// The rate that a link's driver reports; `None` if the driver does not know it.
///
/// # Errors
/// There is no such link.
pub fn link_speed(name: &str) -> Result<Option<Rate>, SystemError> {
    // struct ethtool_cmd, 44 bytes; the speed in Mbit/s is a u16 at 12 and its upper half a u16 at 28.
    let mut answer = [0u32; 11];
    answer[0] = ETHTOOL_GSET;
    match Device::open(name)?.call(&mut answer, "ask the speed") {
        Ok(()) => {}
        Err(failed) if failed.code() == libc::EOPNOTSUPP => return Ok(None),
        Err(failed) => return Err(failed),
    }
    let half = |word: u32, at: usize| {
        let bytes = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]))
    };
    let mbps = half(answer[3], 0) | half(answer[7], 0) << 16;
    Ok((mbps != 0 && mbps != u32::MAX && mbps != 0xffff).then(|| Rate::from_mbps(mbps.into())))
}

/// A link, for requests by ioctl.
pub(crate) struct Device {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Device {
    pub(crate) fn open(name: &str) -> Result<Device, SystemError> {
        let mut bytes = [0; libc::IFNAMSIZ];
        for (to, from) in bytes.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(doing("open a socket"))?;
        Ok(Device { socket, name: bytes })
    }

    /// The names of the features, in the order of their bits.
    pub(crate) fn feature_names(&self) -> Result<Vec<String>, SystemError> {
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

    /// Passes `data`, which begins with its command, to the driver, which writes the answer there.
    pub(crate) fn call(&self, data: &mut [u32], what: &str) -> Result<(), SystemError> {
        // SAFETY: all-zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
        // SAFETY: `data` is as long as its own header says, which is what the kernel reads and writes, and outlives
        // the call.
        let rc = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) };
        if rc < 0 {
            let name: Vec<u8> = self.name.iter().take_while(|&&b| b != 0).map(|&b| b as u8).collect();
            return Err(SystemError::last(format!("{what} of {}", String::from_utf8_lossy(&name))));
        }
        Ok(())
    }
}
