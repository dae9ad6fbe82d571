//! Units as people write them (the table is in docs/units.md). Rates: `bit` is bits/s, `bps` is bytes/s, k = 1,000.
//! Sizes of buckets, queues and packets are as `tc` has them: `b` is bytes, k = 1,024. Volumes to move are as disks and
//! programs that copy have them: kb = 1,000. `kib`, `mib`, `gib` are 1,024 and its powers in both. Times end in `ns`,
//! `us`, `ms`, `s`, `m`, `h` or `d`.

use terms::{Bytes, Rate, Span};

/// A mistake in a unit: a sentence for the person who wrote it.
pub type BadUnit = String;

/// Parses a rate: `10mbit`, `64kbit`, `1.5gbit`, `125kbps`.
pub fn parse_rate(text: &str) -> Result<Rate, BadUnit> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit {
        "bit" => 1,
        "kbit" => 1_000,
        "mbit" => 1_000_000,
        "gbit" => 1_000_000_000,
        "tbit" => 1_000_000_000_000,
        "bps" => 8,
        "kbps" => 8_000,
        "mbps" => 8_000_000,
        "gbps" => 8_000_000_000,
        "" => return Err(format!("{text:?} has no unit: write a rate as 10mbit, 64kbit or 1gbit")),
        other => {
            return Err(format!(
                "{other:?} is no unit of rate: use bit, kbit, mbit, gbit, tbit (bits/s) or bps, kbps, mbps, gbps (bytes/s)"
            ));
        }
    };
    Ok(Rate::from_bps(scale(text, number, factor)?))
}

/// Parses a size of a bucket, a queue or a packet: `8kb`, `1500b`, `2mb`.
pub fn parse_bytes(text: &str) -> Result<Bytes, BadUnit> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit {
        "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        "" => return Err(format!("{text:?} has no unit: write a size as 1500b, 8kb or 2mb")),
        other => binary(other)
            .ok_or_else(|| format!("{other:?} is no unit of size: use b, kb, mb, gb (k = 1,024), or kib, mib, gib"))?,
    };
    Ok(Bytes::new(scale(text, number, factor)?))
}

/// Parses a volume to move: `200gb` (k = 1,000), `200gib`.
///
/// # Errors
/// The mistake.
pub fn parse_volume(text: &str) -> Result<Bytes, BadUnit> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit {
        "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "tib" => 1 << 40,
        "" => return Err(format!("{text:?} has no unit: write a volume as 500mb, 200gb or 1tib")),
        other => binary(other).ok_or_else(|| {
            format!("{other:?} is no unit of a volume: use b, kb, mb, gb, tb (k = 1,000), or kib, mib, gib, tib")
        })?,
    };
    Ok(Bytes::new(scale(text, number, factor)?))
}

fn binary(unit: &str) -> Option<u64> {
    [("kib", 1 << 10), ("mib", 1 << 20), ("gib", 1 << 30)].into_iter().find(|(name, _)| *name == unit).map(|one| one.1)
}

/// Parses a span: `20ms`, `1s`, `30s`, `1h`.
pub fn parse_span(text: &str) -> Result<Span, BadUnit> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        "" => return Err(format!("{text:?} has no unit: write a time as 20ms, 1s or 2h")),
        other => return Err(format!("{other:?} is no unit of time: use ns, us, ms, s, m, h, d")),
    };
    Ok(Span::from_nanos(scale(text, number, factor)?))
}

/// Parses `udp`, `tcp`, or a number; 0 and numbers above 255 are refused.
pub fn parse_protocol(text: &str) -> Result<u8, BadUnit> {
    match text {
        "udp" => Ok(17),
        "tcp" => Ok(6),
        number => match number.parse() {
            Ok(0) | Err(_) => Err(format!("{text:?} is no IP protocol: write udp, tcp, or a number from 1 to 255")),
            Ok(protocol) => Ok(protocol),
        },
    }
}

/// The default depth of a token bucket: a quarter of a second at the rate, at least 8 KiB.
pub fn usual_burst(rate: Rate) -> Bytes {
    rate.demands(Span::from_millis(250)).max(Bytes::new(8 << 10))
}

fn split(text: &str) -> Result<(&str, &str), BadUnit> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.is_empty() {
        return Err(format!("{text:?} does not begin with a number"));
    }
    Ok((number, unit.trim_start()))
}

/// `number * factor` exactly, as decimal digits; a fraction of one unit is refused rather than rounded.
fn scale(text: &str, number: &str, factor: u64) -> Result<u64, BadUnit> {
    let too_large = || format!("{text:?} is too large");
    let bad = || format!("{text:?} is not a number with a unit");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) || fraction.len() > 15 {
        return Err(bad());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_large())? };
    let mut value = whole.checked_mul(factor).ok_or_else(too_large)?;
    if !fraction.is_empty() {
        let digits: u128 = fraction.parse().map_err(|_| bad())?;
        let scaled = digits * u128::from(factor);
        let unit = 10u128.pow(fraction.len() as u32);
        if !scaled.is_multiple_of(unit) {
            return Err(format!("{text:?} is finer than the smallest unit"));
        }
        let part = u64::try_from(scaled / unit).map_err(|_| too_large())?;
        value = value.checked_add(part).ok_or_else(too_large)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(parse_rate("10mbit"), Ok(Rate::from_mbps(10)));
        assert_eq!(parse_rate("1.5gbit"), Ok(Rate::from_mbps(1500)));
        assert_eq!(parse_rate("125kbps"), Ok(Rate::from_mbps(1)));
        assert!(parse_rate("10").unwrap_err().contains("no unit"));
        assert!(parse_rate("10mbut").unwrap_err().contains("mbut"));
        assert!(parse_rate("99999999999tbit").unwrap_err().contains("too large"));
        assert!(parse_rate("0.1bit").unwrap_err().contains("finer"));
        assert!(parse_rate("1.2.3mbit").is_err());
        assert!(parse_rate("-1mbit").is_err());
    }

    #[test]
    fn sizes_and_spans() {
        assert_eq!(parse_bytes("8kib"), parse_bytes("8kb"));
        assert_eq!(parse_bytes("3gib"), Ok(Bytes::new(3 << 30)));
        assert!(parse_bytes("3tib").unwrap_err().contains("kib, mib, gib"));
        assert_eq!(parse_volume("200gb"), Ok(Bytes::new(200_000_000_000)));
        assert_eq!(parse_volume("1.5kb"), Ok(Bytes::new(1_500)));
        assert_eq!(parse_volume("2tib"), Ok(Bytes::new(2 << 40)));
        assert_eq!(parse_volume("8kib"), Ok(Bytes::new(8_192)));
        assert!(parse_volume("8kbit").unwrap_err().contains("tb (k = 1,000)"));
        assert!(parse_rate("8mb").unwrap_err().contains("mbps"));
        assert_eq!(parse_bytes("8kb"), Ok(Bytes::new(8192)));
        assert_eq!(parse_bytes("1500b"), Ok(Bytes::new(1500)));
        assert_eq!(parse_span("20ms"), Ok(Span::from_millis(20)));
        assert_eq!(parse_span("0.5s"), Ok(Span::from_millis(500)));
        assert!(parse_span("5 fortnights").unwrap_err().contains("fortnights"));
    }
}
