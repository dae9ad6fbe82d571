//! Messages at nodes: agents and hosts take them from the net.

use super::echoes::ICMP;
use super::{HeardMessage, Turn};
use crate::net::Arrival;
use crate::packet::MessageInFlight;
use crate::scenario::NodeId;
use node::io::Input;
use std::rc::Rc;
use terms::{FlowKey, IfIndex};

impl Turn<'_> {
    /// Gives a message that came off a link to the node's agent, if it is for that. If not, the message goes
    /// on. Returns its packet if this node is its destination.
    pub(crate) fn comes_off(&mut self, hop: u32, number: u32) -> Arrival {
        let hop = hop as usize;
        let (at, iif) = self.net.far_end(hop);
        if self.agents.agent(at).is_some() && self.net.is_for_agent(at, number) {
            self.tell_message(at, iif, number);
            return Arrival::Under;
        }
        self.net.pass(self.run, hop, number)
    }

    /// Takes a message at its destination.
    pub(crate) fn take(&mut self, at: NodeId, number: u32) {
        if self.agents.agent(at).is_some() {
            // From this node to itself, without a link between.
            return self.tell_message(at, IfIndex(0), number);
        }
        let message = self.net.message(number).filter(|message| message.flow.protocol == ICMP).cloned();
        match message {
            Some(message) => {
                self.net.let_go(number);
                self.ping(at, &message);
            }
            None => self.net.unclaimed(number),
        }
    }

    fn tell_message(&mut self, at: NodeId, iif: IfIndex, number: u32) {
        let ttl = self.net.packet(number).ttl;
        let Some(MessageInFlight { flow, bytes, .. }) = self.net.message(number).cloned() else { return };
        self.net.let_go(number);
        if flow.protocol == ICMP {
            return self.tell_echo(at, iif, &flow, ttl, &bytes);
        }
        if let Some(heard) = &mut self.agents.heard {
            heard.push(HeardMessage { at: self.run.now(), node: at, iif, bytes: Rc::clone(&bytes) });
        }
        let FlowKey { src, dst, .. } = flow;
        self.tell(at, Input::Message { iif, src, dst, ttl, bytes: &bytes });
    }
}
