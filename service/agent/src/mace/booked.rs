//! `measured/IFACE` in the book: flows that are admitted by what is measured when their window begins, and whose packets have
//! the class of recognised flows until it ends.

use super::MaceHost;
use super::turn::MaceTurn;
use ::mace::Input;
use booking::io::{Order, OrderAction, OrderId};
use control::tc::measured::MeasuredFlow;
use node::io::Input as NodeInput;
use std::collections::{BTreeMap, VecDeque};
use terms::book::{Binding, Handle, burst};
use terms::ports::RHandle;
use terms::{Amount, Fault, FlowKey, FlowSpec, IfIndex, Rate, Span, Tspec};
use traffic::plan::ClassId;

/// The next agent keeps a booked flow so long, until its own book orders it again.
const KEPT: Span = Span::from_secs(60);

/// A part of a booking.
type PartKey = (Handle, usize);

/// The parts that are in force, and the orders that are to be carried out.
#[derive(Debug, Default)]
pub(super) struct BookedFlows {
    parts: BTreeMap<PartKey, BookedFlow>,
    orders: VecDeque<Order>,
    /// Orders whose flow the plane has yet to confirm.
    awaited: BTreeMap<FlowKey, (OrderId, PartKey)>,
}

/// A part in force.
#[derive(Clone, Copy, Debug)]
struct BookedFlow {
    flow: FlowKey,
    tspec: Tspec,
    /// The rate that counts for it, wire rate.
    declared: Rate,
    /// Traffic control's handle; `None`: its interface is gone, or another reservation has the flow.
    handle: Option<RHandle>,
}

impl BookedFlows {
    /// Takes an order.
    pub(super) fn order(&mut self, order: Order) {
        self.orders.push_back(order);
    }

    /// True if an order waits.
    pub(super) fn is_asked(&self) -> bool {
        !self.orders.is_empty()
    }

    /// The interface is gone, and all flows with it. Returns what counted.
    pub(super) fn lose_all(&mut self) -> Vec<RHandle> {
        self.parts.values_mut().filter_map(|part| part.handle.take()).collect()
    }

    /// Another reservation has the flow. Returns what counted for it.
    pub(super) fn lose(&mut self, flow: &FlowKey) -> Option<RHandle> {
        self.parts.values_mut().find(|part| part.flow == *flow)?.handle.take()
    }
}

impl MaceHost {
    /// The flow that a part has in its class: its interface, and the words for people about its limit.
    pub(crate) fn booked_flow(&self, part: PartKey) -> Option<(IfIndex, FlowKey, String)> {
        let part = self.booked.parts.get(&part).filter(|part| part.handle.is_some())?;
        let (rate, depth) = (part.tspec.r.as_bps(), part.tspec.b.get());
        let class = ClassId::MEASURED.0;
        let words = format!("class {class:x}, admitted by what is measured, {rate} bit/s, bucket {depth} B");
        Some((self.oif?, part.flow, words))
    }
}

