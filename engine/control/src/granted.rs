//! The grant of Boomerang's fast path: one open slot of an interface's ledger, which the kernel program divides.
//!
//! The ledger has only the slot, and the class of controlled load carries all of it; the parts are in the
//! program's table. The program's driver grows the slot before the program's share, and shrinks it after it,
//! so that the program never has more than the ledger holds for it.

use admit::SlotId;
use terms::{Bytes, FlowSpec, Rate, Tspec};

/// The share that is granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantedShare {
    /// The most that the sessions' rates may sum to, in IP bytes.
    pub rate: Rate,
    /// The burst of all their buckets together, in IP bytes.
    pub burst: Bytes,
    /// The least packet size that is counted, in IP bytes.
    pub min_packet: u32,
}

impl GrantedShare {
    pub(crate) fn flowspec(&self) -> FlowSpec {
        let GrantedShare { rate, burst, min_packet } = *self;
        FlowSpec::ControlledLoad(Tspec { r: rate, b: burst, p: Rate::INFINITE, m: min_packet, M: 0 })
    }
}

/// An existing grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    slot: SlotId,
    share: GrantedShare,
    /// The rate in the ledger, a wire rate.
    admitted: Rate,
}

impl Granted {
    /// A share with its slot, and the wire rate that the ledger counts for it.
    pub(crate) fn new(slot: SlotId, share: GrantedShare, admitted: Rate) -> Granted {
        Granted { slot, share, admitted }
    }

    pub(crate) fn slot(&self) -> SlotId {
        self.slot
    }

    pub(crate) fn share(&self) -> GrantedShare {
        self.share
    }

    pub(crate) fn admitted(&self) -> Rate {
        self.admitted
    }
}
