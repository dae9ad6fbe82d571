//! The committed corpus is what the builder writes today (golden bytes), each seed is accepted, and nothing reserved
//! is lost: decoding and writing again gives the same bytes. `BLESS=1` rewrites the files after a deliberate change.
//! And the fault table in `docs/wire.md` names the tests that there are.

use crate::codec::seeds;

use std::collections::BTreeSet;
use wire::{Builder, Message};

#[test]
fn the_files_are_what_the_builder_writes() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut expected = BTreeSet::new();
    for seed in seeds::all() {
        let path = seeds::folder().join(format!("{}.hex", seed.name));
        assert!(expected.insert(path.clone()), "{} twice", seed.name);
        let text = seeds::write_hex(&seed);
        assert_eq!(seeds::read_hex(&text), seed.bytes, "{}", seed.name);
        if bless {
            std::fs::create_dir_all(seeds::folder()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(there, text, "{}: run with BLESS=1 if the change is meant", seed.name);
    }
    let found: BTreeSet<_> = std::fs::read_dir(seeds::folder()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(found, expected, "files in the folder and seeds");
    assert!(expected.len() >= 40);
}

#[test]
fn every_seed_is_accepted_and_says_its_type() {
    for seed in seeds::all() {
        let message = Message::parse(&seed.bytes).unwrap_or_else(|e| panic!("{}: {e}", seed.name));
        let kind = seed.name.split('-').next().unwrap();
        assert_eq!(message.kind().name().to_lowercase().replace(' ', ""), kind, "{}", seed.name);
    }
}

#[test]
fn copying_objects_gives_the_same_bytes() {
    for seed in seeds::all() {
        let message = Message::parse(&seed.bytes).unwrap();
        let envelope = message.envelope();
        let mut copy = Builder::new(message.kind(), envelope.header.send_ttl);
        for object in envelope.objects {
            copy = copy.object(&object);
        }
        if let Message::Bundle(bundle) = message {
            copy = bundle.messages().fold(copy, |copy, m| copy.sub_message(m));
        }
        let mut bytes = copy.flags(envelope.header.flags).finish().unwrap();
        if envelope.header.checksum == 0 {
            bytes[2..4].fill(0);
        }
        assert_eq!(bytes, seed.bytes[..envelope.header.length], "{}", seed.name);
    }
}

#[test]
fn the_fault_table_names_its_tests() {
    let root = seeds::folder().join("..");
    let page = std::fs::read_to_string(root.join("../../docs/wire.md")).unwrap();
    let is_fault = |name: &&str| name.starts_with('p') && name[1..].starts_with(|c: char| c.is_ascii_digit());
    let named: BTreeSet<String> = page.split('`').filter(is_fault).map(str::to_owned).collect();
    let mut there = BTreeSet::new();
    for entry in std::fs::read_dir(root.join("tests/codec")).unwrap().map(|e| e.unwrap().path()) {
        let Ok(text) = std::fs::read_to_string(entry) else { continue };
        let tests = text.lines().filter_map(|l| l.strip_prefix("fn ")?.strip_suffix("() {"));
        there.extend(tests.filter(is_fault).map(str::to_owned));
    }
    assert_eq!(named, there);
    assert!(page.contains(&format!("{} messages in `engine/wire/seeds`", seeds::all().len())));
}
