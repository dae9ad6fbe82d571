//! Instants in documents: RFC 3339, in UTC when written, with any offset when read.

use jiff::civil::DateTime;
use jiff::{Timestamp, tz};
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
        let at = Timestamp::from_nanosecond(self.0.as_nanos().into()).map_err(|_| std::fmt::Error)?;
        match self.0.as_nanos() % SECOND {
            0 => write!(f, "{at:.0}"),
            n if n % 1_000_000 == 0 => write!(f, "{at:.3}"),
            _ => write!(f, "{at:.9}"),
        }
    }
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
    let number = |from: usize, to: usize| -> Option<i16> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let pair = |from: usize| number(from, from + 2).and_then(|n| i8::try_from(n).ok());
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if marks.iter().any(|&(at, mark)| bytes[at] != mark) || !matches!(bytes[10], b'T' | b't' | b' ') {
        return None;
    }
    let (year, second) = (number(0, 4)?, pair(17)?);
    let minute = DateTime::new(year, pair(5)?, pair(8)?, pair(11)?, pair(14)?, 0, 0).ok()?;
    // A leap second (60) is read as the second after it, as POSIX time counts.
    if !(1970..=2262).contains(&year) || second > 60 {
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
    let seconds = offset(rest)?.to_timestamp(minute).ok()?.as_second() + i64::from(second);
    let whole = u64::try_from(seconds).ok()?.checked_mul(SECOND)?.checked_add(nanos)?;
    Some(Instant(Time::from_nanos(whole))).filter(|instant| instant.0 != Time::FOREVER)
}

/// The offset from Greenwich.
fn offset(text: &str) -> Option<tz::Offset> {
    let bytes = text.as_bytes();
    match bytes {
        b"Z" | b"z" => Some(tz::Offset::UTC),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let digit = |b: &u8| b.is_ascii_digit().then(|| i32::from(b - b'0'));
            let (hours, minutes) = (digit(h1)? * 10 + digit(h2)?, digit(m1)? * 10 + digit(m2)?);
            let seconds = if *sign == b'-' { -1 } else { 1 } * (hours * 3_600 + minutes * 60);
            (hours < 24 && minutes < 60).then(|| tz::Offset::from_seconds(seconds).ok())?
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
            let at = Instant(Time::from_nanos(day * 86_400 * SECOND));
            assert_eq!(at.to_string().parse(), Ok(at));
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
