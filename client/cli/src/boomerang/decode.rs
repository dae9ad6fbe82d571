//! `sluice boomerang decode`: the contents of messages, one JSON object a line, by the agent's own decoder.
//!
//! One ICMP message in hex a line, or with `--ip` one IP packet. Bytes that are no message give
//! `{"error":..,"offset":..}`: the error and its place, in bytes from the start of the input. An ICMPv6
//! checksum needs the addresses, so it is checked in packets alone.

use super::args::DecodeArgs;
use crate::complain::Complaint;
use crate::decode::json::Json;
use crate::decode::{bytes, open, unreadable, wrong};
use std::io::{BufRead, BufReader, Write};
use std::process::ExitCode;
use wire::boomerang::{BoomerangMessage, ProbePacket, describe};
use wire::describe::{FieldValue, Visitor};

/// Runs it. Lines that begin with `#` are comments.
pub fn run(args: &DecodeArgs) -> Result<ExitCode, Complaint> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in BufReader::new(open(args.file.as_deref())?).split(b'\n') {
        let line = line.map_err(|e| unreadable(args.file.as_deref(), &e))?;
        let line = String::from_utf8_lossy(&line);
        if line.starts_with('#') {
            continue;
        }
        let said = match bytes(&line) {
            Err(column) => wrong("not hexadecimal", column),
            Ok(bytes) if args.ip => packet(&bytes),
            Ok(bytes) => message(&bytes),
        };
        match writeln!(out, "{}", said.finish()) {
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            other => other?,
        }
    }
    match out.flush() {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn message(bytes: &[u8]) -> Json {
    match BoomerangMessage::parse(bytes, None) {
        Ok(message) => {
            let mut json = Json::new();
            describe(&message, &mut json);
            json
        }
        Err(fault) => wrong(fault.what, fault.offset),
    }
}

/// The contents of the message in an IP packet, with the packet's own header.
pub fn packet(bytes: &[u8]) -> Json {
    match ProbePacket::parse(bytes) {
        Ok(probe) => {
            let mut json = Json::new();
            describe(&probe.message, &mut json);
            json.record(Some("ip"));
            json.field("src", FieldValue::Address(probe.src));
            json.field("dst", FieldValue::Address(probe.dst));
            json.field("ttl", FieldValue::Number(probe.ttl.into()));
            json.end();
            json
        }
        Err(fault) => wrong(fault.what, fault.offset),
    }
}
