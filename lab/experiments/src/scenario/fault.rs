//! Timed events: faults of links, nodes, agents, clocks.

use super::names::Reader;
use super::text::{AtText, ImpairText, Kinds};
use rpc::document::Mistake;
use sim::rng::Probability;
use sim::scenario::{Impairment, Scenario, ScenarioAction};
use terms::{Span, Time};
use toml::Spanned;

/// The number of parts in a probability of 1.
const PARTS: u32 = 1_000_000;

impl Reader<'_> {
    /// Reads one entry.
    pub(super) fn happens(&self, text: &Spanned<AtText>, scenario: &mut Scenario) -> Result<(), Mistake> {
        let found = text.get_ref();
        let mut actions = Vec::new();
        self.links_and_nodes(found, &mut actions)?;
        if let Some(impair) = &found.impair {
            actions.push(self.impair(impair)?);
        }
        if let Some(step) = &found.clock_step {
            let ClockStep { node, by_nanos } = self.clock_step(&step.get_ref().node, &step.get_ref().by, step)?;
            actions.push(vec![ScenarioAction::ClockStep { node, by_nanos }]);
        }
        if let Some(fail) = &found.fail_plane {
            let node = self.node(&fail.get_ref().node, fail.span())?;
            actions.push(vec![ScenarioAction::FailPlane { node, batches: fail.get_ref().batches }]);
        }
        let [one] = &actions[..] else {
            let message = "an [[at]] entry has a time and exactly one of link_down, link_up, impair, crash, restart, stop, \
                           node_down, node_up, partition, heal, clock_step and fail_plane";
            return Err(self.wrong(text.span(), message));
        };
        let time = Time::ZERO + found.time.0;
        scenario.script.extend(one.iter().map(|action| (time, action.clone())));
        Ok(())
    }

    fn links_and_nodes(&self, found: &AtText, actions: &mut Vec<Vec<ScenarioAction>>) -> Result<(), Mistake> {
        for (name, action) in
            [(&found.link_down, ScenarioAction::LinkDown as fn(_) -> _), (&found.link_up, ScenarioAction::LinkUp)]
        {
            if let Some(name) = name {
                actions.push(vec![action(self.link(name.get_ref(), name.span())?)]);
            }
        }
        let nodes: [(_, fn(_) -> _); 5] = [
            (&found.crash, ScenarioAction::Crash),
            (&found.restart, ScenarioAction::Restart),
            (&found.stop, ScenarioAction::Stop),
            (&found.node_down, ScenarioAction::NodeDown),
            (&found.node_up, ScenarioAction::NodeUp),
        ];
        for (name, action) in nodes {
            if let Some(name) = name {
                actions.push(vec![action(self.node(name.get_ref(), name.span())?)]);
            }
        }
        if let Some(names) = &found.partition {
            let nodes = names.get_ref().iter().map(|name| self.node(name, names.span()));
            actions.push(vec![ScenarioAction::Partition(nodes.collect::<Result<_, _>>()?)]);
        }
        if found.heal == Some(true) {
            actions.push(vec![ScenarioAction::Heal]);
        }
        Ok(())
    }

    fn impair(&self, text: &Spanned<ImpairText>) -> Result<Vec<ScenarioAction>, Mistake> {
        let found = text.get_ref();
        let ratio = |name: &str, value: f64| {
            if !(0.0..=1.0).contains(&value) {
                return Err(self.wrong(text.span(), format!("{name} is {value}: allowed is 0 to 1")));
            }
            Ok(Probability { numerator: (value * f64::from(PARTS)).round() as u32, denominator: PARTS })
        };
        let how = Impairment {
            loss: ratio("loss", found.loss)?,
            duplicate: ratio("duplicate", found.duplicate)?,
            reorder: ratio("reorder", found.reorder)?,
            late: found.late.map_or(Span::ZERO, |late| late.0),
        };
        if found.reorder > 0.0 && how.late == Span::ZERO {
            return Err(self.wrong(text.span(), "reorder needs late: how late such a packet is at most"));
        }
        let link = self.link(&found.link, text.span())?;
        let of = found.of.map(|of| of.0);
        let mut actions = Vec::new();
        if of != Some(Kinds::Data) {
            actions.push(ScenarioAction::Impair(link, how));
        }
        if of != Some(Kinds::Signalling) {
            actions.push(ScenarioAction::ImpairData(link, how));
        }
        Ok(actions)
    }

    fn clock_step<T>(&self, node: &str, by: &str, at: &Spanned<T>) -> Result<ClockStep, Mistake> {
        let node = self.node(node, at.span())?;
        let (sign, size) = by.strip_prefix('-').map_or((1, by), |size| (-1, size));
        let size = documents::units::parse_span(size).map_err(|message| self.wrong(at.span(), message))?;
        let size = i64::try_from(size.as_nanos()).map_err(|_| self.wrong(at.span(), "a step of centuries"))?;
        Ok(ClockStep { node, by_nanos: sign * size })
    }
}

struct ClockStep {
    node: sim::scenario::NodeId,
    by_nanos: i64,
}
