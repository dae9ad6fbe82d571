//! The search of a model by stateright.

use super::counts::{ALL, Seen};
use super::message::{COORDINATOR, id_of};
use super::mutant::Mutant;
use super::{Checked, Fault, Scope, Shared, Site, Step, World};
use commit::coordinator::Input;
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::VecDeque;

/// The result of a search.
pub struct Report {
    /// The number of different states.
    pub states: usize,
    /// The number of steps between them.
    pub steps: usize,
    /// The steps to each property that does not hold.
    pub violations: Vec<(&'static str, Vec<String>)>,
    counts: [u64; ALL.len()],
}

impl Report {
    /// The number of times that something happened.
    pub fn count(&self, seen: Seen) -> u64 {
        self.counts[seen as usize]
    }
}

impl Checked {
    /// True if this fault is neither here nor on the way from here to the end of all transactions.
    fn holds(&self, world: &World, fault: Fault) -> bool {
        self.fault(world).or_else(|| self.settle(world)) != Some(fault)
    }

    /// The faults of a process.
    fn faults(&self, world: &World, site: Site, steps: &mut Vec<Step>) {
        if world.failures < self.scope.failures {
            steps.extend((0..world.pending(site)).map(|durable| Step::Fail(site, durable)));
        }
        if world.crashes < self.scope.crashes {
            steps.extend((0..=world.pending(site)).map(|durable| Step::Crash(site, durable)));
        }
    }
}

/// Searches every order of events in a scope; with a defect, until a property does not hold.
pub fn search(scope: Scope, mutant: Mutant, threads: usize) -> Report {
    let checker = Checked::new(scope, mutant).checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let said = |steps: Vec<Step>| steps.iter().map(|step| format!("{step:?}")).collect();
    let violations = checker.discoveries().into_iter().map(|(name, path)| (name, said(path.into_actions()))).collect();
    let counts = ALL.map(|(seen, _)| checker.model().counts.get(seen));
    Report { states: checker.unique_state_count(), steps: checker.state_count(), violations, counts }
}

impl Model for Checked {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![self.start()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let scope = &self.scope;
        let writing = self.sites().find(|site| !world.writes(*site).is_empty()).filter(|_| !scope.overlaps);
        if let Some(site) = writing {
            steps.push(Step::Write(site, world.writes(site).pop().unwrap_or(0)));
            self.faults(world, site, steps);
            return;
        }
        if world.coordinator.begun < scope.transactions && world.coordinator.engine.is_open() {
            steps.push(Step::Begin);
        }
        steps.extend(world.under_way.front().cloned().map(Step::Deliver));
        if scope.deviations.is_none_or(|most| world.deviations < most) {
            let late = world.sent.iter().filter(|message| world.under_way.front() != Some(message));
            steps.extend(late.cloned().map(Step::Deliver));
            let missed = self.sites().filter(|site| world.under_way.iter().any(|m| m.receiver() == *site));
            steps.extend(missed.map(Step::Miss));
        }
        for site in self.sites() {
            steps.extend(world.writes(site).into_iter().map(|writes| Step::Write(site, writes)));
            self.faults(world, site, steps);
            let next = self.at(world.tick(site) + 1).now;
            if world.tick(site) < scope.ticks && world.wake_at(site).is_some_and(|at| at <= next) {
                steps.push(Step::Wake(site));
            }
        }
        if world.coordinator.engine.is_open() {
            let epoch = world.coordinator.engine.epoch().number;
            let is_new = |place: &u8| world.participants[usize::from(*place)].engine.known(COORDINATOR).number < epoch;
            steps.extend((0..scope.participants).filter(is_new).map(Step::Connect));
            let all = (0..scope.participants).flat_map(|place| (0..scope.transactions).map(move |t| (place, t)));
            // Where deviations are limited, a question is asked when nothing else comes, and is not late.
            let asks = |(place, t): &(u8, u8)| match scope.deviations {
                None => world.participants[usize::from(*place)].book.contains_key(t),
                Some(_) => world.under_way.is_empty() && world.participants[usize::from(*place)].is_promised(*t),
            };
            steps.extend(all.filter(asks).map(|(place, transaction)| Step::Ask(place, transaction)));
        }
        steps.extend((0..scope.gives_up).filter(|t| world.is_preparing(*t)).map(Step::GiveUp));
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = before.clone();
        let sent = match step {
            Step::Begin => self.coordinator(&mut world, |site, at| site.begin(at)),
            Step::Deliver(message) => {
                if world.under_way.front() == Some(&message) {
                    world.under_way.pop_front();
                    let mut sent = (*world.sent).clone();
                    sent.insert(message.clone());
                    world.sent = Shared::new(sent);
                    self.deliver(&mut world, &message).unwrap_or_default()
                } else {
                    world.deviations += u8::from(self.scope.deviations.is_some());
                    let Some(sent) = self.deliver(&mut world, &message) else {
                        self.counts.add(Seen::Repetition);
                        return None;
                    };
                    sent
                }
            }
            Step::Miss(site) => {
                world.deviations += 1;
                let (missed, rest): (VecDeque<_>, _) =
                    world.under_way.drain(..).partition(|message| message.receiver() == site);
                world.under_way = rest;
                let mut sent = (*world.sent).clone();
                sent.extend(missed);
                world.sent = Shared::new(sent);
                Vec::new()
            }
            Step::Write(site, writes) => self.write(&mut world, site, writes),
            Step::Fail(site, durable) => {
                world.failures += 1;
                match site {
                    Site::Coordinator => self.coordinator(&mut world, |site, at| site.fail(at, durable)),
                    Site::Participant(place) => self.participant(&mut world, place, |site, at| site.fail(at, durable)),
                }
            }
            Step::Crash(site, durable) => {
                world.crashes += 1;
                match site {
                    Site::Coordinator => self.coordinator(&mut world, |site, at| site.crash(at, durable)),
                    Site::Participant(place) => self.participant(&mut world, place, |site, at| site.crash(at, durable)),
                }
            }
            Step::Wake(site) => self.wake(&mut world, site),
            Step::Connect(place) => self.connect(&mut world, place),
            Step::Ask(place, transaction) => {
                let epoch = world.participants[usize::from(place)].known;
                let answer = self.coordinator(&mut world, |site, at| site.asked(at, transaction, place, epoch));
                answer.into_iter().collect()
            }
            Step::GiveUp(transaction) => {
                let input = Input::GiveUp(id_of(transaction));
                self.coordinator(&mut world, |site, at| site.handle(at, input))
            }
        };
        self.send(&mut world, sent);
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Checked>> {
        vec![
            Property::always("no half", |model, world| model.holds(world, Fault::Half)),
            Property::always("none decided twice", |model, world| model.holds(world, Fault::Twice)),
            Property::always("none over-booked", |model, world| model.holds(world, Fault::Overbooked)),
            Property::always("every promise ends when everybody is up", |model, world| {
                model.holds(world, Fault::Stuck)
            }),
        ]
    }
}
