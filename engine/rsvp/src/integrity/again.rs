//! Messages that a neighbour dropped, as it had to challenge us first, are sent again: RFC 2747 section 4.3.
//!
//! They are sent a moment after the answer and not with it: the neighbour may read messages to itself and
//! messages with the Router Alert option from two sockets, and several of our messages may have made it ask.
//! As long as it goes on asking, the moments grow; so a contact costs few messages, however many are lost or
//! overtaken on the way.
//!
//! A challenge cannot be signed, so that any node can send one. It brings back the messages of the last two
//! seconds, with a limit on messages per second on an interface, and each only a few times. The rest of our
//! state there waits until the neighbour has sent a *signed* message ([`crate::catch_up`]).

use super::Guard;
use super::bucket::Bucket;
use crate::arrival::Arrival;
use crate::catch_up::Kept;
use crate::io::Datagram;
use crate::state::Timer;
use crate::state::timers::Alarm;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{FilterSpec, IfIndex, Session, Span, Time};
use wire::{Message, MessageType, Outline};

/// Most messages of an interface that are kept to be sent again, and the time for which they are kept.
const MOST_LATELY: (usize, Span) = (64, Span::from_secs(2));

/// Most neighbours whose challenges are remembered; challenges are not signed.
const MOST_ASKING: usize = 64;

/// The pause between an answer and the repeated messages, and its maximum; it grows fourfold each time.
pub(super) const MOMENT: (Span, Span) = (Span::from_millis(2), Span::from_millis(512));

/// The burst of challenges that lead to repeated messages on one interface, and the interval of further ones.
const RATION: (u64, Span) = (8, Span::from_millis(500));

/// The burst of repeated messages on one interface, and the interval of further ones: after the burst, forged
/// challenges make us send sixteen messages a second.
const MESSAGES: (u64, Span) = (256, Span::from_micros(62_500));

/// Most states that are remembered as sent again; those beyond it are sent once more.
const MOST_KEPT: usize = 1024;

/// Most repetitions of one message.
const MOST_AGAIN: u8 = 4;

/// The messages to be sent again, and the neighbours that need them.
#[derive(Default)]
pub(super) struct Again {
    /// The messages sent lately, unsigned.
    lately: BTreeMap<IfIndex, VecDeque<Sent>>,
    asking: BTreeMap<(IfIndex, IpAddr), Asking>,
    rations: BTreeMap<IfIndex, (Bucket, Bucket)>,
    /// The number of times that the message being sent was sent before.
    before: u8,
    alarm: Alarm,
}

struct Sent {
    at: Time,
    kind: MessageType,
    unsigned: Datagram,
    /// The number of its repetitions so far.
    again: u8,
}

/// A neighbour that has challenged us.
struct Asking {
    /// The time of its last challenge, our address that it challenged, and its cookie.
    at: Time,
    own: IpAddr,
    cookie: Vec<u8>,
    /// The time at which the missed messages are sent again, and the pause between challenge and repetition.
    due: Time,
    moment: Span,
    /// The states that were sent again, kept until a signed message proves that the neighbour is there; then
    /// it gets the rest.
    owed: Option<Kept>,
    heard: bool,
}

impl Again {
    /// Keeps a message that was just sent, as it was before it was signed.
    pub fn remember(&mut self, now: Time, at: IfIndex, kind: MessageType, unsigned: Datagram) {
        let lately = self.lately.entry(at).or_default();
        while lately.len() >= MOST_LATELY.0 || lately.front().is_some_and(|s| now.since(s.at) > MOST_LATELY.1) {
            lately.pop_front();
        }
        if self.before < MOST_AGAIN {
            lately.push_back(Sent { at: now, kind, unsigned, again: self.before });
        }
    }

    pub fn forget(&mut self, interface: IfIndex) {
        self.lately.remove(&interface);
        self.rations.remove(&interface);
        self.asking.retain(|(at, _), _| *at != interface);
    }

