//! TCP at the ends: packets arrive at senders and receivers, their answers are sent, and their timers run.

use crate::packet::{NONE, PacketKind, SimPacket};
use crate::tcp::sender::SenderPhase;
use crate::tcp::{AckTiming, Blocks, SYN_LEN, Segment, ack_len};
use crate::world::{Due, World};
use terms::Time;

impl World {
    /// A segment of data arrives at its receiver.
    pub(crate) fn segment(&mut self, number: u32) {
        let now = self.agenda.now();
        let packet = &self.packets[number];
        let (flow, segment) = (packet.flow, packet.words[0]);
        let end = &mut self.tcp.receivers[flow as usize];
        let conduct = &self.tcp.conducts[usize::from(end.conduct)];
        let (answer, _) = end.tcp.arrived(conduct, now, segment);
        if answer == AckTiming::Later {
            let due = end.tcp.wake_at().as_nanos();
            if due < end.alarm {
                end.alarm = due;
                self.agenda.put(Time::from_nanos(due), Due::Receiver(flow));
            }
            self.let_go(number);
            return;
        }
        // The acknowledgement takes the segment's place, which is in the cache.
        self.packets.gone += 1;
        self.packets.born += 1;
        self.acknowledge(flow, number);
    }

    /// Sends a receiver's acknowledgement, in the place of packet `number`.
    fn acknowledge(&mut self, flow: u32, number: u32) {
        let end = &self.tcp.receivers[flow as usize];
        let (ack, blocks) = end.tcp.acknowledgement();
        let mut words = [ack, 0, 0, 0, 0, 0, 0];
        let mut n = 0;
        if blocks[0].1 != 0 {
            for (place, (from, to)) in words[1..].chunks_exact_mut(2).zip(blocks) {
                place.copy_from_slice(&[from, to]);
                n += u32::from(to != 0);
            }
        }
        let packet = &mut self.packets[number];
        let mut fresh = SimPacket::new(PacketKind::Ack, flow, ack_len(n), end.peer, self.agenda.now());
        (fresh.words, fresh.dscp) = (words, end.dscp);
        *packet = fresh;
        self.start(end.hop, number);
    }

    /// An acknowledgement arrives at its sender.
    pub(crate) fn acknowledgement(&mut self, number: u32) {
        let now = self.agenda.now();
        let packet = &self.packets[number];
        let (flow, [ack, a, b, c, d, e, f]) = (packet.flow, packet.words);
        let blocks: Blocks = [(a, b), (c, d), (e, f)];
        let end = &mut self.tcp.senders[flow as usize];
        let conduct = &self.tcp.conducts[usize::from(end.conduct)];
        end.tcp.acknowledged(conduct, now, ack, &blocks);
        if end.tcp.is_finished() {
            self.finished(flow);
        }
        self.pump(flow, number);
    }

    #[cold]
    fn finished(&mut self, flow: u32) {
        let now = self.agenda.now();
        let details = &mut self.tcp.details[flow as usize];
        if details.spec.bytes.is_some() && details.finished.is_none() {
            details.finished = Some(now);
        }
    }

    /// Sends all segments that a sender may send. The first takes the place of packet `place`, if one is
    /// given.
    fn pump(&mut self, flow: u32, mut place: u32) {
        let now = self.agenda.now();
        loop {
            let end = &mut self.tcp.senders[flow as usize];
            let conduct = &self.tcp.conducts[usize::from(end.conduct)];
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
                self.packets.keep(packet)
            } else {
                self.packets.gone += 1;
                self.packets.born += 1;
                self.packets[place] = packet;
                std::mem::replace(&mut place, NONE)
            };
            self.start(hop, number);
        }
        if place != NONE {
            self.packets.let_go(place);
        }
        self.set_sender_alarm(flow);
    }

    /// Sends a packet from its host.
    #[inline]
    fn start(&mut self, hop: u32, number: u32) {
        if hop == NONE {
            self.lost.no_way += 1;
            self.packets.let_go(number);
        } else {
            self.put_out(hop as usize, number);
        }
    }

    #[inline]
    fn set_sender_alarm(&mut self, flow: u32) {
        let end = &mut self.tcp.senders[flow as usize];
        let due = end.tcp.wake_at();
        if due.as_nanos() < end.alarm {
            end.alarm = due.as_nanos();
            self.agenda.put(due, Due::Sender(flow));
        }
    }

    /// Handles a SYN or its answer.
    pub(crate) fn handshake(&mut self, number: u32) {
        let now = self.agenda.now();
        let packet = self.packets[number];
        let flow = packet.flow;
        if packet.kind == PacketKind::Syn {
            let end = &self.tcp.receivers[flow as usize];
            let (hop, dst) = (end.hop, end.peer);
            self.packets.gone += 1;
            self.packets.born += 1;
            self.packets[number] = SimPacket::new(PacketKind::SynAck, flow, SYN_LEN, dst, now);
            self.packets[number].dscp = packet.dscp;
            self.start(hop, number);
            return;
        }
        let end = &mut self.tcp.senders[flow as usize];
        if end.tcp.phase() == SenderPhase::Opening {
            end.tcp.opened(&self.tcp.conducts[usize::from(end.conduct)], now);
            self.tcp.details[flow as usize].opened = Some(now);
        }
        self.pump(flow, number);
    }

    /// Opens a connection.
    pub(crate) fn open(&mut self, flow: u32) {
        let now = self.agenda.now();
        self.story.mark(&[now.as_nanos(), 9, u64::from(flow)]);
        self.tcp.senders[flow as usize].tcp.open(now);
        self.pump(flow, NONE);
    }

    /// Ends a connection's new data.
    pub(crate) fn stop(&mut self, flow: u32) {
        self.tcp.senders[flow as usize].tcp.stop();
    }

    /// Handles the event of a sender's timer.
    pub(crate) fn sender_due(&mut self, flow: u32) {
        let now = self.agenda.now();
        let end = &mut self.tcp.senders[flow as usize];
        if end.alarm != now.as_nanos() {
            // Another was set since, for earlier.
            return;
        }
        end.alarm = u64::MAX;
        if now >= end.tcp.wake_at() {
            self.story.mark(&[now.as_nanos(), 10, u64::from(flow)]);
            end.tcp.wake(&self.tcp.conducts[usize::from(end.conduct)], now);
            self.pump(flow, NONE);
        } else {
            self.set_sender_alarm(flow);
        }
    }

    /// Handles the event of a receiver's timer.
    pub(crate) fn receiver_due(&mut self, flow: u32) {
        let now = self.agenda.now();
        let end = &mut self.tcp.receivers[flow as usize];
        if end.alarm != now.as_nanos() {
            return;
        }
        end.alarm = u64::MAX;
        if end.tcp.wake(now) {
            let packet = SimPacket::new(PacketKind::Ack, flow, ack_len(0), 0, now);
            let number = self.packets.keep(packet);
            self.acknowledge(flow, number);
            return;
        }
        let due = end.tcp.wake_at();
        if due != Time::FOREVER {
            end.alarm = due.as_nanos();
            self.agenda.put(due, Due::Receiver(flow));
        }
    }
}
