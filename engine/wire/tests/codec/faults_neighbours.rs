//! Faults of what neighbours say to each other (`FAULTS` P44 to P47): refresh reduction, Hello, challenges.

use crate::codec::seeds::{self, hop4, sender4, session4, start, video};

use terms::Span;
use wire::iana::{class, error};
use wire::objects::{Challenge, HelloObject, MessageId, MessageIdAck, PreemptionPriority};
use wire::{Builder, ErrorReply, Message, MessageType};

fn fault(message: Builder) -> &'static str {
    Message::parse(&message.finish().unwrap()).expect_err("it must be refused").what
}

fn path() -> Builder {
    let m = start(MessageType::Path).session(&session4()).hop(&hop4()).time_values(Span::from_secs(30));
    m.sender_template(&sender4(1)).sender_tspec(&video())
}

/// A Bundle of one sub-message with this header and nothing after it.
fn bundle_of(header: [u8; 8]) -> Builder {
    start(MessageType::Bundle).sub_message(&header)
}

#[test]
fn p45_sub_messages_that_lie() {
    assert_eq!(fault(start(MessageType::Bundle)), "Bundle of nothing");
    assert_eq!(
        fault(start(MessageType::Bundle).sub_message(&[0x10, 1, 0, 0])),
        "sub-message is shorter than the common header"
    );
    assert_eq!(fault(bundle_of([0x10, 12, 0, 0, 1, 0, 0, 8])), "Bundle in a Bundle");
    assert_eq!(fault(bundle_of([0x20, 1, 0, 0, 1, 0, 0, 8])), "version of a sub-message is not 1");
    for length in [0, 4, 7, 9, 10] {
        let what = "length of a sub-message is below 8 or not whole words";
        assert_eq!(fault(bundle_of([0x10, 1, 0, 0, 1, 0, 0, length])), what, "{length}");
    }
    assert_eq!(fault(bundle_of([0x10, 1, 0, 0, 1, 0, 0, 12])), "sub-message passes the end of its Bundle");
    // INTEGRITY belongs into the sub-messages (RFC 2961 section 3.1): an object is no sub-message.
    assert_eq!(fault(start(MessageType::Bundle).integrity(1, 1, 1, 16)), "version of a sub-message is not 1");
}

/// A sub-message that is refused does not spoil the others: each is for its own parse.
#[test]
fn p45_sub_messages_are_checked_one_by_one() {
    let good = path().finish().unwrap();
    let mut bad = good.clone();
    bad[3] ^= 1;
    let bytes = start(MessageType::Bundle).sub_message(&bad).sub_message(&good).finish().unwrap();
    let Ok(Message::Bundle(bundle)) = Message::parse(&bytes) else { panic!("a Bundle") };
    let read: Vec<bool> = bundle.messages().map(|m| Message::parse(m).is_ok()).collect();
    assert_eq!(read, [false, true]);
    // 8,000 of them, each as short as can be.
    let many = (0..8_000).fold(start(MessageType::Bundle), |b, _| b.sub_message(&[0x10, 7, 0, 0, 1, 0, 0, 8]));
    let bytes = many.finish().unwrap();
    let Ok(Message::Bundle(bundle)) = Message::parse(&bytes) else { panic!("a Bundle") };
    assert_eq!(bundle.messages().count(), 8_000);
}

