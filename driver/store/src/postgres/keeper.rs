//! Renews the lease from a thread and a connection of its own, so that a long append is no silence.

use super::lease::Lease;
use super::options::PostgresOptions;
use super::session::{SOMEBODY, Session, Trouble};
use crate::Error;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

/// The first half of the number of the lock that shows a leader's presence: the letters `SLJL`. The second is the journal's
/// number.
pub(super) const PRESENCE: i32 = 0x534c_4a4c;

/// The second half.
pub(super) fn presence(journal: i64) -> i32 {
    i32::try_from(journal).unwrap_or(i32::MAX)
}

/// The thread; it gives the lease back when this is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Renewals {
    options: PostgresOptions,
    lease: Arc<Lease>,
    journal: i64,
    epoch: i64,
    session: Option<Session>,
    /// True if this session has the lock that shows its presence.
    shown: bool,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot start one.
    pub(super) fn start(
        options: Arc<PostgresOptions>,
        lease: Arc<Lease>,
        journal: i64,
        epoch: i64,
    ) -> Result<Keeper, Error> {
        let (stop, stopped) = channel();
        // An answer that comes after the lease is over is none.
        let mut options = (*options).clone();
        options.answer = options.lease;
        let mut renewals = Renewals { options, lease, journal, epoch, session: None, shown: false };
        let thread = Builder::new().name("lease".to_owned()).spawn(move || renewals.run(&stopped));
        let thread = thread.map_err(Error::doing("start the thread of the lease"))?;
        Ok(Keeper { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has printed its panic, if it had one.
            let _ = thread.join();
        }
    }
}

impl Renewals {
    fn run(&mut self, stopped: &Receiver<()>) {
        loop {
            let begun = Instant::now();
            match self.renew() {
                Ok(true) => self.lease.renewed(begun + self.options.lease),
                Ok(false) => return self.lease.lose(&self.leader()),
                // It is tried again as long as no other takes over; the holder sees that its lease ends.
                Err(_) => self.session = None,
            }
            // Three more attempts fit before the lease is over.
            match stopped.recv_timeout(self.options.lease / 4) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return self.give_back(),
            }
        }
    }

    fn session(&mut self) -> Result<&Session, Trouble> {
        if self.session.is_none() {
            let session = Session::open(&self.options)?;
            // A renewal that a crash of the server loses is no loss: it need not wait for a disk.
            session.batch("SET synchronous_commit = off")?;
            (self.session, self.shown) = (Some(session), false);
        }
        self.session.as_ref().ok_or_else(|| Trouble::Away("there is no connection".to_owned()))
    }

    fn renew(&mut self) -> Result<bool, Trouble> {
        let (journal, epoch, length) = (self.journal, self.epoch, self.options.lease.as_secs_f64());
        let sql = "UPDATE sluice.journal SET until = clock_timestamp() + make_interval(secs => $3) \
                   WHERE number = $1 AND epoch = $2 RETURNING number";
        let leads = !self.session()?.query(sql, &[&journal, &epoch, &length])?.is_empty();
        if leads && !self.shown {
            // A session before may have it still, until the server notices that it has ended.
            let rows =
                self.session()?.query("SELECT pg_try_advisory_lock($1, $2)", &[&PRESENCE, &presence(journal)])?;
            self.shown = rows.first().is_some_and(|row| row.get(0));
        }
        Ok(leads)
    }

    fn leader(&self) -> String {
        let sql = "SELECT holder FROM sluice.journal WHERE number = $1";
        let rows = self.session.as_ref().map(|session| session.query(sql, &[&self.journal]));
        let row = rows.and_then(Result::ok).and_then(|rows| rows.first().map(|row| row.get(0)));
        row.unwrap_or_else(|| SOMEBODY.to_owned())
    }

    /// An orderly end: the next need not wait.
    fn give_back(&mut self) {
        let (journal, epoch) = (self.journal, self.epoch);
        let sql = "UPDATE sluice.journal SET until = to_timestamp(0) WHERE number = $1 AND epoch = $2";
        if let Ok(session) = self.session() {
            // If it fails, the next waits until the lease is over.
            let _ = session.query(sql, &[&journal, &epoch]);
        }
    }
}
