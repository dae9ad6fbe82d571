//! A port and its link: the loop of a plane that drives a port on real frames.

use super::{Port, PortLoss};
use crate::plan::ClassId;
use terms::{Bytes, PacketMeta, Time};

/// The link of a port.
pub trait PortEgress {
    /// Starts to send a packet of a class.
    fn send(&mut self, now: Time, class: ClassId, packet: &PacketMeta);

    /// A packet was lost inside: its buffer may be used again.
    fn lost(&mut self, loss: &PortLoss);
}

impl Port {
    /// Sends every packet that is due before `until` on a link of the plan's rate that is free from `free` on; without a plan
    /// at once. Returns the time at which the link is free after that, not before `until`.
    pub fn serve(&mut self, mut free: Time, until: Time, egress: &mut impl PortEgress) -> Time {
        let mut idle = None;
        self.tell_losses(egress);
        while let Some(when) = self.wake_at().map(|when| when.max(free)).filter(|&when| when < until) {
            free = when;
            let departure = self.depart(when);
            self.tell_losses(egress);
            match departure {
                Some((class, packet)) => {
                    egress.send(when, class, &packet);
                    if let Some(link) = self.link() {
                        let wire = packet.len.saturating_add(link.overhead);
                        free = when + link.rate.span_for(Bytes::new(u64::from(wire)));
                    }
                }
                // Nothing after all, as when a shaper's packet was dropped; but not twice at one instant.
                None if idle == Some(when) => break,
                None => idle = Some(when),
            }
        }
        free.max(until)
    }

    /// The time of the next useful call of [`Port::serve`] on a link that is free from `free` on.
    pub fn serve_at(&self, free: Time) -> Option<Time> {
        self.wake_at().map(|when| when.max(free))
    }

    fn tell_losses(&mut self, egress: &mut impl PortEgress) {
        while let Some(loss) = self.poll_loss() {
            egress.lost(&loss);
        }
    }
}
