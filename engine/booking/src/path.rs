//! The path service (GARA section 3.2): the resources between two hosts, computed from the interfaces that
//! agents publish.
//!
//! An interface leads from its agent into a subnet, and from there without cost to every other agent on it.
//! Reservations are for packets that leave an interface. A host that is no agent is on its address's subnet.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

/// The most interfaces that a graph takes.
pub const MOST_INTERFACES: usize = 65_536;

/// An interface as its agent publishes it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PublishedLink {
    /// The name of its agent.
    pub agent: String,
    /// The resource that packets leaving by it use: `net/eth1`.
    pub resource: String,
    /// Its address.
    pub address: IpAddr,
    /// The length of the subnet's prefix, bits.
    pub prefix: u8,
    /// The cost of leaving by it; at least 1.
    pub cost: u32,
}

/// A subnet: its address with the host's bits zero, and how many bits are left.
type Subnet = (IpAddr, u8);

/// A graph of agents and subnets, joined by interfaces.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    interfaces: Vec<PublishedLink>,
    /// Interfaces by agent, and by subnet.
    of: BTreeMap<String, Vec<usize>>,
    on: BTreeMap<Subnet, Vec<usize>>,
}

/// A path: the interfaces by which it leaves, in order, by their index in the published list.
pub type Path = Vec<usize>;

/// An end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathEnd<'a> {
    /// A host: the agent that has the address, or else any host of the narrowest published subnet that contains it.
    Host(IpAddr),
    /// An agent.
    Agent(&'a str),
    /// Any host of a published subnet: an address of it, and the length of its prefix.
    Subnet(IpAddr, u8),
}

/// A place that a search has reached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place<'a> {
    Agent(&'a str),
    Subnet(Subnet),
}

/// The error for an address that is on no subnet of any agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nowhere(pub IpAddr);

fn subnet(address: IpAddr, prefix: u8) -> Subnet {
    match address {
        IpAddr::V4(v4) => {
            let prefix = prefix.min(32);
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            (IpAddr::from((u32::from(v4) & mask).to_be_bytes()), prefix)
        }
        IpAddr::V6(v6) => {
            let prefix = prefix.min(128);
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            (IpAddr::from((u128::from(v6) & mask).to_be_bytes()), prefix)
        }
    }
}

impl Graph {
    /// A graph of these interfaces; those beyond [`MOST_INTERFACES`] are left out.
    pub fn new(mut interfaces: Vec<PublishedLink>) -> Graph {
        interfaces.truncate(MOST_INTERFACES);
        let (mut of, mut on): (BTreeMap<String, Vec<usize>>, BTreeMap<Subnet, Vec<usize>>) = Default::default();
        for (n, interface) in interfaces.iter().enumerate() {
            of.entry(interface.agent.clone()).or_default().push(n);
            on.entry(subnet(interface.address, interface.prefix)).or_default().push(n);
        }
        Graph { interfaces, of, on }
    }

    /// The interfaces, as they were published.
    pub fn interfaces(&self) -> &[PublishedLink] {
        &self.interfaces
    }

