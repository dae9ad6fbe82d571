//! The kernel data plane: a [`Plan`] as HTB or HFSC classes, FIFO queues and entries of the flow map.
//!
//! *Desired state, by difference.* An operation makes only the writes that are missing, changes objects in
//! place, and reads every write back; a batch is carried out as a whole or undone. No unchanged object is
//! rebuilt, so its counters and queues stay.
//!
//! *Ours and others'.* Our root qdiscs have the handle `5c1c:`. A root `0:` is the kernel's default: it is
//! replaced, and restored by `DropLink`. Any other root belongs to another program: the operation is refused.
//!
//! *Outliving the agent.* The whole state is in the kernel, program and maps pinned under the state
//! directory: classification and policing go on while no agent runs, and [`KernelPlane::open`] on the same
//! directory adopts the state.
//!
//! *HTB or HFSC*, as the link's specification says. Both have one level of classes below a class of the link. HTB bounds
//! no delay; it has priorities among classes that borrow. HFSC keeps each class's service curve, so that a delay can be
//! bounded, and has no priorities. In both a rate of zero becomes 1 byte/s. A link that gets the other one is built
//! anew: its classes' counters begin at zero, and what waits in its queues is lost.
//!
//! A queue has a limit of packets or of bytes, the one that full packets reach first. *Limits of the flow map*: a
//! fragment that overtakes the first of its datagram is best effort. *Cost of many classes*: for each new
//! class the kernel walks all others of the interface (`tc_bind_tclass`), which takes tens of microseconds
//! among a thousand and milliseconds among many thousands; flows that share a class cost the same for any
//! number.
//!
//! *Edges* ([`traffic::edge`]) have their own programs at each side of an interface, loaded with the first
//! edge; an interface may be an edge without a link of ours.
//!
//! A plane belongs to one network namespace, that of the thread that opens it, and must be used in threads of
//! that namespace.

mod adopt;
pub mod compile;
mod edge;
mod fault_injection;
mod port;
mod reconcile;
mod scheduler;
mod slots;
mod steps;
mod watch;
mod write;

pub use fault_injection::FaultInjection;
pub use reconcile::PlaneDrift;
pub use scheduler::{has_hfsc, has_scheduler};
pub use write::ROOT;

use crate::bpf::entry::RawKinds;
use crate::bpf::{FlowTable, Hook, MAX_FLOWS};
use crate::netlink::Socket;
use crate::netlink::tc::Stats;
use crate::netlink::tc::qdisc::Discipline;
use slots::Slots;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use terms::{Fault, FlowKey, IfIndex, Span, Time};
use traffic::edge::{ColorCounters, EdgeAt, MultiField};
use traffic::plan::{ClassId, Counters, Plan, PlanOp};
use traffic::plane::{DataPlane, PlaneCounters};
use traffic::scheduler::SchedulerKind;
use write::{Kernel, Undo};

/// The kernel data plane of one network namespace.
pub struct KernelPlane {
    kernel: Kernel,
    /// The plan as applied; the target of [`KernelPlane::reconcile`].
    told: Plan,
}

/// A flow and the interface by which it leaves.
pub type InstalledFlow = (IfIndex, FlowKey);

impl KernelPlane {
    /// Opens the plane of the calling thread's network namespace and adopts the state of an earlier one.
    ///
    /// # Errors
    /// A capability is missing (CAP_NET_ADMIN, CAP_BPF, and CAP_SYS_ADMIN to mount), or the kernel lacks a
    /// feature of the flow program.
    pub fn open(state_dir: &Path) -> Result<KernelPlane, Fault> {
        KernelPlane::open_with(state_dir, MAX_FLOWS, Hook::Best)
    }

    /// Like [`KernelPlane::open`], with room for `max_flows` flows (or for more, if what is there has no room in so few),
    /// with the attachment `hook` of the flow program.
    ///
    /// # Errors
    /// As [`KernelPlane::open`].
    pub fn open_with(state_dir: &Path, max_flows: u32, hook: Hook) -> Result<KernelPlane, Fault> {
        let table = FlowTable::open(state_dir, max_flows, hook)?;
        let slots = Slots::new(table.limit(), &BTreeSet::new());
        let (socket, roots) = (Socket::open()?, watch::RootWatch::open()?);
        let kinds = RawKinds::default();
        let edges = edge::Edges::find(state_dir, hook)?;
        let mut kernel = Kernel {
            socket,
            roots,
            table,
            ports: BTreeMap::new(),
            slots,
            kinds,
            edges,
            fault_injection: FaultInjection::None,
        };
        kernel.look_at_all()?;
        let told = plan(&kernel);
        Ok(KernelPlane { kernel, told })
    }

