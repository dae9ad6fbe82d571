//! Guaranteed service (RFC 2212) on HFSC ports: the delay that is measured never exceeds the bound that was computed
//! from the exported error terms, whatever the other flows do; and nothing is lost.

use node::io::Upcall;
use sim::experiment::{GLENWOOD, SWISSVALE, flood_source, flow, reserve, testbed};
use sim::rng::Probability;
use sim::run_trace::TraceEvent;
use sim::scenario::Impairment;
use sim::{LinkId, Scenario, ScenarioAction, SendPattern, SimReservation, SourceId, SourceSpec, World};
use terms::guaranteed::{delay_bound, rspec_for};
use terms::{Adspec, Bytes, Rate, Span, Time, Tspec};
use traffic::port::SchedulerKind;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// A flow that sends the worst that its token bucket allows, and the service rate that its receiver pays for.
#[derive(Clone, Copy)]
struct Hog {
    port: u16,
    kbit: u64,
    service_kbit: u64,
    packet: u32,
    burst: u32,
}

impl Hog {
    fn tspec(&self) -> Tspec {
        let b = Bytes::new(u64::from(self.burst * self.packet));
        Tspec { r: Rate::from_kbps(self.kbit), b, p: Rate::INFINITE, m: self.packet, M: self.packet }
    }

    fn source(&self, from: Time, until: Time) -> SourceSpec {
        let pattern = SendPattern::Greedy { rate: self.tspec().r, burst: self.burst };
        SourceSpec { node: SWISSVALE, flow: flow(self.port, self.port), packet: self.packet, pattern, from, until }
    }

    /// The bound of RFC 2212 for the rate that it pays for, and what the wires themselves take.
    fn bound(&self, path: &Adspec) -> Span {
        let terms = path.guaranteed.expect("offered");
        assert!(!terms.break_bit && terms.d_tot > 0);
        delay_bound(&self.tspec(), Rate::from_kbps(self.service_kbit), terms.c_tot, terms.d_tot) + WIRES
    }
}

/// Three links of 50 microseconds.
const WIRES: Span = Span::from_micros(3 * 50);

const HOGS: [Hog; 4] = [
    Hog { port: 6_000, kbit: 3_000, service_kbit: 3_000, packet: 1_345, burst: 24 },
    Hog { port: 6_001, kbit: 1_000, service_kbit: 2_000, packet: 1_400, burst: 10 },
    Hog { port: 6_002, kbit: 64, service_kbit: 500, packet: 200, burst: 8 },
    Hog { port: 6_003, kbit: 800, service_kbit: 800, packet: 500, burst: 40 },
];

fn scenario(seed: u64, hogs: &[Hog]) -> Scenario {
    let mut sources: Vec<_> = hogs.iter().map(|hog| hog.source(at(2_000), at(8_000))).collect();
    sources.push(flood_source(Rate::from_mbps(12), 9_000, 9_000, at(1_500), at(9_000)));
    let ask = |hog: &Hog| SimReservation::Guaranteed(Rate::from_kbps(hog.service_kbit));
    let script = hogs.iter().flat_map(|hog| reserve(hog.port, hog.port, hog.tspec(), ask(hog), at(100)));
    Scenario {
        sources,
        script: script.collect(),
        measured: (at(2_000), at(8_000)),
        ..testbed(SchedulerKind::Hfsc, Span::from_secs(1), seed)
    }
}

#[test]
fn no_packet_is_later_than_its_bound_and_none_is_lost() {
    run(1, &HOGS);
}

