//! Inputs and outputs of the agents, and their effects on the simulated net.

use crate::link::LossReason;
use crate::run_trace::TraceEvent;
use crate::scenario::{NodeId, ScenarioAction, SimReservation};
use crate::world::{Due, WatchLevel, World};
use node::io::{AppCall, AppId, Input, Output, Upcall};
use std::collections::VecDeque;
use terms::{FlowSpec, SenderTemplate, Session, Style};

/// A call that an application makes in answer to an upcall.
struct Answer {
    app: AppId,
    session: Session,
    template: SenderTemplate,
    flowspec: FlowSpec,
}

impl World {
    /// Tells an agent an input, drains it, and lets its applications answer. Does nothing if the agent is
    /// dead.
    pub(crate) fn tell(&mut self, id: NodeId, input: Input<'_>) {
        let now = self.now();
        let Some(agent) = &mut self.stations[id.0].agent else { return };
        agent.handle(now, input);
        self.after(id);
    }

    /// Drains an agent and lets its applications answer.
    pub(crate) fn after(&mut self, id: NodeId) {
        let now = self.now();
        let mut answers = self.drain(id);
        while let Some(Answer { app, session, template, flowspec }) = answers.pop_front() {
            let Some(agent) = &mut self.stations[id.0].agent else { return };
            let (filters, flowspecs) = ([template], [flowspec]);
            let (style, confirm) = (Style::Ff, true);
            let call = AppCall::Reserve { app, session, style, filters: &filters, flowspecs: &flowspecs, confirm };
            agent.handle(now, Input::App(call));
            answers.extend(self.drain(id));
        }
        self.set_alarm(id);
        self.look_after(id);
        self.book_hears(id);
    }

    fn drain(&mut self, id: NodeId) -> VecDeque<Answer> {
        let now = self.now();
        let mut answers = VecDeque::new();
        let mut reserve = None;
        while let Some(output) = self.stations[id.0].agent.as_mut().and_then(node::Node::poll) {
            match output {
                Output::Send(datagram) => self.send(id, datagram),
                Output::Plan { id: plan, ops } => {
                    let station = &mut self.stations[id.0];
                    station.batches.push_back((plan, ops));
                    let due = Due::PlaneDone { node: id.0 as u32, life: station.life };
                    self.agenda.put(now + station.spec.plane_delay, due);
                }
                Output::Upcall { app, upcall } => {
                    answers.extend(self.answer(id, app, &upcall));
                    self.promise(id, &upcall);
                    self.story.tell(now, id, TraceEvent::Upcall(app, upcall));
                }
                Output::Boomerang(said) => self.boomerang(id, said),
                Output::Event(event) => {
                    self.note_for_book(id, &event);
                    self.story.tell(now, id, TraceEvent::Event(event));
                }
                Output::ReserveSequences { upto } => reserve = Some(upto),
            }
        }
        if let Some((upto, agent)) = reserve.zip(self.stations[id.0].agent.as_mut()) {
            // The clock of a simulation never goes back, so its disk need not remember.
            agent.handle(now, Input::SequencesReserved { from: 0, upto });
            answers.extend(self.drain(id));
        }
        answers
    }

    /// The answer of a receiver to a Path: the request that its scenario states.
    fn answer(&self, id: NodeId, app: AppId, upcall: &Upcall) -> Option<Answer> {
        let Upcall::Path { session, template, tspec, .. } = upcall else { return None };
        let flowspec = self.asks.get(&(id, app, *session))?.flowspec(tspec)?;
        Some(Answer { app, session: *session, template: *template, flowspec })
    }

    fn set_alarm(&mut self, id: NodeId) {
        let station = &mut self.stations[id.0];
        let Some(at) = station.agent.as_ref().and_then(node::Node::wake_at) else { return };
        if station.alarm.is_none_or(|set| at < set) {
            station.alarm = Some(at);
            self.agenda.put(at, Due::Alarm { node: id.0 as u32, life: station.life });
        }
    }

