//! Recognition for a plane that counts packets itself, while the engine runs in another process: the ports that are watched,
//! the candidates, and the flows that reached their threshold.

use crate::candidates::CandidateTable;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use terms::{FlowKey, Span, Time, WatchedPorts};

const PORTS: usize = 1 << 16;
/// The protocols of the list of ports, in its order.
const PROTOCOLS: [u8; 2] = [17, 6];
/// The flows that may wait to be taken. More stay candidates, and reach their threshold again with their next packet.
pub const MOST_WAITING: usize = 1_024;

/// The packets that no flow claims, by flow.
#[derive(Clone, Debug)]
pub struct Recogniser {
    /// The threshold of each port; 0: it is not watched.
    thresholds: Vec<u32>,
    candidates: CandidateTable,
    quiet: Span,
    reached: VecDeque<FlowKey>,
}

impl Recogniser {
    /// Watches no port yet. It has places for at least `candidates` flows; one that was told is told again after `quiet`.
    /// `key` keys the table.
    pub fn new(candidates: usize, quiet: Span, key: [u64; 2]) -> Recogniser {
        Recogniser {
            thresholds: vec![0; PROTOCOLS.len() * PORTS],
            candidates: CandidateTable::new(candidates, key),
            quiet,
            reached: VecDeque::with_capacity(MOST_WAITING),
        }
    }

    /// The time for which a flow that was told is not told again.
    pub fn quiet(&self) -> Span {
        self.quiet
    }

    /// The number of places for candidates.
    pub fn room(&self) -> usize {
        self.candidates.room()
    }

    /// Watches exactly these ports from now on.
    pub fn watch(&mut self, ports: &[WatchedPorts]) {
        self.thresholds.fill(0);
        for watched in ports {
            let Some(of) = PROTOCOLS.iter().position(|protocol| *protocol == watched.protocol) else { continue };
            let (first, last) = watched.ports;
            if first <= last {
                let places = of * PORTS + usize::from(first)..=of * PORTS + usize::from(last);
                self.thresholds[places].fill(watched.threshold);
            }
        }
    }

    /// Counts a packet that no flow claims. It allocates nothing.
    pub fn packet(&mut self, now: Time, flow: &FlowKey) {
        let Some(of) = PROTOCOLS.iter().position(|protocol| *protocol == flow.protocol) else { return };
        // Without ports it is a later fragment.
        if flow.src_port == 0 || flow.dst_port == 0 {
            return;
        }
        let at = |port: u16| self.thresholds[of * PORTS + usize::from(port)];
        let threshold = match at(flow.dst_port) {
            0 => at(flow.src_port),
            threshold => threshold,
        };
        if threshold == 0 || !self.candidates.count(now, flow, threshold) {
            return;
        }
        let candidate = self.candidates.at(now, flow);
        if self.reached.len() < MOST_WAITING {
            self.reached.push_back(*flow);
            candidate.refused_until = now.saturating_add(self.quiet);
        } else {
            candidate.packets = threshold - 1;
        }
    }

    /// The next flow that has reached its threshold.
    pub fn next_recognised(&mut self) -> Option<FlowKey> {
        self.reached.pop_front()
    }
}
