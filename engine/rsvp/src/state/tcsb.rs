//! Traffic control state block: the reservation of one outgoing interface for one sender, or for those that
//! share. RFC 2209 section 1.2.

use super::sum::Sum;
use alloc::boxed::Box;
use terms::ports::{Police, Preemption, RHandle};
use terms::{FilterSpec, FlowSpec, Style, Tspec};

/// Traffic control state.
pub struct Tcsb {
    /// Reservation style.
    pub style: Style,
    /// Traffic control's handle of it.
    pub handle: RHandle,
    /// The flowspec that traffic control admitted.
    admitted: FlowSpec,
    /// The flowspec last asked for, if it differs.
    asked: Option<Box<FlowSpec>>,
    /// The flowspec in the plane.
    installed: Installed,
    /// The other terms that traffic control was told.
    pub told: ReservationTerms,
    /// The senders of an SE reservation that traffic control was told, in ascending order.
    pub filters: Box<[FilterSpec]>,
    /// WF: the sum of its senders' traffic, if it is kept.
    pub(super) senders: Option<Box<Sum>>,
    /// Admissions whose report from the plane is outstanding.
    pub pending: u32,
}

/// The flowspec in the plane, as last read back. It is nearly always the admitted one: kept only once.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Installed {
    /// Nothing was read back yet.
    Nothing,
    /// The admitted flowspec.
    Admitted,
    /// A flowspec that was admitted before.
    Before(Box<FlowSpec>),
}

/// The terms of a reservation for traffic control besides its flowspec and its filters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReservationTerms {
    /// The sum of the senders' traffic (`Path_Te`).
    pub path_te: Tspec,
    /// The places at which the flow must be policed.
    pub police: Police,
    /// Its pre-emption priority.
    pub priority: Option<Preemption>,
}

impl Tcsb {
    /// The state of a reservation that traffic control has just admitted.
    pub fn new(
        style: Style,
        handle: RHandle,
        admitted: FlowSpec,
        told: ReservationTerms,
        filters: Box<[FilterSpec]>,
    ) -> Tcsb {
        let installed = Installed::Nothing;
        Tcsb { style, handle, admitted, asked: None, installed, told, filters, senders: None, pending: 1 }
    }

    /// The flowspec that traffic control admitted.
    pub fn admitted(&self) -> FlowSpec {
        self.admitted
    }

    /// The flowspec last asked for, merged over the next hops; after a refused increase it is larger than the
    /// admitted one.
    pub fn asked(&self) -> FlowSpec {
        self.asked.as_ref().map_or(self.admitted, |asked| **asked)
    }

    /// The flowspec in the plane, as last read back; `None` until the first report.
    pub fn installed(&self) -> Option<FlowSpec> {
        match &self.installed {
            Installed::Nothing => None,
            Installed::Admitted => Some(self.admitted),
            Installed::Before(flowspec) => Some(**flowspec),
        }
    }

    /// Keeps the flowspec that is asked for.
    pub fn ask(&mut self, flowspec: FlowSpec) {
        self.asked = if flowspec == self.admitted { None } else { Some(Box::new(flowspec)) };
    }

    /// Takes a newly admitted flowspec. The asked and the installed ones stay as they are.
    pub fn admit(&mut self, flowspec: FlowSpec) {
        let (asked, installed) = (self.asked(), self.installed());
        self.admitted = flowspec;
        self.ask(asked);
        self.installed = match installed {
            None => Installed::Nothing,
            Some(before) if before == flowspec => Installed::Admitted,
            Some(before) => Installed::Before(Box::new(before)),
        };
    }

    /// Notes that the plane has installed the admitted flowspec.
    pub fn install(&mut self) {
        self.installed = Installed::Admitted;
    }

    /// True if a shared reservation is for this sender, too.
    pub fn shares(&self, filter: &FilterSpec) -> bool {
        match self.style {
            Style::Wf => true,
            Style::Se => self.filters.binary_search(filter).is_ok(),
            Style::Ff => false,
        }
    }
}
