//! Values in a tree file as people write them: rates, sizes, times, code points, prefixes, ports, protocols.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::IpAddr;
use terms::{Bytes, Dscp, Rate, ServiceCurve, Span};
use traffic::meter::{AfClass, Color, EF};

/// A value that is written as a string. A mistake in it is reported with its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word<T>(pub(crate) T);

impl<'de, T: Written> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Word<T>, D::Error> {
        let text = String::deserialize(from)?;
        T::read(&text).map(Word).map_err(D::Error::custom)
    }
}

/// A value that can be read from a word.
pub(crate) trait Written: Sized {
    fn read(text: &str) -> Result<Self, String>;
}

impl Written for Rate {
    fn read(text: &str) -> Result<Rate, String> {
        documents::units::parse_rate(text)
    }
}

impl Written for Bytes {
    fn read(text: &str) -> Result<Bytes, String> {
        documents::units::parse_bytes(text)
    }
}

impl Written for Span {
    fn read(text: &str) -> Result<Span, String> {
        documents::units::parse_span(text)
    }
}

impl Written for Dscp {
    /// `ef`, `be`, `af11`, `cs3`, or a number.
    fn read(text: &str) -> Result<Dscp, String> {
        let wrong = || format!("{text:?} is no code point: write ef, be, af11 to af43, cs0 to cs7 or 0 to 63");
        let digit = |at: usize, most: u8| {
            let digit = text.as_bytes().get(at)?.checked_sub(b'0')?;
            Some(digit).filter(|d| *d <= most)
        };
        match text {
            "ef" => Ok(EF),
            "be" => Ok(Dscp(0)),
            _ if text.starts_with("cs") && text.len() == 3 => digit(2, 7).map(|n| Dscp(n * 8)).ok_or_else(wrong),
            _ if text.starts_with("af") && text.len() == 4 => {
                let class = digit(2, 4).and_then(AfClass::new).ok_or_else(wrong)?;
                let color = match digit(3, 3).ok_or_else(wrong)? {
                    1 => Color::Green,
                    2 => Color::Yellow,
                    3 => Color::Red,
                    _ => return Err(wrong()),
                };
                Ok(class.dscp(color))
            }
            _ => text.parse().ok().filter(|n| *n <= 63).map(Dscp).ok_or_else(wrong),
        }
    }
}

/// `10.0.0.0/8`, `2001:db8::1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prefix(pub(crate) IpAddr, pub(crate) u8);

impl Written for Prefix {
    fn read(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("{text:?} is no prefix: write 10.0.0.0/8, 10.0.0.1 or 2001:db8::/32");
        let (net, length) = text.split_once('/').map_or((text, None), |(net, length)| (net, Some(length)));
        let net: IpAddr = net.parse().map_err(|_| wrong())?;
        let whole = if net.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Some(whole), |l| l.parse().ok()).filter(|l| *l <= whole).ok_or_else(wrong)?;
        Ok(Prefix(net, length))
    }
}

/// `5004`, `5000-5999`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ports(pub(crate) u16, pub(crate) u16);

impl Written for Ports {
    fn read(text: &str) -> Result<Ports, String> {
        let wrong = || format!("{text:?} is no port or range: write 5004 or 5000-5999");
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to) = (from.trim().parse().map_err(|_| wrong())?, to.trim().parse().map_err(|_| wrong())?);
        if from <= to { Ok(Ports(from, to)) } else { Err(wrong()) }
    }
}

/// `udp`, `tcp`, `icmp`, or a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Protocol(pub(crate) u8);

impl Written for Protocol {
    fn read(text: &str) -> Result<Protocol, String> {
        Ok(Protocol(match text {
            "icmp" => 1,
            "tcp" => 6,
            "udp" => 17,
            "icmpv6" => 58,
            "sctp" => 132,
            _ => text
                .parse()
                .map_err(|_| format!("{text:?} is no protocol: tcp, udp, icmp, icmpv6, sctp or a number"))?,
        }))
    }
}

/// `3mbit`, or two slopes as `6mbit 10ms 3mbit`.
impl Written for ServiceCurve {
    fn read(text: &str) -> Result<ServiceCurve, String> {
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            [rate] => Ok(ServiceCurve::linear(Rate::read(rate)?)),
            [m1, d, m2] => Ok(ServiceCurve { m1: Rate::read(m1)?, d: Span::read(d)?, m2: Rate::read(m2)? }),
            _ => Err(format!("{text:?} is no service curve: write 3mbit, or m1 d m2 as 6mbit 10ms 3mbit")),
        }
    }
}
