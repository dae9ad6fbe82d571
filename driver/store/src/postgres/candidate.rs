//! Who leads: taking the journal over.

use super::keeper::{Keeper, PRESENCE};
use super::lease::Lease;
use super::options::PostgresOptions;
use super::session::{Session, Trouble};
use super::{Postgres, read};
use crate::{ChainLink, Damage, Error};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::Row;

/// How often in a row a leader is not seen at the server before it counts as gone. One that is there and has lost its
/// connection is back sooner.
const UNSEEN: u32 = 4;

/// A process that wants to lead.
#[derive(Debug)]
pub struct JournalCandidate {
    options: Arc<PostgresOptions>,
    /// The name of this candidate, which no other has: a takeover whose answer was lost is recognized by it.
    instance: String,
    session: Option<Session>,
    /// The epoch whose leader was not seen at the server, and how often in a row.
    unseen: (i64, u32),
}

/// The result of an attempt at leading.
#[derive(Debug)]
pub enum Leadership {
    /// We lead.
    Leads(Box<Postgres>),
    /// Another process leads.
    Waits {
        /// Its words about itself.
        leader: String,
        /// The rest of its lease, if it is not renewed.
        left: Duration,
    },
}

impl JournalCandidate {
    /// A candidate; it does not connect yet.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(options: PostgresOptions) -> Result<JournalCandidate, Error> {
        let mut bytes = [0; 16];
        let drawn = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
        drawn.map_err(Error::doing("draw a random name"))?;
        let instance = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(JournalCandidate { options: Arc::new(options), instance, session: None, unseen: (0, 0) })
    }

    /// The pause between two attempts.
    pub fn pause(&self) -> Duration {
        self.options.lease / 8
    }

    /// Takes the journal over if its lease is over.
    ///
    /// # Errors
    /// [`Error::Dead`]: the database does not answer now. Every other error will be the same at the next attempt.
    pub fn attempt(&mut self) -> Result<Leadership, Error> {
        match self.tried() {
            Ok(standing) => standing,
            Err(Trouble::Away(why)) => {
                self.session = None;
                Err(Error::Dead(why))
            }
            Err(said) => {
                self.session = None;
                Err(said.error("take the journal over"))
            }
        }
    }

    fn tried(&mut self) -> Result<Result<Leadership, Error>, Trouble> {
        let options = self.options.clone();
        let (name, length) = (options.journal(), options.lease.as_secs_f64());
        if self.session.is_none() {
            let session = Session::open(&options)?;
            if let Err(error) = session.migrate()? {
                return Ok(Err(error));
            }
            session.query("INSERT INTO sluice.journal (name) VALUES ($1) ON CONFLICT DO NOTHING", &[&name])?;
            self.session = Some(session);
        }
        let Some(session) = &self.session else { return Err(Trouble::Away("there is no connection".to_owned())) };
        // A leader whose process is killed is gone from the server at once, long before its lease is over.
        let looked = "SELECT holder, extract(epoch FROM until - clock_timestamp())::float8, instance, epoch, \
                      EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted \
                              AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                              AND classid = $2::int4::oid AND objid = number::int4::oid) \
                      FROM sluice.journal WHERE name = $1";
        let rows = session.query(looked, &[&name, &PRESENCE])?;
        let Some(row) = rows.first() else {
            // Somebody deleted it; the next attempt makes it.
            return Err(Trouble::Away("the journal's row is gone".to_owned()));
        };
        let (left, instance): (f64, String) = (row.get(1), row.get(2));
        let (epoch, seen): (i64, bool) = (row.get(3), row.get(4));
        self.unseen = match (seen, self.unseen) {
            (true, _) => (epoch, 0),
            (false, (of, count)) if of == epoch => (epoch, count + 1),
            (false, _) => (epoch, 1),
        };
        let gone = self.unseen.1 >= UNSEEN;
        if left > 0.0 && instance != self.instance && !gone {
            return Ok(Ok(Leadership::Waits { leader: row.get(0), left: Duration::from_secs_f64(left.min(86_400.0)) }));
        }
        let begun = Instant::now();
        let take = "UPDATE sluice.journal SET epoch = epoch + 1, holder = $2, instance = $3, \
                    until = clock_timestamp() + make_interval(secs => $4) \
                    WHERE name = $1 AND (until <= clock_timestamp() OR instance = $3 OR ($5 AND epoch = $6)) \
                    RETURNING number, epoch, batch, head_number, head_hash, begins_number, begins_hash";
        let rows = session.query(take, &[&name, &options.holder(), &self.instance, &length, &gone, &epoch])?;
        let Some(row) = rows.first() else {
            return Ok(Ok(Leadership::Waits {
                leader: "another process, since a moment".to_owned(),
                left: options.lease,
            }));
        };
        Ok(self.leads(row, begun).map(|store| Leadership::Leads(Box::new(store))))
    }

    fn leads(&mut self, row: &Row, begun: Instant) -> Result<Postgres, Error> {
        let (journal, epoch): (i64, i64) = (row.get(0), row.get(1));
        let lease = Arc::new(Lease::until_time(begun + self.options.lease));
        let keeper = Keeper::start(self.options.clone(), lease.clone(), journal, epoch)?;
        let mut store = Postgres {
            options: self.options.clone(),
            session: self.session.take(),
            journal,
            epoch,
            batch: row.get(2),
            head: link(row, 3)?,
            begins: link(row, 5)?,
            lease,
            _keeper: keeper,
            dead: None,
        };
        read::tail(&mut store)?;
        Ok(store)
    }
}

/// A link of the audit trail in two columns.
fn link(row: &Row, first: usize) -> Result<ChainLink, Error> {
    let (number, hash): (i64, &[u8]) = (row.get(first), row.get(first + 1));
    let hash = hash.try_into().map_err(|_| Error::Damaged(Damage::Audit(number.unsigned_abs())))?;
    Ok(ChainLink { number: number.unsigned_abs(), hash })
}
