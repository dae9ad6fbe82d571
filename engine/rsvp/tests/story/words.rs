//! Refusals in words: forms of RSVP that are read, shown and not offered (`FAULTS` P21, P34).

use crate::story::net::*;
use std::cell::RefCell;
use std::rc::Rc;
use terms::{Span, Style};
use wire::iana::class;
use wire::objects::Content;
use wire::{Builder, Message, MessageType};

const R: Span = Span::from_secs(30);
/// A Tspec of the null service: the largest packet alone (RFC 2997).
const NULL_SERVICE: [u8; 16] = [0, 0, 0, 3, 6, 0, 0, 2, 128, 0, 0, 1, 0, 0, 5, 220];

/// All that node 1 sends.
fn listened(net: &mut Net) -> Rc<RefCell<Vec<Vec<u8>>>> {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&heard);
    net.fate = Box::new(move |_, f| {
        if f.from == 1 {
            keep.borrow_mut().push(f.datagram.bytes.clone());
        }
        Fate::Deliver
    });
    heard
}

/// What node 1 answers: the kind, Error Code, Error Value and the words. Nothing changes.
fn answer(net: &mut Net, from: &Forged, bytes: &[u8]) -> (&'static str, u8, u16, String) {
    let digests = net.digests();
    let heard = listened(net);
    net.inject_bytes(1, from, bytes);
    assert_eq!(net.digests(), digests, "refused and yet changed something");
    let heard = heard.borrow();
    let message = Message::parse(&heard[0]).unwrap();
    let mut found = (message.kind().name(), 0, 0, String::new());
    for object in message.envelope().objects {
        match wire::objects::decode(&object) {
            Ok(Content::ErrorSpec(spec)) => (found.1, found.2) = (spec.code, spec.value),
            Ok(Content::UserError(words)) => found.3 = words.text.to_owned(),
            _ => {}
        }
    }
    found
}

#[test]
fn the_null_service_is_refused_in_words() {
    let refused = "the null service (RFC 2997) is not offered";
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.announce(0, 3, 3);
    net.run(Span::from_millis(50));
    let (session, sender) = (net.session_at(3), net.template_at(0).into());
    let from = net.upstream_of(1);
    let head = Builder::new(MessageType::Path, 255).session(&session).hop(&from.hop).time_values(R);
    let path = head.sender_template(&sender).raw(class::SENDER_TSPEC, 2, &NULL_SERVICE).finish().unwrap();
    let (kind, code, value, words) = answer(&mut net, &from, &path);
    assert_eq!((kind, code, value), ("PathErr", 21, 2));
    assert!(words.contains(refused), "{words}");
    for style in [Style::Ff, Style::Se] {
        let from = net.downstream_of(1);
        let head = Builder::new(MessageType::Resv, 255).session(&session).hop(&from.hop).time_values(R).style(style);
        let resv = head.raw(class::FLOWSPEC, 2, &NULL_SERVICE).filter_spec(&sender).finish().unwrap();
        let (kind, code, value, words) = answer(&mut net, &from, &resv);
        assert_eq!((kind, code, value), ("ResvErr", 21, 2), "{style:?}");
        assert!(words.contains(refused), "{words}");
    }
}

/// The answer about an aggregate session quotes it as it came.
#[test]
fn an_aggregate_session_is_quoted_in_its_refusal() {
    let mut net = Net::reserved_line(R, 3);
    let heard = listened(&mut net);
    let forged = net.upstream_of(1);
    let session = [10, 0, 2, 2, 0, 0, 0, 46];
    let path = Builder::new(MessageType::Path, forged.ttl).raw(class::SESSION, 9, &session).hop(&forged.hop);
    let path = path.time_values(R).raw(class::SENDER_TEMPLATE, 9, &[10, 0, 0, 1]).sender_tspec(&tspec(3));
    let digests = net.digests();
    net.inject_bytes(1, &forged, &path.finish().unwrap());
    assert_eq!(net.digests(), digests);
    let heard = heard.borrow();
    let found = wire::Salvage::read(&heard[0]).unwrap();
    assert_eq!((found.kind, found.named().map(|o| (o.ctype, o.body))), (MessageType::PathErr, Some((9, &session[..]))));
    let words = found.of_class(class::USER_ERROR_SPEC).next().map(|o| String::from_utf8_lossy(o.body).into_owned());
    assert!(words.as_deref().is_some_and(|w| w.contains("aggregate sessions (RFC 3175) are not offered")), "{words:?}");
}
