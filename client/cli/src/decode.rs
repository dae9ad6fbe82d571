//! `sluice rsvp decode`: the contents of RSVP messages, one JSON object a line, by the agent's own decoder.
//!
//! A refused message gives `{"error":..,"offset":..}`: the error and its place, in bytes from the start of
//! the input (the message; the IP packet with `--ip` and `--pcap`). If RFC 2205 asks for a PathErr or ResvErr
//! in return, `answer` has its code and value, and `objects` what was asked for.

pub mod json;

use crate::complain::Complaint;
use crate::rsvp::args::DecodeArgs;
use ::experiments::capture::{CaptureFile, CapturedPacket, frame};
use agent_service::keys::{self, KeyTable, verdict_name};
use json::Json;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use wire::Message;
use wire::describe::{FieldValue, Visitor};
use wire::iana::IPPROTO_RSVP;
use wire::ip::Packet;

/// Runs it.
pub fn run(args: &DecodeArgs) -> Result<ExitCode, Complaint> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let keys = args.keys.as_deref().map(keys::load).transpose().map_err(|wrong| Complaint::usage(wrong.to_string()))?;
    let done = match &args.pcap {
        Some(file) => pcap(file, keys.as_ref(), &mut out)?,
        None => hex(args, keys.as_ref(), &mut out)?,
    };
    match done.and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// One line of hex after the other. Lines that begin with `#` are comments.
fn hex(args: &DecodeArgs, keys: Option<&KeyTable>, out: &mut impl Write) -> Result<std::io::Result<()>, Complaint> {
    for line in BufReader::new(open(args.file.as_deref())?).split(b'\n') {
        let line = line.map_err(|e| unreadable(args.file.as_deref(), &e))?;
        let line = String::from_utf8_lossy(&line);
        if line.starts_with('#') {
            continue;
        }
        let said = match bytes(&line) {
            Err(column) => error("not hexadecimal", column),
            Ok(bytes) if args.ip => packet(&bytes, keys, None),
            Ok(bytes) => signed(&bytes, said(&bytes, 0), keys).finish(),
        };
        if let Err(e) = writeln!(out, "{said}") {
            return Ok(Err(e));
        }
    }
    Ok(Ok(()))
}

/// The RSVP packets of a capture; everything else in it is passed over.
fn pcap(file: &Path, keys: Option<&KeyTable>, out: &mut impl Write) -> Result<std::io::Result<()>, Complaint> {
    let mut bytes = Vec::new();
    open(Some(file))?.read_to_end(&mut bytes).map_err(|e| unreadable(Some(file), &e))?;
    let capture = CaptureFile::new(&bytes)
        .map_err(|what| Complaint::world(format!("{}: {what}: give a pcap or pcapng file", file.display())))?;
    for record in capture {
        let said = match record {
            Err(cut) => error(cut.what, cut.offset),
            Ok(record) => match frame::ip_packet(record.link, record.bytes).filter(|p| may_be_rsvp(p)) {
                Some(bytes) => packet(bytes, keys, Some(&record)),
                None => continue,
            },
        };
        if let Err(e) = writeln!(out, "{said}") {
            return Ok(Err(e));
        }
    }
    Ok(Ok(()))
}

pub fn open(file: Option<&Path>) -> Result<Box<dyn Read>, Complaint> {
    match file {
        Some(path) if path != Path::new("-") => match std::fs::File::open(path) {
            Ok(file) => Ok(Box::new(file)),
            Err(e) => Err(unreadable(Some(path), &e)),
        },
        _ => Ok(Box::new(std::io::stdin())),
    }
}

pub fn unreadable(file: Option<&Path>, e: &std::io::Error) -> Complaint {
    let name = file.map_or("standard input".into(), |f| f.display().to_string());
    Complaint::world(format!("cannot read {name}: {e}"))
}

/// Hex digits in pairs; blanks and colons between them are allowed, and `0x` in front. `Err`: the column.
pub fn bytes(line: &str) -> Result<Vec<u8>, usize> {
    let text = line.trim_end();
    let start = text.len() - text.trim_start().len();
    let start = start + if text[start..].starts_with("0x") { 2 } else { 0 };
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut half = None;
    for (column, c) in text.char_indices().skip_while(|(i, _)| *i < start) {
        match (c.to_digit(16), half) {
            (Some(low), Some(high)) => {
                bytes.push((high << 4 | low) as u8);
                half = None;
            }
            (Some(high), None) => half = Some(high),
            (None, None) if c.is_whitespace() || c == ':' => {}
            _ => return Err(column),
        }
    }
    if half.is_some() { Err(text.len()) } else { Ok(bytes) }
}

