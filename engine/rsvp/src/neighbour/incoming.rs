//! Named messages, acknowledgements and summaries come in: RFC 2961 sections 4.5, 4.6, 5.3 and 5.4.

use super::About;
use super::Exchange;
use crate::arrival::Arrival;
use crate::catch_up::Kept;
use crate::io::NeighbourNews;
use crate::links::Env;
use crate::state::heard::BlockRef;
use crate::state::rsb::NextHop;
use crate::state::session::SessionState;
use crate::state::table::BlockId;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::Time;
use terms::ports::{MulticastTree, RouteDecision};
use wire::message::Envelope;
use wire::objects::{ListKind, MessageId, MessageIdAck, MessageIdList};
use wire::{FilterObject, Message, RsvpHop, Srefresh};

/// Most names of one summary that are answered as unknown; the others are in the next summary too.
const MOST_NACKS: usize = 1024;

/// Names of a summary that are looked up together.
const TOGETHER: usize = 16;

/// The neighbour that sent a message, and the message's name.
pub(crate) struct Named {
    n: usize,
    id: MessageId,
}

/// The mark of a state that a named message made; it is kept in place of the hash of an unnamed one.
fn mark(n: usize, name: u32) -> u64 {
    1 << 63 | (n as u64) << 32 | u64::from(name)
}

