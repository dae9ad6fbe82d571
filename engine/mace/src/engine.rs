//! The engine of one outgoing interface: recognition, admission, promotion, staleness, and what was counted.

use crate::candidates::{Candidate, CandidateTable};
use crate::io::{Config, Demotion, Event, FlowDecision, Input, MOST_DECISIONS, MOST_SHADOWS, Output, Promotion};
use crate::list::ApplicationList;
use crate::rules::{RuleTerms, ShadowRule};
use admit::{CounterReading, CounterSampler, Denied, FlowRule};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{Bytes, Fault, FlowKey, Misuse, Rate, Span, Time};

/// A flow that was admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromotedFlow {
    /// Its application; empty: the list has none for it any more.
    pub application: String,
    /// The rate that counts for it, wire rate.
    pub declared: Rate,
    /// The time of its admission.
    pub since: Time,
    /// The time of its last packet, as it was last looked for.
    pub last: Time,
    /// Silence after which it is demoted.
    pub timeout: Span,
    /// True once the plane has read it back.
    pub installed: bool,
}

/// The counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MaceCounts {
    /// Flows that reached their threshold and asked.
    pub asked: u64,
    /// Of these, admitted.
    pub admitted: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Recognised again before their refusal was over, or of no listed application.
    pub ignored: u64,
    /// Admitted, but the plane could not have them.
    pub failed: u64,
    /// Demoted because they were silent.
    pub silent: u64,
    /// Ended or lost otherwise.
    pub ended: u64,
    /// Samples of the counter that counted.
    pub samples: u64,
    /// Readings that were missed, or not believed.
    pub doubted: u64,
}

/// The counts of one application since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ApplicationCounts {
    /// Flows that asked.
    pub asked: u64,
    /// Of these, admitted.
    pub admitted: u64,
}

/// Flows that never signalled, of one outgoing interface.
#[derive(Debug)]
pub struct Mace {
    config: Config,
    list: ApplicationList,
    counts_of: BTreeMap<String, ApplicationCounts>,
    candidates: CandidateTable,
    promoted: BTreeMap<FlowKey, PromotedFlow>,
    /// The rate that each signalled reservation declares.
    signalled: BTreeMap<RHandle, Rate>,
    rule: Box<dyn FlowRule>,
    shadows: Vec<ShadowRule>,
    sampler: CounterSampler,
    measured: Option<Rate>,
    counts: MaceCounts,
    decisions: VecDeque<FlowDecision>,
    next_look: Option<Time>,
    out: VecDeque<Output>,
}

impl Mace {
    /// An engine without flows.
    ///
    /// # Errors
    /// [`Misuse::ZeroRate`]: a parameter of a rule that means nothing, or more than [`MOST_SHADOWS`] rules in shadow.
    pub fn new(config: Config, list: ApplicationList) -> Result<Mace, Misuse> {
        if config.shadow.len() > MOST_SHADOWS || config.look == Span::ZERO {
            return Err(Misuse::ZeroRate);
        }
        let shadows = config.shadow.iter().map(|terms| ShadowRule::new(*terms, &config.shared));
        Ok(Mace {
            rule: config.rule.build(&config.shared)?,
            shadows: shadows.collect::<Result<_, _>>()?,
            list,
            counts_of: BTreeMap::new(),
            candidates: CandidateTable::new(config.candidates, config.key),
            promoted: BTreeMap::new(),
            signalled: BTreeMap::new(),
            sampler: CounterSampler::new(config.shared.period),
            measured: None,
            counts: MaceCounts::default(),
            decisions: VecDeque::with_capacity(MOST_DECISIONS),
            next_look: None,
            out: VecDeque::new(),
            config,
        })
    }

