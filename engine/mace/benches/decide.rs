//! How many decisions about recognised flows an engine makes in a second, and the time that a packet without a flow takes to be
//! counted by a plane in user space.

use bench::Bench;
use mace::rules::SharedTerms;
use mace::{ApplicationList, Config, Input, Mace, Output, Recogniser, RuleTerms};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;
use terms::{FlowKey, Rate, Span, Time, WatchedPorts, Wild};

const FLOWS: u32 = 65_536;

fn flow(n: u32) -> FlowKey {
    FlowKey {
        src: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n)),
        dst: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        protocol: 17,
        src_port: 9000,
        dst_port: 5004,
        wild: Wild::NONE,
    }
}

const RUNS: usize = 7;

fn main() {
    let bench = Bench::from_args();
    decide(&bench);
    recognise(&bench);
}

/// Packets of as many flows as there are places, one after the other in random order, and of a port that nobody watches.
fn recognise(bench: &Bench) {
    let wanted = |name: &str, port: u16, bench: &Bench| {
        if !bench.wants(name) {
            return;
        }
        let mut recogniser = Recogniser::new(FLOWS as usize, Span::from_secs(30), [1, 2]);
        recogniser.watch(&[WatchedPorts { protocol: 17, ports: (5004, 5004), threshold: u32::MAX }]);
        let flows: Vec<FlowKey> =
            (0..FLOWS).map(|n| FlowKey { dst_port: port, ..flow(n.wrapping_mul(2_654_435_761) % FLOWS) }).collect();
        let mut nanos: Vec<f64> = (0..RUNS as u64)
            .map(|run| {
                let begun = Instant::now();
                flows.iter().for_each(|flow| recogniser.packet(Time::from_nanos(run), black_box(flow)));
                begun.elapsed().as_nanos() as f64 / f64::from(FLOWS)
            })
            .collect();
        nanos.sort_by(f64::total_cmp);
        bench.report(name, nanos[RUNS / 2], "ns", RUNS);
    };
    wanted("mace_recognise_ns_65536", 5004, bench);
    wanted("mace_recognise_other_port_ns", 53, bench);
}

fn decide(bench: &Bench) {
    let name = "mace_decisions_per_s";
    if !bench.wants(name) {
        return;
    }
    let list = ApplicationList::parse("vat udp 5004 64kbit 8kb 100 30s\n").expect("a list");
    let shared = SharedTerms {
        allocated: Rate::from_mbps(10_000),
        period: Span::from_secs(5),
        window: 20,
        most_flows: FLOWS as usize,
    };
    let config = Config {
        shared,
        rule: RuleTerms::MeasuredSum { target: (9, 10), departures: false },
        shadow: vec![RuleTerms::SimpleSum, RuleTerms::Hoeffding { nines: 3 }],
        overhead: 14,
        refused_for: Span::from_secs(30),
        look: Span::from_secs(1),
        candidates: 4 * FLOWS as usize,
        key: [1, 2],
    };
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let mut mace = Mace::new(config.clone(), list.clone()).expect("an engine");
            let begun = Instant::now();
            for n in 0..FLOWS {
                let now = Time::from_nanos(u64::from(n));
                mace.handle(now, Input::Recognised(flow(n.wrapping_mul(2_654_435_761) % FLOWS)));
                while let Some(output) = mace.poll() {
                    if let Output::Promote(promotion) = output {
                        mace.handle(now, Input::Installed { flow: promotion.flow, result: Ok(()) });
                    }
                }
            }
            f64::from(FLOWS) / begun.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    bench.report(name, rates[RUNS / 2], "1/s", RUNS);
}
