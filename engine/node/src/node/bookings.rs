//! The bookings of a node: what they and traffic control say, and who hears it.

use super::Node;
use crate::io::{ControlEvent, Event, GroupEvent, Output};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use booking::io::{Order, OrderAction};
use control::edges::{PartId, PremiumFlow, SlaShare};
use control::tc::ControlOutput;
use rsvp::io as protocol;
use terms::Rate;
use terms::book::{Binding, ResourceKind};
use terms::ports::book::{BindQuestion, PolicyDecision, Question};
use terms::ports::{PolicyPort, Route};
use terms::probe::ProbeObserver;
use traffic::edge::MultiField;

/// The policy of a node that takes no bookings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoPolicy;

impl PolicyPort for NoPolicy {
    fn decide(&self, _: &Question<'_>) -> PolicyDecision {
        PolicyDecision {
            rule: "default".into(),
            denied: Some("this node takes no bookings".into()),
            ..PolicyDecision::default()
        }
    }

    fn may_bind(&self, _: &BindQuestion<'_>) -> PolicyDecision {
        PolicyDecision {
            rule: "default".into(),
            denied: Some("this node takes no bookings".into()),
            ..PolicyDecision::default()
        }
    }
}

/// The share of an agreement that an order wants; `None`: none any more.
fn share(order: &Order) -> Option<SlaShare> {
    let amount = match &order.action {
        OrderAction::Enable { amount, .. } | OrderAction::Change { amount, .. } => *amount,
        OrderAction::Disable { .. } => return None,
    };
    Some(SlaShare::booked(Rate::from_bps(amount.count()), order.shape, order.background))
}

/// An input that follows from an output.
pub(super) enum News {
    Protocol(protocol::Input<'static>),
    Booking(booking::Input),
}

/// The control group of a booked part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BoundGroup {
    path: String,
    /// True if it was there at the last look.
    there: bool,
}

fn no_group(path: &str) -> String {
    format!("there is no control group {path} in the version 2 hierarchy, to which packets belong")
}

impl<R: Route, P: ProbeObserver, B: PolicyPort> Node<R, P, B> {
    pub(super) fn control_said(&mut self, said: ControlOutput, news: &mut VecDeque<News>) {
        match said {
            ControlOutput::Plan(id, ops) => self.out.push_back(Output::Plan { id, ops }),
            ControlOutput::Installed(handle, result) => {
                news.push_back(News::Protocol(protocol::Input::Installed { handle, result }));
            }
            ControlOutput::Promoted { handle, oif, flow, result } => {
                self.out.push_back(Output::Promoted { handle, oif, flow, result });
            }
            ControlOutput::ByMeasurement(news) => self.out.push_back(Output::ByMeasurement(news)),
            ControlOutput::Displaced(handle, by) => {
                news.push_back(News::Protocol(protocol::Input::Displaced { handle, by }));
            }
            ControlOutput::Enforced(part, result) => {
                let result = result.map_err(|fault| fault.to_string());
                let order = self.orders.remove(&part);
                news.extend(order.map(|id| News::Booking(booking::Input::Enforced { id, result })));
            }
            ControlOutput::Trust(interfaces) => self.out.push_back(Output::Trust(interfaces)),
            ControlOutput::Event(ControlEvent::Resource { resource }) => {
                news.push_back(News::Booking(booking::Input::Resource(resource)));
            }
            ControlOutput::Event(event) => {
                news.extend(self.adopted(&event).map(News::Protocol));
                news.extend(self.of_bookings(&event).map(News::Booking));
                self.out.push_back(Output::Event(Event::Control(event)));
            }
        }
    }

