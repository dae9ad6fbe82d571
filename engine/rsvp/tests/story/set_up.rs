//! Setting a reservation up, changing it, giving it up: RFC 2205 sections 2 and 3.1, RFC 2209 sections 2.1 to 2.7.

use crate::net::*;
use rsvp::io::Upcall;
use terms::{Span, Time};

const R: Span = Span::from_secs(30);

/// Path down, Resv up, confirmation down; every hop, the sending host's too, holds the flow before it is confirmed.
#[test]
fn a_reservation_is_set_up_and_confirmed() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.announce(0, 3, 3);
    net.run(Span::from_millis(10));
    assert_eq!(net.paths(), [1, 1, 1, 1]);
    assert_eq!(net.heard(3, |u| matches!(u, Upcall::Path { .. })), 0, "nobody registered yet");
    assert_eq!(net.held(), [0, 0, 0, 0]);

    let start = net.now;
    net.ask(0, 3, cl(3));
    assert_eq!(net.heard(3, |u| matches!(u, Upcall::Path { .. })), 1, "told on registering");
    net.run(Span::from_millis(20));
    assert_eq!(net.held(), [3, 3, 3, 0], "the receiver has no outgoing link");
    assert_eq!(net.heard(0, |u| matches!(u, Upcall::Resv { .. })), 1);
    // Three links up, three installations, three links down.
    assert_eq!(net.confirms(3), [(start + Span::from_millis(9), cl(3))]);
    assert_eq!((net.count("Resv", start), net.count("ResvConf", start)), (3, 3));
    assert_eq!(net.now, Time::ZERO + Span::from_millis(30));
}
