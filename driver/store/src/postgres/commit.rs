//! Commits: all waiting batches by one statement, which is one transaction and one round trip.

use super::session::{Parameter, SOMEBODY, Session, Trouble, signed};
use super::{PAUSE, Postgres};
use crate::chain::checksum;
use crate::{Batch, ChainLink, Error, Record};
use std::collections::BTreeMap;
use std::time::Instant;
use tokio_postgres::error::SqlState;

/// Appends if the row still has our epoch and the batch before ours; otherwise writes nothing, and returns no row.
///
/// Deletions look up key by key (the limit keeps the planner from anything else): a join that goes through all
/// records goes through the dead ones too, of which there are many between two vacuums.
const APPEND: &str = "
    WITH lease AS (
        UPDATE sluice.journal SET batch = $3::int8, head_number = $4, head_hash = $5
        WHERE number = $1 AND epoch = $2 AND batch = $3::int8 - 1 RETURNING number
    ), gone AS (
        DELETE FROM sluice.record WHERE EXISTS (SELECT FROM lease) AND ctid = ANY (ARRAY(
            SELECT found.ctid FROM unnest($6::int4[], $7::bytea[]) AS dead (tbl, key), LATERAL (
                SELECT ctid FROM sluice.record WHERE journal = $1 AND tbl = dead.tbl AND key = dead.key LIMIT 1
            ) AS found
        ))
    ), put AS (
        INSERT INTO sluice.record (journal, tbl, key, sum, value)
        SELECT lease.number, fresh.tbl, fresh.key, fresh.sum, fresh.value
        FROM lease, unnest($8::int4[], $9::bytea[], $10::int8[], $11::bytea[]) AS fresh (tbl, key, sum, value)
        ON CONFLICT (journal, tbl, key) DO UPDATE SET sum = excluded.sum, value = excluded.value
    ), trail AS (
        INSERT INTO sluice.audit (journal, number, hash, body)
        SELECT lease.number, entry.number, entry.hash, entry.body
        FROM lease, unnest($12::int8[], $13::bytea[], $14::bytea[]) AS entry (number, hash, body)
    )
    SELECT number FROM lease";

/// The changes of several batches, the last one of each key.
struct Group<'a> {
    head: ChainLink,
    dead: Columns<'a>,
    fresh: Columns<'a>,
    sums: Vec<i64>,
    values: Vec<&'a [u8]>,
    trail: TrailColumns<'a>,
}

/// Tables and keys.
type Columns<'a> = (Vec<i32>, Vec<&'a [u8]>);
/// Numbers, hashes and bodies of audit entries.
type TrailColumns<'a> = (Vec<i64>, Vec<Vec<u8>>, Vec<&'a [u8]>);

