//! The engine of flows that never signalled: its list, its table of candidates, its rules, and its life.

mod candidates;
mod life;
mod list;
mod recogniser;
mod rules;

use std::net::{IpAddr, Ipv4Addr};
use terms::{FlowKey, Span, Time, Wild};

/// A UDP flow of the sender `n` to this port.
fn flow(n: u32, dst_port: u16) -> FlowKey {
    FlowKey {
        src: IpAddr::V4(Ipv4Addr::from(0x0a00_0001 + n)),
        dst: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        protocol: 17,
        src_port: 40_000,
        dst_port,
        wild: Wild::NONE,
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO.saturating_add(Span::from_millis(ms))
}
