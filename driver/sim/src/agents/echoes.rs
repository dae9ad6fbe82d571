//! ICMP echoes that carry Boomerang. Every living agent on the way catches them, hosts without an agent
//! answer them, and routers without one forward them.
//!
//! A link keeps only the ICMP message. The IP header is made when an agent is told, with the packet's TTL.

use super::Turn;
use crate::packet::{IPV4_HEADER, MessageInFlight};
use crate::run_trace::TraceEvent;
use crate::scenario::NodeId;
use boomerang::Output;
use node::io::Input;
use std::rc::Rc;
use terms::signalling::BOOMERANG_PORT;
use terms::{FlowKey, IfIndex};
use wire::ip;

/// IP protocol number of ICMP.
pub(super) const ICMP: u8 = 1;

impl Turn<'_> {
    /// Tells an agent an echo, and sends out what it makes of it.
    pub(super) fn tell_echo(&mut self, at: NodeId, iif: IfIndex, flow: &FlowKey, ttl: u8, bytes: &[u8]) {
        let Ok(mut packet) = ip::packet(flow.src, flow.dst, ICMP, ttl, false, bytes) else { return };
        let now = self.run.now();
        if self.host(at).handle(now, Input::Echo { iif: Some(iif), packet: &mut packet }) {
            self.agents.echoed = packet;
            self.after(at);
        }
    }

    /// Carries out an output of Boomerang.
    pub(super) fn boomerang(&mut self, id: NodeId, said: Output) {
        match said {
            Output::Pass { oif, .. } => {
                let packet = std::mem::take(&mut self.agents.echoed);
                self.send_echo(id, oif, &packet);
            }
            Output::Send { oif, packet, .. } => self.send_echo(id, oif, &packet),
            Output::Upcall { app, upcall } => {
                self.run.tell(id, TraceEvent::Boomerang(app, upcall));
            }
            Output::Deliver | Output::Dropped(_) | Output::Event(_) => {}
        }
    }

    fn send_echo(&mut self, at: NodeId, oif: IfIndex, packet: &[u8]) {
        let Some(hop) = self.net.hop_of(at, oif) else { return };
        let Some(number) = self.keep_echo(packet) else { return };
        self.net.put_out(self.run, hop, number);
    }

    fn keep_echo(&mut self, packet: &[u8]) -> Option<u32> {
        let header = ip::Packet::parse(packet).ok()?;
        self.run.mark_bytes(header.payload());
        let (src, dst) = (header.src(), header.dst());
        let flow = FlowKey {
            src,
            dst,
            protocol: ICMP,
            src_port: BOOMERANG_PORT,
            dst_port: BOOMERANG_PORT,
            wild: terms::Wild::NONE,
        };
        let len = IPV4_HEADER + header.payload().len() as u32;
        // Whoever has an agent looks at it, though there is no Router Alert: agents catch by ICMP type and magic.
        let message = MessageInFlight { flow, alert: true, bytes: Rc::from(header.payload()) };
        Some(self.net.keep_message(message, header.ttl(), len, self.run.now()))
    }

    /// Answers a ping at a host without an agent.
    pub(super) fn ping(&mut self, at: NodeId, message: &MessageInFlight) {
        let FlowKey { src, dst, .. } = message.flow;
        let Ok(mut packet) = ip::packet(src, dst, ICMP, 64, false, &message.bytes) else { return };
        if wire::boomerang::answered(&mut packet)
            && let Some(number) = self.keep_echo(&packet)
            && self.net.forward(self.run, at.0, number)
        {
            self.take(at, number);
        }
    }
}
