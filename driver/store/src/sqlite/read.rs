//! Reading: the tables and the log table, merged.

use super::log_table::LogTable;
use super::{damaged, open};
use crate::chain::checksum;
use crate::{ChainLink, Damage, Error, TableId, Visit};
use rusqlite::Connection;

/// Visits every record, in the order of tables and keys.
pub(super) fn scan(connection: &Connection, log_table: &LogTable, visit: &mut Visit<'_>) -> Result<(), Error> {
    let mut changes = log_table.changes().into_iter().peekable();
    let sql = "SELECT tbl, key, value, sum FROM record ORDER BY tbl, key";
    let mut statement = connection.prepare(sql).map_err(damaged)?;
    let mut rows = statement.query(()).map_err(damaged)?;
    while let Some(row) = rows.next().map_err(damaged)? {
        let table: u16 = row.get(0).map_err(damaged)?;
        let key = row.get_ref(1).and_then(|cell| Ok(cell.as_blob()?)).map_err(damaged)?;
        let value = row.get_ref(2).and_then(|cell| Ok(cell.as_blob()?)).map_err(damaged)?;
        let sum: i64 = row.get(3).map_err(damaged)?;
        if sum != checksum(table, key, value) {
            return Err(Error::Damaged(Damage::Record { table, key: key.to_vec() }));
        }
        while let Some(((table, key), value)) = changes.next_if(|(place, _)| *place < (table, key)) {
            value.into_iter().for_each(|value| visit(TableId(table), key, value));
        }
        match changes.next_if(|(place, _)| *place == (table, key)) {
            Some((_, changed)) => changed.into_iter().for_each(|value| visit(TableId(table), key, value)),
            None => visit(TableId(table), key, value),
        }
    }
    for ((table, key), value) in changes {
        value.into_iter().for_each(|value| visit(TableId(table), key, value));
    }
    Ok(())
}

/// Visits the audit trail from entry `from` on, at most `most` entries.
pub(super) fn audit(
    connection: &Connection,
    log_table: &LogTable,
    from: u64,
    most: u64,
    visit: &mut dyn FnMut(&ChainLink, &[u8]),
) -> Result<(), Error> {
    if from > log_table.head().number + 1 {
        return Err(Error::Damaged(Damage::Audit(from - 1)));
    }
    let posted = log_table.posted();
    if from <= posted.number {
        let last = open::walk_audit(connection, from, most, visit)?;
        if last.number == posted.number && last != posted {
            return Err(Error::Damaged(Damage::Audit(last.number)));
        }
    }
    let upto = from.saturating_add(most);
    for (link, body) in log_table.audit().filter(|(link, _)| (from..upto).contains(&link.number)) {
        visit(&link, body);
    }
    Ok(())
}