    /// The place of an address: the agent that has it, or the narrowest published subnet that contains it.
    fn place(&self, address: IpAddr) -> Result<Place<'_>, Nowhere> {
        if let Some(own) = self.interfaces.iter().find(|interface| interface.address == address) {
            return Ok(Place::Agent(&own.agent));
        }
        let holds = |at: &&Subnet| at.0.is_ipv4() == address.is_ipv4() && subnet(address, at.1) == **at;
        let found = self.on.keys().filter(holds).max_by_key(|at| at.1);
        found.map(|at| Place::Subnet(*at)).ok_or(Nowhere(address))
    }

    /// The place of an end; `None`: nothing is published about it.
    fn end(&self, end: PathEnd<'_>) -> Option<Place<'_>> {
        match end {
            PathEnd::Host(address) => self.place(address).ok(),
            PathEnd::Agent(name) => self.of.get_key_value(name).map(|(name, _)| Place::Agent(name)),
            PathEnd::Subnet(address, prefix) => {
                self.on.get_key_value(&subnet(address, prefix)).map(|(at, _)| Place::Subnet(*at))
            }
        }
    }

    /// The sum of the costs of a path's interfaces.
    pub fn cost(&self, path: &Path) -> u64 {
        path.iter().filter_map(|&n| self.interfaces.get(n)).map(|interface| u64::from(interface.cost.max(1))).sum()
    }

    /// The path of least cost by usable interfaces; of equals the one with fewer of them, then the one that
    /// was published first. `Ok(None)`: there is none.
    ///
    /// # Errors
    /// [`Nowhere`]: an end is at no published place.
    pub fn shortest(
        &self,
        from: IpAddr,
        to: IpAddr,
        usable: impl FnMut(usize) -> bool,
    ) -> Result<Option<Path>, Nowhere> {
        Ok(self.search(self.place(from)?, self.place(to)?, usable))
    }

    fn search<'a>(&'a self, start: Place<'a>, goal: Place<'a>, mut usable: impl FnMut(usize) -> bool) -> Option<Path> {
        // Every place that is reached, by what it costs; the next is always the cheapest that is not done.
        let mut reached: BTreeMap<Place<'_>, (u64, Path, bool)> = BTreeMap::new();
        reached.insert(start, (0, Path::new(), false));
        loop {
            let open = reached.iter().filter(|(_, (.., done))| !done);
            let next = open.min_by(|(_, a), (_, b)| (a.0, a.1.len(), &a.1).cmp(&(b.0, b.1.len(), &b.1)));
            let (place, (cost, path, _)) = next.map(|(place, at)| (place.clone(), at.clone()))?;
            if place == goal {
                return Some(path);
            }
            reached.insert(place.clone(), (cost, path.clone(), true));
            for (next, leaves) in self.beyond(&place) {
                if leaves.is_some_and(|n| !usable(n)) {
                    continue;
                }
                let mut longer = path.clone();
                longer.extend(leaves);
                let cost = cost + leaves.map_or(0, |n| u64::from(self.interfaces[n].cost.max(1)));
                let better = |at: &(u64, Path, bool)| (cost, longer.len(), &longer) < (at.0, at.1.len(), &at.1);
                if reached.get(&next).is_none_or(better) {
                    reached.insert(next, (cost, longer, false));
                }
            }
        }
    }

    /// The places next to a place, and the interface by which each is reached.
    fn beyond<'a>(&'a self, place: &Place<'a>) -> Vec<(Place<'a>, Option<usize>)> {
        match place {
            Place::Agent(agent) => {
                let own = self.of.get(*agent).map(Vec::as_slice).unwrap_or_default();
                own.iter().map(|&n| (Place::Subnet(self.subnet_of(n)), Some(n))).collect()
            }
            Place::Subnet(at) => {
                let on = self.on.get(at).map(Vec::as_slice).unwrap_or_default();
                on.iter().map(|&n| (Place::Agent(&self.interfaces[n].agent), None)).collect()
            }
        }
    }

    fn subnet_of(&self, n: usize) -> Subnet {
        subnet(self.interfaces[n].address, self.interfaces[n].prefix)
    }

    /// The shortest path and others, each the shortest without one of the interfaces of the first (by whatever
    /// address); at most `most` in all, the cheapest first.
    ///
    /// # Errors
    /// As [`Graph::shortest`].
    pub fn ways(
        &self,
        from: IpAddr,
        to: IpAddr,
        most: usize,
        usable: impl FnMut(usize) -> bool,
    ) -> Result<Vec<Path>, Nowhere> {
        Ok(self.several((self.place(from)?, self.place(to)?), most, usable))
    }

    /// The same between two ends. Empty: there is none, or nothing is published about an end. Between an end and
    /// itself the only path is empty.
    pub fn ways_between(
        &self,
        from: PathEnd<'_>,
        to: PathEnd<'_>,
        most: usize,
        usable: impl FnMut(usize) -> bool,
    ) -> Vec<Path> {
        let (Some(from), Some(to)) = (self.end(from), self.end(to)) else { return Vec::new() };
        self.several((from, to), most, usable)
    }

    /// True if both are one interface of an agent: it is published once for each of its addresses.
    fn is_same_link(&self, a: usize, b: usize) -> bool {
        let (one, other) = (&self.interfaces[a], &self.interfaces[b]);
        a == b || !one.resource.is_empty() && (&one.agent, &one.resource) == (&other.agent, &other.resource)
    }

    fn several<'a>(
        &'a self,
        ends: (Place<'a>, Place<'a>),
        most: usize,
        mut usable: impl FnMut(usize) -> bool,
    ) -> Vec<Path> {
        let (from, to) = ends;
        let Some(first) = self.search(from.clone(), to.clone(), &mut usable) else { return Vec::new() };
        let mut others: Vec<(u64, Path)> = Vec::new();
        for without in &first {
            let other = self.search(from.clone(), to.clone(), |n| !self.is_same_link(n, *without) && usable(n));
            let Some(path) = other.filter(|path| others.iter().all(|(_, known)| known != path)) else { continue };
            others.push((self.cost(&path), path));
        }
        others.sort_by(|a, b| (a.0, a.1.len(), &a.1).cmp(&(b.0, b.1.len(), &b.1)));
        let mut ways = alloc::vec![first];
        ways.extend(others.into_iter().map(|(_, path)| path));
        ways.truncate(most);
        ways
    }
}

impl core::fmt::Display for Nowhere {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} is on no subnet of any agent", self.0)
    }
}

impl core::error::Error for Nowhere {}