#[test]
fn p46_message_ids_and_lists() {
    for length in [0, 4, 12] {
        for class in [class::MESSAGE_ID, class::MESSAGE_ID_ACK] {
            let bytes = path().raw(class, 1, &vec![1; length]).finish().unwrap();
            assert_eq!(Message::parse(&bytes).unwrap_err().answer, None, "class {class} of {length}");
        }
    }
    for (class, forms) in [(class::MESSAGE_ID, 1), (class::MESSAGE_ID_ACK, 2), (class::MESSAGE_ID_LIST, 5)] {
        let bytes = path().raw(class, forms + 1, &[1; 8]).finish().unwrap();
        let value = u16::from_be_bytes([class, forms + 1]);
        assert_eq!(Message::parse(&bytes).unwrap_err().answer, Some(ErrorReply { code: error::UNKNOWN_CTYPE, value }));
    }
    let id = MessageId { flags: 0, epoch: 5, id: 6 };
    assert_eq!(fault(path().message_id(&id).message_id(&id)), "object that must be single comes twice");
    let srefresh = || start(MessageType::Srefresh);
    assert_eq!(fault(srefresh()), "no MESSAGE_ID_LIST");
    assert_eq!(fault(srefresh().raw(class::MESSAGE_ID_LIST, 1, &[])), "MESSAGE_ID_LIST is cut off");
    for (form, entry) in [(1, 4), (2, 8), (3, 20), (4, 12), (5, 36)] {
        for entries in [0, 1, 3] {
            let bytes = srefresh().raw(class::MESSAGE_ID_LIST, form, &vec![7; 4 + entries * entry]).finish().unwrap();
            let Ok(Message::Srefresh(m)) = Message::parse(&bytes) else { panic!("C-Type {form}") };
            let list = m.lists().next().unwrap();
            assert_eq!((list.len(), list.ids().count(), list.epoch), (entries, entries, 0x0007_0707));
            assert_eq!(list.sources().count(), if entry == 4 { 0 } else { entries }, "C-Type {form}");
            for (id, src, dst) in list.sources() {
                assert_eq!(
                    (id, src.is_ipv6(), dst.map(|d| d.is_ipv6())),
                    (0x0707_0707, form % 2 == 1, (form > 3).then_some(form == 5))
                );
            }
        }
        if entry > 4 {
            let cut = srefresh().raw(class::MESSAGE_ID_LIST, form, &vec![7; 4 + entry - 4]);
            assert_eq!(fault(cut), "MESSAGE_ID_LIST is not whole entries");
        }
    }
    let longest: Vec<u32> = (0..16_000).collect();
    let bytes = srefresh().message_id_list(0x00ff_ffff, &longest).finish().unwrap();
    let Ok(Message::Srefresh(m)) = Message::parse(&bytes) else { panic!("16,000 ids") };
    assert!(m.lists().flat_map(|l| l.ids()).eq(longest));
    assert_eq!(fault(start(MessageType::Ack)), "no MESSAGE_ID_ACK");
    let nack = MessageIdAck { nack: true, flags: 0, epoch: 0x00ab_cdef, id: 9 };
    let bytes = path().message_id_ack(&nack).message_id(&id).finish().unwrap();
    let envelope = *Message::parse(&bytes).unwrap().envelope();
    assert_eq!((envelope.acks().collect::<Vec<_>>(), envelope.message_id), (vec![nack], Some(id)));
}

/// RFC 2961 sections 4.1 and 4.4 say in which order acknowledgements and names stand; RFC 2205 section 3.1 has receivers
/// take any order. INTEGRITY is first and the flow descriptor list last, whatever else; a name is single, and none is in
/// an Ack.
#[test]
fn names_and_acknowledgements_in_any_order() {
    let id = MessageId { flags: 0, epoch: 5, id: 6 };
    let acks = [false, true].map(|nack| MessageIdAck { nack, flags: 0, epoch: 8, id: 9 + u32::from(nack) });
    let [ack, nack] = &acks;
    let good = |message: Builder| {
        let bytes = message.finish().unwrap();
        let envelope = *Message::parse(&bytes).expect("any order").envelope();
        let mut found: Vec<_> = envelope.acks().collect();
        found.sort_by_key(|ack| ack.id);
        assert_eq!((found, envelope.message_id), (acks.to_vec(), Some(id)));
    };
    let path_objects = path().finish().unwrap()[8..].to_vec();
    let before = || start(MessageType::Path);
    good(before().message_id_ack(ack).message_id_ack(nack).message_id(&id).sub_message(&path_objects));
    good(before().message_id(&id).message_id_ack(nack).message_id_ack(ack).sub_message(&path_objects));
    good(before().message_id_ack(nack).message_id(&id).message_id_ack(ack).sub_message(&path_objects));
    good(path().message_id(&id).message_id_ack(ack).message_id_ack(nack));
    good(before().message_id_ack(ack).sub_message(&path_objects).message_id(&id).message_id_ack(nack));
    for front in [before().message_id(&id), before().message_id_ack(ack)] {
        let late = front.integrity(1, 1, 1, 16).sub_message(&path_objects);
        assert_eq!(fault(late), "INTEGRITY is not the first object");
    }
    let apart = before().message_id(&id).sub_message(&path_objects).message_id(&id);
    assert_eq!(fault(apart), "object that must be single comes twice");
    let resv = seeds::all().into_iter().find(|s| s.name == "resv-v4-ff");
    let resv = resv.unwrap().bytes[8..].to_vec();
    for late in [
        start(MessageType::Resv).sub_message(&resv).message_id(&id),
        start(MessageType::Resv).sub_message(&resv).message_id_ack(ack),
    ] {
        assert_eq!(fault(late), "object after the flow descriptor list began");
    }
    for with_name in [
        start(MessageType::Ack).message_id(&id),
        start(MessageType::Ack).message_id(&id).message_id_ack(ack),
        start(MessageType::Ack).message_id_ack(ack).message_id(&id),
    ] {
        assert_eq!(fault(with_name), "MESSAGE_ID in an Ack");
    }
}

