//! Flows and their traffic in words.

use crate::rates::rate;
use documents::agent::{FlowSpecDoc, SenderId, SessionId, TspecDoc};

/// `10.0.0.1:5004 -> 10.0.2.2:5004 udp`.
pub fn flow(session: &SessionId, sender: &SenderId) -> String {
    let protocol = match session.protocol {
        17 => "udp".to_string(),
        6 => "tcp".to_string(),
        n => format!("protocol {n}"),
    };
    format!("{} -> {} {protocol}", end(sender.src, sender.src_port), end(session.dst, session.dst_port.into()))
}

/// Address and port; a security parameter index is no port and is written as such.
pub fn end(addr: std::net::IpAddr, port: u32) -> String {
    match u16::try_from(port) {
        Ok(port) => std::net::SocketAddr::new(addr, port).to_string(),
        Err(_) => format!("{addr} spi {port:#x}"),
    }
}

/// `3.2mbit burst 64kb`.
pub fn traffic(t: &TspecDoc) -> String {
    format!("{} burst {}", rate(t.r_bps), terms::Bytes::new(t.b_bytes))
}

/// `controlled load 3.2mbit burst 64kb`.
pub fn wanted(f: &FlowSpecDoc) -> String {
    match f {
        FlowSpecDoc::ControlledLoad { tspec } => format!("controlled load {}", traffic(tspec)),
        FlowSpecDoc::Guaranteed { tspec, rate_bps, slack_us } => {
            format!("guaranteed {} R {} slack {slack_us}us", traffic(tspec), rate(*rate_bps))
        }
    }
}