impl Exchange<'_> {
    /// Handles the acknowledgements and the name of a neighbour's message, before its procedure. `Err`: it
    /// came after a newer message about the same state, and is to be dropped.
    pub(crate) fn introduced(
        &mut self,
        from: &Arrival,
        message: &Message<'_>,
        hop: Option<IpAddr>,
    ) -> Result<Option<Named>, &'static str> {
        self.state.listen();
        if !self.neighbours.enabled || !from.direct || matches!(message, Message::ResvConf(_)) {
            return Ok(None);
        }
        let envelope = message.envelope();
        let Some(n) = self.neighbour(from.iif, hop.unwrap_or(from.src), &envelope.header) else {
            return Ok(None);
        };
        self.acknowledged(n, envelope);
        let Some(id) = envelope.message_id else {
            self.answered(n, message, None);
            return Ok(None);
        };
        if self.neighbours.all[n].epoch != Some(id.epoch) {
            self.epoch_changed(n, id);
        }
        let newest = &mut self.neighbours.all[n].newest;
        // Names wrap (RFC 2961 section 4.5).
        if (id.id.wrapping_sub(*newest) as i32) < 0 {
            if self.overtaken(n, id.id, message) || self.was_torn(n, id.id, message) {
                return Err("a message that a newer one about the same state has overtaken");
            }
        } else {
            *newest = id.id;
        }
        self.keep_torn(n, id.id, message);
        self.answered(n, message, Some(id.id));
        if id.ack_desired() {
            let ack = MessageIdAck { nack: false, flags: 0, epoch: id.epoch, id: id.id };
            self.acknowledge(n, ack, from.dst.is_multicast());
        }
        Ok(Some(Named { n, id }))
    }

    /// Acknowledges a message: at once, or, if it went to a group, after a random wait, so that not all of
    /// its members answer in one moment (RFC 2961 section 4.7).
    fn acknowledge(&mut self, n: usize, ack: MessageIdAck, to_group: bool) {
        if !to_group {
            self.neighbours.all[n].acks.push(ack);
            return self.neighbours.mark(n);
        }
        let at = self.now + self.state.within(self.state.config().group_ack_wait);
        let late = &mut self.neighbours.all[n].late;
        // Who gets none says it again.
        if late.len() < MOST_NACKS && !late.values().any(|waiting| *waiting == ack) {
            late.insert((at, ack.id), ack);
            self.arm_neighbour(n);
        }
    }

    /// Sends acknowledgements that have waited long enough.
    pub(super) fn acknowledge_late(&mut self, n: usize) {
        while self.neighbours.all[n].late_at() <= self.now {
            let Some((_, ack)) = self.neighbours.all[n].late.pop_first() else { return };
            self.neighbours.all[n].acks.push(ack);
            self.neighbours.mark(n);
        }
    }

    /// Handles a new epoch: the neighbour and its names have started anew. Our state there is sent in full.
    fn epoch_changed(&mut self, n: usize, id: MessageId) {
        let before = self.neighbours.all[n].epoch;
        self.neighbours.all[n].forget_its_names();
        self.neighbours.all[n].epoch = Some(id.epoch);
        self.neighbours.all[n].newest = id.id;
        if before.is_some() {
            self.neighbour_restarted(n);
        }
    }

    /// True if a newer message of the same neighbour has made or refreshed any state that this one is about.
    fn overtaken(&self, n: usize, name: u32, message: &Message<'_>) -> bool {
        let newer = |heard: u64| {
            heard >> 63 == 1 && heard >> 32 & 0x7fff_ffff == n as u64 && (name.wrapping_sub(heard as u32) as i32) < 0
        };
        let Some(sid) = message.session().and_then(|s| self.state.session(&s)) else { return false };
        let sender = match message {
            Message::Path(m) => Some(m.sender),
            Message::PathTear(m) => Some(m.sender),
            _ => None,
        };
        if let Some(sender) = sender {
            let psb = sender.ports().and_then(|template| self.state.psb_of(sid, &template));
            return psb.and_then(|id| self.state.marked(BlockRef::Path(id))).is_some_and(newer);
        }
        match message {
            Message::Resv(m) => m.flows().any(|f| self.reservation_is(sid, &m.hop, f.filter, &newer)),
            Message::ResvTear(m) => m.flows().any(|f| self.reservation_is(sid, &m.hop, f.filter, &newer)),
            _ => {
                let errors = &self.neighbours.all[n].errors;
                let last = self.answers(message).into_iter().filter_map(|about| errors.get(about.number()));
                last.into_iter().any(|last| (name.wrapping_sub(last) as i32) < 0)
            }
        }
    }

    /// Our Paths or Resvs that an error message answers.
    fn answers(&self, message: &Message<'_>) -> Vec<About> {
        let Some(sid) = message.session().and_then(|s| self.state.session(&s)) else { return Vec::new() };
        let of = |filter: FilterObject| filter.ports().and_then(|template| self.state.psb_of(sid, &template));
        match message {
            Message::PathErr(m) => m.sender.and_then(of).map(About::Path).into_iter().collect(),
            Message::ResvErr(m) => m.flows().filter_map(|f| f.filter.and_then(of)).map(About::Resv).collect(),
            _ => Vec::new(),
        }
    }

    /// Counts an error message as the acknowledgement of the messages that it answers (RFC 2961 section 4.5),
    /// and keeps its name as that of the last error. If it answers an older message than our last one, the
    /// next summary brings a NACK.
    fn answered(&mut self, n: usize, message: &Message<'_>, name: Option<u32>) {
        for about in self.answers(message) {
            let neighbour = &mut self.neighbours.all[n];
            if let Some(said) = neighbour.said.get_mut(about.number()) {
                said.acked = true;
                neighbour.waiting.done(said.name);
            }
            if let Some(name) = name {
                let state = &self.state;
                neighbour.errors.put(about.number(), name, |about, _| About::of(about).lives(state));
            }
        }
    }

    /// True if a next hop's reservation for a sender (`None`: for any) has a mark for which `is` holds.
    fn reservation_is(
        &self,
        sid: BlockId<SessionState>,
        hop: &RsvpHop,
        filter: Option<FilterObject>,
        is: &impl Fn(u64) -> bool,
    ) -> bool {
        let wanted = filter.and_then(|f| f.ports());
        self.state.rsbs_of(sid).any(|id| {
            let (_, nhop, _) = self.state.key(id);
            let from = matches!(nhop, NextHop::Hop { addr, .. } if addr == hop.addr);
            from && wanted.is_none_or(|w| self.state.is_for(id, &w))
                && self.state.marked(BlockRef::Resv(id)).is_some_and(is)
        })
    }

    /// Marks the states that a message has made or refreshed with the message's name, once it is handled.
    pub(crate) fn named(&mut self, named: Option<Named>, message: &Message<'_>) {
        let Some(Named { n, id }) = named else { return };
        if !matches!(message, Message::Path(_) | Message::Resv(_)) {
            return;
        }
        let Some((first, more)) = self.state.mark(mark(n, id.id)) else { return };
        let state = &self.state;
        let live = |name: u32, of: &BlockRef| state.marked(*of) == Some(mark(n, name));
        let neighbour = &mut self.neighbours.all[n];
        neighbour.names.put(id.id, first, live);
        if !more.is_empty() {
            neighbour.more.retain(|name, all| all.iter().any(|state| live(*name, state)));
            neighbour.more.insert(id.id, more);
        }
    }

    /// Refreshes states by name (RFC 2961 section 5.3), and answers unknown names with a NACK.
    pub(crate) fn srefresh_arrives<E: Env>(&mut self, env: &mut E, from: &Arrival, message: &Srefresh<'_>) {
        let Some(n) = self.neighbours.find(from.iif, from.src).filter(|_| from.direct) else {
            return self.drop_message(from, "Srefresh from a node that is not a neighbour");
        };
        let mut unknown = 0;
        for list in message.lists() {
            // To a group go source lists alone, and they nowhere else (RFC 2961 section 5.2).
            if from.dst.is_multicast() != (list.kind == ListKind::Source) {
                self.drop_message(from, "Srefresh with a list that is not for where it was sent");
                continue;
            }
            if list.kind != ListKind::Plain {
                unknown += self.multicast_names(env, from, n, &list);
                continue;
            }
            let known = self.neighbours.all[n].epoch == Some(list.epoch);
            let mut ids = list.ids();
            let mut found = [(0, None); TOGETHER];
            loop {
                // First all names of a handful, then all their states: what has to come from memory comes together.
                let mut count = 0;
                for (place, name) in found.iter_mut().zip(&mut ids) {
                    *place = (name, self.neighbours.all[n].names.get(name).filter(|_| known));
                    count += 1;
                }
                if count == 0 {
                    break;
                }
                for (name, state) in &found[..count] {
                    if state.is_some_and(|state| self.refreshed(n, *name, state)) {
                        continue;
                    }
                    unknown += 1;
                    if unknown <= MOST_NACKS {
                        let nack = MessageIdAck { nack: true, flags: 0, epoch: list.epoch, id: *name };
                        self.neighbours.all[n].acks.push(nack);
                    }
                }
            }
        }
        if unknown > 0 {
            self.transport.out().count(|c| c.unknown_names += unknown as u64);
            self.neighbours.mark(n);
        }
    }

    /// Refreshes senders of multicast sessions by name. An unknown one gets a NACK only if its packets would
    /// be forwarded here (RFC 2961 section 5.3): on a link with several routers they are mostly another's.
    /// Returns the number of NACKs.
    fn multicast_names<E: Env>(&mut self, env: &mut E, from: &Arrival, n: usize, list: &MessageIdList<'_>) -> usize {
        let mut told = 0;
        for (name, src, group) in list.sources() {
            let neighbour = &self.neighbours.all[n];
            let state = neighbour.names.get(name).filter(|_| neighbour.epoch == Some(list.epoch));
            if state.is_some_and(|state| self.refreshed(n, name, state)) {
                continue;
            }
            let way = env.route(group.unwrap_or(from.dst), Some(src), Some(from.iif));
            let forwards = matches!(way, RouteDecision::Tree(MulticastTree { iif, oifs })
                if iif.is_none_or(|iif| iif == from.iif) && oifs.as_slice().iter().any(|oif| *oif != from.iif));
            if forwards && told < MOST_NACKS {
                told += 1;
                let nack = MessageIdAck { nack: true, flags: 0, epoch: list.epoch, id: name };
                self.neighbours.all[n].acks.push(nack);
            }
        }
        told
    }

    /// Prolongs the states that a name stands for; false if any of them is not known by it.
    fn refreshed(&mut self, n: usize, name: u32, state: BlockRef) -> bool {
        if !self.state.prolong(self.now, state, mark(n, name)) {
            return false;
        }
        if !self.neighbours.all[n].more.is_empty() {
            let more = self.neighbours.all[n].more.get(&name).cloned().unwrap_or_default();
            return more.into_iter().all(|state| self.state.prolong(self.now, state, mark(n, name)));
        }
        true
    }

    /// Takes acknowledgements of our messages (RFC 2961 section 4.6), and NACKs of our summaries (5.4).
    fn acknowledged(&mut self, n: usize, envelope: &Envelope<'_>) {
        for ack in envelope.acks() {
            if ack.epoch != self.neighbours.epoch {
                continue;
            }
            let neighbour = &mut self.neighbours.all[n];
            neighbour.acknowledges = true;
            neighbour.waiting.done(ack.id);
            let Some(number) = neighbour.ours.get(ack.id) else { continue };
            let Some(said) = neighbour.said.get_mut(number).filter(|said| said.name == ack.id) else { continue };
            if !ack.nack {
                said.acked = true;
                continue;
            }
            neighbour.said.take(number);
            neighbour.ours.take(ack.id);
            self.say_soon(About::of(number));
        }
    }

    /// Schedules the next refresh of this state at once.
    fn say_soon(&mut self, about: About) {
        let (About::Path(id) | About::Resv(id)) = about;
        let Some(psb) = self.state.get_mut(id) else { return };
        match about {
            About::Path(_) if psb.path_refresh_at != Time::FOREVER => psb.path_refresh_at = self.now,
            About::Resv(_) => match &mut psb.request {
                Some(request) => request.refresh_at = self.now,
                None => return,
            },
            About::Path(_) => return,
        }
        self.state.arm_path(id);
    }

    /// Handles the restart of a neighbour, which has lost our state: forgets our names for it, reports the
    /// event and schedules a refresh of all state there.
    pub(super) fn neighbour_restarted(&mut self, n: usize) {
        self.neighbours.all[n].forget_names();
        let (at, addr) = (self.neighbours.all[n].at, self.neighbours.all[n].addr);
        self.neighbour_news(n, NeighbourNews::Restarted);
        self.transport.catch_up(self.state, at, addr, Kept::new());
    }
}
