//! What a session costs the engine at a transit node, alone: no socket, a routing table of one entry, and a traffic
//! control that admits everything (figures that include admission need the real ledger and live elsewhere).
//!
//! `rsvp_path_new_ns_*`: a first Path decoded, kept, sent on. `rsvp_path_refresh_ns_*`, `rsvp_resv_refresh_ns_*`: a
//! refresh decoded and its state found and prolonged, sessions in random order, cache not warmed. `rsvp_send_refresh_ns_*`:
//! a due Path or Resv encoded and its timer armed anew. `rsvp_bytes_per_session`: resident memory per path + reservation.

use bench::{Bench, Draw, median, nanos};
use rsvp::Rsvp;
use rsvp::io::{Config, Input, Interface};
use std::net::IpAddr;
use terms::ports::{RHandle, Route, TcRequest, TrafficControl, Way};
use terms::{Adspec, Bytes, FlowSpec, IfIndex, Rate, Refused, SenderTemplate, Session, Span, Style, Time, Tspec};
use wire::{Builder, MessageType, RsvpHop};

struct Env(u64);

impl Route for Env {
    fn route(&mut self, _: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> Way {
        Way::Out { oif: IfIndex(2), gateway: None, source: [10, 255, 2, 1].into() }
    }
}

impl TrafficControl for Env {
    fn add(&mut self, _: Time, _: &TcRequest<'_>) -> Result<RHandle, Refused> {
        self.0 += 1;
        Ok(RHandle(self.0))
    }

    fn modify(&mut self, _: Time, _: RHandle, _: &TcRequest<'_>) -> Result<(), Refused> {
        Ok(())
    }

    fn remove(&mut self, _: Time, _: RHandle) {}

    fn advertise(&self, _: Time, _: IfIndex, arriving: &Adspec) -> Adspec {
        *arriving
    }
}

const TSPEC: Tspec = Tspec { r: Rate::from_mbps(1), b: Bytes::new(8192), p: Rate::from_mbps(1), m: 64, M: 1500 };

/// Session number `n`: one of 2^24 destinations.
fn session(n: u32) -> Session {
    let [_, a, b, c] = n.to_be_bytes();
    Session { dst: [172, a, b, c].into(), protocol: 17, dst_port: 5004 }
}

const SENDER: SenderTemplate =
    SenderTemplate { src: IpAddr::V4(core::net::Ipv4Addr::new(10, 1, 1, 1)), src_port: 5004 };

fn path(n: u32) -> Vec<u8> {
    let build = Builder::new(MessageType::Path, 63).session(&session(n));
    let build = build.hop(&RsvpHop { addr: [10, 255, 1, 2].into(), lih: 7 }).time_values(Span::from_secs(30));
    let build = build.sender_template(&SENDER.into()).sender_tspec(&TSPEC).adspec(&Adspec::origin(1500));
    build.finish().expect("short")
}

fn resv(n: u32) -> Vec<u8> {
    let build = Builder::new(MessageType::Resv, 255).session(&session(n));
    let build = build.hop(&RsvpHop { addr: [10, 255, 2, 2].into(), lih: 2 }).time_values(Span::from_secs(30));
    let build = build.style(Style::Ff).flowspec(&FlowSpec::ControlledLoad(TSPEC)).filter_spec(&SENDER.into());
    build.finish().expect("short")
}

struct Transit {
    engine: Rsvp,
    env: Env,
    now: Time,
}

impl Transit {
    fn new() -> Transit {
        let config = Config { max_sessions: 1 << 21, max_paths: 1 << 21, ..Config::default() };
        let mut t = Transit { engine: Rsvp::new(config, 42), env: Env(0), now: Time::ZERO };
        for (index, addr) in [(1, [10, 255, 1, 1]), (2, [10, 255, 2, 1])] {
            let name = format!("eth{index}");
            let state = Interface { name, addresses: vec![addr.into()], mtu: 1500, enabled: true };
            t.tell(Input::Interface { interface: IfIndex(index), state: Some(state) });
        }
        t
    }

