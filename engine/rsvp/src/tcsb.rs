//! Traffic control state block: what one outgoing interface holds for one sender, or for those that share.
//! RFC 2209 section 1.2.

use crate::session::SessionState;
use crate::table::Id;
use alloc::boxed::Box;
use terms::ports::{Police, Preemption, RHandle};
use terms::{FilterSpec, FlowSpec, IfIndex, Style, Tspec};

/// What a traffic control state is found by: the sender for FF, `None` for a shared style.
pub type TcsbKey = (Id<SessionState>, IfIndex, Option<FilterSpec>);

/// Traffic control state.
pub struct Tcsb {
    /// Reservation style.
    pub style: Style,
    /// What traffic control calls it.
    pub handle: RHandle,
    /// What was last asked of it, merged over the next hops; larger than `admitted` after a refused increase.
    pub asked: FlowSpec,
    /// What it admitted.
    pub admitted: FlowSpec,
    /// What its plane has, as last read back; `None` until the first report.
    pub installed: Option<FlowSpec>,
    /// What traffic control was told besides.
    pub told: Told,
    /// The senders of an SE reservation, as traffic control was told, in ascending order.
    pub filters: Box<[FilterSpec]>,
    /// Admissions whose report from the plane is still out.
    pub pending: u32,
}

/// What traffic control is told of a reservation besides its flowspec and its filters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Told {
    /// What the senders send together (`Path_Te`).
    pub path_te: Tspec,
    /// Where the flow must be policed.
    pub police: Police,
    /// How it stands against others.
    pub priority: Option<Preemption>,
}

impl Tcsb {
    /// Whether a shared reservation is for this sender, too.
    pub fn shares(&self, filter: &FilterSpec) -> bool {
        match self.style {
            Style::Wf => true,
            Style::Se => self.filters.binary_search(filter).is_ok(),
            Style::Ff => false,
        }
    }
}
