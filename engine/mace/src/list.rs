//! The application list (the seed's list of descriptors, section 3, "Flow Setup"): a plain text that administrators edit.
//!
//! One application a line, seven or eight words, `#` begins a comment:
//!
//! ```text
//! # name   protocol  ports        rate     bucket  packets  timeout  least packet
//! vat      udp       5004         64kbit   8kb     100      30s
//! game     udp       27960-27969  256kbit  4kb     10       10s      100b
//! ```
//!
//! Rate and bucket are IP bytes. A flow is an application's if its destination port is; else if its source port is. A list
//! with a mistake is refused as a whole, with the line of each.

use crate::units;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use terms::{Bytes, FlowKey, Rate, Span};

/// The most applications of a list.
pub const MOST_APPLICATIONS: usize = 1_024;
/// The most mistakes that are told together.
pub const MOST_MISTAKES: usize = 20;
/// The longest list, bytes.
pub const LONGEST_LIST: usize = 1 << 20;
/// The longest name, bytes.
pub const LONGEST_NAME: usize = 32;
/// A packet shorter than this counts as this long, unless the list says otherwise, IP bytes.
pub const LEAST_PACKET: u32 = 200;

const HIGHEST_RATE: Rate = Rate::from_mbps(100_000);
const LARGEST_BUCKET: Bytes = Bytes::new(16 << 20);
const MOST_PACKETS: u32 = 1_000_000;
const TIMEOUTS: (Span, Span) = (Span::from_secs(1), Span::from_secs(86_400));

/// A line of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownApplication {
    /// Its name.
    pub name: String,
    /// IP protocol: 17 (UDP) or 6 (TCP).
    pub protocol: u8,
    /// The first and the last of its ports.
    pub ports: (u16, u16),
    /// r: the rate that one flow declares, IP bytes. Its policer lets no more through in the long run.
    pub rate: Rate,
    /// b: the bucket of that policer, IP bytes.
    pub depth: Bytes,
    /// The number of packets after which a flow is recognised.
    pub threshold: u32,
    /// A promoted flow without a packet for so long is demoted.
    pub timeout: Span,
    /// A shorter packet counts as this long, IP bytes.
    pub least_packet: u32,
}

impl KnownApplication {
    /// The rate that one flow declares on a wire that adds `overhead` bytes to each packet, rounded up.
    pub fn declared(&self, overhead: u32) -> Rate {
        self.rate.with_overhead(overhead, self.least_packet)
    }
}

/// A mistake in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListMistake {
    /// The line, from 1; 0: the whole text.
    pub line: usize,
    /// A sentence for the person who wrote it.
    pub text: String,
}

impl fmt::Display for ListMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

/// The applications whose flows may be promoted. No two have a port of the same protocol.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApplicationList {
    /// In the order of the text.
    all: Vec<KnownApplication>,
    /// Protocol, first port, last port, place in `all`; ascending.
    ports: Vec<(u8, u16, u16, usize)>,
}

impl ApplicationList {
    /// Reads a list.
    ///
    /// # Errors
    /// The mistakes, in the order of their lines, at most [`MOST_MISTAKES`].
    pub fn parse(text: &str) -> Result<ApplicationList, Vec<ListMistake>> {
        if text.len() > LONGEST_LIST {
            let text = format!("an application list is at most {LONGEST_LIST} bytes long");
            return Err(Vec::from([ListMistake { line: 0, text }]));
        }
        let (mut found, mut mistakes) = (Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let words = line.split('#').next().unwrap_or("");
            match read_line(words) {
                Ok(None) => {}
                Ok(Some(application)) => found.push((number + 1, application)),
                Err(text) => mistakes.push(ListMistake { line: number + 1, text }),
            }
        }
        if found.len() > MOST_APPLICATIONS {
            let line = found[MOST_APPLICATIONS].0;
            let text = format!("a list has at most {MOST_APPLICATIONS} applications");
            mistakes.push(ListMistake { line, text });
            found.truncate(MOST_APPLICATIONS);
        }
        twice(&found, &mut mistakes);
        let ports = overlaps(&found, &mut mistakes);
        if mistakes.is_empty() {
            return Ok(ApplicationList { all: found.into_iter().map(|(_, found)| found).collect(), ports });
        }
        mistakes.sort_by_key(|mistake| mistake.line);
        mistakes.truncate(MOST_MISTAKES);
        Err(mistakes)
    }

    /// The applications, in the order of the text.
    pub fn all(&self) -> &[KnownApplication] {
        &self.all
    }

    /// The place of the application that has this port.
    pub fn at_port(&self, protocol: u8, port: u16) -> Option<usize> {
        let after = self.ports.partition_point(|&(p, first, _, _)| (p, first) <= (protocol, port));
        let &(p, _, last, place) = self.ports.get(after.checked_sub(1)?)?;
        (p == protocol && port <= last).then_some(place)
    }

