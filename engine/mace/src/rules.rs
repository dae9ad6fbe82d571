//! The rules of admission that an administrator can choose, and rules in shadow: asked about every flow, deciding none.

use admit::estimator::{DepartureWindow, TimeWindow};
use admit::{
    CounterReading, FlowRule, HoeffdingBound, HoeffdingTerms, MeasuredSum, SimpleSum, SumTerms, TangentAtOrigin,
    TangentTerms,
};
use alloc::boxed::Box;
use core::fmt;
use terms::{Misuse, Rate, Span};

/// A rule and its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleTerms {
    /// The sum of the declared rates stays within the allocation.
    SimpleSum,
    /// `v * mu > r + b` (the seed's equation 1).
    MeasuredSum {
        /// v: the target utilisation, a ratio.
        target: (u32, u32),
        /// True: a flow that leaves takes its share of the estimate along.
        departures: bool,
    },
    /// Hoeffding bounds (Floyd 1996).
    Hoeffding {
        /// The flows may exceed their bound with a probability of 10^-n.
        nines: u32,
    },
    /// The tangent at the origin (Gibbens and Kelly 1997).
    Tangent {
        /// The peak rate at which the measured rate counts e times.
        space: Rate,
    },
}

/// The parameters that all rules of an interface share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedTerms {
    /// mu: the rate allocated to all promoted flows together, wire rate.
    pub allocated: Rate,
    /// Time between two readings of the counter.
    pub period: Span,
    /// The samples of a window.
    pub window: u32,
    /// The most promoted flows.
    pub most_flows: usize,
}

impl RuleTerms {
    /// The name in files and reports.
    pub fn name(&self) -> &'static str {
        match self {
            RuleTerms::SimpleSum => "simple-sum",
            RuleTerms::MeasuredSum { departures: false, .. } => "measured-sum",
            RuleTerms::MeasuredSum { departures: true, .. } => "measured-sum-departures",
            RuleTerms::Hoeffding { .. } => "hoeffding",
            RuleTerms::Tangent { .. } => "tangent",
        }
    }

    /// The rule, without flows.
    ///
    /// # Errors
    /// [`Misuse::ZeroRate`]: a parameter of zero where that means nothing.
    pub fn build(&self, shared: &SharedTerms) -> Result<Box<dyn FlowRule>, Misuse> {
        let SharedTerms { allocated, period, window, most_flows } = *shared;
        Ok(match *self {
            RuleTerms::SimpleSum => Box::new(SimpleSum::new(allocated, most_flows)),
            RuleTerms::MeasuredSum { target, departures } => {
                let terms = SumTerms { allocated, target, period, most_flows };
                if departures {
                    Box::new(MeasuredSum::new(terms, DepartureWindow::new(window))?)
                } else {
                    Box::new(MeasuredSum::new(terms, TimeWindow::new(window))?)
                }
            }
            RuleTerms::Hoeffding { nines } => {
                // An average that remembers about as long as a window.
                let shift = window.max(1).ilog2();
                Box::new(HoeffdingBound::new(HoeffdingTerms { allocated, nines, shift, most_flows }))
            }
            RuleTerms::Tangent { space } => {
                Box::new(TangentAtOrigin::new(TangentTerms { allocated, space, most_flows })?)
            }
        })
    }
}

impl fmt::Display for RuleTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rule in shadow, and what it would have decided.
#[derive(Debug)]
pub struct ShadowRule {
    terms: RuleTerms,
    rule: Box<dyn FlowRule>,
    admitted: u64,
    refused: u64,
}

impl ShadowRule {
    /// A rule in shadow.
    ///
    /// # Errors
    /// As [`RuleTerms::build`].
    pub fn new(terms: RuleTerms, shared: &SharedTerms) -> Result<ShadowRule, Misuse> {
        Ok(ShadowRule { rule: terms.build(shared)?, terms, admitted: 0, refused: 0 })
    }

    /// Asks it about a flow, and counts its answer: true if it would admit it.
    pub(crate) fn ask(&mut self, rate: Rate) -> bool {
        let admits = self.would(rate);
        self.admitted += u64::from(admits);
        self.refused += u64::from(!admits);
        admits
    }

    /// True if it would admit one more flow of this declared rate now.
    pub fn would(&self, rate: Rate) -> bool {
        self.rule.would(rate).is_ok()
    }

    /// Counts a flow that the rule in force has let in.
    pub(crate) fn enter(&mut self, rate: Rate) {
        self.rule.enter(rate);
    }

    pub(crate) fn leave(&mut self, rate: Rate) {
        self.rule.leave(rate);
    }

    pub(crate) fn take(&mut self, reading: CounterReading) {
        self.rule.take(reading);
    }

    pub(crate) fn allocate(&mut self, allocated: Rate) {
        self.rule.allocate(allocated);
    }

    pub(crate) fn adopted(&mut self) {
        self.rule.adopted();
    }

    /// The rule and its parameters.
    pub fn terms(&self) -> RuleTerms {
        self.terms
    }

    /// The rate that the flows count as for it.
    pub fn usage(&self) -> Rate {
        self.rule.usage()
    }

    /// The numbers of flows that it would have admitted and refused.
    pub fn answers(&self) -> (u64, u64) {
        (self.admitted, self.refused)
    }
}
