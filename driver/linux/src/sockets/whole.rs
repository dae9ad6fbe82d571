//! Sending whole IP packets unchanged: Boomerang's messages, which keep their original source.

use super::MessageSender;
use super::sender::Waiting;
use crate::error::SystemError;
use std::net::IpAddr;
use terms::IfIndex;

impl MessageSender {
    /// Adds a whole packet to `dst` to the buffer for [`MessageSender::flush`]; it leaves by `oif`, to the
    /// next hop of the kernel's route there. `lost` gets an error for each packet that cannot be sent.
    pub fn push_packet(&mut self, oif: IfIndex, dst: IpAddr, packet: &[u8], lost: impl FnMut(SystemError)) {
        self.make_room(lost);
        self.bytes.extend_from_slice(packet);
        self.waiting.push(Waiting { end: self.bytes.len(), oif: Some(oif), dst });
    }
}
