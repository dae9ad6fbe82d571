//! What displacing would make room for, against doing it on a copy.

use admit::{Limits, SlotId, SlotOffer, SlotTable};
use proptest::prelude::*;
use terms::{Rate, Span, Time, Window};

#[derive(Clone, Debug)]
enum Step {
    Open(u64),
    Book(u64, u64, u64),
    Release(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..40u64).prop_map(Step::Open),
        2 => (1..40u64, 0..30u64, 1..30u64).prop_map(|(rate, from, span)| Step::Book(rate, from, span)),
        1 => any::<usize>().prop_map(Step::Release),
        2 => (1..10u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(chance::cases(2_000))]

    #[test]
    fn the_answer_is_what_doing_it_would_give(
        steps in prop::collection::vec(step(), 1..30),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        grow in prop::option::of(any::<prop::sample::Index>()),
        holding in prop::option::of(1..15u64),
    ) {
        let assumed_holding = holding.map(Span::from_nanos);
        let offer = SlotOffer { signalled_share: Some(Rate::from_bps(90)), assumed_holding, ..SlotOffer::of(Rate::from_bps(100)) };
        let mut table = SlotTable::new(offer, Limits::default());
        let (mut now, mut open): (Time, Vec<SlotId>) = (Time::from_nanos(1), vec![]);
        table.expire(now);
        for step in steps {
            match step {
                Step::Open(rate) => open.extend(table.open(Rate::from_bps(rate)).ok()),
                Step::Book(rate, from, span) => {
                    let window = Window::new(now + Span::from_nanos(from), now + Span::from_nanos(from + span)).unwrap();
                    let _ = table.grant(window, Rate::from_bps(rate));
                }
                Step::Release(n) if !open.is_empty() => {
                    let _ = table.release(open.swap_remove(n % open.len()));
                }
                Step::Release(_) => {}
                Step::Pass(span) => {
                    now = now + Span::from_nanos(span);
                    table.expire(now);
                }
            }
        }
        open.retain(|id| table.get(*id).is_ok());
        let pick = |index: &prop::sample::Index| (!open.is_empty()).then(|| *index.get(&open));
        let gone: Vec<SlotId> = gone.iter().filter_map(pick).collect();
        let of = grow.as_ref().and_then(pick);
        let before = table.digest();
        let free = table.free_without(&gone, of);
        prop_assert_eq!(table.digest(), before, "nothing is different");
        prop_assert!(table.audit().is_ok());
        let mut copy = table.clone();
        for id in gone.iter().filter(|id| Some(**id) != of) {
            let _ = copy.release(*id);
        }
        let Some(of) = of else {
            prop_assert_eq!(free, copy.free_to_open());
            return Ok(());
        };
        if free > Rate::ZERO {
            prop_assert!(copy.modify(of, admit::SlotChange::amount(free)).is_ok());
        }
        let more = free.saturating_add(Rate::from_bps(1));
        prop_assert!(copy.modify(of, admit::SlotChange::amount(more)).is_err() || free < table.get(of).unwrap().amount);
    }
}
