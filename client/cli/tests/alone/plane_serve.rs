//! An agent over a plane in user space, on real packets: a host whose interface `lan0` is queued by `sluice plane serve`, and a
//! receiver with an agent on the kernel's plane.

use crate::alone;
use crate::place::{Place, SLUICE, detached, place, skipped, wait_at_most};
use documents::agent::{Answer, Request, ReservationRow, Status};
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netns::{Guarded, NETNS_DIR};
use linux::process::ProcessId;
use rpc::client::Client;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 2);
const LIMIT: Duration = Duration::from_secs(60);
/// The reserved flow, and the flood beside it.
const PORT: u16 = 5004;
const FLOOD: u16 = 5005;

struct Stand {
    place: Place,
    ends: [Guarded; 2],
    started: Vec<ProcessId>,
    /// Freed last.
    _alone: MutexGuard<'static, ()>,
}

impl Stand {
    /// `None` where it must be skipped. `more` goes into the receiver's reservation.
    fn new(more: &str) -> Option<Stand> {
        if skipped() {
            return None;
        }
        let _alone = alone();
        let (name, place) = place();
        let ends = ["h", "r"].map(|end| Guarded::create(&format!("{name}{end}")).unwrap());
        let far = std::fs::File::open(format!("{NETNS_DIR}/{}", ends[1].name())).unwrap();
        let up = |names: &[&str], address: (&str, Ipv4Addr)| {
            let mut socket = Socket::open().unwrap();
            for name in names {
                let index = socket.link_by_name(name).unwrap().index;
                socket.set_link_up(index, true).unwrap();
            }
            let index = socket.link_by_name(address.0).unwrap().index;
            socket.add_address(&Address { index, address: IpAddr::V4(address.1), prefix: 24 }).unwrap();
        };
        ends[0]
            .run(|| {
                let mut socket = Socket::open().unwrap();
                socket.add_veth("lan0", "lan0p", None).unwrap();
                socket.add_veth("out0", "r0", Some(far.as_fd())).unwrap();
                up(&["lan0", "lan0p", "out0"], ("lan0", HOST));
            })
            .unwrap();
        ends[1].run(|| up(&["r0"], ("r0", FAR))).unwrap();
        let stand = Stand { place, ends, started: Vec::new(), _alone };
        let write = |name: &str, text: String| std::fs::write(stand.place.join(name), text).unwrap();
        let agent = |name: &str, interface: &str, more: &str| {
            let at = stand.place.display();
            let text = format!(
                "name = \"{name}\"\nauth = \"none\"\nsocket = \"{at}/{name}.sock\"\nstate = \"{at}/{name}\"\n\
                 plane_socket = \"{at}/plane.sock\"\n[rsvp]\nrefresh = \"1s\"\n[store]\nany_filesystem = true\n\
                 [[interface]]\nname = \"{interface}\"\nrate = \"20mbit\"\n{more}\n"
            );
            write(&format!("{name}.toml"), text);
        };
        let flow = "rate = \"4mbit\"\nburst = \"30kb\"\npeak = \"20mbit\"\nmax_packet = \"1400b\"";
        agent(
            "host",
            "lan0",
            &format!("plane = \"user\"\n[[static_sender]]\nfrom = \"{HOST}:{PORT}\"\nto = \"{FAR}:{PORT}\"\n{flow}"),
        );
        agent(
            "far",
            "r0",
            &format!(
                "plane = \"kernel\"\n[[static_reservation]]\nsession = \"{FAR}:{PORT}\"\nsenders = [\"{HOST}:{PORT}\"]\n{flow}\n{more}"
            ),
        );
        let socket = stand.place.join("plane.sock");
        write(
            "plane.toml",
            format!(
                "socket = {socket:?}\nspin = \"0s\"\n[[pair]]\ninterface = \"lan0\"\ninside = \"lan0p\"\noutside = \"out0\"\n\
                 delay_bound = \"25ms\"\n"
            ),
        );
        Some(stand)
    }

    fn spawn(&mut self, end: usize, arguments: &[&str], log: &str) -> ProcessId {
        let mut command = Command::new(SLUICE);
        command.args(arguments);
        self.ends[end].enter_at_exec(&mut command);
        let process = detached(&mut command, &self.place.join(log));
        self.started.push(process);
        process
    }

    fn plane(&mut self) -> ProcessId {
        let file = self.place.join("plane.toml");
        let process = self.spawn(0, &["plane", "serve", file.to_str().unwrap()], "plane.log");
        wait_at_most(LIMIT, "the plane serves", || self.shown().filter(|pair| pair["down"].is_null()));
        process
    }

