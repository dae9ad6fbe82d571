//! Flows that never signalled, on the way of the packets: those on watched ports are counted until they are told, and what the
//! promoted ones bring is measured as it comes in.

use mace::Recogniser;
use terms::{Bytes, Fault, FlowKey, Span, Time, WatchedPorts};
use traffic::plan::ClassId;

/// The most flows of one answer.
pub const MOST_TOLD: usize = 256;
/// The most candidates of an interface.
pub const MOST_CANDIDATES: u32 = 1 << 22;
/// The longest time for which a flow is not told again.
const LONGEST_QUIET: Span = Span::from_secs(2 * 86_400);
/// The ports of both protocols.
const ALL_PORTS: usize = 2 << 16;

/// A wish to have flows recognised at an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchSpec {
    /// The ports, each protocol's at most once.
    pub ports: Vec<WatchedPorts>,
    /// The places for candidates.
    pub candidates: u32,
    /// A flow that was told is told again after this time.
    pub quiet: Span,
    /// Keys the table of candidates.
    pub key: [u64; 2],
}

impl WatchSpec {
    /// Makes the tables; not for the thread of the packets, because they may be large.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn recogniser(&self) -> Result<Box<Recogniser>, Fault> {
        const RANGE: Fault = Fault { what: "the numbers of a link, class or flow are out of range", code: 34 };
        let ports = self.ports.iter().map(|watched| usize::from(watched.ports.1.saturating_sub(watched.ports.0)) + 1);
        let possible = (1..=MOST_CANDIDATES).contains(&self.candidates) && self.quiet <= LONGEST_QUIET;
        if !possible || ports.sum::<usize>() > ALL_PORTS {
            return Err(RANGE);
        }
        let mut recogniser = Recogniser::new(self.candidates as usize, self.quiet, self.key);
        recogniser.watch(&self.ports);
        Ok(Box::new(recogniser))
    }
}

/// The flows that were recognised at an interface since they were last asked for, and what the promoted ones have brought.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecognisedFlows {
    /// False: no port is watched there. It may be another plane than the one that was told.
    pub watching: bool,
    /// Flows that have reached their threshold, at most [`MOST_TOLD`].
    pub flows: Vec<FlowKey>,
    /// Bytes of [`ClassId::MEASURED`] that have come in since the ports were watched, link headers included.
    pub arrived: Bytes,
}

/// Recognition at work.
#[derive(Debug)]
pub(crate) struct Recognition {
    recogniser: Box<Recogniser>,
    arrived: u64,
}

impl Recognition {
    /// Begins with these tables, after what others before them have measured.
    pub(crate) fn new(recogniser: Box<Recogniser>, before: Option<&Recognition>) -> Recognition {
        Recognition { recogniser, arrived: before.map_or(0, |before| before.arrived) }
    }

    /// The tables.
    pub(crate) fn into_tables(self) -> Box<Recogniser> {
        self.recogniser
    }

    /// Takes the flows that were recognised.
    pub(crate) fn take(&mut self) -> RecognisedFlows {
        let flows = std::iter::from_fn(|| self.recogniser.next_recognised()).take(MOST_TOLD).collect();
        RecognisedFlows { watching: true, flows, arrived: Bytes::new(self.arrived) }
    }

    /// Counts a packet of `wire` bytes that went to `class`; `claimed`: an installed flow has it.
    pub(crate) fn packet(&mut self, now: Time, flow: &FlowKey, class: ClassId, claimed: bool, wire: u32) {
        if class == ClassId::MEASURED {
            self.arrived = self.arrived.wrapping_add(u64::from(wire));
        }
        if !claimed {
            self.recogniser.packet(now, flow);
        }
    }
}
