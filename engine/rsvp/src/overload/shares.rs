//! Whose turn it is: the order of the classes, and for each a least share of the time that is spent on messages.
//!
//! While a class has something to do it earns its share of what the others take, and its own work is charged against
//! that. One that has less than its share goes before all; if none has, the order decides. A class that has nothing to do
//! earns nothing, and none saves up more than a moment's worth: it has had what it needed.

use super::{CLASSES, IntakeClass};
use terms::Span;

/// The least share of each class, in 128ths; the rest goes by order. New set-ups get hardly any: they are what is shed.
const LEAST: [i64; CLASSES] = [10, 10, 60, 16, 8, 2, 2, 2];
const WHOLE: i64 = 128;

/// Most that a class may be short of, or beyond, its share, nanoseconds: one long message is not repaid for ever.
const MOST: i64 = 10_000_000;

/// What each class has earned and not used, nanoseconds times [`WHOLE`].
#[derive(Debug, Default)]
pub(super) struct Shares {
    credit: [i64; CLASSES],
    waiting: [bool; CLASSES],
}

impl Shares {
    /// The class whose turn it is, of those that have something to do.
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

    /// A message of a class took so long.
    pub fn charge(&mut self, class: IntakeClass, took: Span) {
        let took = i64::try_from(took.as_nanos()).unwrap_or(MOST).min(MOST);
        for (c, credit) in self.credit.iter_mut().enumerate().filter(|(c, _)| self.waiting[*c]) {
            *credit = (*credit + took * LEAST[c]).clamp(-MOST * WHOLE, MOST * WHOLE);
        }
        let own = &mut self.credit[class as usize];
        *own = (*own - took * WHOLE).clamp(-MOST * WHOLE, MOST * WHOLE);
    }
}
