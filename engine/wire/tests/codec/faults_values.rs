//! `FAULTS` P30 to P36, P39 to P41: addresses, ports, traffic values.

use crate::codec::seeds::{controlled, hop4, hop6, ip, sender4, sender6, session4, session6, start, video};
use terms::{FilterSpec, FlowSpec, Rate, Session, Span, Style};
use wire::iana::{class, error};
use wire::{Builder, ErrorReply, ErrorSpec, MalformedMessage, Message, MessageType, RsvpHop};

fn parse(message: Builder) -> Result<(), MalformedMessage> {
    Message::parse(&message.finish().unwrap()).map(drop)
}

fn path(session: &Session, hop: &RsvpHop, src: &str, src_port: u32) -> Builder {
    let sender = FilterSpec { src: ip(src), src_port };
    let head = start(MessageType::Path).session(session).hop(hop).time_values(Span::from_secs(30));
    head.sender_template(&sender.into()).sender_tspec(&video())
}

#[track_caller]
fn fault(message: Builder) -> (&'static str, Option<(u8, u16)>) {
    let MalformedMessage { what, answer, .. } = parse(message).expect_err("it must be refused");
    (what, answer.map(|ErrorReply { code, value }| (code, value)))
}

#[test]
fn p30_ports_and_protocol() {
    let s = session4();
    let none = Session { protocol: 0, ..s };
    assert_eq!(fault(path(&none, &hop4(), "10.0.1.1", 1)), ("session protocol is 0", None));
    let no_port = Session { dst_port: 0, ..s };
    let what = "source port without a destination port";
    assert_eq!(fault(path(&no_port, &hop4(), "10.0.1.1", 1)), (what, Some((error::BAD_SNDPORT, 0))));
    assert!(parse(path(&no_port, &hop4(), "10.0.1.1", 0)).is_ok());
    assert!(parse(path(&s, &hop4(), "10.0.1.1", 0)).is_ok(), "any source port: routers send it");
    let resv = start(MessageType::Resv).session(&no_port).hop(&hop4()).time_values(Span::ZERO).style(Style::Ff);
    let resv = resv.flowspec(&controlled()).filter_spec(&sender4(1));
    assert_eq!(fault(resv), (what, Some((error::BAD_SNDPORT, 0))));
    // The answer to it quotes it, and must arrive.
    let error = ErrorSpec { node: ip("10.0.3.1"), flags: 0, code: error::BAD_SNDPORT, value: 0 };
    let answer = start(MessageType::PathErr).session(&no_port).error_spec(&error).sender_template(&sender4(1));
    assert!(parse(answer).is_ok());
}

#[test]
fn p31_one_address_family() {
    let what = ("address family is not the session's", None);
    assert_eq!(fault(path(&session4(), &hop6(), "10.0.1.1", 1)), what);
    assert_eq!(fault(path(&session6(), &hop4(), "2001:db8::1", 1)), what);
    assert_eq!(fault(path(&session4(), &hop4(), "2001:db8::1", 1)), what);
    let resv = |confirm, filter| {
        let head = start(MessageType::Resv).session(&session4()).hop(&hop4()).time_values(Span::ZERO);
        head.confirm(ip(confirm)).style(Style::Ff).flowspec(&controlled()).filter_spec(&filter)
    };
    assert_eq!(fault(resv("2001:db8::1", sender4(1))), what);
    assert_eq!(fault(resv("10.0.2.2", sender6(1))), what);
    let scope = start(MessageType::Resv).session(&session4()).hop(&hop4()).time_values(Span::ZERO);
    assert_eq!(fault(scope.scope(&[ip("::2")]).style(Style::Wf).flowspec(&controlled())), what);
}

#[test]
fn p32_addresses_that_are_nobody_or_everybody() {
    let hop = |addr: &str| RsvpHop { addr: ip(addr), lih: 0 };
    let nobody4 = ["0.0.0.0", "127.0.0.1", "224.0.0.1", "239.1.1.1", "255.255.255.255"];
    for addr in nobody4 {
        assert_eq!(fault(path(&session4(), &hop(addr), "10.0.1.1", 1)).0, "hop is not a host's address");
        assert_eq!(fault(path(&session4(), &hop4(), addr, 1)).0, "sender is not a host's address");
    }
    for addr in ["::", "::1", "ff02::1", "::ffff:10.0.1.1"] {
        assert_eq!(fault(path(&session6(), &hop(addr), "2001:db8::1", 1)).0, "hop is not a host's address");
        assert_eq!(fault(path(&session6(), &hop6(), addr, 1)).0, "sender is not a host's address");
    }
    for dst in ["0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "::1", "::ffff:10.0.2.2"] {
        let session = Session { dst: ip(dst), ..session4() };
        let what = "session destination is not one that can be reserved for";
        assert_eq!(fault(path(&session, &hop4(), "10.0.1.1", 1)).0, what, "{dst}");
    }
    let group = Session { dst: ip("224.1.2.3"), ..session4() };
    assert!(parse(path(&group, &hop4(), "10.0.1.1", 1)).is_ok());
    let resv = start(MessageType::Resv).session(&session4()).hop(&hop4()).time_values(Span::ZERO);
    assert_eq!(fault(resv.confirm(ip("224.0.0.1"))).0, "receiver to be told is not a host's address");
}

