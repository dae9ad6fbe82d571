//! A message goes out to a neighbour: RFC 2961 sections 3.3, 4.5, 4.6 and 5.3.

use super::Exchange;
use super::{About, Saying, gathering};
use crate::io::Datagram;
use crate::outbox::HOP_TTL;
use crate::state::heard::fold;
use alloc::vec::Vec;
use terms::Time;
use wire::iana::flag;
use wire::message::COMMON_HEADER;
use wire::object::MAX_OBJECTS;
use wire::objects::{ACK_DESIRED, MessageId, MessageIdAck};
use wire::{Builder, MessageType};

/// Most acknowledgements that are added to one message.
const MOST_CARRIED: usize = 8;

/// Bytes of a packet that IP, a common header, INTEGRITY and a list's own header may take.
const OVERHEAD: usize = 40 + COMMON_HEADER + 56 + 8;

impl Exchange<'_> {
    /// Sends a message; `about`: the state that it refreshes or tears, if there is one.
    pub(crate) fn send_about(&mut self, kind: MessageType, datagram: Datagram, about: Option<About>) {
        if !self.neighbours.enabled {
            return self.transport.send_signed(kind, datagram);
        }
        let reader = self.reader(&datagram, about).filter(|n| self.neighbours.all[*n].capable);
        let Some(n) = reader else {
            return self.transport.send_signed(kind, capable(datagram));
        };
        match (kind, about) {
            (MessageType::Path | MessageType::Resv, Some(about)) => self.keep_up(n, kind, datagram, about),
            (MessageType::PathTear | MessageType::ResvTear, about) => {
                if let Some(about) = about {
                    self.let_go(n, about);
                }
                if self.neighbours.all[n].acknowledges {
                    self.send_named(n, kind, datagram, None);
                } else {
                    self.put_in_batch(n, kind, datagram, None);
                }
            }
            // A shared request has lives of several senders in it, which no name can tell apart.
            (MessageType::PathErr | MessageType::ResvErr | MessageType::Resv, _) => {
                self.send_named(n, kind, datagram, None)
            }
            _ => self.put_in_batch(n, kind, datagram, None),
        }
    }

    /// Sends a Path or Resv: in full if it is new or was never acknowledged, by its name otherwise.
    fn keep_up(&mut self, n: usize, kind: MessageType, datagram: Datagram, about: About) {
        let content = content(&datagram, self.neighbours.key);
        let most = self.state.config().names_per_full;
        let neighbour = &mut self.neighbours.all[n];
        match neighbour.said.get(about.number()) {
            Some(said) if said.content == content && said.acked && said.rounds < most => {
                if let Some(said) = neighbour.said.get_mut(about.number()) {
                    said.rounds += 1;
                }
                self.summarise(n, said.name);
                self.join_round(n, about);
            }
            // It is being repeated already.
            Some(said) if said.content == content && neighbour.waiting.holds(said.name) => {}
            Some(said) if said.content == content => {
                if let Some(said) = neighbour.said.get_mut(about.number()) {
                    (said.acked, said.rounds) = (false, 0);
                }
                self.send_named(n, kind, datagram, Some(said.name));
            }
            before => {
                if let Some(before) = before {
                    neighbour.ours.take(before.name);
                    neighbour.waiting.done(before.name);
                }
                let name = self.neighbours.name();
                let (state, neighbour) = (&self.state, &mut self.neighbours.all[n]);
                let live = |about: u32| About::of(about).lives(state);
                neighbour
                    .said
                    .put(about.number(), Saying { name, content, acked: false, rounds: 0 }, |number, _| live(number));
                neighbour.ours.put(name, about.number(), |_, number| live(*number));
                self.send_named(n, kind, datagram, Some(name));
            }
        }
    }

    /// Forgets the names of a state that is torn down at a neighbour.
    fn let_go(&mut self, n: usize, about: About) {
        let neighbour = &mut self.neighbours.all[n];
        if let Some(said) = neighbour.said.take(about.number()) {
            neighbour.ours.take(said.name);
            neighbour.waiting.done(said.name);
        }
    }

    /// Sends a message with a name, and asks for an acknowledgement.
    fn send_named(&mut self, n: usize, kind: MessageType, datagram: Datagram, name: Option<u32>) {
        let name = name.unwrap_or_else(|| self.neighbours.name());
        let (at, epoch) = (self.now, self.neighbours.epoch);
        let id = MessageId { flags: ACK_DESIRED, epoch, id: name };
        let bytes = with_front(&datagram.bytes, &[], Some(&id));
        let kept = Datagram { bytes, ..datagram };
        let neighbour = &mut self.neighbours.all[n];
        if !neighbour.waiting.holds(name) && neighbour.waiting.keep(at, name, kind, kept.clone()) {
            self.arm_neighbour(n);
        }
        self.put_in_batch(n, kind, kept, Some(name));
    }

    /// Sends at the end of this input, together with the other messages to the neighbour.
    fn put_in_batch(&mut self, n: usize, kind: MessageType, datagram: Datagram, name: Option<u32>) {
        let datagram = match name {
            Some(_) => datagram,
            None => capable(datagram),
        };
        self.neighbours.all[n].batch.push((kind, datagram));
        self.neighbours.mark(n);
    }

    /// Refreshes by name.
    fn summarise(&mut self, n: usize, name: u32) {
        let most = self.room(n) / 4;
        let at = self.now + gathering(self.state.config().refresh);
        let neighbour = &mut self.neighbours.all[n];
        neighbour.summary.push(name);
        if neighbour.summary.len() >= most {
            self.send_summary(n);
        } else if neighbour.summary_at == Time::FOREVER {
            neighbour.summary_at = at;
            self.arm_neighbour(n);
        }
    }

    /// Aligns the next refresh of a state that goes by its name with the others: states of a neighbour share
    /// as many points of the refresh period as their names fill packets (RFC 2961 section 5.3: as many as
    /// possible in one Srefresh). The point is within half a period of one period from now, like any refresh
    /// (RFC 2205 section 3.7).
    fn join_round(&mut self, n: usize, about: About) {
        let packets = (self.neighbours.all[n].said.len() * 4 / self.room(n)).saturating_add(1).next_power_of_two();
        let refresh = self.state.config().refresh.as_nanos();
        // Neighbours' points lie apart: each has a phase of its own.
        let spacing = (refresh / packets as u64).max(1);
        let phase = self.neighbours.all[n].phase % spacing;
        let earliest = self.now.as_nanos().saturating_add(refresh - spacing / 2);
        let behind = earliest.saturating_sub(phase);
        let at = Time::from_nanos(behind.div_ceil(spacing).saturating_mul(spacing).saturating_add(phase));
        let (About::Path(id) | About::Resv(id)) = about;
        let Some(psb) = self.state.get_mut(id) else { return };
        match (about, &mut psb.request) {
            (About::Path(_), _) => psb.path_refresh_at = at,
            (About::Resv(_), Some(request)) => request.refresh_at = at,
            (About::Resv(_), None) => return,
        }
        self.state.arm_path(id);
    }

    /// Bytes of a packet to a neighbour that are left for lists.
    fn room(&self, n: usize) -> usize {
        let mtu = self.transport.links().mtu(self.neighbours.all[n].at).map_or(1500, |mtu| mtu as usize);
        mtu.clamp(576, 65_000) - OVERHEAD
    }

    pub(super) fn send_summary(&mut self, n: usize) {
        let epoch = self.neighbours.epoch;
        let neighbour = &mut self.neighbours.all[n];
        neighbour.summary_at = Time::FOREVER;
        let mut names = core::mem::take(&mut neighbour.summary);
        // What was named together lies together at the receiver.
        names.sort_unstable();
        let build = Builder::new(MessageType::Srefresh, HOP_TTL).message_id_list(epoch, &names);
        self.transport.out().count(|c| c.summarised += names.len() as u64);
        let neighbour = &mut self.neighbours.all[n];
        neighbour.summary = names;
        neighbour.summary.clear();
        self.send_to_neighbour(n, MessageType::Srefresh, build);
    }

    /// Sends a message of our own between neighbours.
    pub(super) fn send_to_neighbour(&mut self, n: usize, kind: MessageType, build: Builder) {
        let neighbour = &self.neighbours.all[n];
        let (oif, src, dst) = (Some(neighbour.at), neighbour.own, neighbour.addr);
        if let Some(bytes) = self.transport.out().finished(build.flags(flag::REFRESH_REDUCTION)) {
            self.put_in_batch(n, kind, Datagram { oif, src, dst, ttl: HOP_TTL, router_alert: false, bytes }, None);
        }
    }

    /// Sends acknowledgements and batches at the end of an input.
    pub(crate) fn settle_neighbours(&mut self) {
        while let Some(n) = self.neighbours.ready.pop() {
            let n = n as usize;
            let neighbour = &mut self.neighbours.all[n];
            neighbour.is_ready = false;
            let (mut acks, mut batch) = (core::mem::take(&mut neighbour.acks), core::mem::take(&mut neighbour.batch));
            self.load(&mut acks, &mut batch, n);
            if batch.len() > 1 && self.neighbours.all[n].capable && self.neighbours.all[n].acknowledges {
                self.send_bundled(n, &mut batch);
            } else {
                for (kind, datagram) in batch.drain(..) {
                    self.transport.send_signed(kind, datagram);
                }
            }
            // Their memory is kept for the next time.
            let neighbour = &mut self.neighbours.all[n];
            acks.clear();
            (neighbour.acks, neighbour.batch) = (acks, batch);
        }
    }

    /// Adds acknowledgements to messages that go to the neighbour itself, and puts the rest into Acks.
    fn load(&mut self, acks: &mut Vec<MessageIdAck>, batch: &mut Vec<(MessageType, Datagram)>, n: usize) {
        for (_, datagram) in batch.iter_mut().filter(|(_, d)| !d.router_alert) {
            if acks.is_empty() {
                return;
            }
            let carried = acks.len().min(MOST_CARRIED);
            datagram.bytes = with_front(&datagram.bytes, &acks[acks.len() - carried..], None);
            acks.truncate(acks.len() - carried);
        }
        let neighbour = &self.neighbours.all[n];
        let (oif, src, dst) = (Some(neighbour.at), neighbour.own, neighbour.addr);
        for some in acks.chunks((self.room(n) / 12).min(MAX_OBJECTS)) {
            let build = Builder::new(MessageType::Ack, HOP_TTL).flags(flag::REFRESH_REDUCTION);
            let build = some.iter().fold(build, |build, ack| build.message_id_ack(ack));
            if let Some(bytes) = self.transport.out().finished(build) {
                batch.push((MessageType::Ack, Datagram { oif, src, dst, ttl: HOP_TTL, router_alert: false, bytes }));
            }
        }
    }

    /// Sends several messages in as few datagrams as hold them. What keeps state up goes by itself: a receiver
    /// under a flood tells such messages from others before it reads them, and does not look into a Bundle.
    fn send_bundled(&mut self, n: usize, batch: &mut Vec<(MessageType, Datagram)>) {
        let room = self.room(n) + OVERHEAD - 40 - COMMON_HEADER;
        let mut bundle: Vec<(MessageType, Datagram)> = Vec::new();
        let mut length = 0;
        for (kind, datagram) in batch.drain(..) {
            if matches!(kind, MessageType::Path | MessageType::Resv | MessageType::Srefresh) {
                // In their order, even so.
                self.send_bundle(n, &mut bundle);
                length = 0;
                self.transport.send_signed(kind, datagram);
                continue;
            }
            let Some(datagram) = self.transport.sealed(kind, datagram) else { continue };
            if length + datagram.bytes.len() > room {
                self.send_bundle(n, &mut bundle);
                length = 0;
            }
            length += datagram.bytes.len();
            bundle.push((kind, datagram));
        }
        self.send_bundle(n, &mut bundle);
    }

    fn send_bundle(&mut self, n: usize, bundle: &mut Vec<(MessageType, Datagram)>) {
        if bundle.len() < 2 {
            for (kind, datagram) in bundle.drain(..) {
                self.transport.out().send(kind, datagram);
            }
            return;
        }
        let neighbour = &self.neighbours.all[n];
        let (oif, src, dst) = (Some(neighbour.at), neighbour.own, neighbour.addr);
        let mut build = Builder::new(MessageType::Bundle, HOP_TTL).flags(flag::REFRESH_REDUCTION);
        for (kind, datagram) in bundle.drain(..) {
            self.transport.out().count(|c| c.sent.add(kind));
            build = build.sub_message(&datagram.bytes);
        }
        if let Some(bytes) = self.transport.out().finished(build) {
            let out = Datagram { oif, src, dst, ttl: HOP_TTL, router_alert: false, bytes };
            self.transport.out().send(MessageType::Bundle, out);
        }
    }
}