    /// Takes one input; then drain [`Mace::poll`].
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        match input {
            Input::Packet(flow) => self.packet(now, &flow),
            Input::Recognised(flow) => self.recognised(now, &flow),
            Input::Installed { flow, result } => self.installed(now, &flow, result),
            Input::Lost(flow) => self.demote(&flow, Demotion::Lost),
            Input::Ended(flow) => self.demote(&flow, Demotion::Ended),
            Input::Counts { handle, declared } => self.count(handle, declared),
            Input::Gone(handle) => self.uncount(handle),
            Input::Adopted { flow, declared, timeout } => self.adopt(now, flow, declared, timeout),
            Input::Looked(seen) => self.looked(now, seen),
            Input::Counter { at, bytes } => self.measure(at, bytes),
            Input::Applications(list) => self.list = list,
            Input::Allocated(rate) => self.allocate(rate),
            Input::Wake => self.wake(now),
        }
    }

    /// The next output, until `None`.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The time to come back with [`Input::Wake`]; `None`: no flow is promoted.
    pub fn wake_at(&self) -> Option<Time> {
        self.next_look.filter(|_| !self.promoted.is_empty())
    }

    /// The applications.
    pub fn applications(&self) -> &ApplicationList {
        &self.list
    }

    /// The counts of an application.
    pub fn counts_of(&self, application: &str) -> ApplicationCounts {
        self.counts_of.get(application).copied().unwrap_or_default()
    }

    /// The flows that were admitted, in the order of their keys.
    pub fn promoted(&self) -> &BTreeMap<FlowKey, PromotedFlow> {
        &self.promoted
    }

    /// The signalled reservations that are admitted by measurement: their number.
    pub fn signalled(&self) -> usize {
        self.signalled.len()
    }

    /// The largest declared rate that the rule in force admits now, wire rate.
    pub fn room(&self) -> Rate {
        self.rule.room()
    }

    /// The candidates.
    pub fn candidates(&self) -> &CandidateTable {
        &self.candidates
    }

    /// The parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The rule that decides.
    pub fn rule(&self) -> (RuleTerms, &dyn FlowRule) {
        (self.config.rule, &*self.rule)
    }

    /// The rules in shadow.
    pub fn shadows(&self) -> &[ShadowRule] {
        &self.shadows
    }

    /// The last sample; `None`: there is none yet.
    pub fn measured(&self) -> Option<Rate> {
        self.measured
    }

    /// The counts since the start.
    pub fn counts(&self) -> MaceCounts {
        self.counts
    }

    /// The last decisions, at most [`MOST_DECISIONS`], the oldest first.
    pub fn decisions(&self) -> impl DoubleEndedIterator<Item = &FlowDecision> {
        self.decisions.iter()
    }

    fn packet(&mut self, now: Time, flow: &FlowKey) {
        let Some(place) = self.list.of(flow).filter(|_| !self.promoted.contains_key(flow)) else { return };
        let threshold = self.list.all()[place].threshold;
        if self.candidates.count(now, flow, threshold) {
            self.consider(now, flow, place);
        }
    }

    fn recognised(&mut self, now: Time, flow: &FlowKey) {
        let waits = |candidate: &Candidate| candidate.refused_until > now;
        match self.list.of(flow) {
            Some(place) if !self.promoted.contains_key(flow) && !self.candidates.get(flow).is_some_and(waits) => {
                self.consider(now, flow, place);
            }
            _ => self.counts.ignored += 1,
        }
    }

    /// Asks the rules about a recognised flow of the application at this place of the list.
    fn consider(&mut self, now: Time, flow: &FlowKey, place: usize) {
        let application = &self.list.all()[place];
        let declared = application.declared(self.config.overhead);
        self.counts.asked += 1;
        let shadows = self.shadows.iter_mut().map(|shadow| shadow.ask(declared)).collect();
        let usage = self.rule.usage();
        let asked = self.rule.ask(declared);
        if self.decisions.len() == MOST_DECISIONS {
            self.decisions.pop_front();
        }
        let (name, admitted) = (application.name.clone(), asked.is_ok());
        let decision = FlowDecision { at: now, flow: *flow, application: name, declared, usage, admitted, shadows };
        self.decisions.push_back(decision);
        let of = match self.counts_of.get_mut(&application.name) {
            Some(of) => of,
            None => self.counts_of.entry(application.name.clone()).or_default(),
        };
        of.asked += 1;
        let free = match asked {
            Ok(()) => {
                of.admitted += 1;
                return self.admit(now, flow, place, declared);
            }
            Err(Denied::Capacity { free, .. } | Denied::Pool { free, .. }) => free,
            Err(Denied::Limit { .. } | Denied::Misuse(_)) => Rate::ZERO,
        };
        let application = application.name.clone();
        self.counts.refused += 1;
        let until = self.refuse(now, flow);
        let event = Event::Refused { flow: *flow, application, declared, free, until };
        self.out.push_back(Output::Event(event));
    }

    /// Promotes a flow that the rule has admitted.
    fn admit(&mut self, now: Time, flow: &FlowKey, place: usize, declared: Rate) {
        let application = &self.list.all()[place];
        self.counts.admitted += 1;
        self.shadows.iter_mut().for_each(|shadow| shadow.enter(declared));
        let promoted = PromotedFlow {
            application: application.name.clone(),
            declared,
            since: now,
            last: now,
            timeout: application.timeout,
            installed: false,
        };
        let promotion = Promotion {
            flow: *flow,
            application: application.name.clone(),
            rate: application.rate,
            depth: application.depth,
            least_packet: application.least_packet,
            declared,
            timeout: application.timeout,
        };
        self.promoted.insert(*flow, promoted);
        self.look_later(now);
        self.out.push_back(Output::Promote(promotion));
    }

    fn installed(&mut self, now: Time, flow: &FlowKey, result: Result<(), Fault>) {
        let Some(promoted) = self.promoted.get_mut(flow).filter(|promoted| !promoted.installed) else { return };
        match result {
            Ok(()) => {
                promoted.installed = true;
                promoted.last = promoted.last.max(now);
                let (application, declared) = (promoted.application.clone(), promoted.declared);
                self.candidates.remove(flow);
                self.out.push_back(Output::Event(Event::Promoted { flow: *flow, application, declared }));
            }
            Err(fault) => {
                self.forget(flow);
                self.counts.failed += 1;
                self.refuse(now, flow);
                self.out.push_back(Output::Event(Event::Failed { flow: *flow, fault }));
            }
        }
    }

    /// Notes that a flow may not ask for a while; returns until when.
    fn refuse(&mut self, now: Time, flow: &FlowKey) -> Time {
        let until = now.saturating_add(self.config.refused_for);
        self.candidates.at(now, flow).refused_until = until;
        until
    }

    fn count(&mut self, handle: RHandle, declared: Rate) {
        if declared == Rate::ZERO {
            return self.uncount(handle);
        }
        self.uncount(handle);
        self.signalled.insert(handle, declared);
        self.rule.enter(declared);
        self.shadows.iter_mut().for_each(|shadow| shadow.enter(declared));
    }

    fn uncount(&mut self, handle: RHandle) {
        let Some(declared) = self.signalled.remove(&handle) else { return };
        self.rule.leave(declared);
        self.shadows.iter_mut().for_each(|shadow| shadow.leave(declared));
    }

    fn adopt(&mut self, now: Time, flow: FlowKey, declared: Rate, timeout: Span) {
        if self.promoted.contains_key(&flow) || declared == Rate::ZERO {
            return;
        }
        self.rule.enter(declared);
        self.rule.adopted();
        for shadow in &mut self.shadows {
            shadow.enter(declared);
            shadow.adopted();
        }
        let application = self.list.of(&flow).map(|place| self.list.all()[place].name.clone()).unwrap_or_default();
        let promoted = PromotedFlow { application, declared, since: now, last: now, timeout, installed: true };
        self.promoted.insert(flow, promoted);
        self.look_later(now);
        self.out.push_back(Output::Event(Event::Adopted { flow, declared }));
    }

    fn looked(&mut self, now: Time, seen: &[(FlowKey, Time)]) {
        let mut silent = Vec::new();
        for (flow, last) in seen {
            let Some(promoted) = self.promoted.get_mut(flow).filter(|promoted| promoted.installed) else { continue };
            // A time that has not come yet is a clock's mistake, and must not keep a flow for ever.
            promoted.last = promoted.last.max((*last).min(now));
            if now.since(promoted.last) >= promoted.timeout {
                silent.push(*flow);
            }
        }
        silent.iter().for_each(|flow| self.demote(flow, Demotion::Silent));
    }

    fn demote(&mut self, flow: &FlowKey, why: Demotion) {
        let Some(promoted) = self.forget(flow) else {
            // Who has ended is no candidate any more either.
            return self.candidates.remove(flow);
        };
        match why {
            Demotion::Silent => self.counts.silent += 1,
            Demotion::Ended | Demotion::Lost => self.counts.ended += 1,
        }
        if why != Demotion::Lost {
            self.out.push_back(Output::Demote(*flow));
        }
        let event = Event::Demoted { flow: *flow, application: promoted.application, why };
        self.out.push_back(Output::Event(event));
    }

    /// Takes a flow out of the table and of every rule.
    fn forget(&mut self, flow: &FlowKey) -> Option<PromotedFlow> {
        let promoted = self.promoted.remove(flow)?;
        self.rule.leave(promoted.declared);
        self.shadows.iter_mut().for_each(|shadow| shadow.leave(promoted.declared));
        Some(promoted)
    }

    fn measure(&mut self, at: Time, bytes: Bytes) {
        let reading = self.sampler.read(at, bytes);
        self.rule.take(reading);
        self.shadows.iter_mut().for_each(|shadow| shadow.take(reading));
        match reading {
            CounterReading::Sample(rate) => {
                self.measured = Some(rate);
                self.counts.samples += 1;
            }
            CounterReading::First | CounterReading::TooSoon => {}
            CounterReading::Missed => self.counts.doubted += 1,
            CounterReading::Backwards | CounterReading::Gap => {
                self.counts.doubted += 1;
                let declared = self.rule.declared();
                self.out.push_back(Output::Event(Event::Doubted { declared }));
            }
        }
    }

    fn allocate(&mut self, rate: Rate) {
        self.config.shared.allocated = rate;
        self.rule.allocate(rate);
        self.shadows.iter_mut().for_each(|shadow| shadow.allocate(rate));
    }

    fn wake(&mut self, now: Time) {
        if self.wake_at().is_some_and(|at| at <= now) {
            self.next_look = Some(now.saturating_add(self.config.look));
            self.out.push_back(Output::Look);
        }
    }

    fn look_later(&mut self, now: Time) {
        let later = now.saturating_add(self.config.look);
        if self.next_look.is_none_or(|at| at < now) {
            self.next_look = Some(later);
        }
    }
}
