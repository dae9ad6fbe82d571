//! Reservations over two agents by a broker, beside the same over one agent: real processes, real disks.
//!
//! `broker_create_one_agent_ms` and `broker_create_two_agents_ms` alternate in one run; `broker_create_two_agents_ratio` is the median of
//! the ratio, pair by pair (at most 5). `broker_create_syncs_in_series`: the writes that one such reservation waits for, one after the other
//! (at most 3): every fsync and fdatasync of the broker and of both agents takes a fixed time here, and so does the whole, so many times.
//! `broker_clients_64_over_1`: the rate of 64 concurrent clients over that of one (at least 8).
//!
//! It needs root: the agents run in network namespaces.

use bed::patience::Patience;
use bed::program::{RunningProgram, start};
use bed::testbed::UpOptions;
use bed::{Bed, FAR, NEAR};
use bench::{Bench, median};
use linux::anomaly::{WatchedProgram, watch_syncs_at_exec};
use linux::process::ProcessId;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use terms::Span;

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");
const PAIRS: usize = 101;
const CLIENTS: usize = 64;
/// How long each number of clients reserves.
const RUN: Duration = Duration::from_secs(5);
/// What an fsync takes on the slow disk.
const SYNC: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(30);
const SIGTERM: i32 = 15;

const FIGURES: [&str; 7] = [
    "broker_create_one_agent_ms",
    "broker_create_two_agents_ms",
    "broker_create_two_agents_ratio",
    "broker_create_syncs_in_series",
    "broker_create_per_s_of_1_client",
    "broker_create_per_s_of_64_clients",
    "broker_clients_64_over_1",
];

