//! AUTH: who asks is proven, replays and changes under way are not believed.

use super::net::*;
use boomerang::auth::AuthKey;
use boomerang::{BoomerangUpcall, Config, Event, SessionRequest};
use std::cell::RefCell;
use std::rc::Rc;
use wire::boomerang::{Rates, Rewrite};

pub fn keyed() -> Config {
    Config { keys: vec![AuthKey { id: 7, secret: b"a secret that all have".to_vec() }], ..Config::default() }
}

fn required() -> Config {
    Config { require_auth: true, ..keyed() }
}

fn proven(far_end: usize) -> SessionRequest {
    SessionRequest { auth: Some(7), ..ask(far_end, 3, 1) }
}

#[test]
pub fn who_proves_it_reserves_and_who_does_not_is_refused() {
    let mut net = Net::line_with("aauah", &required());
    net.reserve(0, proven(4));
    net.run_ms(100);
    assert!(
        matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { hops: Some((2, 2)), .. })),
        "{:?}",
        net.upcalls
    );
    assert_eq!((net.held(1, 2), net.held(3, 1)), (3_000_000, 1_000_000));
    net.run_ms(20_000);
    assert_eq!((net.held(1, 2), net.held(3, 1)), (3_000_000, 1_000_000), "refreshes are proven as well");
    net.release(0);
    net.run_ms(100);
    assert!(net.halves(1).is_empty());
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Refused { .. })));
}

#[test]
pub fn a_wrong_key_proves_nothing() {
    let wrong = Config { keys: vec![AuthKey { id: 7, secret: b"another secret".to_vec() }], ..Config::default() };
    let mut net = Net::line_with("aah", &required());
    net.machines.clear();
    for (kind, config) in [('a', wrong), ('a', required()), ('h', Config::default())] {
        net.add(kind, config);
    }
    net.wire((0, 2), (1, 1));
    net.wire((1, 2), (2, 1));
    net.find_ways();
    net.reserve(0, proven(2));
    net.run_ms(100);
    assert!(net.events.iter().any(|(n, event)| *n == 1 && matches!(event, Event::Unproven { .. })));
    assert_eq!(net.held(1, 2), 0);
}

#[test]
pub fn a_message_that_is_said_again_is_not_believed_again() {
    let mut net = Net::line_with("aah", &required());
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&kept);
    net.meddle((0, 2), move |packet| {
        keep.borrow_mut().push(packet.to_vec());
        vec![packet.to_vec()]
    });
    net.reserve(0, proven(2));
    net.run_ms(100);
    net.release(0);
    net.run_ms(100);
    assert!(net.halves(1).is_empty());
    net.leave_alone((0, 2));
    let first = kept.borrow()[0].clone();
    net.put(0, 2, &first);
    net.run_ms(100);
    assert!(net.halves(1).is_empty(), "the set-up of before, replayed");
    assert!(net.events.iter().any(|(n, event)| *n == 1 && matches!(event, Event::Unproven { .. })));
}

/// Somebody between raises, lowers or shortens: behind him nobody believes it.
#[test]
pub fn what_is_changed_by_somebody_without_the_key_is_not_believed() {
    for what in 0..3 {
        let mut net = Net::line_with("aah", &required());
        net.meddle((0, 2), move |packet| {
            let mut packet = packet.to_vec();
            let mut rewrite = Rewrite::new(&mut packet).unwrap();
            match what {
                0 => rewrite.rates(0, Rates { forward: 8 * MBIT, reverse: MBIT }),
                1 => rewrite.rates(0, Rates { forward: MBIT, reverse: 0 }),
                _ => rewrite.refresh(1),
            }
            vec![packet]
        });
        net.reserve(0, proven(2));
        net.run_ms(100);
        assert!(net.halves(1).is_empty(), "{what}");
    }
    // And the initiating node believes no reply that was changed.
    let mut net = Net::line_with("aah", &required());
    net.meddle((1, 1), |packet| {
        let mut packet = packet.to_vec();
        Rewrite::new(&mut packet).unwrap().nack();
        vec![packet]
    });
    net.reserve(0, proven(2));
    net.run_ms(100);
    assert_eq!(net.said_of(0), []);
    assert!(net.events.iter().any(|(n, event)| *n == 0 && matches!(event, Event::Unexpected { .. })));
}