/// Adds what the keys say of a message's INTEGRITY; of a Bundle, of each of its messages.
fn signed(bytes: &[u8], mut json: Json, keys: Option<&KeyTable>) -> Json {
    let Some(keys) = keys else { return json };
    let name = |bytes: &[u8]| keys.verdict(bytes).map_or("unreadable", verdict_name);
    match Message::parse(bytes) {
        Ok(Message::Bundle(bundle)) => {
            json.list("integrity");
            bundle.messages().for_each(|message| json.item(FieldValue::Text(name(message))));
            json.end();
        }
        _ => json.field("integrity", FieldValue::Text(name(bytes))),
    }
    json
}

/// The contents of a message that begins at offset `base` of the input, or its first error.
pub fn said(bytes: &[u8], base: usize) -> Json {
    let fault = match Message::parse(bytes) {
        Ok(message) => {
            let mut json = Json::new();
            wire::describe(&message, &mut json);
            return json;
        }
        Err(fault) => fault,
    };
    let mut json = wrong(fault.what, base + fault.offset);
    if let Some(answer) = fault.answer {
        json.record(Some("answer"));
        json.field("Error_Code", FieldValue::Number(u64::from(answer.code)));
        json.field("Error_Value", FieldValue::Number(u64::from(answer.value)));
        json.field("meaning", FieldValue::Text(wire::iana::error::name(answer.code)));
        json.end();
        // It is whole, and only asks for what nobody here has: a reader wants to see what that is.
        wire::describe::describe_refused(bytes, &mut json);
    }
    json
}

/// True if an IP packet may carry RSVP: whole packets of other protocols do not.
fn may_be_rsvp(bytes: &[u8]) -> bool {
    match Packet::parse(bytes) {
        Ok(packet) => packet.protocol() == IPPROTO_RSVP,
        Err(_) => match bytes.first().map(|b| b >> 4) {
            Some(4) => bytes.get(9) == Some(&IPPROTO_RSVP),
            Some(6) => bytes.get(6) == Some(&IPPROTO_RSVP),
            _ => false,
        },
    }
}

/// The contents of the message in an IP packet, with the packet's own header and its place in the capture.
fn packet(bytes: &[u8], keys: Option<&KeyTable>, record: Option<&CapturedPacket<'_>>) -> String {
    let mut json = match Packet::parse(bytes) {
        Ok(packet) => {
            let mut json = inside(bytes, &packet, keys);
            json.record(Some("ip"));
            json.field("src", FieldValue::Address(packet.src()));
            json.field("dst", FieldValue::Address(packet.dst()));
            json.field("ttl", FieldValue::Number(u64::from(packet.ttl())));
            json.field("router_alert", FieldValue::Flag(packet.router_alert().is_some()));
            json.end();
            json
        }
        Err(fault) => wrong(fault.what, fault.offset),
    };
    if let Some(record) = record {
        json.field("packet", FieldValue::Number(record.number));
        json.time("time", record.nanos);
    }
    json.finish()
}

fn inside(bytes: &[u8], packet: &Packet<'_>, keys: Option<&KeyTable>) -> Json {
    let v4 = packet.src().is_ipv4();
    if packet.protocol() != IPPROTO_RSVP {
        return wrong(&format!("not RSVP: IP protocol {}", packet.protocol()), if v4 { 9 } else { 6 });
    }
    if packet.is_fragment() {
        return wrong("a fragment of an IP packet", if v4 { 6 } else { 40 });
    }
    let payload = packet.payload();
    signed(payload, said(payload, payload.as_ptr() as usize - bytes.as_ptr() as usize), keys)
}

fn error(what: &str, offset: usize) -> String {
    wrong(what, offset).finish()
}

pub fn wrong(what: &str, offset: usize) -> Json {
    let mut json = Json::new();
    json.field("error", FieldValue::Text(what));
    json.field("offset", FieldValue::Number(offset as u64));
    json
}
