//! Whatever bytes come in, the engine neither panics nor promises anything by mistake: what it drops or refuses changes
//! nothing (I5), and no message sets off more than a handful of others (I29).

use crate::story::net::*;
use rsvp::Rsvp;
use rsvp::io::{Event, Input, Output};
use terms::{IfIndex, Span, Style, Time};
use wire::{MessageType, checksum};

const ALL: [MessageType; 7] = rsvp::counters::SEVEN;

/// A transit node in the middle of its work, and what its neighbours could send it.
struct Target {
    engine: Rsvp,
    env: Env,
    now: Time,
    seeds: Vec<(Forged, Vec<u8>)>,
    dropped: usize,
    refused: usize,
    taken: usize,
}

impl Target {
    fn new() -> Target {
        Target::of(Style::Ff)
    }

    /// The reservation is of this style, and so is what is spoilt.
    fn of(style: Style) -> Target {
        let mut net = Net::line(&["snd", "r1", "r2", "rcv"], Span::from_secs(30));
        net.announce(0, 3, 3);
        net.run(Span::from_millis(10));
        let (session, filter) = (net.session_at(3), net.template_at(0));
        net.shares(3, session, style, &[filter], cl(3));
        net.run(Span::from_millis(20));
        assert_eq!(net.held(), [3, 3, 3, 0]);
        let mut seeds = Vec::new();
        for kind in ALL {
            let down = matches!(kind, MessageType::Path | MessageType::PathTear | MessageType::ResvErr);
            let mut m = if down { net.upstream_of(1) } else { net.downstream_of(1) };
            m.confirm = Some(net.addr(3));
            m.style = style;
            if style == Style::Wf {
                m.extra.push((7, 1, vec![10, 0, 0, 1, 192, 0, 2, 1]));
            }
            seeds.push((m.clone(), m.bytes(kind)));
            m.extra.push((0xc5, 1, vec![7; 12]));
            m.template.src_port = 4;
            seeds.push((m.clone(), m.bytes(kind)));
        }
        let node = &mut net.nodes[1];
        let engine = node.engine.take().expect("speaks");
        let env = core::mem::take(&mut node.env);
        Target { engine, env, now: net.now, seeds, dropped: 0, refused: 0, taken: 0 }
    }

    /// Feeds one message and holds the engine to its promises.
    fn feed(&mut self, from: &Forged, bytes: &[u8]) {
        let before = (self.engine.digest(), self.env.held.clone());
        let Forged { iif, src, dst, ttl, .. } = *from;
        self.now = self.now + Span::from_micros(10);
        self.engine.handle(self.now, &mut self.env, Input::Message { iif, src, dst, ttl, bytes });
        let (mut sent, mut said_no, mut said_more) = (0, 0, 0);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Send(datagram) => {
                    let fine = wire::Message::parse(&datagram.bytes);
                    // The answer to a message that cannot be read quotes what cannot be read.
                    let error = matches!(datagram.bytes[1], 3 | 4);
                    let quotes = error && wire::Message::parse(bytes).is_err();
                    assert!(
                        fine.is_ok() || quotes,
                        "we send only what we would accept: {fine:?} {:02x?}",
                        datagram.bytes
                    );
                    sent += 1;
                }
                Output::Event(Event::Dropped { .. }) => (said_no, self.dropped) = (said_no + 1, self.dropped + 1),
                Output::Event(Event::Refused { .. }) => (said_no, self.refused) = (said_no + 1, self.refused + 1),
                _ => said_more += 1,
            }
        }
        let after = (self.engine.digest(), self.env.held.clone());
        // Of several flow descriptors in one Resv some may be refused and others taken.
        if said_no > 0 && said_more == 0 && descriptors(bytes) < 2 {
            assert!(before == after, "refused or dropped, and yet changed: {bytes:02x?}");
            assert!(sent <= said_no, "no message but the refusal leaves: {sent} {said_no} {bytes:02x?}");
        } else {
            self.taken += 1;
        }
        // A shared request goes to each previous hop of its senders, and mutants invent some.
        let most = if self.seeds[0].0.style == Style::Ff { 4 } else { 16 };
        assert!(sent <= most, "{sent} messages for one");
        self.env.date_reports(self.now);
        while let Some((handle, result)) = self.env.take_report(Time::FOREVER) {
            self.engine.handle(self.now, &mut self.env, Input::Installed { handle, result });
            while self.engine.poll().is_some() {}
        }
    }

    /// A new one, with the counts of this one.
    fn renewed(&self) -> Target {
        let Target { dropped, refused, taken, .. } = *self;
        let style = self.seeds[0].0.style;
        Target { dropped, refused, taken, ..Target::of(style) }
    }

    /// Puts the path state and the reservation back that a mutant may have torn.
    fn mend(&mut self) {
        for place in [0, 2] {
            let (from, bytes) = self.seeds[place].clone();
            self.feed(&from, &bytes);
        }
    }
}

