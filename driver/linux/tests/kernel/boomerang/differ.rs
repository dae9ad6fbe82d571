//! The XDP program against the engine: the same messages through both; equal bytes go out, and the tables and what is
//! free are equal. What the program leaves to user space must be what it may leave, and then reaches neither table.
//!
//! `SLUICE_MESSAGES` says how many random messages (the nightly run: 10^6).

use super::bed::{Bed, RULES, Say, bed, frame};
use super::router::BEHIND;
use crate::policer::Dice;
use crate::scratch::in_netns;
use boomerang::{Boomerang, Config, Event, Input, Output};
use linux::boomerang::{DROP, PASS, REDIRECT, Reason};
use linux::bpf::arriving::Ran;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use terms::ports::{RHandle, Route, RouteDecision, TcRequest, TrafficControl};
use terms::{Adspec, FlowKey, FlowSpec, IfIndex, Rate, Refused, Time};
use wire::boomerang::{Hops, Opt, ProbePacket, Qos, Rates, Selector, TravelDirection, is_boomerang};

const GRANT: u64 = 10_000_000;
const TICK: u64 = 1 << 26;

/// The world of the engine: the bed's routes, and an interface's capacity.
struct World {
    west: IfIndex,
    east: IfIndex,
    free: BTreeMap<IfIndex, u64>,
    held: BTreeMap<u64, (IfIndex, u64)>,
    next: u64,
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Route for World {
    fn route(&mut self, dst: IpAddr, _src: Option<IpAddr>, _iif: Option<IfIndex>) -> RouteDecision {
        let behind = |side: usize| {
            BEHIND[side].iter().any(|(net, prefix)| {
                let net = IpAddr::V6(Ipv6Addr::from(*net)).to_canonical();
                let host = (if net.is_ipv4() { 32 } else { 128 }) - u32::from(*prefix);
                net.is_ipv4() == dst.is_ipv4() && bits(net) >> host == bits(dst) >> host
            })
        };
        let oif = match (behind(0), behind(1)) {
            (true, _) => self.west,
            (_, true) => self.east,
            _ => return RouteDecision::None,
        };
        RouteDecision::Out { oif, gateway: None, source: [10, 0, 0, 1].into() }
    }
}

fn rate(request: &TcRequest<'_>) -> u64 {
    let FlowSpec::ControlledLoad(tspec) = request.flowspec else { panic!("controlled load") };
    tspec.r.as_bps()
}

impl TrafficControl for World {
    fn add(&mut self, _now: Time, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        self.next += 1;
        self.held.insert(self.next, (request.oif, 0));
        let handle = RHandle(self.next);
        self.modify(Time::ZERO, handle, request).map(|()| handle).inspect_err(|_| {
            self.held.remove(&handle.0);
        })
    }

    fn modify(&mut self, _now: Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        let (oif, has) = self.held[&handle.0];
        let (free, asked) = (self.free[&oif] + has, rate(request));
        if asked > free {
            let (asked, free) = (Rate::from_bps(asked), Rate::from_bps(free));
            return Err(Refused::Capacity { interface: oif, asked, free });
        }
        self.free.insert(oif, free - asked);
        self.held.insert(handle.0, (oif, asked));
        Ok(())
    }

    fn remove(&mut self, _now: Time, handle: RHandle) {
        if let Some((oif, has)) = self.held.remove(&handle.0) {
            *self.free.entry(oif).or_default() += has;
        }
    }

    fn offers(&self, _now: Time, oif: IfIndex, _min_packet: u32) -> Rate {
        Rate::from_bps(self.free[&oif])
    }

