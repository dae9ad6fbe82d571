//! Total on any bytes (`FAULTS` P8 to P15, P56; I19): every one-bit flip, every truncation, every 16-bit value at every
//! offset, over the seed corpus. Nothing here may panic; what is accepted must be walkable to its end.

use crate::codec::seeds;

use std::hint::black_box;
use wire::{Message, MessageType, Salvage};

/// Parses, and walks over all that a parsed message offers.
fn exercise(bytes: &[u8]) -> bool {
    let Ok(message) = Message::parse(bytes) else { return false };
    walk(&message);
    true
}

fn walk(message: &Message<'_>) {
    let envelope = message.envelope();
    black_box(envelope.objects.count() + envelope.forwarded().count() + envelope.policy_data().count());
    match message {
        Message::Path(m) => drop(black_box(m.adspec.map(|a| a.fragments.count()))),
        Message::Resv(m) => {
            assert!(m.flows().count() > 0, "a Resv without flow descriptors");
            black_box(m.scope.map(|s| s.iter().count()));
        }
        Message::ResvConf(m) => assert!(m.flows().count() > 0, "a ResvConf without flow descriptors"),
        Message::ResvErr(m) => drop(black_box(m.flows().count())),
        Message::ResvTear(m) => assert!(m.flows().count() > 0, "a ResvTear without flow descriptors"),
        Message::Bundle(m) => assert!(m.messages().inspect(|m| _ = black_box(Message::parse(m).is_ok())).count() > 0),
        Message::Ack(_) => assert!(envelope.acks().count() > 0, "an Ack of nothing"),
        Message::Srefresh(m) => {
            assert!(m.lists().count() > 0, "an Srefresh without a list");
            black_box(m.lists().flat_map(|l| l.ids()).map(u64::from).sum::<u64>());
        }
        Message::PathErr(_) | Message::PathTear(_) | Message::Hello(_) => {}
        Message::IntegrityChallenge(m) => assert!(!m.challenge.cookie.is_empty()),
        Message::IntegrityResponse(m) => assert!(!m.challenge.cookie.is_empty() && m.integrity.digest.len() >= 16),
    }
}

/// The seed without a checksum, so that a change reaches the objects.
fn bare(seed: &seeds::Seed) -> Vec<u8> {
    let mut bytes = seed.bytes.clone();
    bytes[2..4].fill(0);
    bytes
}

#[test]
fn p56_every_one_bit_flip_of_every_seed() {
    let mut parses = 0u32;
    for seed in seeds::all() {
        for mut bytes in [seed.bytes.clone(), bare(&seed)] {
            let covered = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let accepted = exercise(&bytes);
                let checked = bytes[2..4] != [0, 0] && bit / 8 < covered;
                assert!(!(accepted && checked), "{}: bit {bit} passed the checksum", seed.name);
                black_box(Salvage::read(&bytes));
                bytes[bit / 8] ^= 1 << (bit % 8);
                parses += 1;
            }
        }
    }
    println!("{parses} parses");
}

#[test]
fn p56_every_truncation_of_every_seed() {
    for seed in seeds::all() {
        let bytes = bare(&seed);
        let covered = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
        for cut in 0..bytes.len() {
            assert_eq!(exercise(&bytes[..cut]), cut >= covered, "{} cut to {cut}", seed.name);
            // The same with an RSVP Length that fits the cut.
            let mut short = bytes[..cut].to_vec();
            if cut >= 8 {
                short[6..8].copy_from_slice(&(cut as u16).to_be_bytes());
                exercise(&short);
            }
        }
    }
}

/// Puts each of `values` at every offset of a seed, and parses; how often.
fn every_value_at_every_offset(seed: &seeds::Seed, values: &[u16]) -> u64 {
    let mut bytes = bare(seed);
    let mut parses = 0;
    for at in 0..bytes.len() - 1 {
        let old = [bytes[at], bytes[at + 1]];
        for value in values {
            bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
            black_box(exercise(&bytes));
            parses += 1;
        }
        bytes[at..at + 2].copy_from_slice(&old);
    }
    parses
}

fn every_value_of(name: &str) -> u64 {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let seed = seeds::all().into_iter().find(|s| s.name == name).unwrap();
    every_value_at_every_offset(&seed, &all)
}

/// A Path with everything in it: 11 million parses.
#[test]
fn p56_every_16_bit_value_at_every_offset_of_a_path() {
    assert!(every_value_of("path-v4-adspec-origin") > 11_000_000);
}

/// A Resv that asks for a confirmation: 6.7 million parses.
#[test]
fn p56_every_16_bit_value_at_every_offset_of_a_resv() {
    assert!(every_value_of("resv-v4-confirm") > 6_700_000);
}

/// The values next to every power of two, at every offset of every seed.
#[test]
fn p56_edge_values_at_every_offset_of_every_seed() {
    let around = |shift: u32| [(1u16 << shift) - 1, 1 << shift, (1 << shift) + 1, !(1 << shift)];
    let edges: Vec<u16> = (0..16).flat_map(around).collect();
    let parses: u64 = seeds::all().iter().map(|seed| every_value_at_every_offset(seed, &edges)).sum();
    assert!(parses > 400_000);
}

/// Every value that fits, and the largest ones, of every object's Length field (`FAULTS` P8, P9, P11, P12, P13): the object is accepted only where all
/// lengths add up.
#[test]
fn p8_p9_p11_p12_every_object_length() {
    for seed in seeds::all().into_iter().filter(|s| s.bytes[1] != MessageType::Bundle.number()) {
        let mut bytes = bare(&seed);
        let end = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
        let mut at = 8;
        while at < end {
            let length = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            for value in (0..=1_024).chain(u16::MAX - 16..=u16::MAX) {
                bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
                let accepted = exercise(&bytes);
                let possible = value >= 4 && value % 4 == 0 && at + usize::from(value) <= end;
                assert!(possible || !accepted, "{}: length {value} at {at}", seed.name);
                assert!(value != length || accepted, "{}: its own length", seed.name);
            }
            bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
            at += usize::from(length);
        }
    }
}
