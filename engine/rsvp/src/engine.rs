//! The engine's three entry points: `handle`, `poll`, `wake_at`.

use crate::arrival::Arrival;
use crate::counters::RsvpCounters;
use crate::installed::Installation;
use crate::integrity::proof::Proof;
use crate::io::{AppCall, Config, Input, Output};
use crate::links::Env;
use crate::overload::class::IntakeClass;
use crate::overload::class_of::class_of;
use crate::overload::waiting::Incoming;
use crate::path_life::PathLife;
use crate::receive::Reception;
use crate::receiver::{Ask, Receivers};
use crate::repair::{Repair, Sweeps};
use crate::sender::{Offer, Senders};
use crate::signalling::Signalling;
use crate::state::State;
use crate::views::{self, NeighbourView, PathView, ResvView, SessionView, TcView};
use crate::wake::Alarms;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::Rng;
use terms::ports::{Route, TrafficControl};
use terms::probe::{Off, ProbeObserver, ProbePoint};
use terms::{IfIndex, Session, Time};

/// An RSVP node. `P` observes its probe points; [`Off`] unless it is made [`Rsvp::with`] another.
pub struct Rsvp<P = Off> {
    state: State,
    signalling: Signalling,
    /// A walk over all path states that is under way.
    sweeps: Sweeps,
    probe: P,
}

impl Rsvp {
    /// A node without interfaces. `seed` feeds the jitter of refreshes and keys the tables' hash: in a daemon
    /// it is random, in a simulation it is the run's seed.
    pub fn new(config: Config, seed: u64) -> Rsvp {
        Rsvp::with(config, seed, Off)
    }
}

impl<P: ProbeObserver> Rsvp<P> {
    /// Takes the secret of cookies and the keys of the tables from `chance`, in a daemon the kernel's random
    /// source: values derived from one seed can be found out from the jitter that others see. Call it before
    /// the first input, for it empties the tables.
    pub fn keyed(&mut self, chance: &mut dyn FnMut() -> u64) {
        let secret = [(); 4].map(|()| chance());
        self.signalling.rekey(self.state.config(), secret, [chance(), chance()]);
        self.state.rekey(&mut || (chance(), chance()));
    }

    /// As [`Rsvp::new`], with an observer of the probe points.
    pub fn with(config: Config, seed: u64, probe: P) -> Rsvp<P> {
        // Of its own, so that cookies say nothing about jitter.
        let mut chance = Rng::seeded(seed ^ 0x5ec2_e7c0_0c1e_5000);
        let secret = [(); 4].map(|()| chance.next_u64());
        let signalling = Signalling::new(&config, secret, [chance.next_u64(), chance.next_u64()]);
        let state = State::new(config, seed, &mut || chance.next_u64());
        Rsvp { state, signalling, sweeps: Sweeps::default(), probe }
    }

    /// The observer of the probe points.
    pub fn probe_mut(&mut self) -> &mut P {
        &mut self.probe
    }

    /// Takes one input. Drain [`Rsvp::poll`] before the next.
    pub fn handle<E: Route + TrafficControl>(&mut self, now: Time, env: &mut E, input: Input<'_>) {
        debug_assert!(self.signalling.said().is_empty(), "one input, then drain");
        self.signalling.at(now);
        let Rsvp { state, signalling, sweeps, probe } = self;
        match input {
            Input::Message { iif, src, dst, ttl, bytes } => {
                let from = Arrival { iif, src, dst, ttl, direct: true, proof: None };
                Reception::new(env, state, signalling, probe).message_arrives(&from, bytes);
            }
            Input::Waited(waiting) => {
                let Incoming { bytes, .. } = waiting.incoming();
                let from = Arrival { proof: waiting.proof(), ..waiting.incoming().arrival() };
                Reception::new(env, state, signalling, probe).message_arrives(&from, bytes);
            }
            Input::Wake => {
                probe.enter(ProbePoint::Soften);
                Alarms::new(env, state, signalling, probe).wake(sweeps);
                probe.leave(ProbePoint::Soften);
            }
            Input::App(call) => self.call(env, call),
            Input::Installed { handle, result } => {
                Installation::new(env, state, signalling, probe).installed(handle, result);
            }
            Input::Displaced { handle, by } => Installation::new(env, state, signalling, probe).displaced(handle, by),
            Input::RouteChanged(within) => {
                Repair::new(env, state, signalling, probe).route_changed(sweeps, within);
            }
            Input::Interface { interface, state: present } => {
                if signalling.interface(state, interface, present) {
                    Repair::new(env, state, signalling, probe).interface_changed(sweeps, interface);
                }
            }
            Input::Adopted { session, until } => {
                // Without room for the session its flows are as if new.
                if let Ok(sid) = PathLife::new(env, state, signalling, probe).session_for(&session) {
                    state.adopt(sid, until);
                }
            }
            Input::Auth { interface, auth } => signalling.authenticate(interface, &auth),
            Input::SequencesReserved { from, upto } => signalling.sequences_reserved(from, upto),
            Input::SequencesFailed => signalling.sequences_failed(),
        }
        self.signalling.settle(&mut self.state);
    }

