//! The invariants: lifetimes, judged from the messages and events of each agent; agreement of ledger, plan
//! and ports.

use super::{FaultCounts, Torture};
use crate::run_trace::{TraceEvent, TraceLine};
use crate::scenario::{NodeId, ScenarioAction};
use crate::world::{HeardMessage, World};
use node::io::{ControlEvent, Event};
use rsvp::io::Gone;
use rsvp::lifetime::lifetime;
use rsvp::{NextHop, Origin};
use std::collections::BTreeMap;
use std::net::IpAddr;
use terms::{IfIndex, SenderTemplate, Session, Span, Time};
use wire::Message;

/// The longest time by which a state may outlive its lifetime.
const TICK: Span = Span::from_millis(1);

/// A state of one sender in one node: path state (no interface), or the reservation states of an outgoing
/// interface.
type State = (NodeId, Option<IfIndex>, Session, SenderTemplate);

/// A refresh: the neighbour, the time, and the lifetime that it gives. There are several neighbours after a
/// change of route, or if a node with a dead agent lies between.
type Refresh = (IpAddr, Time, Span);

/// The judge of a run.
pub struct Invariant {
    keep: u32,
    /// The latest refreshes of each state, one for each neighbour.
    refreshed: BTreeMap<State, Vec<Refresh>>,
    /// Node and time of the last message. `undo` has the refreshes before it: if the agent's next event says
    /// that it dropped the message (a transient loop, no such state), the message was no refresh.
    last: Option<(NodeId, Time)>,
    undo: Vec<(State, Vec<Refresh>)>,
    messages: u64,
    kinds: BTreeMap<&'static str, u64>,
}

impl Invariant {
    /// A judge of a run that has not begun.
    pub fn new(_: &Torture) -> Invariant {
        Invariant {
            keep: super::net::KEEP,
            refreshed: BTreeMap::new(),
            last: None,
            undo: Vec::new(),
            messages: 0,
            kinds: BTreeMap::new(),
        }
    }

    /// Judges and drops the messages and events since the last call.
    pub fn judge(&mut self, world: &mut World) -> Result<(), String> {
        let (heard, lines) = world.take_past();
        let mut heard = heard.iter().peekable();
        for line in &lines {
            while let Some(earlier) = heard.next_if(|heard| heard.at <= line.at) {
                self.hear(earlier);
            }
            self.say(line)?;
        }
        heard.for_each(|heard| self.hear(heard));
        Ok(())
    }

    /// Checks the present state: every state within its lifetime, every ledger correct.
    pub fn standing(&self, world: &World) -> Result<(), String> {
        world.check().map_err(|broken| format!("node {:?}: {}", broken.node.map(|node| node.0), broken.law))?;
        let now = world.now();
        for n in 0..world.nodes() {
            let node = NodeId(n);
            let Some(agent) = world.agent(node) else { continue };
            for path in agent.rsvp().paths() {
                let Origin::Hop(phop) = path.origin else { continue };
                self.alive(now, (node, None, path.session, path.template), phop.addr)?;
            }
            for resv in agent.rsvp().reservations() {
                let NextHop::Hop { oif, addr } = resv.next_hop else { continue };
                for sender in &resv.filters {
                    self.alive(now, (node, Some(oif), resv.session, *sender), addr)?;
                }
            }
        }
        Ok(())
    }

    fn alive(&self, now: Time, state: State, hop: IpAddr) -> Result<(), String> {
        let refresh = self.refreshed.get(&state).and_then(|all| all.iter().find(|refresh| refresh.0 == hop));
        let Some(&(_, at, life)) = refresh else {
            return Err(format!("{} that nobody asked for", told(&state)));
        };
        if now > at + life + TICK {
            let (at, life) = (ms(at), life.as_millis());
            return Err(format!("{} outlives its lifetime: refreshed at {at} ms, lives {life} ms", told(&state)));
        }
        Ok(())
    }

    /// Counts an action on the net, and forgets the state of a killed agent.
    pub fn note(&mut self, action: &ScenarioAction) {
        let kind = match action {
            ScenarioAction::LinkDown(_) => "link down",
            ScenarioAction::LinkUp(_) => "link up",
            ScenarioAction::Crash(_) => "agent killed",
            ScenarioAction::Restart(_) => "agent restarted",
            ScenarioAction::NodeDown(_) => "power lost",
            ScenarioAction::Partition(_) => "partition",
            ScenarioAction::Heal => "healed",
            ScenarioAction::ClockStep { .. } => "clock stepped",
            ScenarioAction::FailPlane { .. } => "plane failed",
            _ => return,
        };
        if let ScenarioAction::Crash(node) | ScenarioAction::NodeDown(node) = action {
            self.refreshed.retain(|state, _| state.0 != *node);
        }
        self.count(kind);
    }

