//! Shaper, meter and marker before a queue (RFC 2963 figures 1 and 4): [`traffic::conditioner`], with the packets of
//! the simulation.

use crate::packet::{SimPacket, UDP};
use crate::rng::Rng;
use crate::scenario;
use std::net::{IpAddr, Ipv4Addr};
use terms::{Dscp, FlowKey, PacketMeta, Rate, Time};
use traffic::conditioner::{Conditioner, ConditionerSpec};
use traffic::meter::Marker;
use traffic::queue::Pool;

/// A conditioner and its state.
#[derive(Clone, Debug)]
pub struct Conditioning {
    conditioner: Conditioner,
    marker: Marker,
    /// The packets in the shaper, and the number for which there is memory.
    pool: Pool<PacketMeta>,
    room: u64,
    chance: Rng,
    /// The time of its pending event, ns; `u64::MAX` if none is set.
    pub alarm: u64,
}

impl Conditioning {
    /// Builds it from its description. `stream` is the seed and the number of its random stream.
    ///
    /// # Errors
    /// A text that names the error.
    pub fn new(spec: &scenario::LinkConditioner, line: Rate, stream: [u64; 2]) -> Result<Conditioning, String> {
        let scenario::LinkConditioner { shaper, meter, marker } = *spec;
        let parts = ConditionerSpec { shaper, meter, marker: Some(marker), dropper: None };
        Ok(Conditioning {
            conditioner: Conditioner::new(&parts, line, Time::ZERO).map_err(|why| why.to_string())?,
            marker,
            pool: Pool::new(u32::MAX),
            room: 0,
            chance: Rng::new(stream[0], stream[1]),
            alarm: u64::MAX,
        })
    }

    /// True if it has a shaper.
    pub fn shapes(&self) -> bool {
        self.conditioner.shapes()
    }

    /// Meters a packet and writes its mark. Without a meter it keeps its colour.
    #[inline]
    pub fn mark(&mut self, now: Time, packet: &mut SimPacket) {
        let (dscp, chance) = (Dscp(packet.dscp), &mut self.chance);
        let (color, mark) = if self.conditioner.meters() {
            self.conditioner.color(now, u32::from(packet.len), dscp, || chance.next_u32())
        } else {
            let color = self.marker.color_of(dscp);
            (color, self.marker.mark(color))
        };
        (packet.color, packet.dscp) = (color, mark.0);
    }

    /// Offers a packet to the shaper. Returns false if there is no room.
    pub fn hold(&mut self, now: Time, number: u32, packet: &SimPacket) -> bool {
        let waiting = u64::from(self.pool.len());
        if waiting >= self.room {
            self.room = 2 * waiting.max(32);
            self.pool.reserve(self.room);
        }
        self.conditioner.hold(now, meta(number, packet), &mut self.pool).is_some_and(|held| held.is_ok())
    }

    /// The packet that the shaper releases now, if any. It is not yet marked.
    pub fn release(&mut self, now: Time) -> Option<u32> {
        self.conditioner.release(now, &mut self.pool).map(|(packet, _)| packet.id as u32)
    }

    /// The time at which the shaper will release its next packet.
    pub fn due(&self, now: Time) -> Option<Time> {
        self.conditioner.due(now, &self.pool)
    }

    /// The number of packets in the shaper.
    pub fn packets(&self) -> usize {
        self.pool.len() as usize
    }
}

/// The packet as a conditioner sees it: length, code point and number count.
fn meta(number: u32, packet: &SimPacket) -> PacketMeta {
    let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let flow = FlowKey { src: none, dst: none, protocol: UDP, src_port: 0, dst_port: 0, wild: terms::Wild::NONE };
    let (len, dscp) = (u32::from(packet.len), Dscp(packet.dscp));
    PacketMeta { flow, len, dscp, arrival: Time::ZERO, group: None, id: u64::from(number) }
}
