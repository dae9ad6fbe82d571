//! RESV_AGGREGATION: an edge node gathers sessions, the nodes behind it hold the whole.

use super::net::*;
use boomerang::io::Gather;
use boomerang::{BoomerangUpcall, Config};
use terms::IfIndex;
use wire::boomerang::{Family, ProbePacket, Selector};

/// Machine 1 gathers what goes to machine 4 into so many Mbit/s.
fn gathering(mbit: u32) -> Net {
    let mut net = Net::line("aaaah");
    let classifier = Selector::of(&flow(0, 4, 0));
    let mask = Selector { src_port: 0, dst_port: 0, ..Selector::exact(Family::V4) };
    let gather = Gather { classifier, mask, rate: mbit * MBIT, oif: IfIndex(2) };
    let Kind::Aware(node) = &mut net.machines[1].kind else { unreachable!() };
    node.configure_boomerang(Config { gather: vec![gather], ..Config::default() });
    net
}

#[test]
pub fn behind_the_gathering_node_only_the_whole_is_held() {
    let mut net = gathering(6);
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { .. })), "{:?}", net.upcalls);
    assert_eq!(net.held(1, 2), 3_000_000, "the part");
    assert_eq!((net.held(2, 2), net.held(3, 2)), (6_000_000, 6_000_000), "the whole");
    assert_eq!(net.held(2, 1), 1_000_000, "the way back is not gathered");
    let lengths: Vec<usize> = net.heard.iter().map(|(_, packet)| packet.len()).collect();
    assert_eq!(lengths, [92 + 8 + 48], "the host sees the option");
    let options = ProbePacket::parse(&net.heard[0].1).unwrap().message.options().count();
    assert_eq!(options, 2);
    // A second session of the whole makes no more state behind the edge, and one that ends takes nothing away there.
    net.tell(
        0,
        node::io::Input::Boomerang(boomerang::ApplicationCall::Reserve {
            app: boomerang::AppId(2),
            asked: asked_of(&flow(0, 4, 6_000), vec![rates(2 * MBIT, 0)]),
        }),
    );
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(2, 2)), (5_000_000, 6_000_000));
    net.release(0);
    net.run_ms(20_000);
    assert_eq!((net.held(1, 2), net.held(2, 2)), (2_000_000, 6_000_000));
}

#[test]
pub fn the_whole_times_out_when_nobody_names_it() {
    let mut net = gathering(4);
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(100);
    let Kind::Aware(node) = &mut net.machines[1].kind else { unreachable!() };
    node.configure_boomerang(Config::default());
    net.run_ms(20_000);
    assert_eq!((net.held(2, 2), net.held(3, 2)), (3_000_000, 3_000_000), "each part for itself again");
}
