//! `may`: the rule that would decide, and its answer, without a request. Only policy's inputs are looked up,
//! so that no caller learns the free amounts.

use super::enquire::first_window;
use crate::admission::{Judge, Sought};
use crate::calendar::Calendar;
use crate::io::{BookingRequest, When};
use crate::reservations::Reservations;
use alloc::vec::Vec;
use core::cell::RefCell;
use terms::book::{Caller, RateStep};
use terms::ports::PolicyPort;
use terms::ports::book::{BindQuestion, PolicyDecision, Question};

/// A policy that records each decision, and continues as if it allowed.
struct Noted<'a, P> {
    policy: &'a P,
    said: RefCell<Vec<PolicyDecision>>,
}

impl<P: PolicyPort> PolicyPort for Noted<'_, P> {
    fn sums(&self) -> bool {
        self.policy.sums()
    }

    fn decide(&self, question: &Question<'_>) -> PolicyDecision {
        let verdict = self.policy.decide(question);
        let going_on = PolicyDecision { rule: verdict.rule.clone(), ..PolicyDecision::default() };
        self.said.borrow_mut().push(verdict);
        going_on
    }

    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision {
        self.policy.may_bind(question)
    }
}

/// Policy's answer to a caller about each part; for a part without an amount, about its least. `None`:
/// the windows are over.
pub(crate) fn would_allow<P: PolicyPort>(
    table: &Reservations,
    policy: &P,
    calendar: Calendar,
    caller: &Caller,
    ask: &BookingRequest,
) -> Option<Vec<PolicyDecision>> {
    let today = calendar.today();
    let steps_of = |amount: u64| -> Option<Vec<RateStep>> {
        Some(match &ask.when {
            When::Series { windows, .. } => windows.iter().map(|window| RateStep { window: *window, amount }).collect(),
            other => alloc::vec![RateStep { window: first_window(other, today)?, amount }],
        })
    };
    let steps = ask.parts.iter().map(|part| steps_of(part.amount.max(part.least).max(1)));
    let steps: Vec<Vec<RateStep>> = steps.collect::<Option<_>>()?;
    let parts: Vec<Sought<'_>> = ask
        .parts
        .iter()
        .zip(&steps)
        .map(|(part, steps)| Sought::new(&part.resource, part.background.is_some(), steps))
        .collect();
    let noted = Noted { policy, said: RefCell::default() };
    // It denies nothing, so that every part is asked about.
    let _ = Judge::new(&noted, table, calendar, caller).permitted(&ask.label, &parts);
    Some(noted.said.into_inner())
}
