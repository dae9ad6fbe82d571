//! The hooks for Boomerang's programs that `[boomerang] fast_path = "auto"` chooses on each interface.

use crate::netlink::Socket;
use crate::netlink::netdev::{Netdev, XdpFeatures};
use terms::Fault;

/// The hooks for Boomerang's programs on one interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EchoPath {
    /// The interface's name.
    pub interface: String,
    /// The driver's XDP features; `None`: the kernel does not report them (before Linux 6.3), so that the
    /// agent tries at its start.
    pub xdp: Option<XdpFeatures>,
    /// True if programs can be attached to the ingress and egress of traffic control by links (TCX, Linux
    /// 6.6).
    pub tcx: bool,
}

impl EchoPath {
    /// `native`, `generic` (XDP after the driver: of no use, as traffic control's ingress is as fast) or
    /// `unknown`.
    pub fn xdp_word(&self) -> &'static str {
        match self.xdp {
            Some(features) if features.is_native() => "native",
            Some(_) => "generic",
            None => "unknown",
        }
    }

    /// The hook that `fast_path = "auto"` chooses: `driver`, `ingress`, or `none` (every message goes to the
    /// agent). Packets admitted in the kernel must be policed at the egress, so there is no fast path without
    /// TCX.
    pub fn auto(&self) -> &'static str {
        match (self.tcx, self.xdp.is_some_and(XdpFeatures::is_native)) {
            (false, _) => "none",
            (true, true) => "driver",
            (true, false) => "ingress",
        }
    }

    /// The same as text for people.
    pub fn says(&self) -> &'static str {
        match (self.auto(), self.xdp) {
            ("driver", _) => "XDP in the driver (native), TCX at the egress",
            ("ingress", None) => "TCX at ingress and egress, or XDP in the driver if the device has it",
            ("ingress", _) => "TCX at ingress and egress: this device has no XDP in its driver",
            _ => "not possible without TCX (Linux 6.6): the agent reads Boomerang's messages nowhere",
        }
    }
}

/// Every interface of the calling thread's network namespace except the loopback.
pub(super) fn paths(tcx: bool) -> Result<Vec<EchoPath>, Fault> {
    let links = Socket::open()?.links()?;
    let mut netdev = Netdev::open().ok();
    let of = |link: crate::netlink::link::LinkState| {
        let xdp = netdev.as_mut().and_then(|netdev| netdev.xdp_features(link.index).ok());
        EchoPath { interface: link.name, xdp, tcx }
    };
    Ok(links.into_iter().filter(|link| !link.loopback).map(of).collect())
}
