//! Answers of a bounded size: whatever is cut comes together again, and no page is larger than it may be.

use documents::agent::{Answer, ReplyLine, Request};
use documents::book::pages::{Pages, cut, cut_resources};
use documents::book::{BookAnswer, BookFilter, Instant, PartRow, ReservationDoc, ResourceRow, StepDoc, WindowDoc};
use serde_json::json;
use terms::{Span, Time};

/// No answer is larger.
const MOST: usize = 64 << 10;
const T0: Time = Time::from_nanos(1_795_269_600_123_456_789);

fn at(n: usize) -> Instant {
    Instant(T0 + Span::from_secs(n as u64))
}

fn steps(n: usize) -> Vec<StepDoc> {
    (0..n).map(|n| StepDoc { start: at(n), end: Some(at(n + 1)), amount: 99_999_999.0 + n as f64 }).collect()
}

fn reservation(parts: &[usize], version: u64) -> ReservationDoc {
    let part = |n: &usize| -> PartRow {
        let row = json!({"resource": "net/eth1", "unit": "bit/s", "kind": "reserved", "steps": steps(*n), "packet_bytes": 1000,
            "rtt_ms": 100.0, "binding": null, "now": 1.0, "enforced": "in_force", "fault": null});
        serde_json::from_value(row).unwrap()
    };
    ReservationDoc {
        handle: "h".into(),
        owner: "uid:0".into(),
        label: String::new(),
        group: String::new(),
        members: Vec::new(),
        state: "active".into(),
        hold_until: None,
        notify_s: None,
        created: at(0),
        version,
        promise: None,
        parts: parts.iter().map(part).collect(),
        more: false,
    }
}

fn resources(timelines: &[usize]) -> Vec<ResourceRow> {
    let row = |(n, stretches): (usize, &usize)| -> ResourceRow {
        let row = json!({"resource": format!("net/eth{n}"), "unit": "bit/s", "kind": "reserved", "capacity": 1e9, "free": 1e9,
            "background": 0.0, "reservations": 7, "timeline": steps(*stretches)});
        serde_json::from_value(row).unwrap()
    };
    timelines.iter().enumerate().map(row).collect()
}

/// As an agent says it.
fn said(answer: BookAnswer) -> BookAnswer {
    let line = serde_json::to_vec(&ReplyLine::Ok { id: 7, ok: Box::new(Answer::Book(answer.clone())) }).unwrap();
    assert!(line.len() <= MOST, "{} bytes", line.len());
    answer
}

/// Asks until all of it has come: how many pages that took.
fn gather(request: Request, mut agent: impl FnMut(Request) -> BookAnswer) -> (BookAnswer, usize) {
    let mut pages = Pages::of(&request).unwrap();
    let (mut answer, mut asked) = (agent(request), 1);
    while let Some(next) = pages.next(&answer) {
        asked += 1;
        pages.add(&mut answer, agent(next));
    }
    (answer, asked)
}

fn show() -> Request {
    Request::BookShow { handle: Some("h".into()), filter: Default::default() }
}

#[test]
fn a_reservation_comes_in_pages() {
    for (parts, asked) in
        [(vec![1], 1), (vec![512], 1), (vec![513], 2), (vec![0, 511, 1], 1), (vec![1024; 16], 32), (vec![300; 7], 5)]
    {
        let whole = reservation(&parts, 1);
        let agent = |request| {
            let Request::BookShow { filter, .. } = request else { panic!("{request:?}") };
            let mut doc = whole.clone();
            cut(&mut doc, filter.skip);
            said(BookAnswer::Reservation(doc))
        };
        assert_eq!(gather(show(), agent), (BookAnswer::Reservation(whole.clone()), asked), "{parts:?}");
    }
}

