//! Flows that are admitted by measurement: one grant and one class for all, beside exact reservations, which go before.

use crate::world::{
    LIFETIME, OIF, World, controlled_load, guaranteed_service, interface, request, reservable, sender, session, tspec,
};
use control::classes::guaranteed;
use control::io::Reservable;
use control::tc::measured::{MeasuredFlow, set_room};
use control::tc::{SignalledFlow, Tc};
use terms::ports::TrafficControl;
use terms::{FlowKey, Rate, Refused, Span, Time};
use traffic::plan::{ClassId, Plan, PlanOp};

const NOW: Time = Time::from_nanos(1_000_000_000);
const FULL: Rate = Rate::from_mbps(10);

fn link(measured: u64) -> Reservable {
    Reservable { measured: Rate::from_mbps(measured), ..reservable(10) }
}

fn started(measured: u64) -> (Tc, World) {
    let (mut tc, mut world) = (Tc::default(), World::default());
    tc.interface(NOW, &interface(Some(link(measured))));
    world.settle(&mut tc, NOW);
    assert_eq!(tc.audit(), Ok(()));
    (tc, world)
}

fn flow(port: u16) -> MeasuredFlow {
    let flow = FlowKey::of(&session(port), &sender());
    MeasuredFlow { oif: OIF, flow, tspec: tspec(1_000), timeout: LIFETIME }
}

fn class_of(world: &World, port: u16) -> Option<ClassId> {
    world.plan.links[&OIF].flows.get(&flow(port).flow).map(|entry| entry.class)
}

#[test]
fn what_is_set_aside_is_one_class_and_no_reservation_gets_it() {
    let (mut tc, world) = started(3);
    let class = world.plan.links[&OIF].classes[&ClassId::MEASURED];
    assert_eq!((guaranteed(&class), tc.measured(OIF)), (Rate::from_mbps(3), Rate::from_mbps(3)));
    let sum = world.plan.links[&OIF].classes.values().map(guaranteed).fold(Rate::ZERO, Rate::saturating_add);
    assert_eq!(sum, FULL);
    // 9 Mb/s can be reserved, 3 of them are set aside.
    let refused = tc.add(NOW, &request(5000, controlled_load(6_500), &[sender()]));
    assert!(matches!(refused, Err(Refused::Capacity { .. })), "{refused:?}");
    assert!(tc.add(NOW, &request(5000, controlled_load(5_000), &[sender()])).is_ok());
}

#[test]
fn promoted_flows_share_it_whatever_they_declare_and_are_told_after_read_back() {
    let (mut tc, mut world) = started(3);
    let handles: Vec<_> = (0..5).map(|n| tc.promote(&flow(6000 + n)).expect("room")).collect();
    world.drain(&mut tc);
    assert!(world.promoted.is_empty(), "the plane has not answered");
    world.settle(&mut tc, NOW);
    assert_eq!(world.promoted.len(), 5);
    assert!(world.promoted.iter().all(|(_, result)| result.is_ok()) && world.installed.is_empty());
    assert_eq!(class_of(&world, 6004), Some(ClassId::MEASURED), "five of 1 Mb/s in 3");
    assert_eq!((tc.audit(), world.plan == tc.plan()), (Ok(()), true));
    let again = tc.promote(&flow(6000));
    assert!(matches!(again, Err(Refused::Limit { .. })), "{again:?}");
    handles.into_iter().for_each(|handle| tc.demote(NOW, handle));
    world.settle(&mut tc, NOW);
    assert_eq!((class_of(&world, 6000), tc.audit()), (None, Ok(())));
    assert!(world.plan.links[&OIF].classes.contains_key(&ClassId::MEASURED), "the class stays");
    // A plane that refuses one: it is told, and nothing of it is left.
    tc.promote(&flow(6000)).expect("room");
    world.drain(&mut tc);
    world.answer(&mut tc, NOW, false);
    world.settle(&mut tc, NOW);
    assert!(world.promoted.last().is_some_and(|(_, result)| result.is_err()));
    assert_eq!((class_of(&world, 6000), tc.audit()), (None, Ok(())));
}

