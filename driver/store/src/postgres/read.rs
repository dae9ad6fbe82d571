//! Reading, in pages: every record's checksum and every audit entry's hash are verified.

use super::Postgres;
use super::session::signed;
use crate::chain::checksum;
use crate::{ChainLink, Damage, Error, TableId, Visit};

/// Rows that are read at once.
const PAGE: i64 = 512;

/// Visits every record, in the order of tables and keys.
pub(super) fn scan(store: &mut Postgres, visit: &mut Visit<'_>) -> Result<(), Error> {
    let journal = store.journal;
    let (mut table, mut after): (i32, Option<Vec<u8>>) = (-1, None);
    let sql = "SELECT tbl, key, value, sum FROM sluice.record \
               WHERE journal = $1 AND (tbl, key) > ($2, $3) ORDER BY tbl, key LIMIT $4";
    loop {
        let key = after.clone().unwrap_or_default();
        let rows =
            store.patiently("read the records", |session| session.query(sql, &[&journal, &table, &key, &PAGE]))?;
        for row in &rows {
            let (number, key, value, sum): (i32, &[u8], &[u8], i64) = (row.get(0), row.get(1), row.get(2), row.get(3));
            let damaged = |number| Error::Damaged(Damage::Record { table: number, key: key.to_vec() });
            let name = u16::try_from(number).map_err(|_| damaged(u16::MAX))?;
            if sum != checksum(name, key, value) {
                return Err(damaged(name));
            }
            visit(TableId(name), key, value);
            (table, after) = (number, Some(key.to_vec()));
        }
        if rows.len() < PAGE as usize {
            return Ok(());
        }
    }
}

/// Visits the audit trail from entry `from` on, at most `most` entries.
pub(super) fn audit(
    store: &mut Postgres,
    from: u64,
    most: u64,
    visit: &mut dyn FnMut(&ChainLink, &[u8]),
) -> Result<(), Error> {
    let (head, journal) = (store.head, store.journal);
    if from > head.number + 1 {
        return Err(Error::Damaged(Damage::Audit(from - 1)));
    }
    let mut before = store.begins;
    let from = from.max(before.number + 1);
    let upto = from.saturating_add(most);
    if from > before.number + 1 {
        before = entry(store, from - 1)?;
    }
    let sql = "SELECT number, hash, body FROM sluice.audit WHERE journal = $1 AND number > $2 ORDER BY number LIMIT $3";
    while before.number < head.number && before.number + 1 < upto {
        let (after, count) = (signed(before.number), PAGE.min(signed(upto - before.number - 1)));
        let rows =
            store.patiently("read the audit trail", |session| session.query(sql, &[&journal, &after, &count]))?;
        if rows.is_empty() {
            return Err(Error::Damaged(Damage::Audit(before.number + 1)));
        }
        for row in rows {
            let (number, hash, body): (i64, &[u8], &[u8]) = (row.get(0), row.get(1), row.get(2));
            let expected = before.next(body);
            if number != signed(expected.number) || hash != expected.hash {
                return Err(Error::Damaged(Damage::Audit(expected.number)));
            }
            visit(&expected, body);
            before = expected;
        }
    }
    if before.number == head.number && before != head {
        return Err(Error::Damaged(Damage::Audit(head.number)));
    }
    Ok(())
}

/// Number of latest audit entries that each opening verifies.
const TAIL: u64 = 10_000;

/// Verifies the end of the audit trail.
pub(super) fn tail(store: &mut Postgres) -> Result<(), Error> {
    let from = store.head.number.saturating_sub(TAIL).max(1);
    audit(store, from, u64::MAX, &mut |_, _| {})
}

fn entry(store: &mut Postgres, number: u64) -> Result<ChainLink, Error> {
    let (journal, wanted) = (store.journal, signed(number));
    let sql = "SELECT hash FROM sluice.audit WHERE journal = $1 AND number = $2";
    let rows = store.patiently("read the audit trail", |session| session.query(sql, &[&journal, &wanted]))?;
    let hash = rows.first().and_then(|row| row.get::<_, &[u8]>(0).try_into().ok());
    hash.map(|hash| ChainLink { number, hash }).ok_or(Error::Damaged(Damage::Audit(number)))
}
