//! The order in which the requests of a co-reservation are tried. Pure: told what was refused, it says what comes next.
//!
//! A strategy is a row of counters, one for each of its steps. Each refusal moves the counter of the first step on;
//! a counter that is at its end goes back to its beginning and moves the next one on. `client/python` has the same;
//! `tests/strategies.json` holds both to one table.

use std::collections::BTreeSet;

/// The most parts, alternatives of a part, and steps of a strategy.
pub const MOST_PARTS: usize = 16;
/// The most alternatives of a part.
pub const MOST_ALTERNATIVES: usize = 16;
const MOST_STEPS: usize = 8;

/// A step of a strategy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StrategyStep {
    /// Asks again for the same, after a pause that grows, seconds.
    Retry {
        /// How often.
        times: usize,
        /// The first pause.
        pause: f64,
        /// The ratio of each pause to the one before.
        factor: f64,
        /// The longest pause.
        longest: f64,
    },
    /// Asks for the next alternative.
    Another,
    /// Takes what is free, down to this share of each amount.
    Smaller(f64),
    /// Takes the earliest time that begins within so many seconds.
    Later(f64),
}

impl StrategyStep {
    /// Parses steps with commas between them: `retry TIMES [PAUSE [FACTOR [LONGEST]]]`, `another`, `smaller SHARE`,
    /// `later SECONDS`.
    ///
    /// # Errors
    /// A sentence.
    pub fn all(text: &str) -> Result<Vec<StrategyStep>, String> {
        let steps: Vec<StrategyStep> = text
            .split(',')
            .map(str::trim)
            .filter(|step| !step.is_empty())
            .map(StrategyStep::one)
            .collect::<Result<_, _>>()?;
        let others = steps.iter().filter(|step| **step == StrategyStep::Another).count();
        if steps.len() > MOST_STEPS || others > 1 {
            return Err(format!("a strategy has at most {MOST_STEPS} steps, and `another` once: {text:?}"));
        }
        Ok(steps)
    }

    fn one(text: &str) -> Result<StrategyStep, String> {
        let wrong = || {
            format!(
                "{text:?} is no step: retry TIMES [PAUSE [FACTOR [LONGEST]]], another, smaller SHARE, later SECONDS"
            )
        };
        let mut words = text.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let numbers: Vec<f64> = words.map(|word| word.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) {
            return Err(wrong());
        }
        match (name, numbers.as_slice()) {
            ("retry", [times, rest @ ..]) if rest.len() <= 3 && *times >= 1.0 && *times <= 1000.0 => {
                let of = |place: usize, default: f64| rest.get(place).copied().unwrap_or(default);
                let (pause, factor, longest) = (of(0, 0.5), of(1, 2.0), of(2, 30.0));
                if factor < 1.0 {
                    Err(wrong())
                } else {
                    Ok(StrategyStep::Retry { times: *times as usize, pause, factor, longest })
                }
            }
            ("another", []) => Ok(StrategyStep::Another),
            ("smaller", [share]) if *share > 0.0 && *share < 1.0 => Ok(StrategyStep::Smaller(*share)),
            ("later", [seconds]) if *seconds > 0.0 && *seconds <= 1e9 => Ok(StrategyStep::Later(*seconds)),
            _ => Err(wrong()),
        }
    }
}

/// The counters of one part.
#[derive(Clone, Debug)]
struct Counters {
    steps: Vec<StrategyStep>,
    /// The numbers of the part's alternatives, in the order in which they are asked for.
    order: Vec<usize>,
    at: Vec<usize>,
}

impl Counters {
    fn new(steps: Vec<StrategyStep>, order: Vec<usize>) -> Counters {
        let at = vec![0; steps.len()];
        Counters { steps, order, at }
    }

    fn size(&self, step: StrategyStep) -> usize {
        match step {
            StrategyStep::Retry { times, .. } => times + 1,
            StrategyStep::Another => self.order.len(),
            StrategyStep::Smaller(_) | StrategyStep::Later(_) => 2,
        }
    }

    fn with_counts(&self) -> impl Iterator<Item = (StrategyStep, usize)> + '_ {
        self.steps.iter().copied().zip(self.at.iter().copied())
    }

    fn choice(&self) -> usize {
        let place = self.with_counts().find(|(step, _)| *step == StrategyStep::Another).map_or(0, |(_, at)| at);
        self.order[place]
    }

    fn share(&self) -> f64 {
        let on = self.with_counts().filter_map(|(step, at)| match step {
            StrategyStep::Smaller(share) if at > 0 => Some(share),
            _ => None,
        });
        on.fold(1.0, f64::min)
    }

    fn later(&self) -> f64 {
        let on = self.with_counts().filter_map(|(step, at)| match step {
            StrategyStep::Later(seconds) if at > 0 => Some(seconds),
            _ => None,
        });
        on.fold(0.0, f64::max)
    }

    /// Moves on. The pause before the next request, seconds; `None`: the strategy is exhausted, and nothing moved.
    fn advance(&mut self) -> Option<f64> {
        for place in 0..self.steps.len() {
            let step = self.steps[place];
            if self.at[place] + 1 < self.size(step) {
                self.at[place] += 1;
                self.at[..place].fill(0);
                return Some(match step {
                    StrategyStep::Retry { pause, factor, longest, .. } => {
                        let exponent = i32::try_from(self.at[place] - 1).unwrap_or(i32::MAX);
                        (pause * factor.powi(exponent)).min(longest)
                    }
                    _ => 0.0,
                });
            }
        }
        None
    }
}

