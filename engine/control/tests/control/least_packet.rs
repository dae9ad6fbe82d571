//! Senders that say m = 0: no packet is shorter than its headers, so none is charged as less.

use crate::world::{OIF, World, controlled_load, guaranteed_service, interface, request, reservable, sender, session};
use control::tc::Tc;
use terms::ports::TrafficControl;
use terms::{FlowSpec, Rate, SenderTemplate, Session, Time, Tspec};

const NOW: Time = Time::from_nanos(1_000_000_000);

fn with_least(flowspec: FlowSpec, m: u32) -> FlowSpec {
    match flowspec {
        FlowSpec::ControlledLoad(tspec) => FlowSpec::ControlledLoad(Tspec { m, ..tspec }),
        FlowSpec::Guaranteed(tspec, rspec) => FlowSpec::Guaranteed(Tspec { m, ..tspec }, rspec),
    }
}

/// 128 kbit/s of a sender with m = 0 once took 1.92 Mbit/s of the ledger and of the class: packets of one octet.
#[test]
fn a_sender_that_says_no_least_packet_is_charged_for_its_headers() {
    // What 128 kbit/s are on Ethernet (14 octets a packet), in packets of nothing but headers.
    let v6 = |protocol| Session { dst: "2001:db8::2".parse().unwrap(), protocol, dst_port: 23 };
    let v4 = |protocol| Session { protocol, ..session(23) };
    let cases = [(v4(17), 20, 217_600), (v4(6), 40, 172_800), (v6(17), 40, 172_800), (v6(6), 60, 157_867)];
    for (session, least, on_the_wire) in cases {
        for m in [0, 1, least - 1, least] {
            let (mut tc, mut world) = (Tc::default(), World::default());
            tc.interface(NOW, &interface(Some(reservable(10))));
            let src = if session.dst.is_ipv6() { "2001:db8::1" } else { "10.0.1.2" };
            let filters = [SenderTemplate { src: src.parse().unwrap(), src_port: 0 }];
            let flowspec = with_least(guaranteed_service(128, 128), m);
            let asked = terms::ports::TcRequest { session, ..request(23, flowspec, &filters) };
            tc.add(NOW, &asked).unwrap();
            world.settle(&mut tc, NOW);
            let link = &world.plan.links[&OIF];
            let (_, entry) = link.flows.iter().next().unwrap();
            assert_eq!(tc.links().next().unwrap().reserved.as_bps(), on_the_wire, "{session:?} m {m}");
            assert_eq!(control::classes::guaranteed(&link.classes[&entry.class]).as_bps(), on_the_wire);
            assert_eq!(entry.bucket.min_unit, least);
            let record = control::record::FlowRecord::decode(&entry.record).unwrap();
            assert_eq!(record.flowspec, flowspec, "what was asked is kept as it was asked");
            assert_eq!(tc.audit(), Ok(()));
        }
    }
}

/// And 800 kbit/s on 10 Mbit/s were refused.
#[test]
fn it_is_not_refused_on_a_link_that_has_the_room() {
    let (mut tc, mut world) = (Tc::default(), World::default());
    tc.interface(NOW, &interface(Some(reservable(10))));
    let filters = [SenderTemplate { src_port: 0, ..sender() }];
    let handle = tc.add(NOW, &request(23, with_least(controlled_load(800), 0), &filters)).unwrap();
    world.settle(&mut tc, NOW);
    assert_eq!(tc.links().next().unwrap().reserved, Rate::from_kbps(1_360));
    // A restarted node counts what it finds alike.
    let mut other = Tc::default();
    for (&class, spec) in &world.plan.links[&OIF].classes {
        other.found_class(OIF, class, spec);
    }
    for (&flow, &entry) in &world.plan.links[&OIF].flows {
        other.adopt(NOW, OIF, flow, entry);
    }
    other.interface(NOW, &interface(Some(reservable(10))));
    assert_eq!(other.links().next().unwrap().reserved, Rate::from_kbps(1_360));
    tc.remove(NOW, handle);
    world.settle(&mut tc, NOW);
    assert_eq!((tc.links().next().unwrap().reserved, tc.audit()), (Rate::ZERO, Ok(())));
}
