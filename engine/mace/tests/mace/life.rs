//! The life of flows that never signalled: recognised, asked, promoted, silent; refused and asked again; adopted; and
//! whatever happens, the rules know exactly the flows that are promoted.

use crate::{at, flow};
use mace::engine::Mace;
use mace::io::Demotion;
use mace::rules::SharedTerms;
use mace::{ApplicationList, Config, Event, Input, Output, RuleTerms};
use proptest::prelude::*;
use std::collections::BTreeSet;
use terms::ports::RHandle;
use terms::{Bytes, Fault, FlowKey, Rate, Span, Time};

const LIST: &str = "vat udp 5004 64kbit 8kb 3 10s\ngame udp 27960-27969 256kbit 4kb 1 5s\n";
const BROKEN: Fault = Fault { what: "the plane is full", code: 28 };

fn engine(allocated_kbit: u64, rule: RuleTerms) -> Mace {
    let shared = SharedTerms {
        allocated: Rate::from_kbps(allocated_kbit),
        period: Span::from_secs(5),
        window: 4,
        most_flows: 16,
    };
    let config = Config {
        shared,
        rule,
        shadow: vec![RuleTerms::SimpleSum, RuleTerms::MeasuredSum { target: (1, 1), departures: true }],
        overhead: 0,
        refused_for: Span::from_secs(30),
        look: Span::from_secs(1),
        candidates: 256,
        key: [3, 4],
    };
    Mace::new(config, ApplicationList::parse(LIST).expect("a list")).expect("an engine")
}

/// Tells it, and returns what it says.
fn say(mace: &mut Mace, now: Time, input: Input<'_>) -> Vec<Output> {
    mace.handle(now, input);
    std::iter::from_fn(|| mace.poll()).collect()
}

fn promotes(said: &[Output]) -> Option<FlowKey> {
    said.iter().find_map(|output| match output {
        Output::Promote(promotion) => Some(promotion.flow),
        _ => None,
    })
}

fn installed(mace: &mut Mace, now: Time, flow: FlowKey) {
    let said = say(mace, now, Input::Installed { flow, result: Ok(()) });
    assert!(matches!(&said[..], [Output::Event(Event::Promoted { .. })]), "{said:?}");
}

/// What signalled reservations declare counts for every rule, and the room is exactly what the rule admits.
#[test]
fn signalled_reservations_count_and_the_room_is_what_the_rule_admits() {
    let rules = [
        RuleTerms::SimpleSum,
        RuleTerms::MeasuredSum { target: (9, 10), departures: false },
        RuleTerms::Hoeffding { nines: 3 },
        RuleTerms::Tangent { space: Rate::from_mbps(1) },
    ];
    for rule in rules {
        let mut mace = engine(1_000, rule);
        let before = mace.room();
        assert!(before > Rate::ZERO && before <= Rate::from_kbps(1_000), "{rule}: {before}");
        for n in 0..3 {
            say(&mut mace, at(n), Input::Counts { handle: RHandle(n), declared: Rate::from_kbps(60 + n) });
            let (room, (_, asked)) = (mace.room(), mace.rule());
            assert!(room == Rate::ZERO || asked.would(room).is_ok(), "{rule}: {room}");
            assert!(asked.would(room.saturating_add(Rate::from_bps(1))).is_err(), "{rule}: {room}");
        }
        assert_eq!((mace.signalled(), mace.rule().1.declared()), (3, Rate::from_kbps(183)), "{rule}");
        assert!(mace.room() < before, "{rule}");
        // One counts as more, one has gone, and one that is not known says nothing.
        say(&mut mace, at(4), Input::Counts { handle: RHandle(0), declared: Rate::from_kbps(70) });
        say(&mut mace, at(4), Input::Gone(RHandle(1)));
        say(&mut mace, at(4), Input::Gone(RHandle(9)));
        assert_eq!((mace.signalled(), mace.rule().1.declared()), (2, Rate::from_kbps(132)), "{rule}");
    }
}

