//! Packets on their way: into a queue, onto a link, off it, and to the next node.

use crate::boomerang_packets::ICMP;
use crate::hop::HopQueue;
use crate::link::Fate;
use crate::map::{address, position};
use crate::packet::{IPV4_HEADER, MessageInFlight, NONE, PacketKind, ROUTER_ALERT, RSVP, SimPacket};
use crate::scenario::{LinkId, NodeId};
use crate::world::{Due, HeardMessage, World};
use node::io::{Datagram, Input};
use std::hint::black_box;
use std::rc::Rc;
use terms::{FlowKey, IfIndex, Span, Time};

/// Number of connections whose packets and states fit in caches.
const FEW: usize = 2_000;

impl World {
    /// Forwards a packet from a node, or takes it if this is its destination.
    #[inline]
    pub(crate) fn forward(&mut self, at: usize, number: u32) {
        let dst = usize::from(self.packets[number].dst);
        if dst == at {
            self.take(at, number);
            return;
        }
        let hop = self.ways[at * self.stations.len() + dst];
        if hop == NONE {
            self.lost.no_way += 1;
            self.let_go(number);
            return;
        }
        self.put_out(hop as usize, number);
    }

    /// Sends an agent's message.
    pub(crate) fn send(&mut self, at: NodeId, datagram: Datagram) {
        let Datagram { oif, src, dst, ttl, router_alert, bytes } = datagram;
        self.story.mark_bytes(&bytes);
        let header = IPV4_HEADER + if router_alert { ROUTER_ALERT } else { 0 };
        let len = header + bytes.len() as u32;
        let flow = FlowKey { src, dst, protocol: RSVP, src_port: 0, dst_port: 0, wild: terms::Wild::NONE };
        let to = self.map.owner(dst).map_or(u16::MAX, |node| node.0 as u16);
        let message = self.messages.keep(MessageInFlight { flow, alert: router_alert, bytes: Rc::from(bytes) });
        let number =
            self.packets.keep(SimPacket { ttl, ..SimPacket::new(PacketKind::Signal, message, len, to, self.now()) });
        let hop = match oif {
            Some(oif) => self.hop_of(at, oif),
            None if usize::from(to) == at.0 => return self.take(at.0, number),
            None => self.way(at.0, usize::from(to)),
        };
        match hop {
            Some(hop) => self.put_out(hop, number),
            None => {
                self.lost.no_way += 1;
                self.let_go(number);
            }
        }
    }

    /// The direction of a link behind an interface.
    pub(crate) fn hop_of(&self, at: NodeId, oif: IfIndex) -> Option<usize> {
        let a = self.map.attachments(at).get(position(oif))?;
        Some(2 * a.link.0 + a.side)
    }

    /// The direction of a link by which packets leave for a node; `None` if there is no route.
    pub(crate) fn way(&self, at: usize, dst: usize) -> Option<usize> {
        let hop = self.ways.get(at * self.stations.len() + dst).copied().filter(|_| dst < self.stations.len())?;
        (hop != NONE).then_some(hop as usize)
    }

    /// Puts a packet into a direction: through its conditioner to its queue.
    pub(crate) fn put_out(&mut self, h: usize, number: u32) {
        let now = self.agenda.now();
        let hop = &mut self.hops[h];
        if !hop.up {
            self.lost.no_way += 1;
            self.let_go(number);
            return;
        }
        if let Some(conditioning) = &mut hop.conditioning {
            if conditioning.shapes() {
                self.shape(h, number);
                return;
            }
            conditioning.mark(now, &mut self.packets[number]);
        }
        self.queue(h, number, now.as_nanos());
    }

