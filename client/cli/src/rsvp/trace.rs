//! `sluice rsvp trace`: the messages of an agent as they come and go; decoded here, by the agent's own decoder.

use super::args::TraceArgs;
use crate::complain::Complaint;
use crate::decode;
use crate::watch::clock;
use ::experiments::capture::write::Writer;
use documents::agent::{Direction, EventDoc, Request, TraceFilter};
use std::io::Write;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wire::Message;
use wire::describe::{FieldValue, Visitor};
use wire::iana::IPPROTO_RSVP;

/// Raw IP, either version (LINKTYPE_RAW).
const LINKTYPE_RAW: u32 = 101;

/// A message as the agent showed it.
struct Shown {
    at_ns: u64,
    direction: Direction,
    interface: String,
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    router_alert: Option<bool>,
    bytes: Vec<u8>,
    lost: u64,
}

/// Prints, or writes a capture, until the count or the time is over, or the agent is gone.
pub fn run(args: &TraceArgs) -> Result<ExitCode, Complaint> {
    let mut client = args.agent.connect()?;
    let direction = match (args.incoming, args.out) {
        (true, _) => Some(Direction::In),
        (_, true) => Some(Direction::Out),
        _ => None,
    };
    let filter =
        TraceFilter { interface: args.interface.clone(), address: args.address, direction, types: args.types.clone() };
    client.call(Request::Trace { filter })?;
    let mut capture = args.pcap.as_deref().map(Pcap::create).transpose()?; // whoever sees the file knows: it has begun
    let end = args.patience.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
    let (mut seen, mut lost) = (0u64, 0u64);
    while args.count.is_none_or(|count| seen < count) {
        let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        if end.is_some() && left.is_zero() {
            break;
        }
        let Some((at_ns, event)) = client.event(left)? else { continue };
        let Some(message) = shown(at_ns, event)? else { continue };
        seen += 1;
        lost += message.lost;
        match &mut capture {
            Some(capture) => capture.write(&message)?,
            None if args.json => println!("{}", json(&message)),
            None => {
                if message.lost > 0 {
                    println!("... {} messages left out, because they were too many", message.lost);
                }
                println!("{}", line(&message));
            }
        }
    }
    if capture.is_some() {
        eprintln!("{seen} messages written, {lost} left out");
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(at_ns: u64, event: EventDoc) -> Result<Option<Shown>, Complaint> {
    let EventDoc::Message { direction, interface, src, dst, ttl, router_alert, bytes, lost } = event else {
        return Ok(None);
    };
    let bytes = decode::bytes(&bytes).map_err(|_| Complaint::world("the agent's trace is not hexadecimal"))?;
    let interface = interface.unwrap_or_else(|| "(by route)".to_owned());
    Ok(Some(Shown { at_ns, direction, interface, src, dst, ttl, router_alert, bytes, lost }))
}

/// A capture file, each message written at once.
struct Pcap {
    file: Box<dyn Write>,
    writer: Writer,
}

impl Pcap {
    fn create(path: &std::path::Path) -> Result<Pcap, Complaint> {
        let wrong = |e| Complaint::world(format!("cannot write {}: {e}", path.display()));
        let mut file: Box<dyn Write> = match path.to_str() {
            Some("-") => Box::new(std::io::stdout()),
            _ => Box::new(std::fs::File::create(path).map_err(wrong)?),
        };
        let mut writer = Writer::new(LINKTYPE_RAW);
        file.write_all(&writer.take()).and_then(|()| file.flush()).map_err(wrong)?;
        Ok(Pcap { file, writer })
    }

    fn write(&mut self, message: &Shown) -> Result<(), Complaint> {
        // What came is put in a packet again; whether it had Router Alert is known where the agent could tell.
        let Shown { src, dst, ttl, ref bytes, .. } = *message;
        let alert = message.router_alert.unwrap_or(false);
        let packet = wire::ip::packet(src, dst, IPPROTO_RSVP, ttl, alert, bytes)
            .map_err(|_| Complaint::world("a message is too long for a packet"))?;
        self.writer.frame(message.at_ns, &packet).map_err(|_| Complaint::world("a time that no capture can hold"))?;
        self.file.write_all(&self.writer.take()).and_then(|()| self.file.flush())?;
        Ok(())
    }
}

/// All fields of a message and its direction, as one JSON object.
fn json(message: &Shown) -> String {
    let mut json = decode::said(&message.bytes, 0);
    let direction = if message.direction == Direction::In { "in" } else { "out" };
    json.record(Some("trace"));
    json.time("time", message.at_ns);
    json.field("direction", FieldValue::Text(direction));
    json.field("interface", FieldValue::Text(&message.interface));
    json.field("src", FieldValue::Address(message.src));
    json.field("dst", FieldValue::Address(message.dst));
    json.field("ttl", FieldValue::Number(u64::from(message.ttl)));
    if let Some(alert) = message.router_alert {
        json.field("router_alert", FieldValue::Flag(alert));
    }
    json.field("lost", FieldValue::Number(message.lost));
    json.end();
    json.finish()
}

/// One line for people.
fn line(message: &Shown) -> String {
    let Shown { at_ns, src, dst, ttl, ref interface, ref bytes, .. } = *message;
    let arrow = if message.direction == Direction::In { "<-" } else { "->" };
    let alert = if message.router_alert == Some(true) { " RA" } else { "" };
    let head = format!(
        "{}.{:06} {arrow} {interface:<12} {src} > {dst} ttl {ttl}{alert}",
        clock(at_ns),
        at_ns / 1000 % 1_000_000
    );
    match Message::parse(bytes) {
        Ok(parsed) => {
            let mut words = Words::default();
            wire::describe(&parsed, &mut words);
            format!("{head}  {}", words.text())
        }
        Err(wrong) => format!("{head}  not understood: {} (at byte {})", wrong.what, wrong.offset),
    }
}

/// A message in words: its type, then the objects that a person looks for, each by its main fields.
#[derive(Default)]
struct Words {
    kind: String,
    class: String,
    parts: Vec<String>,
    signed: Option<String>,
}

impl Words {
    fn text(&self) -> String {
        let signed = self.signed.as_ref().map_or_else(|| "not signed".to_owned(), |key| format!("signed, key {key}"));
        format!("{}  {}  [{signed}]", self.kind, self.parts.join(" "))
    }
}

impl Visitor for Words {
    fn field(&mut self, name: &'static str, value: FieldValue<'_>) {
        let text = match value {
            FieldValue::Number(n) => n.to_string(),
            FieldValue::Float(f) => f.to_string(),
            FieldValue::Address(a) => a.to_string(),
            FieldValue::Text(t) => t.to_owned(),
            FieldValue::Flag(f) => f.to_string(),
            FieldValue::Bytes(b) => b.iter().map(|b| format!("{b:02x}")).collect(),
        };
        match (name, self.class.as_str()) {
            ("type", "") => self.kind = text,
            ("class", _) => self.class = text,
            ("Key_Identifier", "INTEGRITY") => self.signed = Some(text),
            ("DestAddress", "SESSION") => self.parts.push(format!("to {text}")),
            ("Protocol_Id", "SESSION") => self.parts.push(format!("protocol {text}")),
            ("DstPort", "SESSION") => self.parts.push(format!("port {text}")),
            ("SrcAddress", "SENDER_TEMPLATE" | "FILTER_SPEC") => self.parts.push(format!("from {text}")),
            ("SrcPort", "SENDER_TEMPLATE" | "FILTER_SPEC") => self.parts.push(format!("port {text}")),
            ("Hop_Address", "RSVP_HOP") => self.parts.push(format!("hop {text}")),
            ("Refresh_Period", _) => self.parts.push(format!("R {text}ms")),
            ("style", "STYLE") => self.parts.push(text),
            ("service", "FLOWSPEC") => self.parts.push(text),
            ("r", "SENDER_TSPEC" | "FLOWSPEC") => self.parts.push(format!("r {text}B/s")),
            ("b", "SENDER_TSPEC" | "FLOWSPEC") => self.parts.push(format!("b {text}B")),
            ("R", "FLOWSPEC") => self.parts.push(format!("R {text}B/s")),
            ("Error_Code", "ERROR_SPEC") => self.parts.push(format!("error {text}")),
            ("Error_Value", "ERROR_SPEC") => self.parts.push(format!("value {text}")),
            ("Error_Node_Address", "ERROR_SPEC") => self.parts.push(format!("at {text}")),
            ("Receiver_Address", "RESV_CONFIRM") => self.parts.push(format!("confirm to {text}")),
            _ => {}
        }
    }
    fn item(&mut self, _: FieldValue<'_>) {}
    fn list(&mut self, _: &'static str) {}
    fn record(&mut self, _: Option<&'static str>) {}
    fn end(&mut self) {}
}