    /// The counts at the end of a run.
    pub fn tally(mut self, world: &World) -> FaultCounts {
        for counts in world.hops().iter().map(|hop| hop.rest.counts) {
            let all =
                [("message lost", counts.lost), ("message doubled", counts.doubled), ("cut on the link", counts.cut)];
            for (kind, count) in all {
                *self.kinds.entry(kind).or_default() += count;
            }
        }
        let simulated = world.now().since(Time::ZERO);
        FaultCounts { simulated, messages: self.messages, kinds: self.kinds, hash: world.story().hash() }
    }

    fn count(&mut self, kind: &'static str) {
        *self.kinds.entry(kind).or_default() += 1;
    }

    fn hear(&mut self, heard: &HeardMessage) {
        self.messages += 1;
        self.last = Some((heard.node, heard.at));
        self.undo.clear();
        match Message::parse(&heard.bytes) {
            Ok(Message::Path(path)) => {
                let life = lifetime(path.refresh, self.keep);
                if let Some(sender) = path.sender.ports() {
                    self.refresh((heard.node, None, path.session, sender), (path.hop.addr, heard.at, life));
                }
            }
            Ok(Message::Resv(resv)) => {
                let life = lifetime(resv.refresh, self.keep);
                let oif = IfIndex(resv.hop.lih);
                for filter in resv.flows().filter_map(|flow| flow.filter?.ports()) {
                    self.refresh((heard.node, Some(oif), resv.session, filter), (resv.hop.addr, heard.at, life));
                }
            }
            Ok(Message::PathTear(tear)) => {
                if let Some(sender) = tear.sender.ports() {
                    self.torn((heard.node, None, tear.session, sender), tear.hop.addr);
                }
            }
            Ok(Message::ResvTear(tear)) => {
                let oif = IfIndex(tear.hop.lih);
                for filter in tear.flows().filter_map(|flow| flow.filter?.ports()) {
                    self.torn((heard.node, Some(oif), tear.session, filter), tear.hop.addr);
                }
            }
            _ => {}
        }
    }

    fn torn(&mut self, state: State, hop: IpAddr) {
        if let Some(all) = self.refreshed.get_mut(&state) {
            self.undo.push((state, all.clone()));
            all.retain(|refresh| refresh.0 != hop);
        }
    }

    fn refresh(&mut self, state: State, refresh: Refresh) {
        let all = self.refreshed.entry(state).or_default();
        self.undo.push((state, all.clone()));
        let before = all.iter().position(|earlier| earlier.0 == refresh.0).map(|n| all.swap_remove(n));
        all.push(refresh);
        if before.is_some_and(|(_, before, life)| refresh.1 > before + life.mul_div_ceil(1, 3)) {
            self.count("message late");
        }
    }

    fn say(&mut self, line: &TraceLine) -> Result<(), String> {
        let TraceEvent::Event(event) = &line.what else { return Ok(()) };
        match event {
            Event::Rsvp(rsvp::io::Event::PathRemoved { session, template, why: Gone::Expired }) => {
                self.count("path expired");
                self.expired(line.at, (line.node, None, *session, *template))
            }
            Event::Rsvp(rsvp::io::Event::ResvRemoved {
                session,
                template: Some(template),
                oif: Some(oif),
                why: Gone::Expired,
                ..
            }) => {
                self.count("reservation expired");
                self.expired(line.at, (line.node, Some(*oif), *session, *template))
            }
            Event::Rsvp(rsvp::io::Event::Dropped { .. }) => {
                if self.last == Some((line.node, line.at)) {
                    self.refreshed.extend(self.undo.drain(..));
                }
                Ok(())
            }
            Event::Rsvp(rsvp::io::Event::Refused { .. }) => {
                self.count("reservation refused");
                Ok(())
            }
            Event::Control(ControlEvent::Adopted { .. }) => {
                self.count("flow adopted");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks that a state expired at the end of its lifetime, not before and not after.
    fn expired(&mut self, at: Time, state: State) -> Result<(), String> {
        let all = self.refreshed.entry(state).or_default();
        let in_time = |&(_, refreshed, life): &Refresh| at >= refreshed + life && at <= refreshed + life + TICK;
        if let Some(n) = all.iter().position(in_time) {
            all.swap_remove(n);
            let alive = all.iter().any(|(_, refreshed, life)| at < *refreshed + *life);
            // A reservation is of one next hop, a path of all previous ones: it passes to the one that still refreshes it.
            if state.1.is_some() || !alive {
                return Ok(());
            }
        }
        let of = |&(hop, at, life): &Refresh| format!("by {hop:?} at {} ms for {} ms", ms(at), life.as_millis());
        let refreshed: Vec<String> = all.iter().map(of).collect();
        Err(format!("{} expired at {} ms; refreshed {}", told(&state), ms(at), refreshed.join(", ")))
    }
}

fn told((node, oif, session, sender): &State) -> String {
    let kind = if oif.is_some() { "reservation" } else { "path" };
    format!("n{}: {kind} of {:?} from {:?}", node.0, session, sender)
}

fn ms(at: Time) -> u64 {
    at.as_nanos() / 1_000_000
}