    fn advertise(&self, _now: Time, _oif: IfIndex, arriving: &Adspec) -> Adspec {
        *arriving
    }
}

/// Program and engine, side by side.
pub struct Both {
    bed: Bed,
    engine: Boomerang,
    world: World,
    /// Of the programs' clock, ns.
    offset: u64,
    /// Decided by both, told to user space, let through.
    pub tally: [u64; 3],
}

/// What a session block is in either table: the expiry apart.
type Block = (IfIndex, FlowKey, Rate, u32, Rate);
/// Blocks, and the ticks that each has left.
type Table = BTreeMap<(IfIndex, FlowKey), (Block, u64)>;

impl Both {
    pub fn new() -> Both {
        let bed = bed(4096, Rate::from_bps(GRANT));
        let config = Config {
            per_source: u32::MAX,
            burst: RULES.burst,
            least_burst: 8192,
            min_packet: RULES.min_unit,
            most_refresh: RULES.most_refresh,
            ..Config::default()
        };
        let free = [(bed.west, GRANT), (bed.east, GRANT)].into();
        let world = World { west: bed.west, east: bed.east, free, held: BTreeMap::new(), next: 0 };
        Both { engine: Boomerang::new(config, 5), bed, world, offset: 0, tally: [0; 3] }
    }

    fn time(&self) -> Time {
        Time::from_nanos(linux::clock::monotonic_coarse() + self.offset)
    }

    /// The XDP program, and every other time the form for traffic control.
    fn run(&self, frame: &[u8], iif: IfIndex) -> Ran {
        // The kernel takes no frame there that has not even its headers.
        if self.tally.iter().sum::<u64>().is_multiple_of(2) || frame.len() < 64 {
            return self.bed.path.run(frame, iif).expect("test run");
        }
        let ran = self.bed.path.run_ingress(frame, iif).expect("test run");
        let verdict = match ran.verdict {
            7 => REDIRECT,
            2 => DROP,
            u32::MAX => PASS,
            other => panic!("TC verdict {other}"),
        };
        Ran { verdict, ..ran }
    }

    /// What somebody heard, as it came: interface 1 is the west. Afterwards all is over.
    pub fn play(&mut self, tape: &[(Time, u32, Vec<u8>)], about: usize) {
        let (begun, started) = (tape[0].0, self.offset);
        for (n, (at, iif, packet)) in tape.iter().enumerate() {
            let due = at.since(begun).as_nanos().saturating_sub(self.offset - started);
            if due > 100_000_000 {
                self.wait(due);
            }
            let iif = if *iif == 1 { self.bed.west } else { self.bed.east };
            self.hear(packet, iif, &(about, n, packet));
        }
        self.compare();
        self.wait(1_000_000_000_000);
        self.compare();
    }

    /// One packet through both.
    fn hear(&mut self, packet: &[u8], iif: IfIndex, about: &dyn std::fmt::Debug) {
        let ran = self.run(&frame(packet), iif);
        let probe = ProbePacket::parse(packet);
        match ran.verdict {
            REDIRECT => {
                self.tally[0] += 1;
                let (oif, out, _) = self.engine_hears(packet, iif).unwrap_or_else(|| panic!("went on: {about:?}"));
                assert_eq!(ran.packet[14..], out, "{about:?}");
                assert_eq!(ran.packet[..6], [2, 0, 0, 0, 0, oif.0 as u8], "to the neighbour there");
            }
            DROP => {
                self.tally[1] += 1;
                let told = self.bed.path.next_told().unwrap_or_else(|| panic!("told: {about:?}"));
                let length = length(packet);
                assert_eq!((told.iif, &told.packet[..]), (iif, &packet[..length]), "{about:?}");
                assert!(is_boomerang(packet) || has_options(packet), "{about:?}");
                match told.reason {
                    Reason::Stranger => {
                        let (_, out, strange) = self.engine_hears(packet, iif).expect("goes on");
                        assert!(strange, "{about:?}");
                        assert_eq!(out[20..length], packet[20..length], "untouched but for TTL");
                    }
                    Reason::NoWay => {
                        let dst = probe.expect("decided as far as that").dst;
                        assert_eq!(self.world.route(dst, None, None), RouteDecision::None, "{about:?}");
                    }
                    Reason::Rare => assert!(probe.is_err() || is_rare(packet), "{about:?}"),
                    other => panic!("{other:?}: {about:?}"),
                }
            }
            PASS => {
                self.tally[2] += 1;
                assert_eq!(ran.packet[14..], *packet, "{about:?}");
                assert!(probe.is_err() || probe.is_ok_and(|probe| probe.ttl < 2), "{about:?}");
            }
            other => panic!("verdict {other}: {about:?}"),
        }
    }