#[test]
fn who_reserves_a_promoted_flow_takes_it_over() {
    let (mut tc, mut world) = started(3);
    let handle = tc.promote(&flow(6000)).expect("room");
    world.settle(&mut tc, NOW);
    tc.add(NOW, &request(6000, controlled_load(1_000), &[sender()])).expect("room");
    world.settle(&mut tc, NOW);
    assert_eq!((class_of(&world, 6000), tc.reserved(handle)), (Some(ClassId::CONTROLLED_LOAD), None));
    let refused = tc.promote(&flow(6000));
    assert!(matches!(refused, Err(Refused::Limit { .. })), "{refused:?}");
    tc.demote(NOW, handle);
    world.settle(&mut tc, NOW);
    assert_eq!((class_of(&world, 6000), tc.audit()), (Some(ClassId::CONTROLLED_LOAD), Ok(())), "a stale handle");
}

#[test]
fn the_next_agent_takes_them_over_and_nothing_changes_in_the_plane() {
    let (mut tc, mut world) = started(3);
    (0..2).for_each(|n| {
        tc.promote(&flow(6000 + n)).expect("room");
    });
    world.settle(&mut tc, NOW);
    let found: Plan = world.plan.clone();
    let mut next = Tc::default();
    let mut world = World { plan: found.clone(), ..World::default() };
    for (&class, spec) in &found.links[&OIF].classes {
        next.found_class(OIF, class, spec);
    }
    for (&flow, &entry) in &found.links[&OIF].flows {
        next.adopt(NOW, OIF, flow, entry);
    }
    next.interface(NOW, &interface(Some(link(3))));
    world.drain(&mut next);
    let (_, ops) = world.under_way.back().expect("classes are set again");
    assert!(!ops.iter().any(|op| matches!(op, PlanOp::Flow { .. } | PlanOp::DropFlow { .. })), "{ops:?}");
    world.settle(&mut next, NOW);
    assert_eq!(world.plan, found);
    next.promote(&flow(6000)).expect("it is ours");
    world.settle(&mut next, NOW);
    // The other is not asked for again: it goes with its timeout.
    next.wake(NOW + LIFETIME + Span::from_secs(1));
    world.settle(&mut next, NOW + LIFETIME + Span::from_secs(1));
    assert_eq!((class_of(&world, 6000), class_of(&world, 6001)), (Some(ClassId::MEASURED), None));
    assert_eq!(next.audit(), Ok(()));
}

#[test]
fn exact_reservations_keep_their_room_where_more_is_set_aside_than_is_left() {
    let (mut tc, mut world) = started(0);
    assert!(matches!(tc.promote(&flow(6000)), Err(Refused::NotReservable { .. })));
    tc.add(NOW, &request(5000, controlled_load(6_000), &[sender()])).expect("room");
    world.settle(&mut tc, NOW);
    tc.interface(NOW, &interface(Some(link(8))));
    world.settle(&mut tc, NOW);
    assert!(tc.measured(OIF) > Rate::from_mbps(1) && tc.measured(OIF) < Rate::from_mbps(3), "{}", tc.measured(OIF));
    assert_eq!((class_of(&world, 5000), tc.audit()), (Some(ClassId::CONTROLLED_LOAD), Ok(())));
}

/// The wire rates that count for signalled reservations, by what traffic control said of them.
fn counted(world: &World) -> Vec<Rate> {
    let mut all = std::collections::BTreeMap::new();
    for news in &world.by_measurement {
        match *news {
            SignalledFlow::Counts { handle, declared, .. } => drop(all.insert(handle, declared)),
            SignalledFlow::Gone { handle, .. } => drop(all.remove(&handle)),
            SignalledFlow::Claimed { .. } => {}
        }
    }
    all.into_values().collect()
}

