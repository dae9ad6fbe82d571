//! A broker over stub agents, and a client that sends exactly what it is told to.

use crate::stub::Stub;
use broker_service::{AgentAt, At, BrokerConfig, RunningBroker};
use documents::links::LinkRow;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A broker and its agents.
pub struct Bed {
    pub dir: PathBuf,
    pub agents: Vec<Stub>,
    pub config: BrokerConfig,
    pub running: Option<RunningBroker>,
    pub runtime: Runtime,
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Said {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Said {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of an answer with this status.
    pub fn ok(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The kind of a problem with this status.
    pub fn problem(self, status: u16) -> Value {
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        let body = self.ok(status);
        assert_eq!(body["status"], status);
        body
    }
}

pub fn link(interface: &str, address: &str) -> LinkRow {
    let resource = Some(format!("net/{interface}"));
    LinkRow {
        interface: interface.into(),
        addresses: vec![address.into()],
        resource,
        rate_wire_bps: Some(10_000_000),
        mtu: 1500,
        slas: Vec::new(),
    }
}

impl Bed {
    /// One agent `here` with a network of 10 Mbit/s and two cores; `alice` on the loopback.
    pub fn one(name: &str) -> Bed {
        Bed::with(
            name,
            |dir| vec![Stub::start(&dir.join("here"), "here", &[("net/eth0", 1e7), ("cpu", 2.0)], Vec::new())],
            |_| {},
        )
    }

    /// left host 10.0.1.9 - a - (b | c - d) - e - right host 10.0.2.9, 10 Mbit/s each.
    pub fn five(name: &str) -> Bed {
        Bed::five_with(name, |_| {})
    }

    /// The same, with other settings.
    pub fn five_with(name: &str, change: impl Fn(&mut BrokerConfig)) -> Bed {
        let agents = |dir: &std::path::Path| {
            let one = |name: &str, links: &[(&str, &str)]| {
                let rooms: Vec<String> = links.iter().map(|(interface, _)| format!("net/{interface}")).collect();
                let rooms: Vec<(&str, f64)> = rooms.iter().map(|name| (name.as_str(), 1e7)).collect();
                let links = links.iter().map(|(interface, address)| link(interface, address)).collect();
                Stub::start(&dir.join(name), name, &rooms, links)
            };
            vec![
                one("a", &[("in", "10.0.1.1/24"), ("b", "10.1.1.1/30"), ("c", "10.1.2.1/30")]),
                one("b", &[("a", "10.1.1.2/30"), ("e", "10.1.3.1/30")]),
                one("c", &[("a", "10.1.2.2/30"), ("d", "10.1.4.1/30")]),
                one("d", &[("c", "10.1.4.2/30"), ("e", "10.1.5.1/30")]),
                one("e", &[("b", "10.1.3.2/30"), ("d", "10.1.5.2/30"), ("out", "10.0.2.1/24")]),
            ]
        };
        Bed::with(name, agents, change)
    }

    pub fn with(name: &str, agents: impl Fn(&std::path::Path) -> Vec<Stub>, change: impl Fn(&mut BrokerConfig)) -> Bed {
        let dir = std::env::temp_dir().join(format!("sluice-rest-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let agents = agents(&dir);
        let mut config = BrokerConfig {
            socket: dir.join("broker.sock"),
            state: dir.join("state"),
            plain: vec!["127.0.0.1:0".parse().unwrap()],
            plain_as: "alice".into(),
            agents: agents
                .iter()
                .map(|agent| AgentAt {
                    name: agent.book.lock().unwrap().node.clone(),
                    at: At::Socket(agent.socket.clone()),
                })
                .collect(),
            own_agent: false,
            ..BrokerConfig::default()
        };
        change(&mut config);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut bed = Bed { dir, agents, config, running: None, runtime };
        bed.start();
        bed
    }

    pub fn start(&mut self) {
        self.running = Some(self.runtime.block_on(broker_service::start(&self.config)).unwrap());
    }

    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.stop());
        }
    }

    pub fn address(&self) -> SocketAddr {
        *self.running.as_ref().unwrap().listens.last().unwrap()
    }

    /// As `alice`, over the loopback.
    pub fn alice(&self, method: &str, path: &str, body: Value) -> Said {
        self.send(method, path, &[], &body)
    }

    pub fn send(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &Value) -> Said {
        let stream = TcpStream::connect(self.address()).unwrap();
        talk(stream, &request(method, path, fields, body))
    }

    /// As root, over the Unix socket.
    pub fn root(&self, method: &str, path: &str, body: Value) -> Said {
        talk(UnixStream::connect(&self.config.socket).unwrap(), &request(method, path, &[], &body))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn request(method: &str, path: &str, fields: &[(&str, &str)], body: &Value) -> Vec<u8> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{fields}\r\n{body}"
    )
    .into_bytes()
}

/// Sends, and reads one answer.
pub fn talk<S: Read + Write>(stream: S, request: &[u8]) -> Said {
    said(&heard(stream, request))
}

/// Sends, and reads to the end.
pub fn heard<S: Read + Write>(mut stream: S, request: &[u8]) -> Vec<u8> {
    // Whoever refuses a body may close before it is sent.
    let _ = stream.write_all(request);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all
}

pub fn said(all: &[u8]) -> Said {
    let end = all
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(all)));
    let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Said { status, body: all[end + 4..].to_vec(), head }
}

/// An event stream.
pub struct Stream {
    lines: BufReader<TcpStream>,
}

impl Stream {
    pub fn open(bed: &Bed, path: &str, last: Option<&str>) -> Stream {
        let mut stream = TcpStream::connect(bed.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let last = last.map_or(String::new(), |last| format!("Last-Event-ID: {last}\r\n"));
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n").as_bytes()).unwrap();
        Stream { lines: BufReader::new(stream) }
    }

    /// The next event: id, kind, data.
    pub fn next(&mut self) -> (String, String, Value) {
        let (mut id, mut kind) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the stream ended");
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.trim().to_owned();
            } else if let Some(text) = line.strip_prefix("event: ") {
                kind = text.trim().to_owned();
            } else if let Some(text) = line.strip_prefix("data: ") {
                return (id, kind, serde_json::from_str(text).unwrap());
            }
        }
    }

    /// The next event of a reservation.
    pub fn next_event(&mut self) -> (String, String, Value) {
        loop {
            let next = self.next();
            if next.1 != "begins" {
                return next;
            }
        }
    }
}