/// The next request of a co-reservation, after all refusals so far.
#[derive(Clone, Debug)]
pub struct RequestOrder {
    parts: Vec<Counters>,
}

impl RequestOrder {
    /// The order of parts, each with its number of alternatives and its strategy.
    pub fn new(parts: impl IntoIterator<Item = (usize, Vec<StrategyStep>)>) -> RequestOrder {
        let parts = parts.into_iter().map(|(count, steps)| Counters::new(steps, (0..count).collect())).collect();
        RequestOrder { parts }
    }

    /// The alternative that is asked for, for each part.
    pub fn choices(&self) -> Vec<usize> {
        self.parts.iter().map(Counters::choice).collect()
    }

    /// The least share of its amounts that will do, for each part.
    pub fn shares(&self) -> Vec<f64> {
        self.parts.iter().map(Counters::share).collect()
    }

    /// How much later it may begin, seconds; 0: not at all.
    pub fn later(&self) -> f64 {
        self.parts.iter().map(Counters::later).fold(0.0, f64::max)
    }

    /// True if a strategy has the step Later.
    pub fn can_be_later(&self) -> bool {
        self.parts.iter().flat_map(|part| &part.steps).any(|step| matches!(step, StrategyStep::Later(_)))
    }

    /// A part was refused; `None`: it is not known which, and the first that can moves on. Gives the pause before the
    /// next request, seconds; `None`: nothing is left.
    pub fn refused(&mut self, part: Option<usize>) -> Option<f64> {
        match part {
            Some(part) => self.parts.get_mut(part)?.advance(),
            None => self.parts.iter_mut().find_map(Counters::advance),
        }
    }

    /// The reservation made of these choices broke at these parts. All counters begin anew; each part begins with what it
    /// had, and the broken ones count as refused there.
    pub fn broken(&mut self, parts: &BTreeSet<usize>, choices: &[usize]) -> Option<f64> {
        for (part, choice) in self.parts.iter_mut().zip(choices) {
            let others = (0..part.order.len()).filter(|other| other != choice);
            let order = std::iter::once(*choice).chain(others).collect();
            *part = Counters::new(std::mem::take(&mut part.steps), order);
        }
        let mut longest = None;
        for number in parts {
            let pause = self.parts.get_mut(*number)?.advance()?;
            longest = Some(f64::max(longest.unwrap_or(0.0), pause));
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const TABLE: &str = include_str!("../tests/strategies.json");

    fn order(parts: &Value) -> RequestOrder {
        RequestOrder::new(parts.as_array().unwrap().iter().map(|part| {
            let steps: Vec<&str> =
                part["strategy"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect();
            let count = usize::try_from(part["alternatives"].as_u64().unwrap()).unwrap();
            (count, StrategyStep::all(&steps.join(", ")).unwrap())
        }))
    }

    fn numbers(text: &str) -> Vec<usize> {
        text.split(',').map(|number| number.parse().unwrap()).collect()
    }

    fn told(order: &mut RequestOrder, what: &str) -> Option<f64> {
        let words: Vec<&str> = what.split(' ').collect();
        match words.as_slice() {
            ["begin"] => Some(0.0),
            ["refused", "?"] => order.refused(None),
            ["refused", part] => order.refused(Some(part.parse().unwrap())),
            ["broken", parts, "of", choices] => order.broken(&numbers(parts).into_iter().collect(), &numbers(choices)),
            other => panic!("{other:?}"),
        }
    }

    fn joined<T: ToString>(all: &[T]) -> String {
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn the_table_holds() {
        for case in serde_json::from_str::<Value>(TABLE).unwrap().as_array().unwrap() {
            let mut order = order(&case["parts"]);
            for row in case["rows"].as_array().unwrap() {
                let said = match told(&mut order, row[0].as_str().unwrap()) {
                    None => "nothing is left".to_owned(),
                    Some(pause) => {
                        let (choices, shares) = (joined(&order.choices()), joined(&order.shares()));
                        format!("at {choices} share {shares} later {} pause {pause}", order.later())
                    }
                };
                assert_eq!(said, row[1].as_str().unwrap(), "{}: {}", case["what"], row[0]);
            }
        }
    }

    #[test]
    fn what_is_no_strategy_is_refused_in_words() {
        for wrong in [
            "again",
            "retry",
            "retry 0",
            "retry 1 2 0.5",
            "retry 1 1 1 1 1",
            "smaller 1",
            "smaller -1",
            "later 0",
            "another 2",
            "another, another",
            "retry nan",
            "later inf",
        ] {
            assert!(StrategyStep::all(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            StrategyStep::all(" another ,later 60,").unwrap(),
            [StrategyStep::Another, StrategyStep::Later(60.0)]
        );
        assert_eq!(StrategyStep::all("").unwrap(), []);
    }
}
