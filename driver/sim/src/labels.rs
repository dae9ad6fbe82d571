//! The parts of packets' headers that never change: they follow from the number of a packet's source or
//! connection, so packets do not carry them.

use crate::map::RouteMap;
use crate::packet::TCP;
use crate::scenario::{Scenario, TcpSpec};
use std::net::{IpAddr, Ipv4Addr};
use terms::{FlowKey, Wild};

/// The headers of all sources and connections.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    data: Vec<FlowKey>,
    tcp: Vec<TcpLabel>,
}

#[derive(Debug)]
struct TcpLabel {
    flow: FlowKey,
    mss: u32,
    window: u32,
}

impl Labels {
    /// The headers of a valid scenario.
    pub(crate) fn new(scenario: &Scenario, map: &RouteMap) -> Labels {
        let data = scenario.sources.iter().map(|source| source.flow).collect();
        Labels { data, tcp: scenario.connections.iter().map(|spec| label(spec, map)).collect() }
    }

    /// The five-tuple of a source's packets.
    pub(crate) fn of_source(&self, number: u32) -> FlowKey {
        self.data[number as usize]
    }

    /// The five-tuple of the packets that a connection's sender sends.
    pub(crate) fn of_connection(&self, number: u32) -> FlowKey {
        self.tcp[number as usize].flow
    }

    /// A connection's bytes in a full segment, and its receiver's window in bytes.
    pub(crate) fn sizes(&self, number: u32) -> (u32, u32) {
        let TcpLabel { mss, window, .. } = self.tcp[number as usize];
        (mss, window)
    }
}

fn label(spec: &TcpSpec, map: &RouteMap) -> TcpLabel {
    let address = |node| map.address(node).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let flow = FlowKey {
        src: address(spec.from),
        dst: address(spec.to),
        protocol: TCP,
        src_port: spec.ports.0,
        dst_port: spec.ports.1,
        wild: Wild::NONE,
    };
    let window = u32::try_from(spec.tcp.window.get()).unwrap_or(u32::MAX).min(1 << 30);
    TcpLabel { flow, mss: spec.tcp.mss, window }
}

/// The five-tuple of the opposite direction.
pub(crate) fn reverse(flow: FlowKey) -> FlowKey {
    let FlowKey { src, dst, protocol, src_port, dst_port, .. } = flow;
    FlowKey { src: dst, dst: src, protocol, src_port: dst_port, dst_port: src_port, wild: Wild::NONE }
}
