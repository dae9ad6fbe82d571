//! The bookings over the ledgers of traffic control: signalled and booked reservations draw on one, amounts are IP bytes outside and wire
//! bytes inside, a premium share bounds bookings alone, and what a booking displaces is told.

use control::Tc;
use control::classes::{Premium, PremiumDemand, guaranteed};
use control::core::Core;
use control::io::{Event, InterfaceState, Reservable};
use control::resources::{Bookable, Resource};
use control::tc::ControlOutput;

use terms::book::{Guarantee, ResourceKind};
use terms::ports::book::{BindQuestion, Demand, NoRoom, PolicyDecision, Question};
use terms::ports::{Ledger, PolicyPort};
use terms::{Amount, IfIndex, Misuse, Rate, Span, Time, Window};
use traffic::plan::{ClassId, LinkSpec};

const OIF: IfIndex = IfIndex(2);

struct Open;

impl PolicyPort for Open {
    fn decide(&self, _: &Question<'_>) -> PolicyDecision {
        PolicyDecision { rule: "open".into(), denied: None, ..PolicyDecision::default() }
    }

    fn may_bind(&self, _: &BindQuestion<'_>) -> PolicyDecision {
        PolicyDecision { rule: "open".into(), denied: None, ..PolicyDecision::default() }
    }
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn window(start: u64, end: u64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

fn reservable(mbit: u64) -> Reservable {
    Reservable {
        spec: LinkSpec {
            rate: Rate::from_mbps(mbit),
            overhead: 14,
            mtu: 1500,
            scheduler: traffic::scheduler::SchedulerKind::Htb,
        },
        signalled_share: Rate::from_mbps(mbit),
        kept_back: Rate::from_mbps(1),
        assumed_holding: None,
        guaranteed: None,
        measured: Rate::ZERO,
    }
}

fn interface(link: Option<Reservable>) -> InterfaceState {
    let addresses = vec!["10.0.2.1".parse().unwrap()];
    InterfaceState { index: OIF, name: "eth1".into(), addresses, mtu: 1500, rsvp: true, link }
}

/// 100 Mb/s with 14 bytes of overhead, of which some is kept back.
fn with_link() -> Tc {
    let mut tc = Tc::new([1, 2]);
    tc.interface(at(0), &interface(Some(reservable(100))));
    let came = drain(&mut tc).into_iter().any(|event| matches!(event, Event::Resource { .. }));
    assert!(came, "the interface is a resource of the book");
    tc
}

fn drain(tc: &mut Tc) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(output) = tc.poll() {
        if let ControlOutput::Event(event) = output {
            events.push(event);
        }
    }
    events
}

fn want(amount: u64, packet: u32) -> Demand {
    Demand { amount, packet }
}

#[test]
fn booked_and_signalled_draw_on_one_ledger() {
    let mut tc = with_link();
    let id = tc.resource_of(OIF).unwrap();
    let (offer, free) = tc.with_book(at(0), &Open, |book| {
        assert_eq!(book.resource("net/eth1"), Some(id));
        assert_eq!(book.resource("net/eth2"), None);
        (book.offer(id).unwrap(), book.free(id, window(10, 20), 1_000))
    });
    assert_eq!((offer.kind, offer.guarantee, offer.capacity), (ResourceKind::Network, Guarantee::Reserved, free));
    assert_eq!(offer.shared, offer.capacity * 9 / 10);
    // A signalled slot of 40 Mb/s on the wire takes 40 Mb/s on the wire.
    let slot = tc.ledger_mut(OIF).unwrap().open(at(0), Rate::from_mbps(40)).unwrap();
    let less = tc.with_book(at(0), &Open, |book| book.free(id, window(10, 20), 1_000));
    let wire = |ip: u64| Rate::from_bps(ip).with_overhead(14, 1_000).as_bps();
    assert!(wire(free) - wire(less) - 40_000_000 <= 2, "{free} {less}");
    // All of the rest is booked; then nothing can be signalled, not even before the window begins.
    tc.with_book(at(0), &Open, |book| {
        let more = book.book(at(0), id, window(10, 20), want(less + 1, 1_000)).unwrap_err();
        assert_eq!(more, NoRoom::Full { free: less });
        book.book(at(0), id, window(10, 20), want(less, 1_000)).unwrap();
        assert_eq!(book.free(id, window(0, 10), 1_000), less);
        assert!(book.free(id, window(19, 21), 1_000) < 2);
        assert_eq!(book.find(id, want(less, 1_000), Span::from_secs(5), at(6), at(100)), Some(at(20)));
        let stretches = book.stretches(id, window(0, 30), 1_000, 9);
        assert_eq!(
            stretches.iter().map(|(w, _)| *w).collect::<Vec<_>>(),
            [window(0, 10), window(10, 20), window(20, 30)]
        );
    });
    assert!(tc.ledger_mut(OIF).unwrap().open(at(1), Rate::from_mbps(1)).is_err());
    tc.ledger_mut(OIF).unwrap().release(at(2), slot).unwrap();
    assert!(tc.ledger_mut(OIF).unwrap().open(at(2), Rate::from_mbps(1)).is_ok());
    assert_eq!(tc.links().next().unwrap().reserved, Rate::from_mbps(1), "what is booked is not signalled");
}

#[test]
fn overhead_is_demanded_up_and_supplied_down() {
    let mut tc = with_link();
    let id = tc.resource_of(OIF).unwrap();
    tc.with_book(at(0), &Open, |book| {
        for packet in [20, 64, 333, 1_000, 1_500] {
            let free = book.free(id, window(0, 10), packet);
            let slot = book.book(at(0), id, window(0, 10), want(free, packet));
            let Ok(slot) = slot else { panic!("{free} are free for packets of {packet}: {slot:?}") };
            book.release(at(0), id, slot);
            assert!(book.book(at(0), id, window(0, 10), want(free + 1, packet)).is_err(), "{packet}");
        }
    });
}

#[test]
fn a_premium_share_bounds_bookings_alone() {
    let mut tc = with_link();
    let id = tc.bookable(at(0), OIF, Bookable { share: Some(Rate::from_mbps(45)), ..Bookable::default() }).unwrap();
    tc.with_book(at(0), &Open, |book| {
        let offer = book.offer(id).unwrap();
        assert_eq!((offer.capacity, offer.shared), (45_000_000, 40_500_000));
        let slot = book.book(at(0), id, window(10, 20), want(45_000_000, 1_000)).unwrap();
        let full = book.book(at(0), id, window(15, 25), want(1, 1_000));
        assert_eq!(full, Err(NoRoom::Full { free: 0 }));
        assert_eq!(book.find(id, want(1_000_000, 1_000), Span::from_secs(5), at(8), at(99)), Some(at(20)));
        assert_eq!(book.stretches(id, window(12, 25), 1_000, 9).len(), 2);
        book.release(at(0), id, slot);
        assert_eq!(book.free(id, window(10, 20), 1_000), 45_000_000);
    });
    assert!(tc.ledger_mut(OIF).unwrap().open(at(1), Rate::from_mbps(60)).is_ok(), "signalled ones have no part in it");
    // Signalled 60 of 100 on the wire: less than 45 is left.
    let left = tc.with_book(at(1), &Open, |book| book.free(id, window(10, 20), 1_000));
    assert!(left < 40_000_000, "{left}");
}

/// Carries out every plan.
fn carry_out(tc: &mut Tc) {
    while tc.end_turn() {
        while let Some(output) = tc.poll() {
            if let ControlOutput::Plan(id, _) = output {
                tc.plan_done(at(1), id, Ok(()));
            }
        }
    }
}

/// An interface in the middle of a domain: its classes are guaranteed by configuration, and the ledger knows.
#[test]
fn what_is_set_apart_for_code_points_is_in_the_ledger_and_in_the_classes() {
    let mut tc = Tc::new([1, 2]);
    tc.interface(at(0), &interface(Some(reservable(100))));
    carry_out(&mut tc);
    let id = tc.resource_of(OIF).unwrap();
    let free = |tc: &mut Tc| tc.with_book(at(0), &Open, |book| book.free(id, window(10, 20), 1_000));
    let before = free(&mut tc);
    let core = Core { premium: Rate::from_mbps(45), background: Rate::from_mbps(20) };
    for _ in 0..2 {
        tc.bookable(at(0), OIF, Bookable { core, ..Bookable::default() });
        assert!((before - free(&mut tc)).abs_diff(65_000_000) < 10, "once, however often it is said");
    }
    carry_out(&mut tc);
    let class = |tc: &Tc, class: ClassId| {
        let plan = tc.plan();
        plan.links[&OIF].classes.get(&class).map_or(Rate::ZERO, guaranteed).as_bps()
    };
    let wire = |mbit: u64| Rate::from_mbps(mbit).with_overhead(14, 1_000).as_bps();
    assert_eq!(
        (class(&tc, ClassId::PREMIUM), class(&tc, ClassId::BACKGROUND)),
        (wire(45), wire(20)),
        "with nothing booked"
    );
    let all = &tc.plan().links[&OIF].classes;
    let sum: u64 = all.values().map(|spec| guaranteed(spec).as_bps()).sum();
    assert_eq!(sum, 100_000_000, "the classes still sum to the link");
    let too_much = Rate::from_bps(100_000_000 - wire(65));
    assert!(tc.ledger_mut(OIF).unwrap().open(at(1), too_much).is_err(), "not given away twice");
    // What is booked there comes on top.
    let booked = PremiumDemand { rate: Rate::from_mbps(10), ..PremiumDemand::default() };
    let premium = Premium { foreground: booked, ..Premium::default() };
    tc.edge_turn().premium(OIF, premium);
    carry_out(&mut tc);
    assert_eq!(class(&tc, ClassId::PREMIUM), wire(45) + 10_000_000);
    tc.edge_turn().premium(OIF, Premium::default());
    carry_out(&mut tc);
    tc.bookable(at(1), OIF, Bookable::default());
    carry_out(&mut tc);
    assert_eq!((class(&tc, ClassId::PREMIUM), free(&mut tc)), (0, before), "given back");
}

#[test]
fn a_booking_displaces_what_may_be_displaced_and_nothing_else() {
    let mut tc = Tc::new([1, 2]);
    let link = Reservable { assumed_holding: Some(Span::from_secs(60)), ..reservable(100) };
    tc.interface(at(0), &interface(Some(link)));
    drain(&mut tc);
    let id = tc.resource_of(OIF).unwrap();
    tc.ledger_mut(OIF).unwrap().open(at(0), Rate::from_mbps(50)).unwrap();
    tc.with_book(at(0), &Open, |book| {
        assert!(book.book(at(0), id, window(10, 20), want(80_000_000, 1_000)).is_err(), "safe for a minute");
        assert!(book.book(at(0), id, window(100, 200), want(80_000_000, 1_000)).is_ok());
    });
    assert_eq!(tc.ledger_mut(OIF).unwrap().open_sum(), Rate::from_mbps(50), "not before the booking's time");
    while let Some(wake) = tc.wake_at().filter(|wake| *wake <= at(100)) {
        tc.wake(wake);
        drain(&mut tc);
    }
    assert_eq!(tc.ledger_mut(OIF).unwrap().open_sum(), Rate::ZERO);
}

#[test]
fn what_is_counted_is_a_resource_like_any_other() {
    let mut tc = with_link();
    let shared = Amount::pieces(0);
    let stock = |capacity| Resource {
        name: "licence/x".into(),
        guarantee: Guarantee::Reserved,
        capacity: Amount::pieces(capacity),
        shared,
    };
    let id = tc.add_resource(at(0), stock(3));
    tc.with_book(at(0), &Open, |book| {
        assert_eq!(book.offer(id).unwrap().kind, ResourceKind::Countable);
        book.book(at(0), id, window(0, 10), want(2, 0)).unwrap();
        assert_eq!(book.book(at(0), id, window(5, 6), want(2, 0)), Err(NoRoom::Full { free: 1 }));
        let past = book.book(at(7), id, window(5, 6), want(1, 0));
        assert!(matches!(past, Err(NoRoom::Meaningless(Misuse::Past { .. }))), "{past:?}");
        assert_eq!(book.missing(id), None);
    });
    // Fewer than are given away: nothing is taken back, and it is told.
    assert_eq!(tc.add_resource(at(7), stock(1)), id);
    tc.with_book(at(7), &Open, |book| {
        assert_eq!(book.missing(id).map(|m| (m.first, m.worst)), Some((at(7), 1)));
        assert_eq!(book.free(id, window(10, 20), 0), 1);
        // What was promised in an earlier life counts, whether or not it fits.
        assert!(book.adopt(at(7), id, window(8, 9), want(5, 0)).is_ok());
        assert_eq!(book.missing(id).map(|m| m.worst), Some(6));
    });
}

/// An interface that goes and comes back is another resource, with an empty ledger; the book is told.
#[test]
fn a_resource_that_comes_back_is_another() {
    let mut tc = with_link();
    let old = tc.resource_of(OIF).unwrap();
    let slot = tc.with_book(at(0), &Open, |book| book.book(at(0), old, window(0, 10), want(9, 1_000)).unwrap());
    drain(&mut tc);
    tc.interface_gone(at(1), OIF);
    assert!(drain(&mut tc).contains(&Event::Resource { resource: old }));
    tc.with_book(at(1), &Open, |book| {
        assert_eq!((book.offer(old), book.resource("net/eth1"), book.free(old, window(1, 2), 100)), (None, None, 0));
        assert_eq!(book.book(at(1), old, window(1, 2), want(1, 100)), Err(NoRoom::Gone));
        book.release(at(1), old, slot);
    });
    drain(&mut tc);
    tc.interface(at(2), &interface(Some(reservable(100))));
    drain(&mut tc);
    assert_ne!(tc.resource_of(OIF), Some(old));
}
