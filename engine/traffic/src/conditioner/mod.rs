//! Traffic conditioners (RFC 2475 section 2.3): a shaper that holds packets back, a meter that colours them, a marker that
//! writes the colour into them, and a dropper in front of the queue.
//!
//! [`ConditionerSpec`] describes one. [`Conditioner`] runs shaper, meter and marker; [`Dropper`] runs the dropper, which
//! belongs to a queue. The plane's classes ([`crate::path`]) and the links of the simulator run the same two.

mod check;
mod dropper;
mod fault;
mod meter;
mod shaper;
mod spec;

pub use check::{MAX_BUFFER, MAX_QUEUE};
pub(crate) use check::{check, number};
pub use dropper::Dropper;
pub use fault::ConditionerFault;
pub(crate) use fault::Said;
pub(crate) use meter::{Meter, check_meter};
pub use shaper::NotHeld;
pub use spec::{ConditionerSpec, DropperSpec, MeterKind, MeterSpec, QueueUnit, RasSpec, ShaperSpec};

use crate::meter::{Color, Marker};
use crate::queue::{Fifo, Pool};
use meter::Ask;
use shaper::Shaper;
use terms::{Dscp, PacketMeta, Rate, Time};

/// Shaper, meter and marker at work. The packets in its shaper lie in a pool of the caller's.
#[derive(Clone, Debug)]
pub struct Conditioner {
    shaper: Option<Shaper>,
    meter: Option<Meter>,
    marker: Option<Marker>,
}

impl Conditioner {
    /// A conditioner without parts.
    pub const NONE: Conditioner = Conditioner { shaper: None, meter: None, marker: None };

    /// A conditioner for a line of rate `line`, without packets.
    ///
    /// # Errors
    /// [`ConditionerFault`]: a part cannot work.
    pub fn new(spec: &ConditionerSpec, line: Rate, now: Time) -> Result<Conditioner, ConditionerFault> {
        let shaper = spec.shaper.as_ref().map(|spec| Shaper::new(spec, line, now));
        let meter = spec.meter.as_ref().map(|spec| Meter::new(spec, now));
        Ok(Conditioner {
            shaper: shaper.transpose().map_err(ConditionerFault::Shaper)?,
            meter: meter.transpose().map_err(ConditionerFault::Meter)?,
            marker: spec.marker,
        })
    }

    /// Changes the description in place: waiting packets stay, and credit and averages carry over if old and new are of one
    /// kind. A shaper stays until [`Conditioner::without_shaper`] takes it.
    ///
    /// # Errors
    /// [`ConditionerFault`]: a part cannot work.
    pub fn change(
        &mut self,
        spec: &ConditionerSpec,
        line: Rate,
        now: Time,
        pool: &Pool<PacketMeta>,
    ) -> Result<(), ConditionerFault> {
        match (&mut self.shaper, &spec.shaper) {
            (Some(old), Some(new)) => old.change(new, line, now, pool).map_err(ConditionerFault::Shaper)?,
            (_, None) => {}
            (old, Some(new)) => *old = Some(Shaper::new(new, line, now).map_err(ConditionerFault::Shaper)?),
        }
        match (&mut self.meter, &spec.meter) {
            (Some(old), Some(new)) => old.change(new, now).map_err(ConditionerFault::Meter)?,
            (old, None) => *old = None,
            (old, Some(new)) => *old = Some(Meter::new(new, now).map_err(ConditionerFault::Meter)?),
        }
        self.marker = spec.marker;
        Ok(())
    }

    /// True if it has a shaper.
    pub fn shapes(&self) -> bool {
        self.shaper.is_some()
    }

    /// True if it has no parts.
    pub fn is_none(&self) -> bool {
        self.shaper.is_none() && self.meter.is_none() && self.marker.is_none()
    }

    /// True if it has a meter.
    pub fn meters(&self) -> bool {
        self.meter.is_some()
    }

    /// Removes the shaper and returns its packets.
    pub fn without_shaper(&mut self) -> Option<Fifo> {
        self.shaper.take().map(|shaper| *shaper.queue())
    }

    /// The packets in the shaper.
    pub fn held(&self) -> Option<&Fifo> {
        self.shaper.as_ref().map(Shaper::queue)
    }

    /// Puts a packet into the shaper. `None`: there is no shaper.
    ///
    /// # Errors
    /// [`NotHeld`]: the packet is the caller's again.
    pub fn hold(&mut self, now: Time, packet: PacketMeta, pool: &mut Pool<PacketMeta>) -> Option<Result<(), NotHeld>> {
        Some(self.shaper.as_mut()?.hold(now, packet, pool))
    }

    /// The time at which the shaper releases its head; `None`: it is empty, or there is none.
    pub fn due(&self, now: Time, pool: &Pool<PacketMeta>) -> Option<Time> {
        let shaper = self.shaper.as_ref()?;
        let color = self.incoming(shaper.queue().head(pool)?.dscp);
        shaper.due(now, &Ask(self.meter.as_ref(), color), pool)
    }

    /// The shaper's head, if it may leave now; the flag is true if it can never conform and must be dropped.
    pub fn release(&mut self, now: Time, pool: &mut Pool<PacketMeta>) -> Option<(PacketMeta, bool)> {
        let color = self.incoming(self.shaper.as_ref()?.queue().head(pool)?.dscp);
        let ask = Ask(self.meter.as_ref(), color);
        self.shaper.as_mut()?.release(now, &ask, pool)
    }

    /// Meters and marks a packet of `len` IP bytes that comes to the queue: its colour, and its code point from now on.
    /// `chance` draws a number for the one kind of meter that needs it.
    #[inline]
    pub fn color(&mut self, now: Time, len: u32, dscp: Dscp, chance: impl FnOnce() -> u32) -> (Color, Dscp) {
        let before = self.incoming(dscp);
        let color = self.meter.as_mut().map_or(before, |meter| meter.color(now, len, before, chance));
        (color, self.marker.map_or(dscp, |marker| marker.mark(color)))
    }

    /// The colour that a packet comes with; green unless the meter is colour-aware.
    fn incoming(&self, dscp: Dscp) -> Color {
        match (&self.meter, &self.marker) {
            (Some(meter), Some(marker)) if meter.aware() => marker.color_of(dscp),
            _ => Color::Green,
        }
    }
}
