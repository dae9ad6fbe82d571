//! Bindings of parts to packets or processes, at any time of a booking's life (GARA section 3.1, `bind`).

use crate::{FlowKey, Wild};
use alloc::string::String;
use core::net::IpAddr;

/// The packets or processes that a part serves.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Binding {
    /// A network part: these packets.
    Flow(BoundFlow),
    /// A processor or disk part: all threads of this process, also those to come.
    Process(Task),
    /// A processor part: this one thread.
    Thread(Task),
    /// A processor or disk part: all in this control group, by its path below the hierarchy's root. A network part: all
    /// packets that are sent in it, on the host of the interface.
    Cgroup(String),
}

/// A process or thread, named so that a later one of the same number is not taken for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Task {
    /// The process or thread number.
    pub number: u32,
    /// Its start, clock ticks since boot (field 22 of `/proc/PID/stat`, proc(5)); zero: not looked up yet.
    pub start: u64,
}

impl Task {
    /// The task that has this number at the time of the look-up.
    pub const fn numbered(number: u32) -> Task {
        Task { number, start: 0 }
    }
}

/// Packets by their five-tuple; a field that is `None` matches any value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BoundFlow {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// Source port.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
}

impl BoundFlow {
    /// The one flow of TCP or UDP that this is; `None`: a field is open, it is another protocol's, or no flow can be it.
    pub fn whole(&self) -> Option<FlowKey> {
        let (src, dst) = (self.src?, self.dst?);
        let protocol = self.protocol.filter(|protocol| matches!(protocol, 6 | 17))?;
        let [src_port, dst_port] = [self.src_port?, self.dst_port?];
        let possible = src.is_ipv4() == dst.is_ipv4() && src_port > 0 && dst_port > 0;
        possible.then_some(FlowKey { src, dst, protocol, src_port, dst_port, wild: Wild::NONE })
    }

    /// True if the flow includes these packets.
    pub fn covers(&self, key: &FlowKey) -> bool {
        fn fits<T: PartialEq>(wanted: Option<T>, is: T) -> bool {
            wanted.is_none_or(|wanted| wanted == is)
        }
        fits(self.src, key.src)
            && fits(self.dst, key.dst)
            && fits(self.protocol, key.protocol)
            && fits(self.src_port, key.src_port)
            && fits(self.dst_port, key.dst_port)
    }

    /// True if one packet could belong to both flows.
    pub fn meets(&self, other: &BoundFlow) -> bool {
        fn may<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        may(self.src, other.src)
            && may(self.dst, other.dst)
            && may(self.protocol, other.protocol)
            && may(self.src_port, other.src_port)
            && may(self.dst_port, other.dst_port)
    }

    /// The mistake in the flow: no field is set, two address families, or ports of a protocol without ports.
    pub fn fault(&self) -> Option<&'static str> {
        let families = [self.src, self.dst].map(|address| address.map(|a| a.is_ipv4()));
        let ports = self.src_port.is_some() || self.dst_port.is_some();
        match (families, self.protocol) {
            _ if *self == BoundFlow::default() => Some("names no packets: give at least an address or a port"),
            ([Some(a), Some(b)], _) if a != b => Some("source and destination are of different address families"),
            (_, Some(0)) => Some("protocol 0 is no protocol"),
            // A reservation of these could silence all signalling.
            (_, Some(46)) => Some("is of RSVP, which belongs to no reservation"),
            (_, None) if ports => Some("has ports but no protocol: say udp or tcp"),
            (_, Some(protocol)) if ports && !matches!(protocol, 6 | 17 | 33 | 132 | 136) => {
                Some("has ports of a protocol that has none")
            }
            _ => None,
        }
    }

    /// True if the packets are TCP's.
    pub fn is_tcp(&self) -> bool {
        self.protocol == Some(6)
    }
}
