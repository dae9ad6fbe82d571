//! The seed corpus: every message form once, written by the builder, kept in `engine/wire/seeds` as hex that people can
//! read (one object a line), shared by the exhaustive tests, the fuzz targets and the tshark test.

mod errors;
mod neighbours;
mod paths;
mod resvs;

use std::net::IpAddr;
use std::path::PathBuf;
use terms::{Bytes, FilterSpec, FlowSpec, Rate, Rspec, Session, Span, Tspec};
use wire::{Builder, FilterObject, MessageType, RsvpHop};

/// One message with the line that says what it is.
pub struct Seed {
    pub name: &'static str,
    pub about: &'static str,
    pub bytes: Vec<u8>,
}

/// All seeds, as the builder writes them.
pub fn all() -> Vec<Seed> {
    let mut all = paths::seeds();
    all.extend(resvs::seeds());
    all.extend(errors::seeds());
    all.extend(neighbours::seeds());
    all.extend(neighbours::gpi());
    all
}

/// Where the corpus lies.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds")
}

/// The bytes of a hex file: `#` begins a comment.
pub fn read_hex(text: &str) -> Vec<u8> {
    let digits: String =
        text.lines().flat_map(|l| l.split('#').next().unwrap().chars()).filter(|c| !c.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte");
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// A seed as a hex file: what it is, the common header, then one object a line.
pub fn write_hex(seed: &Seed) -> String {
    let mut out = format!("# {}\n", seed.about);
    let mut line = |bytes: &[u8], what: &str| {
        let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
        out += &format!("{}  # {what}\n", hex.join(" "));
    };
    line(&seed.bytes[..8], "common header");
    let end = usize::from(u16::from_be_bytes([seed.bytes[6], seed.bytes[7]]));
    let mut at = 8;
    while at < end {
        let sub = seed.bytes[1] == MessageType::Bundle.number();
        let place = if sub { at + 6 } else { at };
        let length = usize::from(u16::from_be_bytes([seed.bytes[place], seed.bytes[place + 1]]));
        let what = if sub { "sub-message" } else { wire::iana::class::name(seed.bytes[at + 2]) };
        line(&seed.bytes[at..at + length], what);
        at += length;
    }
    if end < seed.bytes.len() {
        line(&seed.bytes[end..], "beyond RSVP Length");
    }
    out
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn session4() -> Session {
    Session { dst: ip("10.0.2.2"), protocol: 17, dst_port: 5004 }
}

pub fn session6() -> Session {
    Session { dst: ip("2001:db8:2::2"), protocol: 17, dst_port: 5004 }
}

pub fn sender4(last: u8) -> FilterObject {
    FilterSpec { src: IpAddr::from([10, 0, 1, last]), src_port: 5004 }.into()
}

pub fn sender6(last: u16) -> FilterObject {
    let src = format!("2001:db8:1::{last:x}").parse().unwrap();
    FilterSpec { src, src_port: 5004 }.into()
}

pub fn hop4() -> RsvpHop {
    RsvpHop { addr: ip("10.0.1.254"), lih: 0x0a }
}

pub fn hop6() -> RsvpHop {
    RsvpHop { addr: ip("2001:db8:1::fe"), lih: 0xdead_beef }
}

/// The video of the demonstration: 3.1 Mb/s.
pub fn video() -> Tspec {
    Tspec { r: Rate::from_kbps(3_200), b: Bytes::new(8_192), p: Rate::from_mbps(10), m: 64, M: 1_500 }
}

pub fn controlled() -> FlowSpec {
    FlowSpec::ControlledLoad(video())
}

pub fn guaranteed() -> FlowSpec {
    FlowSpec::Guaranteed(video(), Rspec { R: Rate::from_kbps(3_600), S: Span::from_millis(5) })
}

pub fn start(kind: MessageType) -> Builder {
    Builder::new(kind, 63)
}

pub fn seed(name: &'static str, about: &'static str, message: Builder) -> Seed {
    Seed { name, about, bytes: message.finish().expect("a seed fits") }
}