fn descriptors(bytes: &[u8]) -> usize {
    match wire::Message::parse(bytes) {
        Ok(wire::Message::Resv(m)) => m.flows().count(),
        _ => 0,
    }
}

/// Makes the checksum right again, so that a mutant gets past it.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= 8 {
        let length = usize::from(u16::from_be_bytes([bytes[6], bytes[7]])).min(bytes.len());
        bytes[2..4].fill(0);
        let sum = checksum::internet(&bytes[..length]);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// Every byte of every message set to each of a dozen telling values, checksums made right.
#[test]
fn every_byte_may_lie() {
    let mut target = Target::new();
    let seeds = target.seeds.clone();
    for (from, bytes) in &seeds {
        for at in 0..bytes.len() {
            for value in [0, 1, 2, 3, 4, 7, 8, 0x7f, 0x80, 0xc0, 0xfe, 0xff] {
                let mut mutant = bytes.clone();
                mutant[at] = value;
                target.feed(from, &sealed(mutant));
            }
            target.mend();
        }
        target = target.renewed();
    }
    assert!(target.dropped > 5_000 && target.refused > 50 && target.taken > 1_000, "the mutants reach all doors");
}

/// Every truncation, with and without the length made right.
#[test]
fn every_truncation_is_dropped() {
    let mut target = Target::new();
    let seeds = target.seeds.clone();
    for (from, bytes) in &seeds {
        for length in 0..bytes.len() {
            let before = target.engine.digest();
            target.feed(from, &bytes[..length]);
            assert_eq!(target.engine.digest(), before);
            if length >= 8 {
                let mut mutant = bytes[..length].to_vec();
                mutant[6..8].copy_from_slice(&(length as u16).to_be_bytes());
                target.feed(from, &sealed(mutant));
            }
        }
        target.mend();
    }
}

/// Two random changes at a time: bytes, 16-bit words, pieces of other messages; from wherever, at whatever TTL.
#[test]
fn random_mutants() {
    mutants(Style::Ff, 60_000);
}

/// The same where the reservation is shared.
#[test]
fn random_mutants_of_shared_reservations() {
    mutants(Style::Se, 25_000);
    mutants(Style::Wf, 25_000);
}

fn mutants(style: Style, rounds: usize) {
    let mut target = Target::of(style);
    let seeds = target.seeds.clone();
    let mut state = 0x5eed_u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for round in 0..rounds {
        let (mut from, mut bytes) = seeds[next(seeds.len())].clone();
        for _ in 0..2 {
            let at = next(bytes.len());
            match next(5) {
                0 => bytes[at] ^= 1 << next(8),
                1 => bytes[at] = next(256) as u8,
                2 => {
                    let other = &seeds[next(seeds.len())].1;
                    let cut = next(other.len() / 4) * 4;
                    bytes.truncate(at & !3);
                    bytes.extend_from_slice(&other[cut..]);
                    let length = bytes.len() as u16;
                    if bytes.len() >= 8 {
                        bytes[6..8].copy_from_slice(&length.to_be_bytes());
                    } else {
                        bytes = other.clone();
                    }
                }
                3 => from.iif = IfIndex(1 + next(2) as u32),
                _ => from.ttl = next(256) as u8,
            }
        }
        target.feed(&from, &sealed(bytes));
        match round % 500 {
            0 => target = target.renewed(),
            n if n % 20 == 0 => target.mend(),
            _ => {}
        }
    }
    let (dropped, taken) = (target.dropped, target.taken);
    assert!(dropped > rounds / 6 && taken > rounds / 12, "{style:?}: {dropped} dropped, {taken} taken");
}

/// After all that, time passes: what the mutants left expires, nothing is held.
#[test]
fn nothing_outlives_the_attack() {
    let mut target = Target::new();
    let seeds = target.seeds.clone();
    for (from, bytes) in &seeds {
        for at in 8..bytes.len() {
            let mut mutant = bytes.clone();
            mutant[at] ^= 0x11;
            target.feed(from, &sealed(mutant));
        }
    }
    while let Some(at) = target.engine.wake_at() {
        target.now = target.now.max(at);
        target.engine.handle(target.now, &mut target.env, Input::Wake);
        while target.engine.poll().is_some() {}
    }
    assert_eq!((target.engine.paths().count(), target.engine.reservations().count()), (0, 0));
    assert_eq!((target.engine.sessions().count(), target.env.held.len()), (0, 0));
}