#[test]
fn signalled_controlled_load_is_admitted_up_to_what_the_rule_admits_and_beside_exact_reservations() {
    let (mut tc, mut world) = started(3);
    let ask = |port, kbit| request(port, controlled_load(kbit), &[]).flowspec;
    let exact = tc.add(NOW, &request(5000, ask(5000, 5_000), &[sender()])).expect("room in the ledger");
    // Nine reservations of 1 Mb/s in 3: their rule says so, because they send little.
    for port in 5001..5010 {
        set_room(&mut tc, OIF, Some(Rate::from_mbps(2)));
        tc.add(NOW, &request(port, ask(port, 1_000), &[sender()])).expect("room by measurement");
    }
    world.settle(&mut tc, NOW);
    assert_eq!(class_of(&world, 5009), Some(ClassId::MEASURED));
    assert_eq!((counted(&world).len(), world.promoted.len(), tc.audit()), (9, 0, Ok(())));
    assert!(world.installed.len() == 10 && world.installed.iter().all(|(_, result)| result.is_ok()));
    let class = world.plan.links[&OIF].classes[&ClassId::MEASURED];
    assert_eq!(guaranteed(&class), Rate::from_mbps(3), "the class stays what was set aside");
    // What is said once is divided among those that ask before it is said again.
    set_room(&mut tc, OIF, Some(Rate::from_mbps(2)));
    tc.add(NOW, &request(5010, ask(5010, 1_000), &[sender()])).expect("room by measurement");
    let refused = tc.add(NOW, &request(5011, ask(5011, 1_000), &[sender()]));
    assert!(matches!(refused, Err(Refused::Capacity { free, .. }) if free < Rate::from_mbps(1)), "{refused:?}");
    // The exact one stays exact, and its change is asked of the ledger.
    tc.modify(NOW, exact, &request(5000, ask(5000, 5_500), &[sender()])).expect("room in the ledger");
    let refused = tc.modify(NOW, exact, &request(5000, ask(5000, 8_000), &[sender()]));
    assert!(matches!(refused, Err(Refused::Capacity { .. })), "{refused:?}");
    world.settle(&mut tc, NOW);
    assert_eq!((class_of(&world, 5000), tc.audit()), (Some(ClassId::CONTROLLED_LOAD), Ok(())));
}

#[test]
fn a_reservation_by_measurement_changes_becomes_exact_and_goes() {
    let (mut tc, mut world) = started(3);
    set_room(&mut tc, OIF, Some(Rate::from_mbps(2)));
    let handle = tc.add(NOW, &request(5000, controlled_load(1_000), &[sender()])).expect("room");
    world.settle(&mut tc, NOW);
    let one = counted(&world);
    let more = tc.modify(NOW, handle, &request(5000, controlled_load(9_000), &[sender()]));
    assert!(matches!(more, Err(Refused::Capacity { .. })), "{more:?}");
    tc.modify(NOW, handle, &request(5000, controlled_load(1_400), &[sender()])).expect("a little more");
    tc.modify(NOW, handle, &request(5000, controlled_load(700), &[sender()])).expect("less is always granted");
    world.settle(&mut tc, NOW);
    assert!(counted(&world)[0] < one[0]);
    tc.modify(NOW, handle, &request(5000, guaranteed_service(700, 800), &[sender()])).expect("the ledger has room");
    world.settle(&mut tc, NOW);
    assert_eq!((counted(&world), tc.audit()), (vec![], Ok(())), "guaranteed service is exact");
    assert!(class_of(&world, 5000) >= Some(ClassId::FIRST_OWN));
    tc.remove(NOW, handle);
    world.settle(&mut tc, NOW);
    assert_eq!((class_of(&world, 5000), tc.audit()), (None, Ok(())));
}

#[test]
fn who_signals_for_a_recognised_flow_has_what_it_counted_as() {
    let (mut tc, mut world) = started(3);
    tc.promote(&flow(6000)).expect("room");
    world.settle(&mut tc, NOW);
    set_room(&mut tc, OIF, Some(Rate::ZERO));
    let handle = tc.add(NOW, &request(6000, controlled_load(1_000), &[sender()])).expect("its own room");
    world.settle(&mut tc, NOW);
    let claimed = SignalledFlow::Claimed { oif: OIF, flow: flow(6000).flow };
    assert!(world.by_measurement.contains(&claimed), "{:?}", world.by_measurement);
    assert_eq!((counted(&world).len(), class_of(&world, 6000)), (1, Some(ClassId::MEASURED)));
    tc.demote(NOW, handle);
    world.settle(&mut tc, NOW);
    assert_eq!(class_of(&world, 6000), Some(ClassId::MEASURED), "it is nobody's to demote");
    tc.remove(NOW, handle);
    world.settle(&mut tc, NOW);
    assert_eq!((counted(&world).len(), class_of(&world, 6000), tc.audit()), (0, None, Ok(())));
}