    pub(super) fn bookings_said(&mut self, output: booking::Output, news: &mut VecDeque<News>) {
        match output {
            booking::Output::Append(batch) => self.out.push_back(Output::Append(batch)),
            booking::Output::Reply { id, reply } => self.out.push_back(Output::Reply { id, reply: Box::new(reply) }),
            booking::Output::Event(event) => self.out.push_back(Output::Event(Event::Booking(event))),
            booking::Output::AskDecision(question) => self.out.push_back(Output::AskDecision(question)),
            booking::Output::Contradicted(what) => self.out.push_back(Output::Contradicted(what)),
            booking::Output::Corrupt { table, key, what } => self.out.push_back(Output::Corrupt { table, key, what }),
            booking::Output::Enforce(order) if ResourceKind::of(&order.resource) == ResourceKind::Network => {
                let (id, part) = (order.id, (order.handle, order.part));
                match self.premium_flow(&order) {
                    Ok(flow) => {
                        self.note_group(part, &order);
                        self.orders.insert(part, id);
                        self.world.tc.edge_turn().set_part(part, flow);
                    }
                    Err(why) => news.push_back(News::Booking(booking::Input::Enforced { id, result: Err(why) })),
                }
            }
            booking::Output::Enforce(order) if ResourceKind::of(&order.resource) == ResourceKind::Sla => {
                let part = (order.handle, order.part);
                self.orders.insert(part, order.id);
                self.world.tc.edge_turn().set_share(&order.resource, part, share(&order));
            }
            booking::Output::Enforce(order) => self.out.push_back(Output::Order(order)),
        }
    }

    /// The flow that an order wants in the plane; `None`: none any more.
    fn premium_flow(&mut self, order: &Order) -> Result<Option<PremiumFlow>, String> {
        let (binding, amount) = match &order.action {
            OrderAction::Enable { binding, amount } | OrderAction::Change { binding, amount } => (binding, *amount),
            OrderAction::Disable { .. } => return Ok(None),
        };
        let name = order.resource.strip_prefix("net/").unwrap_or(&order.resource);
        let found = self.interfaces.values().find(|state| state.name == name);
        let oif = found.map(|state| state.index).ok_or_else(|| format!("there is no interface {name}"))?;
        let (rate, route) = (amount.network_rate().map_err(|wrong| wrong.to_string())?, &mut self.world.route);
        Ok(Some(match binding {
            Some(Binding::Flow(flow)) => PremiumFlow::booked(route, oif, flow, rate, order.shape, order.background),
            Some(Binding::Cgroup(path)) => {
                let group = route.sender_group(path).ok_or_else(|| no_group(path))?;
                PremiumFlow::of_group(oif, group, rate, order.shape, order.background)
            }
            _ => return Err(format!("{} is for packets: bind it to a flow or a control group", order.resource)),
        }))
    }

    /// Remembers which control group an order is for, by its path: a group that is made again has another number.
    fn note_group(&mut self, part: PartId, order: &Order) {
        match &order.action {
            OrderAction::Enable { binding: Some(Binding::Cgroup(path)), .. }
            | OrderAction::Change { binding: Some(Binding::Cgroup(path)), .. } => {
                self.groups.insert(part, BoundGroup { path: path.clone(), there: true });
            }
            _ => drop(self.groups.remove(&part)),
        }
    }

    /// Looks at the control groups of bound parts again: those that were made again get their rule back.
    pub(super) fn look_at_groups(&mut self) {
        for (&part, bound) in &mut self.groups {
            let has = self.world.tc.edges().premium_flow(part).copied().filter(|_| !self.orders.contains_key(&part));
            let Some(has) = has else { continue };
            let now = self.world.route.sender_group(&bound.path);
            let there = now.is_some();
            let again = now.filter(|group| has.fields.group.is_some_and(|old| old != *group));
            if let Some(group) = again {
                let flow = PremiumFlow { fields: MultiField::of_group(group), ..has };
                self.world.tc.edge_turn().set_part(part, Some(flow));
            }
            if again.is_some() || there != bound.there {
                bound.there = there;
                let event = GroupEvent { handle: part.0, part: part.1, path: bound.path.clone(), there };
                self.group_news.push(event);
            }
        }
    }

    /// Tells background flows that a signalled reservation has changed their room.
    fn of_bookings(&self, event: &ControlEvent) -> Option<booking::Input> {
        let oif = match event {
            ControlEvent::Admitted { oif, .. }
            | ControlEvent::Released { oif, .. }
            | ControlEvent::Adopted { oif, .. }
            | ControlEvent::Displaced { oif, .. } => *oif,
            _ => return None,
        };
        let resource = self.world.tc.resource_of(oif).filter(|resource| self.bookings.has_background(*resource));
        resource.map(booking::Input::Resource)
    }
}
