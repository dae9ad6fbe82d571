//! Documents of Boomerang over the agent's socket: requests, sessions and blocks. [`SitePrefix`] is a site,
//! whose packets are one session.

use crate::rows::{FlowMeasured, Installed};
use crate::words::words;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A forward and a reverse rate, bit/s of IP bytes; 0: nothing in that direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RatesDoc {
    /// Away from the initiating node.
    #[serde(default)]
    pub forward_bps: u32,
    /// Towards it.
    #[serde(default)]
    pub reverse_bps: u32,
}

/// A Classifier: the forward packets of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClassifierDoc {
    /// Source; null: the agent's own address on the way to the far end.
    pub src: Option<IpAddr>,
    /// Destination; null: the far end.
    pub dst: Option<IpAddr>,
    /// IP protocol number.
    pub protocol: u8,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// The mask of a Classifier: the bits that count. Null: all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MaskDoc {
    /// The mask of the source.
    pub src: IpAddr,
    /// The mask of the destination.
    pub dst: IpAddr,
    /// The mask of the protocol.
    pub protocol: u8,
    /// The mask of the source port.
    pub src_port: u16,
    /// The mask of the destination port.
    pub dst_port: u16,
}

/// A host, or a site: all addresses that begin alike, `10.1.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SitePrefix {
    /// Its first address.
    pub addr: IpAddr,
    /// The number of leading bits that its addresses have in common.
    pub length: u8,
}

impl SitePrefix {
    /// The prefix of one address.
    pub fn host(addr: IpAddr) -> SitePrefix {
        SitePrefix { addr, length: if addr.is_ipv4() { 32 } else { 128 } }
    }

    /// True if it is one address.
    pub fn is_host(&self) -> bool {
        *self == SitePrefix::host(self.addr)
    }

    /// The mask of the bits that its addresses have in common.
    pub fn mask(&self) -> IpAddr {
        let length = u32::from(self.length);
        match self.addr {
            IpAddr::V4(_) => Ipv4Addr::from_bits(!u32::MAX.checked_shr(length).unwrap_or(0)).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(!u128::MAX.checked_shr(length).unwrap_or(0)).into(),
        }
    }

    fn is_proper(&self) -> bool {
        match (self.addr, self.mask()) {
            (IpAddr::V4(addr), IpAddr::V4(mask)) => addr & !mask == Ipv4Addr::UNSPECIFIED,
            (IpAddr::V6(addr), IpAddr::V6(mask)) => addr & !mask == Ipv6Addr::UNSPECIFIED,
            _ => false,
        }
    }
}

impl FromStr for SitePrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<SitePrefix, String> {
        let wrong =
            || format!("{text:?} is neither an address nor a prefix: write 10.1.0.1, 10.1.0.0/16 or fd00:1::/48");
        let Some((addr, length)) = text.split_once('/') else {
            return text.parse().map(SitePrefix::host).map_err(|_| wrong());
        };
        let addr: IpAddr = addr.parse().map_err(|_| wrong())?;
        let length = length.parse().ok().filter(|length| *length <= SitePrefix::host(addr).length).ok_or_else(wrong)?;
        let prefix = SitePrefix { addr, length };
        let beyond = || format!("{text:?} says something behind its first {length} bits: they are to be zero");
        if prefix.is_proper() { Ok(prefix) } else { Err(beyond()) }
    }
}

/// The Classifier and the mask of packets from one site to another. Without `src` the source is the agent's
/// own address; without a protocol or port, any matches.
pub fn between(
    src: Option<SitePrefix>,
    dst: SitePrefix,
    protocol: Option<u8>,
    ports: (Option<u16>, Option<u16>),
) -> (ClassifierDoc, MaskDoc) {
    let all = |port: Option<u16>| if port.is_some() { u16::MAX } else { 0 };
    let mask = MaskDoc {
        src: src.map_or_else(|| SitePrefix::host(dst.addr).mask(), |src| src.mask()),
        dst: dst.mask(),
        protocol: if protocol.is_some() { u8::MAX } else { 0 },
        src_port: all(ports.0),
        dst_port: all(ports.1),
    };
    let flow = ClassifierDoc {
        src: src.map(|src| src.addr),
        dst: Some(dst.addr),
        protocol: protocol.unwrap_or(0),
        src_port: ports.0.unwrap_or(0),
        dst_port: ports.1.unwrap_or(0),
    };
    (flow, mask)
}

/// A request for a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BoomerangAsk {
    /// The node that answers the ping; or a multicast group, with `no_echo`.
    pub far_end: IpAddr,
    /// The packets of the session.
    pub flow: ClassifierDoc,
    /// The bits of the Classifier that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskDoc>,
    /// The rates; if there are several, the best comes first, and each would do (DOWNGRADE).
    pub rates: Vec<RatesDoc>,
    /// The least rates to take when a node refuses; by default nothing less than asked.
    #[serde(default)]
    pub at_least: RatesDoc,
    /// Seconds between refreshes.
    #[serde(default = "refresh")]
    pub refresh_s: u8,
    /// True if no node shall answer.
    #[serde(default)]
    pub no_echo: bool,
    /// User ID and credential of the option Boomerang_UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<(u64, u64)>,
    /// The number of the key that proves who the initiator is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<u32>,
    /// TTL, or hop limit.
    #[serde(default = "ttl")]
    pub ttl: u8,
    /// True if IPv4's Router Alert is set.
    #[serde(default)]
    pub router_alert: bool,
    /// True if it is released when the connection ends; otherwise it lasts until a release or the agent's
    /// stop.
    #[serde(default)]
    pub bound: bool,
}