    /// The place of the application that a flow belongs to: by its destination port, else by its source port. Flows of
    /// prefixes and of any sender belong to none.
    pub fn of(&self, flow: &FlowKey) -> Option<usize> {
        if flow.is_masked() || flow.is_of_any_sender() || flow.dst_port == 0 || flow.src_port == 0 {
            return None;
        }
        self.at_port(flow.protocol, flow.dst_port).or_else(|| self.at_port(flow.protocol, flow.src_port))
    }
}

fn read_line(line: &str) -> Result<Option<KnownApplication>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (&[name, protocol, ports, rate, depth, threshold, timeout], least) = (match words.as_slice() {
        [] => return Ok(None),
        [first @ .., least] if words.len() == 8 => (first, Some(*least)),
        all => (all, None),
    }) else {
        return Err(format!(
            "{} words: an application is NAME PROTOCOL PORTS RATE BUCKET PACKETS TIMEOUT [LEAST-PACKET]",
            words.len()
        ));
    };
    Ok(Some(KnownApplication {
        name: read_name(name)?,
        protocol: match protocol {
            "udp" => 17,
            "tcp" => 6,
            other => return Err(format!("{other:?} is no protocol with ports: write udp or tcp")),
        },
        ports: read_ports(ports)?,
        rate: within(units::rate(rate)?, Rate::from_bps(1), HIGHEST_RATE, "a rate of 1bit to 100gbit", rate)?,
        depth: within(units::size(depth)?, Bytes::new(1), LARGEST_BUCKET, "a bucket of 1b to 16mb", depth)?,
        threshold: within(
            threshold.parse().map_err(|_| format!("{threshold:?} is no number of packets"))?,
            1,
            MOST_PACKETS,
            "a threshold of 1 to 1000000 packets",
            threshold,
        )?,
        timeout: within(units::time(timeout)?, TIMEOUTS.0, TIMEOUTS.1, "a timeout of 1s to 24h", timeout)?,
        least_packet: match least {
            None => LEAST_PACKET,
            Some(text) => {
                let range = (Bytes::new(20), Bytes::new(65_535));
                within(units::size(text)?, range.0, range.1, "a least packet of 20b to 65535b", text)?.get() as u32
            }
        },
    }))
}

fn within<T: PartialOrd>(value: T, least: T, most: T, what: &str, said: &str) -> Result<T, String> {
    if value < least || value > most { Err(format!("{said}: only {what} makes sense")) } else { Ok(value) }
}

fn read_name(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() > LONGEST_NAME || !name.chars().all(plain) {
        return Err(format!("{name:?}: a name is at most {LONGEST_NAME} letters, digits, dots, - and _"));
    }
    Ok(name.to_string())
}

fn read_ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0_u16);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        (Some(first), Some(last)) => Err(format!("the range {first}-{last} is empty: the smaller port comes first")),
        _ => Err(format!("{text:?} is no port and no range: write 5004 or 27960-27969, from 1 to 65535")),
    }
}

fn twice(found: &[(usize, KnownApplication)], mistakes: &mut Vec<ListMistake>) {
    let mut names: Vec<(&str, usize)> = found.iter().map(|(line, found)| (found.name.as_str(), *line)).collect();
    names.sort_unstable();
    for pair in names.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let text = format!("the name {} is in line {} already", pair[1].0, pair[0].1);
        mistakes.push(ListMistake { line: pair[1].1, text });
    }
}

/// The ports in order; an overlap is a mistake of the later line.
fn overlaps(found: &[(usize, KnownApplication)], mistakes: &mut Vec<ListMistake>) -> Vec<(u8, u16, u16, usize)> {
    let entry = |(place, (_, a)): (usize, &(usize, KnownApplication))| (a.protocol, a.ports.0, a.ports.1, place);
    let mut ports: Vec<_> = found.iter().enumerate().map(entry).collect();
    ports.sort_unstable();
    // The range that reaches highest so far: a later one that begins below its end overlaps it.
    let mut widest: Option<(u8, u16, usize)> = None;
    for &(protocol, first, last, place) in &ports {
        if let Some((_, reach, other)) = widest.filter(|(of, reach, _)| *of == protocol && first <= *reach) {
            let (early, late) = (place.min(other), place.max(other));
            let (line, name) = (found[early].0, &found[early].1.name);
            let both = last.min(reach);
            let text = format!("ports {first}-{both} are those of {name} in line {line} already");
            mistakes.push(ListMistake { line: found[late].0, text });
        }
        if widest.is_none_or(|(of, reach, _)| of != protocol || last > reach) {
            widest = Some((protocol, last, place));
        }
    }
    ports
}