impl MaceTurn<'_> {
    /// Carries out the orders that wait.
    pub(super) fn carry_out_orders(&mut self) {
        while let Some(order) = self.host().and_then(|host| host.booked.orders.pop_front()) {
            if let Some(result) = self.carry_out(&order) {
                self.answer(order.id, result);
            }
        }
    }

    /// Puts the parts in force in their class again, after their interface was gone.
    pub(super) fn restore_booked(&mut self) {
        let Some(host) = self.host() else { return };
        let lost = host.booked.parts.iter().filter(|(_, part)| part.handle.is_none());
        let lost: Vec<(PartKey, BookedFlow)> = lost.map(|(key, part)| (*key, *part)).collect();
        for (key, part) in lost {
            // Who has the flow otherwise keeps it.
            let _ = self.install(key, &part);
        }
    }

    /// The plane's answer about a booked flow; false: the flow is not one.
    pub(super) fn hear_booked(&mut self, flow: &FlowKey, result: &Result<(), Fault>) -> bool {
        let Some((id, key)) = self.host().and_then(|host| host.booked.awaited.remove(flow)) else { return false };
        if result.is_err() {
            self.give_back(key);
        }
        self.answer(id, result.map_err(|fault| fault.to_string()));
        true
    }

    /// `None`: the plane's answer comes later.
    fn carry_out(&mut self, order: &Order) -> Option<Result<(), String>> {
        let key = (order.handle, order.part);
        let (binding, amount) = match &order.action {
            OrderAction::Enable { binding, amount } | OrderAction::Change { binding, amount } => (binding, *amount),
            OrderAction::Disable { .. } => {
                self.give_back(key);
                return Some(Ok(()));
            }
        };
        match self.wanted(order, binding.as_ref(), amount).and_then(|part| self.admit(key, part)) {
            Ok(true) => Some(Ok(())),
            Ok(false) => {
                let flow = self.host()?.booked.parts.get(&key)?.flow;
                self.host()?.booked.awaited.insert(flow, (order.id, key));
                None
            }
            Err(why) => Some(Err(why)),
        }
    }

    /// The flow that an order is for.
    fn wanted(&mut self, order: &Order, binding: Option<&Binding>, amount: Amount) -> Result<BookedFlow, String> {
        let interface = order.resource.strip_prefix("measured/").unwrap_or_default().to_owned();
        let there = self.named().is_some_and(|(name, there)| name == interface && there);
        if !there {
            return Err(format!("no flow is admitted by measurement at {interface} now: it is not there"));
        }
        let Some(Binding::Flow(bound)) = binding else { return Err("it is bound to no flow".into()) };
        let flow = bound.whole().ok_or("it is bound to more than one flow")?;
        let rate = Rate::from_bps(amount.count());
        let depth = burst(rate, order.shape.rtt, bound.is_tcp());
        let tspec = Tspec { r: rate, b: depth, p: Rate::INFINITE, m: order.shape.packet, M: 0 };
        let overhead = self.host().map_or(0, |host| host.engine.config().overhead);
        let declared = rate.with_overhead(overhead, order.shape.packet);
        Ok(BookedFlow { flow, tspec, declared, handle: None })
    }

    /// Asks the rule, and puts the flow in its class. True: it was there already, as it is to be.
    fn admit(&mut self, key: PartKey, part: BookedFlow) -> Result<bool, String> {
        let host = self.host().ok_or(NO_HOST)?;
        let had = host.booked.parts.get(&key).copied();
        if had.is_some_and(|had| had.handle.is_some() && had.flow == part.flow && had.tspec == part.tspec) {
            return Ok(true);
        }
        // What counts for the flow already is room for it: as the part was, or as it was recognised or taken over.
        let own = had.filter(|had| had.handle.is_some()).map(|had| had.declared);
        let known = host.engine.promoted().get(&part.flow).map(|promoted| promoted.declared);
        let counted = own.or(known).unwrap_or(Rate::ZERO);
        let free = host.engine.room().saturating_add(counted);
        if part.declared > free {
            let asked = part.declared;
            return Err(format!("by what is measured {free} is free now, {asked} is asked, link headers included"));
        }
        self.give_back(key);
        self.install(key, &part)
    }

    /// True: it was in its class already.
    fn install(&mut self, key: PartKey, part: &BookedFlow) -> Result<bool, String> {
        let now = self.now();
        let taken = self.host().and_then(|host| host.handles.remove(&part.flow));
        if taken.is_some() {
            self.tell(Input::Lost(part.flow));
        }
        let asked = FlowSpec::ControlledLoad(part.tspec);
        let same = taken.filter(|handle| self.node().tc().reserved(*handle).is_some_and(|view| view.asked == asked));
        let handle = match (same, self.oif()) {
            (Some(handle), _) => handle,
            (None, Some(oif)) => {
                taken.into_iter().for_each(|handle| self.node().demote(now, handle));
                let wanted = MeasuredFlow { oif, flow: part.flow, tspec: part.tspec, timeout: KEPT };
                self.node().promote(now, &wanted).map_err(|refused| refused.to_string())?
            }
            (None, None) => return Err(NO_HOST.into()),
        };
        let host = self.host().ok_or(NO_HOST)?;
        host.booked.parts.insert(key, BookedFlow { handle: Some(handle), ..*part });
        self.tell(Input::Counts { handle, declared: part.declared });
        self.after();
        Ok(same.is_some())
    }

    /// Takes the class of a part away.
    fn give_back(&mut self, key: PartKey) {
        let Some(part) = self.host().and_then(|host| host.booked.parts.remove(&key)) else { return };
        let Some(handle) = part.handle else { return };
        let now = self.now();
        self.node().demote(now, handle);
        self.tell(Input::Gone(handle));
        self.after();
    }

    fn answer(&mut self, id: OrderId, result: Result<(), String>) {
        self.answer_node(NodeInput::Booking(booking::Input::Enforced { id, result }));
    }
}

/// The answer to orders before flows are recognised at all.
pub(crate) const NO_HOST: &str = "no flow is admitted by measurement yet";

impl MaceHost {
    /// Takes an order of the book for a flow that is admitted by measurement.
    pub(crate) fn order(&mut self, order: Order) {
        self.booked.order(order);
    }
}
