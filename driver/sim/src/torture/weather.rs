//! What happens: faults and applications, each kind at exponential intervals of its own, drawn from the seed.

use super::Torture;
use super::net::{Talk, talks};
use crate::draw::exponential;
use crate::rng::{Ratio, Rng};
use crate::scenario::{Action, Ask, Impairment, LinkId, NodeId, Scenario};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use terms::{Span, Time};

/// What can happen, how often (on average, anywhere in the net) and for how long (on average).
const FAULTS: [(Fault, Span, Span); 7] = [
    (Fault::Impair, Span::from_secs(15 * 60), Span::from_secs(10 * 60)),
    (Fault::Link, Span::from_secs(20 * 60), Span::from_secs(3 * 60)),
    (Fault::Agent, Span::from_secs(30 * 60), Span::from_secs(2 * 60)),
    (Fault::Power, Span::from_secs(90 * 60), Span::from_secs(5 * 60)),
    (Fault::Partition, Span::from_secs(120 * 60), Span::from_secs(6 * 60)),
    (Fault::Plane, Span::from_secs(25 * 60), Span::ZERO),
    (Fault::Clock, Span::from_secs(60 * 60), Span::ZERO),
];

/// How often an application changes its mind, and says again what it wants.
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

/// What is due.
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

/// The source of everything that happens.
pub struct Weather {
    rng: Rng,
    due: BinaryHeap<Reverse<(Time, u64, Due)>>,
    count: u64,
    talks: Vec<Talk>,
    nodes: usize,
    links: usize,
    parted: bool,
    /// Actions of something that is several at once.
    ready: Vec<(Time, Action)>,
}

impl Weather {
    /// Of this net.
    pub fn new(torture: &Torture, scenario: &Scenario) -> Weather {
        let mut weather = Weather {
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
            weather.later(Time::ZERO, *every, Due::Begins(n));
        }
        weather.later(Time::ZERO, MIND, Due::Mind);
        weather
    }

    /// The next thing that happens until then, and when.
    pub fn next(&mut self, until: Time) -> Option<(Time, Action)> {
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

    /// Everything is mended and everybody goes.
    pub fn calm(&mut self) -> Vec<Action> {
        let mut all: Vec<Action> = vec![Action::Heal];
        all.extend((0..self.nodes).flat_map(|n| [Action::NodeUp(NodeId(n)), Action::Restart(NodeId(n))]));
        for n in 0..self.links {
            all.extend([Action::LinkUp(LinkId(n)), Action::Impair(LinkId(n), Impairment::default())]);
        }
        for talk in &self.talks {
            all.extend([talk.from, talk.to].map(|node| Action::Release { node, app: talk.app }));
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
            Due::LinkBack(n) => self.ready.push((at, Action::LinkUp(LinkId(n)))),
            Due::AgentBack(n) => self.ready.push((at, Action::Restart(NodeId(n)))),
            Due::PowerBack(n) => self.ready.push((at, Action::NodeUp(NodeId(n)))),
            Due::Heals => {
                self.parted = false;
                self.ready.push((at, Action::Heal));
            }
            Due::Clears(n) => self.ready.push((at, Action::Impair(LinkId(n), Impairment::default()))),
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
                Action::Impair(LinkId(link), self.impairment())
            }
            Fault::Link => {
                self.later(at, lasts, Due::LinkBack(link));
                Action::LinkDown(LinkId(link))
            }
            Fault::Agent => {
                self.later(at, lasts, Due::AgentBack(node));
                Action::Crash(NodeId(node))
            }
            Fault::Power => {
                self.later(at, lasts, Due::PowerBack(node));
                Action::NodeDown(NodeId(node))
            }
            Fault::Partition if self.parted => return,
            Fault::Partition => {
                self.parted = true;
                self.later(at, lasts, Due::Heals);
                let size = 1 + self.any(self.nodes - 1);
                Action::Partition((0..size).map(|n| NodeId((node + n) % self.nodes)).collect())
            }
            Fault::Plane => Action::FailPlane { node: NodeId(node), batches: 1 },
            Fault::Clock => {
                let by = self.rng.below(600_000_000_000) as i64 - 300_000_000_000;
                Action::ClockStep { node: NodeId(node), by_nanos: by }
            }
        };
        self.ready.push((at, action));
    }

    fn impairment(&mut self) -> Impairment {
        let percent = |rng: &mut Rng, most: u64| Ratio::percent(rng.below(most) as u32);
        Impairment {
            loss: percent(&mut self.rng, 50),
            duplicate: percent(&mut self.rng, 30),
            reorder: percent(&mut self.rng, 40),
            late: Span::from_millis(1 + self.rng.below(20_000)),
        }
    }

    /// An application changes its mind: it mostly wants to talk.
    fn mind(&mut self, at: Time) {
        let n = self.any(self.talks.len());
        let Talk { from, to, app, session, template, tspec } = self.talks[n];
        let actions = match self.rng.below(8) {
            0 => vec![Action::Unsend { node: from, app, session, template }],
            1 => vec![Action::Release { node: to, app }],
            2 => vec![Action::Send { node: from, app, session, template, tspec }],
            _ => vec![
                Action::Send { node: from, app, session, template, tspec },
                Action::Receive { node: to, app, session, ask: Ask::ControlledLoad },
            ],
        };
        self.ready.extend(actions.into_iter().rev().map(|action| (at, action)));
    }
}
