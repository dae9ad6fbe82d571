//! The three-colour meter of a booked part or of an agreement, as it is asked for: what is not said follows from the rate.

use crate::{Bytes, Rate};

/// The kinds of meters that can be booked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MeterForm {
    /// A single rate three colour marker (RFC 2697): the committed rate, and an excess burst.
    SrTcm,
    /// A two rate three colour marker (RFC 2698): a peak rate above the committed one.
    TrTcm,
    /// The marker of RFC 4115: an excess rate beside the committed one.
    Rfc4115,
}

impl MeterForm {
    /// All of them, in the order in which the journal numbers them.
    pub const ALL: [MeterForm; 3] = [MeterForm::SrTcm, MeterForm::TrTcm, MeterForm::Rfc4115];

    /// The name in arguments, documents and configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            MeterForm::SrTcm => "srtcm",
            MeterForm::TrTcm => "trtcm",
            MeterForm::Rfc4115 => "rfc4115",
        }
    }

    /// The form of this name.
    pub fn named(name: &str) -> Option<MeterForm> {
        MeterForm::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// A meter as it is asked for. Its committed rate is the rate that is booked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MeterTerms {
    form: MeterForm,
    rate: Option<Rate>,
    burst: Option<Bytes>,
    second_burst: Option<Bytes>,
    aware: bool,
    marks_red: bool,
}

/// The smallest burst: a whole packet of Ethernet.
const LEAST_BURST: Bytes = Bytes::new(1_500);
/// The largest burst.
const LARGEST_BURST: Bytes = Bytes::new(1 << 30);

impl MeterTerms {
    /// A colour-blind meter whose red packets are the rule's excess.
    pub const fn new(form: MeterForm) -> MeterTerms {
        MeterTerms { form, rate: None, burst: None, second_burst: None, aware: false, marks_red: false }
    }

    /// With this peak rate (RFC 2698) or excess rate (RFC 4115).
    pub const fn with_rate(self, rate: Option<Rate>) -> MeterTerms {
        MeterTerms { rate, ..self }
    }

    /// With this committed burst, and this excess or peak burst.
    pub const fn with_bursts(self, burst: Option<Bytes>, second_burst: Option<Bytes>) -> MeterTerms {
        MeterTerms { burst, second_burst, ..self }
    }

    /// Colour-aware: the incoming colour is never improved.
    pub const fn aware(self, aware: bool) -> MeterTerms {
        MeterTerms { aware, ..self }
    }

    /// Red packets go on as AF13.
    pub const fn marking_red(self, marks_red: bool) -> MeterTerms {
        MeterTerms { marks_red, ..self }
    }

    /// The kind.
    pub const fn form(&self) -> MeterForm {
        self.form
    }

    /// The peak or excess rate, if it is said.
    pub const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The committed burst, if it is said.
    pub const fn burst(&self) -> Option<Bytes> {
        self.burst
    }

    /// The excess or peak burst, if it is said.
    pub const fn second_burst(&self) -> Option<Bytes> {
        self.second_burst
    }

    /// True if the incoming colour is never improved.
    pub const fn is_aware(&self) -> bool {
        self.aware
    }

    /// True if red packets go on as AF13.
    pub const fn marks_red(&self) -> bool {
        self.marks_red
    }

    /// The mistake in the terms of a meter for this committed rate.
    pub fn fault(&self, committed: Rate) -> Option<&'static str> {
        let bursts = [self.burst, self.second_burst].into_iter().flatten();
        match (self.form, self.rate) {
            (MeterForm::SrTcm, Some(_)) => Some("srtcm has one rate: a peak rate is trtcm's, an excess rate rfc4115's"),
            (MeterForm::TrTcm, Some(peak)) if peak < committed => {
                Some("the peak rate is below the rate that is booked")
            }
            (MeterForm::Rfc4115, Some(Rate::ZERO)) => Some("an excess rate of zero colours nothing yellow"),
            _ if bursts.clone().any(|burst| burst < LEAST_BURST) => Some("a burst holds a whole packet: 1,500 bytes"),
            _ if bursts.clone().any(|burst| burst > LARGEST_BURST) => Some("a burst is at most 1 GiB"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said() {
        let (rate, meter) = (Rate::from_mbps(10), MeterTerms::new);
        for form in MeterForm::ALL {
            assert_eq!(meter(form).fault(rate), None);
            assert_eq!(MeterForm::named(form.name()), Some(form));
            let bursts = |first, second| meter(form).with_bursts(Some(Bytes::new(first)), Some(Bytes::new(second)));
            assert_eq!(bursts(1_500, 1 << 30).fault(rate), None);
            assert!(bursts(1_499, 9_000).fault(rate).is_some() && bursts(9_000, 1_499).fault(rate).is_some());
            assert!(bursts(9_000, (1 << 30) + 1).fault(rate).is_some());
        }
        let with = |form, mbps| meter(form).with_rate(Some(Rate::from_mbps(mbps))).fault(rate);
        assert!(with(MeterForm::SrTcm, 20).is_some() && with(MeterForm::TrTcm, 9).is_some());
        assert!(with(MeterForm::TrTcm, 10).is_none() && with(MeterForm::Rfc4115, 1).is_none());
        assert!(with(MeterForm::Rfc4115, 0).is_some());
    }
}
