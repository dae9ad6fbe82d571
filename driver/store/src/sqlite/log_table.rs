//! The log table: a commit first writes one row here, whatever the group contains, because a page and an
//! entry in one table cost less than several in three. Many rows together are *posted* to the tables later
//! ([`super::checkpoint`]), when the journal is idle or when there are many. Bookkeepers do the same: entries
//! are made as they come and carried over to the ledgers in the evening.
//!
//! Rows that are not posted are in memory too. Every reader sees tables and log table as one.
//!
//! The *checkpoint*, a line in `meta`, describes the content that tables and log table must have. It is
//! written with each post, at each opening, and with the first row after each write-back, so every log that
//! begins anew has one. It detects a database that is older than its log, although every page by itself is
//! whole.

use super::damaged;
use super::group::{self, Entry};
use super::statement::run;
use crate::{ChainLink, Damage, Error};
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Changes since the tables were written, by table and key: the new value, or `None` if deleted.
pub(super) type Changes<'a> = BTreeMap<(u16, &'a [u8]), Option<&'a [u8]>>;

/// The log table in memory.
#[derive(Debug, Default)]
pub(super) struct LogTable {
    /// The bytes of its rows, oldest first.
    groups: Vec<Vec<u8>>,
    /// The length of all groups, bytes.
    bytes: usize,
    /// The number of the last row that was posted, and of the last that was written.
    posted_row: i64,
    last: i64,
    /// The last entry of the audit trail in its table.
    posted: ChainLink,
    /// The last entry of the audit trail, posted or not.
    head: ChainLink,
    /// After a full disk: the number of bytes from which posting is tried again.
    patience: usize,
    /// True if the next row must be written together with the checkpoint.
    checkpoint_due_now: bool,
}

impl LogTable {
    /// Reads and verifies every row. `posted` is the last entry in the table of the audit trail.
    ///
    /// # Errors
    /// [`Damage::LogTable`]: a row is missing or differs from what was written. The table of the audit trail
    /// disagrees with the checkpoint.
    pub(super) fn read(connection: &Connection, posted: ChainLink) -> Result<LogTable, Error> {
        let mut log_table = LogTable { posted, head: posted, ..LogTable::default() };
        let least = match Checkpoint::read(connection)? {
            Some(anchor) => {
                anchor.holds(&posted)?;
                log_table.posted_row = anchor.posted_row;
                anchor.last
            }
            None => 0, // a journal of the format before
        };
        log_table.last = log_table.posted_row;
        let sql = "SELECT number, sum, body FROM daybook ORDER BY number";
        let mut statement = connection.prepare(sql).map_err(damaged)?;
        let mut rows = statement.query(()).map_err(damaged)?;
        while let Some(row) = rows.next().map_err(damaged)? {
            let (found, sum): (i64, i64) = row.get(0).and_then(|number| Ok((number, row.get(1)?))).map_err(damaged)?;
            let body: Vec<u8> = row.get(2).map_err(damaged)?;
            let number = log_table.last + 1;
            let head = head_after(&body, log_table.head);
            match head {
                Some(head) if found == number && sum == checksum(number, &log_table.head, &body) => {
                    log_table.last = number;
                    log_table.push(body, head);
                }
                _ => return Err(Error::Damaged(Damage::LogTable(number))),
            }
        }
        if log_table.last < least {
            return Err(Error::Damaged(Damage::LogTable(log_table.last + 1)));
        }
        Ok(log_table)
    }

    /// Writes a group as the next row, in a transaction of its own. On return it is on the disk.
    pub(super) fn write(&mut self, connection: &Connection, body: Vec<u8>, head: ChainLink) -> rusqlite::Result<()> {
        let number = self.last + 1;
        let sum = checksum(number, &self.head, &body);
        let insert = || -> rusqlite::Result<usize> {
            let sql = "INSERT INTO daybook (number, sum, body) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute((number, sum, &body))
        };
        if self.checkpoint_due_now {
            run(connection, "BEGIN IMMEDIATE")?;
            insert()?;
            Checkpoint { posted_row: self.posted_row, last: number, posted: self.posted }.write(connection)?;
            run(connection, "COMMIT")?;
            self.checkpoint_due_now = false;
        } else {
            insert()?;
        }
        self.last = number;
        self.push(body, head);
        Ok(())
    }

    /// The checkpoint of the present state; with `posted`, the one after everything is posted.
    pub(super) fn checkpoint(&self, posted: bool) -> Checkpoint {
        match posted {
            true => Checkpoint { posted_row: self.last, last: self.last, posted: self.head },
            false => Checkpoint { posted_row: self.posted_row, last: self.last, posted: self.posted },
        }
    }

    /// The log may begin anew, so the next row must be written with the checkpoint.
    pub(super) fn checkpoint_due(&mut self) {
        self.checkpoint_due_now = true;
    }

    /// Adds a group in memory only.
    pub(super) fn push(&mut self, body: Vec<u8>, head: ChainLink) {
        self.bytes += body.len();
        self.head = head;
        self.groups.push(body);
    }

    /// Removes the last group, which was not written. `head` is the last entry of the audit trail before it.
    pub(super) fn pop(&mut self, head: ChainLink) {
        self.bytes -= self.groups.pop().map_or(0, |body| body.len());
        self.head = head;
    }

