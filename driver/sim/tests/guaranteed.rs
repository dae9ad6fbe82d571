//! Guaranteed service (RFC 2212) on HFSC ports: the delay that is measured never exceeds the bound that was computed
//! from the exported error terms, whatever the other flows do; and nothing is lost.

use node::io::Upcall;
use sim::experiment::{GLENWOOD, SWISSVALE, flood_source, flow, reserve, testbed};
use sim::story::What;
use sim::{Ask, Pattern, Scenario, SourceId, SourceSpec, World};
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
        let pattern = Pattern::Greedy { rate: self.tspec().r, burst: self.burst };
        SourceSpec { node: SWISSVALE, flow: flow(self.port, self.port), packet: self.packet, pattern, from, until }
    }

    /// RFC 2212 section 5 with an unbounded peak: `b / R + Ctot / R + Dtot`, and what the wires themselves take.
    fn bound(&self, path: &Adspec) -> Span {
        let terms = path.guaranteed.expect("offered");
        assert!(!terms.break_bit && terms.d_tot > 0);
        let rate = Rate::from_kbps(self.service_kbit);
        let queueing = rate.span_for(self.tspec().b + Bytes::new(u64::from(terms.c_tot)));
        let wires = Span::from_micros(3 * 50);
        queueing + Span::from_micros(u64::from(terms.d_tot)) + wires
    }
}

const HOGS: [Hog; 4] = [
    Hog { port: 6_000, kbit: 3_000, service_kbit: 3_000, packet: 1_345, burst: 24 },
    Hog { port: 6_001, kbit: 1_000, service_kbit: 2_000, packet: 1_400, burst: 10 },
    Hog { port: 6_002, kbit: 64, service_kbit: 500, packet: 200, burst: 8 },
    Hog { port: 6_003, kbit: 800, service_kbit: 800, packet: 500, burst: 40 },
];

fn scenario(seed: u64) -> Scenario {
    let mut sources: Vec<_> = HOGS.iter().map(|hog| hog.source(at(2_000), at(8_000))).collect();
    sources.push(flood_source(Rate::from_mbps(12), 9_000, 9_000, at(1_500), at(9_000)));
    let ask = |hog: &Hog| Ask::Guaranteed(Rate::from_kbps(hog.service_kbit));
    let script = HOGS.iter().flat_map(|hog| reserve(hog.port, hog.port, hog.tspec(), ask(hog), at(100)));
    Scenario {
        sources,
        script: script.collect(),
        measured: (at(2_000), at(8_000)),
        ..testbed(SchedulerKind::Hfsc, Span::from_secs(1), seed)
    }
}

#[test]
fn no_packet_is_later_than_its_bound_and_none_is_lost() {
    let mut world = World::new(&scenario(1)).unwrap();
    world.watch_every_step();
    world.run_until(at(10_000));
    for (n, hog) in HOGS.iter().enumerate() {
        let adspec = world.story().of(GLENWOOD).find_map(|line| match &line.what {
            What::Upcall(_, Upcall::Path { session, adspec, .. }) if session.dst_port == hog.port => *adspec,
            _ => None,
        });
        let (bound, report) = (hog.bound(&adspec.expect("a Path with an Adspec")), world.flow(SourceId(n)));
        println!("{}: max {:?} bound {bound:?}, {} packets", hog.port, report.delay_max, report.received);
        assert!(report.delay_max <= bound, "{}: {:?} > {bound:?}", hog.port, report.delay_max);
        assert_eq!((report.lost(), report.received > 100), (0, true), "{}", hog.port);
    }
    let flood = world.flow(SourceId(HOGS.len()));
    assert!(flood.throughput() >= Rate::from_mbps(3), "what is reserved and not used is lent: {}", flood.throughput());
    assert_eq!(world.check(), Ok(()));
}
