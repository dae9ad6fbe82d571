//! The state of a session besides its senders and reservations: the head of each chain of blocks, the local
//! applications that receive, and the end of an adoption of flows from an earlier life of this node.

use crate::io::AppId;
use crate::psb::Psb;
use crate::rsb::Rsb;
use crate::short_list::Few;
use crate::table::Chain;
use crate::tcsb::Tcsb;
use crate::timers::Alarm;
use terms::Time;

/// Most local applications that may receive one session.
pub const MOST_RECEIVERS: usize = 64;

/// The state of one session. All its reservations are of one style (RFC 2205 section 1.3): that of the first.
#[derive(Default)]
pub struct SessionState {
    /// Its path states.
    pub psbs: Chain<Psb>,
    /// Its reservation states.
    pub rsbs: Chain<Rsb>,
    /// Its traffic control states.
    pub tcsbs: Chain<Tcsb>,
    /// False if all its senders come from one previous hop; true if they may come from several.
    pub several_hops: bool,
    /// Local applications registered for path events.
    pub receivers: Few<AppId>,
    /// The end of an adoption. Until then a Resv without a Path is ignored rather than refused.
    pub adopted_until: Option<Time>,
    /// The alarm at the end of the adoption.
    pub alarm: Alarm,
}

impl SessionState {
    /// True if the session has no state and no registered application.
    pub fn is_idle(&self) -> bool {
        self.psbs.is_empty()
            && self.rsbs.is_empty()
            && self.tcsbs.is_empty()
            && self.receivers.is_empty()
            && self.adopted_until.is_none()
    }
}