    /// A local application's call (RFC 2205 section 3.11.1).
    fn call<E: Env>(&mut self, env: &mut E, call: AppCall<'_>) {
        let Rsvp { state, signalling, probe, .. } = self;
        match call {
            AppCall::Sender { app, session, template, tspec, ttl } => {
                let offer = Offer { app, session, template, tspec, ttl };
                Senders::new(env, state, signalling, probe).sender(&offer);
            }
            AppCall::SenderGone { app, session, template } => {
                Senders::new(env, state, signalling, probe).sender_gone(app, &session, &template);
            }
            AppCall::Receiver { app, session } => {
                Receivers::new(env, state, signalling, probe).receiver(app, &session);
            }
            AppCall::Reserve { app, session, style, filters, flowspecs, confirm } => {
                let ask = Ask { app, session, style, filters, flowspecs, confirm };
                Receivers::new(env, state, signalling, probe).reserve(&ask);
            }
            AppCall::Proxy { app } => signalling.applications_mut().make_proxy(app),
            AppCall::Priority { app, priority } => signalling.applications_mut().prioritise(app, priority),
            AppCall::Release { app, session: Some(session) } => {
                Receivers::new(env, state, signalling, probe).release(app, &session);
            }
            AppCall::Release { app, session: None } => {
                Receivers::new(env, state, signalling, probe).application_ended(app);
            }
        }
    }

    /// The next output, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.signalling.out().pop()
    }

    /// The time at which the driver calls with [`Input::Wake`], if no other input comes before.
    pub fn wake_at(&self) -> Option<Time> {
        if self.sweeps.is_under_way() {
            return Some(self.signalling.now());
        }
        [self.state.wake_at(), self.signalling.wake_at()].into_iter().flatten().min()
    }

    /// Authenticates a message before it is queued, so that no message waits unless a key of its sender
    /// signed it. `Ok(None)`: its interface requires nothing.
    ///
    /// # Errors
    /// The reason why it is refused, which is counted.
    pub(crate) fn authentic(&mut self, now: Time, from: &Arrival, bytes: &[u8]) -> Result<Option<Proof>, &'static str> {
        self.signalling.authentic(&mut self.state, now, from, bytes)
    }

    /// The messages of a Bundle to us, with the TTL of each, if the interface requires that each is signed by
    /// itself (RFC 2961 section 3.1); none of a Bundle that cannot be read.
    pub(crate) fn signed_apart<'a>(&mut self, from: &Arrival, bytes: &'a [u8]) -> Option<Vec<(u8, &'a [u8])>> {
        self.signalling.signed_apart(&mut self.state, from, bytes)
    }

    /// The class of a message, the neighbour whose quota it counts against, and its hash if it repeats the last
    /// message of a state.
    pub(crate) fn class_of(&self, message: &Incoming<'_>) -> (IntakeClass, IpAddr, u64) {
        class_of(&self.state, message)
    }

    /// True if a session has a reservation here, or one of an earlier life of this node has not expired.
    pub fn is_reserved(&self, session: &Session) -> bool {
        self.state.is_reserved(session)
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> {
        views::sessions(&self.state)
    }

    /// All path states.
    pub fn paths(&self) -> impl Iterator<Item = PathView> {
        views::paths(&self.state)
    }

    /// All requests for reservations.
    pub fn reservations(&self) -> impl Iterator<Item = ResvView> {
        views::reservations(&self.state)
    }

    /// All reservations of outgoing interfaces.
    pub fn traffic_control(&self) -> impl Iterator<Item = TcView> {
        views::traffic_control(&self.state)
    }

    /// The neighbours that any state comes from, or that were heard, by interface and address.
    pub fn neighbours(&self) -> Vec<(IfIndex, IpAddr, NeighbourView)> {
        let mut all = views::neighbours(&self.state);
        self.signalling.show_neighbours(&mut all);
        all.into_iter().map(|((interface, addr), one)| (interface, addr, one)).collect()
    }

    /// The number of blocks that walks over chains of sessions have looked at, for tests of growth.
    pub fn walked(&self) -> u64 {
        self.state.walked()
    }

    /// The number of armed alarms: at most one for each session, path state, reservation state and neighbour,
    /// and two more.
    pub fn alarms(&self) -> usize {
        self.state.armed()
    }

    /// Messages in, out and dropped.
    pub fn counters(&self) -> &RsvpCounters {
        self.signalling.said().counters()
    }

    /// A digest of all state, without lifetimes, refresh times and counters: equal before and after a message
    /// that was refused or dropped. It does not depend on the order in which states came.
    pub fn digest(&self) -> u64 {
        views::digest(&self.state)
    }
}

#[cfg(test)]
mod tests;
