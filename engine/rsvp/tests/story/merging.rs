//! I22, I28 for groups: senders and receivers come and go over a random tree, messages are lost, doubled and late,
//! branches move, planes fail. Whatever happens, traffic control holds exactly what the engines think it holds; and when
//! it is over, every interface holds what a count by hand says that it should, in every style.

use crate::story::net::*;
use rsvp::io::{AppCall, AppId, Config, Input};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use terms::{FilterSpec, FlowSpec, IfIndex, Rate, SenderTemplate, Session, Span, Style};

const R: Span = Span::from_secs(1);

struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Nodes 0 to n - 1; each may send to the group and receive from it.
struct World {
    net: Net,
    chance: Chance,
    storm: Rc<Cell<bool>>,
    style: Style,
    session: Session,
    /// The neighbour of each node, by interface.
    links: BTreeMap<(usize, u32), usize>,
    sends: Vec<bool>,
    /// What the receiver on each node asks: Mbit/s for each sender that it names (the same for all in SE and WF).
    asks: Vec<BTreeMap<usize, u64>>,
    happened: BTreeMap<&'static str, u32>,
}

impl World {
    fn new(seed: u64, style: Style) -> World {
        let (mut net, mut chance) = (Net::new(seed.is_multiple_of(3)), Chance(seed));
        let nodes = 4 + chance.below(4);
        let mut links = BTreeMap::new();
        for n in 0..nodes {
            net.node(&format!("n{n}"), Config { repair_wait: Span::from_millis(seed % 2 * 50), ..config(R) });
        }
        let mut used = vec![0u32; nodes];
        for n in 1..nodes {
            let to = chance.below(n);
            net.link(n, to);
            for (here, there) in [(n, to), (to, n)] {
                used[here] += 1;
                links.insert((here, used[here]), there);
            }
        }
        for node in &mut net.nodes {
            node.env.capacity.values_mut().for_each(|c| *c = Rate::from_mbps(100_000));
        }
        let storm = Rc::new(Cell::new(true));
        let (blows, mut dice) = (Rc::clone(&storm), Chance(seed ^ 0xabcd));
        net.fate = Box::new(move |_, _| match dice.below(20) {
            _ if !blows.get() => Fate::Deliver,
            0 | 1 => Fate::Lose,
            2 => Fate::Double,
            3 => Fate::Late(Span::from_millis(dice.below(200) as u64)),
            _ => Fate::Deliver,
        });
        let session = net.group(3);
        let (sends, asks, happened) = (vec![false; nodes], vec![BTreeMap::new(); nodes], BTreeMap::new());
        World { net, chance, storm, style, session, links, sends, asks, happened }
    }

    fn template(&self, node: usize) -> SenderTemplate {
        SenderTemplate { src: self.net.addr(node), src_port: 5004 }
    }

    fn send(&mut self, node: usize, on: bool) {
        self.sends[node] = on;
        let (app, session, template) = (AppId(1), self.session, self.template(node));
        let input = match on {
            true => Input::App(AppCall::Sender { app, session, template, tspec: tspec(10), ttl: 63 }),
            false => Input::App(AppCall::SenderGone { app, session, template }),
        };
        self.net.tell(node, input);
    }

    /// The receiver on a node asks for what `asks` says; members are those who ask.
    fn ask(&mut self, node: usize) {
        let members: Vec<usize> = (0..self.asks.len()).filter(|n| !self.asks[*n].is_empty()).collect();
        self.net.members(&self.session, &members);
        let (app, session, style, confirm) = (AppId(2), self.session, self.style, self.chance.below(2) == 0);
        let filters: Vec<FilterSpec> = self.asks[node].keys().map(|s| self.template(*s)).collect();
        let mut flowspecs: Vec<FlowSpec> = self.asks[node].values().map(|mbps| cl(*mbps)).collect();
        if style != Style::Ff {
            flowspecs.truncate(1);
        }
        if filters.is_empty() {
            return self.net.tell(node, Input::App(AppCall::Release { app, session: Some(session) }));
        }
        let (filters, flowspecs) = (&filters, &flowspecs);
        self.net.tell(node, Input::App(AppCall::Reserve { app, session, style, filters, flowspecs, confirm }));
    }