    /// Where the engine sends it, as what, and whether as a stranger.
    fn engine_hears(&mut self, packet: &[u8], iif: IfIndex) -> Option<(IfIndex, Vec<u8>, bool)> {
        let mut copy = packet.to_vec();
        let now = self.time();
        self.engine.handle(now, &mut self.world, Input::Packet { iif: Some(iif), packet: &mut copy });
        let (mut out, mut strange) = (None, false);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Pass { oif, .. } => out = Some(oif),
                Output::Event(Event::Stranger { .. }) => strange = true,
                _ => {}
            }
        }
        let length = length(packet);
        copy.truncate(length);
        // The frame may be longer than its packet; both leave the rest alone.
        copy.extend(&packet[length..]);
        out.map(|oif| (oif, copy, strange))
    }

    fn blocks(&self) -> (Table, Table) {
        let now = self.time();
        let kernel = self.bed.sessions().into_iter().map(|s| {
            let block = (s.oif, s.flow, s.rate, s.transaction, s.before);
            ((s.oif, s.flow), (block, s.left))
        });
        let engine = self.engine.halves().map(|h| {
            let left = h.expires.map_or(0, |at| at.since(now).as_nanos() / TICK);
            ((h.oif, h.flow), ((h.oif, h.flow, h.rate, h.undo.0, h.undo.1), left))
        });
        (kernel.collect(), engine.collect())
    }

    /// The tables and what is free are equal.
    fn compare(&self) {
        let (kernel, engine) = self.blocks();
        let keys = |table: &Table| table.keys().copied().collect::<Vec<_>>();
        assert_eq!(keys(&kernel), keys(&engine));
        for (key, (block, left)) in &kernel {
            let (other, other_left) = engine[key];
            assert_eq!(*block, other);
            assert!(left.abs_diff(other_left) <= 2, "{block:?} expires in {left} and {other_left} ticks");
        }
        for oif in [self.bed.west, self.bed.east] {
            assert_eq!(self.bed.path.free(oif).as_bps(), self.world.free[&oif]);
            let held: u64 =
                kernel.values().filter(|(block, _)| block.0 == oif).map(|(block, _)| block.2.as_bps()).sum();
            assert_eq!(self.bed.path.free(oif).as_bps() + held, GRANT, "nothing leaks");
        }
    }

    /// Time passes; what is over goes, in both. Ticks are coarse: wait until nothing is just at its end.
    fn wait(&mut self, nanos: u64) {
        let mut more = nanos;
        loop {
            self.offset += more;
            let rules = linux::boomerang::ProgramRules { offset: terms::Span::from_nanos(self.offset), ..RULES };
            self.bed.path.set_rules(&rules);
            let tick = self.bed.path.now();
            self.bed.path.sweep(tick, usize::MAX);
            let now = self.time();
            self.engine.handle(now, &mut self.world, Input::Wake);
            while self.engine.poll().is_some() {}
            let (kernel, engine) = self.blocks();
            if kernel.values().chain(engine.values()).all(|(_, left)| *left > 4) {
                return;
            }
            more = TICK;
        }
    }
}

