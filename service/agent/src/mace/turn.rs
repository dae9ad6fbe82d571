//! The agent's work for flows that never signalled: those that the plane recognised go to the engine, its decisions go to
//! the node, and the counter is read once a period.

use super::eyes::{Eyes, PlaneQuestion};
use super::{MaceHost, OpenFailed, event_words, load, watched};
use crate::drive::{AgentNode, Drive};
use crate::log::Level;
use crate::start::StartError;
use ::mace::io::Promotion;
use ::mace::{Event, Input, Output};
use control::tc::SignalledFlow;
use control::tc::measured::MeasuredFlow;
use linux::poll::Token;
use std::collections::BTreeSet;
use terms::{Fault, FlowKey, FlowSpec, IfIndex, Rate, Time, Tspec};
use traffic::plan::ClassId;

/// The most flows that are taken from the ring before other work has its turn.
const MOST_TAKEN: usize = 256;
const NO_ROOM: Fault = Fault { what: "another reservation has the flow, or its table is full", code: 0 };

/// The engine with the node that carries out what it decides.
pub(crate) struct MaceTurn<'a>(&'a mut Drive);

impl<'a> MaceTurn<'a> {
    pub(crate) fn of(drive: &'a mut Drive) -> MaceTurn<'a> {
        MaceTurn(drive)
    }

    pub(super) fn host(&mut self) -> Option<&mut MaceHost> {
        self.0.mace.as_mut()
    }

    pub(super) fn node(&mut self) -> &mut AgentNode {
        &mut self.0.node
    }

    pub(super) fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// The interface, while it is there.
    pub(super) fn oif(&self) -> Option<IfIndex> {
        self.0.mace.as_ref()?.oif
    }

    /// The name of the interface, and true while it is there.
    pub(super) fn named(&self) -> Option<(String, bool)> {
        Some((self.0.config.mace.as_ref()?.interface.clone(), self.oif().is_some()))
    }

    /// Carries out what follows from a change of the node.
    pub(super) fn after(&mut self) {
        self.0.after();
    }

    pub(super) fn answer_node(&mut self, answer: node::io::Input<'static>) {
        self.0.answer_node(answer);
    }

    /// Loads program and list, after everything in the plane is known, and takes over what an earlier run promoted.
    pub(crate) fn begin(&mut self, token: Token) -> Result<(), StartError> {
        let Some(config) = self.0.config.mace.clone() else { return Ok(()) };
        let list = load(&config.applications).map_err(|wrong| StartError::Interfaces(vec![wrong]))?;
        let interface = self.0.config.interfaces.iter().find(|interface| interface.name == config.interface);
        let overhead = interface.map_or(crate::config::DEFAULT_OVERHEAD, |interface| interface.overhead);
        let in_user_space = self.0.plane.queues(&config.interface);
        let host = MaceHost::open(&config, overhead, list, in_user_space).map_err(|failed| match failed {
            OpenFailed::System(error) => StartError::Failed(error),
            OpenFailed::Plane(fault) => StartError::Plane(fault),
        })?;
        if let Eyes::Kernel(recogniser) = &host.eyes {
            self.0.console.wake_for(&recogniser.ring(), token)?;
        }
        self.0.mace = Some(host);
        self.renew();
        Ok(())
    }

    /// Follows the interface: it may have come, gone, or have another rate.
    pub(crate) fn renew(&mut self) {
        let Some(config) = &self.0.config.mace else { return };
        let there = self.0.interfaces.values().find(|state| state.name == config.interface && state.link.is_some());
        let oif = there.map(|state| state.index);
        let Some(host) = &mut self.0.mace else { return };
        if host.oif != oif {
            let gone: Vec<FlowKey> = host.engine.promoted().keys().copied().collect();
            host.handles.clear();
            host.oif = oif;
            let booked = host.booked.lose_all();
            booked.into_iter().for_each(|handle| self.tell(Input::Gone(handle)));
            gone.into_iter().for_each(|flow| self.tell(Input::Lost(flow)));
            oif.into_iter().for_each(|oif| self.adopt(oif));
        }
        let (Some(oif), now) = (oif, self.0.clock.now()) else { return };
        let allocated = self.0.node.tc().measured(oif);
        self.tell(Input::Allocated(allocated));
        self.restore_booked();
        let Some(host) = &mut self.0.mace else { return };
        host.next_sample = host.next_sample.max(now);
        let attached = match &mut host.eyes {
            Eyes::Kernel(recogniser) => recogniser.attach(oif),
            Eyes::Plane(eyes) => {
                eyes.forget();
                Ok(())
            }
        };
        if let Err(fault) = attached {
            self.0.console.announce(Level::Error, "mace_fault", &format!("no flow is recognised: {fault}"));
        }
    }

    /// Takes over the flows that an earlier run promoted: they keep their class, and nothing changes in the kernel.
    fn adopt(&mut self, oif: IfIndex) {
        let now = self.0.clock.now();
        let mine = |view: &control::status::ReservationView| view.oif == oif && view.class == ClassId::MEASURED;
        let found: Vec<_> = self.0.node.reservations().filter(mine).collect();
        for view in found {
            let FlowSpec::ControlledLoad(tspec) = view.asked else { continue };
            let timeout = view.lifetime;
            let wanted = MeasuredFlow { oif, flow: view.flow, tspec, timeout };
            let Ok(handle) = self.0.node.promote(now, &wanted) else { continue };
            if let Some(host) = &mut self.0.mace {
                host.handles.insert(view.flow, handle);
            }
            self.tell(Input::Adopted { flow: view.flow, declared: view.admitted, timeout });
        }
        self.0.after();
    }

    /// Takes the flows that the kernel has recognised.
    pub(crate) fn take(&mut self) {
        for _ in 0..MOST_TAKEN {
            let Some(host) = &mut self.0.mace else { return };
            let Eyes::Kernel(recogniser) = &mut host.eyes else { return };
            let Some((oif, flow)) = recogniser.next_recognised() else { return };
            if host.oif == Some(oif) {
                self.tell(Input::Recognised(flow));
            }
        }
    }

    /// Does what is due by itself: answers of the plane, the sample, the look for silent flows.
    pub(crate) fn run(&mut self) {
        let now = self.0.clock.now();
        if self.0.mace.as_ref().and_then(MaceHost::wake_at).is_none_or(|at| at > now) {
            return;
        }
        self.hear();
        self.carry_out_orders();
        self.ask(now, false);
        self.sample(now);
        if self.0.mace.as_ref().is_some_and(|host| host.engine.wake_at().is_some_and(|at| at <= now)) {
            self.tell(Input::Wake);
        }
    }

    /// Reads the application list again; one with a mistake changes nothing.
    pub(crate) fn reload(&mut self) {
        let Some(config) = &self.0.config.mace else { return };
        let file = config.applications.clone();
        let Some(host) = &mut self.0.mace else { return };
        match load(&file) {
            Ok(list) => {
                if let Err(fault) = host.eyes.watch(watched(&list)) {
                    self.0.console.announce(Level::Error, "mace_fault", &format!("ports: {fault}"));
                }
                let text = format!("{} read again: {} applications", file.display(), list.all().len());
                self.0.console.announce(Level::Info, "mace_applications", &text);
                self.tell(Input::Applications(list));
            }
            Err(wrong) => {
                let text = format!("{wrong}; the applications stay as they were");
                self.0.console.announce(Level::Error, "mace_applications", &text);
            }
        }
    }

    /// Tells the engine what the plane said.
    fn hear(&mut self) {
        while let Some((flow, result)) = self.0.mace.as_mut().and_then(|host| host.installed.pop_front()) {
            if !self.hear_booked(&flow, &result) {
                self.tell(Input::Installed { flow, result });
            }
        }
        while let Some(news) = self.0.mace.as_mut().and_then(|host| host.signalled.pop_front()) {
            self.hear_signalled(&news);
        }
    }

    /// Tells the engine what a signalled reservation of its interface does.
    fn hear_signalled(&mut self, news: &SignalledFlow) {
        let Some(host) = &mut self.0.mace else { return };
        let here = host.oif;
        match *news {
            SignalledFlow::Counts { handle, oif, declared } if here == Some(oif) => {
                self.tell(Input::Counts { handle, declared });
            }
            SignalledFlow::Claimed { oif, flow } if here == Some(oif) => {
                host.handles.remove(&flow);
                let booked = host.booked.lose(&flow);
                booked.into_iter().for_each(|handle| self.tell(Input::Gone(handle)));
                self.tell(Input::Lost(flow));
            }
            // Whose interface is gone has gone with it.
            SignalledFlow::Gone { handle, .. } => self.tell(Input::Gone(handle)),
            SignalledFlow::Counts { .. } | SignalledFlow::Claimed { .. } => {}
        }
    }

    /// Says to traffic control what the rule admits now, where signalled reservations are admitted by it.
    fn say_room(&mut self) {
        let Some(host) = self.0.mace.as_ref().filter(|host| host.signalled.is_empty()) else { return };
        let Some(oif) = host.oif.filter(|_| self.0.config.mace.as_ref().is_some_and(|mace| mace.signalled)) else {
            return;
        };
        self.0.node.set_measured_room(oif, Some(host.engine.room()));
    }

    /// Asks the plane in user space, if it is that and its time has come, or `at_once`.
    fn ask(&mut self, now: Time, at_once: bool) {
        let Some(MaceHost { eyes: Eyes::Plane(eyes), oif: Some(oif), .. }) = &mut self.0.mace else { return };
        let oif = *oif;
        let failed = match eyes.question(now, at_once) {
            None => return,
            Some(PlaneQuestion::Watch(watch)) => self.0.plane.watch(oif, &watch).map(|()| eyes.watching()).err(),
            Some(PlaneQuestion::Take) => match self.0.plane.take_recognised(oif) {
                Ok(found) => {
                    eyes.took(&found);
                    return found.flows.into_iter().for_each(|flow| self.tell(Input::Recognised(flow)));
                }
                Err(fault) => Some(fault),
            },
        };
        if let Some(fault) = failed.filter(|fault| eyes.failed(now, *fault)) {
            self.0.console.announce(Level::Error, "mace_fault", &format!("no flow is recognised: {fault}"));
        }
    }

    fn sample(&mut self, now: Time) {
        let Some(host) = &mut self.0.mace else { return };
        if host.next_sample > now || host.oif.is_none() {
            return;
        }
        host.next_sample = now + host.engine.config().shared.period;
        self.ask(now, true);
        let Some(host) = &mut self.0.mace else { return };
        match host.eyes.arrived() {
            Ok(Some(bytes)) => self.tell(Input::Counter { at: now, bytes }),
            // That it does not answer has been said.
            Ok(None) => {}
            Err(fault) => self.0.console.announce(Level::Error, "mace_fault", &format!("no sample: {fault}")),
        }
    }

    /// Tells the engine one thing, and carries out what it says.
    pub(super) fn tell(&mut self, input: Input<'_>) {
        let now = self.0.clock.now();
        let Some(host) = &mut self.0.mace else { return };
        host.engine.handle(now, input);
        while let Some(output) = self.0.mace.as_mut().and_then(|host| host.engine.poll()) {
            match output {
                Output::Promote(promotion) => self.promote(now, &promotion),
                Output::Demote(flow) => self.demote(now, &flow),
                Output::Look => self.look(now),
                Output::Event(event) => self.announce(&event),
            }
            self.hear();
        }
        self.say_room();
    }

    fn promote(&mut self, now: Time, promotion: &Promotion) {
        let Some(host) = &mut self.0.mace else { return };
        let Some(oif) = host.oif else { return };
        let Promotion { flow, rate, depth, least_packet, timeout, .. } = *promotion;
        let tspec = Tspec { r: rate, b: depth, p: Rate::INFINITE, m: least_packet, M: 0 };
        match self.0.node.promote(now, &MeasuredFlow { oif, flow, tspec, timeout }) {
            Ok(handle) => drop(host.handles.insert(flow, handle)),
            Err(_) => host.promoted(flow, Err(NO_ROOM)),
        }
        self.0.after();
    }

    fn demote(&mut self, now: Time, flow: &FlowKey) {
        let Some(handle) = self.0.mace.as_mut().and_then(|host| host.handles.remove(flow)) else { return };
        self.0.node.demote(now, handle);
        self.0.after();
    }

    /// Looks when each promoted flow last had a packet. Those that the plane has no longer are lost.
    fn look(&mut self, now: Time) {
        let Some(host) = &mut self.0.mace else { return };
        let Some(oif) = host.oif else { return };
        let silence = match self.0.plane.silences(oif, ClassId::MEASURED) {
            Ok(silence) => silence,
            // That the plane in user space does not answer has been said, once.
            Err(_) if self.0.plane.is_user(oif) => return,
            Err(fault) => {
                let text = format!("no look for silent flows: {fault}");
                return self.0.console.announce(Level::Error, "mace_fault", &text);
            }
        };
        let there: BTreeSet<FlowKey> = silence.iter().map(|(flow, _)| *flow).collect();
        let is_lost = |(flow, promoted): (&FlowKey, &::mace::engine::PromotedFlow)| {
            (promoted.installed && !there.contains(flow)).then_some(*flow)
        };
        let lost: BTreeSet<FlowKey> = host.engine.promoted().iter().filter_map(is_lost).collect();
        host.handles.retain(|flow, _| !lost.contains(flow));
        let seen: Vec<(FlowKey, Time)> =
            silence.into_iter().map(|(flow, silence)| (flow, now.saturating_sub(silence))).collect();
        host.engine.handle(now, Input::Looked(&seen));
        lost.into_iter().for_each(|flow| host.engine.handle(now, Input::Lost(flow)));
    }

    fn announce(&mut self, event: &Event) {
        let level = match event {
            Event::Failed { .. } | Event::Doubted { .. } => Level::Warn,
            _ => Level::Info,
        };
        let (name, text) = event_words(event);
        self.0.console.announce(level, name, &text);
    }
}