fn main() {
    let bench = Bench::from_args();
    if !FIGURES.iter().any(|name| bench.wants(name)) {
        return;
    }
    if let Err(why) = Bed::possible() {
        return bench::skipped(why.to_string());
    }
    let folder = std::env::temp_dir().join(format!("sluice-bench-broker-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let name = format!("bt{}", std::process::id());
    let options = UpOptions { program: SLUICE.into(), testbeds: folder.clone() };
    let bed = Bed::up(&name, Span::from_secs(30), &options).unwrap();
    {
        let place = Place::over(&bed, &folder, false);
        side_by_side(&bench, &place);
        clients(&bench, &place);
    }
    if bench.wants("broker_create_syncs_in_series") {
        in_series(&bench, &bed, &folder);
    }
    drop(bed);
    let _ = std::fs::remove_dir_all(&folder);
}

/// A broker over two agents.
struct Place {
    socket: PathBuf,
    // In this order: the broker ends before its supervision does.
    _running: RunningProgram,
    _watch: Option<WatchedProgram>,
}

impl Place {
    fn over(bed: &Bed, folder: &Path, slow: bool) -> Place {
        let socket = folder.join(if slow { "slow.sock" } else { "broker.sock" });
        // Connections that end still count for a moment.
        let file = folder.join("broker.toml");
        std::fs::write(&file, "[limits]\nconnections_of_one = 256\n").unwrap();
        let mut command = Command::new(SLUICE);
        command.args(["broker", "--no-agent", "--config"]).arg(&file).arg("--socket").arg(&socket);
        command.arg("--state").arg(folder.join("state"));
        for node in [NEAR, FAR] {
            command.arg("--agent").arg(format!("{node}={}", bed.node(node).unwrap().socket.display()));
        }
        let (running, watch) = started(&mut command, slow);
        let up = Patience::endless().wait_for(PATIENCE, || ask(&socket, &Value::Null).is_some()).unwrap();
        assert!(up, "the broker does not answer");
        Place { socket, _running: running, _watch: watch }
    }
}

fn started(command: &mut Command, slow: bool) -> (RunningProgram, Option<WatchedProgram>) {
    if slow {
        watch_syncs_at_exec(command);
    }
    let running = start(command.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    let watch = slow.then(|| WatchedProgram::of(running.id(), None).unwrap());
    (running, watch)
}

/// The status of an answer; without a body it is only asked if the broker is there.
fn ask(socket: &Path, body: &Value) -> Option<u16> {
    let mut stream = UnixStream::connect(socket).ok()?;
    let (line, body) = match body {
        Value::Null => ("GET /v1/resources", String::new()),
        body => ("POST /v1/reservations", body.to_string()),
    };
    let head = format!(
        "{line} HTTP/1.1\r\nHost: b\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut all = String::new();
    stream.read_to_string(&mut all).ok()?;
    all.split(' ').nth(1)?.parse().ok()
}

/// A thousandth of what a link carries, at each of these agents.
fn wish(agents: &[&str]) -> Value {
    let resource = |agent: &&str| if *agent == NEAR { "yosemite/net/to-maui" } else { "maui/net/to-glenwood" };
    let parts: Vec<Value> = agents.iter().map(|agent| json!({"resource": resource(agent), "rate": 100})).collect();
    json!({"parts": parts, "duration_s": 600})
}

fn create(socket: &Path, wish: &Value) -> Duration {
    let begun = Instant::now();
    let status = ask(socket, wish);
    let took = begun.elapsed();
    assert_eq!(status, Some(201), "{wish}");
    took
}

fn side_by_side(bench: &Bench, place: &Place) {
    if !FIGURES[..3].iter().any(|name| bench.wants(name)) {
        return;
    }
    let (one, two) = (wish(&[NEAR]), wish(&[NEAR, FAR]));
    let pair = || (create(&place.socket, &one), create(&place.socket, &two));
    pair();
    let pairs: Vec<(Duration, Duration)> = (0..PAIRS).map(|_| pair()).collect();
    let millis = |took: Duration| took.as_secs_f64() * 1e3;
    let mut of_one: Vec<f64> = pairs.iter().map(|(one, _)| millis(*one)).collect();
    let mut of_two: Vec<f64> = pairs.iter().map(|(_, two)| millis(*two)).collect();
    let mut ratios: Vec<f64> = pairs.iter().map(|(one, two)| millis(*two) / millis(*one)).collect();
    bench.report(FIGURES[0], median(&mut of_one), "ms", PAIRS);
    bench.report(FIGURES[1], median(&mut of_two), "ms", PAIRS);
    bench.report(FIGURES[2], median(&mut ratios), "ratio", PAIRS);
}

/// The rate of so many clients, each of which asks for one reservation after another.
fn rate(place: &Place, clients: usize) -> f64 {
    let (made, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let wish = wish(&[NEAR, FAR]);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    create(&place.socket, &wish);
                    made.fetch_add(1, Relaxed);
                }
            });
        }
        std::thread::sleep(RUN);
        stop.store(true, Relaxed);
    });
    made.load(Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

fn clients(bench: &Bench, place: &Place) {
    if !FIGURES[4..].iter().any(|name| bench.wants(name)) {
        return;
    }
    let (one, many) = (rate(place, 1), rate(place, CLIENTS));
    bench.report(FIGURES[4], one, "per_s", 1);
    bench.report(FIGURES[5], many, "per_s", 1);
    bench.report(FIGURES[6], many / one, "ratio", 1);
}

/// Agents and broker on a slow disk.
fn in_series(bench: &Bench, bed: &Bed, folder: &Path) {
    let mut agents = Vec::new();
    for node in [NEAR, FAR] {
        if let Some(agent) = ProcessId::of(bed.node(node).unwrap().agent.pid) {
            agent.signal(SIGTERM).unwrap();
            Patience::endless().wait_for(PATIENCE, || !agent.is_running()).unwrap();
        }
        let (mut command, _, namespace) = bed.agent_command(node).unwrap();
        agents.push(started(&mut command, true));
        drop(namespace);
        assert!(Patience::endless().wait_for(PATIENCE, || bed.status(node).is_ok()).unwrap(), "{node} does not answer");
    }
    let place = Place::over(bed, folder, true);
    let slow = |delay: Duration| {
        let all = agents.iter().filter_map(|(_, watch)| watch.as_ref()).chain(&place._watch);
        all.for_each(|watch| watch.slow(delay));
    };
    create(&place.socket, &wish(&[NEAR, FAR]));
    slow(SYNC);
    // The first of them may still meet what the one before left to be written.
    let mut took: Vec<f64> = (0..5)
        .map(|_| {
            std::thread::sleep(4 * SYNC);
            create(&place.socket, &wish(&[NEAR, FAR])).as_secs_f64()
        })
        .collect();
    slow(Duration::ZERO);
    let series = (median(&mut took) / SYNC.as_secs_f64()).floor();
    bench.report("broker_create_syncs_in_series", series, "syncs", took.len());
}
