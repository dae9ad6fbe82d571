//! Bookings on a real agent: a hold's whole life by the commands that people use, and a premium flow through a congested
//! node that keeps no book.

use crate::bed::{Bed, SLUICE, unsigned, wait_at_most, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{AskDoc, BindingDoc, FlowDoc, PartDoc, ReservationDoc, ResourceRow, WhenDoc};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

impl Bed {
    /// A command as its user types it, on the agent of a node.
    fn sluice(&self, node: &str, arguments: &[&str]) -> Output {
        let socket = self.home(node).join("agent.sock");
        Command::new(SLUICE).args(arguments).arg("--socket").arg(socket).output().unwrap()
    }

    fn json(&self, node: &str, arguments: &[&str]) -> Value {
        let output = self.sluice(node, &[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The one part of a reservation.
    fn part(&self, node: &str, handle: &str) -> Value {
        self.json(node, &["list", handle])["reservation"]["parts"][0].clone()
    }
}

/// Sends packets of 1,000 octets at about `kbit`, never many at once, until it is told to stop; how many.
fn send(socket: &UdpSocket, kbit: u64, stop: &AtomicBool) -> u64 {
    let (begun, mut sent, mut due) = (Instant::now(), 0, 0);
    while !stop.load(Relaxed) {
        due += 1;
        let at = Duration::from_micros(due * 8_000_000 / kbit);
        let now = begun.elapsed();
        if let Some(wait) = at.checked_sub(now) {
            std::thread::sleep(wait);
        } else if now > at + Duration::from_millis(10) {
            due = now.as_micros() as u64 * kbit / 8_000_000; // what a busy machine missed is not made up for
        }
        sent += u64::from(socket.send(&[0; 972]).is_ok());
    }
    sent
}

/// Tells senders to stop, also when the test fails.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_hold_is_booked_bound_late_bound_anew_and_changed_while_it_runs() {
    let Some(bed) = Bed::of(|name| unsigned(name, "30s")) else { return };
    let node = "yosemite";
    let held = bed.json(node, &["reserve", "net/to-maui=3mbit", "--for", "10m", "--hold", "30s", "--label", "film"]);
    let handle = held["handle"].as_str().unwrap().to_owned();
    assert_eq!(held["state"], "held");
    assert_eq!(bed.json(node, &["commit", &handle])["state"], "active");
    let part = bed.part(node, &handle);
    assert_eq!((&part["enforced"], &part["asked"], &part["now"]), (&"unbound".into(), &3e6.into(), &3e6.into()));
    assert_eq!((&part["installed"], &part["measured"]), (&0.0.into(), &Value::Null));
    // The ports are known only when the application has connected.
    bed.json(node, &["bind", &handle, "--source", "10.0.0.1", "--to", "10.0.2.2:5001", "--protocol", "udp"]);
    wait_for("in force", || (bed.part(node, &handle)["enforced"] == "in_force").then_some(()));
    let socket = bed.netns("swissvale").run(|| UdpSocket::bind("10.0.0.1:0").unwrap()).unwrap();
    let (stop, seen) = (AtomicBool::new(false), |at_least: f64| {
        wait_for("measured", || {
            let part = bed.part(node, &handle);
            let measured = &part["measured"];
            (measured["amount"].as_f64()? >= at_least && measured["interval_s"].as_f64()? >= 1.0).then_some(part)
        })
    });
    std::thread::scope(|scope| {
        let ended = Ended(&stop);
        socket.connect("10.0.2.2:5001").unwrap();
        let sender = scope.spawn(|| send(&socket, 2_000, &stop));
        let part = seen(1_500_000.0);
        assert!(part["measured"]["amount"].as_f64().unwrap() < 3_100_000.0, "{part}");
        assert!(
            part["means"].as_str().unwrap().starts_with("EF at the ingress of to-swissvale, 3000000 bit/s"),
            "{part}"
        );
        // Bound to others: what still comes for the old ones is nobody's.
        bed.json(node, &["bind", &handle, "--to", "10.0.2.2:5002", "--protocol", "udp"]);
        let quiet = wait_for("nothing of it", || {
            let part = bed.part(node, &handle);
            (part["measured"]["amount"] == 0.0).then_some(part)
        });
        assert_eq!(quiet["binding"]["flow"]["dst_port"], 5002);
        drop(ended);
        assert!(sender.join().unwrap() > 0);
    });
    // Faster and longer, while it runs.
    bed.json(node, &["modify", &handle, "--amount", "5mbit"]);
    let faster = wait_for("5 Mb/s", || {
        let part = bed.part(node, &handle);
        (part["installed"] == 5e6).then_some(part)
    });
    assert_eq!((&faster["asked"], &faster["now"], &faster["enforced"]), (&5e6.into(), &5e6.into(), &"in_force".into()));
    let end = faster["steps"][0]["end"].as_str().unwrap().to_owned();
    bed.json(node, &["modify", &handle, "--end", "+20m"]);
    let longer = bed.part(node, &handle);
    assert!(longer["steps"][0]["end"].as_str().unwrap() > end.as_str(), "{longer} after {end}");
    // More than there is: the reason, what would do, and the old stays as it is, in the kernel too.
    let classes = bed.tc(node, "to-maui");
    let refused = bed.sluice(node, &["modify", &handle, "--amount", "20mbit"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(
        words.contains("net/to-maui: asked 20.00mbit, free 9.") && words.contains("slower: net/to-maui  9."),
        "{words}"
    );
    assert_eq!(bed.part(node, &handle)["steps"], longer["steps"]);
    assert_eq!(bed.tc(node, "to-maui"), classes);
    has_calendar_file(&bed, node, &handle);
    let status = String::from_utf8_lossy(&bed.sluice(node, &["status"]).stdout).into_owned();
    assert!(status.contains("admitted") && status.contains("* > 10.0.2.2:5002"), "{status}");
    assert_eq!(bed.json(node, &["cancel", &handle])["state"], "cancelled");
    wait_for("given back", || (!bed.tc(node, "to-maui").contains("5c1c:5 ")).then_some(()));
    assert!(bed.sluice(node, &["calendar", "net/to-maui"]).status.success());
}

/// For calendar programs: one window of one part, of this resource alone.
fn has_calendar_file(bed: &Bed, node: &str, handle: &str) {
    let file = |resource: &str| {
        let said = bed.sluice(node, &["calendar", resource, "-w", "now..+1d", "--ics"]);
        assert!(said.status.success(), "{said:?}");
        String::from_utf8_lossy(&said.stdout).replace("\r\n ", "")
    };
    let (of_it, other) = (file("net/to-maui"), file("net/to-swissvale"));
    assert!(of_it.starts_with("BEGIN:VCALENDAR\r\n") && of_it.contains(&format!("UID:{handle}-0-0@sluice")), "{of_it}");
    assert_eq!((of_it.matches("BEGIN:VEVENT").count(), other.matches("BEGIN:VEVENT").count()), (1, 0));
}

/// A host, an edge that keeps the book, a node in the middle of the domain, and where they send to.
fn domain(name: &str) -> TestbedFile {
    let mut text = format!("name = \"{name}\"\n");
    for (node, kind) in [("host", "host"), ("edge", "router"), ("core", "router"), ("far", "host")] {
        text += &format!("[[node]]\nname = \"{node}\"\nkind = \"{kind}\"\n");
    }
    for (ends, rate) in [("\"host\", \"edge\"", 100), ("\"edge\", \"core\"", 40), ("\"core\", \"far\"", 10)] {
        text += &format!("[[link]]\nbetween = [{ends}]\nrate = \"{rate}mbit\"\n");
    }
    TestbedFile { keys: false, ..TestbedFile::parse(Path::new("domain.toml"), &text).unwrap() }
}

fn booked(bed: &Bed) -> ReservationDoc {
    let flow = FlowDoc {
        dst: Some("10.0.2.2".parse().unwrap()),
        protocol: Some(17),
        dst_port: Some(5001),
        ..FlowDoc::default()
    };
    let binding = Some(BindingDoc::Flow(flow));
    let part = PartDoc { resource: "net/to-core".into(), rate: Some(4_000_000), binding, ..PartDoc::default() };
    let ask = AskDoc { parts: vec![part], when: WhenDoc::lasting(600.0), ..AskDoc::default() };
    match bed.client("edge").call(Request::BookCreate(ask)).unwrap() {
        Answer::Book(BookAnswer::Reservation(doc)) => doc,
        other => panic!("{other:?}"),
    }
}

fn resource(bed: &Bed, node: &str, name: &str) -> ResourceRow {
    match bed.client(node).call(Request::resources(None)).unwrap() {
        Answer::Book(BookAnswer::Resources(rows)) => rows.into_iter().find(|row| row.resource == name).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The share of 3.5 Mb/s of premium that comes through, under a flood of 25 of best effort, in `span`.
fn delivered(bed: &Bed, span: Duration) -> f64 {
    let bound = |node: &str, at: &str| bed.netns(node).run(|| UdpSocket::bind(at).unwrap()).unwrap();
    let (premium, flood, far) = (bound("host", "0.0.0.0:0"), bound("host", "0.0.0.0:0"), bound("far", "10.0.2.2:5001"));
    premium.connect("10.0.2.2:5001").unwrap();
    flood.connect("10.0.2.2:9").unwrap();
    far.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let (stop, stop_flood) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _ended = (Ended(&stop), Ended(&stop_flood));
        let flooding = scope.spawn(|| send(&flood, 25_000, &stop_flood));
        std::thread::sleep(Duration::from_millis(300));
        let counting = scope.spawn(|| std::iter::from_fn(|| far.recv(&mut [0; 2_000]).ok()).count() as f64);
        let sending = scope.spawn(|| send(&premium, 3_500, &stop));
        std::thread::sleep(span);
        stop.store(true, Relaxed);
        let sent = sending.join().unwrap() as f64;
        let came = counting.join().unwrap();
        stop_flood.store(true, Relaxed);
        flooding.join().unwrap();
        came / sent
    })
}

#[test]
fn premium_keeps_its_rate_through_a_congested_core_that_knows_no_flow() {
    let Some(bed) = Bed::of(domain) else { return };
    let doc = booked(&bed);
    wait_for("in force", || (bed.part("edge", &doc.handle)["enforced"] == "in_force").then_some(()));
    // A busy machine may not bring forth a flood that does harm at the first try.
    let mut without = Vec::new();
    let harm = (0..5).any(|_| {
        without.push(delivered(&bed, Duration::from_millis(1500)));
        without.last().is_some_and(|share| *share < 0.8)
    });
    let before = resource(&bed, "core", "net/to-far");
    bed.kill("core");
    let file = bed.home("core").join("agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let core = "name = \"to-far\"\ncore = { premium = \"5mbit\", background = \"10%\" }\n";
    std::fs::write(&file, text.replace("name = \"to-far\"\n", core)).unwrap();
    bed.start("core");
    let after = resource(&bed, "core", "net/to-far");
    assert!(
        before.free - after.free > 5.9e6 && before.free - after.free < 6.2e6,
        "{before:?} {after:?}: in the ledger"
    );
    let status = bed.status("core");
    let far = status.interfaces.iter().find(|interface| interface.name == "to-far").unwrap();
    let rate = |id: &str| far.classes.iter().find(|class| class.class == id).map_or(0, |class| class.rate_wire_bps);
    assert!(rate("5c1c:5") >= 5_000_000 && rate("5c1c:6") >= 1_000_000, "{:#?}", far.classes);
    let sum: u64 = far.classes.iter().filter(|class| class.class != "5c1c:1").map(|class| class.rate_wire_bps).sum();
    assert!(sum <= 10_000_000, "{:#?}", far.classes);
    assert!(bed.reservations("core").is_empty(), "it knows no flow");
    let mut told = Vec::new();
    let held = (0..5).any(|_| {
        told.push(delivered(&bed, Duration::from_millis(2000)));
        told.last().is_some_and(|share| *share >= 0.99)
    });
    println!("premium that came through the core: {without:.3?} of it without a class, then {told:.3?}");
    assert!(harm, "the flood does harm: {without:?}");
    assert!(held, "premium lost in the core: {told:?}");
    wait_at_most(Duration::from_secs(5), "measured at the edge", || {
        let part = bed.part("edge", &doc.handle);
        part["measured"]["amount"].as_f64().map(|_| ())
    });
}
