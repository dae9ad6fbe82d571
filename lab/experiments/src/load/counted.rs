//! Counts of the messages that no agent served: dropped in the kernel's queue before an agent, in its
//! classes, or on the way out. All nodes of the path are read, because a node passes a flood on to the next.

use bed::error::Error;
use bed::{Bed, FAR, NEAR, RECEIVER, SENDER};
use documents::agent::{Answer, Request};
use std::collections::BTreeMap;

/// The counters of each node, by name.
#[derive(Debug)]
pub struct NodeCounts(Vec<(&'static str, BTreeMap<String, u64>)>);

/// The beginnings of the counter names that are of interest.
const WANTED: [&str; 4] = ["dropped", "shed", "not sent", "refused"];

impl NodeCounts {
    /// Reads the counters of all nodes.
    ///
    /// # Errors
    /// An agent does not answer.
    pub fn read(bed: &Bed) -> Result<NodeCounts, Error> {
        let mut all = Vec::new();
        for node in [SENDER, NEAR, FAR, RECEIVER] {
            let mut counts = BTreeMap::new();
            if let Answer::Counters(rows) = bed.client(node)?.call(Request::Counters)? {
                let wanted = rows.into_iter().filter(|row| WANTED.iter().any(|begin| row.name.starts_with(begin)));
                counts.extend(wanted.map(|row| (row.name, row.received + row.sent)));
            }
            for interface in bed.status(node)?.interfaces {
                for class in interface.classes.into_iter().filter(|class| class.name == "control") {
                    counts.insert(format!("dropped by the queue out of {}", interface.name), class.drops);
                }
            }
            all.push((node, counts));
        }
        Ok(NodeCounts(all))
    }

    /// Returns the growth since `earlier`, a line for each node with any.
    pub fn since(&self, earlier: &NodeCounts) -> Vec<String> {
        let mut lines = Vec::new();
        for ((node, now), (_, before)) in self.0.iter().zip(&earlier.0) {
            let grown = now.iter().map(|(name, n)| (name, n - before.get(name).copied().unwrap_or(0).min(*n)));
            let words: Vec<String> = grown.filter(|(_, n)| *n > 0).map(|(name, n)| format!("{n} {name}")).collect();
            if !words.is_empty() {
                lines.push(format!("at {node}: {}", words.join(", ")));
            }
        }
        lines
    }
}
