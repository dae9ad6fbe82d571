//! What browsers that look cost a broker: `broker_50_browsers_core_percent`, of one core (at most 10), and
//! `broker_browser_answers_per_s`, the rate of answers beside it.
//!
//! Fifty browsers are signed in, sixteen as root and four as each of nine others. Each has the event stream open and asks
//! what the page *Now* asks, as often as it does, over a connection that it keeps. The broker is over the four agents of
//! the testbed of the seed, a hundred reservations are booked, and two events come each second.
//!
//! It needs root: the agents run in network namespaces.

use bed::Bed;
use bed::broker_up::BrokerUp;
use bed::patience::Patience;
use bed::program::{RunningProgram, start};
use bed::testbed::UpOptions;
use bench::Bench;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use terms::Span;

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");
const FIGURES: [&str; 2] = ["broker_50_browsers_core_percent", "broker_browser_answers_per_s"];
const AS_ROOT: usize = 16;
const OTHERS: usize = 34;
/// The browsers of one user that is not root.
const OF_ONE: usize = 4;
const WARM_UP: Duration = Duration::from_secs(3);
const RUN: Duration = Duration::from_secs(20);
const RESERVATIONS: usize = 100;
/// The ticks of `/proc/PID/stat` in a second: `USER_HZ`, 100 on all Linux machines.
const TICKS: f64 = 100.0;

/// The questions of the page *Now*, and the time between two of each, milliseconds. The fourth is for operators.
const ASKED: [(&str, u64); 6] = [
    ("/v1/agents", 1000),
    ("/v1/map", 5000),
    ("/v1/resources", 3000),
    ("/v1/interfaces", 2000),
    ("/v1/reservations", 4000),
    ("/v1/readings", 1000),
];

