//! TCP at the ends: packets arrive at senders and receivers, their answers are sent, and their timers run.

use super::Connections;
use crate::net::Net;
use crate::packet::{NONE, PacketKind, SimPacket};
use crate::run::{Due, Run};
use crate::tcp::sender::SenderPhase;
use crate::tcp::{AckTiming, Blocks, SYN_LEN, Segment, ack_len};
use terms::Time;

impl Connections {
    /// A segment of data arrives at its receiver.
    pub(crate) fn segment(&mut self, run: &mut Run, net: &mut Net, number: u32) {
        let now = run.now();
        let packet = net.packet(number);
        let (flow, segment) = (packet.flow, packet.words[0]);
        let end = &mut self.receivers[flow as usize];
        let conduct = &self.conducts[usize::from(end.conduct)];
        let (answer, _) = end.tcp.arrived(conduct, now, segment);
        if answer == AckTiming::Later {
            let due = end.tcp.wake_at().as_nanos();
            if due < end.alarm {
                end.alarm = due;
                run.put(Time::from_nanos(due), Due::Receiver(flow));
            }
            net.let_go(number);
            return;
        }
        // The acknowledgement takes the segment's place, which is in the cache.
        let (hop, packet) = self.acknowledgement_of(flow, run.now());
        net.replace(number, packet);
        start(run, net, hop, number);
    }

    /// A receiver's acknowledgement, and the direction by which it leaves.
    #[inline(always)]
    fn acknowledgement_of(&self, flow: u32, now: Time) -> (u32, SimPacket) {
        let end = &self.receivers[flow as usize];
        let (ack, blocks) = end.tcp.acknowledgement();
        let mut words = [ack, 0, 0, 0, 0, 0, 0];
        let mut n = 0;
        if blocks[0].1 != 0 {
            for (place, (from, to)) in words[1..].chunks_exact_mut(2).zip(blocks) {
                place.copy_from_slice(&[from, to]);
                n += u32::from(to != 0);
            }
        }
        let mut packet = SimPacket::new(PacketKind::Ack, flow, ack_len(n), end.peer, now);
        (packet.words, packet.dscp) = (words, end.dscp);
        (end.hop, packet)
    }

    /// An acknowledgement arrives at its sender.
    pub(crate) fn acknowledgement(&mut self, run: &mut Run, net: &mut Net, number: u32) {
        let now = run.now();
        let packet = net.packet(number);
        let (flow, [ack, a, b, c, d, e, f]) = (packet.flow, packet.words);
        let blocks: Blocks = [(a, b), (c, d), (e, f)];
        let end = &mut self.senders[flow as usize];
        let conduct = &self.conducts[usize::from(end.conduct)];
        end.tcp.acknowledged(conduct, now, ack, &blocks);
        if end.tcp.is_finished() {
            self.finished(now, flow);
        }
        self.pump(run, net, flow, number);
    }

    #[cold]
    fn finished(&mut self, now: Time, flow: u32) {
        let details = &mut self.details[flow as usize];
        if details.spec.bytes.is_some() && details.finished.is_none() {
            details.finished = Some(now);
        }
    }

    /// Sends all segments that a sender may send. The first takes the place of packet `place`, if one is
    /// given.
    fn pump(&mut self, run: &mut Run, net: &mut Net, flow: u32, mut place: u32) {
        let now = run.now();
        loop {
            let end = &mut self.senders[flow as usize];
            let conduct = &self.conducts[usize::from(end.conduct)];
            let Some(segment) = end.tcp.poll(conduct, now) else { break };
            let (kind, word, len) = match segment {
                Segment::Syn => (PacketKind::Syn, 0, SYN_LEN),
                Segment::New(n) | Segment::Again(n) if n == end.last => {
                    (PacketKind::Segment, n, u32::from(end.last_len))
                }
                Segment::New(n) | Segment::Again(n) => (PacketKind::Segment, n, u32::from(end.full_len)),
            };
            let mut packet = SimPacket::new(kind, flow, len, end.peer, now);
            (packet.words[0], packet.dscp) = (word, end.dscp);
            let hop = end.hop;
            let number = if place == NONE {
                net.keep(packet)
            } else {
                net.replace(place, packet);
                std::mem::replace(&mut place, NONE)
            };
            start(run, net, hop, number);
        }
        if place != NONE {
            net.let_go(place);
        }
        self.set_sender_alarm(run, flow);
    }

    #[inline]
    fn set_sender_alarm(&mut self, run: &mut Run, flow: u32) {
        let end = &mut self.senders[flow as usize];
        let due = end.tcp.wake_at();
        if due.as_nanos() < end.alarm {
            end.alarm = due.as_nanos();
            run.put(due, Due::Sender(flow));
        }
    }

    /// Handles a SYN or its answer.
    pub(crate) fn handshake(&mut self, run: &mut Run, net: &mut Net, number: u32) {
        let now = run.now();
        let packet = *net.packet(number);
        let flow = packet.flow;
        if packet.kind == PacketKind::Syn {
            let end = &self.receivers[flow as usize];
            let (hop, dst) = (end.hop, end.peer);
            let dscp = packet.dscp;
            net.replace(number, SimPacket { dscp, ..SimPacket::new(PacketKind::SynAck, flow, SYN_LEN, dst, now) });
            start(run, net, hop, number);
            return;
        }
        let end = &mut self.senders[flow as usize];
        if end.tcp.phase() == SenderPhase::Opening {
            end.tcp.opened(&self.conducts[usize::from(end.conduct)], now);
            self.details[flow as usize].opened = Some(now);
        }
        self.pump(run, net, flow, number);
    }

    /// Opens a connection.
    pub(crate) fn open(&mut self, run: &mut Run, net: &mut Net, flow: u32) {
        let now = run.now();
        run.mark([9, u64::from(flow)]);
        self.senders[flow as usize].tcp.open(now);
        self.pump(run, net, flow, NONE);
    }

    /// Ends a connection's new data.
    pub(crate) fn stop(&mut self, flow: u32) {
        self.senders[flow as usize].tcp.stop();
    }

    /// Handles the event of a sender's timer.
    pub(crate) fn sender_due(&mut self, run: &mut Run, net: &mut Net, flow: u32) {
        let now = run.now();
        let end = &mut self.senders[flow as usize];
        if end.alarm != now.as_nanos() {
            // Another was set since, for earlier.
            return;
        }
        end.alarm = u64::MAX;
        if now >= end.tcp.wake_at() {
            run.mark([10, u64::from(flow)]);
            end.tcp.wake(&self.conducts[usize::from(end.conduct)], now);
            self.pump(run, net, flow, NONE);
        } else {
            self.set_sender_alarm(run, flow);
        }
    }

    /// Handles the event of a receiver's timer.
    pub(crate) fn receiver_due(&mut self, run: &mut Run, net: &mut Net, flow: u32) {
        let now = run.now();
        let end = &mut self.receivers[flow as usize];
        if end.alarm != now.as_nanos() {
            return;
        }
        end.alarm = u64::MAX;
        if end.tcp.wake(now) {
            let (hop, packet) = self.acknowledgement_of(flow, now);
            let number = net.keep(packet);
            start(run, net, hop, number);
            return;
        }
        let due = end.tcp.wake_at();
        if due != Time::FOREVER {
            end.alarm = due.as_nanos();
            run.put(due, Due::Receiver(flow));
        }
    }
}

/// Sends a packet from its host.
#[inline]
fn start(run: &mut Run, net: &mut Net, hop: u32, number: u32) {
    if hop == NONE {
        net.no_way(number);
    } else {
        net.put_out(run, hop as usize, number);
    }
}