/// The words of a token bucket.
type Bucket = [u32; 5];

fn good() -> Bucket {
    [1_000f32.to_bits(), 500f32.to_bits(), 2_000f32.to_bits(), 64, 1500]
}

fn words(parts: &[u32]) -> Vec<u8> {
    parts.iter().flat_map(|w| w.to_be_bytes()).collect()
}

fn tspec_message(bucket: Bucket) -> Builder {
    let head = start(MessageType::Path).session(&session4()).hop(&hop4()).time_values(Span::ZERO);
    let body = [words(&[7, 0x0100_0006, 0x7f00_0005]), words(&bucket)].concat();
    head.sender_template(&sender4(1)).raw(class::SENDER_TSPEC, 2, &body)
}

fn flow_body(bucket: Bucket, rspec: Option<[u32; 2]>) -> Vec<u8> {
    match rspec {
        None => [words(&[7, 0x0500_0006, 0x7f00_0005]), words(&bucket)].concat(),
        Some(r) => [words(&[10, 0x0200_0009, 0x7f00_0005]), words(&bucket), words(&[0x8200_0002]), words(&r)].concat(),
    }
}

fn flow_message(body: &[u8]) -> Builder {
    let head = start(MessageType::Resv).session(&session4()).hop(&hop4()).time_values(Span::ZERO);
    head.style(Style::Ff).raw(class::FLOWSPEC, 2, body).filter_spec(&sender4(1))
}

const BAD_TSPEC: Option<(u8, u16)> = Some((error::TRAFFIC_CONTROL, error::TC_BAD_TSPEC));
const BAD_FLOW: Option<(u8, u16)> = Some((error::TRAFFIC_CONTROL, error::TC_BAD_FLOWSPEC));

#[test]
fn p33_word_lengths_that_lie() {
    let honest = flow_body(good(), Some([1_000f32.to_bits(), 0]));
    assert!(parse(flow_message(&honest)).is_ok());
    // Message length, service length, token bucket length, Rspec length; one word too few, too many, far too many.
    for at in [2, 6, 10, 34] {
        let there = u16::from_be_bytes([honest[at], honest[at + 1]]);
        for lie in [there - 1, there + 1, 0, 65_535] {
            let mut body = honest.clone();
            body[at..at + 2].copy_from_slice(&lie.to_be_bytes());
            assert!(parse(flow_message(&body)).is_err(), "word {} at {at}", lie);
        }
    }
    // All three levels agree with each other, not with the object.
    let mut body = honest;
    for (at, more) in [(2usize, 11u16), (6, 10), (34, 3)] {
        body[at..at + 2].copy_from_slice(&more.to_be_bytes());
    }
    assert_eq!(fault(flow_message(&body)), ("integrated-services length does not match the object", None));
    let mut version = flow_body(good(), None);
    version[0] = 0x10;
    assert_eq!(fault(flow_message(&version)).0, "integrated-services version is not 0");
}

#[test]
fn p34_services() {
    // Null service (6) with a token bucket is some other service's layout: passed on as unsupported, never read.
    let mut null = flow_body(good(), None);
    null[4] = 6;
    let bytes = flow_message(&null).finish().unwrap();
    let Ok(Message::Resv(m)) = Message::parse(&bytes) else { panic!("not a Resv") };
    let flow = m.flows().next().unwrap().flow;
    assert_eq!((flow.service, flow.spec), (6, None));
    let mut general = flow_body(good(), None);
    general[4] = 1;
    assert_eq!(fault(flow_message(&general)), ("flowspec carries the general service number", BAD_FLOW));
    let two = [words(&[8]), vec![5, 0, 0, 0, 2, 0, 0, 0], words(&[0; 6])].concat();
    assert!(parse(flow_message(&two)).is_err());
    // A sender Tspec of the null service.
    let head = start(MessageType::Path).session(&session4()).hop(&hop4()).time_values(Span::ZERO);
    let null =
        head.sender_template(&sender4(1)).raw(class::SENDER_TSPEC, 2, &words(&[3, 0x0600_0002, 0x8000_0001, 1500]));
    assert_eq!(fault(null).1, Some((error::TRAFFIC_CONTROL, error::TC_SERVICE_UNSUPPORTED)));
}