impl<'a> Group<'a> {
    fn of(batches: &mut dyn Iterator<Item = &'a Batch>, head: ChainLink) -> Group<'a> {
        let mut group = Group {
            head,
            dead: Columns::default(),
            fresh: Columns::default(),
            sums: Vec::new(),
            values: Vec::new(),
            trail: TrailColumns::default(),
        };
        let mut last: BTreeMap<(u16, &[u8]), Option<&[u8]>> = BTreeMap::new();
        for record in batches.flatten() {
            match record {
                Record::Put { table, key, value } => drop(last.insert((table.0, key), Some(value))),
                Record::Delete { table, key } => drop(last.insert((table.0, key), None)),
                Record::Audit { body } => {
                    group.head = group.head.next(body);
                    group.trail.0.push(signed(group.head.number));
                    group.trail.1.push(group.head.hash.to_vec());
                    group.trail.2.push(body);
                }
            }
        }
        for ((table, key), value) in last {
            match value {
                None => {
                    group.dead.0.push(i32::from(table));
                    group.dead.1.push(key);
                }
                Some(value) => {
                    group.fresh.0.push(i32::from(table));
                    group.fresh.1.push(key);
                    group.sums.push(checksum(table, key, value));
                    group.values.push(value);
                }
            }
        }
        group
    }

    fn is_empty(&self) -> bool {
        self.dead.0.is_empty() && self.fresh.0.is_empty() && self.trail.0.is_empty()
    }
}

/// The fate of a batch that was sent.
enum Found {
    Written,
    /// It is not written. Whatever of it may still be on its way cannot be written beside a repeated one.
    NotYet,
    Deposed(String),
    /// The database lacks batches that it had confirmed.
    Older(i64),
}

/// Writes the batches in one transaction, and waits until the database confirms it.
pub(super) fn commit(store: &mut Postgres, batches: &mut dyn Iterator<Item = &Batch>) -> Result<(), Error> {
    let group = Group::of(batches, store.head);
    if group.is_empty() {
        return Ok(());
    }
    let (number, begun) = (store.batch + 1, Instant::now());
    let (mut sent, mut again) = (false, false);
    loop {
        let (journal, epoch) = (store.journal, store.epoch);
        let tried = match sent {
            true => store.session().and_then(|session| ask(session, (journal, epoch), number)),
            false => send(store, number, &group),
        };
        match tried {
            Ok(Found::Written) => {
                (store.batch, store.head) = (number, group.head);
                return Ok(());
            }
            Ok(Found::NotYet) => sent = !sent,
            Ok(Found::Deposed(leader)) => return Err(store.dies(Error::Deposed(leader))),
            Ok(Found::Older(found)) => {
                let why = format!("the database has batch {found} and had confirmed {}: it lost changes", number - 1);
                return Err(store.dies(Error::Dead(why)));
            }
            Err(Trouble::Said { code, .. }) if code == SqlState::DISK_FULL => return Err(Error::Full),
            Err(Trouble::Said { why, .. }) if !sent => {
                return Err(Error::Failed { what: "write to the database".to_owned(), why });
            }
            Err(Trouble::Said { why, .. } | Trouble::Away(why)) => {
                (store.session, sent) = (None, true);
                if begun.elapsed() >= store.options.patience {
                    let why =
                        format!("the database does not answer: {why}; whether the last change is made is not known");
                    return Err(store.dies(Error::Dead(why)));
                }
                // A connection that was closed while nobody used it is opened again at once.
                if again {
                    std::thread::sleep(PAUSE);
                }
                again = true;
            }
        }
    }
}

/// Sends the group. `NotYet`: it was not written, and the row says why.
fn send(store: &mut Postgres, number: i64, group: &Group<'_>) -> Result<Found, Trouble> {
    let (journal, epoch) = (store.journal, store.epoch);
    let session = match &mut store.session {
        Some(session) => session,
        lost => lost.insert(Session::open(&store.options)?),
    };
    let (head, hash) = (signed(group.head.number), &group.head.hash[..]);
    let (dead, fresh, trail) = (&group.dead, &group.fresh, &group.trail);
    let parameters: [Parameter<'_>; 14] = [
        &journal,
        &epoch,
        &number,
        &head,
        &hash,
        &dead.0,
        &dead.1,
        &fresh.0,
        &fresh.1,
        &group.sums,
        &group.values,
        &trail.0,
        &trail.1,
        &trail.2,
    ];
    let rows = session.append(APPEND, &parameters)?;
    Ok(if rows.is_empty() { Found::NotYet } else { Found::Written })
}

/// Asks the row for its last batch. It is changed, not read: so this waits for what still works on it, and the answer
/// comes when all before it is as durable as a commit is, also at a standby.
fn ask(session: &Session, (journal, epoch): (i64, i64), number: i64) -> Result<Found, Trouble> {
    let sql = "UPDATE sluice.journal SET batch = batch WHERE number = $1 AND epoch = $2 RETURNING batch";
    let rows = session.query(sql, &[&journal, &epoch])?;
    if let Some(row) = rows.first() {
        return Ok(match row.get::<_, i64>(0) {
            batch if batch == number => Found::Written,
            batch if batch == number - 1 => Found::NotYet,
            batch => Found::Older(batch),
        });
    }
    let rows =
        session.query("SELECT holder FROM sluice.journal WHERE number = $1 AND epoch > $2", &[&journal, &epoch])?;
    Ok(Found::Deposed(rows.first().map_or_else(|| SOMEBODY.to_owned(), |row| row.get(0))))
}

/// Minimum number of audit entries to delete at once, so that deletions are rare.
const AT_LEAST: u64 = 4_096;

/// Deletes the oldest audit entries when there are more than the limit.
pub(super) fn shorten(store: &mut Postgres) -> Result<(), Error> {
    let upto = store.head.number.saturating_sub(store.options.audit_keep);
    if upto < store.begins.number.saturating_add(AT_LEAST) {
        return Ok(());
    }
    let (journal, epoch, upto) = (store.journal, store.epoch, signed(upto));
    let sql = "WITH last AS (
            UPDATE sluice.journal SET begins_number = audit.number, begins_hash = audit.hash FROM sluice.audit
            WHERE journal.number = $1 AND journal.epoch = $2 AND audit.journal = $1 AND audit.number = $3
            RETURNING audit.number, audit.hash
        ), gone AS (
            DELETE FROM sluice.audit USING last WHERE audit.journal = $1 AND audit.number <= last.number
        )
        SELECT number, hash FROM last";
    let rows = store.patiently("shorten the audit trail", |session| session.query(sql, &[&journal, &epoch, &upto]))?;
    if let Some(row) = rows.first()
        && let Ok(hash) = row.get::<_, &[u8]>(1).try_into()
    {
        store.begins = ChainLink { number: row.get::<_, i64>(0).unsigned_abs(), hash };
    }
    Ok(())
}
