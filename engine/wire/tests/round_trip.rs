//! What the builder writes, the views read back.

use std::net::IpAddr;
use terms::{Adspec, Bytes, FilterSpec, Rate, Session, Span, Tspec};
use wire::{Builder, Message, MessageType, RsvpHop};

#[test]
fn path() {
    let src: IpAddr = [10, 0, 1, 1].into();
    let session = Session { dst: [10, 0, 2, 2].into(), protocol: 17, dst_port: 5004 };
    let sender = FilterSpec { src, src_port: 5004 };
    let tspec = Tspec { r: Rate::from_mbps(3), b: Bytes::new(8192), p: Rate::INFINITE, m: 64, M: 1500 };
    let hop = RsvpHop { addr: src, lih: 7 };
    let bytes = Builder::new(MessageType::Path, 63)
        .session(&session)
        .hop(&hop)
        .time_values(Span::from_secs(30))
        .sender_template(&sender.into())
        .sender_tspec(&tspec)
        .adspec(&Adspec::origin(1500))
        .finish()
        .unwrap();
    let Message::Path(path) = Message::parse(&bytes).unwrap() else { panic!("not a Path") };
    assert_eq!((path.session, path.hop, path.refresh), (session, hop, Span::from_secs(30)));
    assert_eq!((path.sender.ports(), path.tspec), (Some(sender), tspec));
    assert_eq!(path.adspec.map(|a| a.terms), Some(Adspec::origin(1500)));
    assert_eq!(path.envelope.header.send_ttl, 63);
}
