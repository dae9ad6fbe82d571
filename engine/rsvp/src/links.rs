//! The interfaces of this node, and the ways that packets go.

use crate::io::{Datagram, Interface};
use crate::refusal::Refusal;
use crate::state::psb::OutgoingInterfaces;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use core::net::IpAddr;
use terms::ports::{MulticastTree, Route, RouteDecision, TrafficControl};
use terms::{IfIndex, Refused, Session};
use wire::iana::error;

/// The ports that the engine calls synchronously: the route, and traffic control.
pub(crate) trait Env: Route + TrafficControl {}
impl<E: Route + TrafficControl> Env for E {}

/// The interfaces, and the set of our own addresses.
#[derive(Default)]
pub(crate) struct Links {
    interfaces: BTreeMap<IfIndex, Interface>,
    own: BTreeSet<IpAddr>,
}

impl Links {
    /// Takes an interface's present state; `None`: it is gone. False if it is as it was.
    pub fn change(&mut self, interface: IfIndex, state: Option<Interface>) -> bool {
        if self.interfaces.get(&interface) == state.as_ref() {
            return false;
        }
        match state {
            Some(state) => drop(self.interfaces.insert(interface, state)),
            None => drop(self.interfaces.remove(&interface)),
        }
        self.own = self.interfaces.values().flat_map(|i| i.addresses.iter().copied()).collect();
        true
    }

    /// The numbers of all interfaces.
    pub fn numbers(&self) -> impl Iterator<Item = IfIndex> + '_ {
        self.interfaces.keys().copied()
    }

    /// The MTU of an interface.
    pub fn mtu(&self, interface: IfIndex) -> Option<u32> {
        self.interfaces.get(&interface).map(|i| i.mtu)
    }

    /// True if an address is this node's.
    pub fn is_ours(&self, addr: IpAddr) -> bool {
        self.own.contains(&addr)
    }

    /// Our address for hops on an interface, of the family of `like`.
    pub fn address_on(&self, interface: IfIndex, like: IpAddr) -> Option<IpAddr> {
        let interface = self.interfaces.get(&interface)?;
        interface.addresses.iter().copied().find(|a| a.is_ipv4() == like.is_ipv4())
    }

    /// True if RSVP is enabled on an interface.
    pub fn speaks_on(&self, interface: IfIndex) -> bool {
        self.interfaces.get(&interface).is_some_and(|i| i.enabled)
    }

    /// The interface that a message leaves by. If the routing table decides, it is the interface that has the
    /// message's source address.
    pub fn leaves_by(&self, datagram: &Datagram) -> Option<IfIndex> {
        datagram.oif.or_else(|| {
            let mut all = self.interfaces.iter();
            all.find(|(_, i)| i.addresses.contains(&datagram.src)).map(|(index, _)| *index)
        })
    }

    /// The outgoing interface of a unicast session's packets (RFC 2205 section 3.11.3).
    pub fn way_out<E: Env>(
        &self,
        env: &mut E,
        session: &Session,
        src: IpAddr,
        iif: Option<IfIndex>,
    ) -> OutgoingInterfaces {
        if self.is_ours(session.dst) {
            return OutgoingInterfaces::Local;
        }
        match env.route(session.dst, Some(src), iif) {
            RouteDecision::Local => OutgoingInterfaces::Local,
            RouteDecision::Out { oif, gateway, source } if self.speaks_on(oif) => {
                OutgoingInterfaces::Interface { oif, gateway, source }
            }
            RouteDecision::Out { .. } | RouteDecision::Tree(_) | RouteDecision::None => OutgoingInterfaces::Nowhere,
        }
    }

    /// The distribution tree of a sender at this node, limited to interfaces with RSVP. If multicast routing
    /// has no answer, it has no branches, and packets may come in by any interface: a receiving host.
    pub fn tree<E: Env>(&self, env: &mut E, session: &Session, src: IpAddr, iif: Option<IfIndex>) -> MulticastTree {
        let RouteDecision::Tree(tree) = env.route(session.dst, Some(src), iif) else { return MulticastTree::default() };
        let onward = tree.oifs.as_slice().iter().copied();
        let comes_in = |oif: &IfIndex| Some(*oif) == tree.iif || (tree.iif.is_none() && Some(*oif) == iif);
        MulticastTree { iif: tree.iif, oifs: onward.filter(|oif| self.speaks_on(*oif) && !comes_in(oif)).collect() }
    }

    /// The outgoing interfaces of a local sender's packets: the interface that has its address (RFC 2205
    /// section 3.9), and, on a router, the branches from there.
    pub fn tree_from_here<E: Env>(&self, env: &mut E, session: &Session, src: IpAddr) -> OutgoingInterfaces {
        let mut oifs = self.tree(env, session, src, None).oifs;
        let own = self.interfaces.iter().find(|(_, i)| i.enabled && i.addresses.contains(&src));
        if let Some((own, _)) = own {
            oifs.add(*own);
        }
        OutgoingInterfaces::Tree(Box::new(oifs))
    }

    /// Traffic control's refusal in RSVP's terms, with this node and the interface named.
    pub fn refused(&self, node: &str, refused: &Refused) -> Refusal {
        let at = |i: &IfIndex| {
            let name = self.interfaces.get(i).map_or("?", |i| i.name.as_str());
            format!("node {node} interface {name}")
        };
        let (code, value, text) = match refused {
            Refused::Capacity { interface, asked, free } => {
                let text = format!("{} asked {asked} free {free}", at(interface));
                (error::ADMISSION, error::ADMISSION_BANDWIDTH, text)
            }
            Refused::NoDelayBound { interface } => {
                let text = format!("{} keeps no delay bound, guaranteed service is not offered", at(interface));
                (error::ADMISSION, error::ADMISSION_DELAY, text)
            }
            Refused::Mtu { interface, asked, mtu } => {
                let text = format!("{} asked packets of {asked} bytes, mtu {mtu}", at(interface));
                (error::ADMISSION, error::ADMISSION_MTU, text)
            }
            Refused::Limit { what, limit } => {
                let text = format!("node {node} {what}: the limit of {limit} is reached");
                (error::TRAFFIC_CONTROL_SYSTEM, 0, text)
            }
            Refused::Policy => (error::POLICY, 0, format!("node {node} refused by policy")),
            Refused::NotReservable { interface } => {
                let text = format!("{} takes no reservations", at(interface));
                (error::TRAFFIC_CONTROL, error::TC_SERVICE_UNSUPPORTED, text)
            }
            Refused::Meaningless(misuse) => {
                let text = format!("node {node} {misuse}");
                (error::TRAFFIC_CONTROL, error::TC_BAD_FLOWSPEC, text)
            }
        };
        Refusal { code, value, in_place: false, text: Some(text) }
    }
}
