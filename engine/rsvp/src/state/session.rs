//! The state of a session besides its senders and reservations: the head of each chain of blocks, the local
//! applications that receive, and the end of an adoption of flows from an earlier life of this node.

use super::psb::Psb;
use super::rsb::Rsb;
use super::table::Chain;
use super::tcsb::Tcsb;
use super::timers::Alarm;
use crate::io::AppId;
use crate::short_list::Few;
use terms::Time;

/// Most local applications that may receive one session.
pub const MOST_RECEIVERS: usize = 64;

/// The state of one session. All its reservations are of one style (RFC 2205 section 1.3): that of the first.
#[derive(Default)]
pub struct SessionState {
    /// Its path states.
    pub(super) psbs: Chain<Psb>,
    /// Its reservation states.
    pub(super) rsbs: Chain<Rsb>,
    /// Its traffic control states.
    pub(super) tcsbs: Chain<Tcsb>,
    /// False if all its senders come from one previous hop; true if they may come from several.
    pub(super) several_hops: bool,
    /// Local applications registered for path events.
    pub receivers: Few<AppId>,
    /// The end of an adoption. Until then a Resv without a Path is ignored rather than refused.
    pub(super) adopted_until: Option<Time>,
    /// The alarm at the end of the adoption.
    pub(super) alarm: Alarm,
}

impl SessionState {
    /// The number of its path states.
    pub fn paths(&self) -> usize {
        self.psbs.len()
    }

    /// The number of its reservation states.
    pub fn requests(&self) -> usize {
        self.rsbs.len()
    }

    /// True if it has a traffic control state.
    pub fn is_installed(&self) -> bool {
        !self.tcsbs.is_empty()
    }

    /// False if all its senders come from one previous hop; true if they may come from several.
    pub fn has_several_hops(&self) -> bool {
        self.several_hops
    }

    /// The end of its adoption, if its flows are in the plane from an earlier life of this node.
    pub fn adopted_until(&self) -> Option<Time> {
        self.adopted_until
    }

    /// True if the session has no state and no registered application.
    pub fn is_idle(&self) -> bool {
        self.psbs.is_empty()
            && self.rsbs.is_empty()
            && self.tcsbs.is_empty()
            && self.receivers.is_empty()
            && self.adopted_until.is_none()
    }
}
