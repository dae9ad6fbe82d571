//! Faults and application calls. Each kind has its own exponential intervals, drawn from the seed.

use super::Torture;
use super::net::{SessionPlan, talks};
use crate::draw::exponential;
use crate::rng::{Probability, Rng};
use crate::scenario::{Impairment, LinkId, NodeId, Scenario, ScenarioAction, SimReservation};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use terms::{Span, Time};

/// Each kind of fault with its mean interval in the whole net and its mean duration.
const FAULTS: [(Fault, Span, Span); 7] = [
    (Fault::Impair, Span::from_secs(15 * 60), Span::from_secs(10 * 60)),
    (Fault::Link, Span::from_secs(20 * 60), Span::from_secs(3 * 60)),
    (Fault::Agent, Span::from_secs(30 * 60), Span::from_secs(2 * 60)),
    (Fault::Power, Span::from_secs(90 * 60), Span::from_secs(5 * 60)),
    (Fault::Partition, Span::from_secs(120 * 60), Span::from_secs(6 * 60)),
    (Fault::Plane, Span::from_secs(25 * 60), Span::ZERO),
    (Fault::Clock, Span::from_secs(60 * 60), Span::ZERO),
];

/// The mean interval between changes of applications' calls.
const MIND: Span = Span::from_secs(40);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fault {
    Impair,
    Link,
    Agent,
    Power,
    Partition,
    Plane,
    Clock,
}

/// A pending event.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    Begins(usize),
    LinkBack(usize),
    AgentBack(usize),
    PowerBack(usize),
    Heals,
    Clears(usize),
    Mind,
}

/// The source of all faults and application calls.
pub struct FaultInjector {
    rng: Rng,
    due: BinaryHeap<Reverse<(Time, u64, Due)>>,
    count: u64,
    talks: Vec<SessionPlan>,
    nodes: usize,
    links: usize,
    parted: bool,
    /// Actions that are due now. One event may have several.
    ready: Vec<(Time, ScenarioAction)>,
}

impl FaultInjector {
    /// An injector for this net.
    pub fn new(torture: &Torture, scenario: &Scenario) -> FaultInjector {
        let mut injector = FaultInjector {
            rng: Rng::new(torture.seed, 1 << 42),
            due: BinaryHeap::new(),
            count: 0,
            talks: talks(torture, scenario),
            nodes: scenario.nodes.len(),
            links: scenario.links.len(),
            parted: false,
            ready: Vec::new(),
        };
        for (n, (_, every, _)) in FAULTS.iter().enumerate() {
            injector.later(Time::ZERO, *every, Due::Begins(n));
        }
        injector.later(Time::ZERO, MIND, Due::Mind);
        injector
    }

    /// The next action until `until`, with its time.
    pub fn next(&mut self, until: Time) -> Option<(Time, ScenarioAction)> {
        loop {
            if let Some(ready) = self.ready.pop() {
                return Some(ready);
            }
            if self.due.peek()?.0.0 > until {
                return None;
            }
            let Reverse((at, _, due)) = self.due.pop()?;
            self.happens(at, due);
        }
    }

    /// Actions that repair everything and make all applications leave.
    pub fn calm(&mut self) -> Vec<ScenarioAction> {
        let mut all: Vec<ScenarioAction> = vec![ScenarioAction::Heal];
        all.extend(
            (0..self.nodes).flat_map(|n| [ScenarioAction::NodeUp(NodeId(n)), ScenarioAction::Restart(NodeId(n))]),
        );
        for n in 0..self.links {
            all.extend([ScenarioAction::LinkUp(LinkId(n)), ScenarioAction::Impair(LinkId(n), Impairment::default())]);
        }
        for talk in &self.talks {
            all.extend([talk.from, talk.to].map(|node| ScenarioAction::Release { node, app: talk.app }));
        }
        all
    }