/// A hash of a message without its checksum: equal for refreshes, and for hardly any other message.
fn content(datagram: &Datagram, key: u64) -> u64 {
    let Datagram { ttl, bytes, .. } = datagram;
    let mut state = key ^ u64::from(*ttl);
    for chunk in bytes.get(COMMON_HEADER..).unwrap_or_default().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = fold(state ^ u64::from_le_bytes(word), key);
    }
    state ^ bytes.len() as u64
}

/// The message with the capable flag; one that has the flag already is unchanged.
fn capable(datagram: Datagram) -> Datagram {
    if datagram.bytes.first().is_some_and(|first| first & flag::REFRESH_REDUCTION != 0) {
        return datagram;
    }
    Datagram { bytes: with_front(&datagram.bytes, &[], None), ..datagram }
}

/// The message with the capable flag, with acknowledgements and a name in front of its objects, and a new checksum.
fn with_front(bytes: &[u8], acks: &[MessageIdAck], name: Option<&MessageId>) -> Vec<u8> {
    let Some((&[_, kind, _, _, ttl, ..], objects)) = bytes.split_first_chunk::<COMMON_HEADER>() else {
        return bytes.to_vec();
    };
    let Some(kind) = MessageType::from_number(kind) else { return bytes.to_vec() };
    let build = Builder::new(kind, ttl).flags(flag::REFRESH_REDUCTION);
    let build = acks.iter().fold(build, |build, ack| build.message_id_ack(ack));
    let build = match name {
        Some(name) => build.message_id(name),
        None => build,
    };
    // What was almost too long before goes as it is.
    build.sub_message(objects).finish().unwrap_or_else(|_| bytes.to_vec())
}
