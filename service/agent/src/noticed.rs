//! Changes by others in the kernel: links, addresses, routes, traffic control.
//!
//! The first change is handled at once. Changes in the next 0.1 s are handled together, so that routes that
//! flap cost a bounded amount of work. After a change of a route, only its destinations are looked up again;
//! links and addresses are read again only if one of them changed.

use linux::netlink::notice::NetlinkNotice;
use std::collections::BTreeSet;
use std::net::IpAddr;
use terms::{Span, Time};

/// The delay from a notice to the check of traffic control. Our own changes cause notices too, and one check
/// covers many of them.
const LOOK_SOON: Span = Span::from_millis(100);
/// The interval between checks that the kernel still has what was installed.
const LOOK_EVERY: Span = Span::from_secs(5);
/// The least time between two checks of changes.
const REST: Span = Span::from_millis(100);
/// The most networks that are kept apart.
const MOST_NETWORKS: usize = 16;

/// A change in the kernel.
pub(crate) enum Changed {
    /// Links or addresses, or more networks than are kept apart.
    Anything,
    /// Routes to these networks, each with the length of its prefix.
    Routes(BTreeSet<(IpAddr, u8)>),
}

/// Changes that are not yet handled, and the times of the next checks.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// Changes of links, addresses or multicast routes, or of too many networks to keep apart.
    anything: bool,
    networks: BTreeSet<(IpAddr, u8)>,
    /// The earliest time of the next check of changes.
    rests_until: Option<Time>,
    /// The time of the next check that the kernel still has what was installed.
    look_at: Time,
}

impl Noticed {
    /// Nothing is noticed yet.
    pub(crate) fn new(now: Time) -> Noticed {
        Noticed { look_at: now + LOOK_EVERY, ..Noticed::default() }
    }

    /// The time of the next check that the kernel still has what was installed.
    pub(crate) fn look_at(&self) -> Time {
        self.look_at
    }

    /// Records that this check begins now.
    pub(crate) fn looks(&mut self, now: Time) {
        self.look_at = now + LOOK_EVERY;
    }

    /// Takes notices of the kernel.
    pub(crate) fn take(&mut self, notices: Vec<NetlinkNotice>, now: Time) {
        if notices.iter().any(|notice| matches!(notice, NetlinkNotice::Qdisc(_) | NetlinkNotice::Lost)) {
            self.look_at = self.look_at.min(now + LOOK_SOON);
        }
        notices.into_iter().for_each(|notice| self.add(notice));
    }

    /// The changes, if it is time to handle them.
    pub(crate) fn due(&mut self, now: Time) -> Option<Changed> {
        if self.wake_at().is_none_or(|at| at > now) {
            return None;
        }
        let networks = std::mem::take(&mut self.networks);
        Some(if std::mem::take(&mut self.anything) { Changed::Anything } else { Changed::Routes(networks) })
    }

    /// Records that the changes were handled.
    pub(crate) fn rests(&mut self, now: Time) {
        self.rests_until = Some(now + REST);
    }

    /// The time of the next check; `None` without changes.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        (self.anything || !self.networks.is_empty()).then(|| self.rests_until.unwrap_or(Time::ZERO))
    }

    fn add(&mut self, notice: NetlinkNotice) {
        match notice {
            NetlinkNotice::Qdisc(_) => {}
            NetlinkNotice::Route(Some(network)) if self.networks.len() < MOST_NETWORKS => {
                self.networks.insert(network);
            }
            _ => self.anything = true,
        }
    }
}
