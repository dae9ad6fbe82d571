//! Turns of many requests: one batch for all of them, classes that change in steps, and a fault that hurts only the
//! guilty.

use crate::world::{OIF, World, controlled_load, guaranteed_service, interface, request, reservable, sender};
use control::classes::guaranteed;
use control::tc::Tc;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use terms::ports::{RHandle, TrafficControl};
use terms::{Fault, FlowSpec, Rate, Time};
use traffic::plan::{ClassId, FlowSpecEntry, PlanOp};

const NOW: Time = Time::from_nanos(1_000_000_000);

fn started(mbit: u64) -> (Tc, World) {
    let (mut tc, mut world) = (Tc::default(), World::default());
    tc.interface(NOW, &interface(Some(reservable(mbit))));
    world.settle(&mut tc, NOW);
    (tc, world)
}

fn add(tc: &mut Tc, port: u16, flowspec: FlowSpec) -> RHandle {
    tc.add(NOW, &request(port, flowspec, &[sender()])).expect("there is room")
}

/// The rate that the ledger counts for a flow's reservation.
fn admitted(entry: &FlowSpecEntry) -> Rate {
    control::record::FlowRecord::decode(&entry.record).unwrap().admitted
}

/// The laws of the classes at the end of a batch.
fn check_classes(world: &World, mbit: u64) {
    let link = &world.plan.links[&OIF];
    let of = |class: ClassId| link.classes.get(&class).map_or(Rate::ZERO, guaranteed);
    let sum = link.classes.values().map(guaranteed).fold(Rate::ZERO, Rate::saturating_add);
    assert_eq!(sum, Rate::from_mbps(mbit), "the classes sum to the link");
    let shared = link.flows.values().filter(|entry| entry.class == ClassId::CONTROLLED_LOAD);
    let needs = shared.map(admitted).fold(Rate::ZERO, Rate::saturating_add);
    assert!(of(ClassId::CONTROLLED_LOAD) >= needs, "{} carries {needs}", of(ClassId::CONTROLLED_LOAD));
    for entry in link.flows.values().filter(|entry| entry.class >= ClassId::FIRST_OWN) {
        assert!(of(entry.class) >= admitted(entry));
    }
    let floor = Rate::from_mbps(mbit).share(1, 100);
    assert!(of(ClassId::BEST_EFFORT) >= floor, "best effort has {}", of(ClassId::BEST_EFFORT));
}

fn class_changes(world: &World) -> usize {
    let ops = world.under_way.iter().flat_map(|(_, ops)| ops);
    ops.filter(|op| matches!(op, PlanOp::Class { .. } | PlanOp::DropClass { .. })).count()
}

#[test]
fn all_requests_of_a_turn_make_one_batch() {
    let (mut tc, mut world) = started(100);
    let all: Vec<RHandle> = (0..50).map(|n| add(&mut tc, 5000 + n, controlled_load(64))).collect();
    assert!(world.under_way.is_empty() && tc.poll().is_some(), "events at once, no batch before the turn ends");
    world.drain(&mut tc);
    let [(_, ops)] = world.under_way.make_contiguous() else { panic!("one batch") };
    assert_eq!(ops.iter().filter(|op| matches!(op, PlanOp::Flow { .. })).count(), 50);
    assert!(world.installed.is_empty(), "not before it was read back");
    world.settle(&mut tc, NOW);
    assert_eq!(world.installed, all.iter().map(|handle| (*handle, Ok(()))).collect::<Vec<_>>());
    assert!(!tc.end_turn(), "nothing more is due");
    check_classes(&world, 100);
}

#[test]
fn a_hundred_reservations_change_the_classes_a_few_times() {
    let (mut tc, mut world) = started(100);
    let mut changes = 0;
    // 105 reservations of 856 kbit/s on the wire: 90 of the 99 Mbit/s that are for sale.
    for n in 0..105 {
        add(&mut tc, 5000 + n, controlled_load(800));
        world.drain(&mut tc);
        changes += class_changes(&world).min(1);
        world.settle(&mut tc, NOW);
        check_classes(&world, 100);
    }
    // Sixteen steps of the rate, and the queue doubles seven times.
    assert!(changes <= 23, "{changes} of 105 batches changed a class");
    // Down to the last: no more often.
    let mut down = 0;
    for handle in tc.reservations().map(|one| one.handle).collect::<Vec<_>>() {
        tc.remove(NOW, handle);
        world.drain(&mut tc);
        down += class_changes(&world).min(1);
        world.settle(&mut tc, NOW);
        check_classes(&world, 100);
    }
    assert!(down <= 12, "{down} changes on the way down");
}

