//! The traffic control request for a session block: controlled load, one sender, the block's rate, and a
//! bucket from the node's configuration, because a message has no field for bursts.

use crate::half::HalfKey;
use crate::io::Config;
use core::net::IpAddr;
use terms::ports::{Police, TcRequest};
use terms::{Bytes, FilterSpec, FlowKey, FlowSpec, Rate, Session, Span, Style, Tspec};
use wire::boomerang::Selector;

/// The packets of a request, in the data plane's terms.
pub(crate) struct Whose {
    session: Session,
    style: Style,
    filter: Option<FilterSpec>,
}

/// The packets of a flow, if a data plane can match them (`docs/plane.md`): the five-tuple; both addresses
/// and the protocol; any sender to a port; any sender; prefixes. `None`: another mask, or an unusable flow.
pub(crate) fn whose(flow: &FlowKey, mask: Option<&Selector>) -> Option<Whose> {
    let style = mask.map_or(Some(Style::Ff), form_of)?;
    // Zero is how a data plane says "any": what is meant must not be that very number.
    let meant = |mask: &Selector| {
        let says = |bits: u16, port: u16| bits == 0 || port != 0 || !flow.is_masked();
        (mask.protocol == 0 || flow.protocol != 0)
            && says(mask.src_port, flow.src_port)
            && says(mask.dst_port, flow.dst_port)
    };
    let named = |address: IpAddr| !address.is_unspecified() && !address.is_loopback();
    let anybody = style == Style::Wf || (flow.is_masked() && mask.is_some_and(|mask| mask.src.is_unspecified()));
    // A source port of zero is any in a data plane, and this mask says that it counts.
    if style == Style::Ff && flow.is_of_any_source_port() {
        return None;
    }
    let sender = anybody || (named(flow.src) && !flow.src.is_multicast());
    if !mask.map_or(flow.protocol != 0, meant) || !named(flow.dst) || !sender {
        return None;
    }
    let session = Session { dst: flow.dst, protocol: flow.protocol, dst_port: flow.dst_port };
    Some(Whose { session, style, filter: (style == Style::Ff).then(|| flow.sender(&session)) })
}

/// True if data planes can tell apart the packets under this mask, in the direction that it is written for.
pub fn is_told_apart(mask: &Selector) -> bool {
    mask.is_exact() || form_of(mask).is_some()
}

/// The style for a mask other than a whole five-tuple's: FF for one sender or prefixes, WF for any sender.
fn form_of(mask: &Selector) -> Option<Style> {
    let wild = mask.wild()?;
    let (src_any, dst_any) = (mask.src.is_unspecified(), mask.dst.is_unspecified());
    let whole = |bits: u16| matches!(bits, 0 | u16::MAX);
    if dst_any || !matches!(mask.protocol, 0 | u8::MAX) || !whole(mask.src_port) || !whole(mask.dst_port) {
        return None;
    }
    let prefixes = wild.dst > 0 || (wild.src > 0 && !src_any) || mask.protocol == 0;
    match (src_any, mask.src_port, mask.dst_port) {
        _ if prefixes => Some(Style::Ff),
        (false, 0, 0) => Some(Style::Ff),
        (true, 0, _) => Some(Style::Wf),
        _ => None,
    }
}

impl Whose {
    /// The request for `rate`, in bit/s.
    pub fn request(&self, config: &Config, key: &HalfKey, rate: u32, lifetime: Span, entry: bool) -> TcRequest<'_> {
        let rate = Rate::from_bps(u64::from(rate));
        let depth = rate.demands(config.burst).get().max(u64::from(config.least_burst));
        let tspec = Tspec { r: rate, b: Bytes::new(depth), p: Rate::INFINITE, m: config.min_packet, M: 0 };
        TcRequest {
            oif: key.oif,
            session: self.session,
            style: self.style,
            filters: self.filter.as_slice(),
            wild: key.flow.wild,
            flowspec: FlowSpec::ControlledLoad(tspec),
            path_te: tspec,
            police: Police { entry, ..Police::default() },
            lifetime,
            priority: None,
        }
    }
}
