//! What monitoring reads: `sluice metrics` and `/metrics`, and `sluice health`.

use crate::agents::broker::broker_over;
use crate::bed::{Bed, SLUICE, expect, reserve, wait_for};
use documents::agent::EventDoc;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(words: &[&str]) -> Output {
    Command::new(SLUICE).args(words).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The value of a series, written as on the page.
fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series}: {page}")).parse().unwrap()
}

/// Every line is a comment or `name{labels} number`, and no series is there twice.
fn is_well_formed(page: &str) {
    let mut seen = std::collections::BTreeSet::new();
    for line in page.lines().filter(|line| !line.starts_with("# HELP ") && !line.starts_with("# TYPE ")) {
        let (series, number) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(series.starts_with("sluice_") && number.parse::<f64>().is_ok(), "{line}");
        assert!(seen.insert(series.to_owned()), "twice: {line}");
    }
    assert!(seen.len() > 20, "{page}");
}

/// One request; the whole answer.
fn exchange(mut stream: impl Read + Write, host: &str, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_agent_is_read_by_prometheus_and_by_people() {
    let Some(bed) = Bed::up("30s") else { return };
    let socket = bed.home("maui").join("agent.sock");
    let socket = socket.to_str().unwrap();
    let _sender = bed.sender(1_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 1_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));

    let page = text(&run(&["metrics", "--socket", socket]));
    is_well_formed(&page);
    assert_eq!(value(&page, "sluice_up"), 1.0);
    assert_eq!(value(&page, "sluice_signalled_reservations"), 1.0);
    assert!(value(&page, r#"sluice_messages_received_total{type="Path"}"#) >= 1.0, "{page}");
    assert!(value(&page, r#"sluice_interface_reserved_bits_per_second{interface="to-glenwood"}"#) > 1e6, "{page}");
    let free = value(&page, r#"sluice_resource_free{resource="net/to-glenwood",unit="bit/s"}"#);
    assert!(free > 0.0 && free < value(&page, r#"sluice_resource_capacity{resource="net/to-glenwood",unit="bit/s"}"#));
    let class = r#"{interface="to-glenwood",class="best-effort"}"#;
    assert!(page.contains(&format!("sluice_class_bytes_total{class}")), "{page}");
    assert!(!page.contains("10.0.2.2") && !page.contains("5004"), "no address and no port: {page}");

    // At an address, for whoever asks on this machine.
    let mut serving = Command::new(SLUICE)
        .args(["metrics", "--listen", "127.0.0.1:0", "--socket", socket])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(serving.stderr.take().unwrap()).lines();
    let told = lines.next().unwrap().unwrap();
    let address = told.trim_start_matches("metrics at http://").trim_end_matches("/metrics").to_owned();
    let ask = |host: &str, path: &str| exchange(TcpStream::connect(&address).unwrap(), host, path);
    let answer = ask(&address, "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("text/plain; version=0.0.4"), "{answer}");
    assert_eq!(value(&answer, "sluice_up"), 1.0);
    assert!(ask("evil.example", "/metrics").starts_with("HTTP/1.1 421"));
    assert!(ask(&address, "/").starts_with("HTTP/1.1 404"));
    // Callers that ask and go away at once end nothing.
    for _ in 0..50 {
        let mut gone = TcpStream::connect(&address).unwrap();
        write!(gone, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    }
    assert!(ask(&address, "/metrics").starts_with("HTTP/1.1 200"));
    // The agent goes: the page says so, and nothing of before.
    assert!(run(&["health", "--socket", socket]).status.success());
    bed.kill("maui");
    let gone = wait_for("it is seen", || Some(ask(&address, "/metrics")).filter(|page| page.contains("sluice_up 0")));
    assert!(!gone.contains("sluice_class"), "{gone}");
    assert_eq!(run(&["health", "--socket", socket]).status.code(), Some(3));
    serving.kill().unwrap();
    serving.wait().unwrap();
    let open = run(&["metrics", "--listen", "0.0.0.0:0", "--socket", socket]);
    assert!(!open.status.success() && String::from_utf8_lossy(&open.stderr).contains("loopback"), "{open:?}");
}

#[test]
fn a_brokers_page_has_its_agents_and_health_names_who_is_away() {
    let Some(bed) = Bed::up("30s") else { return };
    let (_broker, socket) = broker_over(&bed);
    let at = format!("unix:{}", socket.display());
    let page = |socket: &Path| {
        let answer = exchange(UnixStream::connect(socket).unwrap(), "b", "/metrics");
        answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}")).1.to_owned()
    };
    let found = page(&socket);
    is_well_formed(&found);
    assert!(bed.nodes.iter().all(|node| value(&found, &format!("sluice_agent_up{{agent=\"{node}\"}}")) == 1.0));
    assert!(found.contains(r#"sluice_resource_free{resource="maui/net/to-glenwood",unit="bit/s"}"#), "{found}");
    assert_eq!(value(&found, "sluice_open_transactions"), 0.0);

    let healthy = run(&["health", "--broker", &at, "--json"]);
    let doc: serde_json::Value =
        serde_json::from_str(&text(&healthy)).unwrap_or_else(|error| panic!("{error}: {healthy:?}"));
    assert_eq!((healthy.status.code(), &doc["healthy"]), (Some(0), &true.into()), "{doc}");
    // A reservation of two agents, of which one dies with its part.
    let made = run(&["reserve", "maui/net/to-glenwood=1mbit", "--for", "1h", "--broker", &at]);
    assert!(made.status.success(), "{made:?}");
    bed.kill("glenwood");
    wait_for("the broker sees it", || {
        (value(&page(&socket), r#"sluice_agent_up{agent="glenwood"}"#) == 0.0).then_some(())
    });
    // An answer about all agents is shared for a moment.
    let ask = || Some(run(&["health", "--broker", &at])).filter(|output| !output.status.success());
    let away = wait_for("health says it", ask);
    let said = text(&away);
    assert!(away.status.code() == Some(1) && said.contains("glenwood") && said.contains("not healthy"), "{said}");
}
