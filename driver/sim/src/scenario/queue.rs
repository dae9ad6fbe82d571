//! The conditioner (RFC 2475) and the queue between a node and one direction of a link.
//!
//! The parts are described in the same words as the queue tree of the user-space plane ([`traffic::tree`]).

use super::{LinkId, MaceSpec};
use terms::Bytes;
use traffic::meter::{AfClass, Marker};
pub use traffic::plan::QueueSpec;
pub use traffic::tree::Tally;
use traffic::tree::{DropperSpec, MeterSpec, ShaperSpec, TreeSpec};

/// The conditioner and the queue of one direction of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressSpec {
    /// The link.
    pub link: LinkId,
    /// The sending end: 0 or 1, as in [`super::SimLinkSpec::ends`].
    pub side: usize,
    /// The conditioner in front of the queue.
    pub conditioner: Option<LinkConditioner>,
    /// The queue in front of the link.
    pub queue: Queue,
}

/// Shaper, meter and marker, in the order of RFC 2963 figures 1 and 4. All packets of the direction pass
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkConditioner {
    /// Delays packets before they are metered.
    pub shaper: Option<ShaperSpec>,
    /// Colours packets. Without it they keep their colour.
    pub meter: Option<MeterSpec>,
    /// Reads a packet's old colour and writes the new one.
    pub marker: Marker,
}

/// The queue of packets in front of a link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Queue {
    /// The data plane of an agent, [`traffic::port`], with the scheduler of the link. All directions of nodes
    /// with agents have it.
    #[default]
    Port,
    /// First in, first out. The packet in transmission does not count.
    Fifo(QueueSpec),
    /// A FIFO behind RED or RIO, which reads colours by the marker.
    Rio {
        /// The dropper. It counts waiting packets, without the one in transmission.
        dropper: DropperSpec,
        /// The DSCPs of the colours.
        marker: Marker,
        /// Limits of the queue.
        queue: QueueSpec,
    },
    /// A whole queue tree. Its rate and overhead must be those of the link.
    Tree(Box<TreeSpec>),
    /// Two levels in one buffer: flows that never signalled are recognised, and admitted to the first by what is measured.
    Mace(Box<MaceSpec>),
}

impl Queue {
    /// A FIFO without limits.
    pub const UNLIMITED: Queue = Queue::Fifo(NO_LIMIT);

    /// A FIFO of at most `packets` packets.
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

/// Counters of one direction of a link within the measured window, by colour: green, yellow, red. A direction
/// without conditioner and RIO counts everything as green; one that recognises flows counts controlled load as green and
/// best effort as yellow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressReport {
    /// The offered load before drops, IP bytes: packets from the marker, or to the queue if there is no
    /// marker.
    pub offered: [Tally; 3],
    /// Packets dropped by the dropper or at the tail.
    pub dropped: [Tally; 3],
    /// Packets dropped by the conditioner's shaper.
    pub refused: Tally,
}

impl EgressReport {
    /// The offered load of all colours.
    pub fn total(&self) -> Tally {
        self.offered.iter().fold(Tally::default(), |sum, tally| sum.plus(*tally))
    }
}