    /// Carries out a batch in its order, as a whole or not at all. Every change has been read back on return.
    ///
    /// # Errors
    /// The first fault; all earlier changes of the batch have been undone.
    pub fn apply(&mut self, ops: &[PlanOp]) -> Result<(), Fault> {
        let touched: BTreeSet<IfIndex> = ops.iter().map(PlanOp::oif).collect();
        for &oif in &touched {
            if !self.kernel.roots.is_ours(oif)? {
                self.kernel.check_root(oif)?;
            }
        }
        let mut undo = Undo::new();
        match self.carry_out(ops, &mut undo) {
            Ok(()) => {
                ops.iter().for_each(|op| self.told.apply(op));
                Ok(())
            }
            Err(fault) => {
                self.roll_back(undo, &touched);
                Err(fault)
            }
        }
    }

    fn carry_out(&mut self, ops: &[PlanOp], undo: &mut Undo) -> Result<(), Fault> {
        for op in ops {
            let (oif, writes) = self.kernel.steps(op)?;
            for write in writes {
                self.kernel.carry_out(oif, write, undo)?;
            }
        }
        Ok(())
    }

    /// Undoes as many writes as possible, then reads the kernel's state, from which the next batch starts.
    fn roll_back(&mut self, undo: Undo, touched: &BTreeSet<IfIndex>) {
        for (oif, write) in undo.into_iter().rev() {
            let _ = self.kernel.carry_out(oif, write, &mut Undo::new());
        }
        for &oif in touched {
            if let Ok(port) = self.kernel.look_again(oif) {
                self.kernel.ports.insert(oif, port);
            }
        }
    }

