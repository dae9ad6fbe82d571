//! Soft state: what nobody refreshes ends at its lifetime, never before (RFC 2205 section 3.7).

use crate::bed::{Bed, expect, reserve, wait_for};
use documents::agent::{EventDoc, Request};
use std::time::{Duration, Instant};

/// L for R = 1 s and K = 3: (3 + 0.5) x 1.5 x R.
const LIFETIME: Duration = Duration::from_millis(5250);

#[test]
fn a_dead_receiver_s_reservation_lives_exactly_its_lifetime() {
    let Some(bed) = Bed::up("1s") else { return };
    let _sender = bed.sender(2_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 2_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let mut watcher = bed.client("maui");
    watcher.call(Request::Watch).unwrap();
    bed.kill("glenwood");
    // Nothing refreshes it from now on, so what is left is counted from the last refresh that came.
    let asked_at = Instant::now();
    let left = Duration::from_millis(bed.reservations("maui")[0].expires_in_ms.expect("a neighbour's"));
    let answered_at = Instant::now();
    assert!(left <= LIFETIME, "{left:?}");
    let named = |event: &EventDoc| matches!(event, EventDoc::Node { name, .. } if name == "resv_removed");
    let (_, event) = expect(&mut watcher, "the expiry", named);
    let (earliest, latest) = (asked_at + left, answered_at + left + Duration::from_secs(5));
    let now = Instant::now();
    assert!(now >= earliest, "{:?} before its lifetime was over", earliest - now);
    assert!(now <= latest, "{:?} late", now - latest);
    let EventDoc::Node { text, .. } = event else { unreachable!("expected above") };
    assert!(text.contains("its lifetime is over"), "{text}");
    for node in ["maui", "yosemite", "swissvale"] {
        wait_for("torn upstream", || {
            let status = bed.status(node);
            (status.reservations.is_empty() && status.interfaces.iter().all(|i| i.slots == 0)).then_some(())
        });
    }
    let senders = |node| match bed.client(node).call(Request::Senders(Default::default())).unwrap() {
        documents::agent::Answer::Senders(rows) => rows.len(),
        other => panic!("{other:?}"),
    };
    for node in ["swissvale", "yosemite", "maui"] {
        assert_eq!(senders(node), 1, "{node}: path state stays while the sender refreshes");
    }
}
