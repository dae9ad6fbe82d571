//! Periodic check for changes that other programs made to what the agent installed.

use crate::agent::Agent;
use crate::log::Level;
use linux::plane::PlaneDrift;
use std::collections::BTreeSet;
use terms::{IfIndex, Span};

/// The interval between checks.
pub(crate) const LOOK_EVERY: Span = Span::from_secs(5);

impl Agent {
    /// Compares the kernel's state with the plan, and repairs what others changed.
    pub(crate) fn look(&mut self) {
        self.look_at = self.clock.now() + LOOK_EVERY;
        self.retry_statics();
        let drifts = match self.plane.reconcile() {
            Ok(drifts) => drifts,
            Err(fault) => return self.announce(Level::Error, "plane_fault", &format!("while looking again: {fault}")),
        };
        let foreign: BTreeSet<IfIndex> = drifts
            .iter()
            .filter_map(|drift| if let PlaneDrift::Foreign(oif) = drift { Some(*oif) } else { None })
            .collect();
        for drift in drifts {
            let name = |oif: &IfIndex| self.names.get(oif).cloned().unwrap_or_else(|| oif.0.to_string());
            match drift {
                PlaneDrift::Mended(oif) => {
                    let text = format!("{}: classes that another program had changed are as they were", name(&oif));
                    self.announce(Level::Warn, "plane_mended", &text);
                }
                PlaneDrift::Foreign(oif) if !self.foreign.contains(&oif) => {
                    let text = format!(
                        "{}: another program took its traffic control; nothing is guaranteed there",
                        name(&oif)
                    );
                    self.announce(Level::Error, "plane_foreign", &text);
                }
                PlaneDrift::Foreign(_) | PlaneDrift::Gone(_) => {}
            }
        }
        self.foreign = foreign;
    }
}
