//! The bookings of a simulated node: the same engine as in the agent, over the same ledgers that RSVP draws
//! on. Its journal is a disk that outlives the agent. Its orders change the outgoing edges of the node's
//! ports.

use crate::map::position;
use crate::scenario::NodeId;
use crate::station::Station;
use crate::world::{Due, World};
use booking::io::{CallId, CallResult, Order, OrderAction, RecordTable};
use booking::{Batch, BookingState, Bookings, Call, Config, Event, Input, JournalRecord, Output, Reply};
use node::io::{Event as NodeEvent, Premium, Reservable};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use terms::book::{Binding, Caller, CallerRole, Handle, ResourceId, burst};
use terms::ports::PolicyPort;
use terms::ports::book::{BindQuestion, PolicyDecision, Question};
use terms::{Dscp, IfIndex, Rate, Span, Time};
use traffic::edge::{EdgeAt, EdgeRule, MultiField, Side};
use traffic::plan::{BucketSpec, PlanOp};

/// The time that the disk takes to write a batch.
const DISK: Span = Span::from_millis(1);

/// The booking engine of a node, its disk, and the effects of its orders.
#[derive(Default)]
pub struct BookingHost {
    /// The engine, while the agent lives.
    pub broker: Option<Bookings>,
    disk: BTreeMap<(RecordTable, Vec<u8>), Vec<u8>>,
    unwritten: VecDeque<Batch>,
    orders: VecDeque<Order>,
    kernel: BTreeMap<(Handle, usize), OrderEffect>,
    log: Vec<(Time, BookingOutput)>,
    calls: u64,
    lives: u8,
    alarm: Option<Time>,
    /// Resources that have changed since the engine was last told.
    changed: Vec<ResourceId>,
}

/// The effect of an order on the data plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderEffect {
    /// The name of the resource.
    pub resource: String,
    /// The binding that it serves.
    pub binding: Option<Binding>,
    /// The amount, in the resource's unit.
    pub amount: u64,
    order: Order,
}

/// An output of the booking engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BookingOutput {
    /// A reply to the call of that number. Calls are counted from 1.
    Reply(u64, Reply),
    /// An event for subscribers.
    Event(Event),
    /// An order, after the data plane has carried it out.
    Done(Order),
}

/// The policy of a simulation: every caller may have anything.
struct Anybody;

impl PolicyPort for Anybody {
    fn decide(&self, _: &Question<'_>) -> PolicyDecision {
        PolicyDecision { rule: "anybody".into(), denied: None }
    }

    fn may_bind(&self, _: &BindQuestion<'_>) -> PolicyDecision {
        PolicyDecision { rule: "anybody".into(), denied: None }
    }
}

impl BookingHost {
    /// All outputs so far, with their times.
    pub fn log(&self) -> &[(Time, BookingOutput)] {
        &self.log
    }

    /// The effects in the data plane at this instant.
    pub fn kernel(&self) -> impl Iterator<Item = (Handle, &OrderEffect)> {
        self.kernel.iter().map(|((handle, _), made)| (*handle, made))
    }

    /// The handle of the reservation that the call of that number was granted.
    pub fn granted(&self, call: u64) -> Option<Handle> {
        self.log.iter().find_map(|(_, said)| match said {
            BookingOutput::Reply(id, Ok(CallResult::Reservation(view))) if *id == call => Some(view.handle),
            _ => None,
        })
    }

    /// The state of a reservation, while the agent lives.
    pub fn state(&self, handle: Handle) -> Option<BookingState> {
        self.broker.as_ref()?.peek(handle)
    }

    /// Drops pending work after the agent's death.
    pub(crate) fn die(&mut self) {
        self.broker = None;
        self.unwritten.clear();
        self.orders.clear();
        self.alarm = None;
    }

    /// Clears the data plane's state after a power loss.
    pub(crate) fn forget(&mut self) {
        self.kernel.clear();
    }
}

impl World {
    /// Makes a caller's call at a node's bookings. Sets the engine up at the first call.
    pub(crate) fn call_book(&mut self, id: NodeId, who: &str, call: Call) {
        if self.stations[id.0].booking_host.is_none() {
            self.stations[id.0].booking_host = Some(Box::default());
            self.open_book(id);
        }
        let Some(booking_host) = &mut self.stations[id.0].booking_host else { return };
        booking_host.calls += 1;
        let caller = Caller { name: who.into(), groups: Vec::new(), role: CallerRole::Owner };
        let input = Input::Call { id: CallId(booking_host.calls), caller, call };
        self.tell_book(id, input);
    }