#[test]
fn a_flow_is_recognised_at_its_threshold_promoted_after_read_back_and_demoted_when_silent() {
    let mut mace = engine(1_000, RuleTerms::SimpleSum);
    assert_eq!(mace.wake_at(), None);
    for n in 0..2 {
        assert!(say(&mut mace, at(n), Input::Packet(flow(1, 5004))).is_empty());
    }
    assert!(say(&mut mace, at(2), Input::Packet(flow(1, 9))).is_empty(), "no application has the port");
    let said = say(&mut mace, at(3), Input::Packet(flow(1, 5004)));
    let [Output::Promote(promotion)] = &said[..] else { panic!("{said:?}") };
    assert_eq!((promotion.application.as_str(), promotion.rate), ("vat", Rate::from_kbps(64)));
    assert!(!mace.promoted()[&flow(1, 5004)].installed, "only after read-back");
    assert!(say(&mut mace, at(4), Input::Packet(flow(1, 5004))).is_empty(), "on its way");
    installed(&mut mace, at(5), flow(1, 5004));
    assert!(mace.promoted()[&flow(1, 5004)].installed && mace.candidates().iter().count() == 0);

    assert_eq!(mace.wake_at(), Some(at(1_003)));
    assert_eq!(say(&mut mace, at(1_003), Input::Wake), [Output::Look]);
    assert!(say(&mut mace, at(1_003), Input::Wake).is_empty(), "once");
    assert!(say(&mut mace, at(1_004), Input::Looked(&[(flow(1, 5004), at(900))])).is_empty());
    assert!(say(&mut mace, at(10_899), Input::Looked(&[(flow(1, 5004), at(900))])).is_empty());
    let said = say(&mut mace, at(10_900), Input::Looked(&[(flow(1, 5004), at(900))]));
    let [Output::Demote(gone), Output::Event(Event::Demoted { why: Demotion::Silent, .. })] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((*gone, mace.rule().1.flows(), mace.counts().silent), (flow(1, 5004), 0, 1));
    assert_eq!(mace.wake_at(), None);
}

#[test]
fn a_refused_flow_waits_and_what_rules_in_shadow_say_is_counted() {
    let mut mace = engine(500, RuleTerms::MeasuredSum { target: (9, 10), departures: false });
    assert_eq!(promotes(&say(&mut mace, at(1), Input::Recognised(flow(1, 27_960)))), Some(flow(1, 27_960)));
    let said = say(&mut mace, at(2), Input::Recognised(flow(2, 27_960)));
    let [Output::Event(Event::Refused { until, free, .. })] = &said[..] else { panic!("{said:?}") };
    assert_eq!((*until, *free), (at(30_002), Rate::from_bps(449_999 - 256_000)));
    assert!(say(&mut mace, at(29_000), Input::Recognised(flow(2, 27_960))).is_empty(), "its time has not come");
    assert_eq!((mace.counts().asked, mace.counts().refused, mace.counts().ignored), (2, 1, 1));
    assert_eq!(mace.shadows()[0].answers(), (1, 1), "500 holds one of 256 by the simple sum too");
    installed(&mut mace, at(29_001), flow(1, 27_960));
    // It is measured at next to nothing: after two windows there is room.
    for n in 0..9 {
        say(
            &mut mace,
            at(30_000 + 5_000 * n),
            Input::Counter { at: at(30_000 + 5_000 * n), bytes: Bytes::new(100 * n) },
        );
    }
    assert!(promotes(&say(&mut mace, at(90_000), Input::Recognised(flow(2, 27_960)))).is_some());
    assert_eq!((mace.shadows()[0].answers(), mace.counts_of("game").admitted), ((1, 2), 2));
    // Each decision is kept, with what the rules in shadow said: the simple sum, and the measured sum without a target.
    let full = Rate::from_kbps(256);
    let told: Vec<_> = mace.decisions().map(|one| (one.at, one.declared, one.admitted, &one.shadows[..])).collect();
    assert_eq!(
        told,
        [
            (at(1), full, true, &[true, true][..]),
            (at(2), full, false, &[false, false][..]),
            (at(90_000), full, true, &[false, true][..]),
        ]
    );
    assert!(mace.decisions().all(|one| one.application == "game"));
    let usages: Vec<Rate> = mace.decisions().map(|one| one.usage).collect();
    assert_eq!(usages[..2], [Rate::ZERO, full], "what the flows before it counted as");
    assert!(usages[2] < Rate::from_kbps(1), "and what was measured: {}", usages[2]);
    assert!(!mace.shadows()[0].would(full) && mace.shadows()[1].would(Rate::from_kbps(100)));
    assert_eq!(mace.counts_of("vat").asked, 0);
}