    /// The plan in the kernel, read anew. A specification from the pinned maps is used if the kernel's state
    /// is exactly its result.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn read(&mut self) -> Result<Plan, Fault> {
        for oif in self.kernel.ports.keys().copied().collect::<Vec<_>>() {
            let port = self.kernel.look_again(oif)?;
            self.kernel.ports.insert(oif, port);
        }
        Ok(plan(&self.kernel))
    }

    /// All counters.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn counters(&mut self) -> Result<PlaneCounters, Fault> {
        let mut all = PlaneCounters::default();
        for (&oif, port) in self.kernel.ports.iter().filter(|(_, port)| port.root.is_some()) {
            for class in self.kernel.socket.classes(oif)? {
                let counted = counters_of(&class.stats, port.root.as_ref());
                all.classes.insert((oif, ClassId(class.handle.minor())), counted);
            }
            for (&key, flow) in &port.flows {
                all.flows.insert((oif, key), self.kernel.table.counters(flow.slot)?);
            }
        }
        self.kernel.count_edges(&mut all)?;
        Ok(all)
    }

    /// The counters of a class; `None` if it does not exist.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn class_counters(&mut self, oif: IfIndex, class: ClassId) -> Result<Option<Counters>, Fault> {
        let found = self.kernel.socket.class(oif, write::handle(class))?;
        let root = self.kernel.ports.get(&oif).and_then(|port| port.root.as_ref());
        Ok(found.map(|class| counters_of(&class.stats, root)))
    }

    /// The counters of a flow; `None` if it does not exist.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn flow_counters(&self, oif: IfIndex, flow: &FlowKey) -> Result<Option<Counters>, Fault> {
        let found = self.kernel.ports.get(&oif).and_then(|port| port.flows.get(flow));
        found.map(|flow| self.kernel.table.counters(flow.slot)).transpose()
    }

    /// At most so many flows, the first after this one, with their counters; `None`: they cannot be read.
    pub fn flows_after(&self, after: Option<InstalledFlow>, most: usize) -> Vec<(InstalledFlow, Option<Counters>)> {
        let first = after.map_or(IfIndex(0), |(oif, _)| oif);
        let all = self.kernel.ports.range(first..).flat_map(|(oif, port)| {
            let from = match after {
                Some((of, flow)) if of == *oif => Bound::Excluded(flow),
                _ => Bound::Unbounded,
            };
            port.flows.range((from, Bound::Unbounded)).map(move |(key, flow)| ((*oif, *key), flow.slot))
        });
        all.take(most).map(|(key, slot)| (key, self.kernel.table.counters(slot).ok())).collect()
    }

    /// True if a flow is installed.
    pub fn has_flows(&self) -> bool {
        self.kernel.ports.values().any(|port| !port.flows.is_empty())
    }

    /// When each flow of an interface that conforms to a class last had a packet: the time since, as the kernel's
    /// monotonic clock has it.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn silence(&self, oif: IfIndex, class: ClassId) -> Result<Vec<(FlowKey, Span)>, Fault> {
        let Some(port) = self.kernel.ports.get(&oif) else { return Ok(Vec::new()) };
        let mine = port.flows.iter().filter(|(_, flow)| flow.class() == class);
        mine.map(|(key, flow)| {
            let last = self.kernel.table.state(flow.slot)?.last;
            Ok((*key, Span::from_nanos(crate::clock::monotonic_coarse().saturating_sub(last))))
        })
        .collect()
    }

    /// The counters of a rule; `None` if it does not exist.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn rule_counters(&self, at: EdgeAt, fields: &MultiField) -> Result<Option<Counters>, Fault> {
        self.kernel.rule_counters(at, fields)
    }

    /// The packets of a rule by the colour that its meter gave them; `None`: there is no such rule, or it has no meter.
    pub fn rule_colors(&self, at: EdgeAt, fields: &MultiField) -> Result<Option<ColorCounters>, Fault> {
        self.kernel.rule_colors(at, fields)
    }

    /// Trusts the code points of packets from exactly these interfaces: such packets keep them. Every other
    /// interface is an edge ([`PlanOp::Edge`](traffic::plan::PlanOp)) or is not checked at all.
    ///
    /// # Errors
    /// The programs cannot be loaded, or the map is full.
    pub fn believe(&mut self, interfaces: &BTreeSet<IfIndex>) -> Result<(), Fault> {
        self.kernel.believe(interfaces)
    }

    /// The scheduler of an interface that is ours.
    pub fn scheduler(&self, oif: IfIndex) -> Option<SchedulerKind> {
        self.told.links.get(&oif).map(|plan| plan.link.scheduler)
    }

    /// The most flows of the plane.
    pub fn flow_limit(&self) -> u32 {
        self.kernel.table.limit()
    }

    /// The kernel's memory for flows and their buckets now, bytes.
    ///
    /// # Errors
    /// The kernel does not say it.
    pub fn flow_memory(&self) -> Result<u64, Fault> {
        self.kernel.table.memory()
    }

    /// Sets a fault drill.
    pub fn rig(&mut self, fault_injection: FaultInjection) {
        self.kernel.fault_injection = fault_injection;
    }
}

/// The kernel keeps its own time.
impl DataPlane for KernelPlane {
    fn apply(&mut self, _: Time, ops: &[PlanOp]) -> Result<(), Fault> {
        KernelPlane::apply(self, ops)
    }

    fn read(&mut self) -> Result<Plan, Fault> {
        KernelPlane::read(self)
    }

    fn counters(&mut self) -> Result<PlaneCounters, Fault> {
        KernelPlane::counters(self)
    }
}

fn plan(kernel: &Kernel) -> Plan {
    let links = kernel.ports.iter().filter_map(|(oif, port)| Some((*oif, port.plan()?)));
    Plan { links: links.collect(), edges: edge::plan(kernel) }
}

/// HFSC's classes count the link's overhead as well, HTB's do not.
fn counters_of(stats: &Stats, root: Option<&Discipline>) -> Counters {
    let overhead = match root {
        Some(Discipline::Hfsc { overhead, .. }) => u64::from(*overhead),
        _ => 0,
    };
    let bytes = stats.bytes.saturating_sub(stats.packets.saturating_mul(overhead));
    Counters { packets: stats.packets, bytes, over_packets: u64::from(stats.drops), over_bytes: 0 }
}
