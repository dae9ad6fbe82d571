//! Directions with an agent's port or a queue tree, which choose a packet when the link is free; and shapers,
//! which set their own times.

use super::Net;
use crate::hop::HopQueue;
use crate::run::{Due, Run};
use terms::{Dscp, PacketMeta, Time};
use traffic::meter::Color;
use traffic::port::Verdict;
use traffic::queue::QueueLevel;
use traffic::tree::PathVerdict;

impl Net {
    pub(super) fn meta(&self, run: &Run, number: u32) -> PacketMeta {
        let packet = &self.packets[number];
        PacketMeta {
            flow: self.flow_of(number),
            len: u32::from(packet.len),
            dscp: Dscp(packet.dscp),
            arrival: run.now(),
            group: None,
            id: u64::from(number),
        }
    }

    /// Puts a packet into a port.
    pub(super) fn enter_port(&mut self, run: &mut Run, h: usize, number: u32) {
        let now = run.now();
        let (node, n) = self.place_of(h);
        let meta = self.meta(run, number);
        let hop = &mut self.hops[h];
        hop.offered(self.packets[number].color, meta.len);
        if let Verdict::Dropped { .. } | Verdict::Policed = self.stations[node].port_mut(n).enqueue(now, meta) {
            hop.dropped(self.packets[number].color, meta.len);
            self.lost.queue += 1;
            run.mark([2, node as u64, n as u64]);
            self.let_go(number);
        }
        self.send_next(run, node, n);
    }

    /// Puts a packet into a tree.
    pub(super) fn enter_tree(&mut self, run: &mut Run, h: usize, number: u32) {
        let now = run.now();
        let (node, n) = self.place_of(h);
        let meta = self.meta(run, number);
        let HopQueue::Tree(tree) = &mut self.hops[h].egress else { return };
        if let PathVerdict::Dropped(_) = tree.enqueue(now, meta) {
            self.lost.queue += 1;
            run.mark([2, node as u64, n as u64]);
            self.let_go(number);
        }
        self.send_next(run, node, n);
    }

    /// Puts a packet into a queue of two levels. Green is controlled load, yellow best effort.
    pub(super) fn enter_mace(&mut self, run: &mut Run, h: usize, number: u32) {
        let now = run.now();
        let (node, n) = self.place_of(h);
        let (flow, len) = (self.flow_of(number), u32::from(self.packets[number].len));
        let hop = &mut self.hops[h];
        let HopQueue::Mace(mace) = &mut hop.egress else { return };
        let offer = mace.offer(now, &flow, number, len);
        let color = color_of(offer.level);
        self.packets[number].color = color;
        hop.offered(color, len);
        if let Some((lost, level)) = offer.lost {
            hop.dropped(color_of(level), u32::from(self.packets[lost].len));
            self.lost.queue += 1;
            run.mark([2, node as u64, n as u64]);
            self.let_go(lost);
        }
        self.send_next(run, node, n);
    }

    fn place_of(&self, h: usize) -> (usize, usize) {
        let (node, interface) = self.hops[h].rest.from;
        (node as usize, interface as usize)
    }