    fn later(&mut self, now: Time, mean: Span, due: Due) {
        let at = now + exponential(&mut self.rng, mean).max(Span::from_micros(1));
        self.count += 1;
        self.due.push(Reverse((at, self.count, due)));
    }

    fn any(&mut self, of: usize) -> usize {
        self.rng.below(of as u64) as usize
    }

    fn happens(&mut self, at: Time, due: Due) {
        match due {
            Due::Begins(n) => {
                let (fault, every, lasts) = FAULTS[n];
                self.later(at, every, Due::Begins(n));
                self.begins(at, fault, lasts);
            }
            Due::LinkBack(n) => self.ready.push((at, ScenarioAction::LinkUp(LinkId(n)))),
            Due::AgentBack(n) => self.ready.push((at, ScenarioAction::Restart(NodeId(n)))),
            Due::PowerBack(n) => self.ready.push((at, ScenarioAction::NodeUp(NodeId(n)))),
            Due::Heals => {
                self.parted = false;
                self.ready.push((at, ScenarioAction::Heal));
            }
            Due::Clears(n) => self.ready.push((at, ScenarioAction::Impair(LinkId(n), Impairment::default()))),
            Due::Mind => {
                self.later(at, MIND, Due::Mind);
                self.mind(at);
            }
        }
    }

    fn begins(&mut self, at: Time, fault: Fault, lasts: Span) {
        let (link, node) = (self.any(self.links), self.any(self.nodes));
        let action = match fault {
            Fault::Impair => {
                self.later(at, lasts, Due::Clears(link));
                ScenarioAction::Impair(LinkId(link), self.impairment())
            }
            Fault::Link => {
                self.later(at, lasts, Due::LinkBack(link));
                ScenarioAction::LinkDown(LinkId(link))
            }
            Fault::Agent => {
                self.later(at, lasts, Due::AgentBack(node));
                ScenarioAction::Crash(NodeId(node))
            }
            Fault::Power => {
                self.later(at, lasts, Due::PowerBack(node));
                ScenarioAction::NodeDown(NodeId(node))
            }
            Fault::Partition if self.parted => return,
            Fault::Partition => {
                self.parted = true;
                self.later(at, lasts, Due::Heals);
                let size = 1 + self.any(self.nodes - 1);
                ScenarioAction::Partition((0..size).map(|n| NodeId((node + n) % self.nodes)).collect())
            }
            Fault::Plane => ScenarioAction::FailPlane { node: NodeId(node), batches: 1 },
            Fault::Clock => {
                let by = self.rng.below(600_000_000_000) as i64 - 300_000_000_000;
                ScenarioAction::ClockStep { node: NodeId(node), by_nanos: by }
            }
        };
        self.ready.push((at, action));
    }

    fn impairment(&mut self) -> Impairment {
        let percent = |rng: &mut Rng, most: u64| Probability::percent(rng.below(most) as u32);
        Impairment {
            loss: percent(&mut self.rng, 50),
            duplicate: percent(&mut self.rng, 30),
            reorder: percent(&mut self.rng, 40),
            late: Span::from_millis(1 + self.rng.below(20_000)),
        }
    }

    /// Changes an application's calls. Mostly it sends and receives.
    fn mind(&mut self, at: Time) {
        let n = self.any(self.talks.len());
        let SessionPlan { from, to, app, session, template, tspec } = self.talks[n];
        let actions = match self.rng.below(8) {
            0 => vec![ScenarioAction::Unsend { node: from, app, session, template }],
            1 => vec![ScenarioAction::Release { node: to, app }],
            2 => vec![ScenarioAction::Send { node: from, app, session, template, tspec }],
            _ => vec![
                ScenarioAction::Send { node: from, app, session, template, tspec },
                ScenarioAction::Receive { node: to, app, session, ask: SimReservation::ControlledLoad },
            ],
        };
        self.ready.extend(actions.into_iter().rev().map(|action| (at, action)));
    }
}
