//! What a neighbour has dropped, because it had to challenge us first, is said again: RFC 2747 section 4.3.
//!
//! Not in the same breath as the answer, but a moment after it: the neighbour may read what is addressed to it and what
//! it only looks into from two sockets, and several of our messages may have made it ask. As long as it goes on asking,
//! the moments grow; so a contact costs few messages, whatever is lost or overtaken on the way.
//!
//! A challenge cannot be signed, so that anybody can send one. It brings back what was sent in the last two seconds, so
//! many messages a second on an interface at most, and each a few times. What else we keep up there waits until the
//! neighbour has said something *signed* ([`crate::catch_up`]).

use super::bucket::Bucket;
use crate::catch_up::Kept;
use crate::engine::{Rsvp, Timer};
use crate::io::Datagram;
use crate::receive::Arrival;
use crate::timers::Alarm;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{FilterSpec, IfIndex, Session, Span, Time};
use wire::{Message, MessageType, Outline};

/// Most messages an interface that are kept to be said again, and for how long.
const MOST_LATELY: (usize, Span) = (64, Span::from_secs(2));

/// Most neighbours whose challenges are remembered; challenges are not signed.
const MOST_ASKING: usize = 64;

/// From an answer until what was missed is said, and the longest that this grows to, fourfold each time.
pub(super) const MOMENT: (Span, Span) = (Span::from_millis(2), Span::from_millis(512));

/// How many challenges at once, and how often after that, may make us say again across one interface what was missed.
const RATION: (u64, Span) = (8, Span::from_millis(500));

/// How many messages at once, and how often after that, are said again across one interface: with it, whoever forges
/// challenges makes us send sixteen messages a second.
const MESSAGES: (u64, Span) = (256, Span::from_micros(62_500));

/// Most state that is remembered to have been said again; what is beyond is said once more.
const MOST_KEPT: usize = 1024;

/// How often one message is said again.
const MOST_AGAIN: u8 = 4;

/// What is there to be said again, and to whom.
#[derive(Default)]
pub(super) struct Again {
    /// What was sent lately, unsigned.
    lately: BTreeMap<IfIndex, VecDeque<Sent>>,
    asking: BTreeMap<(IfIndex, IpAddr), Asking>,
    rations: BTreeMap<IfIndex, (Bucket, Bucket)>,
    /// How often the message that is being said was said before.
    before: u8,
    alarm: Alarm,
}

struct Sent {
    at: Time,
    kind: MessageType,
    unsigned: Datagram,
    /// How often it was said again.
    again: u8,
}

/// A neighbour that has challenged us.
struct Asking {
    /// When it last did, which address of ours it asked, and by which cookie.
    at: Time,
    own: IpAddr,
    cookie: Vec<u8>,
    /// When it hears again what it missed, and how long after the challenge that is.
    due: Time,
    moment: Span,
    /// What it heard again, until something signed by it tells that it is there; then it hears the rest.
    owed: Option<Kept>,
    heard: bool,
}

impl Again {
    /// Keeps what was just sent, as it was before it was signed.
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

    /// A neighbour asks. Whether it is to be answered: not if it has just been, and has not heard yet what it missed.
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

    /// A neighbour that is due: where it is, and what it has missed. What carries state is said up to the last word, so
    /// that the last word stays the last; of the rest only what was sent before we answered.
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

impl<P: ProbeObserver> Rsvp<P> {
    /// Somebody has dropped what we sent, and hears it again soon. Whether it is to be answered.
    pub(super) fn asked(&mut self, now: Time, from: &Arrival, cookie: &[u8]) -> bool {
        let answer = self.security.again.asked(now, from, cookie);
        let next = self.security.again.next();
        if next != Time::FOREVER {
            self.timers.set_by(&mut self.security.again.alarm, next, Timer::Again);
        }
        answer
    }

    /// Neighbours that have challenged us hear again what they missed: what was sent in the last moments goes out once
    /// more, with new numbers (tears, errors and confirmations too, which no refresh would bring back).
    pub(crate) fn again_alarm(&mut self, now: Time) {
        self.timers.clear(&mut self.security.again.alarm);
        while let Some((interface, peer, missed)) = self.security.again.due(now) {
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
                self.heard_signed(now, interface, peer);
            }
        }
        let next = self.security.again.next();
        if next != Time::FOREVER {
            self.timers.set(&mut self.security.again.alarm, next, Timer::Again);
        }
    }

    /// A neighbour has said something signed: if it asked before, it hears what else we keep up there.
    pub(super) fn heard_signed(&mut self, now: Time, interface: IfIndex, peer: IpAddr) {
        let Some(asking) = self.security.again.asking.get_mut(&(interface, peer)) else { return };
        asking.heard = true;
        // What it missed lately comes first.
        if asking.due == Time::FOREVER
            && let Some(kept) = asking.owed.take()
        {
            self.catch_up(now, interface, peer, kept);
        }
    }
}

fn carries_state(kind: MessageType) -> bool {
    matches!(kind, MessageType::Path | MessageType::Resv | MessageType::PathTear | MessageType::ResvTear)
}

/// Who says a message, as authentication sees it: the hop that it names, or where it comes from.
fn sender(datagram: &Datagram) -> IpAddr {
    let hop = Outline::read(&datagram.bytes).ok().and_then(|outline| outline.hop);
    hop.map_or(datagram.src, |hop| hop.addr)
}

/// The state that a message of ours keeps up: whether it is path state, and whose.
fn keeps(bytes: &[u8]) -> Vec<(bool, Session, Option<FilterSpec>)> {
    match Message::parse(bytes) {
        Ok(Message::Path(m)) => m.sender.ports().map(|sender| (true, m.session, Some(sender))).into_iter().collect(),
        Ok(Message::Resv(m)) => m.flows().map(|f| (false, m.session, f.filter.and_then(|f| f.ports()))).collect(),
        _ => Vec::new(),
    }
}
