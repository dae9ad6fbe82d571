//! Packets on their way: into a queue, onto a link, off it, and to the next node.

use super::{Arrival, Net};
use crate::capture::Headers;
use crate::hop::HopQueue;
use crate::link::Fate;
use crate::mace::pool;
use crate::map::{address, position};
use crate::packet::{IPV4_HEADER, MessageInFlight, NONE, PacketKind, ROUTER_ALERT, RSVP, SimPacket};
use crate::run::{Due, Run};
use crate::scenario::{LinkId, NodeId};
use node::io::Datagram;
use std::hint::black_box;
use std::rc::Rc;
use terms::{FlowKey, IfIndex, Span, Time};

impl Net {
    /// Sends a packet on from a node. Returns true if this is its destination.
    #[inline]
    pub(crate) fn forward(&mut self, run: &mut Run, at: usize, number: u32) -> bool {
        let dst = usize::from(self.packets[number].dst);
        if dst == at {
            return true;
        }
        let hop = self.ways[at * self.stations.len() + dst];
        if hop == NONE {
            self.no_way(number);
        } else {
            self.put_out(run, hop as usize, number);
        }
        false
    }

    /// Sends an agent's message. Returns its packet if it is for the agent's own node.
    pub(crate) fn send(&mut self, run: &mut Run, at: NodeId, datagram: Datagram) -> Option<u32> {
        let Datagram { oif, src, dst, ttl, router_alert, bytes } = datagram;
        run.mark_bytes(&bytes);
        let header = IPV4_HEADER + if router_alert { ROUTER_ALERT } else { 0 };
        let len = header + bytes.len() as u32;
        let flow = FlowKey { src, dst, protocol: RSVP, src_port: 0, dst_port: 0, wild: terms::Wild::NONE };
        let message = MessageInFlight { flow, alert: router_alert, bytes: Rc::from(bytes) };
        let number = self.keep_message(message, ttl, len, run.now());
        let to = usize::from(self.packets[number].dst);
        let hop = match oif {
            Some(oif) => self.hop_of(at, oif),
            None if to == at.0 => return Some(number),
            None => self.way(at.0, to),
        };
        match hop {
            Some(hop) => self.put_out(run, hop, number),
            None => self.no_way(number),
        }
        None
    }

    /// Puts a packet into a direction: through its conditioner to its queue.
    pub(crate) fn put_out(&mut self, run: &mut Run, h: usize, number: u32) {
        let now = run.now();
        let hop = &mut self.hops[h];
        if !hop.up {
            self.no_way(number);
            return;
        }
        if let Some(conditioning) = &mut hop.conditioning {
            if conditioning.shapes() {
                self.shape(run, h, number);
                return;
            }
            conditioning.mark(now, &mut self.packets[number]);
        }
        self.queue(run, h, number, now.as_nanos());
    }

    /// Queues a packet at `now`. That is later than the present event if the packet was sent ahead over this
    /// direction's only feeder.
    pub(super) fn queue(&mut self, run: &mut Run, mut h: usize, number: u32, mut now: u64) {
        loop {
            let packet = &mut self.packets[number];
            let len = u32::from(packet.len);
            let hop = &mut self.hops[h];
            let start = hop.free_at.max(now);
            let room = match &mut hop.egress {
                HopQueue::Fifo => true,
                HopQueue::Limited(waiting) => waiting.admit(now, start, len),
                HopQueue::Rio(rio) => {
                    packet.color = rio.color_of(packet.dscp);
                    rio.admit(now, start, len, packet.color)
                }
                HopQueue::Port => return self.enter_port(run, h, number),
                HopQueue::Tree(_) => return self.enter_tree(run, h, number),
                HopQueue::Mace(_) => return self.enter_mace(run, h, number),
            };
            hop.offered(packet.color, len);
            if !room {
                hop.dropped(packet.color, len);
                self.lost.queue += 1;
                run.mark_word(now ^ (h as u64) << 48 ^ 2);
                self.let_go(number);
                return;
            }
            let at = hop.send(now, len);
            packet.at = at;
            if hop.watched {
                self.put_on(run, h, number);
                return;
            }
            let to = hop.to as usize;
            if hop.feeds && usize::from(packet.dst) != to && packet.ttl > 1 && !self.stations[to].has_ways_in() {
                let next = self.ways[to * self.stations.len() + usize::from(packet.dst)] as usize;
                if self.hops.get(next).is_some_and(|next| next.fed_by == h as u32) {
                    self.hops[h].delivered += 1;
                    packet.ttl -= 1;
                    if let Some(conditioning) = &mut self.hops[next].conditioning {
                        conditioning.mark(Time::from_nanos(at), packet);
                    }
                    (h, now) = (next, at);
                    continue;
                }
            }
            self.chain(run, h, number);
            return;
        }
    }