#[test]
fn the_last_decisions_are_kept_and_no_more() {
    let mut mace = engine(300, RuleTerms::SimpleSum);
    for n in 0..100 {
        say(&mut mace, at(n), Input::Recognised(flow(n as u32, 27_960)));
    }
    assert_eq!((mace.decisions().count(), mace.counts().asked), (mace::io::MOST_DECISIONS, 100));
    assert_eq!(mace.decisions().next_back().map(|last| (last.at, last.admitted)), Some((at(99), false)));
}

#[test]
fn what_the_plane_cannot_have_leaves_nothing_behind() {
    let mut mace = engine(1_000, RuleTerms::SimpleSum);
    assert!(promotes(&say(&mut mace, at(1), Input::Recognised(flow(1, 27_960)))).is_some());
    let said = say(&mut mace, at(2), Input::Installed { flow: flow(1, 27_960), result: Err(BROKEN) });
    assert!(matches!(&said[..], [Output::Event(Event::Failed { fault: BROKEN, .. })]), "{said:?}");
    assert_eq!((mace.rule().1.declared(), mace.promoted().len(), mace.counts().failed), (Rate::ZERO, 0, 1));
    assert!(promotes(&say(&mut mace, at(3), Input::Recognised(flow(1, 27_960)))).is_none(), "not at once again");
    // Answers and ends that nobody waits for change nothing.
    assert!(say(&mut mace, at(4), Input::Installed { flow: flow(9, 5004), result: Ok(()) }).is_empty());
    assert!(say(&mut mace, at(4), Input::Ended(flow(9, 5004))).is_empty());
    assert!(say(&mut mace, at(4), Input::Looked(&[(flow(9, 5004), at(0))])).is_empty());
}

#[test]
fn flows_of_an_earlier_run_count_as_declared_until_a_window_is_full() {
    let mut mace = engine(700, RuleTerms::MeasuredSum { target: (1, 1), departures: false });
    for n in 0..2 {
        let (flow, declared, timeout) = (flow(n, 27_960), Rate::from_kbps(256), Span::from_secs(5));
        let said = say(&mut mace, at(0), Input::Adopted { flow, declared, timeout });
        assert!(matches!(said[..], [Output::Event(Event::Adopted { .. })]));
    }
    assert_eq!(mace.rule().1.usage(), Rate::from_kbps(512));
    for n in 0..4_u64 {
        let at = at(5_000 * n);
        say(&mut mace, at, Input::Counter { at, bytes: Bytes::new(1_000 * n) });
        assert!(promotes(&say(&mut mace, at, Input::Recognised(flow(50 + n as u32, 27_961)))).is_none());
    }
    say(&mut mace, at(20_000), Input::Counter { at: at(20_000), bytes: Bytes::new(4_000) });
    assert_eq!(mace.rule().1.usage(), Rate::from_bps(1_600), "a window is full");
    assert!(promotes(&say(&mut mace, at(20_001), Input::Recognised(flow(70, 27_961)))).is_some());
}

