//! The checks of an agent's operations: numbers in range, and no more packets in queues than there are buffers.

use std::collections::BTreeMap;
use terms::{Fault, FlowKey, Rate, Span};
use traffic::plan::{ClassId, ClassSpec, LinkSpec, PlanOp, QueueSpec};
use traffic::port::Port;
use traffic::tree::{MAX_OVERHEAD, MAX_RATE};

/// Edges are not here.
pub(crate) const NO_EDGES: Fault =
    Fault { what: "edges are programs of the kernel: the plane in user space has none", code: 95 };
const RANGE: Fault = Fault { what: "the numbers of a link, class or flow are out of range", code: 34 };
const BUFFERS: Fault = Fault {
    what: "the queues of all classes hold more packets than the plane in user space has buffers (`buffers` in its file)",
    code: 105,
};
/// The longest first piece of a curve.
const LONGEST: Span = Span::from_secs(3_600);
/// The shortest frame in a shaper, IP bytes.
const SHORTEST: u64 = 46;

/// Refuses an operation whose numbers are out of range.
pub(crate) fn in_range(op: &PlanOp) -> Result<(), Fault> {
    let right = match op {
        PlanOp::Link { spec, .. } => link(spec),
        PlanOp::Class { spec, .. } => class(spec),
        PlanOp::Flow { flow, entry, .. } => key(flow) && entry.bucket.rate <= MAX_RATE,
        PlanOp::Edge { .. } | PlanOp::DropEdge { .. } | PlanOp::Rule { .. } | PlanOp::DropRule { .. } => {
            return Err(NO_EDGES);
        }
        PlanOp::DropLink { .. }
        | PlanOp::DropClass { .. }
        | PlanOp::Condition { .. }
        | PlanOp::DropCondition { .. }
        | PlanOp::DropFlow { .. } => true,
    };
    if right { Ok(()) } else { Err(RANGE) }
}

fn link(spec: &LinkSpec) -> bool {
    (Rate::from_kbps(1)..=MAX_RATE).contains(&spec.rate)
        && spec.overhead <= MAX_OVERHEAD
        && (68..=65_535).contains(&spec.mtu)
}

fn class(spec: &ClassSpec) -> bool {
    let curve = spec.real_time.is_none_or(|curve| curve.m1.max(curve.m2) <= MAX_RATE && curve.d <= LONGEST);
    let share = spec.real_time.is_some_and(|curve| curve.m1.max(curve.m2) > Rate::ZERO) || spec.link_share > Rate::ZERO;
    let limit = spec.upper_limit.is_none_or(|limit| limit > Rate::ZERO && limit <= MAX_RATE);
    curve && share && limit && spec.link_share <= MAX_RATE
}

fn key(flow: &FlowKey) -> bool {
    let bits = if flow.src.is_ipv4() { 32 } else { 128 };
    flow.src.is_ipv4() == flow.dst.is_ipv4() && flow.wild.src <= bits && flow.wild.dst <= bits
}

/// Refuses a batch after which a port's queues and shapers could hold more than `buffers` packets.
pub(crate) fn fits(port: &Port, ops: &[PlanOp], buffers: u64) -> Result<(), Fault> {
    let mine = || ops.iter().filter(|op| op.oif() == port.interface());
    if !mine().any(|op| matches!(op, PlanOp::Class { .. } | PlanOp::Condition { .. })) {
        return Ok(());
    }
    let queue = |spec: &QueueSpec| u64::from(spec.packets);
    let mut held: BTreeMap<ClassId, [u64; 2]> =
        port.classes().map(|(class, spec)| (class, [queue(&spec.queue), 0])).collect();
    let plan = port.plan();
    let shaped = |class: ClassId, held: &mut BTreeMap<ClassId, [u64; 2]>, bytes: u64| {
        held.entry(class).or_default()[1] = bytes / SHORTEST;
    };
    for (class, spec) in plan.iter().flat_map(|plan| &plan.conditioners) {
        shaped(*class, &mut held, spec.shaper.map_or(0, |shaper| shaper.buffer().get()));
    }
    for op in mine() {
        match op {
            PlanOp::Class { class, spec, .. } => held.entry(*class).or_default()[0] = queue(&spec.queue),
            PlanOp::Condition { class, spec, .. } => {
                shaped(*class, &mut held, spec.shaper.map_or(0, |shaper| shaper.buffer().get()));
            }
            PlanOp::DropCondition { class, .. } => shaped(*class, &mut held, 0),
            PlanOp::DropClass { class, .. } => {
                held.remove(class);
            }
            PlanOp::DropLink { .. } => held.clear(),
            _ => {}
        }
    }
    let sum = held.values().flatten().fold(0u64, |sum, packets| sum.saturating_add(*packets));
    if sum > buffers { Err(BUFFERS) } else { Ok(()) }
}
