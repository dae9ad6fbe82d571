//! Decode makes no heap allocation (I19), whatever the bytes; neither does writing into a caller's buffer.

#[path = "../../wheel/tests/counting/mod.rs"]
mod counting;

use counting::allocations;
use std::hint::black_box;
use std::path::Path;
use terms::Session;
use wire::boomerang::{self, Places, ProbePacket, Rates};
use wire::describe::{FieldValue, Visitor};
use wire::{Builder, Message, MessageType, Outline, Salvage, describe};

/// Counts what it is told, without keeping it.
struct Counter(usize);

impl Visitor for Counter {
    fn field(&mut self, _: &'static str, _: FieldValue<'_>) {
        self.0 += 1;
    }
    fn item(&mut self, _: FieldValue<'_>) {
        self.0 += 1;
    }
    fn list(&mut self, _: &'static str) {}
    fn record(&mut self, _: Option<&'static str>) {}
    fn end(&mut self) {}
}

fn read(bytes: &[u8]) {
    black_box(Outline::read(bytes).map(|o| o.signed_parts(bytes).is_some())).ok();
    black_box(Salvage::read(bytes).map(|s| s.quotable().count()));
    let Ok(message) = Message::parse(bytes) else { return };
    let mut counter = Counter(0);
    describe(&message, &mut counter);
    let flows = match &message {
        Message::Resv(m) => m.flows().count(),
        Message::ResvErr(m) => m.flows().count(),
        Message::Srefresh(m) => m.lists().map(|l| l.ids().count()).sum(),
        Message::Bundle(m) => m.messages().filter(|m| Message::parse(m).is_ok()).count(),
        Message::Ack(m) => m.envelope.acks().count(),
        _ => 0,
    };
    black_box((counter.0, flows));
}

/// The bytes of a hex file; `#` begins a comment.
fn seed(path: &Path) -> Vec<u8> {
    let text = std::fs::read_to_string(path).unwrap();
    let digits: String = text.lines().flat_map(|l| l.split('#').next().unwrap().split_whitespace()).collect();
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Reads, describes and rewrites a Boomerang message.
fn probe(bytes: &mut [u8]) {
    let Ok(probe) = ProbePacket::parse(bytes) else { return };
    let mut counter = Counter(0);
    boomerang::describe(&probe.message, &mut counter);
    let mut rewrite = Places::of(&probe).within(bytes);
    rewrite.nack();
    rewrite.key(0);
    rewrite.rates(0, Rates::default());
    rewrite.count();
    black_box(boomerang::forwarded(bytes));
}

#[test]
fn decode_allocates_nothing() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/seeds");
    let mut seeds: Vec<Vec<u8>> = std::fs::read_dir(folder).unwrap().map(|e| seed(&e.unwrap().path())).collect();
    assert!(seeds.len() >= 40);
    let session = Session { dst: [10, 0, 2, 2].into(), protocol: 17, dst_port: 5004 };
    let mut buffer = [0u8; 64];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/probes");
    let mut probes: Vec<Vec<u8>> = std::fs::read_dir(folder).unwrap().map(|e| seed(&e.unwrap().path())).collect();
    assert!(probes.len() >= 10);
    let mut length = Ok(0);
    let count = allocations(|| {
        for packet in &mut probes {
            for at in 0..packet.len() {
                probe(&mut packet[..at]);
            }
            assert!(ProbePacket::parse(packet).is_ok());
            probe(packet);
        }
        for seed in &mut seeds {
            for at in 0..seed.len() {
                read(seed);
                read(&seed[..at]);
                let old = std::mem::replace(&mut seed[at], 0xa5);
                read(seed);
                seed[at] = old;
            }
        }
        length = Builder::within(&mut buffer, MessageType::PathTear, 1).session(&session).finish();
    });
    assert_eq!(length, Ok(20));
    assert_eq!(count, 0);
    assert_ne!(allocations(|| drop(black_box(Box::new(1)))), 0, "the counter counts");
}