#[test]
fn a_reservation_that_comes_and_goes_changes_no_class() {
    let (mut tc, mut world) = started(100);
    for round in 0..20 {
        let handle = add(&mut tc, 5000, controlled_load(800));
        world.drain(&mut tc);
        assert!(round == 0 || class_changes(&world) == 0, "it comes for the {round}th time");
        world.settle(&mut tc, NOW);
        tc.remove(NOW, handle);
        world.drain(&mut tc);
        assert_eq!(class_changes(&world), 0, "it goes");
        world.settle(&mut tc, NOW);
    }
    assert_eq!(tc.audit(), Ok(()));
}

#[test]
fn the_step_is_given_back_to_whoever_needs_it() {
    let (mut tc, mut world) = started(100);
    add(&mut tc, 5000, controlled_load(800));
    world.settle(&mut tc, NOW);
    let before = guaranteed(&world.plan.links[&OIF].classes[&ClassId::CONTROLLED_LOAD]);
    assert_eq!(before, Rate::from_kbps(6_250));
    // 96.3 Mbit/s on the wire: it fits beside the 0.856 of the other, but not beside its step.
    add(&mut tc, 5001, guaranteed_service(90_000, 90_000));
    world.drain(&mut tc);
    let (_, ops) = &world.under_way[0];
    let classes = ops.iter().filter_map(|op| match op {
        PlanOp::Class { class, spec, .. } => Some((*class, guaranteed(spec))),
        _ => None,
    });
    let [(ClassId::BEST_EFFORT, _), (ClassId::CONTROLLED_LOAD, shared), (own, _)] = classes.collect::<Vec<_>>()[..]
    else {
        panic!("what shrinks goes first: {ops:?}")
    };
    assert!(own >= ClassId::FIRST_OWN && shared < Rate::from_kbps(1_700), "{shared}");
    world.settle(&mut tc, NOW);
    check_classes(&world, 100);
    assert_eq!(tc.audit(), Ok(()));
}

/// A plane that refuses every batch with one of these ports.
fn settle_refusing(tc: &mut Tc, world: &mut World, guilty: &BTreeSet<u16>) -> usize {
    let mut batches = 0;
    while let Some((_, ops)) = world.under_way.front() {
        let names = |op: &PlanOp| matches!(op, PlanOp::Flow { flow, .. } if guilty.contains(&flow.dst_port));
        let ok = !ops.iter().any(names);
        world.answer(tc, NOW, ok);
        assert_eq!(tc.audit(), Ok(()));
        batches += 1;
    }
    batches
}

#[test]
fn a_fault_hurts_only_the_guilty() {
    let (mut tc, mut world) = started(100);
    let all: Vec<RHandle> = (0..64).map(|n| add(&mut tc, 5000 + n, controlled_load(64))).collect();
    world.drain(&mut tc);
    let batches = settle_refusing(&mut tc, &mut world, &[5013, 5050].into());
    assert!(batches <= 26, "{batches} batches for two of 64");
    for (n, handle) in all.iter().enumerate() {
        let told: Vec<_> = world.installed.iter().filter(|(whose, _)| whose == handle).collect();
        let [(_, result)] = told[..] else { panic!("one answer each: {n} {told:?}") };
        assert_eq!(result.is_err(), [13, 50].contains(&n), "{n}");
    }
    assert_eq!((world.plan.links[&OIF].flows.len(), world.plan == tc.plan()), (62, true));
    assert_eq!(tc.wake_at(), None);
    check_classes(&world, 100);
}

#[test]
fn who_comes_during_the_search_is_not_blamed_for_another() {
    let (mut tc, mut world) = started(100);
    for n in 0..4 {
        add(&mut tc, 5000 + n, guaranteed_service(64, 64));
    }
    world.drain(&mut tc);
    world.answer(&mut tc, NOW, false);
    let late = add(&mut tc, 5010, controlled_load(64));
    let bad = add(&mut tc, 5011, controlled_load(64));
    world.drain(&mut tc);
    settle_refusing(&mut tc, &mut world, &[5011, 5002].into());
    let result = |handle| world.installed.iter().find(|(whose, _)| *whose == handle).map(|(_, result)| result.is_ok());
    assert_eq!((result(late), result(bad)), (Some(true), Some(false)));
    assert_eq!(world.plan.links[&OIF].flows.len(), 4);
    check_classes(&world, 100);
}