#[test]
fn one_that_changes_while_its_pages_come_is_asked_for_again() {
    let (old, new) = (reservation(&[1024, 1024], 1), reservation(&[700, 900], 2));
    let mut asked = 0;
    let agent = |request| {
        let Request::BookShow { filter, .. } = request else { panic!("{request:?}") };
        asked += 1;
        let mut doc = if asked <= 2 { old.clone() } else { new.clone() };
        cut(&mut doc, filter.skip);
        said(BookAnswer::Reservation(doc))
    };
    assert_eq!(gather(show(), agent).0, BookAnswer::Reservation(new.clone()));
    // One that changes all the time has an end too.
    let mut version = 0;
    let agent = |request| {
        let Request::BookShow { filter, .. } = request else { panic!("{request:?}") };
        version += 1;
        let mut doc = reservation(&[1024, 1024], version);
        cut(&mut doc, filter.skip);
        BookAnswer::Reservation(doc)
    };
    let BookAnswer::Reservation(doc) = gather(show(), agent).0 else { panic!("a reservation") };
    assert!(doc.more, "and says that it is not whole");
}

#[test]
fn those_of_a_list_are_made_whole() {
    let all = [reservation(&[3], 1), reservation(&[600, 600], 1), reservation(&[2], 1), reservation(&[900], 1)];
    let named = |n: usize| ReservationDoc { handle: format!("h{n}"), ..all[n].clone() };
    let agent = |request| match request {
        Request::BookShow { handle: None, filter } => {
            let mut rows: Vec<ReservationDoc> = (0..all.len()).map(named).collect();
            rows.iter_mut().for_each(|row| cut(row, 0));
            // It gives two of them in a page.
            let after = filter.after.map_or(0, |last| last[1..].parse::<usize>().unwrap() + 1);
            let most = filter.limit.filter(|limit| *limit > 0).unwrap_or(2).min(2);
            let rows: Vec<_> = rows.into_iter().skip(after).take(most).collect();
            let more = after + rows.len() < all.len();
            BookAnswer::Reservations { rows, more }
        }
        Request::BookShow { handle: Some(handle), filter } => {
            let mut doc = named(handle[1..].parse().unwrap());
            cut(&mut doc, filter.skip);
            said(BookAnswer::Reservation(doc))
        }
        other => panic!("{other:?}"),
    };
    // Asked for, most: how many come, whether there are more, and how many pages that took.
    for (limit, most, more, asked) in
        [(None, 4, false, 5), (Some(0), 4, false, 5), (Some(3), 3, true, 4), (Some(2), 2, true, 3)]
    {
        let filter = BookFilter { limit, ..BookFilter::default() };
        let rows = (0..most).map(named).collect();
        let gathered = gather(Request::BookShow { handle: None, filter }, agent);
        assert_eq!(gathered, (BookAnswer::Reservations { rows, more }, asked), "{limit:?}");
    }
}

#[test]
fn resources_come_in_pages() {
    for (timelines, asked) in [
        (vec![0; 3], 1),
        (vec![1000; 1], 2),
        (vec![0; 1000], 8),
        (vec![5000, 0, 1, 700, 508, 0], 15),
        (vec![1000; 20], 40),
    ] {
        let whole = resources(&timelines);
        let end = at(*timelines.iter().max().unwrap() + 1);
        let window = WindowDoc { start: at(0), end };
        let agent = |request| {
            let Request::Resources { timeline: Some(asked), resource, after } = request else { panic!("{request:?}") };
            let mut rows = whole.clone();
            // As the book: from the window's start on, and never more than a thousand.
            for row in &mut rows {
                row.timeline.retain(|stretch| stretch.start >= asked.start);
                row.timeline.truncate(1000);
            }
            cut_resources(&mut rows, resource.as_deref(), after.as_deref());
            said(BookAnswer::Resources(rows))
        };
        let (came, pages) = gather(Request::resources(Some(window)), agent);
        assert_eq!(came, BookAnswer::Resources(whole.clone()), "{timelines:?}");
        assert!(pages <= asked, "{timelines:?}: {pages} pages");
    }
}

/// Whoever names a page gets that page.
#[test]
fn a_page_that_is_asked_for_is_one_page() {
    let filter = documents::book::BookFilter { skip: 1, ..Default::default() };
    assert!(Pages::of(&Request::BookShow { handle: Some("h".into()), filter }).is_none());
    for (resource, after) in [(Some("cpu".to_owned()), None), (None, Some("cpu".to_owned()))] {
        assert!(Pages::of(&Request::Resources { timeline: None, resource, after }).is_none());
    }
}
