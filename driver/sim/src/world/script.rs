//! Actions of the script or of a caller: calls of applications, faults of links and nodes, and their repair.

use super::World;
use crate::link::LossReason;
use crate::map::{address, position};
use crate::scenario::{LinkId, NodeId, ScenarioAction};
use node::io::{AppCall, Input};

impl World {
    /// Carries out an action now.
    pub fn act(&mut self, action: &ScenarioAction) {
        self.run.mark([6]);
        self.promises.end_with(action);
        match *action {
            ScenarioAction::Send { node, app, session, template, tspec } => {
                self.tell(node, Input::App(AppCall::Sender { app, session, template, tspec, ttl: 64 }));
            }
            ScenarioAction::Unsend { node, app, session, template } => {
                self.tell(node, Input::App(AppCall::SenderGone { app, session, template }));
            }
            ScenarioAction::Receive { node, app, session, ask } => self.turn().receive(node, app, session, ask),
            ScenarioAction::Release { node, app } => self.turn().release(node, app),
            ScenarioAction::Book { node, ref who, ref call } => self.turn().call_bookings(node, who, call.clone()),
            ScenarioAction::Boomerang { node, ref call } => self.tell(node, Input::Boomerang(call.clone())),
            ScenarioAction::Crash(node) => self.agents.end(&mut self.net, node),
            ScenarioAction::Restart(node) => self.turn().start_agent(node),
            ScenarioAction::Stop(node) => self.tell(node, Input::Stop),
            ScenarioAction::FailPlane { node, batches } => self.net.station_mut(node).fail(batches),
            ScenarioAction::LinkDown(link) => self.set_link(link, LossReason::Told, true),
            ScenarioAction::LinkUp(link) => self.set_link(link, LossReason::Told, false),
            ScenarioAction::Impair(link, impairment) => self.net.impair(link, impairment, false),
            ScenarioAction::ImpairData(link, impairment) => self.net.impair(link, impairment, true),
            ScenarioAction::NodeDown(node) => self.set_power(node, true),
            ScenarioAction::NodeUp(node) => self.set_power(node, false),
            ScenarioAction::Partition(ref nodes) => self.partition(nodes),
            ScenarioAction::Heal => self.heal(),
            ScenarioAction::ClockStep { node, by_nanos } => self.agents.step_clock(node, by_nanos),
        }
    }

    fn tell(&mut self, id: NodeId, input: Input<'_>) {
        self.turn().tell(id, input);
    }

    /// Sets or clears one reason why a link is down. If that changes the link's state, all nodes find new
    /// routes, and both ends are told.
    fn set_link(&mut self, link: LinkId, why: LossReason, down: bool) {
        if !self.net.set_link(&self.run, link, why, down) {
            return;
        }
        self.find_ways();
        self.agents.route(self.net.map());
        for side in 0..2 {
            let (node, interface) = self.net.map().end(link, side);
            let n = position(interface);
            debug_assert!(self.net.station(node).interface(n).addresses == [address(link, side)]);
            self.turn().tell_interface(node, n);
            self.net.send_next(&mut self.run, node.0, n);
        }
        for id in (0..self.net.nodes()).map(NodeId) {
            self.tell(id, Input::RouteChanged(None));
        }
    }

    /// Takes a node's power away or restores it.
    fn set_power(&mut self, node: NodeId, down: bool) {
        if !self.agents.set_power(node, down) {
            return;
        }
        if down {
            self.agents.end(&mut self.net, node);
        }
        for a in self.net.map().attachments(node).to_vec() {
            let why = if a.side == 0 { LossReason::First } else { LossReason::Second };
            self.set_link(a.link, why, down);
        }
        if down {
            self.net.lose_power(&self.run, node);
            self.run.mark([11, node.0 as u64]);
        } else {
            self.turn().start_agent(node);
        }
    }

    /// Takes down all links between `nodes` and the others.
    fn partition(&mut self, nodes: &[NodeId]) {
        for n in 0..self.links().len() {
            let [a, b] = self.links()[n].spec().ends;
            if nodes.contains(&a) != nodes.contains(&b) {
                self.set_link(LinkId(n), LossReason::Partition, true);
            }
        }
    }

    /// Restores all links that partitions took down.
    fn heal(&mut self) {
        for n in 0..self.links().len() {
            self.set_link(LinkId(n), LossReason::Partition, false);
        }
    }
}