#[test]
fn a_plane_that_refuses_everything_is_not_asked_for_each() {
    let (mut tc, mut world) = started(100);
    for n in 0..200 {
        add(&mut tc, 5000 + n, controlled_load(64));
    }
    world.drain(&mut tc);
    let mut batches = 0;
    while !world.under_way.is_empty() {
        world.answer(&mut tc, NOW, false);
        batches += 1;
        assert!(batches < 60, "it must end");
    }
    let refused: BTreeSet<RHandle> = world.installed.iter().filter(|(_, r)| r.is_err()).map(|(h, _)| *h).collect();
    assert_eq!((refused.len(), tc.reservations().count()), (200, 0));
    assert!(tc.plan().links[&OIF].flows.is_empty());
    // The next one is asked for as ever.
    let fine = add(&mut tc, 6000, controlled_load(64));
    world.settle(&mut tc, NOW);
    assert_eq!(world.installed.last(), Some(&(fine, Ok::<(), Fault>(()))));
}

#[derive(Clone, Debug)]
enum Act {
    Add(u16, FlowSpec),
    Modify(usize, FlowSpec),
    Remove(usize),
    /// The turn ends, and the plane carries out what it can.
    Turn,
}

fn flowspec() -> impl Strategy<Value = FlowSpec> {
    prop_oneof![
        3 => (1..3_000u64).prop_map(controlled_load),
        1 => (1..2_000u64, 0..2_000u64).prop_map(|(kbit, more)| guaranteed_service(kbit, kbit + more)),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0..30u16, flowspec()).prop_map(|(port, flowspec)| Act::Add(port, flowspec)),
        2 => (any::<usize>(), flowspec()).prop_map(|(which, flowspec)| Act::Modify(which, flowspec)),
        3 => any::<usize>().prop_map(Act::Remove),
        2 => Just(Act::Turn),
    ]
}

proptest! {
    #![proptest_config(chance::cases(500))]

    /// Any requests come together, and the plane refuses any flows: the classes carry what is there at the end of each
    /// batch, and who is lost is guilty.
    #[test]
    fn classes_carry_what_is_there_and_only_the_guilty_are_lost(
        acts in prop::collection::vec(act(), 1..120),
        guilty in prop::collection::btree_set(5000..5030u16, 0..4),
    ) {
        let (mut tc, mut world) = started(20);
        let mut asked: BTreeMap<RHandle, u16> = BTreeMap::new();
        for act in acts.into_iter().chain([Act::Turn]) {
            let nth = |which: usize| {
                let all: Vec<_> = tc.reservations().map(|one| (one.handle, one.session.dst_port)).collect();
                all.get(which.checked_rem(all.len())?).copied()
            };
            match act {
                Act::Add(port, flowspec) => {
                    let added = tc.add(NOW, &request(5000 + port, flowspec, &[sender()]));
                    asked.extend(added.map(|handle| (handle, 5000 + port)));
                }
                Act::Modify(which, flowspec) => {
                    if let Some((handle, port)) = nth(which) {
                        let _ = tc.modify(NOW, handle, &request(port, flowspec, &[sender()]));
                    }
                }
                Act::Remove(which) => {
                    if let Some((handle, _)) = nth(which) {
                        tc.remove(NOW, handle);
                    }
                }
                Act::Turn => {
                    world.drain(&mut tc);
                    while let Some((_, ops)) = world.under_way.front() {
                        let names = |op: &PlanOp| matches!(op, PlanOp::Flow { flow, .. } if guilty.contains(&flow.dst_port));
                        let ok = !ops.iter().any(names);
                        world.answer(&mut tc, NOW, ok);
                        prop_assert_eq!(tc.audit(), Ok(()));
                        check_classes(&world, 20);
                    }
                    let there: BTreeSet<u16> = tc.reservations().map(|one| one.session.dst_port).collect();
                    prop_assert!(there.is_disjoint(&guilty));
                    prop_assert_eq!(world.plan.links[&OIF].flows.len(), there.len());
                    prop_assert_eq!(&world.plan, &tc.plan());
                }
            }
        }
        for (handle, _) in world.installed.iter().filter(|(_, result)| result.is_err()) {
            prop_assert!(guilty.contains(&asked[handle]), "{} was refused for another", asked[handle]);
        }
    }
}