/// Whether user space alone decides this message: what `docs/boomerang.md` lists.
fn is_rare(packet: &[u8]) -> bool {
    let Ok(probe) = ProbePacket::parse(packet) else { return false };
    let message = &probe.message;
    let nobody = |address: IpAddr| match address {
        IpAddr::V4(v4) => matches!(v4.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unspecified() || v6.is_loopback(),
    };
    let options: Vec<_> = message.options().collect();
    let counted = matches!(options[..], [] | [(_, Opt::Hops(_))]) && message.options().remainder().is_empty();
    let classifier = &message.classifier;
    !message.mask.is_exact()
        || !matches!(message.qos, Qos::Bitrate(_))
        || message.is_no_echo()
        || !counted
        || classifier.protocol == 0
        || (classifier.src_port == 0) != (classifier.dst_port == 0)
        || [probe.src, probe.dst, classifier.src, classifier.dst].into_iter().any(nobody)
        || has_options(packet)
}

/// An IP packet's own length: the frame may be longer.
fn length(packet: &[u8]) -> usize {
    let field = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    if packet[0] >> 4 == 4 { field(2) } else { field(4) + 40 }
}

/// Whether an IP header has other options than Router Alert.
fn has_options(packet: &[u8]) -> bool {
    if packet[0] >> 4 == 6 {
        return packet[6] != 58
            && (packet[6] != 0
                || packet[40] != 58
                || packet[41] != 0
                || packet[42..44] != [5, 2]
                || packet[46..48] != [1, 0]);
    }
    packet[0] > 0x46 && packet[0] < 0x50 || packet[0] == 0x46 && packet[20..22] != [0x94, 4]
}

/// A random message and where it comes in.
fn random(dice: &mut Dice, both: &Both) -> (Say, IfIndex) {
    const RATES: [u32; 8] = [0, 0, 1, 500_000, 1_000_000, 1_000_000, 3_000_000, 20_000_000];
    let mut pick = |of: u64| dice.below(of) as usize;
    let mut say = Say::flow(pick(24) as u32, RATES[pick(8)], RATES[pick(8)]);
    if pick(3) == 0 {
        say = say.v6();
    }
    say.leg = if pick(2) == 0 { TravelDirection::Request } else { TravelDirection::Reply };
    say.transaction = pick(4) as u32;
    say.refresh = [0, 1, 2, 30, 30, 60, 61, 255][pick(8)];
    say.key = [1, 1, 1, 0, 35, u64::MAX][pick(6)];
    say.ttl = if pick(50) == 0 { pick(3) as u8 } else { 64 };
    say.router_alert = pick(2) == 0;
    if pick(6) == 0 {
        say.flags |= 1;
    }
    match pick(60) {
        0 => say.flags |= 2,
        1 => say.flags |= 0x8000, // means nothing
        2 => say.mask = Some(Selector { src_port: 0, ..Selector::exact(wire::boomerang::Family::of(say.flow.dst)) }),
        3 => say.rates.push(Rates::default()),
        4 => say.flow.protocol = 0,
        5 => say.flow.dst = [10, 99, 0, 1].into(),
        _ => {}
    }
    if say.flow.src.is_ipv4() != say.flow.dst.is_ipv4() {
        say.flow.dst = say.flow.src;
    }
    let hops = Opt::Hops(Hops { forward: pick(3) as u16, reverse: [0, 1, 65_535][pick(3)] });
    match pick(12) {
        0..4 => say.options = vec![hops],
        4 => say.options = vec![hops, hops],
        5 => say.options = vec![Opt::Uid(wire::boomerang::Uid { user: 1, credential: 2 })],
        6 => say.options = vec![Opt::Unknown { kind: 0x9000, body: &[1, 2, 3, 4] }],
        _ => {}
    }
    let there = if (say.leg == TravelDirection::Request) == (pick(20) > 0) { both.bed.west } else { both.bed.east };
    (say, there)
}

fn messages(usual: u64) -> u64 {
    std::env::var("SLUICE_MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn random_messages_have_the_same_effect() {
    in_netns(|| {
        let mut both = Both::new();
        let mut dice = Dice(0xb00);
        for n in 0..messages(60_000) {
            let (say, iif) = random(&mut dice, &both);
            both.hear(&say.packet(), iif, &(n, &say));
            if n % 500 == 0 {
                both.compare();
            }
            if n % 1000 == 0 {
                both.wait([0, 1, 2, 3, 10, 100, 300][dice.below(7) as usize] * 1_000_000_000 + 250_000_000);
                both.compare();
            }
        }
        both.compare();
        let [decided, told, passed] = both.tally;
        assert!(decided > told && told > 0 && passed > 0, "{:?}", both.tally);
    });
}

#[test]
fn damaged_messages_have_the_same_effect() {
    in_netns(|| {
        let mut both = Both::new();
        let mut dice = Dice(0xdead);
        for n in 0..messages(60_000) / 2 {
            let (say, iif) = random(&mut dice, &both);
            let mut packet = say.packet();
            for _ in 0..=dice.below(2) {
                let at = dice.below(packet.len() as u64) as usize;
                packet[at] = dice.below(256) as u8;
            }
            // Half of them with their checksums made right again, so that what is wrong is looked at.
            if dice.below(2) == 0 {
                mend(&mut packet);
            }
            if dice.below(8) == 0 {
                packet.truncate(dice.below(packet.len() as u64) as usize);
            }
            if dice.below(8) == 0 {
                packet.extend([0; 7]); // as links pad
            }
            both.hear(&packet, iif, &(n, &say, &packet));
            if n % 500 == 0 {
                both.compare();
                both.wait(10_000_000_000);
            }
        }
        both.compare();
    });
}

/// Puts the checksums of a packet right, as far as it has any.
fn mend(packet: &mut [u8]) {
    let sum = |bytes: &[u8]| wire::checksum::internet(bytes).to_be_bytes();
    let version = packet[0] >> 4;
    let at = match version {
        4 => usize::from(packet[0] & 15) * 4,
        6 if packet[6] == 0 => 48,
        6 => 40,
        _ => return,
    };
    if at < 20 || packet.len() < at + 8 {
        return;
    }
    if version == 4 {
        packet[10..12].fill(0);
        let right = sum(&packet[..at]);
        packet[10..12].copy_from_slice(&right);
        packet[at + 2..at + 4].fill(0);
        let right = sum(&packet[at..]);
        packet[at + 2..at + 4].copy_from_slice(&right);
        return;
    }
    packet[at + 2..at + 4].fill(0);
    let mut pseudo = packet[8..40].to_vec();
    pseudo.extend((packet.len() as u32 - at as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, 58]);
    pseudo.extend(&packet[at..]);
    let right = sum(&pseudo);
    packet[at + 2..at + 4].copy_from_slice(&right);
}

/// The corpus of the decoder's tests and fuzz target, as hex.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/wire/probes");
    let mut all: Vec<_> = std::fs::read_dir(dir).expect("the corpus").flatten().map(|entry| entry.path()).collect();
    all.sort();
    let digits = |text: String| -> String {
        text.lines().flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace()).collect()
    };
    let read = |path: &std::path::Path| {
        let digits = digits(std::fs::read_to_string(path).expect("text"));
        let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
        (0..digits.len()).step_by(2).map(pair).collect::<Vec<u8>>()
    };
    all.iter().map(|path| (path.display().to_string(), read(path))).collect()
}