    fn agent(&mut self, end: usize, name: &str) -> ProcessId {
        let file = self.place.join(format!("{name}.toml"));
        let process = self.spawn(end, &["agent", "--config", file.to_str().unwrap()], &format!("{name}.log"));
        wait_at_most(LIMIT, &format!("the agent answers: {}", self.log(name)), || {
            Client::connect(&self.socket(name)).ok()?.call(Request::Hello).ok()
        });
        process
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.place.join(format!("{name}.sock"))
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.place.join(format!("{name}.log"))).unwrap_or_default()
    }

    fn status(&self, name: &str) -> Status {
        match Client::connect(&self.socket(name)).unwrap().call(Request::Status).unwrap() {
            Answer::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// The reservation at the host, once it is installed.
    fn installed(&self) -> ReservationRow {
        wait_at_most(LIMIT, "the reservation is installed", || {
            let rows = self.status("host").reservations;
            rows.into_iter().find(|row| row.installed.as_ref().is_some_and(|found| found.state.as_str() == "installed"))
        })
    }

    /// The plane's pair; `None`: it does not answer.
    fn shown(&self) -> Option<Value> {
        let mut command = Command::new(SLUICE);
        command.args(["plane", "show", "--json", "--socket"]).arg(self.place.join("plane.sock"));
        self.ends[0].enter_at_exec(&mut command);
        let out = command.output().unwrap();
        if !out.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&out.stderr));
            return None;
        }
        let shown: Value = serde_json::from_slice(&out.stdout).unwrap();
        Some(shown["pairs"][0].clone())
    }

    /// The plane's pair. A busy machine may keep it from answering for a while.
    fn pair(&self) -> Value {
        wait_at_most(LIMIT, "the plane answers", || self.shown())
    }

    /// Packets of a class that went, as the plane counts them.
    fn went(&self, class: u64) -> u64 {
        let pair = self.pair();
        let found = pair["classes"].as_array().unwrap().iter().find(|seen| seen["class"] == class).cloned();
        found.map_or(0, |seen| seen["packets"].as_u64().unwrap())
    }

    /// Floods with 40 Mb/s, twice the link, and sends the reserved flow at 3 Mb/s.
    fn traffic(&self) -> Traffic {
        let bind = |end: usize, at| self.ends[end].run(|| UdpSocket::bind(at).unwrap()).unwrap();
        let (stop, sent, got) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let idle = bind(1, (FAR, FLOOD));
        let heard = bind(1, (FAR, PORT));
        heard.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut threads = Vec::new();
        let (flag, count) = (stop.clone(), got.clone());
        threads.push(std::thread::spawn(move || {
            let _idle = idle;
            while !flag.load(Ordering::Relaxed) {
                count.fetch_add(u64::from(heard.recv(&mut [0; 2_000]).is_ok()), Ordering::Relaxed);
            }
        }));
        for (port, to, bps, len, count) in
            [(PORT, PORT, 3_000_000u64, 1_000usize, Some(sent.clone())), (0, FLOOD, 40_000_000, 1_472, None)]
        {
            let (flag, socket) = (stop.clone(), bind(0, (HOST, port)));
            threads.push(std::thread::spawn(move || {
                let (mut last, mut due) = (Instant::now(), 0.0f64);
                while !flag.load(Ordering::Relaxed) {
                    // After a pause what was missed is not made up for, or it would be no flow within its bucket.
                    due = (due + last.elapsed().as_secs_f64() * bps as f64 / 8.0 / (len + 28) as f64).min(8.0);
                    last = Instant::now();
                    while due >= 1.0 {
                        due -= 1.0;
                        let went = socket.send_to(&vec![7; len], (FAR, to)).is_ok();
                        if let Some(count) = &count {
                            count.fetch_add(u64::from(went), Ordering::Relaxed);
                        }
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }));
        }
        Traffic { stop, sent, got, threads }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        for process in self.started.iter().filter(|process| process.is_running()) {
            let _ = process.signal(9);
        }
    }
}

struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    got: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Traffic {
    /// So many packets of the reserved flow go, and none is lost. A machine that stands still for a moment loses some to a
    /// full queue: then the next so many count, and a flow that is not protected loses half of each.
    fn loses_none_of(&self, packets: u64, when: &str) {
        let lost: Vec<u64> = (0..6).map(|_| self.lost_of(packets)).take_while(|&lost| lost > 0).collect();
        assert!(lost.len() < 6, "lost of {packets} and {packets} packets, {when}: {lost:?}");
        if !lost.is_empty() {
            println!("lost before {packets} packets without loss, {when}: {lost:?}");
        }
    }

    fn lost_of(&self, packets: u64) -> u64 {
        let [sent, got] = [&self.sent, &self.got].map(|count| count.load(Ordering::Relaxed));
        wait_at_most(LIMIT, "the flow goes on", || (self.sent.load(Ordering::Relaxed) >= sent + packets).then_some(()));
        let wanted = self.sent.load(Ordering::Relaxed) - sent;
        let (all, until) = (got + wanted, Instant::now() + Duration::from_secs(2));
        // Those of before are on their way, too: what counts is that as many come as go.
        while self.got.load(Ordering::Relaxed) < all && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        all.saturating_sub(self.got.load(Ordering::Relaxed))
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn kill(process: ProcessId) {
    process.signal(9).unwrap();
    wait_at_most(LIMIT, "it is gone", || (!process.is_running()).then_some(()));
}

#[test]
fn a_reservation_in_user_space_outlives_its_agent_and_comes_back_after_the_plane() {
    let Some(mut stand) = Stand::new("") else { return };
    let plane = stand.plane();
    let (agent, _far) = (stand.agent(0, "host"), stand.agent(1, "far"));
    stand.installed();
    let row = stand.status("host").interfaces.into_iter().find(|row| row.name == "lan0").unwrap();
    assert_eq!((row.plane.as_deref(), row.services.len()), (Some("user"), 2), "controlled load and guaranteed");
    let traffic = stand.traffic();
    traffic.loses_none_of(600, "under a flood of twice the link");
    kill(agent);
    let before = stand.went(4);
    traffic.loses_none_of(600, "without an agent");
    assert!(stand.went(4) >= before + 500, "in its class all the time");
    stand.agent(0, "host");
    assert!(!stand.status("host").reservations.is_empty(), "adopted at once");
    traffic.loses_none_of(300, "adopted");
    stand.installed();
    kill(plane);
    assert_eq!(stand.shown(), None);
    stand.plane();
    // The agent finds a plane that knows nothing, and tells it everything again.
    wait_at_most(LIMIT, "its class is back", || (stand.went(4) > 50).then_some(()));
    traffic.loses_none_of(600, "with a new plane");
    assert!(stand.log("host").contains("plane_mended"), "{}", stand.log("host"));
}

#[test]
fn guaranteed_service_is_admitted_and_watched() {
    let Some(mut stand) = Stand::new("service_rate = \"6mbit\"") else { return };
    let plane = stand.plane();
    stand.agent(0, "host");
    stand.agent(1, "far");
    let row = stand.installed();
    assert_eq!(row.installed.map(|found| found.shared), Some(false), "a class of its own");
    let traffic = stand.traffic();
    traffic.loses_none_of(600, "under a flood");
    let pair = stand.pair();
    let class = pair["classes"].as_array().unwrap().iter().find(|seen| seen["class"] == 16).cloned().unwrap();
    assert!(class["packets"].as_u64().unwrap() >= 600, "{class}");
    let bound = class["bound_ns"].as_u64().unwrap();
    assert!((25_000_000..28_000_000).contains(&bound), "C/R + D: {class}");
    assert!(class["late_ns"].as_u64().is_some() && class["beyond_bound"].as_u64().is_some(), "{class}");
    // A machine that stands still for longer than the plane's word: its packets are late, and that is said.
    plane.signal(SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    plane.signal(SIGCONT).unwrap();
    wait_at_most(LIMIT, "the agent says it", || {
        stand.status("host").notes.iter().any(|note| note.contains("later than its delay bound")).then_some(())
    });
    let status = stand.status("host");
    let row = status.interfaces.iter().find(|row| row.name == "lan0").unwrap();
    assert_eq!(row.services, ["controlled-load"], "no more of it is taken");
    assert!(stand.log("host").contains("delay_bound_exceeded"), "{}", stand.log("host"));
    stand.installed();
    traffic.loses_none_of(600, "what holds is kept");
    drop(traffic);
    // A new plane has kept its word so far.
    kill(plane);
    stand.plane();
    wait_at_most(LIMIT, "guaranteed service again", || {
        let status = stand.status("host");
        let row = status.interfaces.iter().find(|row| row.name == "lan0").unwrap();
        (row.services.len() == 2).then_some(())
    });
}

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;

/// True if a packet passes within a second.
fn passes(stand: &Stand) -> bool {
    let heard = stand.ends[1].run(|| UdpSocket::bind((FAR, 9)).unwrap()).unwrap();
    heard.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let probe = stand.ends[0].run(|| UdpSocket::bind((HOST, 0)).unwrap()).unwrap();
    (0..10).any(|_| probe.send_to(&[0], (FAR, 9)).is_ok() && heard.recv(&mut [0]).is_ok())
}

#[test]
fn a_dead_plane_is_closed_or_open_as_configured() {
    let Some(mut stand) = Stand::new("") else { return };
    let plane = stand.plane();
    assert!(passes(&stand), "a plane without a plan");
    kill(plane);
    assert!(!passes(&stand), "closed");
    let file = stand.place.join("plane.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}when_dead = \"open\"\n")).unwrap();
    let plane = stand.plane();
    assert!(passes(&stand), "by the plane");
    let sent = |stand: &Stand| stand.pair()["out"]["sent"].as_u64().unwrap();
    let before = sent(&stand);
    assert!(passes(&stand) && sent(&stand) > before, "and not past it");
    kill(plane);
    assert!(passes(&stand), "open");
    stand.plane();
    assert!(passes(&stand));
    let release = ["plane", "serve", "--release", file.to_str().unwrap()];
    let mut command = Command::new(SLUICE);
    command.args(release);
    stand.ends[0].enter_at_exec(&mut command);
    assert!(command.status().unwrap().success());
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let Some(mut stand) = Stand::new("") else { return };
    let run = |arguments: &[&str]| {
        let mut command = Command::new(SLUICE);
        command.args(arguments);
        stand.ends[0].enter_at_exec(&mut command);
        let out = command.output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let file = |name: &str| stand.place.join(name).to_str().unwrap().to_owned();
    let (code, words) = run(&["agent", "--config", &file("host.toml")]);
    assert!(code == Some(3) && words.contains("start `sluice plane serve` first"), "{code:?} {words}");
    for (wrong, word) in [
        ("", "[[pair]]"),
        ("[[pair]]\ninterface = \"a\"\ninside = \"a\"\noutside = \"b\"", "named twice"),
        ("[[pair]]\ninterface = \"a\"\ninside = \"b\"\noutside = \"c\"\ndelay_bound = \"26ms\"", "at most 25ms"),
        (
            "user = \"nobody-of-that-name\"\n[[pair]]\ninterface = \"a\"\ninside = \"b\"\noutside = \"c\"",
            "there is no user",
        ),
    ] {
        std::fs::write(stand.place.join("wrong.toml"), wrong).unwrap();
        let (code, words) = run(&["plane", "serve", "--check", &file("wrong.toml")]);
        assert!(code == Some(2) && words.contains(word), "{code:?} {words}");
    }
    let socket = file("plane.sock");
    stand.plane();
    // A stranger's connection is closed, whatever it says.
    let mut stranger = Command::new("setpriv");
    stranger.args(["--reuid=65534", "--regid=65534", "--clear-groups", SLUICE, "plane", "show", "--socket"]);
    stranger.arg(socket);
    stand.ends[0].enter_at_exec(&mut stranger);
    assert_eq!(stranger.output().unwrap().status.code(), Some(3));
}

/// The last line of a command's output, as soon as it is right: at the third try at the latest, because other tests take
/// processors from planes and senders.
fn shows(arguments: &[&str], right: impl Fn(&Value) -> bool) {
    if skipped() {
        return;
    }
    let (mut said, _alone) = (Vec::new(), alone());
    for _ in 0..3 {
        let out = Command::new(SLUICE).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let line: Value = text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
        if out.status.success() && right(&line) {
            return;
        }
        said.push(format!("{text}{}", String::from_utf8_lossy(&out.stderr)));
    }
    panic!("{}", said.join("\n"));
}

#[test]
fn every_guaranteed_packet_is_there_within_its_bound() {
    let out = std::env::temp_dir().join(format!("sluice-guaranteed-{}", std::process::id()));
    shows(&["lab", "run", "guaranteed", "--quick", "--json", "--out", out.to_str().unwrap()], |line| {
        let value = |name: &str| line[name].as_f64().unwrap_or(f64::MAX);
        let kept = ["lost", "above_bound_without_stall"].iter().all(|name| value(name) == 0.0);
        kept && line["packets"].as_f64() == Some(30_000.0) && value("bound_ms") <= 50.0
    });
    let _ = std::fs::remove_dir_all(out);
}

/// The shares are not yet as near as they must be: HTB's smallest class has 5 % more than its due, so the command says that
/// they differ. Here they may not go further apart.
#[test]
fn three_planes_agree_but_for_the_smallest_share() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let out = Command::new(SLUICE).args(["plane", "agree", "--json"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line: Value = text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    for name in ["classified_differently", "admitted_differently", "reordered"] {
        assert_eq!(line[name].as_u64(), Some(0), "{text}");
    }
    let worst = line["share_worst"].as_f64().unwrap_or(f64::MAX);
    assert!(worst < 0.1, "{text}");
    assert_eq!(out.status.code(), Some(i32::from(worst > 0.02)), "{text}");
}
