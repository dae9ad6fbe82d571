//! The advertisement: all that a domain publishes of itself, and its limits.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use terms::{Rate, Span, Time};

/// The longest life of an advertisement.
pub const MOST_LIFE: Span = Span::from_secs(3600);
/// The most networks inside a domain.
pub const MOST_NETWORKS: usize = 4_096;
/// The most pairs of borders.
pub const MOST_PAIRS: usize = 4_096;
/// The most steps of what is free, of one pair.
pub const MOST_STEPS: usize = 512;
/// The longest name of a domain, bytes.
pub const MOST_NAME: usize = 64;

/// A network: its address with the host's bits zero, and the length of its prefix, bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The network of an address. A prefix longer than an address counts as the whole address.
    pub fn of(address: IpAddr, prefix: u8) -> Network {
        match address {
            IpAddr::V4(v4) => {
                let prefix = prefix.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                Network { address: IpAddr::from((u32::from(v4) & mask).to_be_bytes()), prefix }
            }
            IpAddr::V6(v6) => {
                let prefix = prefix.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                Network { address: IpAddr::from((u128::from(v6) & mask).to_be_bytes()), prefix }
            }
        }
    }

    /// True if the address is on it.
    pub fn holds(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && Network::of(address, self.prefix) == *self
    }

    /// The address of this number on it, from 0; `None`: there are not so many.
    pub fn nth(&self, number: u8) -> Option<IpAddr> {
        let address = match self.address {
            IpAddr::V4(v4) => IpAddr::from((u32::from(v4) | u32::from(number)).to_be_bytes()),
            IpAddr::V6(v6) => IpAddr::from((u128::from(v6) | u128::from(number)).to_be_bytes()),
        };
        self.holds(address).then_some(address)
    }

    /// The address of the network.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The length of its prefix, bits.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// A link to a neighbouring domain. Both domains know it by the network that they share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Border {
    /// The neighbour's name.
    pub neighbour: String,
    /// The network of the link.
    pub link: Network,
}

/// An end of a way through a domain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DomainPort {
    /// The domain's own hosts.
    Inside,
    /// A link to a neighbour.
    At(Border),
}

/// An amount that is free from a moment on, until the next step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FreeStep {
    /// The first moment.
    pub start: Time,
    /// The rate that is free, bit/s of IP bytes; rounded down.
    pub rate: Rate,
}

/// A way through a domain: packets come in at one port and leave by another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BorderPair {
    /// The port by which packets come in.
    pub from: DomainPort,
    /// The port by which they leave.
    pub to: DomainPort,
    /// The most that could ever be reserved.
    pub rate: Rate,
    /// The cost of the way; at least 1.
    pub cost: u32,
    /// The free amounts, in order. Before the first step and after the advertisement nothing is known to be free; the
    /// last one goes on.
    pub free: Vec<FreeStep>,
}

impl BorderPair {
    /// The least that is free at any moment from `start` to `end`.
    pub fn free_in(&self, start: Time, end: Time) -> Rate {
        let Some(first) = self.free.iter().rposition(|step| step.start <= start) else { return Rate::ZERO };
        let during = self.free[first..].iter().take_while(|step| step.start <= start || step.start < end);
        during.map(|step| step.rate).min().unwrap_or(Rate::ZERO).min(self.rate)
    }
}

/// All that a domain publishes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Advertisement {
    /// The domain.
    pub domain: String,
    /// The number; each is higher than the one before.
    pub number: u64,
    /// The moment of publication.
    pub issued: Time,
    /// The moment from which it is not believed.
    pub until: Time,
    /// The networks of the domain's hosts.
    pub networks: Vec<Network>,
    /// The ways through it.
    pub pairs: Vec<BorderPair>,
}

/// The reason why an advertisement is not believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// Another domain signed it.
    NotItsOwn,
    /// It is not newer than the one that is there.
    NotNewer,
    /// It is over, or not yet valid, or valid for too long.
    Time,
    /// A limit is exceeded.
    TooMuch,
    /// A pair leads nowhere, is there twice, or its steps are not in order.
    Malformed,
    /// There are too many domains.
    TooManyDomains,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::NotItsOwn => "another domain signed it",
            Unfit::NotNewer => "it is not newer than the one that is known",
            Unfit::Time => "it is over, not valid yet, or valid for too long",
            Unfit::TooMuch => "it has more networks, pairs or steps than any may have",
            Unfit::Malformed => "a pair leads nowhere, is there twice, or its steps are not in order",
            Unfit::TooManyDomains => "too many domains are known",
        })
    }
}

impl core::error::Error for Unfit {}

impl Advertisement {
    /// Checks what can be checked without knowing others.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn check(&self, now: Time) -> Result<(), Unfit> {
        let long = self.until.since(self.issued) > MOST_LIFE;
        if now >= self.until || self.until <= self.issued || long || self.issued > now.saturating_add(MOST_LIFE) {
            return Err(Unfit::Time);
        }
        let steps = self.pairs.iter().any(|pair| pair.free.len() > MOST_STEPS);
        let name = self.domain.is_empty() || self.domain.len() > MOST_NAME;
        if self.networks.len() > MOST_NETWORKS || self.pairs.len() > MOST_PAIRS || steps || name {
            return Err(Unfit::TooMuch);
        }
        let mut ends = BTreeSet::new();
        let good = |pair: &BorderPair| {
            let own = |port: &DomainPort| matches!(port, DomainPort::At(border) if border.neighbour == self.domain);
            let ordered = pair.free.windows(2).all(|two| two[0].start < two[1].start);
            pair.from != pair.to && pair.cost > 0 && ordered && !own(&pair.from) && !own(&pair.to)
        };
        if self.pairs.iter().all(|pair| good(pair) && ends.insert((&pair.from, &pair.to))) {
            Ok(())
        } else {
            Err(Unfit::Malformed)
        }
    }
}