    /// Chains a packet behind the others on the wire.
    #[inline]
    fn chain(&mut self, run: &mut Run, h: usize, number: u32) {
        let hop = &mut self.hops[h];
        let packet = &mut self.packets[number];
        packet.next = NONE;
        let at = packet.at;
        let tail = std::mem::replace(&mut hop.tail, number);
        if tail == NONE {
            hop.head = number;
            run.put(Time::from_nanos(at), Due::Wire { hop: h as u32, age: hop.age });
        } else {
            self.packets[tail].next = number;
        }
    }

    /// Puts a packet whose `at` is set on the link. It may be captured, lost, doubled or late.
    pub(super) fn put_on(&mut self, run: &mut Run, h: usize, number: u32) {
        if !self.hops[h].watched {
            self.chain(run, h, number);
            return;
        }
        self.capture(h, number);
        let packet = self.packets[number];
        let Fate { first, second } = self.links[h / 2].fate(packet.kind == PacketKind::Signal);
        let at = Time::from_nanos(packet.at);
        if let Some(late) = second {
            self.hops[h].rest.counts.doubled += 1;
            let message = (packet.kind == PacketKind::Signal).then(|| self.messages.again(packet.flow));
            let double = self.packets.keep(SimPacket { flow: message.unwrap_or(packet.flow), ..packet });
            self.stray(run, h, double, at + late);
        }
        match first {
            Some(Span::ZERO) => self.chain(run, h, number),
            Some(late) => self.stray(run, h, number, at + late),
            None => {
                self.hops[h].rest.counts.lost += 1;
                run.mark_word(packet.at ^ (h as u64) << 48 ^ 8);
                self.let_go(number);
            }
        }
    }

    /// Captures a packet that leaves the node, if its direction is captured. Its `at` is set.
    fn capture(&mut self, h: usize, number: u32) {
        let Some(capture) = self.hops[h].rest.capture else { return };
        let packet = self.packets[number];
        let sending = self.hops[h].transmission(u32::from(packet.len));
        let left = packet.at.saturating_sub(self.hops[h].delay + sending);
        let (message, sizes) = match packet.kind {
            PacketKind::Data | PacketKind::Pooled => (None, (0, 0)),
            PacketKind::Signal => (self.messages.get(packet.flow), (0, 0)),
            _ => (None, self.labels.sizes(packet.flow)),
        };
        let headers = Headers::new(self.flow_of(number), message, sizes);
        self.captures[capture as usize].take(left, &packet, &headers);
    }

    /// Gives a packet that may overtake or be overtaken an event of its own.
    fn stray(&mut self, run: &mut Run, h: usize, number: u32, at: Time) {
        let hop = &mut self.hops[h];
        hop.rest.counts.strays += 1;
        run.put(at, Due::Stray { hop: h as u32, age: hop.age, packet: number });
    }

    /// Takes the first packet off a wire. With many connections, `expect` reads the state of the connection
    /// (its sender's, or its receiver's) that the next event of this wire needs, so that it is in the cache.
    #[inline(always)]
    pub(crate) fn wire(&mut self, run: &mut Run, h: usize, age: u32, expect: impl FnOnce(u32, bool)) -> Arrival {
        let hop = &mut self.hops[h];
        if hop.age != age {
            return Arrival::Under;
        }
        let number = hop.head;
        let next = self.packets[number].next;
        hop.head = next;
        hop.delivered += 1;
        if next == NONE {
            hop.tail = NONE;
        } else {
            let coming = &self.packets[next];
            let arrives = u32::from(coming.dst) == hop.to;
            run.put(Time::from_nanos(coming.at), Due::Wire { hop: h as u32, age });
            if self.looks_ahead {
                if coming.next != NONE {
                    black_box(self.packets[coming.next].at);
                }
                if arrives && matches!(coming.kind, PacketKind::Ack | PacketKind::Segment) {
                    expect(coming.flow, coming.kind == PacketKind::Ack);
                }
            }
        }
        self.arrive(run, h, number)
    }

