//! The bookings in the agent: configuration (resources, policy), journal, calls on the
//! local socket.
//!
//! The node owns the engine; this module carries out what it says. Batches go to the journal's thread, which
//! fires a notifier when they are on the disk, so that signalling never waits for a disk. Orders for
//! processors, disks and licences go to [`crate::enforce`]. Answers and events go to the connections that wait
//! for them.

mod answer;
mod audit;
pub mod broker_file;
pub mod convert;
pub(crate) mod coordinators;
mod follow;
pub mod journal;
mod may;
pub mod policy_file;
pub mod question;
pub mod resources;
pub mod shown;
pub(crate) mod sight;
mod turn;

use crate::config::AgentConfig;
use crate::enforce::Enforcers;
use crate::start::StartError;
use booking::JournalRecord;
use booking::io::CalendarOffset;
use coordinators::Coordinators;
use follow::Followers;
use journal::JournalHandle;
pub(crate) use sight::LocalPolicy;
use std::collections::BTreeMap;
use terms::Time;

/// The surroundings of the bookings.
pub(crate) struct Book {
    /// Brokers on other machines that may speak for others.
    pub(crate) brokers: Vec<String>,
    pub(crate) enforcers: Enforcers,
    pub(crate) desk: JournalHandle,
    pub(crate) coordinators: Coordinators,
    /// Calls that wait for an answer.
    calls: BTreeMap<u64, answer::Waiting>,
    next_call: u64,
    followers: Followers,
    pub(crate) clock: CalendarOffset,
    /// Records of the journal, kept until the engine has been told.
    found: Vec<JournalRecord>,
    /// The reason why the journal can no longer be written.
    pub(crate) broken: Option<String>,
}

impl Book {
    /// Opens the journal and reads it; [`Drive::begin_book`] tells the engine.
    ///
    /// # Errors
    /// The journal, the file of policy, or what an earlier agent left cannot be used.
    pub(crate) fn open(config: &AgentConfig) -> Result<(Book, LocalPolicy), StartError> {
        let (policy, brokers) = LocalPolicy::load(config).map_err(StartError::Policy)?;
        let (desk, found) = JournalHandle::open(config)?;
        let coordinators = Coordinators::start(&config.brokers, config.listen.as_ref().map(|listen| &listen.files))?;
        let book = Book {
            brokers,
            enforcers: Enforcers::default(), // when the plane has been read
            desk,
            coordinators,
            calls: BTreeMap::new(),
            next_call: 1,
            followers: Followers::default(),
            clock: CalendarOffset::default(),
            found,
            broken: None,
        };
        Ok((book, policy))
    }

    /// The time of day.
    pub(crate) fn calendar(&self, now: Time) -> Time {
        self.clock.calendar(now)
    }

    /// The next time at which an enforcer wants to be woken, by the agent's clock.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.enforcers.wake_at()
    }
}
