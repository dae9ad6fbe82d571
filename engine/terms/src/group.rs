//! Control groups, as a data plane knows them: who sent a packet, where addresses and ports do not tell.

use core::net::{IpAddr, Ipv6Addr};

/// A control group of the version 2 hierarchy (cgroups(7)). Processes in groups below it belong to it too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SenderGroup {
    /// Its depth below the root of the hierarchy: 1 for the groups directly below it.
    pub depth: u8,
    /// The kernel's number of it, never used again: the inode number of its directory. A group that is removed and
    /// made again has another.
    pub id: u64,
}

impl SenderGroup {
    /// The greatest depth of a group that packets are looked up for.
    pub const DEEPEST: u8 = 31;

    /// The number in the place of an address, for tables that are keyed by addresses.
    pub fn as_address(&self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from_bits(u128::from(self.id)))
    }

    /// The group of that depth with this number in the place of an address.
    pub fn of_address(depth: u8, address: IpAddr) -> SenderGroup {
        let id = match address {
            IpAddr::V4(v4) => u64::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits() as u64,
        };
        SenderGroup { depth, id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_from_the_place_of_an_address() {
        for id in [1, u64::from(u32::MAX) + 7, u64::MAX] {
            let group = SenderGroup { depth: 3, id };
            assert_eq!(SenderGroup::of_address(3, group.as_address()), group);
        }
    }
}
