//! The schedule of the classes: their order, and for each a least share of the time for messages.
//!
//! While messages of a class wait, the class earns its share of the time that all messages take, and its own
//! work is charged against that. A class with credit goes before all others; if none has any, the order
//! decides. A class without messages earns nothing, and none saves up more than a moment's worth.

use super::{CLASSES, IntakeClass};
use terms::Span;

/// The least share of each class, in 128ths; the rest goes by order. New set-ups are shed first.
const LEAST: [i64; CLASSES] = [10, 10, 60, 16, 8, 2, 2, 2];
const WHOLE: i64 = 128;

/// Most nanoseconds that a class may be below or above its share: one long message is not repaid for ever.
const MOST: i64 = 10_000_000;

/// The credit of each class: time earned and not used, in nanoseconds times [`WHOLE`].
#[derive(Debug, Default)]
pub(super) struct Shares {
    credit: [i64; CLASSES],
    waiting: [bool; CLASSES],
}

impl Shares {
    /// The next class to serve, of those with `some` messages.
    pub fn next(&mut self, some: [bool; CLASSES]) -> Option<IntakeClass> {
        for (credit, _) in self.credit.iter_mut().zip(some).filter(|(_, some)| !some) {
            *credit = 0;
        }
        self.waiting = some;
        let ready = || IntakeClass::ALL.into_iter().filter(|class| some[*class as usize]);
        // Of those that are short, the one that is shortest for its share.
        let short = ready().filter(|class| self.credit[*class as usize] > 0);
        let shortest = short.max_by_key(|class| self.credit[*class as usize] / LEAST[*class as usize]);
        shortest.or_else(|| ready().next())
    }

    /// Charges a class for the time that its message took.
    pub fn charge(&mut self, class: IntakeClass, took: Span) {
        let took = i64::try_from(took.as_nanos()).unwrap_or(MOST).min(MOST);
        for (c, credit) in self.credit.iter_mut().enumerate().filter(|(c, _)| self.waiting[*c]) {
            *credit = (*credit + took * LEAST[c]).clamp(-MOST * WHOLE, MOST * WHOLE);
        }
        let own = &mut self.credit[class as usize];
        *own = (*own - took * WHOLE).clamp(-MOST * WHOLE, MOST * WHOLE);
    }
}
