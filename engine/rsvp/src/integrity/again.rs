//! What a neighbour has dropped, because it had to challenge us first, is said again: RFC 2747 section 4.3.
//!
//! Not in the same breath as the answer, but a moment after it: the neighbour may read what is addressed to it and what
//! it only looks into from two sockets, and several of our messages may have made it ask. As long as it goes on asking,
//! the moments grow; so a contact costs few messages, whatever is lost or overtaken on the way.

use super::bucket::Bucket;
use crate::engine::{Rsvp, Timer};
use crate::io::Datagram;
use crate::receive::Arrival;
use crate::timers::Alarm;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::Probe;
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

/// What is there to be said again, and to whom.
#[derive(Default)]
pub(super) struct Again {
    /// What was sent lately, unsigned.
    lately: BTreeMap<IfIndex, VecDeque<Sent>>,
    asking: BTreeMap<(IfIndex, IpAddr), Asking>,
    rations: BTreeMap<IfIndex, Bucket>,
    alarm: Alarm,
}

struct Sent {
    at: Time,
    kind: MessageType,
    unsigned: Datagram,
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
}

/// State that a message has just kept up: of a session (`None`: any sender's).
type Kept = BTreeSet<(bool, Session, Option<FilterSpec>)>;

impl Again {
    /// Keeps what was just sent, as it was before it was signed.
    pub fn remember(&mut self, now: Time, at: IfIndex, kind: MessageType, unsigned: Datagram) {
        let lately = self.lately.entry(at).or_default();
        while lately.len() >= MOST_LATELY.0 || lately.front().is_some_and(|s| now.since(s.at) > MOST_LATELY.1) {
            lately.pop_front();
        }
        lately.push_back(Sent { at: now, kind, unsigned });
    }

    pub fn forget(&mut self, interface: IfIndex) {
        self.lately.remove(&interface);
        self.rations.remove(&interface);
        self.asking.retain(|(at, _), _| *at != interface);
    }

    /// A neighbour asks. Whether it is to be answered: not if it has just been, and has not heard yet what it missed.
    fn asked(&mut self, now: Time, from: &Arrival, cookie: &[u8]) -> bool {
        let settled = |a: &Asking| a.due == Time::FOREVER && now.since(a.at) > MOST_LATELY.1;
        if self.asking.len() >= MOST_ASKING {
            self.asking.retain(|_, asking| !settled(asking));
        }
        let room = self.asking.len() < MOST_ASKING;
        let asking = match self.asking.entry((from.iif, from.src)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) if room => place.insert(Asking {
                at: now,
                own: from.dst,
                cookie: Vec::new(),
                due: Time::FOREVER,
                moment: Span::ZERO,
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
            asking.moment = Span::from_nanos(asking.moment.as_nanos() * 4).max(MOMENT.0).min(MOMENT.1);
            asking.due = now + asking.moment;
        }
        !answered
    }

    /// A neighbour that is due: where it is, and what it has missed. What carries state is said up to the last word, so
    /// that the last word stays the last; of the rest only what was sent before we answered.
    fn due(&mut self, now: Time) -> Option<(IfIndex, VecDeque<Sent>)> {
        loop {
            let (&(interface, peer), asking) = self.asking.iter_mut().find(|(_, a)| a.due <= now)?;
            let ration = self.rations.entry(interface).or_insert_with(|| Bucket::new(RATION.0, RATION.1));
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
            let (again, rest): (VecDeque<_>, VecDeque<_>) = lately.into_iter().partition(missed);
            self.lately.insert(interface, rest);
            return Some((interface, again));
        }
    }

    fn next(&self) -> Time {
        self.asking.values().map(|a| a.due).min().unwrap_or(Time::FOREVER)
    }
}

impl<P: Probe> Rsvp<P> {
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
    /// more, with new numbers (tears, errors and confirmations too, which no refresh would bring back), and what else we
    /// keep up there is refreshed.
    pub(crate) fn again_alarm(&mut self, now: Time) {
        self.timers.clear(&mut self.security.again.alarm);
        while let Some((interface, missed)) = self.security.again.due(now) {
            let kept = missed.iter().flat_map(|sent| keeps(&sent.unsigned.bytes)).collect();
            for Sent { kind, unsigned, .. } in missed {
                self.send_signed(kind, unsigned);
            }
            self.refresh_but(now, interface, &kept);
        }
        let next = self.security.again.next();
        if next != Time::FOREVER {
            self.timers.set(&mut self.security.again.alarm, next, Timer::Again);
        }
    }

    /// What we keep up across an interface is refreshed soon, a few messages a millisecond.
    pub(crate) fn catch_up(&mut self, now: Time, interface: IfIndex) {
        self.refresh_but(now, interface, &Kept::new());
    }

    /// What has just been said is not refreshed too.
    fn refresh_but(&mut self, now: Time, interface: IfIndex, but: &Kept) {
        let paths: Vec<_> = self.psbs.iter().map(|(id, _, _)| id).collect();
        let mut at = now;
        for id in paths {
            let (_, session, template) = self.sender_of(id);
            let said = |path| [Some(template), None].into_iter().any(|who| but.contains(&(path, session, who)));
            let psb = &mut self.psbs[id];
            let down = psb.out.takes(interface) && !said(true);
            let up = psb.phop().is_some_and(|p| p.iif == interface) && !said(false);
            if down && psb.path_refresh_at != Time::FOREVER {
                psb.path_refresh_at = psb.path_refresh_at.min(at);
            }
            if let Some(request) = psb.request.as_mut().filter(|_| up) {
                request.refresh_at = request.refresh_at.min(at);
            }
            if down || up {
                at = at + Span::from_micros(50);
                self.arm_path(id);
            }
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
