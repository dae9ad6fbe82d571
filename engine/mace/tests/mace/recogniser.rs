//! Recognition for a plane that counts packets itself: thresholds by port, quiet after a flow was told, bounded under a flood.

use crate::{at, flow};
use mace::Recogniser;
use mace::recogniser::MOST_WAITING;
use std::collections::BTreeSet;
use terms::{FlowKey, Span, WatchedPorts};

const WATCHED: WatchedPorts = WatchedPorts { protocol: 17, ports: (5_000, 5_009), threshold: 3 };

fn recogniser(candidates: usize) -> Recogniser {
    let mut recogniser = Recogniser::new(candidates, Span::from_secs(30), [1, 2]);
    recogniser.watch(&[WATCHED, WatchedPorts { protocol: 6, ports: (65_535, 65_535), threshold: 1 }]);
    recogniser
}

fn told(recogniser: &mut Recogniser) -> Vec<FlowKey> {
    std::iter::from_fn(|| recogniser.next_recognised()).collect()
}

#[test]
fn a_flow_is_told_once_at_its_threshold_and_again_after_the_quiet() {
    let mut recogniser = recogniser(64);
    let known = flow(1, 5_009);
    for ms in 0..3 {
        assert_eq!(told(&mut recogniser), []);
        recogniser.packet(at(ms), &known);
    }
    assert_eq!(told(&mut recogniser), [known]);
    (3..30_000).step_by(10).for_each(|ms| recogniser.packet(at(ms), &known));
    assert_eq!(told(&mut recogniser), [], "quiet");
    (30_002..30_005).for_each(|ms| recogniser.packet(at(ms), &known));
    assert_eq!(told(&mut recogniser), [known]);
}

#[test]
fn only_listed_ports_of_their_protocol_count_and_the_destination_first() {
    let mut recogniser = recogniser(64);
    let from = FlowKey { src_port: 5_000, ..flow(1, 9) };
    let stream = FlowKey { protocol: 6, ..flow(2, 65_535) };
    let passed = [
        flow(1, 4_999),
        flow(1, 5_010),
        FlowKey { protocol: 6, ..flow(1, 5_000) },
        FlowKey { protocol: 132, ..flow(1, 5_000) },
        FlowKey { src_port: 0, dst_port: 0, ..flow(1, 5_000) },
    ];
    for ms in 0..3 {
        passed.iter().chain([&from]).for_each(|flow| recogniser.packet(at(ms), flow));
    }
    recogniser.packet(at(3), &stream);
    assert_eq!(told(&mut recogniser), [from, stream]);
    recogniser.watch(&[]);
    recogniser.packet(at(4), &stream);
    recogniser.watch(&[WatchedPorts { protocol: 17, ports: (9, 8), threshold: 1 }]);
    recogniser.packet(at(5), &flow(1, 9));
    assert_eq!(told(&mut recogniser), [], "a new list, and a range that is none");
}

/// Nobody takes the flows: no more wait than there is room, and the others are told when there is.
#[test]
fn a_flood_of_flows_takes_no_memory_and_those_that_go_on_are_told_later() {
    let mut recogniser = recogniser(4 * MOST_WAITING);
    let flows: Vec<FlowKey> = (0..2 * MOST_WAITING as u32).map(|n| flow(n, 5_000)).collect();
    for ms in 0..3 {
        flows.iter().for_each(|flow| recogniser.packet(at(ms), flow));
    }
    let first = told(&mut recogniser);
    assert_eq!(first.len(), MOST_WAITING);
    flows.iter().for_each(|flow| recogniser.packet(at(3), flow));
    let second = told(&mut recogniser);
    let all: BTreeSet<FlowKey> = first.iter().chain(&second).copied().collect();
    // A few lose their place in a full row of the table.
    assert!(all.len() == first.len() + second.len() && all.len() > flows.len() * 8 / 10, "{}", all.len());
    let room = recogniser.room();
    (0..200_000).for_each(|n| recogniser.packet(at(4), &flow(n, 5_001)));
    assert_eq!((recogniser.room(), told(&mut recogniser).len()), (room, 0));
}