    fn tell(&mut self, input: Input<'_>) -> usize {
        self.engine.handle(self.now, &mut self.env, input);
        core::iter::from_fn(|| self.engine.poll()).count()
    }

    fn path(&mut self, n: u32, bytes: &[u8]) {
        let (iif, src, dst) = (IfIndex(1), SENDER.src, session(n).dst);
        self.tell(Input::Message { iif, src, dst, ttl: 63, bytes });
    }

    fn resv(&mut self, bytes: &[u8]) {
        let (iif, src, dst) = (IfIndex(2), [10, 255, 2, 2].into(), [10, 255, 2, 1].into());
        self.tell(Input::Message { iif, src, dst, ttl: 255, bytes });
    }

    fn reserve(&mut self, n: u32) {
        self.path(n, &path(n));
        self.resv(&resv(n));
        let handle = RHandle(self.env.0);
        self.tell(Input::Installed { handle, result: Ok(()) });
    }
}

/// Resident memory, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Many short runs rather than few long ones: each fits into a time slice of a busy machine.
const RUNS: usize = 101;
const BATCH: usize = 200;

/// The median over runs of the time per message of a batch.
fn per_message(batch: usize, mut run: impl FnMut() -> f64) -> f64 {
    median(&mut (0..RUNS).map(|_| run() / batch as f64).collect::<Vec<_>>())
}

fn measure(bench: &Bench, sessions: u32, tag: &str) {
    let names = ["path_new", "path_refresh", "resv_refresh", "send_refresh"].map(|n| format!("rsvp_{n}_ns_{tag}"));
    let memory = "rsvp_bytes_per_session";
    let wanted = names.iter().any(|n| bench.wants(n)) || (tag == "1e5" && bench.wants(memory));
    if !wanted {
        return;
    }
    let before = resident();
    let mut transit = Transit::new();
    (0..sessions).for_each(|n| transit.reserve(n));
    if tag == "1e5" {
        bench.report(memory, (resident() - before) as f64 / f64::from(sessions), "bytes", 1);
    }
    let mut draw = Draw::new(7);
    let batch = BATCH;
    let mut fresh = sessions;
    let new = per_message(batch, || {
        let messages: Vec<_> = (fresh..fresh + batch as u32).map(|n| (n, path(n))).collect();
        fresh += batch as u32;
        nanos(|| messages.iter().for_each(|(n, bytes)| transit.path(*n, bytes)))
    });
    let some = |draw: &mut Draw, of: fn(u32) -> Vec<u8>| -> Vec<(u32, Vec<u8>)> {
        let chosen = (0..batch).map(|_| (draw.next_u64() % u64::from(sessions)) as u32);
        chosen.map(|n| (n, of(n))).collect()
    };
    let refresh = per_message(batch, || {
        let messages = some(&mut draw, path);
        nanos(|| messages.iter().for_each(|(n, bytes)| transit.path(*n, bytes)))
    });
    let asked = per_message(batch, || {
        let messages = some(&mut draw, resv);
        nanos(|| messages.iter().for_each(|(_, bytes)| transit.resv(bytes)))
    });
    let sent = per_message(1, || {
        transit.now = transit.engine.wake_at().expect("something is due");
        let mut count = 0;
        let spent = nanos(|| {
            while count < batch {
                transit.now = transit.engine.wake_at().expect("something is due").max(transit.now);
                count += transit.tell(Input::Wake);
            }
        });
        spent / count as f64
    });
    for (name, value) in names.iter().zip([new, refresh, asked, sent]) {
        bench.report(name, value, "ns", RUNS);
    }
}

fn main() {
    let bench = Bench::from_args();
    measure(&bench, 1_000, "1e3");
    measure(&bench, 100_000, "1e5");
    measure(&bench, 1_000_000, "1e6");
}
