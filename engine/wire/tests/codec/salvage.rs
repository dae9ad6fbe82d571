//! Of a message that is refused with an answer, enough is saved to send the answer (RFC 2205 section 3.10).

use crate::codec::seeds::{self, hop4, sender4, session4};
use terms::Style;
use wire::iana::class;
use wire::{Builder, Message, MessageType, Salvage};

/// A seed with one more object, of an unknown class, in front.
fn spoiled(name: &str) -> Vec<u8> {
    let seed = seeds::all().into_iter().find(|s| s.name == name).unwrap();
    let message = Message::parse(&seed.bytes).unwrap();
    let start = Builder::new(message.kind(), 63).raw(0x2a, 1, &[]);
    message.envelope().objects.fold(start, |m, o| m.object(&o)).finish().unwrap()
}

#[test]
fn a_path_gives_what_its_path_err_needs() {
    let bytes = spoiled("path-v4-adspec");
    assert!(Message::parse(&bytes).unwrap_err().answer.is_some());
    let saved = Salvage::read(&bytes).unwrap();
    assert_eq!((saved.kind, saved.session, saved.hop), (MessageType::Path, Some(session4()), Some(hop4())));
    assert_eq!((saved.sender, saved.style), (Some(sender4(1)), None));
    let quoted: Vec<u8> = saved.quotable().map(|o| o.class).collect();
    assert_eq!(quoted, [class::SENDER_TEMPLATE, class::SENDER_TSPEC]);
    assert_eq!(saved.of_class(class::ADSPEC).count(), 1);
}

#[test]
fn a_resv_gives_what_its_resv_err_needs() {
    let bytes = spoiled("resv-v4-ff-inherit");
    let saved = Salvage::read(&bytes).unwrap();
    assert_eq!((saved.kind, saved.session, saved.hop), (MessageType::Resv, Some(session4()), Some(hop4())));
    assert_eq!(saved.style, Some(Style::Ff));
    let quoted: Vec<u8> = saved.quotable().map(|o| o.class).collect();
    assert_eq!(quoted, [class::FLOWSPEC, class::FILTER_SPEC], "the first flow descriptor");
    assert_eq!(saved.of_class(class::FILTER_SPEC).count(), 3);
}

#[test]
fn damage_gives_nothing() {
    let mut bytes = spoiled("resv-v4-ff");
    assert!(Salvage::read(&bytes).is_some());
    let end = bytes.len();
    assert_eq!(Salvage::read(&bytes[..end - 1]), None);
    bytes[3] ^= 1;
    assert_eq!(Salvage::read(&bytes), None, "a wrong checksum");
    bytes[2..4].fill(0);
    bytes[9] = 3;
    assert_eq!(Salvage::read(&bytes), None, "an object of three bytes");
}

#[test]
fn errors_and_tears_quote_nothing() {
    for name in ["patherr-v4-words", "resverr-v4-se", "pathtear-v4", "resvtear-v4-ff", "resvconf-v4-ff"] {
        assert_eq!(Salvage::read(&spoiled(name)).unwrap().quotable().count(), 0, "{name}");
    }
}
