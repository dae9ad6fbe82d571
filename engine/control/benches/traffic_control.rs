//! Traffic control alone, with the real ledger: what one reservation costs at a thousand and at a million on one link,
//! beside a hundred thousand bookings, and how much memory it takes.
//!
//! `tc_add_ns_*`: `add`, the plan it leads to, and the plane's answer. `tc_churn_ns_*`: the same and the removal of
//! another one. `tc_displace_ns_1e6`: a request that has to displace one of a million. `tc_bytes_per_reservation`.

use bench::{Bench, Draw, median, nanos};
use control::io::{InterfaceState, Reservable};
use control::tc::{ControlOutput, Tc};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use terms::ports::{Police, Preemption, RHandle, TcRequest, TrafficControl};
use terms::{Bytes, FlowSpec, IfIndex, Rate, SenderTemplate, Session, Span, Style, Time, Tspec, Window};
use traffic::plan::LinkSpec;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const OIF: IfIndex = IfIndex(2);
const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);
const TSPEC: Tspec = Tspec { r: Rate::from_mbps(1), b: Bytes::new(8192), p: Rate::from_mbps(1), m: 64, M: 1500 };
const SENDER: SenderTemplate =
    SenderTemplate { src: std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 1, 1)), src_port: 5004 };

struct Desk {
    tc: Tc,
    handles: Vec<RHandle>,
    next: u32,
}

impl Desk {
    /// A link with 10^5 bookings in the next year and this many reservations.
    fn with(reservations: u32, rate: Rate) -> Desk {
        let mut desk = Desk { tc: Tc::new([3, 4]), handles: Vec::new(), next: 0 };
        let spec = LinkSpec { rate, overhead: 14, mtu: 1500, scheduler: traffic::scheduler::SchedulerKind::Htb };
        let kept_back = Rate::from_mbps(1);
        let link = Reservable {
            spec,
            signalled_share: rate,
            kept_back,
            assumed_holding: None,
            guaranteed: None,
            measured: Rate::ZERO,
        };
        desk.tc.interface(
            NOW,
            &InterfaceState {
                index: OIF,
                name: "eth1".into(),
                addresses: vec![],
                mtu: 1500,
                rsvp: true,
                link: Some(link),
            },
        );
        desk.drain();
        let mut draw = Draw::new(11);
        let ledger = desk.tc.ledger_mut(OIF).expect("a link").table_mut();
        ledger.expire(NOW);
        for _ in 0..100_000 {
            let ns = |unit: f64, most: f64| Span::from_nanos((unit * most * 1e9) as u64 + 60_000_000_000);
            let start = NOW + ns(draw.unit(), 365.0 * 86_400.0);
            let window = Window::new(start, start + ns(draw.unit(), 86_400.0)).expect("not empty");
            ledger.grant(window, Rate::from_bps(1_000_000 + draw.next_u64() % 99_000_000)).expect("room");
        }
        (0..reservations).for_each(|_| desk.add(0));
        desk
    }

    /// One more session's reservation, said to the plane, which says yes.
    fn add(&mut self, preempting: u16) {
        let [a, b, c, d] = self.next.to_be_bytes();
        self.next += 1;
        let request = TcRequest {
            oif: OIF,
            session: Session { dst: [10 ^ a, b, c, d].into(), protocol: 17, dst_port: 5004 },
            style: Style::Ff,
            filters: &[SENDER],
            wild: terms::Wild::NONE,
            flowspec: FlowSpec::ControlledLoad(TSPEC),
            path_te: TSPEC,
            police: Police::default(),
            lifetime: Span::from_secs(157),
            priority: Some(Preemption { preempting, defending: 0 }),
        };
        self.handles.push(self.tc.add(NOW, &request).expect("there is room"));
        self.drain();
    }

    fn remove(&mut self, at: usize) {
        let handle = self.handles.swap_remove(at);
        self.tc.remove(NOW, handle);
        self.drain();
    }

    fn drain(&mut self) {
        while self.tc.end_turn() {
            while let Some(said) = self.tc.poll() {
                if let ControlOutput::Plan(id, _) = said {
                    self.tc.plan_done(NOW, id, Ok(()));
                }
            }
        }
    }
}

fn held() -> usize {
    let stats = COUNTING.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Many short runs rather than few long ones: each fits into a time slice of a busy machine.
const RUNS: usize = 801;
const BATCH: u32 = 20;

fn per_one(mut run: impl FnMut()) -> f64 {
    median(&mut (0..RUNS).map(|_| nanos(&mut run) / f64::from(BATCH)).collect::<Vec<_>>())
}

fn main() {
    let bench = Bench::from_args();
    for (tag, count) in [("1e3", 1_000), ("1e6", 1_000_000)] {
        let names = [format!("tc_add_ns_{tag}"), format!("tc_churn_ns_{tag}")];
        if !names.iter().any(|name| bench.wants(name)) {
            continue;
        }
        let before = held();
        let mut desk = Desk::with(0, Rate::from_bps(10_000_000_000_000));
        let empty = held();
        (0..count).for_each(|_| desk.add(0));
        if tag == "1e6" {
            let handles = desk.handles.capacity() * size_of::<RHandle>();
            bench.report("tc_bytes_per_reservation", (held() - empty - handles) as f64 / f64::from(count), "bytes", 1);
        }
        assert!(before <= empty);
        bench.report(&names[0], per_one(|| (0..BATCH).for_each(|_| desk.add(0))), "ns", RUNS);
        let mut draw = Draw::new(5);
        let churn = per_one(|| {
            (0..BATCH).for_each(|_| {
                desk.add(0);
                desk.remove(draw.next_u32() as usize % desk.handles.len());
            });
        });
        bench.report(&names[1], churn, "ns", RUNS);
    }
    if bench.wants("tc_displace_ns_1e6") {
        // Room for a million of them beside the most that is ever booked at once.
        let each = TSPEC.r.with_overhead(14, 64);
        let mut desk = Desk::with(0, Rate::from_bps(10_000_000_000_000));
        let booked = Rate::from_bps(10_000_000_000_000).saturating_sub(desk.tc.links().next().expect("a link").free);
        let room = booked.saturating_add(Rate::from_bps(1_000_000 * each.as_bps()));
        desk = Desk::with(0, room);
        while desk.tc.links().next().is_some_and(|link| link.free >= each) {
            desk.add(0);
        }
        bench.report("tc_displace_ns_1e6", per_one(|| (0..BATCH).for_each(|_| desk.add(1))), "ns", RUNS);
    }
}
