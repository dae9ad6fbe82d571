//! The plan and the counters of the planes, read back, and their words in a status.

use crate::planes::Planes;
use control::status::ReservationView;
use documents::agent::Installed;
use documents::rows::InstalledState;
use terms::{Fault, FlowKey, IfIndex};
use traffic::plan::{ClassId, Counters, FlowSpecEntry, LinkPlan, Plan};

/// The plan and the counters of the planes, both read just now.
pub(crate) struct ReadBack {
    plan: Plan,
    counters: traffic::plane::PlaneCounters,
}

impl ReadBack {
    /// Reads the plan and the counters.
    pub(crate) fn of(planes: &mut Planes) -> Result<ReadBack, Fault> {
        let (plan, counters) = planes.look()?;
        Ok(ReadBack { plan, counters })
    }

    /// The kernel's entry for a flow.
    pub(crate) fn flow(&self, (oif, flow): &(IfIndex, FlowKey)) -> Option<&FlowSpecEntry> {
        self.plan.links.get(oif)?.flows.get(flow)
    }

    /// True if the kernel has the class.
    pub(crate) fn has_class(&self, oif: IfIndex, class: ClassId) -> bool {
        self.plan.links.get(&oif).is_some_and(|link| link.classes.contains_key(&class))
    }

    /// The kernel's counters of a flow.
    pub(crate) fn counted(&self, key: &(IfIndex, FlowKey)) -> Counters {
        self.counters.flows.get(key).copied().unwrap_or_default()
    }

    /// The same, if the kernel has counted the flow.
    pub(crate) fn counters(&self, key: &(IfIndex, FlowKey)) -> Option<Counters> {
        self.counters.flows.get(key).copied()
    }

    /// The classes of an interface.
    pub(crate) fn link(&self, oif: IfIndex) -> Option<&LinkPlan> {
        self.plan.links.get(&oif)
    }

    /// The kernel's counters of a class.
    pub(crate) fn class(&self, oif: IfIndex, class: ClassId) -> Counters {
        self.counters.classes.get(&(oif, class)).copied().unwrap_or_default()
    }
}

/// The kernel's entry of a flow, and the state of its reservation.
pub(crate) fn installed(held: Option<&ReservationView>, entry: &FlowSpecEntry) -> Installed {
    let state = match held {
        Some(held) if held.adopted_until.is_some() => InstalledState::Adopted,
        Some(held) if held.installed => InstalledState::Installed,
        _ => InstalledState::Pending,
    };
    Installed {
        state,
        class: class_name(entry.class),
        shared: is_shared(entry.class),
        bucket_bps: entry.bucket.rate.as_bps(),
        bucket_bytes: entry.bucket.depth.get(),
    }
}

/// True if a class holds more than one flow.
pub(crate) fn is_shared(class: ClassId) -> bool {
    class < ClassId::FIRST_OWN
}

/// The class's name in the notation of tc.
pub(crate) fn class_name(class: ClassId) -> String {
    format!("{:x}:{:x}", linux::bpf::entry::MAJOR, class.0)
}
