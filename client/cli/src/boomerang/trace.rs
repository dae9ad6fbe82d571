//! `sluice boomerang trace`: messages that an agent handles, decoded here by the agent's own decoder.

use super::args::TraceArgs;
use crate::complain::Complaint;
use crate::decode;
use crate::watch::clock;
use documents::agent::{Direction, EventDoc, Request};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wire::boomerang::{ProbePacket, TravelDirection};
use wire::describe::{FieldValue, Visitor};

/// Prints until the count or the time is over, or the agent goes.
pub fn run(args: &TraceArgs) -> Result<ExitCode, Complaint> {
    let mut client = args.agent.connect()?;
    client.call(Request::BoomerangTrace)?;
    let end = args.patience.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
    let mut seen = 0;
    while args.count.is_none_or(|count| seen < count) {
        let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        if end.is_some() && left.is_zero() {
            break;
        }
        let Some((at_ns, event)) = client.event(left)? else { continue };
        let EventDoc::Echo { direction, interface, bytes, became } = event else { continue };
        let bytes = decode::bytes(&bytes).map_err(|_| Complaint::world("the agent's trace is not hexadecimal"))?;
        let way = if direction == Direction::In { "in" } else { "out" };
        let interface = interface.unwrap_or_default();
        seen += 1;
        if args.json {
            let mut json = super::decode::packet(&bytes);
            json.record(Some("trace"));
            json.time("time", at_ns);
            json.field("direction", FieldValue::Text(way));
            json.field("interface", FieldValue::Text(&interface));
            if let Some(became) = &became {
                json.field("became", FieldValue::Text(became));
            }
            json.end();
            println!("{}", json.finish());
            continue;
        }
        let became = became.map_or_else(String::new, |became| format!("  ({became})"));
        println!("{} {way:<3} {interface:<8} {}{became}", clock(at_ns), line(&bytes));
    }
    Ok(ExitCode::SUCCESS)
}

/// A message in a line.
fn line(bytes: &[u8]) -> String {
    let probe = match ProbePacket::parse(bytes) {
        Ok(probe) => probe,
        Err(fault) => return format!("not a message: {fault}"),
    };
    let message = &probe.message;
    let asked = message.qos.asked();
    let leg = if message.leg == TravelDirection::Request { "request" } else { "reply" };
    let nack = if message.is_nack() { " NACK" } else { "" };
    let more = if message.qos.count() > 1 { format!(" (of {})", message.qos.count()) } else { String::new() };
    let key = if message.key == 1 { String::new() } else { format!(" KEY {}", message.key) };
    format!(
        "{leg} {} > {} {:08x}{nack} {}/{}{more} every {}s{key}",
        probe.src,
        probe.dst,
        message.transaction,
        terms::Rate::from_bps(asked.forward.into()),
        terms::Rate::from_bps(asked.reverse.into()),
        message.refresh,
    )
}
