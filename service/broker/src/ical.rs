//! Reservations as a calendar file (iCalendar, RFC 5545), which calendar programs read: `GET /v1/calendar.ics`, and
//! `sluice calendar --ics`.
//!
//! Each window of each part is one event. Its UID is made of the reservation, the part and the window, so that a program
//! that reads the file again changes its events and makes no new ones.

use crate::broker::Broker;
use crate::caller::ConnectionPeer;
use crate::listing;
use crate::problem::BoxedProblem;
use crate::query::Query;
use axum::extract::{Extension, RawQuery, State};
use axum::http::header;
use axum::response::IntoResponse;
use documents::book::{Instant, PartRow};
use std::fmt::Write as _;
use std::sync::Arc;

/// The most reservations in one file.
const MOST: usize = 5_000;
/// The longest line, octets without its end (RFC 5545, section 3.1).
const LINE: usize = 75;

/// One reservation, as the calendar file describes it.
#[derive(Clone, Debug)]
pub struct CalendarEntry<'a> {
    /// Its name, unlike all others.
    pub id: &'a str,
    /// Its owner.
    pub owner: &'a str,
    /// Its label; empty: none.
    pub label: &'a str,
    /// Its state.
    pub state: &'a str,
    /// Its parts, each with its resource.
    pub parts: Vec<&'a PartRow>,
}

