//! `FAULTS` P8 to P15, P20 to P28, P50: objects, their number, their classes, their order.

use crate::codec::seeds;

use crate::codec::seeds::{controlled, hop4, sender4, session4, video};
use terms::{Span, Style};
use wire::iana::{class, error};
use wire::{Builder, ErrorReply, MalformedMessage, Message, MessageType};

fn path() -> Builder {
    let head = Builder::new(MessageType::Path, 63).session(&session4()).hop(&hop4()).time_values(Span::from_secs(30));
    head.sender_template(&sender4(1)).sender_tspec(&video())
}

fn resv_head() -> Builder {
    Builder::new(MessageType::Resv, 63).session(&session4()).hop(&hop4()).time_values(Span::from_secs(30))
}

fn resv(style: Style) -> Builder {
    resv_head().style(style)
}

fn parse(message: Builder) -> Result<(), MalformedMessage> {
    let bytes = message.finish().unwrap();
    Message::parse(&bytes).map(drop)
}

#[track_caller]
fn silent(message: Builder, what: &str) {
    let fault = parse(message).expect_err(what);
    assert_eq!((fault.what, fault.answer), (what, None));
}

#[track_caller]
fn answered(message: Builder, code: u8, value: u16) -> MalformedMessage {
    let fault = parse(message).expect_err("it must be refused");
    assert_eq!(fault.answer, Some(ErrorReply { code, value }), "{fault}");
    fault
}

/// A message whose only object's Length field says `length`.
fn one_object(length: u16, class: u8) -> Vec<u8> {
    let [hi, lo] = length.to_be_bytes();
    let mut bytes = vec![0x10, 1, 0, 0, 63, 0, 0, 12, hi, lo, class, 1];
    bytes[7] = bytes.len() as u8;
    bytes
}

#[test]
fn p8_p9_object_length_below_its_header() {
    for class in 0..=u8::MAX {
        for length in 0..4 {
            let fault = Message::parse(&one_object(length, class)).unwrap_err();
            assert_eq!((fault.what, fault.offset, fault.answer), ("object length is below 4", 8, None));
        }
    }
}

#[test]
fn p10_every_known_class_with_an_empty_body() {
    let known = [class::SESSION, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 22, 23, 24, 25, 64];
    for class in known {
        for ctype in [1, 2] {
            let bytes = Builder::new(MessageType::Path, 63).raw(class, ctype, &[]).finish().unwrap();
            assert!(Message::parse(&bytes).is_err(), "class {class}");
        }
    }
    assert!(parse(path().raw(class::SCOPE, 1, &[])).is_ok(), "an empty SCOPE means nobody");
    assert!(parse(path().raw(class::NULL, 9, &[])).is_ok());
    silent(path().raw(class::USER_ERROR_SPEC, 1, &[]), "USER_ERROR_SPEC is cut off");
}

#[test]
fn p11_p12_p13_length_against_the_message() {
    let what = |length| Message::parse(&one_object(length, 0)).unwrap_err().what;
    assert_eq!(what(5), "object length is not a multiple of 4");
    assert_eq!(what(8), "object passes the end of what contains it");
    assert_eq!(what(4), "no SESSION", "an object that ends exactly at the end is whole");
}

#[test]
fn p14_p15_number_of_objects() {
    let many = |n: usize| (0..n - 5).fold(path(), |m, _| m.raw(class::NULL, 0, &[]));
    assert!(parse(many(256)).is_ok());
    silent(many(257), "more than 256 objects");
    let mut bytes = vec![0x10, 1, 0, 0, 63, 0, 0xff, 0xfc];
    bytes.extend([0, 4, 0, 0].repeat(16_381));
    assert_eq!(bytes.len(), 65_532);
    assert_eq!(Message::parse(&bytes).unwrap_err().what, "more than 256 objects");
}

#[test]
fn p20_unknown_classes_by_their_high_bits() {
    let known = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 22, 23, 24, 25, 64, 194];
    for class in (0..=u8::MAX).filter(|c| !known.contains(c)) {
        let message = || path().raw(class, 7, &[1, 2, 3, 4]);
        if class < 0x80 {
            answered(message(), error::UNKNOWN_CLASS, u16::from_be_bytes([class, 7]));
            continue;
        }
        let bytes = message().finish().unwrap();
        let parsed = Message::parse(&bytes).unwrap();
        let forwarded: Vec<_> = parsed.envelope().forwarded().map(|o| (o.class, o.ctype, o.body.to_vec())).collect();
        let expected = if class < 0xc0 { vec![] } else { vec![(class, 7, vec![1, 2, 3, 4])] };
        assert_eq!(forwarded, expected, "class {class:#x}");
    }
}

#[test]
fn p20_p21_only_path_and_resv_are_answered() {
    for kind in [3u8, 4, 5, 6, 7] {
        let kind = MessageType::from_number(kind).unwrap();
        let bytes = Builder::new(kind, 63).session(&session4()).raw(0x2a, 1, &[]).finish().unwrap();
        assert_eq!(Message::parse(&bytes).unwrap_err().answer, None, "{kind:?}");
    }
    answered(resv_head().raw(0x2a, 1, &[]), error::UNKNOWN_CLASS, 0x2a01);
}

