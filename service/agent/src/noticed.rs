//! Changes by others in the kernel: links, addresses, routes, traffic control.
//!
//! The first change is handled at once. Changes in the next 0.1 s are handled together, so that routes that
//! flap cost a bounded amount of work. After a change of a route, only its destinations are looked up again;
//! links and addresses are read again only if one of them changed.

use crate::agent::Agent;
use crate::interfaces::{self, Interfaces};
use crate::log::Level;
use linux::netlink::notice::NetlinkNotice;
use node::io::{Input, InterfaceState};
use std::collections::BTreeSet;
use std::net::IpAddr;
use terms::{Span, Time};

/// The delay from a notice to the check of traffic control. Our own changes cause notices too, and one check
/// covers many of them.
const LOOK_SOON: Span = Span::from_millis(100);
/// The least time between two checks of changes.
const REST: Span = Span::from_millis(100);
/// The most networks that are kept apart.
const MOST_NETWORKS: usize = 16;

/// Changes that are not yet handled.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// Changes of links, addresses or multicast routes, or of too many networks to keep apart.
    anything: bool,
    networks: BTreeSet<(IpAddr, u8)>,
    /// The earliest time of the next check.
    rests_until: Option<Time>,
}

impl Noticed {
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

impl Agent {
    /// Takes the kernel's notices of changes.
    pub(crate) fn notice(&mut self) {
        let notices = match self.notices.take() {
            Ok(notices) => notices,
            Err(error) => {
                self.log.line(self.clock.now(), Level::Error, "netlink", &[("text", &error)]);
                vec![NetlinkNotice::Lost]
            }
        };
        if notices.iter().any(|notice| matches!(notice, NetlinkNotice::Qdisc(_) | NetlinkNotice::Lost)) {
            self.look_at = self.look_at.min(self.clock.now() + LOOK_SOON);
        }
        notices.into_iter().for_each(|notice| self.noticed.add(notice));
        self.look_at_changes();
    }

    /// Handles the changes, if it is time.
    pub(crate) fn look_at_changes(&mut self) {
        if self.noticed.wake_at().is_none_or(|at| at > self.clock.now()) {
            return;
        }
        let (anything, networks) = (self.noticed.anything, std::mem::take(&mut self.noticed.networks));
        self.noticed.anything = false;
        if anything {
            if let Err(error) = self.node.route_mut().forget() {
                self.log.line(self.clock.now(), Level::Error, "netlink", &[("text", &error)]);
            }
            match interfaces::read(&mut self.netlink, &self.config) {
                Ok(now) => self.compare(now),
                Err(error) => self.log.line(self.clock.now(), Level::Error, "netlink", &[("text", &error)]),
            }
            self.tell(Input::RouteChanged(None));
        } else {
            networks.iter().for_each(|(network, bits)| self.node.route_mut().forget_within(*network, *bits));
            networks.into_iter().for_each(|within| self.tell(Input::RouteChanged(Some(within))));
        }
        self.tell_refused_statics(); // an address of theirs may have come
        self.noticed.rests_until = Some(self.clock.now() + REST);
    }

    pub(crate) fn renew_multicast_routes(&mut self) {
        let known = &self.interfaces;
        let index = |name: &str| known.values().find(|state| state.name == name).map(|state| state.index);
        for failed in self.mroutes.renew(&self.config.multicast_routes, index) {
            self.log.line(self.clock.now(), Level::Error, "multicast_route", &[("text", &failed)]);
        }
    }

    fn compare(&mut self, mut now: Interfaces) {
        for (index, state) in &mut now {
            // A driver forgets its rate while a cable is out; what was promised on the link is not over for that.
            let known = self.interfaces.get(index).filter(|before| before.name == state.name && state.rsvp);
            state.link = state.link.or(known.and_then(|before| before.link));
        }
        let before = std::mem::replace(&mut self.interfaces, now.clone());
        self.names.extend(now.iter().map(|(&index, state)| (index, state.name.clone())));
        for (index, state) in before.iter().filter(|(index, _)| !now.contains_key(index)) {
            self.announce(Level::Warn, "interface_gone", &state.name.clone());
            self.tell(Input::InterfaceGone(*index));
        }
        for (index, state) in now {
            if before.get(&index) != Some(&state) {
                self.announce(Level::Info, "interface", &format!("{} changed", state.name));
                self.tell_interface(state);
            }
        }
        self.tell_bookable();
        self.renew_multicast_routes();
        self.renew_echo();
    }

    pub(crate) fn tell_interface(&mut self, state: InterfaceState) {
        self.tell_auth(state.index, &state.name);
        self.tell(Input::Interface(state));
    }
}
