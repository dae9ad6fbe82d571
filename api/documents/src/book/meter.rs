//! The three-colour meter of a part, and what it counted.

use crate::units;
use crate::words::words;
use serde::{Deserialize, Serialize};
use terms::book::{MeterForm, MeterTerms};
use terms::{Bytes, Rate};

words! {
    /// The kinds of meters.
    MeterWord {
        /// A single rate three colour marker (RFC 2697).
        SrTcm = "srtcm",
        /// A two rate three colour marker (RFC 2698).
        TrTcm = "trtcm",
        /// The marker of RFC 4115.
        Rfc4115 = "rfc4115",
    }
}

/// A meter, which colours the packets of a background part in the place of dropping what exceeds it: green is AF11, yellow
/// AF12. The committed rate is the rate of the part.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MeterDoc {
    /// The kind of meter.
    #[cfg_attr(feature = "openapi", schema(value_type = MeterWord))]
    pub kind: String,
    /// The peak rate of `trtcm`, bit/s; null: twice the rate of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// The excess rate of `rfc4115`, bit/s; null: as the rate of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess: Option<u64>,
    /// The committed burst, bytes; null: it follows from the rate and the round-trip time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<u64>,
    /// The excess burst, or of `trtcm` the peak burst, bytes; null: in proportion to the rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_burst_bytes: Option<u64>,
    /// Colour-aware: packets that come as AF12 or AF13 get no better colour.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aware: bool,
    /// Red packets go on as AF13; without it they are dropped, or lose their mark if the binding leaves a field open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mark_red: bool,
}

/// The packets that a meter coloured of a part, since its rule was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ColorsDoc {
    /// Within the committed rate.
    pub green: ColorDoc,
    /// Above it, within the excess.
    pub yellow: ColorDoc,
    /// Above both.
    pub red: ColorDoc,
}

/// The packets of a colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ColorDoc {
    /// Packets.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: u64,
}

impl MeterDoc {
    /// The terms of the meter.
    ///
    /// # Errors
    /// The kind has no such rate, or there is no such kind.
    pub fn terms(&self) -> Result<MeterTerms, String> {
        let form = MeterForm::named(&self.kind).ok_or_else(|| {
            format!("{:?} is no kind of meter: {}", self.kind, MeterForm::ALL.map(MeterForm::name).join(", "))
        })?;
        let (rate, other) = match form {
            MeterForm::Rfc4115 => (self.excess, self.peak.map(|_| "peak")),
            _ => (self.peak, self.excess.map(|_| "excess")),
        };
        if let Some(other) = other {
            return Err(format!("{} has no {other} rate", self.kind));
        }
        let [burst, second] = [self.burst_bytes, self.second_burst_bytes].map(|bytes| bytes.map(Bytes::new));
        let meter = MeterTerms::new(form).with_rate(rate.map(Rate::from_bps)).with_bursts(burst, second);
        Ok(meter.aware(self.aware).marking_red(self.mark_red))
    }

    /// The document of a meter.
    pub fn of(terms: &MeterTerms) -> MeterDoc {
        let rate = terms.rate().map(Rate::as_bps);
        let excess = terms.form() == MeterForm::Rfc4115;
        MeterDoc {
            kind: terms.form().name().to_owned(),
            peak: rate.filter(|_| !excess),
            excess: rate.filter(|_| excess),
            burst_bytes: terms.burst().map(Bytes::get),
            second_burst_bytes: terms.second_burst().map(Bytes::get),
            aware: terms.is_aware(),
            mark_red: terms.marks_red(),
        }
    }

    /// A meter as people write it: `trtcm,peak=30mbit,burst=20kb,peak-burst=40kb,aware,mark-red`; `excess-burst` is the
    /// same of the others.
    ///
    /// # Errors
    /// The word that is none of a meter.
    pub fn parse(text: &str) -> Result<MeterDoc, String> {
        let mut words = text.split(',').map(str::trim);
        let mut doc = MeterDoc { kind: words.next().unwrap_or_default().to_owned(), ..MeterDoc::default() };
        for word in words {
            let rate = |text: &str| units::parse_rate(text).map(|rate| Some(rate.as_bps())).map_err(|e| e.to_string());
            let bytes = |text: &str| units::parse_bytes(text).map(|size| Some(size.get())).map_err(|e| e.to_string());
            match word.split_once('=') {
                None if word == "aware" => doc.aware = true,
                None if word == "mark-red" => doc.mark_red = true,
                Some(("peak", text)) => doc.peak = rate(text)?,
                Some(("excess", text)) => doc.excess = rate(text)?,
                Some(("burst", text)) => doc.burst_bytes = bytes(text)?,
                Some(("peak-burst" | "excess-burst", text)) => doc.second_burst_bytes = bytes(text)?,
                _ => {
                    let known =
                        "peak=RATE, excess=RATE, burst=SIZE, peak-burst=SIZE, excess-burst=SIZE, aware, mark-red";
                    return Err(format!("{word:?} is no word of a meter: {known}"));
                }
            }
        }
        doc.terms()?;
        Ok(doc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_is_written_in_a_word() {
        let doc = MeterDoc::parse("trtcm,peak=30mbit,burst=20kb,peak-burst=40kb,aware,mark-red").unwrap();
        let terms = doc.terms().unwrap();
        assert_eq!((terms.form(), terms.rate()), (MeterForm::TrTcm, Some(Rate::from_mbps(30))));
        assert_eq!((doc.burst_bytes, doc.second_burst_bytes), (Some(20_480), Some(40_960)));
        assert!(terms.is_aware() && terms.marks_red());
        assert_eq!(MeterDoc::of(&terms), doc);
        let plain = MeterDoc::parse("rfc4115,excess=5mbit").unwrap().terms().unwrap();
        assert_eq!(plain, MeterTerms::new(MeterForm::Rfc4115).with_rate(Some(Rate::from_mbps(5))));
        for (wrong, why) in [
            ("", "no kind of meter"),
            ("tswtcm", "no kind of meter"),
            ("srtcm,excess=1mbit", "no excess rate"),
            ("rfc4115,peak=1mbit", "no peak rate"),
            ("trtcm,peak=fast", "fast"),
            ("trtcm,blind", "no word of a meter"),
        ] {
            let told = MeterDoc::parse(wrong).unwrap_err();
            assert!(told.contains(why), "{wrong}: {told}");
        }
    }
}