    fn step(&mut self) {
        let nodes = self.sends.len();
        let node = self.chance.below(nodes);
        let what = match self.chance.below(10) {
            0..=3 => {
                let mbps = 1 + self.chance.below(9) as u64;
                let mut asks = BTreeMap::new();
                for sender in (0..nodes).filter(|s| *s != node) {
                    let own = 1 + self.chance.below(9) as u64;
                    if self.style == Style::Wf || self.chance.below(2) == 0 {
                        asks.insert(sender, if self.style == Style::Ff { own } else { mbps });
                    }
                }
                self.asks[node] = asks;
                self.ask(node);
                "asked"
            }
            4 => {
                self.asks[node].clear();
                self.ask(node);
                "released"
            }
            5 | 6 => {
                self.send(node, true);
                "announced"
            }
            7 => {
                self.send(node, false);
                "silenced"
            }
            8 => {
                self.net.restart(node);
                self.net.nodes[node].env.held.clear();
                "restart"
            }
            _ => {
                let env = &mut self.net.nodes[node].env;
                env.failing = match env.failing {
                    None => Some(terms::Fault { what: "class", code: 12 }),
                    Some(_) => None,
                };
                "plane fault"
            }
        };
        *self.happened.entry(what).or_default() += 1;
    }

    /// What traffic control holds is what the engine thinks it holds, always.
    fn check(&self) {
        for (n, node) in self.net.nodes.iter().enumerate() {
            let thought: BTreeMap<_, _> =
                self.net.engine(n).traffic_control().map(|t| (t.handle, (t.oif, t.admitted))).collect();
            assert_eq!(thought, node.env.held, "node {n}, {:?}", self.style);
        }
    }

    /// The storm is over; everybody says once more what they want.
    fn calm(&mut self) {
        self.storm.set(false);
        self.net.nodes.iter_mut().for_each(|n| n.env.failing = None);
        for node in 0..self.sends.len() {
            self.send(node, self.sends[node]);
            self.ask(node);
        }
        self.net.run(Span::from_millis(3 * 5_250 + 3_000));
        self.check();
    }

    /// The way from one node to another: the interfaces that packets leave by.
    fn way(&self, from: usize, to: usize) -> Vec<(usize, u32)> {
        let mut best: BTreeMap<usize, Vec<(usize, u32)>> = BTreeMap::from([(from, Vec::new())]);
        let mut queue = vec![from];
        while let Some(at) = queue.pop() {
            for ((_, oif), next) in self.links.range((at, 0)..=(at, u32::MAX)) {
                if !best.contains_key(next) {
                    let mut way = best[&at].clone();
                    way.push((at, *oif));
                    best.insert(*next, way);
                    queue.push(*next);
                }
            }
        }
        best.remove(&to).unwrap_or_default()
    }

