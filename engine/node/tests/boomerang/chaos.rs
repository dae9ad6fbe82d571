//! Random messages through one node, out and back, forged and mutated: it never panics, never promises more than there is,
//! and its ledger has exactly what its session blocks say. A failure prints its seed.

use super::net::{Kind, MBIT, Net, START, address};
use boomerang::{Config, Replies};
use node::io::{Input, Output};
use terms::{FlowKey, IfIndex, Rate, Span};
use wire::boomerang::{BoomerangRequest, Family, Hops, Opt, ProbePacket, Rates, Selector, TravelDirection, flag};
use wire::ip::Header;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn message(dice: &mut Dice) -> Vec<u8> {
    let port = dice.roll(6) as u16 + 1;
    let flow = FlowKey {
        src: address(0),
        dst: address(2),
        protocol: 17,
        src_port: port,
        dst_port: port,
        wild: terms::Wild::NONE,
    };
    let rate = |dice: &mut Dice| [0, MBIT / 2, MBIT, 2 * MBIT, 4 * MBIT, 9 * MBIT, u32::MAX][dice.roll(7) as usize];
    let mut rates = vec![Rates { forward: rate(dice), reverse: rate(dice) }];
    while dice.roll(3) == 0 {
        let last = rates[rates.len() - 1];
        rates.push(Rates { forward: rate(dice).min(last.forward), reverse: rate(dice).min(last.reverse) });
    }
    let exact = Selector::exact(Family::V4);
    let mask = match dice.roll(8) {
        0 => Selector { src_port: 0, dst_port: 0, ..exact },
        1 => Selector { src: "255.255.0.0".parse().unwrap(), ..exact },
        2 => Selector { src: "0.0.0.0".parse().unwrap(), src_port: 0, ..exact },
        _ => exact,
    };
    let reply = dice.roll(2) == 0;
    let options = [Opt::Hops(Hops::default())];
    let request = BoomerangRequest {
        leg: if reply { TravelDirection::Reply } else { TravelDirection::Request },
        id: 0,
        sequence: 0,
        transaction: dice.roll(4) as u32,
        flags: [0, 0, 0, flag::NACK, flag::NO_ECHO][dice.roll(5) as usize],
        refresh: [0, 1, 3, 255][dice.roll(4) as usize],
        key: [0, 1, 1, 1, 32_771][dice.roll(5) as usize],
        classifier: Selector::of(&flow),
        mask,
        rates: &rates,
        policy: 0,
        options: if dice.roll(2) == 0 { &options } else { &[] },
    };
    let (src, dst) = if reply { (flow.dst, flow.src) } else { (flow.src, flow.dst) };
    let header = Header { src, dst, protocol: 0, ttl: 1 + dice.roll(3) as u8, tos: 0, router_alert: false };
    let mut packet = Vec::new();
    request.write(&header, &mut packet).unwrap();
    if dice.roll(10) == 0 {
        let at = dice.roll(packet.len() as u64) as usize;
        packet[at] ^= 1 << dice.roll(8);
    }
    packet
}

fn play(seed: u64, steps: u32, config: &Config) {
    let mut dice = Dice(seed);
    let mut net = Net::line_with("hah", config);
    let mut now = START;
    let Kind::Aware(node) = &mut net.machines[1].kind else { unreachable!() };
    let mut plans = std::collections::VecDeque::new();
    for step in 0..steps {
        now = now + Span::from_millis(dice.roll(700));
        let mut packet = message(&mut dice);
        let (length, reply) = (packet.len(), packet[12..16] == [10, 0, 2, 1]);
        let good = ProbePacket::parse(&packet).is_ok();
        match dice.roll(8) {
            0 => node.handle(now, Input::Wake),
            1 if !plans.is_empty() => {
                let id = plans.pop_front().unwrap();
                let fault = terms::Fault { what: "chance", code: 5 };
                let result = if dice.roll(6) == 0 { Err(fault) } else { Ok(()) };
                node.handle(now, Input::PlanDone { id, result });
            }
            _ => node.handle(now, Input::Echo { iif: Some(IfIndex(1 + u32::from(reply))), packet: &mut packet }),
        }
        while let Some(output) = node.poll() {
            match output {
                Output::Plan { id, .. } => plans.push_back(id),
                Output::Boomerang(boomerang::Output::Pass { .. }) => {
                    assert_eq!(packet.len(), length, "seed {seed}, step {step}");
                    assert!(ProbePacket::parse(&packet).is_ok() || !good, "seed {seed}, step {step}");
                }
                Output::Boomerang(boomerang::Output::Send { .. }) => panic!("it originates nothing: seed {seed}"),
                _ => {}
            }
        }
        for link in node.links() {
            assert!(link.reserved <= Rate::from_mbps(9), "seed {seed}, step {step}: {} are promised", link.reserved);
        }
        let halves = node.boomerang().halves().filter(|half| half.rate > Rate::ZERO);
        let mut ours: Vec<_> = halves.map(|half| half.handle.unwrap()).collect();
        ours.sort_unstable();
        ours.dedup();
        let slots = node.reservations().count();
        assert_eq!(ours.len(), slots, "seed {seed}, step {step}: blocks and slots");
    }
    now = now + Span::from_secs(300);
    node.handle(now, Input::Wake);
    while node.poll().is_some() {}
    assert!(node.boomerang().is_empty() && node.reservations().count() == 0, "seed {seed}: all ends");
}

#[test]
fn nothing_that_comes_makes_it_promise_what_it_has_not() {
    let seeds: u64 = std::env::var("SLUICE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    for seed in 0..seeds {
        let config = Config {
            replies: [Replies::Known, Replies::Any][seed as usize % 2],
            lock: seed % 3 == 0,
            most_sessions: if seed % 5 == 0 { 4 } else { 1_000 },
            ..Config::default()
        };
        play(seed, 3_000, &config);
    }
}

/// Nothing in a story is left to chance: played again it says the same, octet by octet.
#[test]
fn a_story_that_is_played_again_says_the_same() {
    let played = |story: fn()| {
        story();
        super::net::tapes()
    };
    let story = super::promises::a_raise_that_is_refused_leaves_what_was_there_everywhere;
    let first = played(story);
    assert!(first.iter().map(Vec::len).sum::<usize>() > 10 && first == played(story));
}