#[test]
fn another_list_and_another_allocation_count_for_newcomers_alone() {
    let mut mace = engine(1_000, RuleTerms::SimpleSum);
    assert!(promotes(&say(&mut mace, at(1), Input::Recognised(flow(1, 27_960)))).is_some());
    installed(&mut mace, at(1), flow(1, 27_960));
    let other = ApplicationList::parse("tv udp 6000 128kbit 8kb 1 5s\n").expect("a list");
    assert!(say(&mut mace, at(2), Input::Applications(other)).is_empty());
    assert!(say(&mut mace, at(2), Input::Allocated(Rate::from_kbps(300))).is_empty());
    assert_eq!((mace.promoted().len(), mace.rule().1.declared()), (1, Rate::from_kbps(256)));
    assert!(promotes(&say(&mut mace, at(3), Input::Recognised(flow(2, 27_960)))).is_none(), "no longer listed");
    let said = say(&mut mace, at(3), Input::Recognised(flow(2, 6000)));
    assert!(matches!(&said[..], [Output::Event(Event::Refused { .. })]), "256 of 300 are gone: {said:?}");
}

#[test]
fn a_counter_that_lies_is_said_and_a_last_packet_in_the_future_does_not_keep_a_flow() {
    let mut mace = engine(1_000, RuleTerms::MeasuredSum { target: (1, 1), departures: false });
    assert!(promotes(&say(&mut mace, at(0), Input::Recognised(flow(1, 27_960)))).is_some());
    installed(&mut mace, at(0), flow(1, 27_960));
    say(&mut mace, at(0), Input::Counter { at: at(0), bytes: Bytes::new(5_000) });
    let said = say(&mut mace, at(5_000), Input::Counter { at: at(5_000), bytes: Bytes::new(4_999) });
    assert_eq!(said, [Output::Event(Event::Doubted { declared: Rate::from_kbps(256) })]);
    assert!(say(&mut mace, at(5_001), Input::Looked(&[(flow(1, 27_960), Time::FOREVER)])).is_empty());
    assert!(!say(&mut mace, at(10_001), Input::Looked(&[(flow(1, 27_960), Time::ZERO)])).is_empty());
}

proptest! {
    #![proptest_config(chance::cases(128))]

    #[test]
    fn the_rules_know_exactly_who_is_promoted(
        steps in prop::collection::vec((0..9_u8, 0..24_u32, 0..4_000_u64), 1..200),
        rule in 0..4_usize,
    ) {
        let rules = [
            RuleTerms::SimpleSum,
            RuleTerms::MeasuredSum { target: (11, 10), departures: false },
            RuleTerms::Hoeffding { nines: 2 },
            RuleTerms::Tangent { space: Rate::from_kbps(2_000) },
        ];
        let mut mace = engine(2_000, rules[rule]);
        let (mut now, mut counter) = (0, 0);
        let mut asked: BTreeSet<FlowKey> = BTreeSet::new();
        for (what, who, more) in steps {
            now += more;
            let key = flow(who, if who % 2 == 0 { 5004 } else { 27_960 });
            let seen = [(key, at(now.saturating_sub(more)))];
            let input = match what {
                0..=2 => Input::Packet(key),
                3 => Input::Recognised(key),
                4 => Input::Installed { flow: key, result: Ok(()) },
                5 => Input::Installed { flow: key, result: Err(BROKEN) },
                6 => Input::Ended(key),
                7 => Input::Looked(&seen),
                _ => {
                    counter += more;
                    Input::Counter { at: at(now), bytes: Bytes::new(counter) }
                }
            };
            for output in say(&mut mace, at(now), input) {
                match output {
                    Output::Promote(promotion) => prop_assert!(asked.insert(promotion.flow), "asked for once"),
                    Output::Demote(gone) => prop_assert!(asked.remove(&gone), "it was there"),
                    Output::Event(Event::Failed { flow, .. }) => prop_assert!(asked.remove(&flow)),
                    Output::Look | Output::Event(_) => {}
                }
            }
            let promoted: BTreeSet<FlowKey> = mace.promoted().keys().copied().collect();
            prop_assert_eq!(&promoted, &asked);
            let sum = mace.promoted().values().fold(Rate::ZERO, |sum, flow| sum.saturating_add(flow.declared));
            prop_assert_eq!((mace.rule().1.flows(), mace.rule().1.declared()), (promoted.len(), sum));
            prop_assert!(promoted.len() <= 16);
        }
    }
}
