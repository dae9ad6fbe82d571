//! The reservations that a caller may see or change. A caller who may not see one learns nothing of it.

use super::{Number, Reservation, Reservations};
use crate::refusal::{Refusal, RefusalReason};
use terms::book::{Caller, CallerRole, Handle, foreign};

impl Reservations {
    /// The reservation of this handle, for a caller who may read it, or also write it.
    pub(crate) fn find(&self, caller: &Caller, handle: Handle, write: bool) -> Result<Number, Refusal> {
        let r = self.number_of(handle).and_then(|number| self.get(number));
        let r = r.filter(|r| !r.unborn && self.may(caller, r, write));
        r.map(|r| r.number).ok_or_else(|| Refusal::plain(RefusalReason::UnknownHandle))
    }

    /// True if a caller may read a reservation, or also write it.
    pub(crate) fn may(&self, caller: &Caller, r: &Reservation, write: bool) -> bool {
        let owner = self.owner_of(r);
        match caller.role {
            CallerRole::Operator => true,
            CallerRole::Auditor if !write => true,
            CallerRole::Auditor | CallerRole::Owner => *owner == *caller.name,
            // What names no members was made by no broker.
            CallerRole::Broker => !r.members.is_empty() && foreign(owner) == caller.domain(),
        }
    }
}
