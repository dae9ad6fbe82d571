//! What neighbours say to each other: refresh reduction (RFC 2961), Hello (RFC 3209), the challenge handshake (RFC 2747).

use super::{Seed, controlled, hop4, hop6, seed, sender4, sender6, session4, session6, start, video};
use terms::{SenderTemplate, Span, Style};
use wire::objects::{Challenge, HelloObject, MergeStrategy, MessageId, MessageIdAck, PreemptionPriority};
use wire::{Builder, FilterObject, MessageType};

const EPOCH: u32 = 0x00c0_ffee;

fn named(id: u32) -> MessageId {
    MessageId { flags: 1, epoch: EPOCH, id }
}

fn ack(nack: bool, id: u32) -> MessageIdAck {
    MessageIdAck { nack, flags: 0, epoch: 0x0012_3456, id }
}

fn path(id: u32) -> Builder {
    start(MessageType::Path)
        .flags(1)
        .message_id(&named(id))
        .session(&session4())
        .hop(&hop4())
        .time_values(Span::from_secs(30))
        .sender_template(&sender4(1))
        .sender_tspec(&video())
}

fn resv(id: u32) -> Builder {
    start(MessageType::Resv)
        .flags(1)
        .message_id_ack(&ack(false, 1))
        .message_id(&named(id))
        .session(&session4())
        .hop(&hop4())
        .time_values(Span::from_secs(30))
        .style(Style::Ff)
        .flowspec(&controlled())
        .filter_spec(&sender4(1))
}

fn bundle() -> Builder {
    let parts = [path(3), resv(4), start(MessageType::Ack).flags(1).message_id_ack(&ack(false, 9))];
    let parts = parts.map(|p| p.finish().expect("short"));
    parts.iter().fold(start(MessageType::Bundle).flags(1), |b, p| b.sub_message(p))
}

fn hello(request: bool, dst_instance: u32) -> Builder {
    start(MessageType::Hello).hello(&HelloObject { request, src_instance: 0x6000_0001, dst_instance })
}

fn priority() -> PreemptionPriority {
    PreemptionPriority { flags: 0, strategy: MergeStrategy::HighestPriority, error: 0, preemption: 5, defending: 7 }
}

/// A session of ESP, and one of its senders by its security parameter index.
fn esp(v4: bool) -> (terms::Session, FilterObject) {
    let (dst, src) = if v4 { (session4().dst, sender4(1).src()) } else { (session6().dst, sender6(1).src()) };
    let session = terms::Session { dst, protocol: 50, dst_port: 7 };
    (session, FilterObject::Gpi(SenderTemplate { src, src_port: 0xdead_beef }))
}

/// RFC 2207: IPsec flows.
pub fn gpi() -> Vec<Seed> {
    let path = |v4| {
        let (session, sender) = esp(v4);
        let m = start(MessageType::Path).session(&session).hop(&if v4 { hop4() } else { hop6() });
        m.time_values(Span::from_secs(30)).sender_template(&sender).sender_tspec(&video())
    };
    let (session, sender) = esp(true);
    let resv = start(MessageType::Resv).session(&session).hop(&hop4()).time_values(Span::from_secs(30));
    let resv = resv.style(Style::Ff).flowspec(&controlled()).filter_spec(&sender);
    vec![
        seed("path-v4-gpi", "Path of an IPsec flow", path(true)),
        seed("path-v6-gpi", "the same over IPv6", path(false)),
        seed("resv-v4-gpi", "Resv for an IPsec flow", resv),
    ]
}

pub fn seeds() -> Vec<Seed> {
    let tear = start(MessageType::PathTear).flags(1).message_id(&named(9)).session(&session6()).hop(&hop6());
    let cookie = [0x5a; 16];
    let challenge = || Challenge { key_id: 0x0102_0304_0506, cookie: &cookie };
    let policy = start(MessageType::Resv)
        .session(&session4())
        .hop(&hop4())
        .time_values(Span::from_secs(30))
        .preemption(&priority())
        .style(Style::Ff)
        .flowspec(&controlled())
        .filter_spec(&sender4(1));
    vec![
        seed("path-v4-message-id", "Path that wants an acknowledgement", path(1)),
        seed("resv-v4-message-id-ack", "Resv that acknowledges a Path on the way", resv(2)),
        seed(
            "pathtear-v6-message-id",
            "PathTear with its own name",
            tear.sender_template(&sender6(1)).sender_tspec(&video()),
        ),
        seed("resv-v4-preemption", "Resv with pre-emption and defending priority", policy),
        seed("bundle-v4", "Path, Resv and Ack in one datagram", bundle()),
        seed(
            "ack-acks-and-nacks",
            "two messages came, one name is not known",
            start(MessageType::Ack)
                .flags(1)
                .message_id_ack(&ack(false, 7))
                .message_id_ack(&ack(true, 8))
                .message_id_ack(&ack(false, 9)),
        ),
        seed(
            "srefresh-plain",
            "five states are refreshed by name",
            start(MessageType::Srefresh)
                .flags(1)
                .message_id(&named(77))
                .message_id_list(EPOCH, &[1, 2, 3, 500, 0xffff_fffe]),
        ),
        seed(
            "srefresh-two-lists",
            "two lists, the first of nothing",
            start(MessageType::Srefresh)
                .flags(1)
                .message_id_ack(&ack(false, 3))
                .message_id_list(EPOCH, &[])
                .message_id_list(EPOCH, &[9]),
        ),
        seed("hello-request", "a neighbour is heard for the first time", hello(true, 0)),
        seed("hello-ack", "and answers", hello(false, 0x7000_0002)),
        seed(
            "integritychallenge",
            "whose key is this, and at what number are you?",
            start(MessageType::IntegrityChallenge).challenge(&challenge()),
        ),
        seed(
            "integrityresponse",
            "the answer, signed (with zeros)",
            start(MessageType::IntegrityResponse)
                .integrity(1, 0x0102_0304_0506, 0xe800_1234_0000_0002, 32)
                .challenge(&challenge()),
        ),
    ]
}
