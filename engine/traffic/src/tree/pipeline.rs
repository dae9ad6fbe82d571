//! The running meter, shaper and dropper of a leaf, made from their descriptions.

use super::spec::{DropperSpec, MeterKind, MeterSpec, ShaperSpec};
use crate::bucket::TokenBucket;
use crate::dropper::{BadDropper, RioProfile};
use crate::meter::{BadProfile, Color, Rfc4115, SrTcm, TokenCounts, TrTcm, TswState, TswTcm};
use crate::plan::{BucketSpec, QueueSpec};
use crate::queue::{Fifo, Pool};
use crate::shaper::{BadShaper, Exponential, Greener, NeverGreen, Ras, RateCurve};
use terms::{Bytes, PacketMeta, Rate, Span, Time};

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

/// The shaping curve; a token bucket has none, and gets a line.
pub(super) fn curve(shaper: &ShaperSpec, line: Rate) -> Result<RateCurve, BadShaper> {
    match *shaper {
        ShaperSpec::Bucket { rate, buffer, .. } => RateCurve::single(rate, rate, [Bytes::ZERO; 2], buffer, line),
        ShaperSpec::SrRas { rates: [cir, mir], thresholds, ras } => {
            RateCurve::single(cir, mir, thresholds, ras.buffer, line)
        }
        ShaperSpec::TrRas { rates: [cir, pir, mir], thresholds, ras } => {
            RateCurve::two(cir, pir, mir, thresholds, ras.buffer, line)
        }
    }
}

pub(super) fn rio(dropper: &DropperSpec) -> Result<RioProfile, BadDropper> {
    RioProfile::new(dropper.curves, dropper.weight, dropper.slot, dropper.coupling)
}