#[test]
fn the_corpus_every_truncation_and_every_bit_of_it_have_the_same_effect() {
    in_netns(|| {
        let mut both = Both::new();
        let all = corpus();
        assert!(all.len() > 5);
        for (name, packet) in &all {
            for iif in [both.bed.west, both.bed.east] {
                both.hear(packet, iif, name);
            }
            both.compare();
            for cut in 0..packet.len() {
                both.hear(&packet[..cut], both.bed.west, &(name, cut));
                let mut shorter = packet[..cut].to_vec();
                match (packet[0] >> 4, cut) {
                    (4, 20..) => shorter[2..4].copy_from_slice(&(cut as u16).to_be_bytes()),
                    (6, 40..) => shorter[4..6].copy_from_slice(&(cut as u16 - 40).to_be_bytes()),
                    _ => continue,
                }
                mend(&mut shorter);
                both.hear(&shorter, both.bed.west, &(name, cut, "and says so"));
            }
            for bit in 0..packet.len() * 8 {
                let mut flipped = packet.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                both.hear(&flipped, both.bed.west, &(name, bit));
                mend(&mut flipped);
                both.hear(&flipped, both.bed.west, &(name, bit, "mended"));
            }
            both.compare();
            both.wait(1_000_000_000_000);
        }
    });
}
