//! RSVP messages: parse, every view, the description, and what is salvaged of a refused one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::hint::black_box;
use wire::describe::{Value, Visitor};
use wire::{Builder, Message, Salvage, describe};

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    if let Some(checksum) = bytes.get_mut(2..4) {
        // "Not checked": a checksum would keep every change out.
        checksum.fill(0);
    }
    let Ok(message) = Message::parse(&bytes) else {
        black_box(Salvage::read(&bytes).map(|s| s.quotable().count()));
        return;
    };
    walk(&message);
    let mut copy = Builder::new(message.kind(), message.envelope().header.send_ttl);
    for object in message.envelope().objects {
        copy = copy.object(&object);
    }
    if let Message::Bundle(bundle) = message {
        copy = bundle.messages().fold(copy, |copy, m| copy.sub_message(m));
    }
    let copy = copy.finish().expect("it fitted before");
    let again = Message::parse(&copy).expect("the same objects are accepted again");
    assert_eq!(said(&message), said(&again));
});

fn walk(message: &Message<'_>) {
    black_box(message.envelope().forwarded().count() + message.envelope().policy_data().count());
    match message {
        Message::Resv(m) => assert!(m.flows().count() > 0),
        Message::ResvConf(m) => assert!(m.flows().count() > 0),
        Message::ResvErr(m) => drop(black_box(m.flows().count())),
        Message::ResvTear(m) => assert!(m.flows().count() > 0),
        Message::Bundle(m) => m.messages().for_each(|m| _ = black_box(Message::parse(m).is_ok())),
        Message::Srefresh(m) => drop(black_box(m.lists().flat_map(|l| l.ids()).fold(0, u32::wrapping_add))),
        Message::Ack(m) => assert!(m.envelope.acks().count() > 0),
        Message::Path(_) | Message::PathErr(_) | Message::PathTear(_) | Message::Hello(_) => {}
        Message::IntegrityChallenge(_) | Message::IntegrityResponse(_) => {}
    }
}

/// The description as text, without the checksum and the flags that a copy does not have.
fn said(message: &Message<'_>) -> Vec<String> {
    struct Lines(Vec<String>);
    impl Visitor for Lines {
        fn field(&mut self, name: &'static str, value: Value<'_>) {
            if !(self.0.len() < 7 && matches!(name, "RSVP_Checksum" | "Flags")) {
                self.0.push(format!("{name} {value:?}"));
            }
        }
        fn item(&mut self, value: Value<'_>) {
            self.0.push(format!("{value:?}"));
        }
        fn list(&mut self, name: &'static str) {
            self.0.push(name.into());
        }
        fn record(&mut self, name: Option<&'static str>) {
            self.0.push(format!("{name:?}"));
        }
        fn end(&mut self) {}
    }
    let mut lines = Lines(Vec::new());
    describe(message, &mut lines);
    lines.0
}
