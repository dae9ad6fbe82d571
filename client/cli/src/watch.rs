//! `sluice watch`: events as they happen.

use crate::args::WatchArgs;
use crate::book::booking_client::BookingError;
use crate::book::times::Calendar;
use crate::complain::Complaint;
use crate::flows::{end, flow, traffic, wanted};
use crate::rates::rate;
use broker_service::client as broker;
use broker_service::client::{Listener, StreamItem};
use documents::agent::{Answer, BookAnswer, EventDoc, Request};
use rpc::client::Error;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The pause before a lost broker is tried again.
const AWAY: Duration = Duration::from_secs(1);

/// Streams events until the time is over or the agent is gone; waits for a broker that is gone.
pub fn run(args: &WatchArgs) -> Result<ExitCode, Complaint> {
    match args.book.broker(false)? {
        Some(client) => of_broker(&client, args),
        None => of_agent(args),
    }
}

fn of_agent(args: &WatchArgs) -> Result<ExitCode, Complaint> {
    let agent = &args.book.agent;
    let after = args.after.as_ref().map(|text| {
        text.parse().map_err(|_| Complaint::usage(format!("--after {text}: an agent's events have numbers")))
    });
    let after = after.transpose()?;
    let mut client = agent.connect()?;
    match client.call(Request::Watch) {
        // From another machine one sees what is one's own: the book's events.
        Err(Error::Agent(problem)) if agent.is_remote() && problem.kind == "refused" => {}
        said => drop(said?),
    }
    if let Answer::Book(BookAnswer::Events(found)) = client.call(Request::BookFollow { after })? {
        if found.lost {
            eprintln!(
                "sluice: events before #{} are not kept any more",
                found.events.first().map_or(0, |event| event.seq)
            );
        }
        for event in found.events {
            print_event(event.at.0.as_nanos(), &EventDoc::Book(event), args.json);
        }
    }
    let end = ends(args);
    loop {
        let patience = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        if end.is_some() && patience.is_zero() {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some((at_ns, event)) = client.event(patience)? {
            print_event(at_ns, &event, args.json);
        }
    }
}

/// The end of the watch, if it has one.
fn ends(args: &WatchArgs) -> Option<Instant> {
    args.patience.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()))
}

/// An item of a broker's stream, or the loss of the broker.
enum Told {
    Heard(String, StreamItem),
    Gone(broker::Error),
}

fn of_broker(client: &broker::BrokerClient, args: &WatchArgs) -> Result<ExitCode, Complaint> {
    let end = ends(args);
    let mut place = args.after.clone();
    // What is wrong with the first call is wrong with every other.
    let mut listener = client.listen(place.as_deref()).map_err(|error| said(error, args))?;
    loop {
        let (to, told) = channel();
        std::thread::spawn(move || tell(listener, &to));
        loop {
            let patience = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
            match told.recv_timeout(patience) {
                Ok(Told::Heard(at, heard)) => {
                    print_heard(&at, &heard, args.json);
                    place = Some(at).filter(|at| !at.is_empty()).or(place);
                }
                Ok(Told::Gone(error)) => {
                    eprintln!("sluice: {error}; going on when it is back");
                    break;
                }
                Err(_) if end.is_some_and(|end| Instant::now() >= end) => return Ok(ExitCode::SUCCESS),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        listener = loop {
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(AWAY);
            match client.listen(place.as_deref()) {
                Ok(listener) => break listener,
                // Somebody who answers and says no will say no again.
                Err(broker::Error::Said(problem)) if problem.status < 500 && problem.status != 429 => {
                    return Err(said(broker::Error::Said(problem), args));
                }
                Err(_) => {}
            }
        };
    }
}

fn said(error: broker::Error, args: &WatchArgs) -> Complaint {
    match Calendar::here(None) {
        Ok(calendar) => BookingError::from(error).complaint(&[], &calendar, args.json),
        Err(bad) => Complaint::usage(bad),
    }
}

/// Passes the stream on until it ends or the receiver is gone.
fn tell(mut listener: Listener, to: &Sender<Told>) {
    loop {
        let told = match listener.hear() {
            Ok(Some(heard)) => Told::Heard(listener.place().to_owned(), heard),
            Ok(None) => continue,
            Err(error) => Told::Gone(error),
        };
        let over = matches!(told, Told::Gone(_));
        if to.send(told).is_err() || over {
            return;
        }
    }
}

fn print_heard(place: &str, heard: &StreamItem, json: bool) {
    match heard {
        StreamItem::Begins => {}
        StreamItem::Lost { agent } => {
            eprintln!("sluice: events of {agent} are not kept any more, and are missing here")
        }
        StreamItem::Event(event) => {
            let at_ns = event.event.at.0.as_nanos();
            if json {
                let mut doc = serde_json::json!({ "at_ns": at_ns, "id": place, "event": event });
                doc["event"]["type"] = "book".into();
                println!("{doc}");
            } else {
                println!("{}.{:03}  {}", clock(at_ns), at_ns / 1_000_000 % 1000, crate::book::show::event_of(event));
            }
        }
    }
}

/// One event, for people or for programs.
pub fn print_event(at_ns: u64, event: &EventDoc, json: bool) {
    if json {
        println!("{}", serde_json::json!({ "at_ns": at_ns, "event": event }));
        return;
    }
    println!("{}.{:03}  {}", clock(at_ns), at_ns / 1_000_000 % 1000, describe(event));
}

/// Hours, minutes, seconds, UTC.
pub fn clock(at_ns: u64) -> String {
    let day = at_ns / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60)
}

/// An event in one line.
pub fn describe(event: &EventDoc) -> String {
    match event {
        EventDoc::Path { session, sender, tspec, path_bps, path_mtu, guaranteed, .. } => {
            let mut text = format!("path      {} {}", flow(session, sender), traffic(tspec));
            if let Some(bps) = path_bps {
                text += &format!(", the path has {}", rate(*bps));
            }
            if let Some(mtu) = path_mtu {
                text += &format!(", MTU {mtu}");
            }
            text += if *guaranteed { ", guaranteed service offered" } else { "" };
            text
        }
        EventDoc::PathGone { session, sender } => format!("path gone {}", flow(session, sender)),
        EventDoc::Resv { session, sender, flowspec, .. } => {
            format!("reserved  {} {}", flow(session, sender), wanted(flowspec))
        }
        EventDoc::ResvGone { session, sender } => format!("released  {}", flow(session, sender)),
        EventDoc::Confirm { session, sender, flowspec, node } => {
            format!("confirmed {} {} (by {node})", flow(session, sender), wanted(flowspec))
        }
        EventDoc::Error {
            session, sender, answers, node, code, value, meaning, text, in_place, not_guilty, ..
        } => {
            let who = sender.as_ref().map_or_else(|| end(session.dst, session.dst_port.into()), |s| flow(session, s));
            let words = text.as_ref().map_or(String::new(), |t| format!(": {t}"));
            let other = if *not_guilty { "; the request of another receiver failed" } else { "" };
            let kept = if *in_place { "; the older reservation stays" } else { "" };
            format!("{answers} error {who} {meaning} (code {code}, value {value}) at {node}{words}{kept}{other}")
        }
        EventDoc::Message { src, dst, .. } => format!("message   {src} > {dst}"),
        EventDoc::Boomerang { number, news } => format!("boomerang {number}: {}", crate::boomerang::words(news)),
        EventDoc::Echo { direction, interface, .. } => format!("echo      {direction:?} {interface:?}"),
        EventDoc::Book(event) => crate::book::show::event(event),
        EventDoc::Node { name, text } => format!("{name:<9} {text}"),
    }
}