/// A calendar file of this name. `only`: only parts of these resources; none: of all.
pub fn calendar(name: &str, entries: &[CalendarEntry<'_>], only: &[String], now: Instant) -> String {
    let mut text = String::new();
    let mut line = |field: &str, value: &str| fold(&mut text, &format!("{field}:{value}"));
    line("BEGIN", "VCALENDAR");
    line("VERSION", "2.0");
    line("PRODID", "-//Sluice//Reservations//EN");
    line("X-WR-CALNAME", &escaped(name));
    for entry in entries {
        let wanted = |part: &&PartRow| only.is_empty() || only.contains(&part.resource);
        for (number, part) in entry.parts.iter().enumerate().filter(|(_, part)| wanted(part)) {
            for (window, step) in part.steps.iter().enumerate() {
                let amount = amount(&part.unit, step.amount);
                let title = if entry.label.is_empty() { entry.owner } else { entry.label };
                let until = if step.end.is_none() { ", without an end" } else { "" };
                line("BEGIN", "VEVENT");
                line("UID", &escaped(&format!("{}-{number}-{window}@sluice", entry.id)));
                line("DTSTAMP", &utc(now));
                line("DTSTART", &utc(step.start));
                if let Some(end) = step.end {
                    line("DTEND", &utc(end));
                }
                line("SUMMARY", &escaped(&format!("{title}: {amount} of {}{until}", part.resource)));
                let about = format!("{} of {}, {}\nreservation {}", amount, part.resource, entry.state, entry.id);
                line("DESCRIPTION", &escaped(&format!("{about}\nowner {}", entry.owner)));
                line("LOCATION", &escaped(&part.resource));
                // It takes a resource, not the time of a person.
                line("TRANSP", "TRANSPARENT");
                line("END", "VEVENT");
            }
        }
    }
    line("END", "VCALENDAR");
    text
}

/// An amount for people.
fn amount(unit: &str, value: f64) -> String {
    match unit {
        "bit/s" if value >= 1e6 => format!("{:.2} Mbit/s", value / 1e6),
        "bit/s" => format!("{:.1} kbit/s", value / 1e3),
        "bytes/s" => format!("{:.2} MB/s", value / 1e6),
        unit => format!("{value} {unit}"),
    }
}

/// A time in UTC, to the second (RFC 5545, section 3.3.5, form 2).
fn utc(at: Instant) -> String {
    let nanos = i128::from(at.0.as_nanos());
    jiff::Timestamp::from_nanosecond(nanos).map(|at| at.strftime("%Y%m%dT%H%M%SZ").to_string()).unwrap_or_default()
}

/// Text as a value (RFC 5545, section 3.3.11); other control characters are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | ';' | ',' => escaped.extend(['\\', letter]),
            '\n' => escaped.push_str("\\n"),
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Adds a line, broken where it is too long; no character is cut apart.
fn fold(text: &mut String, line: &str) {
    let mut room = LINE;
    for letter in line.chars() {
        if letter.len_utf8() > room {
            text.push_str("\r\n ");
            room = LINE - 1;
        }
        let _ = text.write_char(letter); // writing to a string does not fail
        room -= letter.len_utf8();
    }
    text.push_str("\r\n");
}

/// The caller's reservations as a calendar file; for an operator or auditor, all. Of one resource, or of all.
#[utoipa::path(get, path = "/v1/calendar.ics", params(
    ("resource" = Option<String>, Query, description = "Only parts of this resource, AGENT/RESOURCE"),
), responses((status = 200, body = String, content_type = "text/calendar"), (status = "default", body = crate::problem::Problem, content_type = "application/problem+json")))]
pub(crate) async fn feed(
    State(broker): State<Arc<Broker>>,
    Extension(peer): Extension<ConnectionPeer>,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, BoxedProblem> {
    let caller = peer.caller()?;
    let query = Query::read(query, &["resource"])?;
    let (names, resource) = (broker.names(), query.text("resource"));
    let place = resource.as_ref().map(|resource| crate::plan::place(&names, resource)).transpose()?;
    let place = place.map(|(number, resource)| (number, resource.to_owned()));
    let found = listing::all(&broker, &caller, place, MOST).await?;
    let entries: Vec<CalendarEntry<'_>> = found
        .iter()
        .map(|one| CalendarEntry {
            id: &one.id,
            owner: &one.owner,
            label: &one.label,
            state: &one.state,
            parts: one.parts.iter().map(|part| &part.row).collect(),
        })
        .collect();
    let name = resource.clone().unwrap_or_else(|| format!("Reservations of {}", broker.transactions.name()));
    let only: Vec<String> = resource.into_iter().collect();
    let text = calendar(&name, &entries, &only, Instant(broker.clock.today()));
    Ok(([(header::CONTENT_TYPE, "text/calendar; charset=utf-8")], text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::book::StepDoc;
    use terms::Time;

    fn at(seconds: u64) -> Instant {
        Instant(Time::from_nanos(seconds * 1_000_000_000))
    }

    fn part(resource: &str, steps: &[(u64, Option<u64>)]) -> PartRow {
        let steps: Vec<StepDoc> =
            steps.iter().map(|&(start, end)| StepDoc { start: at(start), end: end.map(at), amount: 3e6 }).collect();
        let doc = serde_json::json!({ "resource": resource, "unit": "bit/s", "kind": "reserved", "steps": steps,
            "packet_bytes": 1500, "rtt_ms": 1.0, "binding": null, "now": 0.0, "enforced": "idle" });
        serde_json::from_value(doc).unwrap()
    }

    fn unfolded(text: &str) -> Vec<String> {
        text.replace("\r\n ", "").split("\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn windows_become_events_and_words_stay_words() {
        let (net, cpu) =
            (part("maui/net/eth1", &[(86_400, Some(90_000)), (172_800, None)]), part("maui/cpu", &[(0, Some(1))]));
        let label = "a;b,c\\d\nEND:VCALENDAR\u{7} \u{1f30b} and a label that is much longer than a line may be";
        let entry = CalendarEntry { id: "x1", owner: "alice", label, state: "booked", parts: vec![&net, &cpu] };
        let text = calendar("net", &[entry], &["maui/net/eth1".to_owned()], at(1));
        assert!(text.split("\r\n").all(|line| line.len() <= LINE && !line.contains(char::is_control)), "{text}");
        let lines = unfolded(&text);
        let of = |field: &str| lines.iter().filter(|line| line.starts_with(field)).cloned().collect::<Vec<_>>();
        assert_eq!(of("BEGIN:VEVENT").len(), 2, "{text}");
        assert_eq!(of("END:VCALENDAR").len(), 1, "{text}");
        assert_eq!(of("DTSTART"), ["DTSTART:19700102T000000Z", "DTSTART:19700103T000000Z"]);
        assert_eq!(of("DTEND"), ["DTEND:19700102T010000Z"]);
        assert_eq!(of("UID"), ["UID:x1-0-0@sluice", "UID:x1-0-1@sluice"]);
        assert!(of("SUMMARY")[0].contains("a\\;b\\,c\\\\d\\nEND:VCALENDAR \u{1f30b}"), "{:?}", of("SUMMARY"));
    }
}
