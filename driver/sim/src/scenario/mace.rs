//! Flows that never signalled, recognised and admitted by what is measured at one direction of a link, and a pool of such
//! flows.

use super::{NodeId, SimLinkSpec};
use crate::mace::params::Params;
use mace::rules::SharedTerms;
use mace::{ApplicationList, RuleTerms};
use terms::{Rate, Span, Time};

/// The room of the queue of the paper's router, packets of both levels.
pub const ROOM: u32 = 50;

/// Recognition and admission by measurement before a queue of two levels. The fields mean what the keys of `[mace]` of an
/// agent's file do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MaceSpec {
    /// The applications whose flows may be promoted.
    pub applications: ApplicationList,
    /// The rate allocated to promoted flows, wire rate.
    pub allocated: Rate,
    /// The rule that decides.
    pub rule: RuleTerms,
    /// The rules in shadow.
    pub shadow: Vec<RuleTerms>,
    /// Time between two samples.
    pub period: Span,
    /// The samples of a window.
    pub window: u32,
    /// The time before a refused flow is asked about again.
    pub refused_for: Span,
    /// The places for candidates.
    pub candidates: usize,
    /// The most promoted flows.
    pub max_flows: usize,
    /// The room of the queue, packets of both levels: 1 to [`MaceSpec::MOST_PACKETS`].
    pub packets: u32,
}

impl MaceSpec {
    /// The most packets of a queue.
    pub const MOST_PACKETS: u32 = 100_000;

    /// The usual parameters, as an agent has them, with the paper's queue.
    pub fn new(applications: ApplicationList, allocated: Rate, rule: RuleTerms) -> MaceSpec {
        MaceSpec {
            applications,
            allocated,
            rule,
            shadow: Vec::new(),
            period: Span::from_secs(5),
            window: 20,
            refused_for: Span::from_secs(30),
            candidates: 65_536,
            max_flows: 4_096,
            packets: ROOM,
        }
    }

    /// The parameters of the engine in front of that link.
    pub(crate) fn config(&self, link: &SimLinkSpec, key: [u64; 2]) -> mace::Config {
        mace::Config {
            shared: SharedTerms {
                allocated: self.allocated,
                period: self.period,
                window: self.window,
                most_flows: self.max_flows,
            },
            rule: self.rule,
            shadow: self.shadow.clone(),
            overhead: link.overhead,
            refused_for: self.refused_for,
            look: Span::from_secs(1),
            candidates: self.candidates,
            key,
        }
    }
}

/// Counters of the packets of one level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounts {
    /// Packets that came.
    pub offered: u64,
    /// Packets dropped for lack of room, or pushed out.
    pub dropped: u64,
    /// Packets sent.
    pub sent: u64,
    /// Wire bytes of the packets sent.
    pub sent_bytes: u64,
    /// Waiting time of the packets sent, ns, in all.
    pub waited: u64,
    /// The longest waiting time, ns.
    pub longest_wait: u64,
}

/// A sample of the counter of controlled load, and what the rule made of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaceSample {
    /// The time of the sample.
    pub at: Time,
    /// The controlled load that came since the sample before, wire rate.
    pub came: Rate,
    /// The rate that the promoted flows count as for the rule, wire rate.
    pub estimate: Rate,
    /// The number of promoted flows.
    pub flows: usize,
}

/// The results of recognition, admission and queueing within the measured window.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MaceReport {
    /// Flows that were recognised and asked.
    pub asked: u64,
    /// Of these, admitted.
    pub admitted: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Promoted flows that were demoted because they were silent.
    pub silent: u64,
    /// The mean number of promoted flows.
    pub mean_flows: f64,
    /// Their median.
    pub median_flows: usize,
    /// The largest number.
    pub most_flows: usize,
    /// The samples, and those above the allocation.
    pub samples: (u32, u32),
    /// Counters of controlled load and of best effort.
    pub levels: [QueueCounts; 2],
    /// Controlled load sent, per cent of the allocation.
    pub utilisation: f64,
    /// The rate that the promoted flows counted as at the end, wire rate.
    pub estimate: Rate,
    /// The rules in shadow, and the numbers of flows that each would have admitted and refused since the beginning.
    pub shadows: Vec<(RuleTerms, (u64, u64))>,
}

/// A pool of flows, each replaced by another one as it ends, and the background beside them ([`crate::mace::traffic`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSpec {
    /// The flows, their times and the background.
    pub traffic: Params,
    /// The node that sends them all.
    pub from: NodeId,
    /// Their destination.
    pub to: NodeId,
}
