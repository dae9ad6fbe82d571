//! Shaper, meter and marker before a queue (RFC 2963 figures 1 and 4).

use super::meter::{HopMeter, ShaperQuery};
use super::shaper::Shaper;
use crate::packet::{Packets, SimPacket};
use crate::rng::Rng;
use crate::scenario::Conditioner;
use terms::{Dscp, Rate, Time};
use traffic::meter::{Color, Marker};

/// A conditioner and its state.
#[derive(Clone, Debug)]
pub struct Conditioning {
    shaper: Option<Shaper>,
    meter: Option<HopMeter>,
    marker: Marker,
    chance: Rng,
    /// The time of its pending event, ns; `u64::MAX` if none is set.
    pub alarm: u64,
}

impl Conditioning {
    /// Builds it from its description. `stream` is the seed and the number of its random stream.
    ///
    /// # Errors
    /// A text that names the error.
    pub fn new(spec: &Conditioner, line: Rate, stream: [u64; 2]) -> Result<Conditioning, String> {
        let now = Time::ZERO;
        Ok(Conditioning {
            shaper: spec.shaper.as_ref().map(|spec| Shaper::new(spec, line, now)).transpose()?,
            meter: spec.meter.as_ref().map(|spec| HopMeter::new(spec, now)).transpose()?,
            marker: spec.marker,
            chance: Rng::new(stream[0], stream[1]),
            alarm: u64::MAX,
        })
    }

    /// True if it has a shaper.
    pub fn shapes(&self) -> bool {
        self.shaper.is_some()
    }

    /// Meters a packet and writes its mark.
    #[inline]
    pub fn mark(&mut self, now: Time, packet: &mut SimPacket) {
        let came = self.marker.color_of(Dscp(packet.dscp));
        let chance = &mut self.chance;
        packet.color = match &mut self.meter {
            Some(meter) => meter.color(now, u32::from(packet.len), came, || chance.next_u32()),
            None => came,
        };
        packet.dscp = self.marker.mark(packet.color).0;
    }

    /// Offers a packet to the shaper. Returns false if there is no room.
    pub fn hold(&mut self, now: Time, number: u32, len: u32) -> bool {
        self.shaper.as_mut().is_some_and(|shaper| shaper.hold(now, number, len))
    }

    /// The packet that the shaper releases now, if any. It is not yet marked.
    pub fn release(&mut self, now: Time, packets: &Packets) -> Option<u32> {
        let shaper = self.shaper.as_mut()?;
        let head = shaper.head()?;
        let came = came(&self.marker, &packets[head]);
        shaper.release(now, &ShaperQuery(self.meter.as_ref(), came))
    }

    /// The time at which the shaper will release its next packet.
    pub fn due(&self, now: Time, packets: &Packets) -> Option<Time> {
        let shaper = self.shaper.as_ref()?;
        let came = came(&self.marker, &packets[shaper.head()?]);
        shaper.due(now, &ShaperQuery(self.meter.as_ref(), came))
    }

    /// The number of packets in the shaper.
    pub fn packets(&self) -> usize {
        self.shaper.as_ref().map_or(0, Shaper::packets)
    }
}

fn came(marker: &Marker, packet: &SimPacket) -> Color {
    marker.color_of(Dscp(packet.dscp))
}
