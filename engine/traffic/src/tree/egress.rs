//! A tree and its link: the one loop of every plane that drives a tree, on captures or live.

use super::{Departure, Loss, Tree};
use terms::Time;

/// A link that a tree sends on. A capture's link computes the time at which it is free; a live one gets it from its
/// interface.
pub trait TreeEgress {
    /// The error of a failed send.
    type Error;

    /// Starts to send a packet; returns the time at which the link is free for the next.
    ///
    /// # Errors
    /// The link cannot send; the packet is gone.
    fn send(&mut self, now: Time, departure: &Departure) -> Result<Time, Self::Error>;

    /// A packet in a shaper was dropped: its buffer may be used again.
    fn lost(&mut self, _loss: &Loss) {}
}

impl Tree {
    /// Sends every packet that is due before `until` on a link that is free from `free` on. Returns the time
    /// at which the link is free after that: not before `until`, unless that is [`Time::FOREVER`].
    ///
    /// # Errors
    /// The first of [`TreeEgress::send`].
    pub fn serve<E: TreeEgress>(&mut self, mut free: Time, until: Time, egress: &mut E) -> Result<Time, E::Error> {
        let mut idle = None;
        // What was dropped since the last call, by a packet that came or by a change, is told even if nothing is due.
        self.tell_losses(egress);
        while let Some(when) = self.wake_at(free).filter(|&when| when < until) {
            free = when;
            let departure = self.dequeue(when);
            self.tell_losses(egress);
            match departure {
                Some(departure) => free = egress.send(when, &departure)?.max(when),
                // Nothing after all, as when the packet that was waited for is dropped; but not twice at one instant.
                None if idle == Some(when) => {
                    debug_assert!(false, "the tree gives nothing at {when:?} though it said so");
                    break;
                }
                None => idle = Some(when),
            }
        }
        Ok(if until == Time::FOREVER { free } else { free.max(until) })
    }

    fn tell_losses<E: TreeEgress>(&mut self, egress: &mut E) {
        while let Some(loss) = self.poll_loss() {
            egress.lost(&loss);
        }
    }
}
