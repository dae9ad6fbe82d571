//! The scenarios of section 4.2, and the readings of "load".
//!
//! The paper's axis is the load of the background. Its 40 sources of 77.2 kbit/s are 31 % of the link beside it, and then
//! a background of 130 % could not lose less than 38 % of its packets, while the paper prints at most 30 %. Its losses are
//! those of 130 % and 150 % *in all*; so that is how these scenarios count, and one row counts the other way.

use sim::mace::model::{CBR, EXP1, EXP2, Model, POO1, POO2, POO3};
use sim::mace::{Params, RuleTerms};
use terms::{Rate, Span};

/// The sources of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scenario {
    /// 40 constant sources of 64 kbit/s.
    One,
    /// 40 sources POO1.
    Two,
    /// 40 sources of five models.
    Four,
}

/// The load beside which they send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MaceLoad {
    /// Sources and background together, per cent of the link; 0: no background.
    Together(u32),
    /// The background alone.
    Background(u32),
}

/// Sources: half of them may be recognised, and the others never.
pub(super) const SOURCES: usize = 40;
const LINK: Rate = Rate::from_mbps(10);
/// 30 % of the link (section 4.2): more than all that may be recognised declare, so that all are admitted.
const ALLOCATED: Rate = Rate::from_mbps(3);
const SLOW: Rate = Rate::from_bps(77_200);
const FAST: Rate = Rate::from_bps(154_000);
/// The length of a run, and of its quick form.
const LENGTHS: [Span; 2] = [Span::from_secs(200), Span::from_secs(10)];
/// In the quick form a flow is recognised earlier by as much as the run is shorter: 2 % of its packets at 25 a second.
const SHORTER: u32 = 20;

impl Scenario {
    /// The models of the sources, each half of them; what they reserve is by the fourth scenario's text.
    fn models(self) -> Vec<(Model, Rate)> {
        match self {
            Scenario::One => vec![(CBR, SLOW)],
            Scenario::Two => vec![(POO1, SLOW)],
            Scenario::Four => vec![(CBR, SLOW), (POO2, SLOW), (POO3, FAST), (EXP1, SLOW), (EXP2, FAST)],
        }
    }

    /// The places of the models with that interval (ms) among those that may be recognised, then among the others.
    pub(super) fn places(self, interval_ms: u64) -> [Vec<usize>; 2] {
        let models = self.models();
        let of =
            |(n, (model, _)): (usize, &(Model, Rate))| (model.interval == Span::from_millis(interval_ms)).then_some(n);
        let listed: Vec<usize> = models.iter().enumerate().filter_map(of).collect();
        let others = listed.iter().map(|n| n + models.len()).collect();
        [listed, others]
    }

    /// The parameters of a run; with or without recognition.
    pub(super) fn params(self, load: MaceLoad, recognised: bool, quick: bool) -> Params {
        self.seeded(load, recognised, quick, 1)
    }

    /// As [`Scenario::params`], of that seed: other phases of all sources.
    pub(super) fn seeded(self, load: MaceLoad, recognised: bool, quick: bool, seed: u64) -> Params {
        let mut models = self.models();
        if quick {
            models.iter_mut().for_each(|(model, _)| model.recognised_after = (model.recognised_after / SHORTER).max(1));
        }
        let listed = if recognised { models.len() } else { 0 };
        models.extend_from_within(..);
        let length = LENGTHS[usize::from(quick)];
        let params = Params {
            listed,
            pool: SOURCES,
            // The flows of the second scenario have random lifetimes, the others last as long as the run.
            lifetime: if self == Scenario::Two { length } else { Span::from_secs(1 << 20) },
            link: LINK,
            duration: length,
            warm_up: Span::ZERO,
            ..Params::scenario_three(models, ALLOCATED, RuleTerms::SimpleSum, seed)
        };
        let percent = |rate: Rate| (rate.as_bps() * 100 / LINK.as_bps()) as u32;
        let background_percent = match load {
            MaceLoad::Together(all) => all.saturating_sub(percent(params.pool_load())),
            MaceLoad::Background(percent) => percent,
        };
        Params { background_percent, ..params }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_counted_together_or_not() {
        let background = |load| Scenario::One.params(load, true, false).background_percent;
        assert_eq!(background(MaceLoad::Together(130)), 100);
        assert_eq!((background(MaceLoad::Together(0)), background(MaceLoad::Background(130))), (0, 130));
        let four = Scenario::Four.params(MaceLoad::Together(130), true, false);
        assert!((112..=116).contains(&four.background_percent), "{}", four.background_percent);
        assert_eq!((four.models.len(), four.listed), (10, 5));
        assert_eq!(Scenario::Four.places(10), [vec![1, 4], vec![6, 9]]);
    }

    #[test]
    fn all_that_may_be_recognised_fit() {
        for scenario in [Scenario::One, Scenario::Two, Scenario::Four] {
            let params = scenario.params(MaceLoad::Together(130), true, false);
            let declared = (0..SOURCES).map(|place| params.model_of(place)).filter(|model| *model < params.listed);
            let declared: u64 = declared.map(|model| params.models[model].1.as_bps()).sum();
            assert!(declared <= ALLOCATED.as_bps(), "{scenario:?} {declared}");
        }
    }
}
