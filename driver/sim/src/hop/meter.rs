//! A conditioner's meter: any of the four, with its state.

use terms::Time;
use traffic::meter::{Color, Rfc4115, SrTcm, TokenCounts, TrTcm, TswState, TswTcm};
use traffic::shaper::Greener;
use traffic::tree::{MeterKind, MeterSpec};

/// A meter and its state.
#[derive(Clone, Copy, Debug)]
pub struct HopMeter {
    /// True if the meter is colour-aware.
    pub aware: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    TrTcm(TrTcm, TokenCounts),
    SrTcm(SrTcm, TokenCounts),
    Rfc4115(Rfc4115, TokenCounts),
    TswTcm(TswTcm, TswState),
}

impl HopMeter {
    /// A meter with full buckets.
    ///
    /// # Errors
    /// A text that names the error.
    pub fn new(spec: &MeterSpec, now: Time) -> Result<HopMeter, String> {
        let words = |why: traffic::meter::BadProfile| why.to_string();
        let kind = match spec.kind {
            MeterKind::TrTcm { cir, cbs, pir, pbs } => {
                let profile = TrTcm::new(cir, cbs, pir, pbs).map_err(words)?;
                Kind::TrTcm(profile, profile.start(now))
            }
            MeterKind::SrTcm { cir, cbs, ebs } => {
                let profile = SrTcm::new(cir, cbs, ebs).map_err(words)?;
                Kind::SrTcm(profile, profile.start(now))
            }
            MeterKind::Rfc4115 { cir, cbs, eir, ebs } => {
                let profile = Rfc4115::new(cir, cbs, eir, ebs).map_err(words)?;
                Kind::Rfc4115(profile, profile.start(now))
            }
            MeterKind::TswTcm { ctr, ptr, interval } => {
                let profile = TswTcm::new(ctr, ptr, interval).map_err(words)?;
                Kind::TswTcm(profile, profile.start(now))
            }
        };
        Ok(HopMeter { aware: spec.aware, kind })
    }

    /// Colours a packet that has the colour `before`. `chance` draws a number for the one meter that needs
    /// it.
    #[inline]
    pub fn color(&mut self, now: Time, len: u32, before: Color, chance: impl FnOnce() -> u32) -> Color {
        let before = if self.aware { before } else { Color::Green };
        match &mut self.kind {
            Kind::TrTcm(profile, state) => profile.meter(state, now, len, before),
            Kind::SrTcm(profile, state) => profile.meter(state, now, len, before),
            Kind::Rfc4115(profile, state) => profile.meter(state, now, len, before),
            Kind::TswTcm(profile, state) => profile.meter(state, now, len, chance()),
        }
    }
}

/// The question of a green shaper about a packet of the given colour.
pub struct ShaperQuery<'a>(pub Option<&'a HopMeter>, pub Color);

impl Greener for ShaperQuery<'_> {
    fn green_at(&self, now: Time, len: u32) -> Option<Time> {
        let meter = self.0.filter(|meter| self.1 == Color::Green || !meter.aware)?;
        match &meter.kind {
            Kind::TrTcm(profile, state) => profile.green_at(state, now, len),
            Kind::SrTcm(profile, state) => profile.green_at(state, now, len),
            Kind::Rfc4115(..) | Kind::TswTcm(..) => None,
        }
    }
}
