//! What stands between a node and one direction of a link: a conditioner (RFC 2475), and a queue.
//!
//! The parts are described in the same words as the queue tree of the user-space plane ([`traffic::tree`]).

use super::LinkId;
use terms::Bytes;
use traffic::meter::{AfClass, Marker};
pub use traffic::plan::QueueSpec;
pub use traffic::tree::Tally;
use traffic::tree::{DropperSpec, MeterSpec, ShaperSpec, TreeSpec};

/// What stands in one direction of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressSpec {
    /// Which link.
    pub link: LinkId,
    /// Which end sends: 0 or 1, as in [`super::SimLinkSpec::ends`].
    pub side: usize,
    /// What packets pass before they come to the queue.
    pub conditioner: Option<Conditioner>,
    /// Where they wait for the link.
    pub queue: Queue,
}

/// Shaper, meter and marker, in the order of RFC 2963 figures 1 and 4. All packets of the direction pass it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conditioner {
    /// Holds packets back before they are metered.
    pub shaper: Option<ShaperSpec>,
    /// Gives them a colour; without it they keep the one that they came with.
    pub meter: Option<MeterSpec>,
    /// Writes the colour into the packet, and reads the one that it came with.
    pub marker: Marker,
}

/// Where packets wait for a link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Queue {
    /// The data plane of an agent, [`traffic::port`], which runs the scheduler of the link; nodes with agents have it everywhere.
    #[default]
    Port,
    /// First in, first out. The packet that is being sent does not count.
    Fifo(QueueSpec),
    /// The same behind RED or RIO, which reads colours by the marker.
    Rio {
        /// The dropper. It counts what waits, without the packet that is being sent.
        dropper: DropperSpec,
        /// Code points of the colours.
        marker: Marker,
        /// Limits of the queue.
        queue: QueueSpec,
    },
    /// A whole queue tree; its rate and overhead must be those of the link.
    Tree(Box<TreeSpec>),
}

impl Queue {
    /// A FIFO without limits.
    pub const UNLIMITED: Queue = Queue::Fifo(NO_LIMIT);

    /// A FIFO of so many packets.
    pub const fn packets(packets: u32) -> Queue {
        Queue::Fifo(QueueSpec { packets, ..NO_LIMIT })
    }
}

/// No limit at all.
pub const NO_LIMIT: QueueSpec = QueueSpec { packets: u32::MAX, bytes: Bytes::new(u64::MAX) };

/// The marker of assured forwarding class 1 (RFC 2597): AF11, AF12, AF13.
pub fn af1() -> Marker {
    // Class 1 exists.
    AfClass::new(1).map_or(Marker::new(terms::Dscp(10), terms::Dscp(12), terms::Dscp(14)), Marker::af)
}

/// What one direction of a link saw within the measured window, by colour: green, yellow, red. A direction without
/// conditioner and RIO counts everything as green.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressReport {
    /// Came out of the marker, or to the queue where there is none: the offered load, before drops, IP bytes.
    pub offered: [Tally; 3],
    /// Dropped by the dropper or at the tail.
    pub dropped: [Tally; 3],
    /// Dropped by the conditioner's shaper.
    pub refused: Tally,
}

impl EgressReport {
    /// All colours of what was offered.
    pub fn total(&self) -> Tally {
        self.offered.iter().fold(Tally::default(), |sum, tally| sum.plus(*tally))
    }
}
