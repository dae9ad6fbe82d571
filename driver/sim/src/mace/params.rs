//! The parameters of a run of the testbed.

use super::model::Model;
use ::mace::RuleTerms;
use terms::{Rate, Span};

/// The parameters of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Params {
    /// Models of the flows, and the rate that each declares. The pool is divided evenly among them.
    pub models: Vec<(Model, Rate)>,
    /// How many of the models, the first ones, are in the application list. Flows of the others are best effort; zero: so
    /// are all, as in a router without recognition.
    pub listed: usize,
    /// The number of flows at any time. A flow that ends is replaced at once.
    pub pool: usize,
    /// Mean lifetime of a flow.
    pub lifetime: Span,
    /// The rate of the bottleneck.
    pub link: Rate,
    /// The rate allocated to controlled load.
    pub allocated: Rate,
    /// The rule of admission.
    pub rule: RuleTerms,
    /// Time between readings of the counter.
    pub sampling: Span,
    /// The number of samples in a window of the estimator.
    pub window: u32,
    /// Background load in percent of the link; zero for none.
    pub background_percent: u32,
    /// True if all packets of the background have the same length: the mean.
    pub fixed_sizes: bool,
    /// Simulated time.
    pub duration: Span,
    /// The time at the start that is not counted.
    pub warm_up: Span,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Params {
    /// The paper's third scenario: 10 Mbit/s, lifetimes of 1,000 s, 3,000 s of simulated time, a sample every
    /// 5 s, windows of 20.
    pub fn scenario_three(models: Vec<(Model, Rate)>, allocated: Rate, rule: RuleTerms, seed: u64) -> Params {
        Params {
            listed: models.len(),
            models,
            pool: 100,
            lifetime: Span::from_secs(1_000),
            link: Rate::from_mbps(10),
            allocated,
            rule,
            sampling: Span::from_secs(5),
            window: 20,
            background_percent: 130,
            fixed_sizes: false,
            duration: Span::from_secs(3_000),
            warm_up: Span::from_secs(100),
            seed,
        }
    }

    /// The model of the flows at a place of the pool.
    pub fn model_of(&self, place: usize) -> usize {
        place % self.models.len().max(1)
    }

    /// The mean load of the pool, about.
    pub fn pool_load(&self) -> Rate {
        let of = |n: usize| self.models[self.model_of(n)].0.mean();
        (0..self.pool).map(of).fold(Rate::ZERO, Rate::saturating_add)
    }
}
