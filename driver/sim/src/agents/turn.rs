//! A turn of an agent: inputs, outputs, and their effects on the simulated net.

use super::host::{AgentHost, AlarmDue};
use super::{Agents, WatchLevel};
use crate::book::BookingOutput;
use crate::net::Net;
use crate::promise::Promises;
use crate::run::{Due, Run};
use crate::run_trace::TraceEvent;
use crate::scenario::{NodeId, SimReservation};
use node::io::{AppCall, AppId, ControlEvent, Event, Input, Output, Upcall};
use std::collections::VecDeque;
use std::rc::Rc;
use terms::{FlowSpec, SenderTemplate, Session, Style};

/// A call that an application makes in answer to an upcall.
struct Answer {
    app: AppId,
    session: Session,
    template: SenderTemplate,
    flowspec: FlowSpec,
}

/// The agents, and the parts of the world that their outputs change.
pub(crate) struct Turn<'a> {
    pub(super) agents: &'a mut Agents,
    pub(super) run: &'a mut Run,
    pub(super) net: &'a mut Net,
    promises: &'a mut Promises,
}

impl<'a> Turn<'a> {
    /// A turn of agents in this world.
    pub(crate) fn new(
        agents: &'a mut Agents,
        run: &'a mut Run,
        net: &'a mut Net,
        promises: &'a mut Promises,
    ) -> Turn<'a> {
        Turn { agents, run, net, promises }
    }

    pub(super) fn host(&mut self, id: NodeId) -> &mut AgentHost {
        &mut self.agents.hosts[id.0]
    }

    /// Calls for an application that no longer receives.
    pub(crate) fn release(&mut self, id: NodeId, app: AppId) {
        self.agents.asks.retain(|(node, of, _), _| (*node, *of) != (id, app));
        self.tell(id, Input::App(AppCall::Release { app, session: None }));
    }

    /// Tells an agent an input, drains it, and lets its applications answer. Does nothing if the agent is
    /// dead.
    pub(crate) fn tell(&mut self, id: NodeId, input: Input<'_>) {
        let now = self.run.now();
        if self.host(id).handle(now, input) {
            self.after(id);
        }
    }

    /// Drains an agent and lets its applications answer.
    pub(super) fn after(&mut self, id: NodeId) {
        let now = self.run.now();
        let mut answers = self.drain(id);
        while let Some(Answer { app, session, template, flowspec }) = answers.pop_front() {
            let (filters, flowspecs) = ([template], [flowspec]);
            let (style, confirm) = (Style::Ff, true);
            let call = AppCall::Reserve { app, session, style, filters: &filters, flowspecs: &flowspecs, confirm };
            if !self.host(id).handle(now, Input::App(call)) {
                return;
            }
            answers.extend(self.drain(id));
        }
        self.set_alarm(id);
        self.look_after(id);
    }

    fn drain(&mut self, id: NodeId) -> VecDeque<Answer> {
        let now = self.run.now();
        let mut answers = VecDeque::new();
        let mut reserve = None;
        while let Some(output) = self.host(id).poll() {
            match output {
                Output::Send(datagram) => {
                    if let Some(number) = self.net.send(self.run, id, datagram) {
                        self.take(id, number);
                    }
                }
                Output::Plan { id: plan, ops } => {
                    self.net.station_mut(id).hand(plan, ops);
                    let host = &self.agents.hosts[id.0];
                    self.run.put(now + host.plane_delay(), Due::PlaneDone { node: id.0 as u32, life: host.life() });
                }
                Output::Upcall { app, upcall } => {
                    answers.extend(self.answer(id, app, &upcall));
                    if let Some(agent) = self.agents.agent(id) {
                        self.promises.hear(now, self.net, agent.rsvp(), &upcall);
                    }
                    self.run.tell(id, TraceEvent::Upcall(app, upcall));
                }
                Output::Boomerang(said) => self.boomerang(id, said),
                Output::Append(batch) => self.write(id, batch),
                Output::Order(order) => self.order(id, &order),
                Output::Reply { id: call, reply } => self.note_for_book(id, BookingOutput::Reply(call.0, *reply)),
                Output::Corrupt { table, what, .. } => {
                    unreachable!("a disk of ours has what we wrote: {table:?}, {what}")
                }
                // No scenario has a coordinator.
                Output::AskDecision(_) | Output::Contradicted(_) => {}
                // No scenario promotes recognised flows.
                Output::Promoted { .. } | Output::ByMeasurement(_) => {}
                // No role of an interface is told, so none is trusted.
                Output::Trust(_) => {}
                Output::Event(event) => {
                    match &event {
                        Event::Booking(event) => self.note_for_book(id, BookingOutput::Event(event.clone())),
                        Event::Control(ControlEvent::Enforced { handle, part, rate }) => {
                            self.note_for_book(id, BookingOutput::Enforced(*handle, *part, *rate));
                        }
                        _ => {}
                    }
                    self.run.tell(id, TraceEvent::Event(event));
                }
                Output::ReserveSequences { upto } => reserve = Some(upto),
            }
        }
        // The clock of a simulation never goes back, so its disk need not remember.
        if let Some(upto) = reserve
            && self.host(id).handle(now, Input::SequencesReserved { from: 0, upto })
        {
            answers.extend(self.drain(id));
        }
        answers
    }

    /// The answer of a receiver to a Path: the request that its scenario states.
    fn answer(&self, id: NodeId, app: AppId, upcall: &Upcall) -> Option<Answer> {
        let Upcall::Path { session, template, tspec, .. } = upcall else { return None };
        let flowspec = self.agents.asks.get(&(id, app, *session))?.flowspec(tspec)?;
        Some(Answer { app, session: *session, template: *template, flowspec })
    }

    fn set_alarm(&mut self, id: NodeId) {
        let host = self.host(id);
        let life = host.life();
        if let Some(at) = host.set_alarm() {
            self.run.put(at, Due::Alarm { node: id.0 as u32, life });
        }
    }

    /// Handles the event of an agent's alarm.
    pub(crate) fn alarm(&mut self, id: NodeId, life: u32) {
        let now = self.run.now();
        match self.host(id).alarm(now, life) {
            AlarmDue::Stale => {}
            AlarmDue::Now => {
                self.run.mark([4, id.0 as u64]);
                self.tell(id, Input::Wake);
            }
            AlarmDue::Later => self.set_alarm(id),
        }
    }

    /// Handles the end of a data plane's oldest batch.
    pub(crate) fn plane_done(&mut self, id: NodeId, life: u32) {
        let now = self.run.now();
        if self.host(id).life() != life {
            return;
        }
        let Some((plan, result)) = self.net.station_mut(id).carry_out(now) else { return };
        self.run.mark([5, id.0 as u64, plan.0, u64::from(result.is_ok())]);
        for n in 0..self.net.station(id).interfaces() {
            self.net.send_next(self.run, id.0, n);
        }
        self.tell(id, Input::PlanDone { id: plan, result });
    }

    /// If the run is watched: checks that the agent, its ledger and its plane agree.
    fn look_after(&mut self, id: NodeId) {
        let WatchLevel::EveryStep(None) = self.agents.watch else { return };
        if let Err(law) = self.agents.laws(self.net, id) {
            self.agents.watch = WatchLevel::EveryStep(Some(self.run.broke(Some(id), law)));
        }
    }

    /// Calls for an application that receives: it asks for this in each of the session's senders.
    pub(crate) fn receive(&mut self, node: NodeId, app: AppId, session: Session, ask: SimReservation) {
        self.agents.asks.insert((node, app, session), ask);
        self.tell(node, Input::App(AppCall::Receiver { app, session }));
        // A sender that is known already was told of before, or will be by the call above; a changed ask needs a call.
        let known: Vec<_> = match self.agents.agent(node) {
            Some(agent) => {
                agent.rsvp().paths().filter(|p| p.session == session).map(|p| (p.template, p.tspec)).collect()
            }
            None => Vec::new(),
        };
        for (template, tspec) in known {
            let Some(flowspec) = ask.flowspec(&tspec) else { continue };
            let (filters, flowspecs) = ([template], [flowspec]);
            let call = AppCall::Reserve {
                app,
                session,
                style: Style::Ff,
                filters: &filters,
                flowspecs: &flowspecs,
                confirm: true,
            };
            self.tell(node, Input::App(call));
        }
    }

    /// Starts a node's agent, if it has power and none lives. The agent adopts the content of the data plane.
    pub(crate) fn start_agent(&mut self, id: NodeId) {
        let (seed, map) = (self.run.seed(), Rc::clone(self.net.map()));
        if !self.host(id).start(seed, id, &map) {
            return;
        }
        self.net.station_mut(id).agent_starts();
        let plan = self.net.station(id).plan();
        let found: Vec<_> = plan.links.iter().map(|(oif, link)| (*oif, link.clone())).collect();
        for (oif, link) in found {
            for (class, spec) in link.classes {
                self.tell(id, Input::FoundClass { oif, class, spec });
            }
            for (flow, entry) in link.flows {
                self.tell(id, Input::Adopt { oif, flow, entry });
            }
        }
        let edges: Vec<_> = self.net.station(id).plan().edges.iter().map(|(at, rules)| (*at, rules.clone())).collect();
        for (at, rules) in edges {
            self.tell(id, Input::FoundEdge { at, rules });
        }
        for n in 0..self.net.station(id).interfaces() {
            self.tell_interface(id, n);
        }
        self.open_book(id);
    }

    /// Tells an agent the present state of its interface.
    pub(crate) fn tell_interface(&mut self, id: NodeId, n: usize) {
        let link = self.net.map().attachments(id)[n].link;
        let state = self.net.station(id).interface(n).clone();
        let input =
            if self.net.map().is_up(link) { Input::Interface(state) } else { Input::InterfaceGone(state.index) };
        self.tell(id, input);
    }
}
