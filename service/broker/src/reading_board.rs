//! The newest readings that applications report: a few of each caller, in memory alone, forgotten when no newer one comes.

use crate::problem::{Answer, Problem};
use documents::book::Instant;
use documents::links::CallerDoc;
use documents::overview::{ReadingRow, ReadingWish};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use terms::{Span, Time};

/// The most names of one caller, and of all.
const MOST_OF_ONE: usize = 8;
const MOST: usize = 256;
/// A reading without a newer one is forgotten after this time.
const LIFE: Span = Span::from_secs(60);
/// The longest name and unit, characters.
const NAME: usize = 48;
const UNIT: usize = 16;

/// The newest reading of each caller and name.
#[derive(Debug, Default)]
pub(crate) struct ReadingBoard(Mutex<BTreeMap<(String, String), ReadingRow>>);

impl ReadingBoard {
    /// The board without what is too old.
    fn fresh(&self, now: Time) -> MutexGuard<'_, BTreeMap<(String, String), ReadingRow>> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.retain(|_, row| now.since(row.at.0) < LIFE);
        rows
    }

    /// Keeps a caller's reading in place of the one before.
    ///
    /// # Errors
    /// 400: the name, unit or value is none; 429: there are too many names.
    pub(crate) fn put(&self, caller: &CallerDoc, name: &str, wish: ReadingWish, now: Time) -> Answer<()> {
        let is_text = |text: &str, most: usize| text.chars().count() <= most && !text.chars().any(char::is_control);
        if name.is_empty() || !is_text(name, NAME) || !is_text(&wish.unit, UNIT) {
            return Err(Problem::malformed(format!(
                "a reading has a name of 1 to {NAME} characters and a unit of at most {UNIT}"
            )));
        }
        if !wish.value.is_finite() {
            return Err(Problem::malformed("the value of a reading is a number"));
        }
        let mut rows = self.fresh(now);
        let key = (caller.name.clone(), name.to_owned());
        let own = rows.keys().filter(|(owner, _)| *owner == caller.name).count();
        if !rows.contains_key(&key) && (own >= MOST_OF_ONE || rows.len() >= MOST) {
            let what = format!("too many readings: at most {MOST_OF_ONE} names of one caller, {MOST} in all");
            return Err(Problem::limit(what));
        }
        let owner = caller.name.clone();
        let row = ReadingRow { name: name.to_owned(), owner, value: wish.value, unit: wish.unit, at: Instant(now) };
        rows.insert(key, row);
        Ok(())
    }

    /// A caller's readings; for an operator or auditor, all.
    pub(crate) fn list(&self, caller: &CallerDoc, now: Time) -> Vec<ReadingRow> {
        let sees = |row: &&ReadingRow| caller.role != "owner" || row.owner == caller.name;
        self.fresh(now).values().filter(sees).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str, role: &str) -> CallerDoc {
        CallerDoc { name: name.to_owned(), groups: Vec::new(), role: role.to_owned(), token: None }
    }

    fn reading(value: f64) -> ReadingWish {
        ReadingWish { value, unit: "/s".to_owned() }
    }

    #[test]
    fn a_board_is_small_and_forgets() {
        let (board, at) = (ReadingBoard::default(), |s: u64| Time::from_nanos(s * 1_000_000_000));
        let (alice, bob, root) = (caller("alice", "owner"), caller("bob", "owner"), caller("root", "operator"));
        for number in 0..MOST_OF_ONE {
            board.put(&alice, &format!("n{number}"), reading(1.0), at(0)).unwrap();
        }
        assert_eq!(board.put(&alice, "one more", reading(1.0), at(0)).unwrap_err().status, 429);
        board.put(&alice, "n0", reading(2.0), at(1)).unwrap();
        board.put(&bob, "n0", reading(3.0), at(1)).unwrap();
        let values = |who: &CallerDoc, now| board.list(who, at(now)).iter().map(|row| row.value).collect::<Vec<_>>();
        assert_eq!(values(&bob, 1), [3.0]);
        assert_eq!(values(&root, 1).len(), MOST_OF_ONE + 1);
        assert_eq!(values(&alice, 60), [2.0], "what is a minute old is forgotten");
        for (name, wish) in [
            ("", reading(1.0)),
            ("a\nb", reading(1.0)),
            (&*"n".repeat(NAME + 1), reading(1.0)),
            ("n", reading(f64::NAN)),
            ("n", ReadingWish { value: 1.0, unit: "u".repeat(UNIT + 1) }),
        ] {
            assert_eq!(board.put(&bob, name, wish, at(2)).unwrap_err().status, 400, "{name:?}");
        }
    }
}
