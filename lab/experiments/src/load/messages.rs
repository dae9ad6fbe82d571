//! The messages of the floods: one of every type, each about its own session.

use std::net::IpAddr;
use terms::{Bytes, FlowSpec, Rate, SenderTemplate, Session, Span, Style, Tspec};
use wire::objects::{ErrorSpec, HelloObject, MessageIdAck};
use wire::{Builder, Challenge, MessageType, RsvpHop};

/// The address of the flooded node's neighbour, which a flood imitates.
pub const NEIGHBOUR: [u8; 4] = [10, 0, 0, 1];
/// The address of the flooded node.
pub const NODE: [u8; 4] = [10, 0, 0, 2];
/// The address at the end of the path through it.
pub const END: [u8; 4] = [10, 0, 2, 2];

/// The TTL of messages to the next hop, and of those along the path.
const HOP_TTL: u8 = 255;
const PATH_TTL: u8 = 63;
/// The epoch of a neighbour's message identifiers.
const EPOCH: u32 = 0x00ab_cdef;
/// The error of a PathErr or ResvErr: admission control failed, the bandwidth is not available (RFC 2205
/// appendix B).
const ADMISSION: (u8, u16) = (1, 2);

/// Returns every message type.
pub fn kinds() -> Vec<MessageType> {
    (0..=u8::MAX).filter_map(MessageType::from_number).collect()
}

/// True if a message follows the data's path, past nodes that intercept it.
pub fn goes_through(kind: MessageType) -> bool {
    matches!(kind, MessageType::Path | MessageType::PathTear)
}

/// Returns the initial TTL of a message.
pub fn ttl(kind: MessageType) -> u8 {
    if goes_through(kind) { PATH_TTL } else { HOP_TTL }
}

/// The subject of a message, and its origin.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its session.
    pub session: Session,
    /// The sender in it.
    pub template: SenderTemplate,
    /// The address of the hop that sends it.
    pub hop: IpAddr,
    /// The logical handle of the incoming interface, which a Resv has to return.
    pub lih: u32,
    /// The serial number of the message.
    pub serial: u32,
}

impl About {
    /// Describes a session that does not exist, so that the message must not affect existing ones.
    pub fn nobody(hop: IpAddr, lih: u32, src: IpAddr, serial: u32) -> About {
        let session = Session { dst: END.into(), protocol: 17, dst_port: 20_000 + (serial % 20_000) as u16 };
        let template = SenderTemplate { src, src_port: 1 + serial / 20_000 % 60_000 };
        About { session, template, hop, lih, serial }
    }
}

/// Builds a message as an untrusted sender would. A type that concerns a neighbour and no session is only a
/// header, because on a link without keys a whole one would be as good as the neighbour's own.
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

/// Builds a complete message as a neighbour would send it. A Bundle holds two, neither of them signed.
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

    /// Every message parses to its end, because a flood of invalid ones would cost the agent less.
    #[test]
    fn each_type_is_read_whole() {
        for kind in kinds().into_iter().filter(|kind| *kind != MessageType::IntegrityResponse) {
            let bytes = whole(kind, &About::nobody(NEIGHBOUR.into(), 2, NEIGHBOUR.into(), 77)).unwrap();
            let message = Message::parse(&bytes).unwrap_or_else(|wrong| panic!("{kind:?}: {wrong:?}"));
            assert_eq!(message.kind(), kind);
        }
    }
}
