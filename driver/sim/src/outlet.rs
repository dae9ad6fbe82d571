//! Directions with an agent's port or a queue tree, which choose a packet when the link is free; and shapers,
//! which set their own times.

use crate::hop::HopQueue;
use crate::world::{Due, World};
use terms::{Dscp, PacketMeta, Time};
use traffic::port::Verdict;
use traffic::tree::TreeVerdict;

impl World {
    fn meta(&self, number: u32) -> PacketMeta {
        let packet = &self.packets[number];
        PacketMeta {
            flow: self.flow_of(number),
            len: u32::from(packet.len),
            dscp: Dscp(packet.dscp),
            arrival: self.agenda.now(),
            id: u64::from(number),
        }
    }

    /// Puts a packet into a port.
    pub(crate) fn enter_port(&mut self, h: usize, number: u32) {
        let now = self.now();
        let (node, n) = self.place_of(h);
        let meta = self.meta(number);
        let hop = &mut self.hops[h];
        hop.offered(self.packets[number].color, meta.len);
        if let Verdict::Dropped { .. } | Verdict::Policed = self.stations[node].interfaces[n].port.enqueue(now, meta) {
            hop.dropped(self.packets[number].color, meta.len);
            self.lost.queue += 1;
            self.story.mark(&[now.as_nanos(), 2, node as u64, n as u64]);
            self.let_go(number);
        }
        self.send_next(node, n);
    }

    /// Puts a packet into a tree.
    pub(crate) fn enter_tree(&mut self, h: usize, number: u32) {
        let now = self.now();
        let (node, n) = self.place_of(h);
        let meta = self.meta(number);
        let HopQueue::Tree(tree) = &mut self.hops[h].egress else { return };
        if let TreeVerdict::Dropped(_) = tree.enqueue(now, meta) {
            self.lost.queue += 1;
            self.story.mark(&[now.as_nanos(), 2, node as u64, n as u64]);
            self.let_go(number);
        }
        self.send_next(node, n);
    }

    fn place_of(&self, h: usize) -> (usize, usize) {
        let (node, interface) = self.hops[h].rest.from;
        (node as usize, interface as usize)
    }

    /// Sends the next packet if the link is free.
    pub(crate) fn send_next(&mut self, node: usize, n: usize) {
        let now = self.now();
        let interface = &mut self.stations[node].interfaces[n];
        let h = interface.hop;
        let hop = &mut self.hops[h];
        if interface.busy || !hop.up {
            return;
        }
        let (next, wake) = match &mut hop.egress {
            HopQueue::Port => {
                let next = interface.port.dequeue(now).map(|meta| {
                    self.packets[meta.id as u32].dscp = meta.dscp.0;
                    meta.id as u32
                });
                (next, if next.is_none() { interface.port.wake_at() } else { None })
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
            HopQueue::Fifo | HopQueue::Limited(_) | HopQueue::Rio(_) => return,
        };
        while let Some(number) = self.dropped.pop() {
            self.lost.queue += 1;
            self.let_go(number);
        }
        let interface = &mut self.stations[node].interfaces[n];
        let Some(number) = next else {
            let due = wake.map(|due| due.max(now));
            if let Some(due) = due.filter(|due| interface.alarm.is_none_or(|set| *due < set)) {
                interface.alarm = Some(due);
                self.agenda.put(due, Due::Look { node: node as u32, interface: n as u32 });
            }
            return;
        };
        interface.busy = true;
        let hop = &mut self.hops[h];
        let packet = &mut self.packets[number];
        packet.at = hop.send(now.as_nanos(), u32::from(packet.len));
        let free = Time::from_nanos(hop.free_at);
        self.agenda.put(free, Due::Free { node: node as u32, interface: n as u32 });
        self.put_on(h, number);
    }

    /// Puts a packet into a shaper.
    pub(crate) fn shape(&mut self, h: usize, number: u32) {
        let now = self.agenda.now();
        let hop = &mut self.hops[h];
        let Some(conditioning) = &mut hop.conditioning else { return };
        let len = u32::from(self.packets[number].len);
        if !conditioning.hold(now, number, len) {
            hop.refused(len);
            self.lost.queue += 1;
            self.let_go(number);
        }
        self.release(h);
    }

    /// Marks the packets that a shaper releases now, queues them, and sets the shaper's next event.
    fn release(&mut self, h: usize) {
        let now = self.agenda.now();
        while let Some(conditioning) = &mut self.hops[h].conditioning {
            let Some(number) = conditioning.release(now, &self.packets) else { break };
            conditioning.mark(now, &mut self.packets[number]);
            if self.hops[h].up {
                self.queue(h, number, now.as_nanos());
            } else {
                self.lost.no_way += 1;
                self.let_go(number);
            }
        }
        let Some(conditioning) = &mut self.hops[h].conditioning else { return };
        let Some(due) = conditioning.due(now, &self.packets) else { return };
        // At once would be a shaper that says so and does not let go.
        let due = due.as_nanos().max(now.as_nanos() + 1);
        if due < conditioning.alarm {
            conditioning.alarm = due;
            self.agenda.put(Time::from_nanos(due), Due::Release { hop: h as u32 });
        }
    }

    /// Handles a shaper's event.
    pub(crate) fn shaper_due(&mut self, h: usize) {
        let now = self.agenda.now().as_nanos();
        match &mut self.hops[h].conditioning {
            Some(conditioning) if conditioning.alarm == now => conditioning.alarm = u64::MAX,
            // Another was set since, for earlier.
            _ => return,
        }
        self.release(h);
    }
}
