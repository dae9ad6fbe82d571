//! Messages in and out by the interfaces, signed where that is required.

use crate::arrival::Arrival;
use crate::catch_up::{CatchUps, Kept};
use crate::integrity::check::Checked;
use crate::integrity::key::AuthMode;
use crate::integrity::proof::Proof;
use crate::integrity::{Guard, Security};
use crate::io::{Datagram, Interface};
use crate::links::Links;
use crate::outbox::Outbox;
use crate::state::State;
use crate::views::NeighbourView;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{IfIndex, Time};
use wire::MessageType;

/// The interfaces, what goes out by them, and the authentication of both directions.
pub(crate) struct Transport {
    links: Links,
    out: Outbox,
    security: Security,
    catch_ups: CatchUps,
    /// The time of the present input.
    now: Time,
}

impl Transport {
    /// Without interfaces. Messages are signed by `auth` unless their interface has keys of its own.
    pub fn new(auth: &AuthMode, secret: [u64; 4]) -> Transport {
        Transport {
            links: Links::default(),
            out: Outbox::default(),
            security: Security::new(auth, secret),
            catch_ups: CatchUps::default(),
            now: Time::ZERO,
        }
    }

    /// Takes the time of an input.
    pub fn at(&mut self, now: Time) {
        self.now = now;
    }

    /// The time of the present input.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The interfaces.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The outputs.
    pub fn out(&mut self) -> &mut Outbox {
        &mut self.out
    }

    /// The outputs, to look at.
    pub fn said(&self) -> &Outbox {
        &self.out
    }

    /// The keys and numbers.
    pub fn security(&mut self) -> &mut Security {
        &mut self.security
    }

    /// The time at which sequence numbers are requested again after a failure.
    pub fn wake_at(&self) -> Option<Time> {
        self.security.wake_at()
    }

    /// Takes an interface's present state. False if it is as it was.
    pub fn change(&mut self, interface: IfIndex, state: Option<Interface>) -> bool {
        self.links.change(interface, state)
    }

    /// Adds the keys of authenticated senders to a view of the neighbours.
    pub fn show_keys(&self, all: &mut BTreeMap<(IfIndex, IpAddr), NeighbourView>) {
        for (interface, addr, key_id) in self.security.proven() {
            all.entry((interface, addr)).or_insert_with(NeighbourView::on_link).keys.push(key_id);
        }
    }

    /// Forgets an interface that is gone.
    pub fn forget(&mut self, interface: IfIndex) {
        self.security.forget(interface);
        self.catch_ups.forget(interface);
    }

    /// Asks for sequence numbers, if it is time.
    pub fn reserve_sequences(&mut self) {
        if let Some(upto) = self.security.reserve(self.now) {
            self.out.reserve_sequences(upto);
        }
    }

    /// Signs a message if its interface requires that. `None`: it cannot be sent, and the reason is counted.
    pub fn sealed(&mut self, kind: MessageType, datagram: Datagram) -> Option<Datagram> {
        self.security.sealed(self.now, &self.links, &mut self.out, kind, datagram)
    }

    /// Sends a message, signed if its interface requires that.
    pub fn send_signed(&mut self, kind: MessageType, datagram: Datagram) {
        if let Some(datagram) = self.sealed(kind, datagram) {
            self.out.send(kind, datagram);
        }
    }

    fn guard<'a>(&'a mut self, state: &'a mut State) -> Guard<'a> {
        Guard::new(self.now, &mut self.security, &self.links, &mut self.out, &mut self.catch_ups, state)
    }

    /// Authenticates a message before it is queued, so that no message waits unless a key of its sender
    /// signed it. `Ok(None)`: its interface requires nothing.
    pub fn authentic(
        &mut self,
        state: &mut State,
        now: Time,
        from: &Arrival,
        bytes: &[u8],
    ) -> Result<Option<Proof>, &'static str> {
        if !self.security.requires(from.iif) || !self.links.speaks_on(from.iif) {
            return Ok(None);
        }
        self.now = now;
        self.guard(state).authentic(from, bytes)
    }

    /// The messages of a Bundle to us, with the TTL of each, if the interface requires that each is signed by
    /// itself (RFC 2961 section 3.1); none of a Bundle that cannot be read.
    pub fn signed_apart<'a>(
        &mut self,
        state: &mut State,
        from: &Arrival,
        bytes: &'a [u8],
    ) -> Option<Vec<(u8, &'a [u8])>> {
        self.guard(state).signed_apart(from, bytes)
    }

    /// Decides if a message may be read at all. One that fails leaves nothing but a count.
    pub fn authenticated(&mut self, state: &mut State, from: &Arrival, bytes: &[u8]) -> Checked {
        self.guard(state).authenticated(from, bytes)
    }

    /// Counts a message that was dropped for its authentication.
    pub fn drop_unauthenticated(&mut self, state: &mut State, from: &Arrival, why: &'static str) {
        self.guard(state).drop_unauthenticated(from.iif, from.src, why);
    }

    /// Sends neighbours that have challenged us the messages that they missed.
    pub fn again_alarm(&mut self, state: &mut State) {
        self.guard(state).again_alarm();
    }

    /// Schedules a refresh of our state at a neighbour, without the states that it has just got.
    pub fn catch_up(&mut self, state: &mut State, interface: IfIndex, peer: IpAddr, but: Kept) {
        self.catch_ups.catch_up(state, self.now, interface, peer, but);
    }

    /// Handles the next piece of each neighbour that is owed a refresh of our state.
    pub fn catch_up_alarm(&mut self, state: &mut State) {
        self.catch_ups.alarm(state, self.now);
    }
}