    /// Sends the next packet if the link is free.
    pub(crate) fn send_next(&mut self, run: &mut Run, node: usize, n: usize) {
        let now = run.now();
        let station = &mut self.stations[node];
        let h = station.hop(n);
        let hop = &mut self.hops[h];
        if station.is_busy(n) || !hop.up {
            return;
        }
        // Nothing waited when the last packet was sent, so that no event has been put in for its end.
        if hop.free_at > now.as_nanos() && matches!(hop.egress, HopQueue::Mace(_)) {
            station.is_sending(n);
            run.put(Time::from_nanos(hop.free_at), Due::Free { node: node as u32, interface: n as u32 });
            return;
        }
        let (next, wake) = match &mut hop.egress {
            HopQueue::Port => {
                let port = station.port_mut(n);
                let next = port.dequeue(now).map(|meta| {
                    self.packets[meta.id as u32].dscp = meta.dscp.0;
                    meta.id as u32
                });
                self.dropped.extend(std::iter::from_fn(|| port.poll_loss()).map(|loss| loss.packet.id as u32));
                (next, if next.is_none() { port.wake_at() } else { None })
            }
            HopQueue::Tree(tree) => {
                let next = tree.dequeue(now).map(|departure| {
                    let packet = &mut self.packets[departure.packet.id as u32];
                    (packet.dscp, packet.color) = (departure.dscp.0, departure.color);
                    departure.packet.id as u32
                });
                while let Some(loss) = tree.poll_loss() {
                    self.dropped.push(loss.packet.id as u32);
                }
                (next, if next.is_none() { tree.wake_at(now) } else { None })
            }
            HopQueue::Mace(mace) => (mace.next_packet(now), None),
            HopQueue::Fifo | HopQueue::Limited(_) | HopQueue::Rio(_) => return,
        };
        while let Some(number) = self.dropped.pop() {
            self.lost.queue += 1;
            self.let_go(number);
        }
        let station = &mut self.stations[node];
        let Some(number) = next else {
            if let Some(due) = wake.map(|due| due.max(now)).filter(|due| station.will_look(n, *due)) {
                run.put(due, Due::Look { node: node as u32, interface: n as u32 });
            }
            return;
        };
        let hop = &mut self.hops[h];
        let packet = &mut self.packets[number];
        packet.at = hop.send(now.as_nanos(), u32::from(packet.len));
        if !matches!(&hop.egress, HopQueue::Mace(mace) if mace.packets() == 0) {
            station.is_sending(n);
            let free = Time::from_nanos(hop.free_at);
            run.put(free, Due::Free { node: node as u32, interface: n as u32 });
        }
        self.put_on(run, h, number);
    }

    /// Handles the event of a link that is free again behind a port or a tree.
    pub(crate) fn free(&mut self, run: &mut Run, node: usize, n: usize) {
        self.stations[node].has_sent(n);
        self.send_next(run, node, n);
    }

    /// Handles the event of a port or a tree that wants to be asked again.
    pub(crate) fn look(&mut self, run: &mut Run, node: usize, n: usize) {
        self.stations[node].looks(n);
        self.send_next(run, node, n);
    }

    /// Puts a packet into a shaper.
    pub(super) fn shape(&mut self, run: &mut Run, h: usize, number: u32) {
        let now = run.now();
        let hop = &mut self.hops[h];
        let Some(conditioning) = &mut hop.conditioning else { return };
        let len = u32::from(self.packets[number].len);
        if !conditioning.hold(now, number, &self.packets[number]) {
            hop.refused(len);
            self.lost.queue += 1;
            self.let_go(number);
        }
        self.release(run, h);
    }

    /// Marks the packets that a shaper releases now, queues them, and sets the shaper's next event.
    fn release(&mut self, run: &mut Run, h: usize) {
        let now = run.now();
        while let Some(conditioning) = &mut self.hops[h].conditioning {
            let Some(number) = conditioning.release(now) else { break };
            conditioning.mark(now, &mut self.packets[number]);
            if self.hops[h].up {
                self.queue(run, h, number, now.as_nanos());
            } else {
                self.no_way(number);
            }
        }
        let Some(conditioning) = &mut self.hops[h].conditioning else { return };
        let Some(due) = conditioning.due(now) else { return };
        // At once would be a shaper that says so and does not let go.
        let due = due.as_nanos().max(now.as_nanos() + 1);
        if due < conditioning.alarm {
            conditioning.alarm = due;
            run.put(Time::from_nanos(due), Due::Release { hop: h as u32 });
        }
    }

    /// Handles a shaper's event.
    pub(crate) fn shaper_due(&mut self, run: &mut Run, h: usize) {
        let now = run.now().as_nanos();
        match &mut self.hops[h].conditioning {
            Some(conditioning) if conditioning.alarm == now => conditioning.alarm = u64::MAX,
            // Another was set since, for earlier.
            _ => return,
        }
        self.release(run, h);
    }
}

/// The colour that a level counts as.
fn color_of(level: QueueLevel) -> Color {
    match level {
        QueueLevel::First => Color::Green,
        QueueLevel::Second => Color::Yellow,
    }
}
