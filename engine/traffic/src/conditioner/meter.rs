//! The meter of a conditioner, of any kind, and its state.

use super::spec::{MeterKind, MeterSpec};
use crate::meter::{BadProfile, Color, Rfc4115, SrTcm, TokenCounts, TrTcm, TswState, TswTcm};
use crate::shaper::Greener;
use terms::Time;

/// A meter's profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Profile {
    SrTcm(SrTcm),
    TrTcm(TrTcm),
    Rfc4115(Rfc4115),
    TswTcm(TswTcm),
}

pub(super) fn profile(kind: &MeterKind) -> Result<Profile, BadProfile> {
    Ok(match *kind {
        MeterKind::SrTcm { cir, cbs, ebs } => Profile::SrTcm(SrTcm::new(cir, cbs, ebs)?),
        MeterKind::TrTcm { cir, cbs, pir, pbs } => Profile::TrTcm(TrTcm::new(cir, cbs, pir, pbs)?),
        MeterKind::Rfc4115 { cir, cbs, eir, ebs } => Profile::Rfc4115(Rfc4115::new(cir, cbs, eir, ebs)?),
        MeterKind::TswTcm { ctr, ptr, interval } => Profile::TswTcm(TswTcm::new(ctr, ptr, interval)?),
    })
}

/// Checks the values of a meter.
pub(crate) fn check_meter(kind: &MeterKind) -> Result<(), BadProfile> {
    profile(kind).map(drop)
}

/// A meter with its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    spec: MeterSpec,
    profile: Profile,
    state: MeterState,
}

#[derive(Clone, Copy, Debug)]
enum MeterState {
    Credit(TokenCounts),
    Window(TswState),
}

impl Meter {
    pub(crate) fn new(spec: &MeterSpec, now: Time) -> Result<Meter, BadProfile> {
        let profile = profile(&spec.kind)?;
        let state = match &profile {
            Profile::SrTcm(p) => MeterState::Credit(p.start(now)),
            Profile::TrTcm(p) => MeterState::Credit(p.start(now)),
            Profile::Rfc4115(p) => MeterState::Credit(p.start(now)),
            Profile::TswTcm(p) => MeterState::Window(p.start(now)),
        };
        Ok(Meter { spec: *spec, profile, state })
    }

    /// Changes the profile. The credit of a meter of the same kind stays, up to the new bursts.
    pub(crate) fn change(&mut self, spec: &MeterSpec, now: Time) -> Result<(), BadProfile> {
        let mut fresh = Meter::new(spec, now)?;
        if core::mem::discriminant(&fresh.profile) == core::mem::discriminant(&self.profile)
            && matches!(self.state, MeterState::Credit(_))
        {
            // A packet of no length settles the credit at the old rates, and takes none.
            self.color(now, 0, Color::Green, || 0);
            fresh.state = self.state;
            fresh.color(now, 0, Color::Green, || 0);
        }
        *self = fresh;
        Ok(())
    }

    pub(crate) fn aware(&self) -> bool {
        self.spec.aware
    }

    /// Colours a packet.
    ///
    /// `chance` draws a number for the one kind that needs it.
    pub(crate) fn color(&mut self, now: Time, len: u32, before: Color, chance: impl FnOnce() -> u32) -> Color {
        match (&self.profile, &mut self.state) {
            (Profile::SrTcm(p), MeterState::Credit(state)) => p.meter(state, now, len, before),
            (Profile::TrTcm(p), MeterState::Credit(state)) => p.meter(state, now, len, before),
            (Profile::Rfc4115(p), MeterState::Credit(state)) => p.meter(state, now, len, before),
            (Profile::TswTcm(p), MeterState::Window(state)) => p.meter(state, now, len, chance()),
            // `new` pairs them.
            _ => before,
        }
    }
}

/// The question of a green shaper: the leaf's own meter, and the colour that the packet came with.
pub(super) struct Ask<'a>(pub(super) Option<&'a Meter>, pub(super) Color);

impl Greener for Ask<'_> {
    fn green_at(&self, now: Time, len: u32) -> Option<Time> {
        let meter = self.0.filter(|_| self.1 == Color::Green)?;
        match (&meter.profile, &meter.state) {
            (Profile::SrTcm(p), MeterState::Credit(state)) => p.green_at(state, now, len),
            (Profile::TrTcm(p), MeterState::Credit(state)) => p.green_at(state, now, len),
            _ => None,
        }
    }
}