    /// Takes a neighbour's challenge. True if it is to be answered: not if the same challenge was just
    /// answered and the repetition is still due.
    fn asked(&mut self, now: Time, from: &Arrival, cookie: &[u8]) -> bool {
        let settled = |a: &Asking| a.due == Time::FOREVER && now.since(a.at) > MOST_LATELY.1;
        let ours = (from.iif, from.src);
        if self.asking.len() >= MOST_ASKING {
            self.asking.retain(|who, asking| *who == ours || !settled(asking));
        }
        let room = self.asking.len() < MOST_ASKING;
        let asking = match self.asking.entry(ours) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) if room => place.insert(Asking {
                at: now,
                own: from.dst,
                cookie: Vec::new(),
                due: Time::FOREVER,
                moment: Span::ZERO,
                owed: None,
                heard: false,
            }),
            Entry::Vacant(_) => return true,
        };
        if settled(asking) {
            asking.moment = Span::ZERO;
        }
        let pending = asking.due != Time::FOREVER;
        let answered = pending && asking.cookie == cookie && asking.own == from.dst;
        (asking.at, asking.own) = (now, from.dst);
        asking.cookie.clear();
        asking.cookie.extend_from_slice(cookie);
        if !pending {
            asking.heard = false;
            asking.moment = Span::from_nanos(asking.moment.as_nanos() * 4).max(MOMENT.0).min(MOMENT.1);
            asking.due = now + asking.moment;
        }
        !answered
    }

    /// A neighbour that is due: its interface, its address, and the messages that it has missed. Of those
    /// that carry state, all go again up to the very last, so that the order stays; of the others only those
    /// sent before our answer.
    fn due(&mut self, now: Time) -> Option<(IfIndex, IpAddr, VecDeque<Sent>)> {
        loop {
            let (&(interface, peer), asking) = self.asking.iter_mut().find(|(_, a)| a.due <= now)?;
            let fresh = || (Bucket::new(RATION.0, RATION.1), Bucket::new(MESSAGES.0, MESSAGES.1));
            let (ration, messages) = self.rations.entry(interface).or_insert_with(fresh);
            if !ration.take(now) {
                asking.due = now + RATION.1;
                continue;
            }
            asking.due = Time::FOREVER;
            let missed = |sent: &Sent| {
                let to = &sent.unsigned;
                now.since(sent.at) <= MOST_LATELY.1
                    && (sent.at <= asking.at || carries_state(sent.kind))
                    && (to.dst == peer || to.router_alert)
                    && sender(to) == asking.own
            };
            let lately = self.lately.remove(&interface).unwrap_or_default();
            let (mut again, rest): (VecDeque<_>, VecDeque<_>) = lately.into_iter().partition(missed);
            self.lately.insert(interface, rest);
            let count = (0..again.len()).take_while(|_| messages.take(now)).count();
            again.truncate(count);
            return Some((interface, peer, again));
        }
    }

    fn next(&self) -> Time {
        self.asking.values().map(|a| a.due).min().unwrap_or(Time::FOREVER)
    }
}

impl Guard<'_> {
    /// Takes the challenge of a neighbour that has dropped our messages, and schedules their repetition. True
    /// if the challenge is to be answered.
    pub(super) fn asked(&mut self, from: &Arrival, cookie: &[u8]) -> bool {
        let answer = self.security.again.asked(self.now, from, cookie);
        let next = self.security.again.next();
        if next != Time::FOREVER {
            self.state.alarms().set_by(&mut self.security.again.alarm, next, Timer::Again);
        }
        answer
    }

    /// Sends neighbours that have challenged us the messages that they missed: those of the last moments go
    /// out again, with new sequence numbers (tears, errors and confirmations too, which no refresh would
    /// repeat).
    pub(crate) fn again_alarm(&mut self) {
        self.state.alarms().clear(&mut self.security.again.alarm);
        while let Some((interface, peer, missed)) = self.security.again.due(self.now) {
            let kept: Kept = missed.iter().flat_map(|sent| keeps(&sent.unsigned.bytes)).collect();
            for Sent { kind, unsigned, again, .. } in missed {
                self.security.again.before = again + 1;
                self.send_signed(kind, unsigned);
            }
            self.security.again.before = 0;
            let Some(asking) = self.security.again.asking.get_mut(&(interface, peer)) else { continue };
            let owed = asking.owed.get_or_insert_default();
            if owed.len() < MOST_KEPT {
                owed.extend(kept);
            }
            if asking.heard {
                self.heard_signed(interface, peer);
            }
        }
        let next = self.security.again.next();
        if next != Time::FOREVER {
            self.state.alarms().set(&mut self.security.again.alarm, next, Timer::Again);
        }
    }

    /// Notes a signed message of a neighbour: if it challenged us before, it now gets the rest of our state.
    pub(super) fn heard_signed(&mut self, interface: IfIndex, peer: IpAddr) {
        let Some(asking) = self.security.again.asking.get_mut(&(interface, peer)) else { return };
        asking.heard = true;
        // What it missed lately comes first.
        if asking.due == Time::FOREVER
            && let Some(kept) = asking.owed.take()
        {
            self.catch_ups.catch_up(self.state, self.now, interface, peer, kept);
        }
    }
}

fn carries_state(kind: MessageType) -> bool {
    matches!(kind, MessageType::Path | MessageType::Resv | MessageType::PathTear | MessageType::ResvTear)
}

/// The sender of a message, as authentication sees it: the hop that it names, or else its IP source.
fn sender(datagram: &Datagram) -> IpAddr {
    let hop = Outline::read(&datagram.bytes).ok().and_then(|outline| outline.hop);
    hop.map_or(datagram.src, |hop| hop.addr)
}

/// The states that a message of ours refreshes: true for path state, the session, and the sender.
fn keeps(bytes: &[u8]) -> Vec<(bool, Session, Option<FilterSpec>)> {
    match Message::parse(bytes) {
        Ok(Message::Path(m)) => m.sender.ports().map(|sender| (true, m.session, Some(sender))).into_iter().collect(),
        Ok(Message::Resv(m)) => m.flows().map(|f| (false, m.session, f.filter.and_then(|f| f.ports()))).collect(),
        _ => Vec::new(),
    }
}
