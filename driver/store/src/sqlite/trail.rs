//! The length of the audit trail: the oldest entries are deleted when there are more than the limit. The link
//! before the first remaining entry is kept in `meta`, so the rest can still be verified.

use super::damaged;
use super::log_table::{link_text, parse_link};
use crate::{ChainLink, Damage, Error};
use rusqlite::{Connection, OptionalExtension};

/// Minimum number of entries to delete at once, so that deletions are rare. The maximum keeps the transaction
/// short.
const AT_LEAST: u64 = 4_096;
const AT_MOST: u64 = 4 * AT_LEAST;

/// The last deleted entry; the default link if there is none.
pub(super) fn begins(connection: &Connection) -> Result<ChainLink, Error> {
    let sql = "SELECT value FROM meta WHERE name = 'audit_begins'";
    let found: Option<String> = connection.query_row(sql, (), |row| row.get(0)).optional().map_err(damaged)?;
    let Some(text) = found else { return Ok(ChainLink::default()) };
    let wrong = || Error::Damaged(Damage::Pages(format!("the audit trail begins after {text:?}")));
    let mut words = text.split(' ');
    let link = parse_link(&mut words).ok_or_else(wrong)?;
    if words.next().is_none() { Ok(link) } else { Err(wrong()) }
}

/// Deletes entries beyond the last `keep`, where `last` is the newest number, in the open transaction.
pub(super) fn shorten(connection: &Connection, last: u64, keep: u64) -> rusqlite::Result<()> {
    let sql = "SELECT number FROM audit ORDER BY number LIMIT 1";
    let first: Option<i64> = connection.prepare_cached(sql)?.query_row((), |row| row.get(0)).optional()?;
    let first = first.and_then(|first| u64::try_from(first).ok()).unwrap_or(last);
    let upto = last.saturating_sub(keep);
    if upto < first.saturating_add(AT_LEAST) {
        return Ok(());
    }
    let upto = i64::try_from(upto.min(first + AT_MOST)).unwrap_or(i64::MAX);
    let sql = "SELECT hash FROM audit WHERE number = ?1";
    let hash: [u8; 32] = connection.query_row(sql, [upto], |row| row.get(0))?;
    let link = ChainLink { number: upto.unsigned_abs(), hash };
    let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('audit_begins', ?1)";
    connection.prepare_cached(sql)?.execute([link_text(&link)])?;
    connection.prepare_cached("DELETE FROM audit WHERE number <= ?1")?.execute([upto]).map(|_| ())
}
