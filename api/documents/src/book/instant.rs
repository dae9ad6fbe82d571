//! Instants in documents: RFC 3339, in UTC when written, with any offset when read.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use terms::Time;

/// An instant of calendar time, nanoseconds since 1970 in UTC: `2026-11-21T14:00:00Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instant(pub Time);

const SECOND: u64 = 1_000_000_000;

impl std::fmt::Display for Instant {
    /// Shows nanoseconds or milliseconds if there are any, otherwise whole seconds. [`Time::FOREVER`] is
    /// `forever`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == Time::FOREVER {
            return f.write_str("forever");
        }
        let (secs, nanos) = (self.0.as_nanos() / SECOND, self.0.as_nanos() % SECOND);
        let (y, m, d) = civil(secs / 86_400);
        let of_day = secs % 86_400;
        write!(f, "{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}", of_day / 3_600, of_day / 60 % 60, of_day % 60)?;
        match nanos {
            0 => {}
            n if n % 1_000_000 == 0 => write!(f, ".{:03}", n / 1_000_000)?,
            n => write!(f, ".{n:09}")?,
        }
        f.write_str("Z")
    }
}

/// Year, month, day from days since 1970 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

/// Days since 1970; the year is 1970 or later.
fn days(y: u64, m: u64, d: u64) -> u64 {
    let y = if m <= 2 { y - 1 } else { y };
    let (era, yoe) = (y / 400, y % 400);
    let mp = if m > 2 { m - 3 } else { m + 9 };
    let doy = (153 * mp + 2) / 5 + d - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

impl std::str::FromStr for Instant {
    type Err = String;

    fn from_str(text: &str) -> Result<Instant, String> {
        read(text).ok_or_else(|| {
            format!(
                "{text:?} is no time: write it as 2026-11-21T14:00:00Z or 2026-11-21T15:00:00+01:00, from 1970 to 2262"
            )
        })
    }
}

fn read(text: &str) -> Option<Instant> {
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() < 20 {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if marks.iter().any(|&(at, mark)| bytes[at] != mark) || !matches!(bytes[10], b'T' | b't' | b' ') {
        return None;
    }
    let (y, m, d) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let leap = y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let last = match m {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // A leap second (60) is read as the second after it, as POSIX time counts.
    if !(1970..=2262).contains(&y) || d == 0 || d > last || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let len = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if len == 0 || len > 9 {
            return None;
        }
        nanos = fraction[..len].parse::<u64>().ok()? * 10u64.pow(9 - len as u32);
        rest = &fraction[len..];
    }
    let seconds = (days(y, m, d) * 86_400 + hour * 3_600 + minute * 60 + second) as i64 - offset(rest)?;
    let whole = u64::try_from(seconds).ok()?.checked_mul(SECOND)?.checked_add(nanos)?;
    Some(Instant(Time::from_nanos(whole))).filter(|instant| instant.0 != Time::FOREVER)
}

/// The offset in seconds east of Greenwich.
fn offset(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    match bytes {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let digit = |b: &u8| b.is_ascii_digit().then(|| i64::from(b - b'0'));
            let (hours, minutes) = (digit(h1)? * 10 + digit(h2)?, digit(m1)? * 10 + digit(m2)?);
            let seconds = hours * 3_600 + minutes * 60;
            (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Instant, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        if text == "forever" {
            return Ok(Instant(Time::FOREVER));
        }
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Instant {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        let date = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        let words = "RFC 3339, as in 2026-11-21T14:00:00Z; an end that never comes is `forever`.";
        ObjectBuilder::new().schema_type(Type::String).format(Some(date)).description(Some(words)).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Instant {}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> Option<u64> {
        read(text).map(|i| i.0.as_nanos())
    }

    #[test]
    fn there_and_back() {
        for (text, secs) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-11-21T14:00:00Z", 1_795_269_600),
            ("2038-01-19T03:14:08Z", 1 << 31),
            ("2262-04-11T23:47:16Z", 9_223_372_036),
        ] {
            assert_eq!(nanos(text), Some(secs * SECOND), "{text}");
            assert_eq!(Instant(Time::from_nanos(secs * SECOND)).to_string(), text);
        }
        for day in (0..80_000_u64).step_by(13) {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), day);
        }
    }

    #[test]
    fn offsets_and_fractions() {
        assert_eq!(nanos("2026-11-21T15:00:00+01:00"), nanos("2026-11-21T14:00:00Z"));
        assert_eq!(nanos("2026-11-21T09:30:00-04:30"), nanos("2026-11-21T14:00:00Z"));
        assert_eq!(nanos("1970-01-01T00:00:00.5Z"), Some(500_000_000));
        assert_eq!(Instant(Time::from_nanos(1_500_000_000)).to_string(), "1970-01-01T00:00:01.500Z");
        assert_eq!(nanos("2016-12-31T23:59:60Z"), nanos("2017-01-01T00:00:00Z"), "a leap second");
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "now",
            "2026-11-21",
            "2026-11-21T14:00:00",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-11-21T24:00:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "9999-01-01T00:00:00Z",
            "2026-11-21T14:00:00.Z",
            "2026-11-21T14:00:00.0000000001Z",
            "2026-11-21T14:00:00+25:00",
            "２026-11-21T14:00:00Z",
            "+026-11-21T14:00:00Z",
        ] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }
}
