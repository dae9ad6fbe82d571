//! ICMP echoes that carry Boomerang. Every living agent on the way catches them, hosts without an agent
//! answer them, and routers without one forward them.
//!
//! A link keeps only the ICMP message. The IP header is made when an agent is told, with the packet's TTL.

use crate::packet::{IPV4_HEADER, MessageInFlight, PacketKind, SimPacket};
use crate::run_trace::TraceEvent;
use crate::scenario::NodeId;
use crate::world::World;
use boomerang::Output;
use node::io::Input;
use std::rc::Rc;
use terms::{FlowKey, IfIndex};
use traffic::port::BOOMERANG;
use wire::ip;

/// IP protocol number of ICMP.
pub(crate) const ICMP: u8 = 1;

impl World {
    /// Tells an agent an echo, and sends out what it makes of it.
    pub(crate) fn tell_echo(&mut self, at: usize, iif: IfIndex, flow: &FlowKey, ttl: u8, bytes: &[u8]) {
        let Ok(mut packet) = ip::packet(flow.src, flow.dst, ICMP, ttl, false, bytes) else { return };
        let now = self.now();
        let Some(agent) = &mut self.stations[at].agent else { return };
        agent.handle(now, Input::Echo { iif: Some(iif), packet: &mut packet });
        self.echoed = packet;
        self.after(NodeId(at));
    }

    /// Carries out an output of Boomerang.
    pub(crate) fn boomerang(&mut self, id: NodeId, said: Output) {
        match said {
            Output::Pass { oif, .. } => {
                let packet = std::mem::take(&mut self.echoed);
                self.send_echo(id, oif, &packet);
            }
            Output::Send { oif, packet, .. } => self.send_echo(id, oif, &packet),
            Output::Upcall { app, upcall } => {
                let now = self.now();
                self.story.tell(now, id, TraceEvent::Boomerang(app, upcall));
            }
            Output::Deliver | Output::Dropped(_) | Output::Event(_) => {}
        }
    }

    fn send_echo(&mut self, at: NodeId, oif: IfIndex, packet: &[u8]) {
        let Some(hop) = self.hop_of(at, oif) else { return };
        let Some(number) = self.keep_echo(packet) else { return };
        self.put_out(hop, number);
    }

    fn keep_echo(&mut self, packet: &[u8]) -> Option<u32> {
        let header = ip::Packet::parse(packet).ok()?;
        self.story.mark_bytes(header.payload());
        let (src, dst) = (header.src(), header.dst());
        let flow =
            FlowKey { src, dst, protocol: ICMP, src_port: BOOMERANG, dst_port: BOOMERANG, wild: terms::Wild::NONE };
        let to = self.map.owner(flow.dst).map_or(u16::MAX, |node| node.0 as u16);
        let len = IPV4_HEADER + header.payload().len() as u32;
        // Whoever has an agent looks at it, though there is no Router Alert: agents catch by ICMP type and magic.
        let message = self.messages.keep(MessageInFlight { flow, alert: true, bytes: Rc::from(header.payload()) });
        Some(
            self.packets.keep(SimPacket {
                ttl: header.ttl(),
                ..SimPacket::new(PacketKind::Signal, message, len, to, self.now())
            }),
        )
    }

    /// Answers a ping at a host without an agent.
    pub(crate) fn ping(&mut self, at: usize, message: &MessageInFlight) {
        let FlowKey { src, dst, .. } = message.flow;
        let Ok(mut packet) = ip::packet(src, dst, ICMP, 64, false, &message.bytes) else { return };
        if wire::boomerang::answered(&mut packet)
            && let Some(number) = self.keep_echo(&packet)
        {
            self.forward(at, number);
        }
    }
}
