//! decode(encode(m)) == m, and encode(decode(b)) == b (I20): over generated messages of all seven types and both address
//! families.

use crate::codec::said::said;
use proptest::prelude::*;
use wire::{Builder, Message, MessageType};

proptest! {
    #![proptest_config(chance::cases(20_000))]

    #[test]
    fn what_was_said_is_what_is_read_and_written_again(said in said()) {
        let bytes = said.write();
        let read = said.read(&bytes);
        prop_assert_eq!(&read, &said);
        prop_assert_eq!(read.write(), bytes);
    }

    /// Objects of any class with any body, header lengths honest, so that the bodies' decoders are reached.
    #[test]
    fn any_objects_are_parsed_without_panic(
        kind in 1u8..=7,
        objects in proptest::collection::vec((0u8..16, 0u8..4, proptest::collection::vec(any::<u8>(), 0..48)), 0..12),
    ) {
        let kind = MessageType::from_number(kind).unwrap();
        let message = objects.iter().fold(Builder::new(kind, 1), |m, (class, ctype, body)| m.raw(*class, *ctype, body));
        let bytes = message.finish().unwrap();
        if let Ok(message) = Message::parse(&bytes) {
            prop_assert_eq!(message.kind(), kind);
        }
        let _ = wire::Salvage::read(&bytes);
    }

    #[test]
    fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Message::parse(&bytes).is_ok(), wire::ip::Packet::parse(&bytes).is_ok());
        let _ = wire::ip::Udp::parse(&bytes).is_ok();
    }
}
