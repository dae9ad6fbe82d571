//! Recognition and admission by measurement at a queue (docs/mace.md). The keys are those of `[mace]` in the agent's file, and
//! read by the agent's code.
//!
//! ```toml
//! [mace]                      # of the queue of a link, at nodes without an agent: flows that never signalled are recognised, and admitted to the first of two levels
//! applications = "applications"   # the list (docs/mace.md); the path is relative to this file
//! allocated = "30%"           # of the link, or a rate, link headers included; the default
//! rule = "measured-sum"       # the default; measured-sum-departures, simple-sum, hoeffding or tangent
//! target = "90%"              # v of the measured sums; the default, may be above 100%
//! nines = 3                   # of hoeffding: its bound is passed with a probability of 10^-3; the default
//! space = "1mbit"             # 1/s of tangent; the default
//! shadow = ["simple-sum"]     # rules that are asked and do not decide; default: none
//! period = "5s"               # between two samples; the default
//! window = 20                 # samples; the default
//! refused_for = "30s"         # before a refused flow is asked about again; the default
//! candidates = 65536          # flows that are counted at a time; the default
//! max_flows = 4096            # promoted flows; the default
//! ```

use super::names::Reader;
use super::text::QueueText;
use agent_service::mace::config::{MaceTerms, MaceTermsText, terms};
use agent_service::mace::load;
use rpc::document::Mistake;
use serde::Deserialize;
use sim::mace::{ApplicationList, ROOM};
use sim::scenario::{MaceSpec, Queue};
use std::path::Path;
use terms::Rate;
use toml::Spanned;

/// The keys as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaceText {
    applications: Spanned<String>,
    allocated: Option<Spanned<String>>,
    rule: Option<Spanned<String>>,
    target: Option<Spanned<String>>,
    nines: Option<Spanned<u32>>,
    space: Option<Spanned<String>>,
    #[serde(default)]
    shadow: Vec<Spanned<String>>,
    period: Option<Spanned<String>>,
    window: Option<Spanned<u32>>,
    refused_for: Option<Spanned<String>>,
    candidates: Option<Spanned<u32>>,
    max_flows: Option<Spanned<u32>>,
}

impl Reader<'_> {
    /// Reads a queue of two levels in front of a link of rate `rate`.
    pub(super) fn mace(
        &self,
        found: &Spanned<MaceText>,
        queue: &Spanned<QueueText>,
        rate: Rate,
    ) -> Result<Queue, Mistake> {
        let QueueText { packets, bytes, dropper, marker, tree, mace: _ } = queue.get_ref();
        if bytes.is_some() || dropper.is_some() || marker.is_some() || tree.is_some() {
            return Err(
                self.wrong(queue.span(), "a queue with mace has packets, and no bytes, dropper, marker or tree")
            );
        }
        let (packets, most) = (packets.unwrap_or(ROOM), MaceSpec::MOST_PACKETS);
        if !(1..=most).contains(&packets) {
            return Err(self.wrong(queue.span(), format!("a queue of {packets} packets: allowed are 1 to {most}")));
        }
        let text = found.get_ref();
        let keys = MaceTermsText {
            allocated: text.allocated.as_ref(),
            rule: text.rule.as_ref(),
            target: text.target.as_ref(),
            nines: text.nines.as_ref(),
            space: text.space.as_ref(),
            shadow: &text.shadow,
            period: text.period.as_ref(),
            window: text.window.as_ref(),
            refused_for: text.refused_for.as_ref(),
            candidates: text.candidates.as_ref(),
            max_flows: text.max_flows.as_ref(),
        };
        let MaceTerms { allocated, rule, shadow, period, window, refused_for, candidates, most_flows } =
            terms(&self.document, &keys)?;
        Ok(Queue::Mace(Box::new(MaceSpec {
            applications: self.applications(&text.applications)?,
            allocated: allocated.of(rate),
            rule,
            shadow,
            period,
            window,
            refused_for,
            candidates,
            max_flows: most_flows,
            packets,
        })))
    }

    fn applications(&self, text: &Spanned<String>) -> Result<ApplicationList, Mistake> {
        let path = self.document.file().parent().unwrap_or(Path::new(".")).join(text.get_ref());
        load(&path).map_err(|message| self.wrong(text.span(), message))
    }
}
