//! An agent, and what its node keeps beside it: power, the calendar clock, and the disk of its bookings.

use crate::book::{Anybody, BookingHost};
use crate::map::{RouteMap, Routes};
use crate::scenario::{NodeId, SimNodeSpec};
use node::io::{Input, Output};
use node::{Config, Node};
use std::rc::Rc;
use terms::probe::Off;
use terms::{Span, Time};

/// The node engine that every driver runs, with simulated routes and no policy.
pub type SimAgent = Node<Routes, Off, Anybody>;

/// A place for an agent.
pub(super) struct AgentHost {
    spec: SimNodeSpec,
    /// The agent, while it lives.
    agent: Option<SimAgent>,
    /// The number of agents that have ended. Events for an earlier agent are dropped.
    life: u32,
    /// The time of the agent's alarm, if one is set.
    alarm: Option<Time>,
    powered: bool,
    /// Offset of its calendar clock from simulated time, ns. Nothing in the simulation reads it.
    calendar: i64,
    /// Its bookings, after the first call of them.
    booking_host: Option<Box<BookingHost>>,
}

/// The result of an agent's alarm.
pub(super) enum AlarmDue {
    /// It was another agent's, or an earlier one has been set.
    Stale,
    /// The agent is to be woken.
    Now,
    /// The agent now wants to be woken later.
    Later,
}

impl AgentHost {
    /// A node with power, whose agent has not started.
    pub(super) fn new(spec: &SimNodeSpec) -> AgentHost {
        let spec = spec.clone();
        AgentHost { spec, agent: None, life: 0, alarm: None, powered: true, calendar: 0, booking_host: None }
    }

    pub(super) fn agent(&self) -> Option<&SimAgent> {
        self.agent.as_ref()
    }

    pub(super) fn booking_host(&self) -> Option<&BookingHost> {
        self.booking_host.as_deref()
    }

    pub(super) fn booking_host_mut(&mut self) -> Option<&mut BookingHost> {
        self.booking_host.as_deref_mut()
    }

    /// Starts the bookings. Returns false if they had been started.
    pub(super) fn start_bookings(&mut self) -> bool {
        let fresh = self.booking_host.is_none();
        if fresh {
            self.booking_host = Some(Box::default());
        }
        fresh
    }

    /// The number of agents that have ended.
    pub(super) fn life(&self) -> u32 {
        self.life
    }

    /// The time that the data plane takes to carry out a batch.
    pub(super) fn plane_delay(&self) -> Span {
        self.spec.plane_delay
    }

    pub(super) fn calendar(&self) -> i64 {
        self.calendar
    }

    pub(super) fn step_clock(&mut self, by_nanos: i64) {
        self.calendar = self.calendar.saturating_add(by_nanos);
    }

    /// Notes that the power is gone or is back. Returns false if it was so before.
    pub(super) fn set_power(&mut self, down: bool) -> bool {
        let changed = self.powered == down;
        self.powered = !down;
        changed
    }

    /// Starts an agent without any state. Returns false if there is one, or there can be none.
    pub(super) fn start(&mut self, seed: u64, id: NodeId, map: &Rc<RouteMap>) -> bool {
        if !self.powered || !self.spec.agent || self.agent.is_some() {
            return false;
        }
        let rsvp = node_config(&self.spec);
        let seed = seed ^ (id.0 as u64 + 1) << 32 ^ u64::from(self.life);
        let routes = Routes { node: id, map: Rc::clone(map) };
        self.agent = Some(Node::new(Config { rsvp, seed, ..Config::default() }, routes).under(Anybody));
        true
    }

    /// Ends the agent.
    pub(super) fn end(&mut self) {
        self.agent = None;
        self.life += 1;
        self.alarm = None;
        if let Some(booking_host) = &mut self.booking_host {
            booking_host.die();
        }
    }

    /// Gives the agent new routes.
    pub(super) fn route(&mut self, map: &Rc<RouteMap>) {
        if let Some(agent) = &mut self.agent {
            agent.route_mut().map = Rc::clone(map);
        }
    }

    /// Hands an input to the agent. Returns false if there is none.
    pub(super) fn handle(&mut self, now: Time, input: Input<'_>) -> bool {
        let Some(agent) = &mut self.agent else { return false };
        agent.handle(now, input);
        true
    }

    /// The agent's next output.
    pub(super) fn poll(&mut self) -> Option<Output> {
        self.agent.as_mut().and_then(Node::poll)
    }

    /// Sets the agent's alarm. Returns the time for which an event must be put in, if there is none yet.
    pub(super) fn set_alarm(&mut self) -> Option<Time> {
        let at = self.agent.as_ref().and_then(Node::wake_at)?;
        if self.alarm.is_some_and(|set| at >= set) {
            return None;
        }
        self.alarm = Some(at);
        Some(at)
    }

    /// Takes the event of an alarm.
    pub(super) fn alarm(&mut self, now: Time, life: u32) -> AlarmDue {
        if self.life != life || self.alarm.is_some_and(|set| now < set) {
            return AlarmDue::Stale;
        }
        self.alarm = None;
        let due = self.agent.as_ref().and_then(Node::wake_at).is_some_and(|at| at <= now);
        if due { AlarmDue::Now } else { AlarmDue::Later }
    }
}

fn node_config(spec: &SimNodeSpec) -> rsvp::io::Config {
    rsvp::io::Config {
        node_name: spec.name.clone(),
        refresh: spec.refresh,
        keep: spec.keep,
        ..rsvp::io::Config::default()
    }
}
