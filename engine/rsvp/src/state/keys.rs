//! The keys of state blocks.

use super::rsb::NextHop;
use super::session::SessionState;
use super::table::BlockId;
use terms::{FilterSpec, IfIndex, SenderTemplate};

/// The key of a path state. Its last part is `None` for the path that is forwarded and reserved along. A
/// multicast sender whose Paths come in by another interface as well has a further path state for each
/// (`Local_Only` of RFC 2209 section 1.2), which is only remembered.
pub type PsbKey = (BlockId<SessionState>, SenderTemplate, Option<IfIndex>);

/// The key of a reservation state: its last part is the sender for FF, `None` for a shared style.
pub type RsbKey = (BlockId<SessionState>, NextHop, Option<FilterSpec>);

/// The key of a traffic control state: its last part is the sender for FF, `None` for a shared style.
pub type TcsbKey = (BlockId<SessionState>, IfIndex, Option<FilterSpec>);
