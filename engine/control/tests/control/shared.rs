//! Reservations that several senders share, and reservations that make way for others: stories short enough to read.

use crate::world::{
    LIFETIME, OIF, World, controlled_load, guaranteed_service, interface, request, reservable, session,
};
use control::io::{Event, Reservable};
use control::tc::Tc;
use terms::ports::{Preemption, RHandle, TcRequest, TrafficControl};
use terms::{FilterSpec, FlowKey, FlowSpec, Rate, Refused, SenderTemplate, Span, Style, Time, Window};
use traffic::plan::{ClassId, PlanOp};

const NOW: Time = Time::from_nanos(1_000_000_000);

fn started_on(link: Reservable) -> (Tc, World) {
    let (mut tc, mut world) = (Tc::new([1, 2]), World::default());
    tc.interface(NOW, &interface(Some(link)));
    world.settle(&mut tc, NOW);
    (tc, world)
}

fn started() -> (Tc, World) {
    started_on(reservable(10))
}

fn from(ports: &[u32]) -> Vec<FilterSpec> {
    ports.iter().map(|&src_port| SenderTemplate { src_port, ..crate::world::sender() }).collect()
}

fn se(flowspec: FlowSpec, filters: &[FilterSpec]) -> TcRequest<'_> {
    TcRequest { style: Style::Se, ..request(5000, flowspec, filters) }
}

fn wf(flowspec: FlowSpec) -> TcRequest<'static> {
    TcRequest { style: Style::Wf, ..request(5000, flowspec, &[]) }
}

