//! IPv4, IPv6 and UDP headers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::hint::black_box;
use wire::ip::{Packet, Udp};

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = Packet::parse(bytes) else { return };
    black_box((packet.router_alert(), packet.is_fragment(), packet.ttl()));
    let payload = packet.payload();
    assert!(payload.len() <= bytes.len());
    if let Ok(udp) = Udp::parse(payload) {
        assert!(udp.payload.len() + 8 <= payload.len());
    }
    let _ = black_box(wire::Message::parse(payload));
});
