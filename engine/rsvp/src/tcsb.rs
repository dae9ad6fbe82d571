//! Traffic control state block: what one outgoing interface holds for one sender, or for those that share.
//! RFC 2209 section 1.2.

use crate::many::Sum;
use crate::session::SessionState;
use crate::table::BlockId;
use alloc::boxed::Box;
use terms::ports::{Police, Preemption, RHandle};
use terms::{FilterSpec, FlowSpec, IfIndex, Style, Tspec};

/// What a traffic control state is found by: the sender for FF, `None` for a shared style.
pub type TcsbKey = (BlockId<SessionState>, IfIndex, Option<FilterSpec>);

/// Traffic control state.
pub struct Tcsb {
    /// Reservation style.
    pub style: Style,
    /// What traffic control calls it.
    pub handle: RHandle,
    /// What it admitted.
    admitted: FlowSpec,
    /// What was last asked, where it is something else.
    asked: Option<Box<FlowSpec>>,
    /// What the plane has.
    installed: Installed,
    /// What traffic control was told besides.
    pub told: ReservationTerms,
    /// The senders of an SE reservation, as traffic control was told, in ascending order.
    pub filters: Box<[FilterSpec]>,
    /// WF: what its senders send together, as far as it is kept.
    pub(crate) senders: Option<Box<Sum>>,
    /// Admissions whose report from the plane is still out.
    pub pending: u32,
}

/// What the plane has, as last read back. Nearly always what was admitted, so that is not kept twice.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Installed {
    /// Nothing was read back yet.
    Nothing,
    /// What is admitted.
    Admitted,
    /// What was admitted before.
    Before(Box<FlowSpec>),
}

/// What traffic control is told of a reservation besides its flowspec and its filters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReservationTerms {
    /// What the senders send together (`Path_Te`).
    pub path_te: Tspec,
    /// Where the flow must be policed.
    pub police: Police,
    /// How it stands against others.
    pub priority: Option<Preemption>,
}

impl Tcsb {
    /// Of what traffic control has just admitted.
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

    /// What it admitted.
    pub fn admitted(&self) -> FlowSpec {
        self.admitted
    }

    /// What was last asked of it, merged over the next hops; larger than what it admitted after a refused increase.
    pub fn asked(&self) -> FlowSpec {
        self.asked.as_ref().map_or(self.admitted, |asked| **asked)
    }

    /// What its plane has, as last read back; `None` until the first report.
    pub fn installed(&self) -> Option<FlowSpec> {
        match &self.installed {
            Installed::Nothing => None,
            Installed::Admitted => Some(self.admitted),
            Installed::Before(flowspec) => Some(**flowspec),
        }
    }

    /// Something is asked of it.
    pub fn ask(&mut self, flowspec: FlowSpec) {
        self.asked = if flowspec == self.admitted { None } else { Some(Box::new(flowspec)) };
    }

    /// It has admitted something else. What was asked and what is installed stay as they are.
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

    /// The plane has what was admitted.
    pub fn install(&mut self) {
        self.installed = Installed::Admitted;
    }

    /// Whether a shared reservation is for this sender, too.
    pub fn shares(&self, filter: &FilterSpec) -> bool {
        match self.style {
            Style::Wf => true,
            Style::Se => self.filters.binary_search(filter).is_ok(),
            Style::Ff => false,
        }
    }
}