/// A meter with its state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
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
    pub(super) fn new(spec: &MeterSpec, now: Time) -> Result<Meter, BadProfile> {
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
    pub(super) fn change(&mut self, spec: &MeterSpec, now: Time) -> Result<(), BadProfile> {
        let mut fresh = Meter::new(spec, now)?;
        if core::mem::discriminant(&fresh.profile) == core::mem::discriminant(&self.profile)
            && matches!(self.state, MeterState::Credit(_))
        {
            // A packet of no length settles the credit at the old rates, and takes none.
            self.color(now, 0, Color::Green, 0);
            fresh.state = self.state;
            fresh.color(now, 0, Color::Green, 0);
        }
        *self = fresh;
        Ok(())
    }

    pub(super) fn aware(&self) -> bool {
        self.spec.aware
    }

    /// Colours a packet.
    pub(super) fn color(&mut self, now: Time, len: u32, before: Color, chance: u32) -> Color {
        match (&self.profile, &mut self.state) {
            (Profile::SrTcm(p), MeterState::Credit(state)) => p.meter(state, now, len, before),
            (Profile::TrTcm(p), MeterState::Credit(state)) => p.meter(state, now, len, before),
            (Profile::Rfc4115(p), MeterState::Credit(state)) => p.meter(state, now, len, before),
            (Profile::TswTcm(p), MeterState::Window(state)) => p.meter(state, now, len, chance),
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

/// A shaper with its waiting packets, which lie in a pool that all shapers of the tree share.
#[derive(Clone, Debug)]
pub(super) enum Shaper {
    Bucket { bucket: TokenBucket, queue: Fifo },
    Ras { ras: Ras<Exponential>, k: Span, green: bool },
}

/// The reason for which a shaper refused a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotHeld {
    Full,
    OverDepth,
}

impl Shaper {
    pub(super) fn new(spec: &ShaperSpec, line: Rate, now: Time) -> Result<Shaper, BadShaper> {
        match *spec {
            ShaperSpec::Bucket { rate, depth, buffer } => {
                let bucket = TokenBucket::new(&BucketSpec { rate, depth, min_unit: 0 }, now);
                Ok(Shaper::Bucket { bucket, queue: Fifo::new(room(buffer)) })
            }
            ShaperSpec::SrRas { ras, .. } | ShaperSpec::TrRas { ras, .. } => {
                let shaper = Ras::new(curve(spec, line)?, Exponential::new(ras.k, now));
                Ok(Shaper::Ras { ras: shaper, k: ras.k, green: ras.green })
            }
        }
    }

    /// Changes the description; waiting packets stay in order, even above the new buffer.
    pub(super) fn change(
        &mut self,
        spec: &ShaperSpec,
        line: Rate,
        now: Time,
        pool: &Pool<PacketMeta>,
    ) -> Result<(), BadShaper> {
        match (&mut *self, *spec) {
            (Shaper::Bucket { bucket, queue }, ShaperSpec::Bucket { rate, depth, buffer }) => {
                bucket.change(&BucketSpec { rate, depth, min_unit: 0 }, now);
                queue.set_spec(room(buffer));
                return Ok(());
            }
            (
                Shaper::Ras { ras, k, green },
                ShaperSpec::SrRas { ras: new, .. } | ShaperSpec::TrRas { ras: new, .. },
            ) if *k == new.k => {
                ras.change(now, curve(spec, line)?, pool);
                *green = new.green;
                return Ok(());
            }
            _ => {}
        }
        let waiting = *self.queue();
        *self = Shaper::new(spec, line, now)?;
        match self {
            Shaper::Bucket { queue, .. } => {
                let own = queue.spec();
                *queue = waiting;
                queue.set_spec(own);
            }
            Shaper::Ras { ras, .. } => {
                let mut queue = waiting;
                queue.set_spec(ras.queue().spec());
                ras.take_over(now, queue, pool);
            }
        }
        Ok(())
    }

    /// Holds a packet in the shaper.
    pub(super) fn hold(&mut self, now: Time, packet: PacketMeta, pool: &mut Pool<PacketMeta>) -> Result<(), NotHeld> {
        match self {
            Shaper::Bucket { bucket, queue } => {
                if u64::from(packet.len) > bucket.depth().get() {
                    return Err(NotHeld::OverDepth);
                }
                queue.push(pool, packet.len, packet).map_err(|_| NotHeld::Full)
            }
            Shaper::Ras { ras, .. } => {
                if ras.enqueue(now, packet, pool) {
                    Ok(())
                } else {
                    Err(NotHeld::Full)
                }
            }
        }
    }

    /// The time at which the head may leave. A packet larger than a bucket's new depth leaves at once, to be dropped.
    pub(super) fn due(&self, now: Time, meter: &Ask<'_>, pool: &Pool<PacketMeta>) -> Option<Time> {
        match self {
            Shaper::Bucket { bucket, queue } => Some(bucket.when(now, queue.head_bytes(pool)?).unwrap_or(now)),
            Shaper::Ras { ras, green: true, .. } => ras.wake_at(now, meter, pool),
            Shaper::Ras { ras, .. } => ras.wake_at(now, &NeverGreen, pool),
        }
    }

    /// The head, if it may leave now; the flag is true if it can never conform and must be dropped.
    pub(super) fn release(
        &mut self,
        now: Time,
        meter: &Ask<'_>,
        pool: &mut Pool<PacketMeta>,
    ) -> Option<(PacketMeta, bool)> {
        match self {
            Shaper::Bucket { bucket, queue } => {
                let len = queue.head_bytes(pool)?;
                let never = bucket.when(now, len).is_none();
                if !never && !bucket.take(now, len) {
                    return None;
                }
                queue.pop(pool).map(|(_, packet)| (packet, never))
            }
            Shaper::Ras { ras, green: true, .. } => ras.release(now, meter, pool).map(|packet| (packet, false)),
            Shaper::Ras { ras, .. } => ras.release(now, &NeverGreen, pool).map(|packet| (packet, false)),
        }
    }

    /// The waiting packets.
    pub(super) fn queue(&self) -> &Fifo {
        match self {
            Shaper::Bucket { queue, .. } => queue,
            Shaper::Ras { ras, .. } => ras.queue(),
        }
    }
}

/// The queue limits of a token bucket's buffer, which is limited only in bytes.
const fn room(buffer: Bytes) -> QueueSpec {
    QueueSpec { packets: u32::MAX, bytes: buffer }
}