#[test]
fn p20_damage_beside_an_unknown_class_is_not_answered() {
    let mut bytes = path().raw(0x2a, 1, &[]).raw(class::NULL, 0, &[]).finish().unwrap();
    bytes[2..4].fill(0);
    let last = bytes.len() - 4;
    bytes[last + 1] = 0;
    assert_eq!(Message::parse(&bytes).unwrap_err().answer, None);
}

#[test]
fn p21_unknown_c_types() {
    for class in [1u8, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 22, 23, 24, 25, 64] {
        for ctype in [0, 11, 255] {
            let start = Builder::new(MessageType::Path, 63);
            answered(start.raw(class, ctype, &[0; 8]), error::UNKNOWN_CTYPE, u16::from_be_bytes([class, ctype]));
        }
    }
    // The first after RFC 2207's IPsec forms.
    answered(Builder::new(MessageType::Path, 1).raw(1, 5, &[0; 8]), error::UNKNOWN_CTYPE, 0x0105);
    assert!(parse(path().raw(class::USER_ERROR_SPEC, 2, &[])).is_ok(), "classes above 0xbf pass");
}

/// RFC 3175: what people see of an aggregate session, and the answer.
#[test]
fn p21_aggregate_sessions_are_shown_and_refused() {
    let session4 = [10, 0, 2, 2, 0, 1, 0, 0xee];
    let aggregate = |body: &[u8], sender: &[u8], ctype| {
        let head = Builder::new(MessageType::Path, 63).raw(class::SESSION, ctype, body);
        head.hop(&hop4()).time_values(Span::from_secs(30)).raw(class::SENDER_TEMPLATE, ctype, sender)
    };
    let path = aggregate(&session4, &[10, 0, 1, 1], 9);
    let fault = answered(path, error::UNKNOWN_CTYPE, 0x0109);
    assert_eq!(fault.what, wire::objects::AGGREGATE_REFUSED);
    let bytes = aggregate(&session4, &[10, 0, 1, 1], 9).finish().unwrap();
    let found = wire::Salvage::read(&bytes).unwrap();
    assert_eq!((found.session, found.named().map(|o| (o.ctype, o.body))), (None, Some((9, &session4[..]))));
    let mut six = [0xfd; 20];
    six[16..].copy_from_slice(&[0, 0, 0, 46]);
    answered(aggregate(&six, &[0xfd; 16], 10), error::UNKNOWN_CTYPE, 0x010a);
    silent(aggregate(&session4[..4], &[10, 0, 1, 1], 9), "SESSION has the wrong length");
    silent(aggregate(&six[..12], &[0xfd; 16], 10), "no room for an address");
    // A filter of that form in another session.
    let list = resv(Style::Ff).flowspec(&controlled()).raw(class::FILTER_SPEC, 9, &[10, 0, 1, 1]);
    answered(list, error::UNKNOWN_CTYPE, 0x0a09);
}

/// RFC 2205 section 3.1.3: a Path has no STYLE.
#[test]
fn p26_no_style_in_a_path() {
    silent(path().style(Style::Ff), "STYLE in a Path");
    let twice = path().style(Style::Wf).flowspec(&controlled());
    silent(twice, "STYLE in a Path");
}

/// RFC 2997: a Tspec of the null service says the largest packet alone.
#[test]
fn p34_the_null_service_is_refused_in_words() {
    let tspec = [0, 0, 0, 3, 6, 0, 0, 2, 128, 0, 0, 1, 0, 0, 5, 220];
    let head = Builder::new(MessageType::Path, 63).session(&session4()).hop(&hop4());
    let head = head.time_values(Span::from_secs(30)).sender_template(&sender4(1));
    let fault = answered(head.raw(class::SENDER_TSPEC, 2, &tspec), error::TRAFFIC_CONTROL, 2);
    assert!(fault.what.contains("null service"), "{fault}");
    let bytes = resv(Style::Ff).raw(class::FLOWSPEC, 2, &tspec).filter_spec(&sender4(1)).finish().unwrap();
    let Ok(Message::Resv(resv)) = Message::parse(&bytes) else { panic!("the one flow is refused, not the message") };
    let flow = resv.flows().next().unwrap().flow;
    assert_eq!((flow.service, flow.spec), (wire::iana::service::NULL, None));
    assert!(wire::intserv::unsupported(flow.service).contains("null service"));
}

#[test]
fn p22_null_of_any_length_and_c_type_anywhere() {
    for words in [0usize, 1, 2, 100] {
        assert!(parse(path().raw(class::NULL, words as u8, &vec![0xff; words * 4])).is_ok());
    }
    let list = resv(Style::Ff).raw(0, 0, &[]).flowspec(&controlled()).raw(0, 0, &[]).filter_spec(&sender4(1));
    assert!(parse(list.raw(0, 3, &[])).is_ok());
}