fn with(preempting: u16, defending: u16, request: TcRequest<'_>) -> TcRequest<'_> {
    TcRequest { priority: Some(Preemption { preempting, defending }), ..request }
}

/// The flow operations of the batch under way: `+5000/1` sets the flow of sender 1, `-` drops it.
fn flow_ops(world: &World) -> Vec<String> {
    let one = |op: &PlanOp| match op {
        PlanOp::Flow { flow, .. } => Some(format!("+{}/{}", flow.dst_port, flow.src_port)),
        PlanOp::DropFlow { flow, .. } => Some(format!("-{}/{}", flow.dst_port, flow.src_port)),
        _ => None,
    };
    world.under_way.back().map(|(_, ops)| ops.iter().filter_map(one).collect()).unwrap_or_default()
}

fn reserved(tc: &Tc) -> Rate {
    tc.links().next().unwrap().reserved
}

#[test]
fn senders_of_one_explicit_list_share_slot_class_and_bucket() {
    let (mut tc, mut world) = started();
    let a = tc.add(NOW, &se(controlled_load(1000), &from(&[1, 2]))).unwrap();
    world.drain(&mut tc);
    assert_eq!(flow_ops(&world), ["+5000/1", "+5000/2"]);
    world.settle(&mut tc, NOW);
    assert_eq!(world.installed, [(a, Ok(()))], "one answer, however many senders");
    assert_eq!(reserved(&tc), Rate::from_kbps(1070), "one slot");
    let flows = &world.plan.links[&OIF].flows;
    let shared: Vec<_> = flows.values().map(|entry| (entry.shared, entry.bucket, entry.class)).collect();
    assert!(shared[0] == shared[1] && shared[0].0.is_some(), "{shared:?}");
    // A sender joins, one leaves: nothing else is touched where the request is the same.
    tc.modify(NOW, a, &se(controlled_load(1000), &from(&[1, 2, 3]))).unwrap();
    world.drain(&mut tc);
    assert_eq!(flow_ops(&world), ["+5000/3"]);
    world.settle(&mut tc, NOW);
    tc.modify(NOW, a, &se(controlled_load(1000), &from(&[2, 3]))).unwrap();
    world.drain(&mut tc);
    assert_eq!(flow_ops(&world), ["-5000/1"]);
    world.settle(&mut tc, NOW);
    // Another request changes the bucket for all.
    tc.modify(NOW, a, &se(controlled_load(2000), &from(&[2, 3]))).unwrap();
    world.drain(&mut tc);
    assert_eq!(flow_ops(&world), ["+5000/2", "+5000/3"]);
    world.settle(&mut tc, NOW);
    assert_eq!((reserved(&tc), tc.audit()), (Rate::from_kbps(2140), Ok(())));
    // Two of one interface never share a bucket by chance.
    let other = TcRequest { session: session(5001), ..se(controlled_load(100), &[]) };
    let filters = from(&[2, 3]);
    tc.add(NOW, &TcRequest { filters: &filters, ..other }).unwrap();
    world.settle(&mut tc, NOW);
    let buckets: std::collections::BTreeSet<_> =
        world.plan.links[&OIF].flows.values().map(|entry| entry.shared).collect();
    assert_eq!(buckets.len(), 2);
    tc.remove(NOW, a);
    world.settle(&mut tc, NOW);
    assert_eq!((world.plan.links[&OIF].flows.len(), tc.audit()), (2, Ok(())));
}

#[test]
fn senders_of_a_guaranteed_list_share_the_class_of_their_own() {
    let (mut tc, mut world) = started();
    let a = tc.add(NOW, &se(guaranteed_service(1000, 2000), &from(&[1, 2]))).unwrap();
    world.settle(&mut tc, NOW);
    let link = &world.plan.links[&OIF];
    assert!(link.flows.values().all(|entry| entry.class == ClassId::FIRST_OWN));
    assert_eq!(link.classes.len(), 4);
    tc.modify(NOW, a, &se(controlled_load(500), &from(&[2, 9]))).unwrap();
    world.settle(&mut tc, NOW);
    assert_eq!((world.plan.links[&OIF].classes.len(), tc.audit()), (3, Ok(())));
    assert_eq!(world.plan, tc.plan());
}

#[test]
fn a_wildcard_is_one_flow_of_any_sender() {
    let (mut tc, mut world) = started();
    let a = tc.add(NOW, &wf(controlled_load(1000))).unwrap();
    world.settle(&mut tc, NOW);
    let key = FlowKey::of_any_sender(&session(5000));
    assert!(key.is_of_any_sender() && key.dst_port == 5000 && key.src_port == 0);
    assert_eq!(tc.flows(a), [key]);
    assert_eq!(world.plan.links[&OIF].flows.keys().collect::<Vec<_>>(), [&key]);
    let named = from(&[1]);
    let strange = TcRequest { filters: &named, ..wf(controlled_load(1)) };
    assert_eq!(tc.modify(NOW, a, &strange), Err(Refused::Limit { what: "filter specs of one reservation", limit: 0 }));
    let many: Vec<u32> = (0..5_000).collect();
    assert!(matches!(tc.add(NOW, &se(controlled_load(1), &from(&many))), Err(Refused::Limit { limit: 4_096, .. })));
    assert!(matches!(tc.add(NOW, &se(controlled_load(1), &[])), Err(Refused::Limit { .. })));
    assert_eq!(tc.audit(), Ok(()));
}

#[test]
fn a_flow_that_is_reserved_is_not_reserved_again_by_another_style() {
    let (mut tc, mut world) = started();
    let filters = from(&[1, 2]);
    tc.add(NOW, &se(controlled_load(1000), &filters)).unwrap();
    world.settle(&mut tc, NOW);
    let before = (tc.ledger_digest(), tc.plan());
    let refused = tc.add(NOW, &request(5000, controlled_load(1), &filters[1..]));
    assert_eq!(refused, Err(Refused::Limit { what: "reservations of one flow on an interface", limit: 1 }));
    assert_eq!((tc.ledger_digest(), tc.plan()), before);
}

fn restarted(world: &mut World) -> Tc {
    let mut tc = Tc::new([3, 4]);
    for (&class, spec) in &world.plan.links[&OIF].classes {
        tc.found_class(OIF, class, spec);
    }
    for (&flow, &entry) in &world.plan.links[&OIF].flows {
        tc.adopt(NOW, OIF, flow, entry);
    }
    tc.interface(NOW, &interface(Some(reservable(10))));
    world.settle(&mut tc, NOW);
    tc
}

#[test]
fn a_shared_reservation_is_adopted_as_one_and_kept_for_senders_that_come_later() {
    let (mut tc, mut world) = started();
    let filters = from(&[1, 2, 3]);
    tc.add(NOW, &se(controlled_load(1000), &filters)).unwrap();
    world.settle(&mut tc, NOW);
    let before = world.plan.clone();
    let mut tc = restarted(&mut world);
    assert_eq!((&world.plan, tc.reservations().count(), reserved(&tc)), (&before, 1, Rate::from_kbps(1070)));
    // After the restart the Paths come one after another, so the first request names one sender only: the others'
    // packets keep their class all the same.
    let a = tc.add(NOW, &se(controlled_load(1000), &filters[..1])).unwrap();
    world.settle(&mut tc, NOW);
    assert_eq!(world.plan, before, "not one flow was touched");
    tc.modify(NOW, a, &se(controlled_load(1000), &filters[..2])).unwrap();
    world.settle(&mut tc, NOW);
    assert_eq!((&world.plan, tc.audit()), (&before, Ok(())));
    // The third never comes.
    let until = NOW + LIFETIME;
    assert_eq!(tc.wake_at(), Some(until));
    tc.wake(until);
    world.drain(&mut tc);
    assert_eq!(flow_ops(&world), ["-5000/3"]);
    world.settle(&mut tc, until);
    let flow = FlowKey::of(&session(5000), &filters[2]);
    assert!(world.events.contains(&Event::AdoptedExpired { oif: OIF, flow }));
    assert_eq!((tc.reservations().count(), tc.wake_at(), tc.audit()), (1, None, Ok(())));
    // And a list made after a restart is not policed together with one from before.
    let other = TcRequest { session: session(5001), ..se(controlled_load(100), &filters) };
    tc.add(until, &other).unwrap();
    world.settle(&mut tc, until);
    let buckets: std::collections::BTreeSet<_> =
        world.plan.links[&OIF].flows.values().map(|entry| entry.shared).collect();
    assert_eq!(buckets.len(), 2);
}

#[test]
fn a_shared_reservation_that_nobody_asks_for_again_goes_as_a_whole() {
    let (mut tc, mut world) = started();
    tc.add(NOW, &se(controlled_load(1000), &from(&[1, 2]))).unwrap();
    world.settle(&mut tc, NOW);
    let mut tc = restarted(&mut world);
    tc.wake(NOW + LIFETIME);
    world.settle(&mut tc, NOW + LIFETIME);
    assert!(world.plan.links[&OIF].flows.is_empty() && tc.reservations().count() == 0);
    assert_eq!((reserved(&tc), tc.audit()), (Rate::ZERO, Ok(())));
}

#[test]
fn those_who_defend_themselves_least_make_way_and_as_few_as_suffice() {
    let (mut tc, mut world) = started();
    let one = from(&[9]);
    let mut add = |port, kbit, preempting, defending| -> Result<RHandle, Refused> {
        let added = tc.add(NOW, &with(preempting, defending, request(port, controlled_load(kbit), &one)));
        world.settle(&mut tc, NOW);
        added
    };
    // 9 Mbit/s can be reserved; each kbit/s asked counts 1.07.
    let strong = add(5001, 3_000, 7, 7).unwrap();
    let weak = add(5002, 1_000, 0, 1).unwrap();
    let large = add(5003, 3_000, 0, 2).unwrap();
    assert!(matches!(add(5004, 3_000, 1, 1), Err(Refused::Capacity { .. })), "only a higher number displaces");
    assert!(matches!(add(5004, 6_000, 7, 7), Err(Refused::Capacity { .. })), "nobody goes in vain");
    // 1,510 are free and 3,210 wanted: of the two that could go the weaker one alone is too small, the other suffices.
    let urgent = add(5004, 3_000, 5, 5).unwrap();
    let by = Some(Preemption { preempting: 5, defending: 5 });
    assert_eq!(world.displaced, [(large, by)]);
    let gone = FlowKey::of(&session(5003), &one[0]);
    let event = Event::Displaced { oif: OIF, flow: gone, rate: Rate::from_kbps(3_210), by };
    assert!(world.events.contains(&event));
    assert_eq!(tc.reservations().map(|r| r.handle).collect::<Vec<_>>(), [strong, weak, urgent]);
    // A change may displace too, but never the reservation itself.
    tc.modify(NOW, weak, &with(6, 6, request(5002, controlled_load(2_500), &one))).unwrap();
    world.settle(&mut tc, NOW);
    assert_eq!(world.displaced.last().map(|(handle, _)| *handle), Some(urgent));
    assert_eq!((tc.audit(), world.plan == tc.plan()), (Ok(()), true));
}

#[test]
fn what_makes_way_leaves_before_what_displaces_it_comes() {
    let (mut tc, mut world) = started();
    let one = from(&[9]);
    tc.add(NOW, &request(5001, guaranteed_service(8_000, 8_000), &one)).unwrap();
    world.settle(&mut tc, NOW);
    tc.add(NOW, &with(1, 1, request(5002, guaranteed_service(8_000, 8_000), &one))).unwrap();
    world.drain(&mut tc);
    assert_eq!(world.under_way.len(), 1, "one batch");
    assert_eq!(flow_ops(&world), ["-5001/9", "+5002/9"]);
    let (_, ops) = world.under_way.back().unwrap();
    let at = |wanted: fn(&PlanOp) -> bool| ops.iter().position(wanted).unwrap();
    let dropped = at(|op| matches!(op, PlanOp::DropClass { class: ClassId(16), .. }));
    let made = at(|op| matches!(op, PlanOp::Class { class: ClassId(17), .. }));
    assert!(dropped < made, "{ops:#?}");
    // The plane of these tests fails the test if classes sum over the link at any operation.
    world.settle(&mut tc, NOW);
    assert_eq!(tc.audit(), Ok(()));
}

#[test]
fn a_booking_whose_time_comes_displaces_what_has_outlived_its_assumed_holding() {
    let hour = Span::from_secs(3_600);
    let (mut tc, mut world) = started_on(Reservable { assumed_holding: Some(hour), ..reservable(10) });
    let one = from(&[9]);
    let old = tc.add(NOW, &request(5001, controlled_load(5_000), &one)).unwrap();
    world.settle(&mut tc, NOW);
    let window = Window::new(NOW + hour + hour, NOW + hour + hour + hour).unwrap();
    let ledger = tc.ledger_mut(OIF).unwrap().table_mut();
    ledger.grant(window, Rate::from_mbps(6)).expect("beyond the hour a booking does not see it");
    assert_eq!(tc.wake_at(), Some(NOW + hour), "its shelter ends");
    tc.wake(NOW + hour);
    assert_eq!((world.drain(&mut tc), tc.wake_at()), (0, Some(window.start())));
    // Meanwhile a booked slot is never displaced, however much someone pushes.
    let later = window.start().saturating_sub(Span::from_secs(1));
    let refused = tc.add(later, &with(9, 9, request(5002, controlled_load(8_000), &one)));
    assert!(matches!(refused, Err(Refused::Capacity { .. })), "{refused:?}");
    assert!(world.displaced.is_empty());
    tc.wake(window.start());
    world.settle(&mut tc, window.start());
    assert_eq!(world.displaced, [(old, None)]);
    assert!(world.events.iter().any(|event| matches!(event, Event::Opens { .. })));
    assert_eq!((reserved(&tc), tc.audit(), world.plan == tc.plan()), (Rate::ZERO, Ok(()), true));
    tc.wake(window.end());
    world.drain(&mut tc);
    assert!(world.events.iter().any(|event| matches!(event, Event::Closes { .. })));
}