    /// Queues a packet at `now`. That is later than the present event if the packet was sent ahead over this
    /// direction's only feeder.
    pub(crate) fn queue(&mut self, mut h: usize, number: u32, mut now: u64) {
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
                HopQueue::Port => return self.enter_port(h, number),
                HopQueue::Tree(_) => return self.enter_tree(h, number),
            };
            hop.offered(packet.color, len);
            if !room {
                hop.dropped(packet.color, len);
                self.lost.queue += 1;
                self.story.mark_word(now ^ (h as u64) << 48 ^ 2);
                self.let_go(number);
                return;
            }
            let at = hop.send(now, len);
            packet.at = at;
            if hop.watched {
                self.put_on(h, number);
                return;
            }
            let to = hop.to as usize;
            if hop.feeds && usize::from(packet.dst) != to && packet.ttl > 1 {
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
            self.chain(h, number);
            return;
        }
    }

    /// Chains a packet behind the others on the wire.
    #[inline]
    fn chain(&mut self, h: usize, number: u32) {
        let hop = &mut self.hops[h];
        let packet = &mut self.packets[number];
        packet.next = NONE;
        let at = packet.at;
        let tail = std::mem::replace(&mut hop.tail, number);
        if tail == NONE {
            hop.head = number;
            self.agenda.put(Time::from_nanos(at), Due::Wire { hop: h as u32, age: hop.age });
        } else {
            self.packets[tail].next = number;
        }
    }

    /// Puts a packet whose `at` is set on the link. It may be captured, lost, doubled or late.
    pub(crate) fn put_on(&mut self, h: usize, number: u32) {
        if !self.hops[h].watched {
            self.chain(h, number);
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
            self.stray(h, double, at + late);
        }
        match first {
            Some(Span::ZERO) => self.chain(h, number),
            Some(late) => self.stray(h, number, at + late),
            None => {
                self.hops[h].rest.counts.lost += 1;
                self.story.mark_word(packet.at ^ (h as u64) << 48 ^ 8);
                self.let_go(number);
            }
        }
    }

    /// Gives a packet that may overtake or be overtaken an event of its own.
    fn stray(&mut self, h: usize, number: u32, at: Time) {
        let hop = &mut self.hops[h];
        hop.rest.counts.strays += 1;
        self.agenda.put(at, Due::Stray { hop: h as u32, age: hop.age, packet: number });
    }

    /// Takes the first packet off a wire.
    #[inline]
    pub(crate) fn wire(&mut self, h: usize, age: u32) {
        let hop = &mut self.hops[h];
        if hop.age != age {
            return;
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
            self.agenda.put(Time::from_nanos(coming.at), Due::Wire { hop: h as u32, age });
            if self.tcp.senders.len() > FEW {
                self.expect(arrives, next);
            }
        }
        self.arrive(h, number);
    }

    /// Reads the state that the next event of this wire needs, and the packet after it, so that they are in
    /// the cache. With many connections they would not be.
    #[inline]
    fn expect(&self, arrives: bool, number: u32) {
        let packet = &self.packets[number];
        if packet.next != NONE {
            black_box(self.packets[packet.next].at);
        }
        if arrives && matches!(packet.kind, PacketKind::Ack | PacketKind::Segment) {
            black_box(self.tcp.expect(packet.flow, packet.kind == PacketKind::Ack));
        }
    }

    /// Takes a stray packet off its link.
    pub(crate) fn stray_arrives(&mut self, h: usize, age: u32, number: u32) {
        let hop = &mut self.hops[h];
        hop.rest.counts.strays -= 1;
        if hop.age != age {
            hop.rest.counts.cut += 1;
            self.let_go(number);
            return;
        }
        hop.delivered += 1;
        self.arrive(h, number);
    }

    #[inline]
    fn arrive(&mut self, h: usize, number: u32) {
        let at = self.hops[h].to as usize;
        let packet = &mut self.packets[number];
        let now = self.agenda.now().as_nanos();
        self.story.mark_word(now ^ (h as u64) << 48 ^ u64::from(packet.len) << 32 ^ u64::from(packet.flow));
        if packet.kind == PacketKind::Signal && self.is_for_agent(at, number) {
            let iif = self.map.end(LinkId(h / 2), 1 - h % 2).1;
            self.tell_message(at, iif, number);
            return;
        }
        let packet = &mut self.packets[number];
        if usize::from(packet.dst) != at {
            packet.ttl = packet.ttl.saturating_sub(1);
            if packet.ttl == 0 {
                self.lost.ttl += 1;
                self.let_go(number);
                return;
            }
        }
        self.forward(at, number);
    }

    /// True if a living agent's socket takes this message: one for its node, or a passing one with Router
    /// Alert.
    fn is_for_agent(&self, at: usize, number: u32) -> bool {
        let packet = &self.packets[number];
        let alert = self.messages.get(packet.flow).is_some_and(|message| message.alert);
        self.stations[at].agent.is_some() && (alert || usize::from(packet.dst) == at)
    }

    fn tell_message(&mut self, at: usize, iif: IfIndex, number: u32) {
        let packet = self.packets[number];
        let Some(MessageInFlight { flow, bytes, .. }) = self.messages.get(packet.flow).cloned() else { return };
        self.let_go(number);
        if flow.protocol == ICMP {
            return self.tell_echo(at, iif, &flow, packet.ttl, &bytes);
        }
        if let Some(heard) = &mut self.heard {
            heard.push(HeardMessage { at: self.agenda.now(), node: NodeId(at), iif, bytes: Rc::clone(&bytes) });
        }
        let FlowKey { src, dst, .. } = flow;
        self.tell(NodeId(at), Input::Message { iif, src, dst, ttl: packet.ttl, bytes: &bytes });
    }

    /// Delivers a packet at its destination.
    #[inline]
    fn take(&mut self, at: usize, number: u32) {
        let packet = &self.packets[number];
        match packet.kind {
            PacketKind::Segment => self.segment(number),
            PacketKind::Ack => self.acknowledgement(number),
            PacketKind::Syn | PacketKind::SynAck => self.handshake(number),
            PacketKind::Data => {
                let data = packet.data();
                self.sinks[data.source as usize].arrived(self.agenda.now(), &data);
                self.kept_promise(at, number);
                self.let_go(number);
            }
            // From this node to itself, without a link between.
            PacketKind::Signal if self.stations[at].agent.is_some() => self.tell_message(at, IfIndex(0), number),
            PacketKind::Signal => {
                let message = self.messages.get(packet.flow).filter(|message| message.flow.protocol == ICMP).cloned();
                if let Some(message) = message {
                    self.let_go(number);
                    return self.ping(at, &message);
                }
                self.lost.unclaimed += 1;
                self.let_go(number);
            }
        }
    }

    /// Removes a packet and the message in it.
    #[inline]
    pub(crate) fn let_go(&mut self, number: u32) {
        let packet = &self.packets[number];
        if packet.kind == PacketKind::Signal {
            self.messages.let_go(packet.flow);
        }
        self.packets.let_go(number);
    }

    /// The five-tuple of a packet.
    pub(crate) fn flow_of(&self, number: u32) -> FlowKey {
        let packet = &self.packets[number];
        match packet.kind {
            PacketKind::Data => self.sources[packet.flow as usize].spec().flow,
            PacketKind::Segment | PacketKind::Syn => self.tcp.flow(packet.flow),
            PacketKind::Ack | PacketKind::SynAck => crate::connections::reverse(self.tcp.flow(packet.flow)),
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
