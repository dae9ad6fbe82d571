//! The kernel data plane: a [`Plan`] as HTB classes, FIFO queues and entries of the flow map.
//!
//! *Desired state, by difference.* An operation writes only what is not there yet, changes in place, and reads every
//! write back; a batch is carried out whole or undone. Nothing is torn down to be rebuilt, so counters and queues of
//! what does not change stay.
//!
//! *Ours and others'.* Our root qdiscs are called `5c1c:`. A root called `0:` is the kernel's default: replaced, and
//! back again after `DropLink`. Any other root is another program's: refused, not fought.
//!
//! *Outliving the agent.* Everything is in the kernel, program and maps pinned under the state directory: packets are
//! classified and policed on while no agent runs, and [`KernelPlane::open`] on the same directory finds it all.
//!
//! *What HTB cannot*: no delay bound is exported (DESIGN decision 2); a rate of zero is 1 byte/s; a queue has a limit
//! of packets or of bytes, whichever full packets reach first. *What the flow map cannot*: a fragment that overtakes
//! the first of its datagram is best effort. *What many classes cost*: for each new class the kernel walks all others
//! of the interface (`tc_bind_tclass`), so that one takes tens of microseconds among a thousand and milliseconds among
//! many thousands; flows that share a class cost the same however many there are.
//!
//! *Edges* ([`traffic::edge`]) are programs of their own at either side of an interface, loaded when the first is made;
//! an interface may be an edge without being a link of ours.
//!
//! One plane belongs to one network namespace: that of the thread that opens it, and it must be used in threads of
//! that namespace.

mod adopt;
pub mod compile;
mod edge;
mod fault_injection;
mod port;
mod reconcile;
mod slots;
mod steps;
mod write;

pub use fault_injection::FaultInjection;
pub use reconcile::PlaneDrift;
pub use write::ROOT;

use crate::bpf::entry::RawKinds;
use crate::bpf::{FlowTable, Hook, MAX_FLOWS};
use crate::netlink::Socket;
use slots::Slots;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use terms::{Fault, FlowKey, IfIndex};
use traffic::edge::{EdgeAt, MultiField};
use traffic::plan::{ClassId, Counters, Plan, PlanOp};
use write::{Kernel, Undo};

/// The kernel data plane of one network namespace.
pub struct KernelPlane {
    kernel: Kernel,
    /// What we were told and did; the measure for [`KernelPlane::reconcile`].
    told: Plan,
}

/// What the plane measures, all at one go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlaneCounters {
    /// Per class; over: dropped by its queue. Bytes of the link.
    pub classes: BTreeMap<(IfIndex, ClassId), Counters>,
    /// Per flow; over: in excess of its bucket. IP bytes.
    pub flows: BTreeMap<(IfIndex, FlowKey), Counters>,
    /// Per rule of an edge; over: dropped. IP bytes.
    pub rules: BTreeMap<(EdgeAt, MultiField), Counters>,
    /// Per edge: what lost a premium code point that no rule gave it. IP bytes.
    pub stripped: BTreeMap<EdgeAt, Counters>,
}

impl KernelPlane {
    /// Opens the plane of the calling thread's network namespace and adopts what an earlier one left there.
    ///
    /// # Errors
    /// Not root (CAP_NET_ADMIN, CAP_BPF, and CAP_SYS_ADMIN to mount), or a kernel without what the flow program needs.
    pub fn open(state_dir: &Path) -> Result<KernelPlane, Fault> {
        KernelPlane::open_with(state_dir, MAX_FLOWS, Hook::Best)
    }

    /// As [`KernelPlane::open`], for at most `max_flows` flows (a map that is there keeps its size) and with the flow
    /// program where `hook` says.
    ///
    /// # Errors
    /// As there.
    pub fn open_with(state_dir: &Path, max_flows: u32, hook: Hook) -> Result<KernelPlane, Fault> {
        let table = FlowTable::open(state_dir, max_flows, hook)?;
        let slots = Slots::new(table.limit(), &BTreeSet::new());
        let socket = Socket::open()?;
        let kinds = RawKinds::default();
        let edges = edge::Edges::find(state_dir, hook)?;
        let mut kernel = Kernel {
            socket,
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

    /// Carries out a batch, in its order, whole or not at all. Every change has been read back when this returns.
    ///
    /// # Errors
    /// The first fault; everything that was done before it has been undone.
    pub fn apply(&mut self, ops: &[PlanOp]) -> Result<(), Fault> {
        let touched: BTreeSet<IfIndex> = ops.iter().map(PlanOp::oif).collect();
        for &oif in &touched {
            self.kernel.check_root(oif)?;
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

    /// Undoes as much as can be, then believes what it sees, so that the next batch starts from the truth.
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

    /// The plan as the kernel has it: looked up, not remembered. What was told is recalled from the pinned maps where
    /// the kernel has exactly what that makes.
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
        for (&oif, port) in self.kernel.ports.iter().filter(|(_, port)| port.root) {
            for class in self.kernel.socket.classes(oif)? {
                let counted = counters_of(&class.stats);
                all.classes.insert((oif, ClassId(class.handle.minor())), counted);
            }
            for (&key, flow) in &port.flows {
                all.flows.insert((oif, key), self.kernel.table.counters(flow.slot)?);
            }
        }
        self.kernel.count_edges(&mut all)?;
        Ok(all)
    }

    /// One class's counters; `None` if it is not there.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn class_counters(&mut self, oif: IfIndex, class: ClassId) -> Result<Option<Counters>, Fault> {
        let found = self.kernel.socket.class(oif, write::handle(class))?;
        Ok(found.map(|class| counters_of(&class.stats)))
    }

    /// One flow's counters; `None` if it is not there.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn flow_counters(&self, oif: IfIndex, flow: &FlowKey) -> Result<Option<Counters>, Fault> {
        let found = self.kernel.ports.get(&oif).and_then(|port| port.flows.get(flow));
        found.map(|flow| self.kernel.table.counters(flow.slot)).transpose()
    }

    /// One rule's counters; `None` if it is not there.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn rule_counters(&self, at: EdgeAt, fields: &MultiField) -> Result<Option<Counters>, Fault> {
        self.kernel.rule_counters(at, fields)
    }

    /// The code points of exactly these interfaces are believed: what comes in there keeps them. Every other interface is
    /// an edge ([`PlanOp::Edge`](traffic::plan::PlanOp)) or nobody looks after it.
    ///
    /// # Errors
    /// The programs cannot be loaded, or the map is full.
    pub fn believe(&mut self, interfaces: &BTreeSet<IfIndex>) -> Result<(), Fault> {
        self.kernel.believe(interfaces)
    }

    /// How many flows there can be.
    pub fn flow_limit(&self) -> u32 {
        self.kernel.table.limit()
    }

    /// Sets a fault drill.
    pub fn rig(&mut self, fault_injection: FaultInjection) {
        self.kernel.fault_injection = fault_injection;
    }
}

fn plan(kernel: &Kernel) -> Plan {
    let links = kernel.ports.iter().filter_map(|(oif, port)| Some((*oif, port.plan()?)));
    Plan { links: links.collect(), edges: edge::plan(kernel) }
}

fn counters_of(stats: &crate::netlink::tc::Stats) -> Counters {
    Counters { packets: stats.packets, bytes: stats.bytes, over_packets: u64::from(stats.drops), over_bytes: 0 }
}
