//! Somebody who looks on in a browser while a demonstration runs: signs in by a link and reads what the pages read.

use broker_service::client::{BrokerClient, BrokerEndpoint};
use documents::overview::Readings;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The figures of one moment, by their names.
pub type Moment = Vec<(String, f64)>;

pub struct Onlooker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Moment>>,
}

impl Onlooker {
    /// Waits for a broker in one of these testbeds, and looks on until [`Onlooker::saw`].
    pub fn of(testbeds: &Path) -> Onlooker {
        let (stop, testbeds) = (Arc::new(AtomicBool::new(false)), testbeds.to_owned());
        let flag = stop.clone();
        Onlooker { stop, thread: std::thread::spawn(move || look_on(&testbeds, &flag)) }
    }

    /// What there was to see, each half of a second.
    pub fn saw(self) -> Vec<Moment> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the onlooker")
    }
}

fn look_on(testbeds: &Path, stop: &AtomicBool) -> Vec<Moment> {
    let (mut browser, mut seen) = (None, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(500));
        if browser.is_none() {
            browser = socket(testbeds).and_then(sign_in);
        }
        let Some((host, cookie)) = &browser else { continue };
        let Some((_, text)) = exchange(host, "GET", "/v1/readings", &format!("Cookie: {cookie}\r\n"), "") else {
            continue;
        };
        let Ok(found) = serde_json::from_str::<Readings>(&text) else { continue };
        seen.push(found.readings.into_iter().map(|row| (row.name, row.value)).collect());
    }
    seen
}

fn socket(testbeds: &Path) -> Option<PathBuf> {
    let bed = bed::testbed::list(testbeds).into_iter().next()?;
    Some(testbeds.join(bed).join("broker/broker.sock")).filter(|socket| socket.exists())
}

/// The broker's host, and the cookie for whoever took the ticket.
fn sign_in(socket: PathBuf) -> Option<(String, String)> {
    let link = BrokerClient::new(BrokerEndpoint::Socket(socket)).ticket().ok()?.address;
    let (page, ticket) = link.split_once("/#ticket=")?;
    let host = page.strip_prefix("http://")?.to_owned();
    let body = serde_json::json!({ "ticket": ticket }).to_string();
    let fields = format!("Origin: {page}\r\nContent-Type: application/json\r\n");
    let (head, _) = exchange(&host, "POST", "/session", &fields, &body)?;
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "))?;
    Some((host, cookie.split(';').next()?.to_owned()))
}

/// One request over a connection of its own: head and body of the answer.
fn exchange(host: &str, method: &str, path: &str, fields: &str, body: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    stream.write_all(format!("{head}{fields}\r\n{body}").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
}
