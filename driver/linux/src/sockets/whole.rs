//! Whole IP packets given out as they are: Boomerang's messages, which keep the source that they came with.

use super::MessageSender;
use super::sender::Waiting;
use crate::error::SystemError;
use std::net::IpAddr;
use terms::IfIndex;

impl MessageSender {
    /// Lets a whole packet to `dst` wait for [`MessageSender::flush`]; it leaves by `oif`, towards the next hop that the kernel's
    /// routes have there. `lost` hears what could not be sent.
    pub fn push_packet(&mut self, oif: IfIndex, dst: IpAddr, packet: &[u8], lost: impl FnMut(SystemError)) {
        self.make_room(lost);
        self.bytes.extend_from_slice(packet);
        self.waiting.push(Waiting { end: self.bytes.len(), oif: Some(oif), dst });
    }
}
