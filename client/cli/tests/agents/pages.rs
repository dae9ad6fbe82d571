//! One answer of an agent is bounded, whatever it is about; the command line and the broker put the pages together.

use crate::bed::{Bed, SLUICE};
use crate::remote::{Running, wait_for_words};
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{AskDoc, Instant, PartDoc, ReservationDoc, ResourceRow, WhenDoc, WindowDoc};
use linux::clock::Clock;
use serde_json::Value;
use std::process::Command;
use terms::{Span, Time};

const NODE: &str = "yosemite";
/// No answer is larger.
const MOST: usize = 64 << 10;
const PARTS: usize = 16;
const WINDOWS: u64 = 1_000;

/// So many windows of a minute, an hour apart, on each of so many parts.
fn large(bed: &Bed, first: Time) -> ReservationDoc {
    let part = PartDoc { resource: "net/to-maui".into(), rate: Some(10_000), ..PartDoc::default() };
    let window = |n: u64| {
        let start = first + Span::from_secs(3_600 * n);
        WindowDoc { start: Instant(start), end: Instant(start + Span::from_secs(60)) }
    };
    let when = WhenDoc { windows: (0..WINDOWS).map(window).collect(), ..WhenDoc::default() };
    let ask = AskDoc { parts: vec![part; PARTS], when, ..AskDoc::default() };
    match bounded(bed, Request::BookCreate(ask)) {
        BookAnswer::Reservation(doc) => doc,
        other => panic!("{other:?}"),
    }
}

/// One answer, as it is.
fn bounded(bed: &Bed, request: Request) -> BookAnswer {
    let asked = format!("{request:?}");
    let answer = bed.client(NODE).page(request).unwrap();
    let size = serde_json::to_vec(&answer).unwrap().len();
    assert!(size <= MOST, "{size} bytes for {}", &asked[..asked.len().min(60)]);
    match answer {
        Answer::Book(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn show(handle: &str) -> Request {
    Request::BookShow { handle: Some(handle.to_owned()), filter: Default::default() }
}

fn json(arguments: &[&str]) -> Value {
    let output = Command::new(SLUICE).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// How many steps each part has.
fn steps(reservation: &Value) -> Vec<usize> {
    reservation["parts"].as_array().unwrap().iter().map(|part| part["steps"].as_array().unwrap().len()).collect()
}

/// A timeline has no gap, and goes from one end of the window to the other.
fn is_whole(row: &ResourceRow, window: WindowDoc) {
    let mut ends = row.timeline.iter().map(|stretch| stretch.end.unwrap());
    let starts: Vec<Instant> = row.timeline.iter().map(|stretch| stretch.start).collect();
    assert_eq!(starts[1..], ends.clone().take(starts.len() - 1).collect::<Vec<_>>()[..], "{}", row.resource);
    assert_eq!((starts[0], ends.next_back()), (window.start, Some(window.end)), "{}", row.resource);
    assert!(!row.more && !row.next, "{}", row.resource);
}

#[test]
fn one_answer_is_bounded_and_nothing_is_missing() {
    let Some(bed) = Bed::up("30s") else { return };
    let first = Clock::start().today() + Span::from_secs(86_400);
    let made = large(&bed, first);
    assert!(made.more, "it says that it is a page");
    bounded(&bed, show(&made.handle));
    let list = Request::BookShow { handle: None, filter: Default::default() };
    bounded(&bed, list.clone());
    let window = WindowDoc { start: Instant(first), end: Instant(first + Span::from_secs(3_600 * WINDOWS)) };
    bounded(&bed, Request::resources(Some(window)));

    // All of it, for whoever asks as always.
    let all = vec![WINDOWS as usize; PARTS];
    let counted = |doc: &ReservationDoc| doc.parts.iter().map(|part| part.steps.len()).collect::<Vec<_>>();
    match bed.client(NODE).call(show(&made.handle)).unwrap() {
        Answer::Book(BookAnswer::Reservation(doc)) => assert_eq!((counted(&doc), doc.more), (all.clone(), false)),
        other => panic!("{other:?}"),
    }
    match bed.client(NODE).call(list).unwrap() {
        Answer::Book(BookAnswer::Reservations { rows, .. }) => assert_eq!(counted(&rows[0]), all),
        other => panic!("{other:?}"),
    }
    match bed.client(NODE).call(Request::resources(Some(window))).unwrap() {
        Answer::Book(BookAnswer::Resources(rows)) => {
            assert!(rows.len() >= 2);
            rows.iter().for_each(|row| is_whole(row, window));
            let longest = rows.iter().map(|row| row.timeline.len()).max().unwrap();
            assert!(longest >= 2 * WINDOWS as usize - 1, "{longest} stretches");
        }
        other => panic!("{other:?}"),
    }
    // By the command line.
    let socket = bed.home(NODE).join("agent.sock").display().to_string();
    let shown = json(&["list", &made.handle, "--socket", &socket]);
    assert_eq!(steps(&shown["reservation"]), all);
    by_the_broker(&bed, &all);
}

/// Through a broker, which is asked in the agent's words and in its own.
fn by_the_broker(bed: &Bed, all: &[usize]) {
    let mut command = Command::new(SLUICE);
    command.arg("broker").arg("--socket").arg(bed.place.join("broker.sock"));
    command.arg("--state").arg(bed.place.join("broker"));
    command.arg("--agent").arg(format!("{NODE}={}", bed.home(NODE).join("agent.sock").display()));
    let log = bed.place.join("broker.log");
    let _broker = Running::start(&mut command, &log);
    wait_for_words(&log, "broker.sock");
    let place = format!("unix:{}", bed.place.join("broker.sock").display());
    let kept = json(&["list", "--broker", &place]);
    let rows = kept.as_array().unwrap();
    assert_eq!(steps(&rows[0]), all, "in a list");
    let shown = json(&["list", rows[0]["handle"].as_str().unwrap(), "--broker", &place]);
    assert_eq!(steps(&shown["reservation"]), all);
}