    /// What each interface should hold, in Mbit/s, counted by hand.
    fn expected(&self) -> BTreeMap<(usize, u32), u64> {
        let nodes = self.sends.len();
        // For each interface: which senders' packets are reserved for there, and for how much.
        let mut held: BTreeMap<(usize, u32), BTreeMap<usize, u64>> = BTreeMap::new();
        let mut pairs = Vec::new();
        for (to, asks) in self.asks.iter().enumerate() {
            for (from, mbps) in asks.iter().filter(|(from, _)| self.sends[**from]) {
                pairs.push((*from, *mbps, self.way(*from, to)));
            }
        }
        for (from, mbps, way) in &pairs {
            for oif in way {
                let one = held.entry(*oif).or_default().entry(*from).or_default();
                *one = (*one).max(*mbps);
            }
        }
        if self.style == Style::Ff {
            return held.into_iter().map(|(oif, by)| (oif, by.values().sum())).collect();
        }
        // Shared: one reservation for all senders of an interface, as large as the largest request for any of them; and
        // what is asked of a previous hop is as much for each of its senders.
        for _ in 0..nodes {
            for by in held.values_mut() {
                let most = by.values().copied().max().unwrap_or(0);
                by.values_mut().for_each(|v| *v = most);
            }
            for (from, _, way) in &pairs {
                for hop in way.windows(2) {
                    let below = held[&hop[1]][from];
                    let above = held.get_mut(&hop[0]).and_then(|by| by.get_mut(from)).expect("on the way");
                    *above = (*above).max(below);
                }
            }
        }
        held.into_iter().map(|(oif, by)| (oif, by.values().copied().max().unwrap_or(0))).collect()
    }

    fn found(&self) -> BTreeMap<(usize, u32), u64> {
        let mut found = BTreeMap::new();
        for (n, node) in self.net.nodes.iter().enumerate() {
            for (IfIndex(oif), flowspec) in node.env.held.values() {
                *found.entry((n, *oif)).or_default() += flowspec.rate().as_bps() / 1_000_000;
            }
        }
        found
    }

    /// The senders that a shared-explicit reservation lists on each interface.
    fn listed(&self) -> BTreeMap<(usize, u32), BTreeSet<SenderTemplate>> {
        let mut listed: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for n in 0..self.sends.len() {
            for tc in self.net.engine(n).traffic_control() {
                listed.entry((n, tc.oif.0)).or_default().extend(tc.filters);
            }
        }
        listed
    }

    fn should_list(&self) -> BTreeMap<(usize, u32), BTreeSet<SenderTemplate>> {
        let mut listed: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (to, asks) in self.asks.iter().enumerate() {
            for from in asks.keys().filter(|from| self.sends[**from]) {
                for oif in self.way(*from, to) {
                    listed.entry(oif).or_default().insert(self.template(*from));
                }
            }
        }
        listed
    }
}

fn storm(style: Style) {
    let mut happened: BTreeMap<&str, u32> = BTreeMap::new();
    let mut most = 0;
    for seed in 0..60 {
        let mut world = World::new(seed, style);
        for _ in 0..80 {
            world.step();
            let span = Span::from_millis(world.chance.below(700) as u64);
            world.net.run(span);
            world.check();
        }
        world.calm();
        assert_eq!(world.found(), world.expected(), "seed {seed} {style:?}");
        if style != Style::Wf {
            assert_eq!(world.listed(), world.should_list(), "seed {seed} {style:?}");
        }
        most = most.max(world.found().len());
        for node in 0..world.sends.len() {
            world.asks[node].clear();
            world.ask(node);
            world.send(node, false);
        }
        world.net.run(Span::from_millis(50));
        assert_eq!(world.found(), BTreeMap::new(), "seed {seed} {style:?}");
        // Where a branch was pruned before its sender stopped, the path is left to its lifetime.
        world.net.run(Span::from_millis(6_000));
        let left: usize = world.net.paths().iter().sum::<usize>() + world.net.resvs().iter().sum::<usize>();
        assert_eq!(left, 0, "seed {seed} {style:?}: nothing is left");
        world.happened.into_iter().for_each(|(what, n)| *happened.entry(what).or_default() += n);
    }
    assert!(happened.len() == 6 && happened.values().all(|n| *n > 50), "every fault was there: {happened:?}");
    assert!(most >= 8, "trees with something on them: {most}");
}

#[test]
fn distinct_reservations_are_as_counted_by_hand() {
    storm(Style::Ff);
}

#[test]
fn shared_explicit_reservations_are_as_counted_by_hand() {
    storm(Style::Se);
}

#[test]
fn wildcard_reservations_are_as_counted_by_hand() {
    storm(Style::Wf);
}
