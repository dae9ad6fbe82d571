//! A connection to the database, used by one thread that waits.
//!
//! Why not the blocking client of the same library: it has no limit on the wait for an answer, and a database that
//! is stopped would hold its callers for ever.

use super::options::{PostgresOptions, reasons};
use super::schema;
use crate::Error;
use std::future::Future;
use std::time::Duration;
use tokio::runtime::{self, Runtime};
use tokio::time::timeout;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A parameter of a statement.
pub(super) type Parameter<'a> = &'a (dyn ToSql + Sync);

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// The connection is lost, or the server did not answer in time: what was under way is made or not.
    Away(String),
    /// The server refused: what was under way is not made.
    Said { code: SqlState, why: String },
}

impl Trouble {
    pub(super) fn of(error: &tokio_postgres::Error) -> Trouble {
        let Some(said) = error.as_db_error() else { return Trouble::Away(reasons(error)) };
        let why = said.message().to_owned();
        // A session that ends, also in the middle of waiting for a standby, is one whose last word is not known. The
        // others are made again with a new session.
        let ends = matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic) | None);
        let again = [
            SqlState::QUERY_CANCELED,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::TOO_MANY_CONNECTIONS,
        ];
        if ends || again.contains(said.code()) {
            return Trouble::Away(why);
        }
        Trouble::Said { code: said.code().clone(), why }
    }

    /// As an error of an action; for reading, where nothing is under way.
    pub(super) fn error(self, what: &str) -> Error {
        let (Trouble::Away(why) | Trouble::Said { why, .. }) = self;
        Error::Failed { what: what.to_owned(), why }
    }
}

/// A connection.
pub(super) struct Session {
    /// Drives the connection during each call.
    runtime: Option<Runtime>,
    client: Client,
    answer: Duration,
    /// The statement of appends, prepared once.
    append: Option<Statement>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Connects to the server that takes writes, and sees to it that what it confirms is durable.
    ///
    /// # Errors
    /// [`Trouble::Away`]; [`Trouble::Said`]: the server's settings lose what it confirms, or it refuses us.
    pub(super) fn open(options: &PostgresOptions) -> Result<Session, Trouble> {
        let away = |error: std::io::Error| Trouble::Away(error.to_string());
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(away)?;
        let connect = async {
            match options.tls() {
                Some(tls) => {
                    let (client, connection) = options.place().connect(MakeRustlsConnect::new(tls.clone())).await?;
                    tokio::spawn(connection);
                    Ok(client)
                }
                None => {
                    let (client, connection) = options.place().connect(NoTls).await?;
                    tokio::spawn(connection);
                    Ok(client)
                }
            }
        };
        let connected = runtime.block_on(async { timeout(options.answer, connect).await });
        let client = match connected {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(Trouble::of_opening(&error)),
            Err(_) => return Err(Trouble::Away("it does not answer".to_owned())),
        };
        let mut session = Session { runtime: Some(runtime), client, answer: options.answer, append: None };
        session.settle()?;
        Ok(session)
    }

    /// The settings of this session, and a look at the server's.
    fn settle(&mut self) -> Result<(), Trouble> {
        // Whoever waits longer counts the connection as lost; what it does then is asked. The planner makes a plan while
        // tables are empty, and keeps it when they are not: only the one by index stays good.
        let patience = self.answer.as_millis();
        let settings = format!(
            "SET synchronous_commit = {}; SET statement_timeout = 0; SET lock_timeout = {patience}; \
             SET idle_in_transaction_session_timeout = {patience}; SET enable_seqscan = off; SET enable_hashjoin = off; \
             SET enable_mergejoin = off; SET client_min_messages = warning",
            match self.one("SHOW synchronous_commit", &[])?.as_deref() {
                Some("remote_apply") => "remote_apply",
                // Not `off`, `local` or `remote_write`, under which a failover loses what was confirmed.
                _ => "on",
            }
        );
        self.batch(&settings)?;
        for name in ["fsync", "full_page_writes"] {
            if self.one(&format!("SHOW {name}"), &[])?.as_deref() != Some("on") {
                let why = format!(
                    "the server has {name} off, and loses what it confirmed when its machine stops: turn it on"
                );
                return Err(Trouble::Said { code: SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, why });
            }
        }
        Ok(())
    }

    fn one(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Option<String>, Trouble> {
        Ok(self.query(sql, parameters)?.first().map(|row| row.get(0)))
    }

    /// The rows of a query.
    pub(super) fn query(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Trouble> {
        self.wait(self.client.query(sql, parameters))
    }

    /// The rows of the statement of appends, which is prepared once.
    pub(super) fn append(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Trouble> {
        let statement = match self.append.take() {
            Some(statement) => statement,
            None => self.wait(self.client.prepare(sql))?,
        };
        let rows = self.wait(self.client.query(&statement, parameters));
        self.append = Some(statement);
        rows
    }

    /// Runs statements without results.
    pub(super) fn batch(&self, sql: &str) -> Result<(), Trouble> {
        self.wait(self.client.batch_execute(sql))
    }

    /// Brings the tables to the present format.
    ///
    /// # Errors
    /// [`Error::Newer`], or the database failed.
    pub(super) fn migrate(&self) -> Result<Result<(), Error>, Trouble> {
        schema::migrate(self)
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Trouble> {
        let Some(runtime) = &self.runtime else { return Err(Trouble::Away("the connection is closed".to_owned())) };
        match runtime.block_on(async { timeout(self.answer, work).await }) {
            Ok(done) => done.map_err(|error| Trouble::of(&error)),
            Err(_) => Err(Trouble::Away("it did not answer in time".to_owned())),
        }
    }
}

impl Trouble {
    /// At an opening a server that refuses us by name or password will do so again; one that starts will not.
    fn of_opening(error: &tokio_postgres::Error) -> Trouble {
        let Some(said) = error.as_db_error() else { return Trouble::Away(reasons(error)) };
        let (code, why) = (said.code().clone(), said.message().to_owned());
        match code.code().starts_with("28") || code == SqlState::INVALID_CATALOG_NAME {
            true => Trouble::Said { code, why },
            false => Trouble::Away(why),
        }
    }
}

impl Drop for Session {
    /// Returns at once, also where others wait for this thread.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The words for a process that took over and does not say who it is.
pub(super) const SOMEBODY: &str = "another process, or the database is an older copy of itself";

/// A number as the database has it. They count from 1 and never come near the limit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
