//! What a session block asks of traffic control: controlled load, one sender, its rate, and the bucket that the node's
//! configuration gives it, because a message has no word for bursts.

use crate::half::HalfKey;
use crate::io::Config;
use core::net::IpAddr;
use terms::ports::{Police, TcRequest};
use terms::{Bytes, FilterSpec, FlowKey, FlowSpec, Rate, Session, Span, Style, Tspec};
use wire::boomerang::Selector;

/// Whose packets, in the data plane's terms.
pub(crate) struct Whose {
    session: Session,
    style: Style,
    filter: Option<FilterSpec>,
}

/// What of a flow a data plane can tell apart (`docs/plane.md`): the five-tuple; both addresses and the protocol; any
/// sender to a port; any sender. `None`: another mask, or a flow that names nobody.
pub(crate) fn whose(flow: &FlowKey, mask: Option<&Selector>) -> Option<Whose> {
    let (senders, ports) = match mask {
        None => (true, true),
        Some(mask) => parts_of(mask)?,
    };
    let named = |address: IpAddr| !address.is_unspecified() && !address.is_loopback();
    if flow.protocol == 0 || !named(flow.dst) || (senders && (!named(flow.src) || flow.src.is_multicast())) {
        return None;
    }
    let session = Session { dst: flow.dst, protocol: flow.protocol, dst_port: if ports { flow.dst_port } else { 0 } };
    let style = if senders { Style::Ff } else { Style::Wf };
    Some(Whose { session, style, filter: senders.then(|| flow.sender(&session)) })
}

/// Whether data planes can tell apart the packets under this mask, in the direction that it is written for. Prefixes of
/// addresses are not among them: plan, ledger and the kernel's flow map are keyed by whole addresses.
pub fn is_told_apart(mask: &Selector) -> bool {
    mask.is_exact() || parts_of(mask).is_some()
}

/// Whether a mask that is not a whole five-tuple's names senders, and ports.
fn parts_of(mask: &Selector) -> Option<(bool, bool)> {
    let all = |address: IpAddr| bits_of(address) == Some(true);
    let none = |address: IpAddr| bits_of(address) == Some(false);
    if !all(mask.dst) || mask.protocol != u8::MAX {
        return None;
    }
    match (mask.src_port, mask.dst_port) {
        (0, 0) if all(mask.src) => Some((true, false)),
        (0, 0 | u16::MAX) if none(mask.src) => Some((false, mask.dst_port != 0)),
        _ => None,
    }
}

/// Whether a mask's address has all bits (`Some(true)`), none, or some (`None`).
fn bits_of(address: IpAddr) -> Option<bool> {
    let octets = |all: &[u8]| {
        let first = *all.first()?;
        (matches!(first, 0 | 0xff) && all.iter().all(|octet| *octet == first)).then_some(first != 0)
    };
    match address {
        IpAddr::V4(address) => octets(&address.octets()),
        IpAddr::V6(address) => octets(&address.octets()),
    }
}

impl Whose {
    /// The request for `rate`.
    pub fn request(&self, config: &Config, key: &HalfKey, rate: u32, lifetime: Span, entry: bool) -> TcRequest<'_> {
        let rate = Rate::from_bps(u64::from(rate));
        let depth = rate.demands(config.burst).get().max(u64::from(config.least_burst));
        let tspec = Tspec { r: rate, b: Bytes::new(depth), p: Rate::INFINITE, m: config.min_packet, M: 0 };
        TcRequest {
            oif: key.oif,
            session: self.session,
            style: self.style,
            filters: self.filter.as_slice(),
            flowspec: FlowSpec::ControlledLoad(tspec),
            path_te: tspec,
            police: Police { entry, ..Police::default() },
            lifetime,
            priority: None,
        }
    }
}
