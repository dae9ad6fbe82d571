//! One pair of a plane that serves: the host's interface, its other end, and the interface outside.
//!
//! The host's interface (`veth0`) is one end of a veth pair and has the addresses. At the other end (`veth0p`) the plane
//! reads what the host sends, lets it through the plan, and sends it outside (`eth1`); what comes from there goes in as it
//! comes. An interface that goes, comes back, or changes its MTU is opened anew; the plan stays, packets inside are lost.

use super::PairSpec;
use crate::delays::ErrorTerms;
use crate::link::WireSpec;
use crate::live::{LINK_HEADER, NotLive, check};
use crate::pair::{FramePair, PairTurn};
use crate::port::PortShaping;
use crate::protocol::{PairStatus, ServedInterface};
use crate::recognition::RecognisedFlows;
use crate::way::{FrameWay, WayCounters};
use linux::bpf::pair_guard::PairGuard;
use linux::frames::PacketFrames;
use linux::netlink::Socket;
use linux::poll::{Poll, PollInterest, Token};
use mace::Recogniser;
use terms::signalling::SIGNALLING;
use terms::{Bytes, Fault, FlowKey, IfIndex, Span, Time};
use traffic::plan::{ClassId, PlanOp, QueueSpec};
use traffic::port::{Limits, Port};

/// The most flows and classes of an interface.
const MOST_FLOWS: usize = 1 << 17;
const MOST_CLASSES: usize = 8_192;
/// Packets of an interface without a plan.
const PLAIN: QueueSpec = QueueSpec { packets: 1_000, bytes: Bytes::MAX };

/// A pair, open or not.
#[derive(Debug)]
pub(crate) struct ServedPair {
    spec: PairSpec,
    key: [u64; 2],
    /// The host's interface, as it was when last seen.
    index: IfIndex,
    /// Its MTU and the numbers of the two ends, to see changes.
    seen: [u32; 3],
    /// Packets that went later than promised before it was opened the last time.
    beyond: u64,
    state: PairState,
}

/// The host's interface, the MTU and the numbers of the two ends; or the reason why they are not there.
pub(crate) type PairFound = Result<(IfIndex, [u32; 3]), String>;

/// Looks for the interfaces of a pair. Not for the thread of the packets: the kernel lets a question about links wait while
/// any link is being changed.
pub(crate) fn find(spec: &PairSpec) -> PairFound {
    let found = Socket::open().and_then(|mut socket| {
        let index = socket.link_by_name(&spec.interface)?.index;
        let inside = socket.link_by_name(&spec.inside)?;
        let outside = socket.link_by_name(&spec.outside)?;
        Ok((index, [inside.mtu.max(outside.mtu), inside.index.0, outside.index.0]))
    });
    found.map_err(|error| format!("an interface is missing: {error}"))
}

#[derive(Debug)]
enum PairState {
    Up {
        pair: Box<FramePair<PacketFrames>>,
        _guard: PairGuard,
    },
    /// With the plan and the reason.
    Down(Box<Port>, String),
}

impl ServedPair {
    /// A pair that is not open yet. `key` keys the classifier.
    pub(crate) fn new(spec: PairSpec, key: [u64; 2]) -> ServedPair {
        let port = Box::new(port(IfIndex(0), spec.buffers, key));
        let why = "it was not opened yet".to_owned();
        ServedPair { spec, key, index: IfIndex(0), seen: [0; 3], beyond: 0, state: PairState::Down(port, why) }
    }

    /// The description.
    pub(crate) fn spec(&self) -> &PairSpec {
        &self.spec
    }

    /// The host's interface; `None`: it is not there.
    pub(crate) fn served(&self) -> Option<ServedInterface> {
        let name = self.spec.interface.clone();
        let beyond = self.beyond + self.shaping().map_or(0, PortShaping::beyond);
        (self.index != IfIndex(0)).then(|| ServedInterface { index: self.index, name, terms: self.terms(), beyond })
    }

