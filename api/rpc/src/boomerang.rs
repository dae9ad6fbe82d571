//! Boomerang over the agent's socket: what is asked, what there is. Sites, whose packets are one session: [`SitePrefix`].

use crate::agent::{FlowMeasured, Installed};
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

/// Whose packets, forward: a Classifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClassifierDoc {
    /// Source; null: our address on the way to the far end.
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

/// Which bits of it count; null: all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MaskDoc {
    /// Of the source.
    pub src: IpAddr,
    /// Of the destination.
    pub dst: IpAddr,
    /// Of the protocol.
    pub protocol: u8,
    /// Of the source port.
    pub src_port: u16,
    /// Of the destination port.
    pub dst_port: u16,
}

/// A host, or a site: all addresses that begin alike, `10.1.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SitePrefix {
    /// Its first address.
    pub addr: IpAddr,
    /// How many bits its addresses have in common.
    pub length: u8,
}

impl SitePrefix {
    /// One address.
    pub fn host(addr: IpAddr) -> SitePrefix {
        SitePrefix { addr, length: if addr.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether it is one address.
    pub fn is_host(&self) -> bool {
        *self == SitePrefix::host(self.addr)
    }

    /// The bits that its addresses have in common.
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

/// Whose packets go from one site to another, and which bits of that count. `src` is our own address if it is not said; a
/// protocol and ports that are not said are any.
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

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BoomerangAsk {
    /// Who answers the ping; or a multicast group, with `no_echo`.
    pub far_end: IpAddr,
    /// Whose packets.
    pub flow: ClassifierDoc,
    /// Which bits of that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskDoc>,
    /// How much; more than one: what would do, best first (DOWNGRADE).
    pub rates: Vec<RatesDoc>,
    /// What is taken when a node refuses; nothing less than asked by default.
    #[serde(default)]
    pub at_least: RatesDoc,
    /// Seconds between refreshes.
    #[serde(default = "refresh")]
    pub refresh_s: u8,
    /// Nobody shall answer.
    #[serde(default)]
    pub no_echo: bool,
    /// User ID and credential of the option Boomerang_UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<(u64, u64)>,
    /// Number of the key to prove with who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<u32>,
    /// TTL, or hop limit.
    #[serde(default = "ttl")]
    pub ttl: u8,
    /// Whether IPv4's Router Alert is set.
    #[serde(default)]
    pub router_alert: bool,
    /// Whether it is given back when the connection ends; else when it is released, or the agent stops.
    #[serde(default)]
    pub bound: bool,
}

fn refresh() -> u8 {
    3
}

fn agent() -> String {
    "agent".to_owned()
}

fn ttl() -> u8 {
    64
}

/// A session that this node keeps up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BoomerangSession {
    /// Its number.
    pub number: u64,
    /// The far end.
    pub far_end: IpAddr,
    /// Whose packets, forward: `10.0.0.1:5004 -> 10.0.2.2:5004/17`.
    pub flow: String,
    /// `asking`, `held` or `releasing`; `told`: a group, of which nobody answers.
    pub state: String,
    /// What was asked for, best first.
    pub asked: Vec<RatesDoc>,
    /// What every aware node has reserved; null: nothing yet.
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
    /// Whose packets, in this direction, under the mask.
    pub flow: String,
    /// The mask, unless it is a whole five-tuple's.
    pub mask: Option<MaskDoc>,
    /// Where they leave.
    pub oif: String,
    /// What was asked, bit/s of IP bytes; 0: a request passed that asked for the other direction alone.
    pub asked_bps: u64,
    /// What the ledger counts for it, wire bit/s.
    pub admitted_wire_bps: Option<u64>,
    /// What the plane has for it.
    pub installed: Option<Installed>,
    /// What the plane sees of it.
    pub measured: Option<FlowMeasured>,
    /// Who asked; the kernel's table does not keep it: 0.0.0.0 or ::.
    pub initiator: IpAddr,
    /// Who decides about it: `agent`, or the `kernel`'s fast path.
    #[serde(default = "agent")]
    pub by: String,
    /// The last transaction.
    pub transaction: u32,
    /// Milliseconds until it is over unless it is refreshed.
    pub expires_in_ms: Option<u64>,
    /// Whether it waits for its key.
    pub locked: bool,
}

/// All that there is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BoomerangDoc {
    /// Sessions that this node keeps up; of this and of `blocks` at most [`BoomerangDoc::PAGE`] from where the call said.
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
    /// At most so many blocks in an answer.
    pub const PAGE: usize = 4_096;
}

/// What an application hears of its session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum BoomerangNews {
    /// All aware nodes have reserved.
    Reserved {
        /// How much.
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
        /// What there is, as far as the message came.
        available: RatesDoc,
        /// What stays.
        kept: RatesDoc,
    },
    /// Nobody answered.
    Silent {
        /// So many messages.
        messages: u32,
        /// Whether it is given up.
        over: bool,
    },
    /// The ways out and back met different numbers of aware nodes.
    HopMismatch {
        /// Out.
        forward: u16,
        /// Back.
        reverse: u16,
    },
    /// There is no way to the far end.
    NoRoute,
    /// Given back.
    Released,
}