#[test]
fn p23_each_required_object() {
    for (name, needed) in [
        ("path-v4", &[1u8, 3, 5, 11, 12][..]),
        ("resv-v4-ff", &[1, 3, 5, 8, 9, 10]),
        ("patherr-v4-short", &[1, 6]),
        ("resverr-v4-ff-words", &[1, 3, 6, 8]),
        ("pathtear-v4", &[1, 3, 11]),
        ("resvtear-v4-ff", &[1, 3, 8, 10]),
        ("resvconf-v4-ff", &[1, 6, 15, 8, 9, 10]),
    ] {
        let seed = seeds::all().into_iter().find(|s| s.name == name).unwrap();
        let whole = Message::parse(&seed.bytes).unwrap();
        for missing in needed {
            let start = Builder::new(whole.kind(), 63);
            let rest = whole.envelope().objects.filter(|o| o.class != *missing).fold(start, |m, o| m.object(&o));
            let fault = parse(rest).expect_err(name);
            assert_eq!(fault.answer, None, "{name} without {missing}: {fault}");
        }
    }
}

#[test]
fn p24_p25_objects_that_must_be_single() {
    let twice = "object that must be single comes twice";
    silent(path().session(&session4()), twice);
    silent(path().hop(&hop4()), twice);
    silent(path().time_values(Span::ZERO), twice);
    silent(path().sender_template(&sender4(2)), twice);
    silent(path().sender_tspec(&video()), twice);
    silent(resv(Style::Ff).style(Style::Ff), "object after the flow descriptor list began");
}

#[test]
fn p26_order() {
    let turned = seeds::all().into_iter().find(|s| s.name == "path-v4-any-order").unwrap();
    assert!(Message::parse(&turned.bytes).is_ok());
    let list = |m: Builder| m.flowspec(&controlled()).filter_spec(&sender4(1));
    silent(list(resv_head()).style(Style::Ff), "flow descriptor before STYLE");
    silent(list(resv(Style::Ff)).confirm([10, 0, 2, 2].into()), "object after the flow descriptor list began");
    silent(path().integrity(0, 1, 1, 16), "INTEGRITY is not the first object");
}

#[test]
fn p27_ff_lists() {
    let spec = controlled();
    let ff = || resv(Style::Ff);
    silent(ff().filter_spec(&sender4(1)), "FILTER_SPEC before any FLOWSPEC");
    silent(ff().flowspec(&spec), "FLOWSPEC is not followed by a FILTER_SPEC");
    silent(ff().flowspec(&spec).flowspec(&spec).filter_spec(&sender4(1)), "FLOWSPEC is not followed by a FILTER_SPEC");
    silent(ff().flowspec(&spec).filter_spec(&sender4(1)).flowspec(&spec), "FLOWSPEC is not followed by a FILTER_SPEC");
    silent(ff(), "no FLOWSPEC");
    let inherit = seeds::all().into_iter().find(|s| s.name == "resv-v4-ff-inherit").unwrap();
    let Ok(Message::Resv(m)) = Message::parse(&inherit.bytes) else { panic!("not a Resv") };
    let kbps: Vec<_> = m.flows().map(|f| f.flow.spec.unwrap().rate().as_bps() / 1000).collect();
    assert_eq!(kbps, [3_200, 3_200, 64], "the second sender inherits the first one's");
}

#[test]
fn p28_se_wf_and_strange_styles() {
    let spec = controlled();
    silent(resv(Style::Wf).flowspec(&spec).filter_spec(&sender4(1)), "FILTER_SPEC in WF style");
    silent(resv(Style::Wf).flowspec(&spec).flowspec(&spec), "more than one FLOWSPEC in WF style");
    silent(resv(Style::Wf), "no FLOWSPEC");
    silent(resv(Style::Se).flowspec(&spec), "FLOWSPEC is not followed by a FILTER_SPEC");
    let se = || resv(Style::Se).flowspec(&spec).filter_spec(&sender4(1));
    silent(se().flowspec(&spec).filter_spec(&sender4(2)), "more than one FLOWSPEC in SE style");
    for options in 0..32u8 {
        let message = resv_head().raw(class::STYLE, 1, &[0, 0, 0, options]);
        let known = [0x0a, 0x12, 0x11].contains(&options);
        if !known {
            answered(message.flowspec(&spec).filter_spec(&sender4(1)), error::UNKNOWN_STYLE, 0);
        }
    }
    let reserved = resv_head().raw(class::STYLE, 1, &[0xff, 0xff, 0xff, 0xea]);
    assert!(parse(reserved.flowspec(&spec).filter_spec(&sender4(1))).is_ok(), "reserved bits are not looked at");
}

#[test]
fn p48_to_p50_what_we_do_not_implement_is_never_half_decoded() {
    // EXPLICIT_ROUTE 20, RECORD_ROUTE 21, RESTART_CAP 131, CAPABILITY 134, FAST_REROUTE 205, GENERALIZED_UNI 229.
    for class in [20u8, 21] {
        answered(path().raw(class, 1, &[0xff; 8]), error::UNKNOWN_CLASS, u16::from_be_bytes([class, 1]));
    }
    for class in [131u8, 134, 205, 229] {
        assert!(parse(path().raw(class, 1, &[0xff; 8])).is_ok());
    }
}