    /// Empties the log table in memory after a post.
    pub(super) fn clear(&mut self) {
        let (last, posted) = (self.last, self.head);
        *self = LogTable { posted_row: last, last, posted, head: posted, ..LogTable::default() };
    }

    /// The number of bytes that wait to be posted.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if at least `due` bytes wait and no full disk forbids an attempt yet.
    pub(super) fn is_due(&self, due: usize) -> bool {
        !self.groups.is_empty() && self.bytes >= due.max(self.patience)
    }

    /// The disk was full: posting is tried again when half as many bytes again wait.
    pub(super) fn put_off(&mut self) {
        self.patience = self.bytes + self.bytes / 2;
    }

    /// The last entry of the audit trail.
    pub(super) fn head(&self) -> ChainLink {
        self.head
    }

    /// The last entry of the audit trail that is in its table.
    pub(super) fn posted(&self) -> ChainLink {
        self.posted
    }

    /// The records that are not posted, with the latest change of each.
    pub(super) fn changes(&self) -> Changes<'_> {
        let mut changes = Changes::new();
        for entry in self.entries() {
            match entry {
                Entry::Put { table, key, value } => drop(changes.insert((table, key), Some(value))),
                Entry::Delete { table, key } => drop(changes.insert((table, key), None)),
                Entry::Audit { .. } => {}
            }
        }
        changes
    }

    /// The entries of the audit trail that are not in its table.
    pub(super) fn audit(&self) -> impl Iterator<Item = (ChainLink, &[u8])> {
        let mut link = self.posted;
        let bodies = self.entries().filter_map(|entry| match entry {
            Entry::Audit { body } => Some(body),
            _ => None,
        });
        bodies.map(move |body| {
            link = link.next(body);
            (link, body)
        })
    }

    /// All records of all groups. None is malformed: each was encoded here or verified when it was read.
    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.groups.iter().flat_map(|body| group::entries(body)).flatten()
    }
}

/// The content that tables and log table must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Checkpoint {
    /// Rows of the log table up to this are posted.
    posted_row: i64,
    /// Rows of the log table up to this were written.
    last: i64,
    /// The last entry in the table of the audit trail.
    posted: ChainLink,
}

impl Checkpoint {
    /// Reads it; `None` if the journal has none yet.
    fn read(connection: &Connection) -> Result<Option<Checkpoint>, Error> {
        let sql = "SELECT value FROM meta WHERE name = 'anchor'";
        let found: Option<String> = connection.query_row(sql, (), |row| row.get(0)).optional().map_err(damaged)?;
        let Some(text) = found else { return Ok(None) };
        let wrong = || Error::Damaged(Damage::Pages(format!("the anchor is {text:?}")));
        Checkpoint::parse(&text).map(Some).ok_or_else(wrong)
    }

    fn parse(text: &str) -> Option<Checkpoint> {
        let mut words = text.split(' ');
        let (posted_row, last) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let posted = parse_link(&mut words)?;
        let whole = words.next().is_none() && 0 <= posted_row && posted_row <= last;
        whole.then_some(Checkpoint { posted_row, last, posted })
    }

    /// Writes it, in the transaction that is open.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Checkpoint { posted_row, last, posted } = self;
        let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('anchor', ?1)";
        connection.prepare_cached(sql)?.execute([format!("{posted_row} {last} {}", link_text(posted))]).map(|_| ())
    }

    /// Checks that `found` is the last entry in the table of the audit trail.
    fn holds(&self, found: &ChainLink) -> Result<(), Error> {
        let ChainLink { number, .. } = self.posted;
        if number != found.number {
            let text = format!("{number} entries of the audit trail were posted, and {} are there", found.number);
            return Err(Error::Damaged(Damage::Mixed(text)));
        }
        if self.posted == *found { Ok(()) } else { Err(Error::Damaged(Damage::Audit(number))) }
    }
}

/// A link of the audit trail as text: its number, and its hash in hexadecimal.
pub(super) fn link_text(ChainLink { number, hash }: &ChainLink) -> String {
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{number} {hash}")
}

/// Parses the text of [`link_text`].
pub(super) fn parse_link<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<ChainLink> {
    let (number, digits) = (words.next()?.parse().ok()?, words.next()?.as_bytes());
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (digits.len() == 64).then_some(ChainLink { number, hash })
}

/// The last entry of the audit trail after a group; `None` if the group is malformed.
fn head_after(body: &[u8], head: ChainLink) -> Option<ChainLink> {
    group::entries(body).try_fold(head, |head, entry| match entry? {
        Entry::Audit { body } => Some(head.next(body)),
        _ => Some(head),
    })
}

/// A row's checksum. It covers the row's number, the audit trail up to it and its bytes, so a row of another
/// journal or place fails.
fn checksum(number: i64, before: &ChainLink, body: &[u8]) -> i64 {
    let mut digest = Sha256::new();
    digest.update(number.to_be_bytes());
    digest.update(before.number.to_be_bytes());
    digest.update(before.hash);
    digest.update(body);
    let whole: [u8; 32] = digest.finalize().into();
    i64::from_be_bytes([whole[0], whole[1], whole[2], whole[3], whole[4], whole[5], whole[6], whole[7]])
}