    /// Starts the engine of a living agent from its disk.
    pub(crate) fn open_book(&mut self, id: NodeId) {
        let seed = self.seed;
        if self.stations[id.0].agent.is_none() {
            return;
        }
        let Some(booking_host) = &mut self.stations[id.0].booking_host else { return };
        booking_host.lives = booking_host.lives.wrapping_add(1);
        let mut own = [0; 32];
        own[..8].copy_from_slice(&seed.to_be_bytes());
        own[8..16].copy_from_slice(&(id.0 as u64).to_be_bytes());
        own[16] = booking_host.lives;
        booking_host.broker = Some(Bookings::new(Config::default(), own));
        let records: Vec<JournalRecord> = booking_host
            .disk
            .iter()
            .map(|((table, key), value)| JournalRecord { table: *table, key: key.clone(), value: Some(value.clone()) })
            .collect();
        for record in records {
            self.tell_book(id, Input::Recovering(record));
        }
        self.tell_book(id, Input::Recovered);
        self.let_go_of_what_is_not_due(id);
    }

    /// Removes effects of an earlier life that are no longer due.
    fn let_go_of_what_is_not_due(&mut self, id: NodeId) {
        let Some(booking_host) = &mut self.stations[id.0].booking_host else { return };
        let Some(broker) = &booking_host.broker else { return };
        let due: Vec<(Handle, usize)> = broker.due().map(|due| (due.handle, due.part)).collect();
        let gone: Vec<(Handle, usize)> =
            booking_host.kernel.keys().filter(|place| !due.contains(place)).copied().collect();
        for place in gone {
            let made =
                self.stations[id.0].booking_host.as_mut().and_then(|booking_host| booking_host.kernel.remove(&place));
            if let Some(made) = made {
                self.change_edge(id, &made, None);
            }
        }
    }

    /// Tells the engine an input and carries out its outputs.
    fn tell_book(&mut self, id: NodeId, input: Input) {
        let now = self.now();
        let station = &mut self.stations[id.0];
        let (Some(agent), Some(booking_host)) = (&mut station.agent, &mut station.booking_host) else { return };
        let Some(broker) = &mut booking_host.broker else { return };
        agent.with_book(now, &Anybody, |world| broker.handle(now, world, input));
        let mut due = Vec::new();
        while let Some(output) = broker.poll() {
            match output {
                Output::Append(batch) => {
                    booking_host.unwritten.push_back(batch);
                    due.push((now + DISK, Due::Written { node: id.0 as u32, life: station.life }));
                }
                Output::Enforce(order) => {
                    booking_host.orders.push_back(order);
                    due.push((now + station.spec.plane_delay, Due::Enforced { node: id.0 as u32, life: station.life }));
                }
                Output::Reply { id, reply } => booking_host.log.push((now, BookingOutput::Reply(id.0, reply))),
                Output::Event(event) => booking_host.log.push((now, BookingOutput::Event(event))),
                Output::Corrupt { table, what, .. } => {
                    unreachable!("a disk of ours is what we wrote: {table:?}, {what}")
                }
            }
        }
        if let Some(at) = broker.wake_at().filter(|at| booking_host.alarm.is_none_or(|set| *at < set)) {
            booking_host.alarm = Some(at);
            due.push((at, Due::BookAlarm { node: id.0 as u32, life: station.life }));
        }
        due.into_iter().for_each(|(at, due)| self.agenda.put(at, due));
        self.story.mark(&[now.as_nanos(), 12, id.0 as u64]);
        self.after(id);
    }

    /// Notes the resource that an agent's event concerns.
    pub(crate) fn note_for_book(&mut self, id: NodeId, event: &NodeEvent) {
        let station = &mut self.stations[id.0];
        let (Some(agent), Some(booking_host)) = (&station.agent, &mut station.booking_host) else { return };
        match event {
            NodeEvent::Resource { resource } => booking_host.changed.push(*resource),
            NodeEvent::Admitted { oif, .. }
            | NodeEvent::Released { oif, .. }
            | NodeEvent::Adopted { oif, .. }
            | NodeEvent::Displaced { oif, .. } => booking_host.changed.extend(agent.resource_of(*oif)),
            _ => {}
        }
    }

    /// Tells the engine the resources that the agent has changed.
    pub(crate) fn book_hears(&mut self, id: NodeId) {
        while let Some(resource) =
            self.stations[id.0].booking_host.as_mut().and_then(|booking_host| booking_host.changed.pop())
        {
            self.tell_book(id, Input::Resource(resource));
        }
    }

    pub(crate) fn book_alarm(&mut self, id: NodeId, life: u32) {
        let now = self.now();
        let station = &mut self.stations[id.0];
        let Some(booking_host) = &mut station.booking_host else { return };
        if station.life == life && booking_host.alarm.is_some_and(|set| set <= now) {
            booking_host.alarm = None;
            self.tell_book(id, Input::Wake);
        }
    }

