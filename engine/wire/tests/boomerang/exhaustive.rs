//! Total on any bytes (`FAULTS` P56, B8): every one-bit flip, every truncation, every 16-bit value at every offset of the seed
//! corpus, checksums made right again so that the change reaches the parser. What is accepted can be walked, rewritten and
//! described.

use crate::boomerang::seeds::{self, Seed};
use std::hint::black_box;
use wire::boomerang::{Family, Places, ProbePacket, Rates, describe};
use wire::checksum;
use wire::describe::{FieldValue, Visitor};

struct Ignore;

impl Visitor for Ignore {
    fn field(&mut self, _: &'static str, value: FieldValue<'_>) {
        black_box(value);
    }
    fn item(&mut self, _: FieldValue<'_>) {}
    fn list(&mut self, _: &'static str) {}
    fn record(&mut self, _: Option<&'static str>) {}
    fn end(&mut self) {}
}

/// Parses, and walks over all that a message offers; then rewrites everything that can be.
fn exercise(bytes: &mut [u8], scratch: &mut Vec<u8>) -> bool {
    let Ok(probe) = ProbePacket::parse(bytes) else { return false };
    let message = &probe.message;
    let understood: usize = message.options().count();
    assert!(message.options().remainder().len() + 4 * understood <= message.tail.len());
    assert!(message.qos.count() > 0 && message.qos.iter().count() == message.qos.count());
    assert_eq!(probe.at + message.length, probe.total);
    describe(message, &mut Ignore);
    scratch.clear();
    scratch.extend_from_slice(bytes);
    let mut rewrite = Places::of(&probe).within(scratch);
    rewrite.nack();
    rewrite.refresh(1);
    rewrite.key(0);
    for index in 0..message.qos.count() {
        rewrite.rates(index, Rates::default());
    }
    rewrite.count();
    rewrite.hop_digest(&[0x5a; 16]);
    assert!(ProbePacket::parse(scratch).is_ok(), "what we rewrite is what we read");
    assert_eq!(scratch.len(), bytes.len());
    true
}

/// Makes both checksums right over whatever the bytes say now.
fn reseal(bytes: &mut [u8], family: Family, at: usize) {
    if family == Family::V4 && bytes.len() >= at {
        bytes[10..12].fill(0);
        let sum = checksum::internet(&bytes[..at]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    if bytes.len() < at + 4 {
        return;
    }
    bytes[at + 2..at + 4].fill(0);
    let pseudo = match family {
        Family::V4 => 0,
        Family::V6 => checksum::sum(&bytes[8..40]) + 58 + (bytes.len() - at) as u64,
    };
    let sum = !checksum::fold(checksum::sum(&bytes[at..]) + pseudo);
    bytes[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
}

fn of(seed: &Seed) -> (Family, usize) {
    let probe = ProbePacket::parse(&seed.bytes).unwrap();
    (probe.message.family, probe.at)
}

#[test]
fn p56_every_one_bit_flip_of_every_seed() {
    let mut scratch = Vec::new();
    for seed in seeds::all() {
        let (family, at) = of(&seed);
        let mut bytes = seed.bytes.clone();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            // In the ICMP message one wrong bit is always seen. (In IPv6 nothing protects the header but the pseudo header.)
            let seen = bit / 8 >= at || family == Family::V4;
            assert!(!(exercise(&mut bytes, &mut scratch) && seen), "{}: bit {bit} passed", seed.name);
            let mut sealed = bytes.clone();
            reseal(&mut sealed, family, at);
            exercise(&mut sealed, &mut scratch);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// `FAULTS` B8: a truncated probe is no message, whether its lengths say so or not.
#[test]
fn b8_every_truncation_of_every_seed() {
    let mut scratch = Vec::new();
    for seed in seeds::all() {
        let (family, at) = of(&seed);
        for cut in 0..seed.bytes.len() {
            let mut bytes = seed.bytes[..cut].to_vec();
            assert!(!exercise(&mut bytes, &mut scratch), "{} cut to {cut}", seed.name);
            // The same with an IP length that fits the cut.
            if cut <= at {
                continue;
            }
            let (field, length) = if family == Family::V4 { (2, cut) } else { (4, cut - 40) };
            bytes[field..field + 2].copy_from_slice(&(length as u16).to_be_bytes());
            reseal(&mut bytes, family, at);
            let whole = at + ProbePacket::parse(&seed.bytes).unwrap().message.length;
            let needed = whole - ProbePacket::parse(&seed.bytes).unwrap().message.tail.len();
            assert_eq!(exercise(&mut bytes, &mut scratch), cut >= needed, "{} cut to {cut}, lengths honest", seed.name);
        }
    }
}

/// Puts each of `values` at every offset of a seed, checksums right, and parses; how often.
fn every_value_at_every_offset(seed: &Seed, values: &[u16]) -> u64 {
    let (family, at) = of(seed);
    let (mut bytes, mut scratch, mut parses) = (seed.bytes.clone(), Vec::new(), 0);
    for place in 0..bytes.len() - 1 {
        let old = [bytes[place], bytes[place + 1]];
        for value in values {
            bytes[place..place + 2].copy_from_slice(&value.to_be_bytes());
            reseal(&mut bytes, family, at);
            black_box(exercise(&mut bytes, &mut scratch));
            parses += 1;
        }
        bytes.copy_from_slice(&seed.bytes);
        bytes[place..place + 2].copy_from_slice(&old);
    }
    parses
}

fn named(name: &str) -> Seed {
    seeds::all().into_iter().find(|seed| seed.name == name).unwrap()
}

#[test]
fn p56_every_16_bit_value_at_every_offset_of_the_plain_message() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    assert!(every_value_at_every_offset(&named("request-v4"), &all) > 5_900_000);
}

/// The values next to every power of two, at every offset of every seed.
#[test]
fn p56_edge_values_at_every_offset_of_every_seed() {
    let around = |shift: u32| [(1u16 << shift) - 1, 1 << shift, (1 << shift) + 1, !(1 << shift)];
    let edges: Vec<u16> = (0..16).flat_map(around).collect();
    let parses: u64 = seeds::all().iter().map(|seed| every_value_at_every_offset(seed, &edges)).sum();
    assert!(parses > 100_000);
}