    /// The port at work.
    fn shaping(&self) -> Option<&PortShaping> {
        match &self.state {
            PairState::Up { pair, .. } => pair.ways()[0].port(),
            PairState::Down(..) => None,
        }
    }

    fn terms(&self) -> Option<ErrorTerms> {
        let d = u32::try_from(self.spec.bound?.as_micros()).ok()?;
        Some(ErrorTerms { c: self.seen[0], d })
    }

    /// Opens it if it can be opened, and again if an interface is another one by now. True: it was opened.
    pub(crate) fn look(&mut self, now: Time, found: PairFound, poll: &mut Poll, token: Token) -> bool {
        let (index, seen) = match found {
            Ok(found) => found,
            Err(words) => {
                self.close(now, words);
                return false;
            }
        };
        if matches!(self.state, PairState::Up { .. }) && (index, seen) == (self.index, self.seen) {
            return false;
        }
        self.close(now, "it is opened anew".to_owned());
        if index != self.index {
            // The plan was for an interface that is gone.
            (self.index, self.state) = (index, PairState::Down(self.fresh(index), String::new()));
        }
        self.seen = seen;
        match self.open(now, poll, token) {
            Ok(()) => true,
            Err(refused) => {
                if let PairState::Down(_, why) = &mut self.state {
                    *why = refused.to_string();
                }
                false
            }
        }
    }

    fn open(&mut self, now: Time, poll: &mut Poll, token: Token) -> Result<(), NotLive> {
        let names = [self.spec.inside.clone(), self.spec.outside.clone()];
        let room = check(&names)? as usize + LINK_HEADER;
        // First: the kernel must not take, or pass, what the plane passes too.
        let indices = [IfIndex(self.seen[1]), IfIndex(self.seen[2])];
        let guard =
            PairGuard::put(indices, self.spec.when_dead).map_err(|fault| NotLive::Interface(fault.to_string()))?;
        let mut inside = PacketFrames::open(&names[0])?;
        let terms = self.terms();
        if terms.is_some() {
            // A bound is held against the time at which a packet came, not that at which this thread found it.
            inside = inside.with_ages()?;
        }
        let ends = [inside, PacketFrames::open(&names[1])?];
        let index = self.index;
        let held = u64::from(self.spec.buffers) + u64::from(PLAIN.packets);
        let back = FrameWay::new(None, self.wire(1), room, now).map_err(NotLive::UnfitTree)?;
        for end in &ends {
            poll.add(end, token, PollInterest::Read)?;
        }
        let nobody = PairState::Down(self.fresh(index), String::new());
        let PairState::Down(port, _) = std::mem::replace(&mut self.state, nobody) else { return Ok(()) };
        let there = FrameWay::of_port(*port, terms, held, self.wire(0), room, now);
        self.state = PairState::Up { pair: Box::new(FramePair::new(ends, [there, back])), _guard: guard };
        Ok(())
    }

    fn wire(&self, way: u64) -> WireSpec {
        WireSpec { seed: self.spec.wire.seed ^ way, ..self.spec.wire }
    }

    fn fresh(&self, index: IfIndex) -> Box<Port> {
        Box::new(port(index, self.spec.buffers, self.key))
    }

    /// Nothing passes any more; the plan stays.
    pub(crate) fn close(&mut self, now: Time, why: String) {
        self.beyond += self.shaping().map_or(0, PortShaping::beyond);
        let mut kept = self.fresh(self.index);
        if let Some(plan) = self.port().and_then(Port::plan) {
            let plan = traffic::plan::Plan { links: [(self.index, plan)].into(), ..Default::default() };
            for op in plan.ops() {
                let again = kept.apply(now, &op);
                debug_assert!(again.is_ok(), "what was installed has room: {op:?} {again:?}");
            }
        }
        self.state = PairState::Down(kept, why);
    }