    pub(crate) fn alarm(&mut self, id: NodeId, life: u32) {
        let now = self.now();
        let station = &mut self.stations[id.0];
        if station.life != life || station.alarm.is_some_and(|set| now < set) {
            return;
        }
        station.alarm = None;
        let due = station.agent.as_ref().and_then(node::Node::wake_at).is_some_and(|at| at <= now);
        if due {
            self.story.mark(&[now.as_nanos(), 4, id.0 as u64]);
            self.tell(id, Input::Wake);
        } else {
            self.set_alarm(id);
        }
    }

    pub(crate) fn plane_done(&mut self, id: NodeId, life: u32) {
        let now = self.now();
        if self.stations[id.0].life != life {
            return;
        }
        let Some((plan, result)) = self.stations[id.0].carry_out(now) else { return };
        self.story.mark(&[now.as_nanos(), 5, id.0 as u64, plan.0, u64::from(result.is_ok())]);
        for n in 0..self.stations[id.0].interfaces.len() {
            self.send_next(id.0, n);
        }
        self.tell(id, Input::PlanDone { id: plan, result });
    }

    /// If the run is watched: checks that the agent, its ledger and its plane agree.
    fn look_after(&mut self, id: NodeId) {
        let WatchLevel::EveryStep(None) = self.watch else { return };
        if let Err(law) = self.laws(id) {
            self.watch = WatchLevel::EveryStep(Some(self.broke(Some(id), law)));
        }
    }

    /// Carries out an action of the script or of a caller of [`World::act`].
    pub(crate) fn carry(&mut self, action: &ScenarioAction) {
        self.promises_end_with(action);
        match *action {
            ScenarioAction::Send { node, app, session, template, tspec } => {
                self.tell(node, Input::App(AppCall::Sender { app, session, template, tspec, ttl: 64 }));
            }
            ScenarioAction::Unsend { node, app, session, template } => {
                self.tell(node, Input::App(AppCall::SenderGone { app, session, template }));
            }
            ScenarioAction::Receive { node, app, session, ask } => self.receive(node, app, session, ask),
            ScenarioAction::Release { node, app } => {
                self.asks.retain(|(n, a, _), _| (*n, *a) != (node, app));
                self.tell(node, Input::App(AppCall::Release { app, session: None }));
            }
            ScenarioAction::Book { node, ref who, ref call } => self.call_book(node, who, call.clone()),
            ScenarioAction::Boomerang { node, ref call } => self.tell(node, Input::Boomerang(call.clone())),
            ScenarioAction::Crash(node) => {
                self.stations[node.0].end();
                self.asks.retain(|(n, _, _), _| *n != node);
            }
            ScenarioAction::Restart(node) => self.start_agent(node),
            ScenarioAction::Stop(node) => self.tell(node, Input::Stop),
            ScenarioAction::FailPlane { node, batches } => self.stations[node.0].failing += batches,
            ScenarioAction::LinkDown(link) => self.set_link(link, LossReason::Told, true),
            ScenarioAction::LinkUp(link) => self.set_link(link, LossReason::Told, false),
            ScenarioAction::Impair(link, impairment) => self.impair(link, impairment, false),
            ScenarioAction::ImpairData(link, impairment) => self.impair(link, impairment, true),
            ScenarioAction::NodeDown(node) => self.set_power(node, true),
            ScenarioAction::NodeUp(node) => self.set_power(node, false),
            ScenarioAction::Partition(ref nodes) => self.partition(nodes),
            ScenarioAction::Heal => self.heal(),
            ScenarioAction::ClockStep { node, by_nanos } => {
                let calendar = &mut self.stations[node.0].calendar;
                *calendar = calendar.saturating_add(by_nanos);
            }
        }
    }

    fn receive(&mut self, node: NodeId, app: AppId, session: Session, ask: SimReservation) {
        self.asks.insert((node, app, session), ask);
        self.tell(node, Input::App(AppCall::Receiver { app, session }));
        // A sender that is known already was told of before, or will be by the call above; a changed ask needs a call.
        let known: Vec<_> = match self.agent(node) {
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
}
