//! Stocks: amounts of one unit, counted as any other table counts.

use admit::{Denied, Limits, SlotOffer, SlotTable, StockLedger};
use proptest::prelude::*;
use terms::{Amount, Misuse, Rate, Span, Time, Unit, Window};

fn at(second: u64) -> Time {
    Time::ZERO + Span::from_secs(second)
}

fn window(start: u64, end: u64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

proptest! {
    #![proptest_config(chance::cases(1_000))]

    /// The numbers are those of a table of rates, which counted every resource before; only the unit is new.
    #[test]
    fn it_counts_as_a_table_of_rates_did(
        unit in prop::sample::select(Unit::ALL.to_vec()),
        capacity in 0..40u64,
        asks in prop::collection::vec((0..20u64, 1..8u64, 0..20u64, 0..8u32), 1..30),
    ) {
        let mut stock = StockLedger::new(Amount::new(capacity, unit), Limits::default());
        let mut rates = SlotTable::new(SlotOffer::of(Rate::from_bps(capacity)), Limits::default());
        let amount = |rate: Rate| Amount::new(rate.as_bps(), unit);
        let (mut now, mut slots) = (at(0), Vec::new());
        for (start, length, n, what) in asks {
            let (when, rate) = (window(start, start + length), Rate::from_bps(n));
            match what {
                0 => now = now.max(at(start / 2)),
                1 => {
                    let short = stock.set_capacity(now, amount(rate)).unwrap();
                    rates.expire(now);
                    let due = rates.set_capacity(Window::open(now).unwrap(), rate).unwrap();
                    prop_assert_eq!(short.map(|s| (s.first, s.worst)), due.map(|s| (s.first, amount(s.worst))));
                }
                2 => if let Some(slot) = slots.pop() {
                    let released = stock.release(now, slot);
                    rates.expire(now);
                    prop_assert_eq!(released, rates.release(slot).map(|_| ()));
                },
                3 => {
                    let adopted = stock.adopt(now, when, amount(rate));
                    rates.expire(now);
                    prop_assert_eq!(adopted, rates.adopt_booked(when, rate).map_err(|d| d.convert(amount, amount)));
                    slots.extend(adopted);
                }
                _ => {
                    let booked = stock.book(now, when, amount(rate));
                    rates.expire(now);
                    prop_assert_eq!(booked, rates.grant(when, rate).map_err(|d| d.convert(amount, amount)));
                    slots.extend(booked);
                }
            }
            stock.expire(now);
            rates.expire(now);
            let (end, span) = (at(start + length), Span::from_secs(length));
            prop_assert_eq!(stock.free(when), amount(rates.available(at(start), end)));
            prop_assert_eq!(stock.spare(now), amount(rates.spare(now)));
            prop_assert_eq!(stock.capacity(), amount(rates.capacity()));
            let found = stock.find(amount(rate), span, at(start), Time::FOREVER);
            prop_assert_eq!(found, rates.find(rate, span, at(start), Time::FOREVER));
            let due: Vec<_> = rates.stretches(at(start), end, 3).into_iter().map(|(w, r)| (w, amount(r))).collect();
            prop_assert_eq!(stock.stretches(when, 3), due);
            let short = rates.shortfall().map(|s| (s.first, amount(s.worst)));
            prop_assert_eq!(stock.shortfall().map(|s| (s.first, s.worst)), short);
        }
    }

    #[test]
    fn another_unit_is_refused_and_changes_nothing(ours in 0..4usize, further in 1..4usize, n in 1..10u64) {
        let (unit, other) = (Unit::ALL[ours], Unit::ALL[(ours + further) % 4]);
        let mut stock = StockLedger::new(Amount::new(10, unit), Limits::default());
        let wrong = Misuse::OtherUnit { wanted: unit, found: other };
        let amount = Amount::new(n, other);
        prop_assert_eq!(stock.book(at(0), window(1, 2), amount), Err(Denied::Misuse(wrong)));
        prop_assert_eq!(stock.adopt(at(0), window(1, 2), amount), Err(Denied::Misuse(wrong)));
        prop_assert_eq!(stock.set_capacity(at(0), amount), Err(Denied::Misuse(wrong)));
        prop_assert_eq!(stock.find(amount, Span::from_secs(1), at(0), Time::FOREVER), Err(wrong));
        prop_assert_eq!((stock.capacity(), stock.free(window(0, 9))), (Amount::new(10, unit), Amount::new(10, unit)));
    }
}
