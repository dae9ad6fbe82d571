//! Total on any bytes (`FAULTS` P8 to P15, P56; I19): every one-bit flip, every truncation, every 16-bit value at every
//! offset, over the seed corpus. Nothing here may panic; what is accepted must be walkable to its end.

mod seeds;

use std::hint::black_box;
use wire::{Message, Salvage};

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
        Message::PathErr(_) | Message::PathTear(_) => {}
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

/// Every 16-bit value at every offset: of two seeds here (a Path and a Resv with everything in it, 18 M parses), and
/// the values next to every edge at every offset of all others.
#[test]
fn p56_every_16_bit_value_at_every_offset() {
    let whole = ["path-v4-adspec-origin", "resv-v4-confirm"];
    let edges: Vec<u16> =
        (0..16).flat_map(|shift| [(1u16 << shift) - 1, 1 << shift, (1 << shift) + 1, !(1 << shift)]).collect();
    let mut parses = 0u64;
    for seed in seeds::all() {
        let mut bytes = bare(&seed);
        for at in 0..bytes.len() - 1 {
            let old = [bytes[at], bytes[at + 1]];
            let mut put = |value: u16| {
                bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
                black_box(exercise(&bytes));
                parses += 1;
            };
            match whole.contains(&seed.name) {
                true => (0..=u16::MAX).for_each(&mut put),
                false => edges.iter().copied().for_each(&mut put),
            }
            bytes[at..at + 2].copy_from_slice(&old);
        }
    }
    println!("{parses} parses");
    assert!(parses > 11_000_000);
}

/// Every value that fits, and the largest ones, of every object's Length field (`FAULTS` P8, P9, P11, P12, P13): the object is accepted only where all
/// lengths add up.
#[test]
fn p8_p9_p11_p12_every_object_length() {
    for seed in seeds::all() {
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