fn main() {
    let bench = Bench::from_args();
    if !FIGURES.iter().any(|name| bench.wants(name)) {
        return;
    }
    if let Err(why) = Bed::possible() {
        return bench::skipped(why.to_string());
    }
    let folder = std::env::temp_dir().join(format!("sluice-bench-web-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let options = UpOptions { program: SLUICE.into(), testbeds: folder.clone() };
    let bed = Bed::up(&format!("bw{}", std::process::id()), Span::from_secs(30), &options).unwrap();
    let (broker, _running) = start_broker(&bed, &folder);
    // The folder is root's; users of this machine come in by group 0.
    for n in 0..RESERVATIONS {
        let resource = format!("{}/net/to-maui=10kbit", if n % 2 == 0 { "yosemite" } else { "glenwood" });
        sluice(&broker, 0, &["reserve", &resource, "--for", "2h"]);
    }
    let browsers: Vec<Browser> = (0..AS_ROOT + OTHERS)
        .map(|n| Browser::sign_in(&broker, if n < AS_ROOT { 0 } else { 65_010 + ((n - AS_ROOT) / OF_ONE) as u32 }))
        .collect();
    look(&bench, &broker, browsers);
    drop(bed);
    let _ = std::fs::remove_dir_all(&folder);
}

/// A broker over all nodes. Fifty browsers of fifty machines come from one address here.
fn start_broker(bed: &Bed, folder: &Path) -> (BrokerUp, RunningProgram) {
    let (socket, file) = (folder.join("broker.sock"), folder.join("broker.toml"));
    std::fs::write(&file, "[limits]\nconnections_of_one = 256\n").unwrap();
    let mut command = Command::new(SLUICE);
    command.args(["broker", "--no-agent", "--web", "127.0.0.1:0", "--config"]).arg(&file).arg("--socket").arg(&socket);
    command.arg("--state").arg(folder.join("state")).stdout(Stdio::null()).stderr(Stdio::null());
    for node in bed.nodes() {
        command.arg("--agent").arg(format!("{}={}", node.name, node.socket.display()));
    }
    let running = start(&mut command).unwrap();
    let up = || UnixStream::connect(&socket).is_ok();
    assert!(Patience::endless().wait_for(Duration::from_secs(30), up).unwrap(), "the broker does not answer");
    let pid = running.id();
    (BrokerUp { socket, pid }, running)
}

/// What the program prints for this user.
fn sluice(broker: &BrokerUp, uid: u32, words: &[&str]) -> String {
    let mut command = Command::new(SLUICE);
    command.args(words).arg("--broker").arg(format!("unix:{}", broker.socket.display())).uid(uid).gid(0);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A browser that is signed in.
struct Browser {
    address: SocketAddr,
    cookie: String,
    is_operator: bool,
}

impl Browser {
    fn sign_in(broker: &BrokerUp, uid: u32) -> Browser {
        let link = sluice(broker, uid, &["web"]);
        let (origin, ticket) = link.trim().split_once("/#ticket=").unwrap();
        let address: SocketAddr = origin.strip_prefix("http://").unwrap().parse().unwrap();
        let body = format!("{{\"ticket\":\"{ticket}\"}}");
        let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
        let head = format!(
            "POST /session HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.get_mut().write_all(head.as_bytes()).unwrap();
        let (status, fields, _) = answer(&mut stream);
        assert_eq!(status, 201, "{fields:?}");
        let cookie = fields.iter().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        Browser { address, cookie: cookie.split(';').next().unwrap().to_owned(), is_operator: uid == 0 }
    }

    fn get(&self, path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", self.address, self.cookie)
    }

    /// The event stream, until `stop`.
    fn follow(&self, stop: &AtomicBool) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        stream.write_all(self.get("/v1/events").as_bytes()).unwrap();
        let mut piece = [0; 16 << 10];
        while !stop.load(Relaxed) {
            // Nothing for a while is no fault.
            if matches!(stream.read(&mut piece), Ok(0)) {
                panic!("an event stream ended");
            }
        }
    }

    /// The questions of the page, each at its own time, until `stop`.
    fn ask(&self, first: Duration, answers: &AtomicU64, stop: &AtomicBool) {
        let mut stream = BufReader::new(TcpStream::connect(self.address).unwrap());
        let begun = Instant::now() + first;
        let mut due: Vec<(Instant, &str, u64)> = ASKED
            .iter()
            .filter(|(path, _)| self.is_operator || *path != "/v1/interfaces")
            .map(|(path, each)| (begun, *path, *each))
            .collect();
        while !stop.load(Relaxed) {
            let Some(next) = due.iter_mut().min_by_key(|(at, ..)| *at) else { return };
            std::thread::sleep(next.0.saturating_duration_since(Instant::now()).min(Duration::from_millis(200)));
            if Instant::now() < next.0 {
                continue;
            }
            stream.get_mut().write_all(self.get(next.1).as_bytes()).unwrap();
            let (status, _, body) = answer(&mut stream);
            assert!(status == 200 && serde_json::from_slice::<Value>(&body).is_ok(), "{}: {status}", next.1);
            answers.fetch_add(1, Relaxed);
            next.0 += Duration::from_millis(next.2);
        }
    }
}

/// One answer on a connection that goes on: status, fields, body.
fn answer(stream: &mut BufReader<TcpStream>) -> (u16, Vec<String>, Vec<u8>) {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let status = line().split(' ').nth(1).unwrap().parse().unwrap();
    let fields: Vec<String> = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty())).collect();
    let length = fields.iter().find_map(|field| field.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (status, fields, body)
}

/// The processor time of a process so far, seconds.
fn cpu(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / TICKS
}

fn look(bench: &Bench, broker: &BrokerUp, browsers: Vec<Browser>) {
    let (stop, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (n, browser) in browsers.iter().enumerate() {
            scope.spawn(|| browser.follow(&stop));
            let (stop, answers) = (&stop, &answers);
            // They did not begin in the same moment.
            scope.spawn(move || browser.ask(Duration::from_millis(n as u64 * 37 % 1000), answers, stop));
        }
        std::thread::sleep(WARM_UP);
        let (before, so_far, begun) = (cpu(broker.pid), answers.load(Relaxed), Instant::now());
        while begun.elapsed() < RUN {
            let made = sluice(broker, 0, &["reserve", "yosemite/net/to-swissvale=10kbit", "--for", "1h", "--json"]);
            let made: Value = serde_json::from_str(made.lines().last().unwrap()).unwrap();
            sluice(broker, 0, &["cancel", made["id"].as_str().unwrap()]);
            std::thread::sleep(Duration::from_secs(1));
        }
        let seconds = begun.elapsed().as_secs_f64();
        bench.report(FIGURES[0], (cpu(broker.pid) - before) / seconds * 100.0, "%", 1);
        bench.report(FIGURES[1], (answers.load(Relaxed) - so_far) as f64 / seconds, "per_s", 1);
        stop.store(true, Relaxed);
    });
}