#[test]
fn p35_values_that_are_no_rate_or_size() {
    let bad = [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, -1.0, -f32::MIN_POSITIVE, 1e38].map(f32::to_bits);
    for value in bad.into_iter().chain([0xffff_ffff, 0x7f80_0001]) {
        for word in [0, 1] {
            let mut bucket = good();
            bucket[word] = value;
            bucket[2] = f32::INFINITY.to_bits();
            assert_eq!(fault(tspec_message(bucket)).1, BAD_TSPEC, "{value:#x} as word {word}");
            assert_eq!(fault(flow_message(&flow_body(bucket, None))).1, BAD_FLOW, "{value:#x} as word {word}");
        }
    }
    for value in [f32::NAN, f32::NEG_INFINITY, -1.0] {
        let [r, b, _, m, max] = good();
        assert_eq!(fault(tspec_message([r, b, value.to_bits(), m, max])).1, BAD_TSPEC, "{value} as p");
    }
}

#[test]
fn p35_values_at_the_edge() {
    let read = |bucket| {
        let bytes = tspec_message(bucket).finish().unwrap();
        let Ok(Message::Path(m)) = Message::parse(&bytes) else { panic!("not a Path") };
        m.tspec
    };
    let [r, b, p, m, max] = good();
    assert_eq!(read([r, b, f32::INFINITY.to_bits(), m, max]).p, Rate::INFINITE);
    assert_eq!(read([r, b, 1e38f32.to_bits(), m, max]).p, Rate::INFINITE);
    assert_eq!(read([(-0.0f32).to_bits(), b, p, m, max]).r, Rate::ZERO);
    assert_eq!(read([1, b, p, m, max]).r, Rate::from_bps(1), "a trace of demand is a bit per second");
    assert_eq!(read([r, b, p, 0, 0x7fff_ffff]).M, 0x7fff_ffff);
    let what = fault(tspec_message([r, b, 999f32.to_bits(), m, max]));
    assert_eq!(what, ("peak rate p is below the token rate r", BAD_TSPEC));
    let what = fault(tspec_message([r, b, p, 1501, 1500]));
    assert_eq!(what, ("minimum policed unit m is above the maximum packet size M", BAD_TSPEC));
    assert_eq!(fault(tspec_message([r, b, p, 0, 0])), ("maximum packet size M is 0", BAD_TSPEC));
    assert!(parse(flow_message(&flow_body([r, b, p, 64, 0], None))).is_ok(), "M = 0 in a FLOWSPEC is unset");
}

#[test]
fn p36_rspec() {
    let with = |rate: f32, slack| flow_message(&flow_body(good(), Some([rate.to_bits(), slack])));
    assert_eq!(fault(with(999.0, 0)), ("service rate R is below the token rate r", BAD_FLOW));
    for rate in [f32::NAN, f32::INFINITY, -1.0] {
        assert_eq!(fault(with(rate, 0)), ("service rate R is no rate", BAD_FLOW));
    }
    // The slack is an unsigned integer: the bits of a float NaN are just a long time.
    let bytes = with(1_000.0, 0xffff_ffff).finish().unwrap();
    let Ok(Message::Resv(m)) = Message::parse(&bytes) else { panic!("not a Resv") };
    let Some(FlowSpec::Guaranteed(_, rspec)) = m.flows().next().unwrap().flow.spec else { panic!("not guaranteed") };
    assert_eq!(rspec.S, Span::from_micros(0xffff_ffff));
}

#[test]
fn p39_refresh_periods_come_as_sent() {
    for ms in [0u32, 1, 1 << 31, u32::MAX] {
        let head =
            start(MessageType::Path).session(&session4()).hop(&hop4()).raw(class::TIME_VALUES, 1, &ms.to_be_bytes());
        let bytes = head.sender_template(&sender4(1)).sender_tspec(&video()).finish().unwrap();
        let Ok(Message::Path(m)) = Message::parse(&bytes) else { panic!("not a Path") };
        assert_eq!(m.refresh, Span::from_millis(u64::from(ms)));
    }
}

#[test]
fn p40_the_lih_is_opaque() {
    for lih in [0, 1, 0x7fff_ffff, u32::MAX] {
        let bytes = path(&session4(), &RsvpHop { lih, ..hop4() }, "10.0.1.1", 1).finish().unwrap();
        let Ok(Message::Path(m)) = Message::parse(&bytes) else { panic!("not a Path") };
        assert_eq!(m.hop.lih, lih);
    }
}

#[test]
fn p41_error_specs_of_any_code_value_and_flags() {
    for (flags, code, value) in [(0, 99, 0), (3, 1, 0xffff), (0xff, 255, 1), (1, 24, 0x8000)] {
        let spec = ErrorSpec { node: ip("10.0.3.1"), flags, code, value };
        let bytes = start(MessageType::PathErr).session(&session4()).error_spec(&spec).finish().unwrap();
        let Ok(Message::PathErr(m)) = Message::parse(&bytes) else { panic!("not a PathErr") };
        assert_eq!(m.error, spec);
        assert_eq!((m.error.in_place(), m.error.not_guilty()), (flags & 1 != 0, flags & 2 != 0));
    }
}