    /// Moves frames. An interface that is gone closes it.
    pub(crate) fn turn(&mut self, now: Time) -> PairTurn {
        let idle = PairTurn { moved: 0, wake: None };
        let PairState::Up { pair, .. } = &mut self.state else { return idle };
        match pair.turn(now) {
            Ok(turn) => turn,
            Err(error) => {
                self.close(now, error.to_string());
                idle
            }
        }
    }

    /// The port.
    pub(crate) fn port(&self) -> Option<&Port> {
        match &self.state {
            PairState::Up { .. } => self.shaping().map(PortShaping::port),
            PairState::Down(port, _) => Some(port),
        }
    }

    /// The port, for changes.
    pub(crate) fn port_mut(&mut self) -> Option<&mut Port> {
        match &mut self.state {
            PairState::Up { pair, .. } => Some(pair.way_mut(0)?.port_mut()?.port_mut()),
            PairState::Down(port, _) => Some(port),
        }
    }

    /// A batch will be carried out at this time.
    pub(crate) fn catch_up(&mut self, now: Time) {
        if let PairState::Up { pair, .. } = &mut self.state
            && let Some(way) = pair.way_mut(0)
        {
            way.catch_up(now);
        }
    }

    /// A batch was carried out.
    pub(crate) fn changed(&mut self, now: Time, ops: &[PlanOp]) {
        if let PairState::Up { pair, .. } = &mut self.state
            && let Some(shaping) = pair.way_mut(0).and_then(FrameWay::port_mut)
        {
            shaping.changed(now, ops);
        }
    }

    /// Has flows recognised with these tables. Returns those that had been at work.
    ///
    /// # Errors
    /// No packets pass.
    pub(crate) fn watch_ports(&mut self, tables: Box<Recogniser>) -> Result<Option<Box<Recogniser>>, Fault> {
        const DOWN: Fault = Fault { what: "no packets pass the plane in user space at this interface", code: 100 };
        self.shaping_mut().map(|shaping| shaping.watch_ports(tables)).ok_or(DOWN)
    }

    /// Takes the flows that were recognised.
    pub(crate) fn take_recognised(&mut self) -> RecognisedFlows {
        self.shaping_mut().map(PortShaping::take_recognised).unwrap_or_default()
    }

    /// The flows of a class, each with the time since its last packet; while no packets pass, since now.
    pub(crate) fn silences(&self, now: Time, class: ClassId) -> Vec<(FlowKey, Span)> {
        match (self.shaping(), self.port()) {
            (Some(shaping), _) => shaping.silences(now, class),
            (None, port) => {
                port.into_iter().flat_map(|port| port.flows_of(class)).map(|(flow, _)| (*flow, Span::ZERO)).collect()
            }
        }
    }

    fn shaping_mut(&mut self) -> Option<&mut PortShaping> {
        match &mut self.state {
            PairState::Up { pair, .. } => pair.way_mut(0)?.port_mut(),
            PairState::Down(..) => None,
        }
    }

    /// Its state and all counters.
    pub(crate) fn status(&mut self) -> PairStatus {
        let mut status = PairStatus {
            interface: self.spec.interface.clone(),
            inside: self.spec.inside.clone(),
            outside: self.spec.outside.clone(),
            down: None,
            ways: [WayCounters::default(); 2],
            inside_now: [0; 2],
            classes: Vec::new(),
        };
        match &mut self.state {
            PairState::Down(_, why) => status.down = Some(why.clone()),
            PairState::Up { pair, .. } => {
                pair.count_missed();
                let [there, back] = pair.ways();
                status.ways = [*there.counters(), *back.counters()];
                status.inside_now = [there.inside(), back.inside()];
                status.classes = there.port().map(|shaping| shaping.delays().collect()).unwrap_or_default();
            }
        }
        status
    }
}

fn port(index: IfIndex, buffers: u32, key: [u64; 2]) -> Port {
    let limits = Limits { flows: MOST_FLOWS, classes: MOST_CLASSES, packets: buffers, plain: PLAIN };
    Port::new(index, limits, SIGNALLING, key)
}
