//! The newest advertisement of each domain, and whose word it is.

use crate::advertisement::{Advertisement, Unfit};
use crate::search::{self, DomainPath};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{Rate, Time};

/// The most domains.
pub const MOST_DOMAINS: usize = 256;

/// The need of a search: a rate at every moment of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathNeed {
    /// The rate; zero: whatever is free, only the cost counts.
    pub rate: Rate,
    /// The begin of the window.
    pub start: Time,
    /// The end of the window.
    pub end: Time,
}

/// All that is known of domains.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TopologyMap {
    known: BTreeMap<String, Advertisement>,
    /// The highest number of each domain, kept after its advertisement is over: an old one does not come back.
    numbers: BTreeMap<String, u64>,
}

impl TopologyMap {
    /// Takes an advertisement whose signature was checked; `signer` is the domain that signed it.
    ///
    /// # Errors
    /// [`Unfit`]; then nothing has changed.
    pub fn take(&mut self, now: Time, signer: &str, advertisement: Advertisement) -> Result<(), Unfit> {
        if advertisement.domain != signer {
            return Err(Unfit::NotItsOwn);
        }
        advertisement.check(now)?;
        let before = self.numbers.get(signer).copied();
        if before.is_some_and(|before| advertisement.number <= before) {
            return Err(Unfit::NotNewer);
        }
        if before.is_none() && self.numbers.len() >= MOST_DOMAINS {
            return Err(Unfit::TooManyDomains);
        }
        self.numbers.insert(advertisement.domain.clone(), advertisement.number);
        self.known.insert(advertisement.domain.clone(), advertisement);
        Ok(())
    }

    /// Forgets what is over.
    pub fn pass(&mut self, now: Time) {
        self.known.retain(|_, one| now < one.until);
    }

    /// The advertisements, by domain.
    pub fn all(&self) -> impl Iterator<Item = &Advertisement> {
        self.known.values()
    }

    /// The advertisement of a domain.
    pub fn of(&self, domain: &str) -> Option<&Advertisement> {
        self.known.get(domain)
    }

    /// The domain of a host: the one with the narrowest network that holds its address; of equals the first by name.
    pub fn home(&self, now: Time, host: IpAddr) -> Option<&str> {
        let valid = self.known.values().filter(|one| now < one.until);
        let widths = valid.filter_map(|one| {
            let width = one.networks.iter().filter(|network| network.holds(host)).map(|network| network.prefix()).max();
            width.map(|width| (width, one.domain.as_str()))
        });
        widths.max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(a.1))).map(|(_, domain)| domain)
    }

    /// The path of least cost with room, and others, each the best without one way of the first; at most `most`, the
    /// cheapest first. Of equal costs the one over fewer domains comes first, then the first by name. A way between two
    /// domains counts only if both publish their side of it.
    pub fn paths(&self, now: Time, from: IpAddr, to: IpAddr, need: PathNeed, most: usize) -> Vec<DomainPath> {
        let (Some(start), Some(goal)) = (self.home(now, from), self.home(now, to)) else { return Vec::new() };
        let valid: BTreeMap<&str, &Advertisement> =
            self.known.iter().filter(|(_, one)| now < one.until).map(|(name, one)| (name.as_str(), one)).collect();
        search::paths(&valid, (start, goal), need, most)
    }
}
