//! Traffic control state block: what one outgoing interface holds for one sender. RFC 2209 section 1.2.

use crate::session::SessionState;
use crate::table::Id;
use terms::ports::RHandle;
use terms::{FilterSpec, FlowSpec, IfIndex, Tspec};

/// What a traffic control state is found by. The shared styles (SE, WF) will widen the filter to a list of filters.
pub type TcsbKey = (Id<SessionState>, IfIndex, FilterSpec);

/// Traffic control state.
pub struct Tcsb {
    /// What traffic control calls it.
    pub handle: RHandle,
    /// What was last asked of it, merged over the next hops; larger than `admitted` after a refused increase.
    pub asked: FlowSpec,
    /// What it admitted.
    pub admitted: FlowSpec,
    /// What its plane has, as last read back; `None` until the first report.
    pub installed: Option<FlowSpec>,
    /// What the sender sends, as traffic control was told.
    pub path_te: Tspec,
    /// Admissions whose report from the plane is still out.
    pub pending: u32,
}