/// RFC 2961 section 4.3: the flags of acknowledgements are read over.
#[test]
fn flags_of_acknowledgements_mean_nothing() {
    for flags in [0, 1, 0xff] {
        let bytes =
            start(MessageType::Ack).raw(class::MESSAGE_ID_ACK, 1, &[flags, 0, 0, 5, 0, 0, 0, 6]).finish().unwrap();
        let Ok(Message::Ack(m)) = Message::parse(&bytes) else { panic!("an Ack with flags {flags:#x}") };
        assert_eq!(m.envelope.acks().map(|a| (a.nack, a.epoch, a.id)).collect::<Vec<_>>(), [(false, 5, 6)]);
    }
}

#[test]
fn p47_hello_of_wrong_length_or_form() {
    let hello = |form, length| start(MessageType::Hello).raw(class::HELLO, form, &vec![1; length]);
    for length in [0, 4, 12] {
        assert_eq!(fault(hello(1, length)), "HELLO has the wrong length");
    }
    assert_eq!(fault(hello(3, 8)), "unknown C-Type");
    assert_eq!(fault(start(MessageType::Hello)), "no HELLO");
    let both = HelloObject { request: true, src_instance: 1, dst_instance: 2 };
    let twice = start(MessageType::Hello).hello(&both).hello(&HelloObject { request: false, ..both });
    assert_eq!(fault(twice), "object that must be single comes twice");
}

#[test]
fn p44_challenges() {
    let challenge = |length: usize| start(MessageType::IntegrityChallenge).raw(class::CHALLENGE, 1, &vec![0; length]);
    assert_eq!(fault(challenge(0)), "CHALLENGE is cut off");
    assert_eq!(fault(challenge(4)), "CHALLENGE is cut off");
    assert_eq!(fault(challenge(8)), "CHALLENGE without a cookie");
    let bytes = challenge(12).finish().unwrap();
    let Ok(Message::IntegrityChallenge(m)) = Message::parse(&bytes) else { panic!("a cookie of 32 bits") };
    assert_eq!(m.challenge, Challenge { key_id: 0, cookie: &[0; 4] });
    assert_eq!(fault(start(MessageType::IntegrityChallenge)), "no CHALLENGE");
    let unsigned = start(MessageType::IntegrityResponse).challenge(&m.challenge);
    assert_eq!(fault(unsigned), "no INTEGRITY in an Integrity Response");
    assert_eq!(fault(start(MessageType::IntegrityResponse).integrity(1, 1, 1, 16)), "no CHALLENGE");
}

#[test]
fn p43_preemption_priorities() {
    let seed = seeds::all().into_iter().find(|s| s.name == "resv-v4-preemption").unwrap();
    let message = Message::parse(&seed.bytes).unwrap();
    let object = message.envelope().policy_data().next().unwrap();
    let Ok(wire::objects::Content::PolicyData(policy)) = wire::objects::decode(&object) else { panic!("POLICY_DATA") };
    let found = policy.preemption().unwrap();
    assert_eq!((found.preemption, found.defending), (5, 7));
    for (kind, length) in [(3u16, 4), (3, 12), (4, 8)] {
        let data = vec![1; length];
        assert_eq!(PreemptionPriority::read(&wire::objects::Element { kind, data: &data }), None, "{kind} of {length}");
    }
}

/// RFC 2207 section 4: a session and its senders are of one form.
#[test]
fn p30_generalised_port_identifiers() {
    let seed = |name: &str| seeds::all().into_iter().find(|s| s.name == name).unwrap().bytes;
    let bytes = seed("path-v6-gpi");
    let Ok(Message::Path(m)) = Message::parse(&bytes) else { panic!("a Path") };
    let template = m.sender.ports().unwrap();
    assert!(m.session.is_gpi() && m.session.dst_port == 7 && template.src_port == 0xdead_beef);
    // Written from the engine's own terms it is the same: the session says the form.
    let again = start(MessageType::Path).session(&m.session).hop(&m.hop).time_values(m.refresh);
    let again = again.sender_template(&template.into()).sender_tspec(&m.tspec).finish().unwrap();
    assert_eq!(again, seed("path-v6-gpi"));
    // One form's session with the other's senders; a GPI session of UDP, or without a port; ESP with a port, plainly.
    let esp = seed("path-v4-gpi");
    let with = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = esp.clone();
        bytes[2..4].fill(0);
        edit(&mut bytes);
        Message::parse(&bytes).expect_err("it must be refused").what
    };
    let template = esp.windows(2).position(|w| w == [11, 4]).unwrap();
    assert_eq!(with(&|b| b[template + 1] = 1), "sender is not of the session's form");
    let form = "session form does not go with its protocol and port";
    assert_eq!(with(&|b| b[16] = 17), form);
    assert_eq!(with(&|b| b[18..20].fill(0)), form);
    assert_eq!(with(&|b| b[11] = 1), form);
}