    /// Takes a stray packet off its link.
    pub(crate) fn stray_arrives(&mut self, run: &mut Run, h: usize, age: u32, number: u32) -> Arrival {
        let hop = &mut self.hops[h];
        hop.rest.counts.strays -= 1;
        if hop.age != age {
            hop.rest.counts.cut += 1;
            self.let_go(number);
            return Arrival::Under;
        }
        hop.delivered += 1;
        self.arrive(run, h, number)
    }

    #[inline(always)]
    fn arrive(&mut self, run: &mut Run, h: usize, number: u32) -> Arrival {
        let packet = &self.packets[number];
        let now = run.now().as_nanos();
        run.mark_word(now ^ (h as u64) << 48 ^ u64::from(packet.len) << 32 ^ u64::from(packet.flow));
        if packet.kind == PacketKind::Signal {
            return Arrival::Message { hop: h as u32, number };
        }
        self.pass(run, h, number)
    }

    /// Takes a packet that no agent takes through the node at the far end of a direction.
    #[inline(always)]
    pub(crate) fn pass(&mut self, run: &mut Run, h: usize, number: u32) -> Arrival {
        let at = self.hops[h].to as usize;
        if self.stations[at].has_ways_in() && !self.comes_in(run, h, at, number) {
            return Arrival::Under;
        }
        let packet = &mut self.packets[number];
        if usize::from(packet.dst) != at {
            packet.ttl = packet.ttl.saturating_sub(1);
            if packet.ttl == 0 {
                self.lost.ttl += 1;
                self.let_go(number);
                return Arrival::Under;
            }
        }
        if self.forward(run, at, number) { Arrival::Here { at: at as u32, number } } else { Arrival::Under }
    }

    /// Takes a packet through the edge where it comes in, if there is one; false if it was dropped there.
    fn comes_in(&mut self, run: &mut Run, h: usize, at: usize, number: u32) -> bool {
        let now = run.now();
        let meta = self.meta(run, number);
        let n = position(self.map.end(LinkId(h / 2), 1 - h % 2).1);
        match self.stations[at].port_mut(n).arrive(now, meta) {
            Some(meta) => {
                self.packets[number].dscp = meta.dscp.0;
                true
            }
            None => {
                self.lost.queue += 1;
                run.mark([2, at as u64, n as u64]);
                self.let_go(number);
                false
            }
        }
    }

    /// The node and interface to which a direction leads.
    pub(crate) fn far_end(&self, h: usize) -> (NodeId, IfIndex) {
        (NodeId(self.hops[h].to as usize), self.map.end(LinkId(h / 2), 1 - h % 2).1)
    }

    /// True if an agent's socket takes this message: one for its node, or a passing one with Router Alert.
    pub(crate) fn is_for_agent(&self, at: NodeId, number: u32) -> bool {
        self.message(number).is_some_and(|message| message.alert) || usize::from(self.packets[number].dst) == at.0
    }

    /// The five-tuple of a packet.
    pub(super) fn flow_of(&self, number: u32) -> FlowKey {
        let packet = &self.packets[number];
        match packet.kind {
            PacketKind::Data => self.labels.of_source(packet.flow),
            PacketKind::Pooled => pool::flow_of(packet),
            PacketKind::Segment | PacketKind::Syn => self.labels.of_connection(packet.flow),
            PacketKind::Ack | PacketKind::SynAck => crate::labels::reverse(self.labels.of_connection(packet.flow)),
            PacketKind::Signal => match self.messages.get(packet.flow) {
                Some(message) => message.flow,
                None => {
                    let nobody = address(LinkId(0), 0);
                    FlowKey {
                        src: nobody,
                        dst: nobody,
                        protocol: RSVP,
                        src_port: 0,
                        dst_port: 0,
                        wild: terms::Wild::NONE,
                    }
                }
            },
        }
    }
}