fn refresh() -> u8 {
    3
}

fn agent() -> BlockKeeper {
    BlockKeeper::Agent
}

fn ttl() -> u8 {
    64
}

words! {
    /// The state of a session at the node that keeps it up.
    InitiatorState {
        /// A request is on its way.
        Asking = "asking",
        /// Every aware node has reserved.
        Held = "held",
        /// It is being given back.
        Releasing = "releasing",
        /// A multicast group was told; it does not answer.
        Told = "told",
    }
}

words! {
    /// The part of a node that decides about a session block.
    BlockKeeper {
        /// The agent.
        Agent = "agent",
        /// The kernel's fast path.
        Kernel = "kernel",
    }
}

/// A session that this node keeps up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BoomerangSession {
    /// Its number.
    pub number: u64,
    /// The far end.
    pub far_end: IpAddr,
    /// The forward packets: `10.0.0.1:5004 -> 10.0.2.2:5004/17`.
    pub flow: String,
    /// Its state.
    pub state: InitiatorState,
    /// The requested rates, best first.
    pub asked: Vec<RatesDoc>,
    /// The rates that every aware node has reserved; null: nothing yet.
    pub granted: Option<RatesDoc>,
    /// Seconds between refreshes.
    pub refresh_s: u8,
    /// Aware nodes on the way out, if they were counted.
    pub hops_forward: Option<u16>,
    /// Aware nodes on the way back.
    pub hops_reverse: Option<u16>,
    /// Messages without an answer, in a row.
    pub silent: u32,
    /// The last transaction.
    pub transaction: u32,
}

/// A session block: one direction of a session on the interface that its packets leave by.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BoomerangBlock {
    /// The packets of this direction, under the mask.
    pub flow: String,
    /// The mask, unless it is a whole five-tuple's.
    pub mask: Option<MaskDoc>,
    /// The interface by which they leave.
    pub oif: String,
    /// The requested rate, bit/s of IP bytes; 0: a request passed that asked for the other direction alone.
    pub asked_bps: u64,
    /// The rate that the ledger counts for it, wire bit/s.
    pub admitted_wire_bps: Option<u64>,
    /// The reservation in the plane.
    pub installed: Option<Installed>,
    /// The plane's measurement.
    pub measured: Option<FlowMeasured>,
    /// The initiator; 0.0.0.0 or :: for the kernel's table, which does not keep it.
    pub initiator: IpAddr,
    /// The part that decides about it.
    #[serde(default = "agent")]
    pub by: BlockKeeper,
    /// The last transaction.
    pub transaction: u32,
    /// Milliseconds until it is over unless it is refreshed.
    pub expires_in_ms: Option<u64>,
    /// True if it waits for its key.
    pub locked: bool,
}

/// The sessions and blocks of a node, a page.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BoomerangDoc {
    /// Sessions that this node keeps up: at most [`BoomerangDoc::PAGE`] from where the call said, as with
    /// `blocks`.
    pub sessions: Vec<BoomerangSession>,
    /// Session blocks of this node: those of its engine, then those of the kernel's table.
    pub blocks: Vec<BoomerangBlock>,
    /// Sessions on all pages.
    #[serde(default)]
    pub all_sessions: u64,
    /// Session blocks on all pages.
    #[serde(default)]
    pub all_blocks: u64,
}

impl BoomerangDoc {
    /// The most rows of each list in an answer.
    pub const PAGE: usize = 4_096;
}

/// An event of a session, for its application.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum BoomerangNews {
    /// All aware nodes have reserved.
    Reserved {
        /// The rates.
        rates: RatesDoc,
        /// Seconds between refreshes.
        refresh_s: u8,
        /// Aware nodes on the way out, if they were counted.
        hops_forward: Option<u16>,
        /// Aware nodes on the way back.
        hops_reverse: Option<u16>,
    },
    /// A node refused.
    Refused {
        /// The rates available, as far as the message came.
        available: RatesDoc,
        /// The rates that stay reserved.
        kept: RatesDoc,
    },
    /// No node answered.
    Silent {
        /// The number of messages without an answer.
        messages: u32,
        /// True if the session is given up.
        over: bool,
    },
    /// The ways out and back met different numbers of aware nodes.
    HopMismatch {
        /// The number on the way out.
        forward: u16,
        /// The number on the way back.
        reverse: u16,
    },
    /// There is no way to the far end.
    NoRoute,
    /// The session is released.
    Released,
}
