//! The sub-pool of a link's ledger against two tables kept in step by hand, which is how the premium was counted
//! before: every answer and every handle is compared, and every sum is recomputed after every step.

use admit::{
    Denied, Framing, Limits, LinkLedger, LinkTerms, Shortfall, SlotChange, SlotId, SlotOffer, SlotTable, Take,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use terms::{IfIndex, Misuse, Rate, Span, Time, Window};

const OVERHEAD: u32 = 14;
const TICKS: u64 = 24;

fn at(tick: u64) -> Time {
    if tick >= TICKS { Time::FOREVER } else { Time::ZERO + Span::from_secs(tick) }
}

fn bps(rate: u64) -> Rate {
    Rate::from_bps(rate)
}

fn terms(rate: u64, holding: Option<u64>) -> LinkTerms {
    LinkTerms {
        rate: bps(rate),
        kept_back: bps(rate / 20),
        signalled_share: bps(rate),
        assumed_holding: holding.map(Span::from_secs),
    }
}

/// The premium's own table and the link's, as the bookings kept them: a slot in each, and a map between the two.
struct TwoTables {
    link: LinkLedger,
    share: Option<SlotTable>,
    slots: BTreeMap<SlotId, SlotId>,
}

fn wire(ip: Rate, packet: u32) -> Rate {
    ip.with_overhead(OVERHEAD, packet)
}

fn without(wire: Rate, packet: u32) -> Rate {
    let packet = u64::from(packet.max(1));
    wire.share(packet, packet + u64::from(OVERHEAD))
}

type Put = fn(&mut SlotTable, Window, Rate) -> Result<SlotId, Denied>;

impl TwoTables {
    fn expire(&mut self, now: Time) {
        self.link.expire(now);
        self.tell_share(now);
    }

    fn tell_share(&mut self, now: Time) {
        if let Some(share) = &mut self.share {
            share.expire(now);
            while share.poll().is_some() {}
        }
    }

    fn set_premium(&mut self, now: Time, premium: Option<Rate>) {
        match (&mut self.share, premium) {
            (Some(share), Some(rate)) => {
                share.set_capacity(Window::open(now).unwrap(), rate).unwrap();
            }
            _ => {
                self.share = premium.map(|rate| SlotTable::new(SlotOffer::of(rate), Limits::default()));
                self.slots.clear();
                self.tell_share(now);
            }
        }
    }

    fn put(&mut self, now: Time, window: Window, ip: Rate, packet: u32, put: Put) -> Result<SlotId, Denied> {
        self.expire(now);
        let share = self.share.as_mut().map(|share| put(share, window, ip)).transpose()?;
        let booked = put(self.link.table_mut(), window, wire(ip, packet));
        match (booked, share, &mut self.share) {
            (Ok(slot), Some(part), _) => {
                self.slots.insert(slot, part);
                Ok(slot)
            }
            (Ok(slot), ..) => Ok(slot),
            (Err(denied), part, share) => {
                if let (Some(share), Some(part)) = (share, part) {
                    share.release(part).unwrap();
                }
                Err(match denied {
                    Denied::Capacity { asked, free } => {
                        Denied::Capacity { asked: without(asked, packet), free: without(free, packet) }
                    }
                    other => other,
                })
            }
        }
    }

    fn release(&mut self, now: Time, slot: SlotId) {
        if let (Some(share), Some(part)) = (&mut self.share, self.slots.remove(&slot)) {
            let _ = share.release(part);
        }
        let _ = self.link.release(now, slot);
    }

    fn least(&self, whole: Rate, part: impl Fn(&SlotTable) -> Rate) -> Rate {
        self.share.as_ref().map_or(whole, |share| part(share).min(whole))
    }

    fn free(&self, window: Window, packet: u32) -> Rate {
        let (start, end) = (window.start(), window.end());
        self.least(without(self.link.table().available(start, end), packet), |share| share.available(start, end))
    }

    fn find(&self, ip: Rate, packet: u32, span: Span, earliest: Time, latest: Time) -> Option<Time> {
        let mut start = earliest;
        loop {
            let found = self.link.table().find(wire(ip, packet), span, start, latest).ok()??;
            let Some(share) = &self.share else { return Some(found) };
            start = share.find(ip, span, found, latest).ok()??;
            if start == found {
                return Some(found);
            }
        }
    }

    fn stretches(&self, window: Window, most: usize, packet: u32) -> Vec<(Window, Rate)> {
        let of = |table: &SlotTable| table.stretches(window.start(), window.end(), most);
        let ip: Vec<_> = of(self.link.table()).into_iter().map(|(w, rate)| (w, without(rate, packet))).collect();
        let Some(share) = &self.share else { return ip };
        let (part, mut out, mut i, mut j) = (of(share), Vec::new(), 0, 0);
        while let (Some((x, a)), Some((y, b))) = (ip.get(i), part.get(j)) {
            if out.len() >= most {
                break;
            }
            if let Ok(both) = Window::new(x.start().max(y.start()), x.end().min(y.end())) {
                out.push((both, *a.min(b)));
            }
            if x.end() <= y.end() { i += 1 } else { j += 1 }
        }
        out
    }

    fn shortfall(&self, packet: u32) -> Option<Shortfall> {
        let whole = self.link.table().shortfall().map(|s| Shortfall { worst: without(s.worst, packet), ..s });
        let part = self.share.as_ref().and_then(SlotTable::shortfall);
        [whole, part].into_iter().flatten().max_by_key(|short| short.worst)
    }

    fn lasts(&self, ip: Rate, by: Time, packet: u32) -> Option<Time> {
        let by = self.share.as_ref().map_or(Some(by), |share| share.lasts(ip, by))?;
        self.link.table().lasts(wire(ip, packet), by)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Book { start: u64, length: u64, rate: u64, packet: u32, adopt: bool },
    Open(u64),
    Release(usize),
    Pass(u64),
    Premium(Option<u64>),
    Link(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let packet = prop::sample::select(vec![0u32, 1, 20, 1_000]);
    let book = (0..TICKS, 1..8u64, 0..60u64, packet, prop::bool::weighted(0.2));
    prop_oneof![
        8 => book.prop_map(|(start, length, rate, packet, adopt)| Op::Book { start, length, rate, packet, adopt }),
        2 => (1..40u64).prop_map(Op::Open),
        4 => (0..40usize).prop_map(Op::Release),
        2 => (0..3u64).prop_map(Op::Pass),
        1 => prop::option::weighted(0.8, 0..80u64).prop_map(Op::Premium),
        1 => (50..200u64).prop_map(Op::Link),
    ]
}

/// The ledger with its sub-pool beside the two tables.
struct Pair {
    one: LinkLedger,
    two: TwoTables,
    holding: Option<u64>,
    now: u64,
    slots: Vec<SlotId>,
}

impl Pair {
    fn new(premium: Option<u64>, holding: Option<u64>) -> Pair {
        let link = LinkLedger::new(IfIndex(1), terms(100, holding), Limits::default());
        let two = TwoTables { link: link.clone(), share: None, slots: BTreeMap::new() };
        let mut pair = Pair { one: link, two, holding, now: 0, slots: Vec::new() };
        pair.run(&Op::Premium(premium));
        pair
    }

    fn run(&mut self, op: &Op) {
        let now = at(self.now);
        match *op {
            Op::Book { start, length, rate, packet, adopt } => {
                let window = Window::new(at(start), at(start + length)).unwrap();
                let framing = Framing { overhead: OVERHEAD, packet };
                let (said, due) = if adopt {
                    let said = self.one.adopt_booked(now, window, bps(rate), framing);
                    (said, self.two.put(now, window, bps(rate), packet, |t, w, rate| t.adopt_booked(w, rate)))
                } else {
                    let said = self.one.book(now, window, bps(rate), framing);
                    (said, self.two.put(now, window, bps(rate), packet, |t, w, rate| t.grant(w, rate)))
                };
                // The old answer did not tell which of the two tables was full.
                let said = said.map_err(|denied| match denied {
                    Denied::Pool { asked, free } => Denied::Capacity { asked, free },
                    other => other,
                });
                assert_eq!(said, due, "{op:?}");
                self.slots.extend(said);
            }
            Op::Open(rate) => {
                let (said, due) = (self.one.open(now, bps(rate)), self.two.link.open(now, bps(rate)));
                assert_eq!(said, due);
                self.slots.extend(said);
            }
            Op::Release(n) => {
                let slot = self.slots.get(n).copied().unwrap_or(SlotId::from_u64(n as u64));
                let _ = self.one.release(now, slot);
                self.two.release(now, slot);
            }
            Op::Pass(ticks) => {
                self.now = (self.now + ticks).min(TICKS - 1);
                self.one.expire(at(self.now));
                self.two.expire(at(self.now));
            }
            Op::Premium(premium) => {
                self.one.set_premium(premium.map(bps));
                self.two.set_premium(now, premium.map(bps));
            }
            Op::Link(rate) => {
                let terms = terms(rate, self.holding);
                assert_eq!(self.one.change(now, terms), self.two.link.change(now, terms));
            }
        }
        loop {
            let (said, due) = (self.one.poll(), self.two.link.poll());
            assert_eq!(said, due, "{op:?}");
            if said.is_none() {
                break;
            }
        }
        assert_eq!(self.one.table().audit(), Ok(()), "{op:?}");
    }

    fn compare(&self, (start, length, rate, most): (u64, u64, u64, usize), packet: u32) {
        let (one, two, now) = (&self.one, &self.two, at(self.now));
        let framing = Framing { overhead: OVERHEAD, packet };
        let window = Window::new(at(start), at(start + length)).unwrap();
        let (ip, span) = (bps(rate), Span::from_secs(length));
        let instant = Time::ZERO + Span::from_secs(start.max(self.now));
        assert_eq!(one.free_to_book(window, framing), two.free(window, packet));
        let spare = two.least(without(two.link.table().spare(instant), packet), |share| share.spare(instant));
        assert_eq!(one.spare_to_book(instant, framing), spare);
        let capacity = two.least(without(two.link.table().capacity(), packet), SlotTable::capacity);
        assert_eq!(one.bookable(framing), capacity);
        assert_eq!(one.lasts_booked(ip, window.end(), framing), two.lasts(ip, window.end(), packet));
        for latest in [at(start + 2 * length), Time::FOREVER] {
            let found = one.find_to_book(ip, span, at(start), latest, framing);
            assert_eq!(found, two.find(ip, packet, span, at(start), latest));
            if let Some(found) = found {
                assert!(found >= now && one.free_to_book(Window::new(found, found + span).unwrap(), framing) >= ip);
            }
        }
        assert_eq!(one.stretches_to_book(window, most, framing), two.stretches(window, most, packet));
        assert_eq!(one.booked_shortfall(framing), two.shortfall(packet));
        assert_eq!(one.premium(), two.share.as_ref().map(SlotTable::capacity));
    }
}

fn question() -> impl Strategy<Value = (u64, u64, u64, usize)> {
    (0..TICKS, 1..10u64, 0..50u64, prop::sample::select(vec![1usize, 2, 3, 64]))
}

proptest! {
    #![proptest_config(chance::cases(3_000))]

    #[test]
    fn it_answers_as_two_tables_kept_in_step(
        premium in prop::option::weighted(0.9, 20..80u64),
        holding in prop::option::of(0..6u64),
        steps in prop::collection::vec((op(), question(), prop::sample::select(vec![0u32, 1, 20, 1_000])), 1..40),
    ) {
        let mut pair = Pair::new(premium, holding);
        for (op, question, packet) in &steps {
            pair.run(op);
            pair.compare(*question, *packet);
        }
        // When everything is given back, nothing is left in either.
        for slot in pair.slots.clone() {
            let _ = pair.one.release(at(pair.now), slot);
        }
        while pair.one.poll().is_some() {}
        prop_assert_eq!(pair.one.table().audit(), Ok(()));
        let ever = Window::open(at(pair.now)).unwrap();
        let plain = Framing { overhead: 0, packet: 1 };
        prop_assert_eq!(pair.one.free_to_book(ever, plain), pair.one.bookable(plain));
    }
}

fn with_pool(limit: u64) -> SlotTable {
    let mut table = SlotTable::new(SlotOffer::of(bps(100)), Limits::default());
    table.set_pool(Some(bps(limit)));
    table
}

fn window(start: u64, end: u64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

#[test]
fn the_sub_pool_bounds_only_what_is_in_it() {
    let mut table = with_pool(45);
    let take = Take { whole: bps(50), part: bps(45) };
    let inside = table.book_in_pool(window(2, 8), take).unwrap();
    assert_eq!(table.part(inside), Some(bps(45)));
    let more = Take { whole: bps(1), part: bps(1) };
    assert_eq!(table.book_in_pool(window(4, 5), more), Err(Denied::Pool { asked: bps(1), free: bps(0) }));
    let outside = table.grant(window(4, 5), bps(50)).unwrap();
    assert_eq!(table.part(outside), None);
    assert_eq!(table.grant(window(4, 5), bps(1)), Err(Denied::Capacity { asked: bps(1), free: bps(0) }));
    table.release(inside).unwrap();
    assert_eq!((table.part(inside), table.audit()), (None, Ok(())));
    let all = Take { whole: bps(50), part: bps(45) };
    assert!(table.book_in_pool(window(0, 24), all).is_ok(), "one release gave both back");
}

#[test]
fn a_slot_that_moves_moves_in_both() {
    let mut table = with_pool(45);
    let take = |amount| Take { whole: bps(amount), part: bps(amount) };
    let first = table.book_in_pool(window(2, 8), take(30)).unwrap();
    let second = table.book_in_pool(window(10, 12), take(30)).unwrap();
    let before = table.digest();
    let refused = table.modify(first, SlotChange::window(window(2, 11)));
    assert_eq!(refused, Err(Denied::Pool { asked: bps(30), free: bps(15) }));
    assert_eq!((table.digest(), table.audit()), (before, Ok(())), "a refusal changes nothing");
    assert!(table.modify(first, SlotChange::window(window(4, 10))).is_ok());
    assert_eq!(table.audit(), Ok(()));
    assert!(table.book_in_pool(window(2, 4), take(45)).is_ok(), "the old place is free");
    table.release(second).unwrap();
    assert!(table.modify(first, SlotChange::window(window(4, 20))).is_ok());
    table.expire(at(20));
    assert_eq!((table.len(), table.audit()), (0, Ok(())), "time takes them out of both");
}

#[test]
fn a_smaller_limit_takes_nothing_back() {
    let mut table = with_pool(45);
    let take = Take { whole: bps(40), part: bps(40) };
    let slot = table.book_in_pool(window(2, 8), take).unwrap();
    table.set_pool(Some(bps(10)));
    let short = table.shortfall_in_pool(|rate| rate).unwrap();
    assert_eq!((short.first, short.worst, table.shortfall()), (at(2), bps(30), None));
    assert_eq!(table.available_in_pool(at(0), at(9), |rate| rate), bps(0));
    table.set_pool(None);
    assert_eq!((table.pool(), table.part(slot), table.shortfall_in_pool(|rate| rate)), (None, None, None));
    table.set_pool(Some(bps(10)));
    assert_eq!(table.available_in_pool(at(0), at(9), |rate| rate), bps(10), "a new sub-pool begins empty");
    assert!(table.release(slot).is_ok());
    let none = Take { whole: bps(1), part: bps(0) };
    assert_eq!(table.book_in_pool(window(0, 1), none), Err(Misuse::ZeroRate.into()));
}
