//! The tables, and the steps from an older format to the present one.

use super::session::{Session, Trouble};
use crate::Error;

/// The steps. After the n-th the format is n.
const STEPS: [&str; 1] = ["
    CREATE TABLE sluice.journal (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE,
        epoch bigint NOT NULL DEFAULT 0,
        holder text NOT NULL DEFAULT '',
        instance text NOT NULL DEFAULT '',
        until timestamptz NOT NULL DEFAULT to_timestamp(0),
        batch bigint NOT NULL DEFAULT 0,
        head_number bigint NOT NULL DEFAULT 0,
        head_hash bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
        begins_number bigint NOT NULL DEFAULT 0,
        begins_hash bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex')
    ) WITH (fillfactor = 10);
    CREATE TABLE sluice.record (
        journal bigint NOT NULL,
        tbl integer NOT NULL, key bytea NOT NULL, sum bigint NOT NULL, value bytea NOT NULL,
        PRIMARY KEY (journal, tbl, key)
    );
    CREATE TABLE sluice.audit (
        journal bigint NOT NULL,
        number bigint NOT NULL, hash bytea NOT NULL, body bytea NOT NULL,
        PRIMARY KEY (journal, number)
    );
"];

/// The format that this program writes.
const KNOWN: u32 = STEPS.len() as u32;
/// The lock under which one process at a time looks at the format: the letters `SLJ1`.
const LOCK: i64 = 0x534c_4a31;

/// Brings the tables to the present format, in one transaction. The inner error: it is a later one.
pub(super) fn migrate(session: &Session) -> Result<Result<(), Error>, Trouble> {
    session.batch("BEGIN")?;
    let done = in_transaction(session);
    let end = if matches!(done, Ok(Ok(()))) { "COMMIT" } else { "ROLLBACK" };
    session.batch(end)?;
    done
}

fn in_transaction(session: &Session) -> Result<Result<(), Error>, Trouble> {
    session.query("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
    let found = found(session)?;
    if found > KNOWN {
        return Ok(Err(Error::Newer { found, known: KNOWN }));
    }
    for step in STEPS.iter().skip(found as usize) {
        session.batch(step)?;
    }
    if found < KNOWN {
        session.query("UPDATE sluice.format SET version = $1", &[&i64::from(KNOWN)])?;
    }
    Ok(Ok(()))
}

/// The format of the tables; 0: there are none.
fn found(session: &Session) -> Result<u32, Trouble> {
    let there = session.query("SELECT 1 FROM pg_namespace WHERE nspname = 'sluice'", &[])?;
    if there.is_empty() {
        session.batch("CREATE SCHEMA sluice")?;
    }
    let table = session.query("SELECT to_regclass('sluice.format') IS NOT NULL", &[])?;
    if !table.first().is_some_and(|row| row.get(0)) {
        session.batch("CREATE TABLE sluice.format (version bigint NOT NULL); INSERT INTO sluice.format VALUES (0)")?;
    }
    let rows = session.query("SELECT version FROM sluice.format", &[])?;
    let version: i64 = rows.first().map_or(0, |row| row.get(0));
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}
