//! The newest advertisement of each domain, and whose word it is.

use crate::advertisement::{Advertisement, BorderPair, DomainPort, Unfit};
use crate::search::{self, DomainHop, DomainPath};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{Rate, Time};

/// The most domains.
pub const MOST_DOMAINS: usize = 256;

/// The need of a search: a rate at every moment of some windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathNeed<'a> {
    /// The rate; zero: whatever is free, only the cost counts.
    pub rate: Rate,
    /// Begin and end of each window.
    pub windows: &'a [(Time, Time)],
}

impl PathNeed<'_> {
    /// The least that is free on a way in all windows; without windows the way's rate.
    pub fn free(&self, pair: &BorderPair) -> Rate {
        self.windows.iter().map(|(start, end)| pair.free_in(*start, *end)).min().unwrap_or(pair.rate)
    }
}

/// All that is known of domains.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TopologyMap {
    known: BTreeMap<String, Advertisement>,
    /// The highest number of each domain, kept after its advertisement is over: an old one does not come back.
    numbers: BTreeMap<String, u64>,
}

impl TopologyMap {
    /// A map that knows these numbers from before, and nothing else.
    pub fn with_numbers(numbers: impl IntoIterator<Item = (String, u64)>) -> TopologyMap {
        let numbers = numbers.into_iter().take(MOST_DOMAINS).collect();
        TopologyMap { known: BTreeMap::new(), numbers }
    }

    /// The highest number of each domain that was ever taken. Who keeps them refuses old advertisements also after a
    /// restart.
    pub fn numbers(&self) -> &BTreeMap<String, u64> {
        &self.numbers
    }

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
    pub fn paths(&self, now: Time, from: IpAddr, to: IpAddr, need: PathNeed<'_>, most: usize) -> Vec<DomainPath> {
        let (Some(start), Some(goal)) = (self.home(now, from), self.home(now, to)) else { return Vec::new() };
        let valid: BTreeMap<&str, &Advertisement> =
            self.known.iter().filter(|(_, one)| now < one.until).map(|(name, one)| (name.as_str(), one)).collect();
        search::paths(&valid, (start, goal), need, most)
    }

    /// The least that is free on a path in the windows of a need, as the domains publish it; zero if one of its ways is
    /// not published any more. A path inside one domain is not published: `None`.
    pub fn free_on(&self, path: &DomainPath, need: PathNeed<'_>) -> Option<Rate> {
        let inside = |hop: &&DomainHop| hop.from == DomainPort::Inside && hop.to == DomainPort::Inside;
        if path.hops.iter().any(|hop| inside(&hop)) {
            return None;
        }
        let free = |hop: &DomainHop| {
            let pairs = self.of(&hop.domain).map_or(&[][..], |one| &one.pairs);
            let pair = pairs.iter().find(|pair| pair.from == hop.from && pair.to == hop.to);
            pair.map_or(Rate::ZERO, |pair| need.free(pair))
        };
        path.hops.iter().map(free).min()
    }
}
