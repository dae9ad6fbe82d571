//! PostgreSQL as the journal: a database that several processes share, of which one leads.
//!
//! Each journal has one row that says who leads: its epoch, and until when its lease lasts by the database's own
//! clock. A process that takes it over raises the epoch. Every append changes that row in its own transaction,
//! and only if it still has the appender's epoch and the number of the batch before: an append of a leader that
//! was taken over, or a repeated one, writes nothing. So the lease decides only how soon another takes over; that
//! no two write is decided by the row.
//!
//! Why a lease of time and not only a lock of the session: a lock falls when the server notices the end of a
//! connection. It does not notice a stopped process or a cut network, for minutes. The leader has such a lock as well:
//! where its process is killed, the others see that and need not wait for the end of the lease.
//!
//! When the connection is lost at a commit, it is not known whether it was made. The row is asked, after whatever
//! still works on it: it has the number of the last batch.

mod candidate;
mod commit;
mod keeper;
mod lease;
mod options;
mod read;
mod schema;
mod session;

pub use candidate::{JournalCandidate, Leadership};
pub use lease::Lease;
pub use options::{DatabaseTls, PostgresOptions};

use crate::{Batch, ChainLink, Error, Store, Visit};
use keeper::Keeper;
use session::{Session, Trouble};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause between two attempts at a database that does not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// A journal in PostgreSQL, of which this process is the leader.
#[derive(Debug)]
pub struct Postgres {
    options: Arc<PostgresOptions>,
    session: Option<Session>,
    /// The number of the journal's row.
    journal: i64,
    epoch: i64,
    /// The number of the last batch.
    batch: i64,
    head: ChainLink,
    /// The last audit entry that was deleted.
    begins: ChainLink,
    lease: Arc<Lease>,
    /// Dropped last: it gives the lease back.
    _keeper: Keeper,
    /// The reason why nothing more is written.
    dead: Option<Error>,
}

impl Postgres {
    /// The lease, which this renews until it is dropped.
    pub fn lease(&self) -> Arc<Lease> {
        self.lease.clone()
    }

    /// A session; opened again if it was lost.
    fn session(&mut self) -> Result<&Session, Trouble> {
        if self.session.is_none() {
            self.session = Some(Session::open(&self.options)?);
        }
        self.session.as_ref().ok_or_else(|| Trouble::Away("there is no connection".to_owned()))
    }

    /// Works with the database; a lost connection is opened again, as long as patience lasts.
    fn patiently<T>(&mut self, what: &str, work: impl Fn(&Session) -> Result<T, Trouble>) -> Result<T, Error> {
        let begun = Instant::now();
        loop {
            match self.session().and_then(&work) {
                Ok(done) => return Ok(done),
                Err(Trouble::Said { why, .. }) => return Err(Error::Failed { what: what.to_owned(), why }),
                Err(Trouble::Away(why)) => {
                    self.session = None;
                    if begun.elapsed() >= self.options.patience {
                        return Err(Error::Failed { what: what.to_owned(), why });
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Records that nothing more is written.
    fn dies(&mut self, error: Error) -> Error {
        if let Error::Deposed(leader) = &error {
            self.lease.lose(leader);
        }
        self.dead = Some(error.clone());
        error
    }

    fn is_alive(&self) -> Result<(), Error> {
        self.dead.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Store for Postgres {
    fn commit(&mut self, batches: &mut dyn Iterator<Item = &Batch>) -> Result<(), Error> {
        self.is_alive()?;
        commit::commit(self, batches)
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<(), Error> {
        read::scan(self, visit)
    }

    fn audit(&mut self, from: u64, most: u64, visit: &mut dyn FnMut(&ChainLink, &[u8])) -> Result<(), Error> {
        read::audit(self, from.max(1), most, visit)
    }

    fn tidy(&mut self, idle: bool) -> Result<(), Error> {
        self.is_alive()?;
        if idle { commit::shorten(self) } else { Ok(()) }
    }

    fn epoch(&self) -> u64 {
        self.epoch.unsigned_abs()
    }

    fn head(&self) -> ChainLink {
        self.head
    }
}