/// Receivers that want their packets within some time choose the rate for it from what the path says of itself
/// (RFC 2212, "Guidelines for Implementors"), and get them within it.
#[test]
fn a_receiver_chooses_the_rate_for_the_delay_it_wants() {
    let paths = run(2, &HOGS);
    let wanted: Vec<Span> = HOGS.iter().zip(&paths).map(|(hog, path)| hog.bound(path).mul_div_ceil(5, 6)).collect();
    let chosen: Vec<Hog> = HOGS
        .iter()
        .zip(paths.iter().zip(&wanted))
        .map(|(hog, (path, wanted))| {
            let rspec = rspec_for(&hog.tspec(), path, Span::from_nanos(wanted.as_nanos() - WIRES.as_nanos()))
                .expect("the path can");
            let chosen = Hog { service_kbit: rspec.R.as_bps().div_ceil(1_000), ..*hog };
            assert!(chosen.service_kbit > hog.service_kbit && chosen.bound(path) <= *wanted);
            chosen
        })
        .collect();
    // Each hop's terms are as before, so that each bound is the one wanted, or a little less.
    for (path, (hog, wanted)) in run(3, &chosen).iter().zip(chosen.iter().zip(&wanted)) {
        assert!(hog.bound(path) <= *wanted, "{}", hog.port);
    }
}

/// Runs it; no packet is later than its bound, none is lost. What each receiver heard of its path.
fn run(seed: u64, hogs: &[Hog]) -> Vec<Adspec> {
    let mut paths = Vec::new();
    let mut world = World::new(&scenario(seed, hogs)).unwrap();
    world.watch_every_step();
    world.run_until(at(10_000));
    for (n, hog) in hogs.iter().enumerate() {
        let adspec = world.story().of(GLENWOOD).find_map(|line| match &line.what {
            TraceEvent::Upcall(_, Upcall::Path { session, adspec, .. }) if session.dst_port == hog.port => *adspec,
            _ => None,
        });
        let adspec = adspec.expect("a Path with an Adspec");
        paths.push(adspec);
        let (bound, report) = (hog.bound(&adspec), world.flow(SourceId(n)));
        println!("{}: max {:?} bound {bound:?}, {} packets", hog.port, report.delay_max, report.received);
        assert!(report.delay_max <= bound, "{}: {:?} > {bound:?}", hog.port, report.delay_max);
        assert_eq!((report.lost(), report.received > 100), (0, true), "{}", hog.port);
    }
    // The law that every run is held to has looked at nearly all of them: its bucket begins empty.
    let received: u64 = (0..hogs.len()).map(|n| world.flow(SourceId(n)).received).sum();
    assert!(world.bounded() * 10 > received * 9 && world.bounded() <= received, "{} of {received}", world.bounded());
    let flood = world.flow(SourceId(hogs.len()));
    assert!(flood.throughput() >= Rate::from_mbps(3), "what is reserved and not used is lent: {}", flood.throughput());
    assert_eq!(world.check(), Ok(()));
    paths
}

/// The law is alive: a plane that sends a flow's packets with the flood is found out.
#[test]
fn a_plane_that_does_not_keep_its_bound_breaks_the_law() {
    // The best-effort queue holds 75 ms; this flow's bound is well below.
    let mut world = World::new(&scenario(4, &[Hog { service_kbit: 3_000, ..HOGS[2] }])).unwrap();
    world.run_until(at(1_900));
    assert_eq!(world.check(), Ok(()));
    world.corrupt_planes();
    world.run_until(at(10_000));
    let law = world.check().map_err(|broken| broken.law);
    assert_eq!(law, Err("a packet of a guaranteed flow came later than its bound"));
}

/// Where chance holds packets up, nothing is promised, and the law stays silent.
#[test]
fn nothing_is_promised_where_chance_delays_data() {
    let mut scenario = scenario(5, &HOGS);
    let late = Span::from_millis(900);
    let chance = Impairment { reorder: Probability::percent(50), late, ..Impairment::default() };
    scenario.script.push((Time::ZERO, ScenarioAction::ImpairData(LinkId(1), chance)));
    let mut world = World::new(&scenario).unwrap();
    world.run_until(at(10_000));
    assert_eq!((world.check(), world.bounded()), (Ok(()), 0));
}
