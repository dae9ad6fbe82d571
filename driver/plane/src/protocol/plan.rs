//! The plan and its counters as bytes.

use super::coded::{Coded, Rest, record, variants};
use crate::delays::{ClassDelay, LeafDelay};
use crate::recognition::{RecognisedFlows, WatchSpec};
use crate::way::WayCounters;
use terms::{Bytes, Dscp, Fault, FlowKey, IfIndex, Rate, SenderGroup, ServiceCurve, Span, WatchedPorts, Wild};
use traffic::conditioner::{ConditionerSpec, DropperSpec, MeterKind, MeterSpec, QueueUnit, RasSpec, ShaperSpec};
use traffic::dropper::{Coupling, RedCurve};
use traffic::edge::{BehaviourAggregate, EdgeAt, EdgeMeter, EdgeRule, MultiField, RedPackets, Side};
use traffic::meter::{Color, Marker};
use traffic::plan::{
    BucketId, BucketSpec, ClassId, ClassSpec, Counters, FlowSpecEntry, LinkSpec, OwnerRecord, Plan, PlanOp, QueueSpec,
};
use traffic::plane::PlaneCounters;
use traffic::scheduler::SchedulerKind;

/// A number of its own type.
macro_rules! number {
    ($name:ty, $kind:ty, $to:expr, $from:expr) => {
        impl Coded for $name {
            fn put(&self, to: &mut Vec<u8>) {
                let number: $kind = $to(*self);
                number.put(to);
            }

            fn take(from: &mut Rest<'_>) -> Option<Self> {
                <$kind>::take(from).map($from)
            }
        }
    };
}

number!(IfIndex, u32, |value: IfIndex| value.0, IfIndex);
number!(ClassId, u16, |value: ClassId| value.0, ClassId);
number!(BucketId, u64, |value: BucketId| value.0, BucketId);
number!(Dscp, u8, |value: Dscp| value.0 & 63, |bits: u8| Dscp(bits & 63));
number!(Rate, u64, Rate::as_bps, Rate::from_bps);
number!(Bytes, u64, Bytes::get, Bytes::new);
number!(Span, u64, Span::as_nanos, Span::from_nanos);
number!(OwnerRecord, [u8; OwnerRecord::LEN], |value: OwnerRecord| value.0, OwnerRecord);

record!(ServiceCurve { m1, d, m2 });
record!(QueueSpec { packets, bytes });
record!(BucketSpec { rate, depth, min_unit });
record!(Counters { packets, bytes, over_packets, over_bytes });
record!(LinkSpec { rate, overhead, mtu, scheduler });
record!(ClassSpec { real_time, link_share, upper_limit, priority, queue });
record!(FlowSpecEntry { class, bucket, shared, record });
record!(Wild { src, dst });
record!(FlowKey { src, dst, protocol, src_port, dst_port, wild });
record!(SenderGroup { depth, id });
record!(EdgeAt { interface, side });
record!(MultiField { src, dst, protocol, src_port, dst_port, group, aggregate });
record!(EdgeRule { bucket, mark, meter });
record!(ConditionerSpec { shaper, meter, marker, dropper });
record!(RasSpec { buffer, k, green });
record!(MeterSpec { kind, aware });
record!(DropperSpec { curves, weight, slot, coupling, unit });
record!(RedCurve { min, max, max_p, gentle });
record!(WatchedPorts { protocol, ports, threshold });
record!(WatchSpec { ports, candidates, quiet, key });
record!(RecognisedFlows { watching, flows, arrived });
record!(PlaneCounters { classes, flows, rules, stripped });
record!(LeafDelay { packets, sum_ns, most_ns });
record!(ClassDelay { delay, late_ns, bound_ns, beyond });
record!(WayCounters { received, cut, sent, sent_bytes, arp, not_ip, no_buffer, too_long, lost, refused, missed });

variants!(SchedulerKind { 0 Htb, 1 Hfsc, 2 Wf2q, 3 Drr, 4 Priority });
variants!(Side { 0 Ingress, 1 Egress });
variants!(BehaviourAggregate { 0 Ef, 1 Af1 });
variants!(RedPackets { 0 Excess, 1 Marked });
variants!(Coupling { 0 Coupled, 1 Decoupled, 2 Single });
variants!(QueueUnit { 0 Packets, 1 Bytes });
variants!(ShaperSpec {
    0 Bucket { rate, depth, buffer },
    1 SrRas { rates, thresholds, ras },
    2 TrRas { rates, thresholds, ras },
});
variants!(MeterKind {
    0 SrTcm { cir, cbs, ebs },
    1 TrTcm { cir, cbs, pir, pbs },
    2 Rfc4115 { cir, cbs, eir, ebs },
    3 TswTcm { ctr, ptr, interval },
});
variants!(PlanOp {
    0 Link { oif, spec },
    1 DropLink { oif },
    2 Class { oif, class, spec },
    3 DropClass { oif, class },
    4 Condition { oif, class, spec },
    5 DropCondition { oif, class },
    6 Flow { oif, flow, entry },
    7 DropFlow { oif, flow },
    8 Edge { at },
    9 DropEdge { at },
    10 Rule { at, fields, rule },
    11 DropRule { at, fields },
});

impl Coded for Marker {
    fn put(&self, to: &mut Vec<u8>) {
        [Color::Green, Color::Yellow, Color::Red].into_iter().for_each(|color| self.mark(color).put(to));
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        Some(Marker::new(Dscp::take(from)?, Dscp::take(from)?, Dscp::take(from)?))
    }
}

/// A meter that edges cannot have is malformed.
impl Coded for EdgeMeter {
    fn put(&self, to: &mut Vec<u8>) {
        MeterSpec { kind: self.kind(), aware: self.is_aware() }.put(to);
        self.red().put(to);
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        EdgeMeter::new(MeterSpec::take(from)?, RedPackets::take(from)?).ok()
    }
}

/// A plan goes as the operations that build it.
impl Coded for Plan {
    fn put(&self, to: &mut Vec<u8>) {
        self.ops().put(to);
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        let mut plan = Plan::default();
        Vec::<PlanOp>::take(from)?.iter().for_each(|op| plan.apply(op));
        Some(plan)
    }
}

/// The faults that a plane in user space says, so that their words are ours on both sides.
pub(crate) const WORDS: [&str; 20] = [
    "no such interface",
    "operation for another interface",
    "the interface has no root",
    "the root is no class",
    "no such class",
    "the class still has flows",
    "the limit of flows is reached",
    "the limit of classes is reached",
    "a conditioner that cannot work",
    "the interface is no edge",
    "a rule's addresses are of two families",
    "the limit of rules is reached",
    "rules have too many kinds of wildcards at once",
    "edges are programs of the kernel: the plane in user space has none",
    "the numbers of a link, class or flow are out of range",
    "the queues of all classes hold more packets than the plane in user space has buffers (`buffers` in its file)",
    "the plane in user space does not know this message",
    "the plane in user space ends",
    "no packets pass the plane in user space at this interface",
    "only rules of AF1x have meters, and a code point has six bits",
];
/// Stands for words that are none of them.
const OTHER: &str = "the plane in user space refused";

impl Coded for Fault {
    fn put(&self, to: &mut Vec<u8>) {
        let number = WORDS.iter().position(|words| *words == self.what).unwrap_or(WORDS.len());
        (number as u8).put(to);
        self.code.put(to);
    }

    fn take(from: &mut Rest<'_>) -> Option<Self> {
        let number = u8::take(from)?;
        let what = WORDS.get(usize::from(number)).copied().unwrap_or(OTHER);
        Some(Fault { what, code: i32::take(from)? })
    }
}