    /// The disk has written the oldest batch.
    pub(crate) fn book_written(&mut self, id: NodeId, life: u32) {
        let station = &mut self.stations[id.0];
        let Some(booking_host) = station.booking_host.as_mut().filter(|_| station.life == life) else { return };
        let Some(batch) = booking_host.unwritten.pop_front() else { return };
        for record in batch.records {
            match record.value {
                Some(value) => _ = booking_host.disk.insert((record.table, record.key), value),
                None => _ = booking_host.disk.remove(&(record.table, record.key)),
            }
        }
        self.tell_book(id, Input::Appended(batch.id));
    }

    /// The data plane has carried out the oldest order.
    pub(crate) fn book_enforced(&mut self, id: NodeId, life: u32) {
        let now = self.now();
        let station = &mut self.stations[id.0];
        let Some(booking_host) = station.booking_host.as_mut().filter(|_| station.life == life) else { return };
        let Some(order) = booking_host.orders.pop_front() else { return };
        let place = (order.handle, order.part);
        let (binding, amount) = match &order.action {
            OrderAction::Enable { binding, amount } | OrderAction::Change { binding, amount } => {
                (binding.clone(), *amount)
            }
            OrderAction::Disable { binding } => (binding.clone(), 0),
        };
        let made = OrderEffect { resource: order.resource.clone(), binding, amount, order: order.clone() };
        let had = if amount == 0 {
            booking_host.kernel.remove(&place)
        } else {
            booking_host.kernel.insert(place, made.clone())
        };
        booking_host.log.push((now, BookingOutput::Done(order.clone())));
        self.change_edge(id, &made, had.as_ref());
        self.tell_book(id, Input::Enforced { id: order.id, result: Ok(()) });
    }

    /// Changes the rule of a network part at its interface's outgoing edge, and the classes behind it.
    fn change_edge(&mut self, id: NodeId, made: &OrderEffect, had: Option<&OrderEffect>) {
        let now = self.now();
        let station = &mut self.stations[id.0];
        let Some((oif, _)) = interface(station, &made.resource) else { return };
        let at = EdgeAt { interface: oif, side: Side::Egress };
        let port = &mut station.interfaces[position(oif)].port;
        let mut ops = vec![PlanOp::Edge { at }];
        let old = had.and_then(|had| fields(had.binding.as_ref()));
        ops.extend(
            old.filter(|old| Some(*old) != fields(made.binding.as_ref())).map(|fields| PlanOp::DropRule { at, fields }),
        );
        if let Some(fields) = fields(made.binding.as_ref()) {
            ops.push(match made.amount {
                0 => PlanOp::DropRule { at, fields },
                _ => PlanOp::Rule { at, fields, rule: rule(made) },
            });
        }
        for op in &ops {
            // A port without a root takes no rules: its agent has not had its first batch carried out.
            let _ = port.apply(now, op);
        }
        self.tell_premium(id, &made.resource);
    }

    /// Tells the agent the traffic that the premium classes of an interface serve.
    fn tell_premium(&mut self, id: NodeId, resource: &str) {
        let station = &self.stations[id.0];
        let Some((oif, link)) = interface(station, resource) else { return };
        let Some(booking_host) = &station.booking_host else { return };
        let mut premium = Premium::default();
        for made in booking_host.kernel.values().filter(|other| other.resource == resource) {
            let all = if made.order.background { &mut premium.background } else { &mut premium.foreground };
            *all = all.plus(&link.spec, &rule(made).bucket);
        }
        self.tell(id, node::io::Input::Premium { oif, premium });
    }

    /// At an agent's start: tells it the premium traffic of its data plane, before it adopts the plane.
    pub(crate) fn premium_found(&mut self, id: NodeId) {
        let made = self.stations[id.0].booking_host.iter().flat_map(|booking_host| booking_host.kernel.values());
        let names: BTreeSet<String> = made.map(|made| made.resource.clone()).collect();
        names.iter().for_each(|name| self.tell_premium(id, name));
    }
}

/// The interface of a resource.
fn interface(station: &Station, resource: &str) -> Option<(IfIndex, Reservable)> {
    let name = resource.strip_prefix("net/")?;
    let found = station.interfaces.iter().find(|interface| interface.state.name == name)?;
    Some((found.state.index, found.state.link?))
}

fn fields(binding: Option<&Binding>) -> Option<MultiField> {
    let Some(Binding::Flow(flow)) = binding else { return None };
    Some(MultiField::from(*flow))
}

fn rule(made: &OrderEffect) -> EdgeRule {
    let rate = Rate::from_bps(made.amount);
    let shape = made.order.shape;
    let tcp = matches!(&made.binding, Some(Binding::Flow(flow)) if flow.is_tcp());
    let depth = burst(rate, shape.rtt, tcp);
    let bucket = BucketSpec { rate, depth, min_unit: shape.packet };
    EdgeRule { bucket, mark: if made.order.background { Dscp::AF11 } else { Dscp::EF } }
}
