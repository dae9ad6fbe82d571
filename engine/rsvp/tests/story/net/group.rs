//! Multicast routing: from every node a tree of shortest paths to the members of each group.

use super::Net;
use std::collections::BTreeMap;
use std::net::IpAddr;
use terms::ports::{MulticastTree, Oifs, RouteDecision};
use terms::{IfIndex, Session};

impl Net {
    /// A group of the net's address family.
    pub fn group(&self, number: u8) -> Session {
        let dst: IpAddr =
            if self.v6 { [0xff1e, 0, 0, 0, 0, 0, 0, u16::from(number)].into() } else { [239, 1, 1, number].into() };
        Session { dst, protocol: 17, dst_port: 5004 }
    }

    /// Members join or leave; multicast routing follows at once, and the engines are told.
    pub fn members(&mut self, session: &Session, members: &[usize]) {
        self.members.insert(session.dst, members.iter().copied().collect());
        self.learn_trees();
        for node in 0..self.nodes.len() {
            self.tell(node, rsvp::io::Input::RouteChanged(Some((session.dst, 32))));
        }
    }

    /// The nodes from one to another, with the interface that each leaves by; both ends included.
    fn walk(&self, from: usize, to: usize) -> Vec<(usize, Option<IfIndex>)> {
        let dst = self.addr(to);
        let (mut at, mut way) = (from, Vec::new());
        while at != to {
            let Some(RouteDecision::Out { oif, .. }) = self.nodes[at].env.routes.get(&dst) else { return Vec::new() };
            let Some((next, _)) = self.other_end(at, *oif) else { return Vec::new() };
            way.push((at, Some(*oif)));
            at = next;
        }
        way.push((to, None));
        way
    }

    pub(super) fn learn_trees(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node].env.trees.clear();
        }
        for (group, members) in self.members.clone() {
            for sender in 0..self.nodes.len() {
                let mut trees: BTreeMap<usize, MulticastTree> = BTreeMap::new();
                for member in &members {
                    let mut iif = None;
                    for (node, oif) in self.walk(sender, *member) {
                        let tree = trees.entry(node).or_insert(MulticastTree { iif, oifs: Oifs::NONE });
                        if let Some(oif) = oif {
                            tree.oifs.add(oif);
                            iif = self.other_end(node, oif).map(|(_, far)| far);
                        }
                    }
                }
                let addresses: Vec<IpAddr> =
                    self.nodes[sender].interfaces.iter().map(|(_, i)| i.addresses[0]).collect();
                for (node, tree) in trees {
                    for src in &addresses {
                        self.nodes[node].env.trees.insert((group, *src), tree);
                    }
                }
            }
        }
    }
}
