//! Which replies make state where no request passed: known, authenticated, any.

use super::authentic::keyed;
use super::faults::round_about;
use super::net::*;
use boomerang::{BoomerangUpcall, Config, Replies, SessionRequest};

#[test]
pub fn any_reply_makes_state_where_that_is_said() {
    let mut net = round_about(&Config { replies: Replies::Any, ..Config::default() });
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(3, 1)), (3_000_000, 1_000_000));
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { hops: Some((1, 1)), .. })));
    net.release(0);
    net.run_ms(100);
    assert!(net.halves(1).is_empty() && net.halves(3).is_empty(), "released on both ways");
}

#[test]
pub fn only_proven_replies_make_state_where_that_is_said() {
    let config = Config { replies: Replies::Authenticated, ..keyed() };
    let mut net = round_about(&config);
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(3, 1)), (3_000_000, 0), "nothing is proven");
    let mut net = round_about(&config);
    net.reserve(0, SessionRequest { auth: Some(7), ..ask(2, 3, 1) });
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(3, 1)), (3_000_000, 1_000_000));
}

/// A request that asks for the reverse direction alone is remembered, so that its reply is known.
#[test]
pub fn a_known_reply_may_be_to_a_request_that_reserved_nothing() {
    let mut net = Net::line("aah");
    net.reserve(0, ask(2, 0, 4));
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (0, 4_000_000));
    net.release(0);
    net.run_ms(100);
    assert!(net.halves(1).is_empty());
}
