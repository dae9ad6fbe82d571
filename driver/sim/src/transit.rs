//! Packets on their way: into a port, onto a link, out of it, and on to the next.

use crate::map::{address, position};
use crate::packet::{Body, IPV4_HEADER, Packet, ROUTER_ALERT, RSVP};
use crate::scenario::NodeId;
use crate::world::{Due, Heard, World};
use node::io::{Datagram, Input};
use std::rc::Rc;
use terms::{Dscp, FlowKey, IfIndex, PacketMeta};
use traffic::port::Verdict;

impl World {
    /// A packet that starts here, or passes through.
    pub(crate) fn forward(&mut self, at: NodeId, packet: Packet) {
        let dst = packet.flow.dst;
        if self.map.owner(dst) == Some(at) {
            self.take(at, &packet);
            return;
        }
        match self.map.way_out(at, dst) {
            Some(oif) => self.put_out(at, oif, packet),
            None => self.lost.no_way += 1,
        }
    }

    /// An agent sends a message.
    pub(crate) fn send(&mut self, at: NodeId, datagram: Datagram) {
        let Datagram { oif, src, dst, ttl, router_alert, bytes } = datagram;
        self.story.mark_bytes(&bytes);
        let header = IPV4_HEADER + if router_alert { ROUTER_ALERT } else { 0 };
        let packet = Packet {
            flow: FlowKey { src, dst, protocol: RSVP, src_port: 0, dst_port: 0 },
            len: header + bytes.len() as u32,
            ttl,
            body: Body::Signal { alert: router_alert, bytes: Rc::from(bytes) },
        };
        match oif {
            Some(oif) => self.put_out(at, oif, packet),
            None => self.forward(at, packet),
        }
    }

    fn put_out(&mut self, at: NodeId, oif: IfIndex, packet: Packet) {
        let Some(n) = self.interface_of(at, oif) else {
            self.lost.no_way += 1;
            return;
        };
        if !self.map.is_up(self.map.attachments(at)[n].link) {
            self.lost.no_way += 1;
            return;
        }
        let now = self.now();
        let meta = PacketMeta { flow: packet.flow, len: packet.len, dscp: Dscp(0), arrival: now, id: 0 };
        let id = self.keep(packet);
        let port = &mut self.stations[at.0].interfaces[n].port;
        if let Verdict::Dropped { .. } = port.enqueue(now, PacketMeta { id: u64::from(id), ..meta }) {
            self.lost.queue += 1;
            self.story.mark(&[now.as_nanos(), 2, at.0 as u64, n as u64]);
            self.let_go(id);
        }
        self.send_next(at.0, n);
    }

    /// If the link is free: the next packet of the port goes.
    pub(crate) fn send_next(&mut self, at: usize, n: usize) {
        let now = self.now();
        let attachment = self.map.attachments(NodeId(at))[n];
        let interface = &mut self.stations[at].interfaces[n];
        if interface.busy || !self.map.is_up(attachment.link) {
            return;
        }
        let Some(meta) = interface.port.dequeue(now) else {
            let due = interface.port.wake_at().map(|due| due.max(now));
            if let Some(due) = due.filter(|due| interface.alarm.is_none_or(|set| *due < set)) {
                interface.alarm = Some(due);
                self.agenda.put(due, Due::Look { node: at as u32, interface: n as u32 });
            }
            return;
        };
        interface.busy = true;
        let link = &mut self.links[attachment.link.0];
        let free = now + link.transmission(meta.len);
        let (number, age) = (attachment.link.0 as u32, link.age);
        let id = meta.id as u32;
        let Some(packet) = self.packets[id as usize].as_ref() else { return };
        let [first, second] = link.fates(attachment.side, packet);
        let copy = second.is_some().then(|| packet.clone());
        self.agenda.put(free, Due::Free { node: at as u32, interface: n as u32 });
        let side = attachment.side as u8;
        match first {
            Some(delay) => self.agenda.put(free + delay, Due::Arrive { link: number, side, age, packet: id }),
            None => drop(self.let_go(id)),
        }
        if let (Some(delay), Some(copy)) = (second, copy) {
            let packet = self.keep(copy);
            self.agenda.put(free + delay, Due::Arrive { link: number, side, age, packet });
        }
    }

    /// A packet comes out of the link; `side` is the end where it went in.
    pub(crate) fn arrive(&mut self, link: usize, side: usize, age: u32, number: u32) {
        let Some(mut packet) = self.let_go(number) else { return };
        let now = self.now();
        let counts = &mut self.links[link].counts[side];
        counts.in_flight -= 1;
        if self.links[link].age != age {
            self.links[link].counts[side].cut += 1;
            return;
        }
        self.links[link].counts[side].delivered += 1;
        let (at, iif) = self.map.end(crate::scenario::LinkId(link), 1 - side);
        self.story.mark(&[now.as_nanos(), 3, link as u64, side as u64, u64::from(packet.len)]);
        if self.is_for_agent(at, &packet) {
            self.tell_message(at, iif, &packet);
            return;
        }
        if self.map.owner(packet.flow.dst) == Some(at) {
            self.take(at, &packet);
            return;
        }
        packet.ttl = packet.ttl.saturating_sub(1);
        if packet.ttl == 0 {
            self.lost.ttl += 1;
            return;
        }
        self.forward(at, packet);
    }

    /// A living agent's socket takes messages for its node, and those with Router Alert that pass.
    fn is_for_agent(&self, at: NodeId, packet: &Packet) -> bool {
        let Body::Signal { alert, .. } = packet.body else { return false };
        self.stations[at.0].agent.is_some() && (alert || self.map.owner(packet.flow.dst) == Some(at))
    }

    fn tell_message(&mut self, at: NodeId, iif: IfIndex, packet: &Packet) {
        let Body::Signal { bytes, .. } = &packet.body else { return };
        let bytes = Rc::clone(bytes);
        let FlowKey { src, dst, .. } = packet.flow;
        if let Some(heard) = &mut self.heard {
            heard.push(Heard { at: self.agenda.now(), node: at, iif, bytes: Rc::clone(&bytes) });
        }
        self.tell(at, Input::Message { iif, src, dst, ttl: packet.ttl, bytes: &bytes });
    }

    /// A packet has reached its destination.
    fn take(&mut self, at: NodeId, packet: &Packet) {
        let now = self.now();
        match &packet.body {
            Body::Data(data) => self.sinks[data.source as usize].arrived(now, data),
            // From this node to itself, without a link between.
            Body::Signal { .. } if self.stations[at.0].agent.is_some() => self.tell_message(at, IfIndex(0), packet),
            Body::Signal { .. } => self.lost.unclaimed += 1,
        }
    }

    /// A link goes down or comes back: what is on it is lost, everyone finds new ways, and both ends are told.
    pub(crate) fn set_link(&mut self, link: crate::scenario::LinkId, up: bool) {
        if self.map.is_up(link) == up {
            return;
        }
        self.map = Rc::new(self.map.with(link, up));
        if !up {
            self.links[link.0].age += 1;
        }
        for station in &mut self.stations {
            if let Some(agent) = &mut station.agent {
                agent.route_mut().map = Rc::clone(&self.map);
            }
        }
        for side in 0..2 {
            let (node, interface) = self.map.end(link, side);
            debug_assert!(
                self.stations[node.0].interfaces[position(interface)].state.addresses == [address(link, side)]
            );
            self.tell_interface(node, position(interface));
            self.send_next(node.0, position(interface));
        }
        for id in (0..self.stations.len()).map(NodeId) {
            self.tell(id, Input::RouteChanged(None));
        }
    }
}
