//! The share of a leaf or an inner node, in the terms of its parent's scheduler.

use crate::plan::{ClassSpec, LinkSpec};
use crate::scheduler::SchedulerKind;
use crate::scheduler::hfsc::Curves;
use crate::scheduler::htb::HtbSpec;
use terms::{Rate, ServiceCurve, Span};

/// The largest quantum.
pub const MAX_QUANTUM: u32 = 1 << 24;
/// The time of a turn of DRR at a class's rate.
const TURN: Span = Span::from_millis(10);

/// A node's share of its parent; it must be of the parent's scheduler's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeShare {
    /// A priority; 0 is served first.
    Priority(u8),
    /// A rate, in wire bytes; the children's rates sum to at most the parent's.
    Rate(Rate),
    /// The wire bytes a turn.
    Quantum(u32),
    /// Service curves, in wire bytes.
    Curves(Curves),
    /// Token buckets, in wire bytes.
    Buckets(HtbSpec),
}

impl TreeShare {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            TreeShare::Priority(_) => "priority",
            TreeShare::Rate(_) => "rate",
            TreeShare::Quantum(_) => "quantum",
            TreeShare::Curves(_) => "set of curves",
            TreeShare::Buckets(_) => "token bucket",
        }
    }

    /// The share of a plan's class at a link that runs this scheduler.
    ///
    /// HFSC takes the guarantee as the real-time curve, the share and the limit as lines; HTB as [`HtbSpec::of`] says.
    /// WF2Q+ takes the larger of guarantee and share as the rate, DRR 10 ms of it as the quantum, at least one full packet;
    /// neither has a limit. Strict priority takes the priority alone.
    pub fn of(kind: SchedulerKind, class: &ClassSpec, link: &LinkSpec) -> TreeShare {
        let slope = class.real_time.map_or(Rate::ZERO, |curve| curve.m1.max(curve.m2));
        let rate = slope.max(class.link_share).max(Rate::from_bps(1));
        match kind {
            SchedulerKind::Hfsc => TreeShare::Curves(Curves {
                real_time: class.real_time,
                link_share: Some(ServiceCurve::linear(class.link_share)),
                upper_limit: class.upper_limit.map(ServiceCurve::linear),
            }),
            SchedulerKind::Htb => TreeShare::Buckets(HtbSpec::of(class, link)),
            SchedulerKind::Wf2q => TreeShare::Rate(rate),
            SchedulerKind::Drr => {
                let packet = u64::from(link.mtu) + u64::from(link.overhead);
                let turn = rate.supplies(TURN).get().clamp(packet.max(1), MAX_QUANTUM.into());
                TreeShare::Quantum(u32::try_from(turn).unwrap_or(MAX_QUANTUM))
            }
            SchedulerKind::Priority => TreeShare::Priority(class.priority),
        }
    }
}
