//! What the floods say: a message of every type, about a session of its own number.

use std::net::IpAddr;
use terms::{Bytes, FlowSpec, Rate, SenderTemplate, Session, Span, Style, Tspec};
use wire::objects::{ErrorSpec, HelloObject, MessageIdAck};
use wire::{Builder, Challenge, MessageType, RsvpHop};

/// A neighbour of the node that is flooded, which is imitated.
pub const NEIGHBOUR: [u8; 4] = [10, 0, 0, 1];
/// The node itself.
pub const NODE: [u8; 4] = [10, 0, 0, 2];
/// The end of the path through it.
pub const END: [u8; 4] = [10, 0, 2, 2];

/// How far a message goes that is for the next hop alone.
const HOP_TTL: u8 = 255;
const PATH_TTL: u8 = 63;
/// Of the names of messages of a neighbour.
const EPOCH: u32 = 0x00ab_cdef;
/// Error of a PathErr or ResvErr: admission control failed, the bandwidth is not there (RFC 2205 appendix B).
const ADMISSION: (u8, u16) = (1, 2);

/// Every type that there is.
pub fn kinds() -> Vec<MessageType> {
    (0..=u8::MAX).filter_map(MessageType::from_number).collect()
}

/// Whether a message goes the way of the data, past nodes that look into it.
pub fn goes_through(kind: MessageType) -> bool {
    matches!(kind, MessageType::Path | MessageType::PathTear)
}

/// The TTL that a message leaves with.
pub fn ttl(kind: MessageType) -> u8 {
    if goes_through(kind) { PATH_TTL } else { HOP_TTL }
}

/// What a message is about, and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its session.
    pub session: Session,
    /// The sender in it.
    pub template: SenderTemplate,
    /// Who says it.
    pub hop: IpAddr,
    /// The handle of the interface that it comes in on: what a Resv has to bring back.
    pub lih: u32,
    /// The how manyth it is.
    pub serial: u32,
}

impl About {
    /// A session that nobody has: what is said of it must not be believed of those that are there.
    pub fn nobody(hop: IpAddr, lih: u32, src: IpAddr, serial: u32) -> About {
        let session = Session { dst: END.into(), protocol: 17, dst_port: 20_000 + (serial % 20_000) as u16 };
        let template = SenderTemplate { src, src_port: 1 + serial / 20_000 % 60_000 };
        About { session, template, hop, lih, serial }
    }
}

/// A message of a type as somebody says it whom there is no reason to believe. Those that speak of no session but of a neighbour
/// itself are no more than their header: where there are no keys a whole one would be as good as the neighbour's own.
pub fn bare(kind: MessageType, about: &About) -> Option<Vec<u8>> {
    match kind {
        MessageType::Path
        | MessageType::Resv
        | MessageType::PathErr
        | MessageType::ResvErr
        | MessageType::PathTear
        | MessageType::ResvTear
        | MessageType::ResvConf
        | MessageType::IntegrityChallenge => whole(kind, about),
        MessageType::Bundle
        | MessageType::Ack
        | MessageType::Srefresh
        | MessageType::Hello
        | MessageType::IntegrityResponse => Builder::new(kind, ttl(kind)).session(&about.session).finish().ok(),
    }
}

/// A message of a type as a neighbour would say it, to be read to its end. A Bundle holds two, neither of them signed.
pub fn whole(kind: MessageType, about: &About) -> Option<Vec<u8>> {
    let About { session, template, hop, lih, serial } = *about;
    let tspec = Tspec { r: Rate::from_kbps(1), b: Bytes::new(2_000), p: Rate::INFINITE, m: 64, M: 1_500 };
    let (template, flowspec, hop_object) =
        (template.into(), FlowSpec::ControlledLoad(tspec), RsvpHop { addr: hop, lih });
    let error = ErrorSpec { node: hop, flags: 0, code: ADMISSION.0, value: ADMISSION.1 };
    let build = Builder::new(kind, ttl(kind));
    let of_session = |build: Builder| build.session(&session).hop(&hop_object);
    let build = match kind {
        MessageType::Path => {
            of_session(build).time_values(Span::from_secs(2)).sender_template(&template).sender_tspec(&tspec)
        }
        MessageType::Resv => {
            let build = of_session(build).time_values(Span::from_secs(2));
            build.style(Style::Ff).flowspec(&flowspec).filter_spec(&template)
        }
        MessageType::PathTear => of_session(build).sender_template(&template).sender_tspec(&tspec),
        MessageType::ResvTear => of_session(build).style(Style::Ff).filter_spec(&template),
        MessageType::PathErr => {
            build.session(&session).error_spec(&error).sender_template(&template).sender_tspec(&tspec)
        }
        MessageType::ResvErr => {
            let build = of_session(build).error_spec(&error);
            build.style(Style::Ff).flowspec(&flowspec).filter_spec(&template)
        }
        MessageType::ResvConf => {
            let build =
                build.session(&session).error_spec(&ErrorSpec { code: 0, value: 0, ..error }).confirm(NODE.into());
            build.style(Style::Ff).flowspec(&flowspec).filter_spec(&template)
        }
        MessageType::Bundle => {
            let parts = [MessageType::Path, MessageType::Ack].into_iter().filter_map(|kind| whole(kind, about));
            parts.fold(build, |build, part| build.sub_message(&part))
        }
        MessageType::Ack => build.message_id_ack(&MessageIdAck { nack: false, flags: 0, epoch: EPOCH, id: serial }),
        MessageType::Srefresh => build.flags(1).message_id_list(EPOCH, &[serial, serial + 1, serial + 2]),
        MessageType::Hello => build.hello(&HelloObject { request: true, src_instance: EPOCH, dst_instance: 0 }),
        MessageType::IntegrityChallenge | MessageType::IntegrityResponse => {
            let mut cookie = [7; 16];
            cookie[..4].copy_from_slice(&serial.to_be_bytes());
            build.challenge(&Challenge { key_id: 1, cookie: &cookie })
        }
    };
    build.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Message;

    /// What does not say where it would be signed is read to its end: floods of nonsense would show less.
    #[test]
    fn each_type_is_read_whole() {
        for kind in kinds().into_iter().filter(|kind| *kind != MessageType::IntegrityResponse) {
            let bytes = whole(kind, &About::nobody(NEIGHBOUR.into(), 2, NEIGHBOUR.into(), 77)).unwrap();
            let message = Message::parse(&bytes).unwrap_or_else(|wrong| panic!("{kind:?}: {wrong:?}"));
            assert_eq!(message.kind(), kind);
        }
    }
}
